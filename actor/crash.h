/* Last words of a process that an environment takes down: "environment meadow crashed in step
 * (SIGSEGV)". The process still ends by the signal, so that whoever started it sees a crash. An
 * environment that calls exit is named, too, and the exit code is 1 whatever it asked for: 0 would
 * say that the run is over.
 * Upstream: actor/main.c, actor/env_pool.c, actor/check_env.c. */
#ifndef ACORN_ACTOR_CRASH_H
#define ACORN_ACTOR_CRASH_H

enum { CRASH_STACK_BYTES = 65536 };

/* Handles SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT and exit from here on; also SIGALRM, with which
 * alarm() limits how long environments may take: then the process exits with 1. `name` is the
 * environment's. Owner: keeps the pointer. Thread: main, once. */
void crash_install(const char *name);

/* Gives this thread a stack for the handler, so that one that overflows its own can be named too.
 * Owner: keeps `stack` (CRASH_STACK_BYTES) until the thread ends. */
void crash_watch_thread(void *stack);

/* Says what the environment does on this thread ("step"), a literal; NULL: it is not at work. */
void crash_in(const char *what);

#endif
