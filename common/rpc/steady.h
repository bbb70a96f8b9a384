/* Waits of gRPC that do not depend on the wall clock.
 *
 * Its timers (keepalive, connection back-off, deadlines) run on the monotonic clock, but the thread
 * that serves them waits in Abseil, which waits until a time of day: when the wall clock is set
 * back by an hour, nothing is timed for an hour. Abseil reaches the kernel by syscall() and leaves
 * no choice of the clock; so a program that is linked with this has a syscall() of its own, in
 * front of the C library's, which turns such a wait into one on the monotonic clock.
 * Upstream: core.c; Abseil, through the dynamic linker. Thread: any. */
#ifndef ACORN_COMMON_RPC_STEADY_H
#define ACORN_COMMON_RPC_STEADY_H

/* Has to be called for the linker to take it; finds the C library's syscall(). */
void steady_init(void);

#endif
