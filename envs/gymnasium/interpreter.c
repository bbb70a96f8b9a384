#include "envs/gymnasium/interpreter.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "envs/bridge.h"

/* The texts of this folder's modules, each with a terminating zero. */
#define TEXT(name)                                                             \
  __asm__(".section .rodata\n" #name "_text:\n.incbin \"envs/gymnasium/" #name \
          ".py\"\n.byte 0\n.previous\n");                                      \
  extern const char name##_text[]
TEXT(packages);
TEXT(spaces);
TEXT(atari);
TEXT(simulators);
TEXT(adapter);

/* A process has one interpreter, and each thread one state in it. */
static PyObject *adapter;
static _Thread_local PyThreadState *thread_state;

/* ---- the lock */

/* The first time a thread comes its state is made and kept: making one at every step takes longer
 * than the step of a small environment. */
void interpreter_enter(void) {
  if (acorn_bridge_waits) acorn_bridge_waits(1);
  if (thread_state) {
    PyEval_RestoreThread(thread_state);
  } else {
    PyGILState_Ensure();
    thread_state = PyThreadState_Get();
  }
  if (acorn_bridge_waits) acorn_bridge_waits(0);
}

void interpreter_leave(void) {
  PyEval_SaveThread();
}

/* ---- start */

/* The program whose packages are used: ACORN_PYTHON, .venv beside the build folder, or "" for the
 * system's. */
static void find_python(char *path, size_t bytes) {
  const char *chosen = getenv("ACORN_PYTHON");
  char here[PATH_MAX];
  ssize_t length = readlink("/proc/self/exe", here, sizeof here - 1);
  here[length > 0 ? length : 0] = '\0';
  snprintf(path, bytes, "%s", chosen ? chosen : "");
  // From build/actor, and from the programs of tests, which lie deeper.
  enum { FOLDERS = 6 };
  for (int up = 0; !path[0] && up < FOLDERS; up++) {
    char *slash = strrchr(here, '/');
    if (!slash) break;
    *slash = '\0';
    snprintf(path, bytes, "%s/.venv/bin/python", here);
    if (access(path, X_OK) != 0) path[0] = '\0';
  }
}

static PyStatus initialize(const char *python) {
  PyConfig config;
  PyConfig_InitPythonConfig(&config);
  config.install_signal_handlers = 0; // signals are the program's
  config.parse_argv = 0;
  PyStatus status = PyStatus_Ok();
  if (python[0]) status = PyConfig_SetBytesString(&config, &config.program_name, python);
  if (!PyStatus_Exception(status)) status = Py_InitializeFromConfig(&config);
  PyConfig_Clear(&config);
  return status;
}

#define MODULE(name) \
  { "acorn_" #name, "envs/gymnasium/" #name ".py", name##_text }

/* adapter.py, after those that it imports. */
static PyObject *load_adapter(void) {
  static const struct {
    const char *name, *file, *text;
  } modules[] = {MODULE(packages), MODULE(spaces), MODULE(atari), MODULE(simulators),
                 MODULE(adapter)};
  PyObject *module = NULL;
  for (size_t i = 0; i < sizeof modules / sizeof *modules; i++) {
    PyObject *code = Py_CompileString(modules[i].text, modules[i].file, Py_file_input);
    Py_XSETREF(module, code ? PyImport_ExecCodeModule(modules[i].name, code) : NULL);
    Py_XDECREF(code);
    if (!module) break;
  }
  return module;
}

int interpreter_start(char *error, size_t error_bytes) {
  if (adapter) return 0;
  // A process steps environments on one core; numpy would start a thread for each.
  setenv("OPENBLAS_NUM_THREADS", "1", 0);
  char python[PATH_MAX + 32];
  find_python(python, sizeof python);
  const char *chosen = getenv("ACORN_PYTHON");
  if (chosen && chosen[0] && access(chosen, X_OK) != 0) {
    snprintf(error, error_bytes,
             "ACORN_PYTHON is %s, and no program is there (%s): name the bin/python of a virtual "
             "environment, or unset it to use .venv",
             chosen, strerror(errno));
    return -1;
  }
  bool runs = Py_IsInitialized();
  PyStatus status = runs ? PyStatus_Ok() : initialize(python);
  if (PyStatus_Exception(status)) {
    snprintf(error, error_bytes,
             "Python %s cannot start with %s: %s; scripts/setup.sh gym installs what is needed",
             PY_VERSION, python[0] ? python : "the system's packages",
             status.err_msg ? status.err_msg : "it gives no reason");
    return -1;
  }
  if (runs)
    interpreter_enter();
  else
    thread_state = PyThreadState_Get();
  adapter = load_adapter();
  int result = adapter ? 0 : interpreter_error(error, error_bytes);
  interpreter_leave();
  return result;
}

PyObject *interpreter_adapter(const char *name) {
  // Not a new reference: the module keeps it.
  return PyDict_GetItemString(PyModule_GetDict(adapter), name);
}

/* ---- exceptions */

int interpreter_error(char *error, size_t error_bytes) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (value && traceback) PyException_SetTraceback(value, traceback);
  PyObject *function = adapter ? interpreter_adapter("explain") : NULL;
  PyObject *text = function && value ? PyObject_CallOneArg(function, value) : NULL;
  if (!text && value) text = PyObject_Str(value); // adapter.py itself is not there
  // Not every text of Python's is UTF-8: names of files may hold lone surrogates.
  PyObject *bytes = text ? PyUnicode_AsEncodedString(text, "utf-8", "backslashreplace") : NULL;
  const char *words = bytes ? PyBytes_AsString(bytes) : NULL;
  snprintf(error, error_bytes, "%s", words ? words : "Python failed and gave no reason");
  PyErr_Clear();
  Py_XDECREF(bytes);
  Py_XDECREF(text);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
  return -1;
}
