/* Where a learner is to be found: what the user calls it, and whether anybody listens there.
 * Upstream: deploy/inspect/status.c, deploy/inspect/parameters.c. Downstream:
 * common/cluster/probe.h, common/rpc/client.h. Thread: one. */
#ifndef ACORN_DEPLOY_INSPECT_LEARNER_PLACE_H
#define ACORN_DEPLOY_INSPECT_LEARNER_PLACE_H

#include <limits.h>

#include "common/base/status.h"
#include "common/rpc/client.h"

struct learner_place {
  char address[PATH_MAX + 16]; /* to call: "unix:PATH" or "HOST:PORT" */
  char run_folder[PATH_MAX];   /* that it was read from; "": the user gave the address */
  /* files to call it with, as the run folder names them; "": none */
  char token_file[PATH_MAX], tls_ca[PATH_MAX], tls_cert[PATH_MAX], tls_key[PATH_MAX];
  char operator_token_file[PATH_MAX]; /* "": the operator's calls take the other token */
};

/* `word`: an address; a run folder, whose file `address` the learner has written; a folder of them,
 * or of sweeps: the newest in it that goes on; or NULL: the same of `runs`. Errors: NOT_FOUND, with
 * what was looked for: no run, or one that is over; INVALID: the word is neither. */
MUST_CHECK enum status learner_place_find(struct learner_place *place, const char *word,
                                          const char *runs, struct error *error);

/* OK if somebody listens there at all. Errors: UNAVAILABLE. */
MUST_CHECK enum status learner_place_listens(const struct learner_place *place, int timeout_ms,
                                             struct error *error);

/* Credentials to call it with: what the user has not given is as the run folder names it, where the
 * address came from it. Errors: credentials_open's. */
MUST_CHECK enum status learner_place_credentials(struct credentials **out,
                                                 const struct learner_place *place,
                                                 const struct credentials_options *given,
                                                 struct error *error);

/* Why a call failed, as a sentence. Errors: always: MISMATCH: it is no learner of this version, or
 * TLS is on one side; INVALID: what was asked for is wrong; UNAVAILABLE. */
MUST_CHECK enum status learner_place_explain(const struct learner_place *place,
                                             const struct rpc_result *result, int timeout_ms,
                                             struct error *error);

#endif
