/* Crash handler: logs which environment crashed the process, and in which call.
 *
 * "environment meadow crashed in step (SIGSEGV)". The process still ends by the signal, so that its
 * parent sees a crash. An environment that calls exit is named, too, and the exit code is 1
 * whatever it passed: 0 would mean that the run is over. An environment that calls _exit, or exit
 * on a thread of its own, is not named; the supervisor sees an actor that ended without the notice
 * that the run is over (common/base/notify.h).
 * Upstream: actor/main.c, actor/env_pool.c, actor/trial.c, deploy/inspect/watch/. */
#ifndef ACORN_ACTOR_CRASH_H
#define ACORN_ACTOR_CRASH_H

enum { CRASH_STACK_BYTES = 65536 };

/* Handles SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT and exit from here on, and SIGALRM for
 * crash_limit. `name` is the environment's; a later call changes it. Owner: keeps the pointer.
 * Thread: main. */
void crash_install(const char *name);

/* How long each of this thread's later calls of the environment, from crash_in to crash_in(NULL),
 * may take: then the process says which one hangs and exits with 1. 0: for ever, as at the start.
 * Thread: any, but only one: a process has one alarm. */
void crash_limit(unsigned seconds);

/* Gives this thread a stack for the handler, so that one that overflows its own can be named too.
 * Owner: keeps `stack` (CRASH_STACK_BYTES) until the thread ends. */
void crash_watch_thread(void *stack);

/* Says what the environment does on this thread ("step"), a literal; NULL: it is not at work. */
void crash_in(const char *what);

#endif
