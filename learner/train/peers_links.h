/* Connections between the learners of several hosts: each listens, calls those of lower ranks, and
 * waits for those of higher ones.
 *
 * Names that do not resolve yet and ports that do not answer yet are tried again. A connection
 * counts once both ends have proved that they are of the run (peers_hello.h); others are closed, at
 * the latest after five seconds, with a line in the log, and hold nothing up meanwhile. Until all
 * have come, a new connection of a rank replaces the one before.
 *
 * Upstream: peers_net.c. Thread: main, at start. */
#ifndef ACORN_LEARNER_TRAIN_PEERS_LINKS_H
#define ACORN_LEARNER_TRAIN_PEERS_LINKS_H

#include "learner/train/peers.h"

/* fd: that of each rank, which does not block; its own is -1. Owner: the caller's, all but -1 also
 * after an error. Errors: UNAVAILABLE: missing ranks; MISMATCH: another number of learners;
 * INVALID, EXISTS: the address to listen at. */
MUST_CHECK enum status peers_links_open(int fd[PEERS_MAX], const struct peers_config *config,
                                        struct error *error);

#endif
