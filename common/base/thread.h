/* Starting a thread with a name, and how the kernel should treat it. Upstream: actor, learner. */
#ifndef ACORN_COMMON_BASE_THREAD_H
#define ACORN_COMMON_BASE_THREAD_H

#include <pthread.h>

#include "common/base/status.h"

/* Whether `count` threads can be started beside those that run: does so, and ends them. Libraries
 * lose what a thread was for that could not be started, so a program asks before it loads work on
 * them. Errors: EXHAUSTED: names the limits. */
MUST_CHECK enum status thread_check(int count, struct error *error);

/* Starts run(argument) in a thread that tools show as `name`, cut to 15 characters. Errors: gives
 * up (check_give_up); nothing runs without its threads. */
void thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *argument);

/* The calling thread computes: it keeps its share of the cores, but when it wakes up it does not
 * interrupt a thread that has not said so. Where a learner shares its cores with actors, its
 * answers to all of them then leave in one go, instead of one for each switch to an actor and back.
 */
void thread_computes(void);

#endif
