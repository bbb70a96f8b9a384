#include "learner/episodes/numbers.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"

/* The last `room` values of a number, in a ring. */
struct ring {
  double *value; /* (room), made with the first one */
  int64_t count;
};

struct numbers {
  int room[2]; /* of training, of evaluation */
  int count;
  char name[NUMBERS_MAX][WIRE_NUMBER_NAME_BYTES];
  struct ring ring[NUMBERS_MAX][2];
  char dropped[WIRE_NUMBER_NAME_BYTES]; /* the first one; "": none */
};

struct numbers *numbers_create(int room, int eval_room) {
  struct numbers *numbers = check_alloc(1, sizeof(*numbers));
  numbers->room[false] = room;
  numbers->room[true] = eval_room;
  return numbers;
}

void numbers_destroy(struct numbers *numbers) {
  if (!numbers) return;
  for (int i = 0; i < numbers->count; i++) {
    free(numbers->ring[i][false].value);
    free(numbers->ring[i][true].value);
  }
  free(numbers);
}

/* common/metrics/prometheus.c makes '_' of all but letters and digits. */
static bool is_same(const char *a, const char *b) {
  for (; *a && *b; a++, b++)
    if (*a != *b && (isalnum((unsigned char)*a) || isalnum((unsigned char)*b))) return false;
  return *a == *b;
}

static int drop(struct numbers *numbers, const char *name) {
  if (!numbers->dropped[0]) memcpy(numbers->dropped, name, WIRE_NUMBER_NAME_BYTES);
  return -1;
}

/* The column of that name; a new one if there is room for it and no other like it, else -1. */
static int column_of(struct numbers *numbers, const char *name) {
  for (int i = 0; i < numbers->count; i++)
    if (is_same(numbers->name[i], name))
      return strcmp(numbers->name[i], name) == 0 ? i : drop(numbers, name);
  if (numbers->count == NUMBERS_MAX) return drop(numbers, name);
  memcpy(numbers->name[numbers->count], name, WIRE_NUMBER_NAME_BYTES);
  return numbers->count++;
}

static void ring_add(struct ring *ring, int room, double value) {
  if (!ring->value) ring->value = check_alloc((size_t)room, sizeof(double));
  ring->value[ring->count++ % room] = value;
}

void numbers_add(struct numbers *numbers, bool eval, const struct wire_number *number, int count,
                 double value[NUMBERS_MAX]) {
  for (int i = 0; i < NUMBERS_MAX; i++) value[i] = NAN;
  for (int i = 0; i < count; i++) {
    if (!isfinite(number[i].value)) continue;
    int column = column_of(numbers, number[i].name);
    if (column < 0) continue;
    value[column] = number[i].value;
    ring_add(&numbers->ring[column][eval], numbers->room[eval], number[i].value);
  }
}

int numbers_count(const struct numbers *numbers) {
  return numbers->count;
}

const char *numbers_name(const struct numbers *numbers, int column) {
  return numbers->name[column];
}

double numbers_mean(const struct numbers *numbers, bool eval, int column) {
  const struct ring *ring = &numbers->ring[column][eval];
  int n = ring->count < numbers->room[eval] ? (int)ring->count : numbers->room[eval];
  long double sum = 0;
  for (int i = 0; i < n; i++) sum += ring->value[i];
  return n ? (double)(sum / n) : NAN;
}

const char *numbers_dropped(const struct numbers *numbers) {
  return numbers->dropped[0] ? numbers->dropped : NULL;
}
