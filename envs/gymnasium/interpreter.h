/* The Python interpreter of this process: there is one, started by the first environment that needs
 * it and never ended. It keeps to the virtual environment that scripts/setup.sh makes, or to the
 * one that ACORN_PYTHON names.
 * Upstream: the other files of this folder. Thread: any; between interpreter_enter and
 * interpreter_leave the thread holds Python's lock, and only then may it touch Python's objects. */
#ifndef ACORN_ENVS_GYMNASIUM_INTERPRETER_H
#define ACORN_ENVS_GYMNASIUM_INTERPRETER_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stddef.h>

/* Starts it if it does not run yet, and loads adapter.py. 0, or -1 with a sentence.
 * Thread: main, before others. */
int interpreter_start(char *error, size_t error_bytes);

void interpreter_enter(void);
void interpreter_leave(void);

/* A function or class of adapter.py; borrowed. */
PyObject *interpreter_adapter(const char *name);

/* Takes the present exception: its last line becomes the sentence. The traceback goes to stderr,
 * unless the exception is an adapter's Refusal, which says all there is to say.
 * Returns -1. */
int interpreter_error(char *error, size_t error_bytes);

#endif
