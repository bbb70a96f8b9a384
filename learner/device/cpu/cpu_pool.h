/* Threads that share the work of one operation of a CPU device with the thread that calls it.
 * An operation is so many parts, each of which computes numbers of its own: which thread takes
 * which part changes no result. Between operations the threads spin for a moment, then sleep.
 * Thread: run by one thread at a time. Upstream: cpu.c, cpu_linear.h. */
#ifndef ACORN_LEARNER_DEVICE_CPU_CPU_POOL_H
#define ACORN_LEARNER_DEVICE_CPU_CPU_POOL_H

struct cpu_pool;
typedef void cpu_pool_part(void *context, int part);

/* threads: with the caller's, from 2 on. */
struct cpu_pool *cpu_pool_create(int threads);
/* NULL is fine. */
void cpu_pool_destroy(struct cpu_pool *self);

/* With the caller's. */
int cpu_pool_threads(const struct cpu_pool *self);

/* Calls part(context, i) for every i below `parts`, and returns when all have returned. self NULL:
 * by this thread alone. */
void cpu_pool_run(struct cpu_pool *self, cpu_pool_part *part, void *context, int parts);

#endif
