/* Starting a thread with a name, and how the kernel should treat it. Upstream: actor, learner. */
#ifndef ACORN_COMMON_BASE_THREAD_H
#define ACORN_COMMON_BASE_THREAD_H

#include <pthread.h>

/* Starts run(argument) in a thread that tools show as `name`, cut to 15 characters. Errors: gives
 * up, see below; nothing runs without its threads. */
void thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *argument);

/* Ends the process (check_give_up) because a thread could not be started. `name`: its own, or that
 * of the library which wants it; error: an errno. */
_Noreturn void thread_give_up(const char *name, int error);

/* The calling thread computes: it keeps its share of the cores, but when it wakes up it does not
 * interrupt a thread that has not said so. Where a learner shares its cores with actors, its
 * answers to all of them then leave in one go, instead of one for each switch to an actor and back.
 */
void thread_computes(void);

#endif
