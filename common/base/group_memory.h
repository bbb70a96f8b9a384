/* How much memory the groups that a process belongs to may have: cgroups, of a container, a job of
 * Slurm, a service. libuv before 1.45 sees those of version 1 at their root alone. Upstream:
 * process.c. Thread: any. */
#ifndef ACORN_COMMON_BASE_GROUP_MEMORY_H
#define ACORN_COMMON_BASE_GROUP_MEMORY_H

/* Bytes: the least limit; infinity: there is none. root: "/sys/fs/cgroup"; groups: the file
 * "/proc/self/cgroup" (cgroups(7)). */
double group_memory(const char *root, const char *groups);

#endif
