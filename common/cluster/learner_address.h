/* Where each of several learners of a run listens.
 * Upstream: learner/run/run_learners.c, deploy/launch/plan_part.c. Thread: any. */
#ifndef ACORN_COMMON_CLUSTER_LEARNER_ADDRESS_H
#define ACORN_COMMON_CLUSTER_LEARNER_ADDRESS_H

#include <limits.h>

/* From the port where a learner serves actors to the one where it waits for learners of other
 * hosts: above those of as many learners as a host may have. */
enum { LEARNER_PEERS_PORT = 64 };

/* Of that rank, where rank 0 listens at `address`: "unix:PATH-RANK", or the port above by RANK. The
 * same for rank 0. */
void learner_address(char out[PATH_MAX], const char *address, int rank);

#endif
