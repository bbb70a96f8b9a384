/* Words of a command line as a shell reads them back: for commands that are shown or recorded.
 * Upstream: launch.c, launch_record.c, plan_part.c. Thread: any (no state). */
#ifndef ACORN_DEPLOY_LAUNCH_SHELL_WORD_H
#define ACORN_DEPLOY_LAUNCH_SHELL_WORD_H

#include <stdio.h>

/* In single quotes where the shell would read anything else. */
void shell_word_print(FILE *out, const char *word);

#endif
