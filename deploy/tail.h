/* The last lines of a log file. Upstream: deploy/supervisor_actors.c. Thread: any. */
#ifndef ACORN_DEPLOY_TAIL_H
#define ACORN_DEPLOY_TAIL_H

#include <stdio.h>

/* Prints the last `lines` lines of the file, at most its last 16 KiB; a last line without an end
 * gets one. A file that cannot be read is a sentence that says so. */
void tail_print(FILE *out, const char *path, int lines);

#endif
