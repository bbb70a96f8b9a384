/* Which version of Acorn a program is: --version, and what a run's record has of it.
 *
 * The programs are linked with common/version_build.c, made anew for each commit; what is not (unit
 * tests) has an unknown commit, so that a commit links nothing but the programs anew.
 * Upstream: common/base/options.c, deploy/launch/plan.c, learner/report/record.c.
 * Thread: any. */
#ifndef ACORN_COMMON_BASE_VERSION_H
#define ACORN_COMMON_BASE_VERSION_H

#include <stdbool.h>

/* "0.1.0" and "1a2b3c4d5e6f-dirty"; constant for the life of the program. */
extern const char version_number[], version_commit[];

/* Whether --version is among the words before "--"; then it has been printed to stdout. */
bool version_asked(const char *program, int argc, char *const *argv);

#endif
