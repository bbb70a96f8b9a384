#include "envs/gymnasium/game.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/wire/wire.h"
#include "envs/gymnasium/bridge.h"
#include "envs/gymnasium/numbers.h"
#include "envs/gymnasium/tensors.h"

struct game {
  PyObject *env, *step, *reset;
  PyObject *seed_name;    /* ("seed",) */
  PyObject **action;      /* (num_actions), what step gets */
  long long first_action; /* what 0 stands for */
  int num_actions;        /* 0: actions are a box or several choices */
  int num_numbers;        /* of an action that is a box, or 0 */
  float low[ACORN_MAX_BOX], high[ACORN_MAX_BOX];
  int num_choices, among[ACORN_MAX_CHOICES];
  PyObject *action_of; /* makes what step gets of the numbers of a box or the choices */
  struct leaf leaf[ACORN_MAX_TENSORS];
  int num_leaves;
  struct numbers numbers;
};

/* ---- make */

static int read_leaves(struct game *game, PyObject *leaves) {
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(leaves); i++) {
    if (leaf_init(&game->leaf[i], PyList_GET_ITEM(leaves, i))) return -1;
    game->num_leaves++;
  }
  return 0;
}

static int make_actions(struct game *game) {
  game->action = calloc((size_t)game->num_actions, sizeof *game->action);
  for (int i = 0; game->action && i < game->num_actions; i++) {
    game->action[i] = PyLong_FromLongLong(game->first_action + i);
    if (!game->action[i]) return -1;
  }
  return game->action ? 0 : -1;
}

/* box, choices: as spaces.py's box_of and choices_made give them, or None. */
static int read_made(struct game *game, PyObject *box, PyObject *choices) {
  const char *low = "", *high = "", *among = "";
  Py_ssize_t low_bytes = 0, high_bytes = 0, among_bytes = 0;
  PyObject *action_of = NULL;
  if (box != Py_None &&
      !PyArg_ParseTuple(box, "y#y#O", &low, &low_bytes, &high, &high_bytes, &action_of))
    return -1;
  if (choices != Py_None && !PyArg_ParseTuple(choices, "y#O", &among, &among_bytes, &action_of))
    return -1;
  game->num_numbers = (int)low_bytes / (int)sizeof(float);
  game->num_choices = (int)among_bytes / (int)sizeof(int32_t);
  memcpy(game->low, low, (size_t)low_bytes);
  memcpy(game->high, high, (size_t)high_bytes);
  memcpy(game->among, among, (size_t)among_bytes);
  game->action_of = Py_XNewRef(action_of);
  return 0;
}

/* With Python's lock. -1 with an exception set. */
static int make(struct game *game, const struct acorn_config *config) {
  int renders = config->struct_bytes > offsetof(struct acorn_config, renders) && config->renders;
  PyObject *made = PyObject_CallFunction(
      interpreter_adapter("make"), "ssiiiizi", bridged_word(config),
      config->json ? config->json : "{}", renders, SPACE_MAX_DISCRETE, SPACE_MAX_BOX,
      SPACE_MAX_CHOICES, getenv("ACORN_MODULE"), getenv("ACORN_QUIET") != NULL);
  PyObject *env, *leaves, *box, *choices;
  int failed = !made || !PyArg_ParseTuple(made, "OO!LiOO", &env, &PyList_Type, &leaves,
                                          &game->first_action, &game->num_actions, &box, &choices);
  if (!failed) {
    game->env = Py_NewRef(env);
    game->step = PyObject_GetAttrString(env, "step");
    game->reset = PyObject_GetAttrString(env, "reset");
    game->seed_name = Py_BuildValue("(s)", "seed");
    failed = !game->step || !game->reset || !game->seed_name || read_leaves(game, leaves) ||
             make_actions(game) || read_made(game, box, choices);
  }
  Py_XDECREF(made);
  return failed ? -1 : 0;
}

static void close_env(PyObject *env) {
  PyObject *result = PyObject_CallMethod(env, "close", NULL);
  char text[256];
  if (!result) interpreter_error(text, sizeof text); // the traceback is enough
  Py_XDECREF(result);
}

static void unmake(struct game *game) {
  if (game->env) close_env(game->env);
  for (int i = 0; game->action && i < game->num_actions; i++) Py_XDECREF(game->action[i]);
  free(game->action);
  for (int i = 0; i < game->num_leaves; i++) leaf_deinit(&game->leaf[i]);
  numbers_deinit(&game->numbers);
  Py_XDECREF(game->action_of);
  Py_XDECREF(game->step);
  Py_XDECREF(game->reset);
  Py_XDECREF(game->seed_name);
  Py_XDECREF(game->env);
  free(game);
}

static void game_destroy(void *self) {
  interpreter_enter();
  unmake(self);
  interpreter_leave();
}

static void *game_create(const struct acorn_config *config, char *error, size_t error_bytes) {
  struct game *game = calloc(1, sizeof *game);
  if (!game) return NULL;
  interpreter_enter();
  if (make(game, config)) {
    interpreter_error(error, error_bytes);
    unmake(game);
    game = NULL;
  }
  interpreter_leave();
  return game;
}

/* ---- play */

/* result: what reset or step has returned. */
static int write_row(struct game *game, PyObject *result, struct acorn_row *row) {
  for (int i = 0; i < game->num_leaves; i++)
    if (leaf_write(&game->leaf[i], result, row->observation[i])) return -1;
  return 0;
}

static int expect_tuple(PyObject *result, Py_ssize_t size, const char *what) {
  if (PyTuple_Check(result) && PyTuple_GET_SIZE(result) == size) return 0;
  PyErr_Format(PyExc_TypeError, "it is no environment of Gymnasium 1: %s", what);
  return -1;
}

/* Gymnasium's environments take any whole number of 64 bits; what wraps them (numpy's old
 * generators, simulators) often takes 31. */
static PyObject *call_reset(struct game *game, const uint64_t *seed) {
  if (!seed) return PyObject_CallNoArgs(game->reset);
  PyObject *number = PyLong_FromUnsignedLongLong(*seed & 0x7fffffffu);
  PyObject *result = number ? PyObject_Vectorcall(game->reset, &number, 0, game->seed_name) : NULL;
  Py_XDECREF(number);
  return result;
}

static int read_reset(struct game *game, PyObject *result, struct acorn_row *row) {
  return expect_tuple(result, 2, "reset does not return (observation, info)") ||
         write_row(game, result, row);
}

static int reset(struct game *game, const uint64_t *seed, struct acorn_row *row) {
  PyObject *result = call_reset(game, seed);
  int failed = !result || read_reset(game, result, row);
  Py_XDECREF(result);
  return failed ? -1 : 0;
}

static int game_reset(void *self, const uint64_t *seed, struct acorn_row *row, char *error,
                      size_t error_bytes) {
  interpreter_enter();
  int failed = reset(self, seed, row) ? interpreter_error(error, error_bytes) : 0;
  interpreter_leave();
  return failed;
}

static int read_reward(float *reward, PyObject *value) {
  *reward = (float)PyFloat_AsDouble(value);
  if (PyErr_ExceptionMatches(PyExc_TypeError)) {
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError, "the reward must be a real number, not %s",
                 Py_TYPE(value)->tp_name);
  }
  return PyErr_Occurred() ? -1 : 0;
}

/* 1 for True, 0 for False, -1 for what is neither: Python's, 0 and 1, and by the buffer protocol
 * numpy's. What else Python takes for true ("False" is) would be a slip in the environment. */
static int truth_of(PyObject *value) {
  if (PyBool_Check(value)) return value == Py_True;
  Py_ssize_t number = PyIndex_Check(value) ? PyNumber_AsSsize_t(value, NULL) : -1;
  if (number == 0 || number == 1) return (int)number;
  PyErr_Clear();
  Py_buffer buffer;
  int truth = -1;
  if (PyObject_GetBuffer(value, &buffer, PyBUF_FULL_RO)) return truth;
  if (buffer.len == 1 && buffer.format && strcmp(buffer.format, "?") == 0)
    truth = *(const unsigned char *)buffer.buf != 0;
  PyBuffer_Release(&buffer);
  return truth;
}

static int read_end(int *end, PyObject *value, const char *name) {
  *end = truth_of(value);
  if (*end >= 0) return 0;
  PyErr_Clear();
  PyErr_Format(PyExc_TypeError, "'%s' must be True or False, not %.60R (%s)", name, value,
               Py_TYPE(value)->tp_name);
  return -1;
}

static int read_step(struct game *game, PyObject *result, struct acorn_row *row) {
  if (expect_tuple(result, 5,
                   "step does not return (observation, reward, terminated, truncated, info)") ||
      write_row(game, result, row) || read_reward(&row->reward, PyTuple_GET_ITEM(result, 1)) ||
      read_end(&row->terminated, PyTuple_GET_ITEM(result, 2), "terminated") ||
      read_end(&row->truncated, PyTuple_GET_ITEM(result, 3), "truncated"))
    return -1;
  bool ended = row->terminated || row->truncated;
  return ended ? numbers_read(&game->numbers, PyTuple_GET_ITEM(result, 4), row) : 0;
}

/* NULL with an exception set. action: of the space. */
static PyObject *call_step(struct game *game, const void *action) {
  if (game->num_actions)
    return PyObject_CallOneArg(game->step, game->action[*(const int32_t *)action]);
  Py_ssize_t bytes = (game->num_numbers + game->num_choices) * (Py_ssize_t)sizeof(float);
  PyObject *made = PyObject_CallFunction(game->action_of, "y#", (const char *)action, bytes);
  PyObject *result = made ? PyObject_CallOneArg(game->step, made) : NULL;
  Py_XDECREF(made);
  return result;
}

static int game_step(void *self, const void *action, struct acorn_row *row, char *error,
                     size_t error_bytes) {
  struct game *game = self;
  interpreter_enter();
  PyObject *result = call_step(game, action);
  int failed = !result || read_step(game, result, row);
  Py_XDECREF(result);
  if (failed) interpreter_error(error, error_bytes);
  interpreter_leave();
  return failed ? -1 : 0;
}

/* ---- space */

/* Strings of a space live as long as the process. */
static const char *keep(const char *text) {
  char *copy = strdup(text);
  return copy ? copy : "";
}

static void describe(struct acorn_space *space, const struct game *game) {
  space->num_tensors = game->num_leaves;
  for (int i = 0; i < game->num_leaves; i++) {
    space->tensor[i] = game->leaf[i].tensor;
    space->tensor[i].name = keep(game->leaf[i].name);
  }
  space->discrete = game->num_actions;
  space->box = game->num_numbers;
  memcpy(space->low, game->low, sizeof game->low);
  memcpy(space->high, game->high, sizeof game->high);
  if (space->struct_bytes < sizeof *space) return; /* of an Acorn that knows no choices */
  space->choices = game->num_choices;
  memcpy(space->among, game->among, sizeof game->among);
}

/* Of a discrete action the first that the row's mask allows, of each choice. */
static void first_allowed(int32_t action[ACORN_MAX_CHOICES], const struct game *game,
                          const struct acorn_row *row) {
  const uint8_t *mask = NULL;
  int choices = game->num_choices ? game->num_choices : 1;
  for (int i = 0; i < game->num_leaves; i++)
    if (game->leaf[i].is_mask) mask = row->observation[i];
  for (int c = 0; c < choices; c++) {
    int among = game->num_choices ? game->among[c] : game->num_actions, a = 0;
    while (mask && a < among - 1 && !mask[a]) a++;
    if (mask) mask += among;
    action[c] = a;
  }
}

/* -1 with an exception set. */
static int play_one_step(struct game *game, struct acorn_row *row) {
  static const uint64_t seed;
  PyObject *first = call_reset(game, &seed), *second = NULL;
  int failed = !first || read_reset(game, first, row);
  if (!failed) {
    int32_t action[ACORN_MAX_CHOICES];
    first_allowed(action, game, row);
    second = call_step(game, game->num_numbers ? (const void *)game->low : action);
    failed = !second || read_step(game, second, row);
  }
  Py_XDECREF(first);
  Py_XDECREF(second);
  return failed ? -1 : 0;
}

static size_t bytes_of(const struct acorn_tensor *tensor) {
  size_t bytes = tensor->dtype == ACORN_UINT8 ? 1 : 4;
  for (int d = 0; d < tensor->rank; d++) bytes *= (size_t)tensor->shape[d];
  return bytes;
}

/* A mistake in the program of the environment is found here, before a run: in its actors it would
 * fail again and again. Other failures may be of the moment and are left to them. */
static int has_mistake(struct game *game) {
  void *tensor[ACORN_MAX_TENSORS] = {NULL};
  bool has_room = true;
  for (int i = 0; i < game->num_leaves; i++) {
    tensor[i] = malloc(bytes_of(&game->leaf[i].tensor) + 1);
    has_room = has_room && tensor[i];
  }
  struct acorn_row row = {.struct_bytes = sizeof row, .observation = tensor};
  int failed = has_room && play_one_step(game, &row);
  for (int i = 0; i < game->num_leaves; i++) free(tensor[i]);
  if (failed && PyErr_ExceptionMatches(interpreter_adapter("MISTAKES"))) return 1;
  PyErr_Clear();
  return 0;
}

/* Whether the environment looks otherwise than it was made, because its info has a mask. */
static bool has_unknown_mask(const struct game *game, const struct acorn_config *config) {
  interpreter_enter();
  PyObject *found = PyObject_CallFunction(interpreter_adapter("find_mask"), "Os", game->env,
                                          bridged_word(config));
  bool has = found == Py_True;
  Py_XDECREF(found);
  PyErr_Clear();
  interpreter_leave();
  return has;
}

static int game_space(struct acorn_space *space, const struct acorn_config *config, char *error,
                      size_t error_bytes) {
  struct game *game = game_create(config, error, error_bytes);
  if (game && has_unknown_mask(game, config)) {
    game_destroy(game);
    game = game_create(config, error, error_bytes);
  }
  if (!game) return -1;
  describe(space, game);
  interpreter_enter();
  int failed = !getenv("ACORN_QUIET") && has_mistake(game);
  if (failed) interpreter_error(error, error_bytes);
  unmake(game);
  interpreter_leave();
  return failed ? -1 : 0;
}

/* ---- for people */

/* What the environment's own render gives; the array is not kept. -1 with an exception set. */
static int draw(struct game *game, struct acorn_picture *picture) {
  PyObject *shown = PyObject_CallOneArg(interpreter_adapter("picture"), game->env);
  Py_buffer pixels;
  int failed = !shown || (shown != Py_None && PyObject_GetBuffer(shown, &pixels, PyBUF_ND));
  if (!failed && shown != Py_None) {
    int height = (int)pixels.shape[0], width = (int)pixels.shape[1];
    failed = picture->pixels && (height != picture->height || width != picture->width);
    if (failed)
      PyErr_Format(PyExc_ValueError, "its picture was %d x %d and is now %d x %d", picture->width,
                   picture->height, width, height);
    else if (picture->pixels)
      memcpy(picture->pixels, pixels.buf, (size_t)pixels.len);
    picture->width = width;
    picture->height = height;
    PyBuffer_Release(&pixels);
  }
  Py_XDECREF(shown);
  return failed ? -1 : 0;
}

static int game_render(void *self, struct acorn_picture *picture, char *error, size_t error_bytes) {
  interpreter_enter();
  int failed = draw(self, picture) ? interpreter_error(error, error_bytes) : 0;
  interpreter_leave();
  return failed;
}

const struct acorn_env game_functions = {
    .abi = ACORN_ENV_ABI,
    .struct_bytes = sizeof(struct acorn_env),
    .about = "an environment in Python",
    .any_option = 1,
    .space = game_space,
    .create = game_create,
    .reset = game_reset,
    .step = game_step,
    .destroy = game_destroy,
    .render = game_render,
};
