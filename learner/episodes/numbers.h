/* The numbers that environments report of their episodes, by name: the last values of each.
 *
 * Names are learned as episodes report them, the first NUMBERS_MAX of a run; others are dropped.
 * Training and evaluation share the names, so that a name has one column. Of names that differ only
 * in '_', '-', '.' and '/', which are one metric to Prometheus, the first one is kept.
 * Upstream, and owner of the lock around all of it: progress.c. */
#ifndef ACORN_LEARNER_EPISODES_NUMBERS_H
#define ACORN_LEARNER_EPISODES_NUMBERS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire/wire.h"

enum { NUMBERS_MAX = WIRE_MAX_EPISODE_NUMBERS };

struct numbers;

/* `room`, `eval_room`: values of each number that are kept, of training and of evaluation. */
struct numbers *numbers_create(int room, int eval_room);
void numbers_destroy(struct numbers *numbers);

/* An episode's numbers; those that are not finite are skipped. Shapes: value (NUMBERS_MAX), by
 * their columns; NaN where the episode has no such number. */
void numbers_add(struct numbers *numbers, bool eval, const struct wire_number *number, int count,
                 double value[NUMBERS_MAX]);

/* How many names there are; a name never changes, nor moves. */
int numbers_count(const struct numbers *numbers);
const char *numbers_name(const struct numbers *numbers, int column);
/* The mean of the last values; NaN if there is none. */
double numbers_mean(const struct numbers *numbers, bool eval, int column);
/* The first name that was dropped; NULL: none so far. */
const char *numbers_dropped(const struct numbers *numbers);

#endif
