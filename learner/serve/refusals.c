#include "learner/serve/refusals.h"

#include <stdbool.h>
#include <string.h>

#include "common/base/log.h"

enum { LINES_PER_SECOND = 10 };

void refusals_init(struct refusals *refusals) {
  memset(refusals, 0, sizeof(*refusals));
  pthread_mutex_init(&refusals->lock, NULL);
}

void refusals_deinit(struct refusals *refusals) {
  pthread_mutex_destroy(&refusals->lock);
}

/* Whether this second has a line left; *unsaid: how many were swallowed before. */
static bool may_print(struct refusals *refusals, struct refusal_log *log, int64_t *unsaid,
                      int64_t now_us) {
  int64_t second = now_us / 1000000;
  *unsaid = 0;
  pthread_mutex_lock(&refusals->lock);
  if (second != log->second) {
    *unsaid = log->unsaid;
    log->second = second;
    log->lines = 0;
    log->unsaid = 0;
  }
  bool print = log->lines < LINES_PER_SECOND;
  if (print)
    log->lines++;
  else
    log->unsaid++;
  pthread_mutex_unlock(&refusals->lock);
  return print;
}

void refusals_note(struct refusals *refusals, enum refusal kind, const char *who, const char *why,
                   int64_t now_us) {
  static const char *const what[REFUSAL_KINDS] = {"a Join", "a Play", "a message", "a message"};
  struct refusal_log *log = &refusals->log[kind];
  int64_t unsaid;
  atomic_fetch_add_explicit(&log->count, 1, memory_order_relaxed);
  if (!may_print(refusals, log, &unsaid, now_us)) return;
  if (unsaid) log_warn("%lld more refusals like this were not written here", (long long)unsaid);
  log_warn("%s of %s was refused: %s", what[kind], who, why);
}
