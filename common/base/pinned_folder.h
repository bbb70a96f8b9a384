/* A folder that stays the same one when it is renamed, removed, or its name is given to another.
 *
 * It is kept open, and its files are reached by a path through the descriptor, which any function
 * takes that takes a path: what is written there never lands in another folder of its name.
 * Upstream: learner/run/folder.c, deploy/launch/launch_record.c. Thread: one; the path is good in
 * all. */
#ifndef ACORN_COMMON_BASE_PINNED_FOLDER_H
#define ACORN_COMMON_BASE_PINNED_FOLDER_H

#include <limits.h>
#include <stdbool.h>

/* Opens the folder `name` and writes the path that its files are reached by; log lines go on to
 * name it `name`. Where there is no /proc the path is the name. One folder in a process. Returns
 * the descriptor, or -1 with errno set. */
int pinned_folder_open(char path[PATH_MAX], const char *name);

/* Whether the path leads to the folder that is open as `fd`. */
bool pinned_folder_is(const char *path, int fd);

/* Whether `name` does not lead to it any more; then that becomes where it is now. False for one
 * that was removed. */
bool pinned_folder_moved(char name[PATH_MAX], int fd, const char *path);

#endif
