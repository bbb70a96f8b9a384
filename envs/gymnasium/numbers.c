#include "envs/gymnasium/numbers.h"

static int read_list(struct numbers *numbers, struct acorn_row *row) {
  Py_ssize_t count = PyList_GET_SIZE(numbers->kept);
  for (Py_ssize_t i = 0; i < count && i < ACORN_MAX_MORE_NUMBERS; i++) {
    struct acorn_number *number = &numbers->number[i];
    if (!PyArg_ParseTuple(PyList_GET_ITEM(numbers->kept, i), "sd", &number->name, &number->value))
      return -1;
    row->num_more_numbers++;
  }
  row->more_numbers = numbers->number;
  return 0;
}

int numbers_read(struct numbers *numbers, PyObject *info, struct acorn_row *row) {
  /* A program from before there were more numbers than four. */
  if (row->struct_bytes <= offsetof(struct acorn_row, more_numbers)) return 0;
  Py_CLEAR(numbers->kept);
  numbers->kept = PyObject_CallOneArg(interpreter_adapter("numbers"), info);
  return numbers->kept ? read_list(numbers, row) : -1;
}

void numbers_deinit(struct numbers *numbers) {
  Py_CLEAR(numbers->kept);
}
