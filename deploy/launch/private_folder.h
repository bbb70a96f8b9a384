/* A temporary folder of this process, for the learner's Unix socket.
 *
 * Its path is short enough for a socket's, under $XDG_RUNTIME_DIR or /tmp; removed at the end.
 *
 * Its lock file is held as long as the process lives, so that the next one to make such a folder
 * can tell one that a killed process has left, and removes it.
 * Upstream: deploy/launch/launch.c. Thread: one. */
#ifndef ACORN_DEPLOY_LAUNCH_PRIVATE_FOLDER_H
#define ACORN_DEPLOY_LAUNCH_PRIVATE_FOLDER_H

#include "common/base/status.h"

enum { PRIVATE_FOLDER_BYTES = 64 };

/* Removes what ended processes of this user have left at the same place. Errors: IO. */
MUST_CHECK enum status private_folder_create(char path[PRIVATE_FOLDER_BYTES], struct error *error);

/* Removes the folder and everything in it. */
void private_folder_remove(const char *path);

#endif
