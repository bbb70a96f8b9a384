#include "deploy/backoff.h"

#include <limits.h>

const struct backoff_times backoff_usual = {
    .first_ms = 1000, .longest_ms = 60 * 1000, .reset_ms = 60 * 1000};

int backoff_next_ms(struct backoff *self, const struct backoff_times *times, int64_t worked_ms) {
  if (worked_ms >= times->reset_ms) self->deaths = 0;
  if (self->deaths < INT_MAX) self->deaths++;
  int64_t pause_ms = times->first_ms;
  for (int i = 1; i < self->deaths && pause_ms < times->longest_ms; i++) pause_ms *= 2;
  return pause_ms < times->longest_ms ? (int)pause_ms : times->longest_ms;
}

bool backoff_shows_log(const struct backoff *self) {
  return (self->deaths & (self->deaths - 1)) == 0;
}
