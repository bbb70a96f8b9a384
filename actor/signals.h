/* The signals that an actor listens to, SIGTERM, SIGINT and SIGUSR1, as numbers that its main
 * thread waits for.
 *
 * They are handled, not blocked: a process that an environment starts would inherit the blocked
 * ones, beyond exec, and never end when it is asked to, whereas handlers end with exec. The kernel
 * gives a process's signals to its main thread while that one takes any; should another thread meet
 * one, its calls are restarted. In a process that an environment has forked and that runs no other
 * program they do what they do by default.
 * Upstream: actor/main.c. */
#ifndef ACORN_ACTOR_SIGNALS_H
#define ACORN_ACTOR_SIGNALS_H

/* Exit code of an actor that a signal ends: this and the signal's number, as a shell reports it. */
enum { SIGNALS_EXIT = 128 };

/* Handles them from here on; one that comes before signals_wait stays until then. A second SIGTERM
 * or SIGINT while the first one has not been taken ends the process. A SIGINT that was inherited as
 * ignored stays ignored.
 * Thread: main, once, before an environment is loaded: libraries such as SDL leave signals alone
 * that have a handler. */
void signals_start(void);

/* Handles them as before, whatever the environment has made of them while it was loaded: a module
 * in Python may have handlers of its own. Thread: main, once the environment was found. */
void signals_keep(void);

/* They do from here on what they do by default. Thread: main. */
void signals_stop(void);

/* The next signal; 0: signals_wake was called; -1: none has come for so long. Thread: main. */
int signals_wait(int ms);

/* Lets signals_wait return. Thread: any. */
void signals_wake(void);

#endif
