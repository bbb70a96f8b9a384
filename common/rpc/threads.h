/* Ends the process when a library that it depends on cannot start a thread.
 *
 * gRPC goes on without a thread that could not be started (ulimit -v, ulimit -u), loses what that
 * thread was for, and waits for its end at shutdown, for ever; libuv aborts. Both ask the C
 * library for pthread_create() through the dynamic linker; so a program that is linked with this
 * has one of its own in front of it. Other callers, an environment for one, get the error.
 * Upstream: core.c; gRPC and libuv, through the dynamic linker. Thread: any. */
#ifndef ACORN_COMMON_RPC_THREADS_H
#define ACORN_COMMON_RPC_THREADS_H

/* Has to be called for the linker to take it; finds the C library's pthread_create(). */
void threads_init(void);

#endif
