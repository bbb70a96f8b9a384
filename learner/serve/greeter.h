/* --env=join: takes the environment's name and spaces from the first actor that joins.
 *
 * That Join and later ones are answered with UNAVAILABLE, so that the actors retry; by then the
 * learner has a network that fits.
 * Upstream: learner/run/run_environment.c. Downstream: common/rpc/server.h. Thread: main, before
 * anything else runs. */
#ifndef ACORN_LEARNER_SERVE_GREETER_H
#define ACORN_LEARNER_SERVE_GREETER_H

#include "common/base/status.h"
#include "common/rpc/credentials.h"
#include "common/wire/wire.h"

/* Listens at `address` until a Join has come that is one, then leaves the address free again.
 * SIGTERM ends the wait meanwhile, and so do SIGINT and SIGHUP unless they were inherited as
 * ignored: DONE, once that has been logged.
 * Errors: as rpc_server_create; INVALID: port 0, which actors could not be told. */
MUST_CHECK enum status greeter_wait(struct wire_join_request *first, const char *address,
                                    struct credentials *credentials, struct error *error);

#endif
