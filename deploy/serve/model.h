/* A model: a name, and the versions of a policy that answer to it. They come from a run folder,
 * live or ended, whose best (or newest) checkpoint is a version numbered by its updates; or from a
 * folder with a run folder for each number. The folder is read again and again: what its policy
 * wants is loaded and warmed up first, and takes requests from then on; what it no longer wants
 * answers the requests in hand and the sequences that it has, and goes.
 *
 * Upstream: service.h, models_file.h. Downstream: version.h.
 * Threads: model_open, _poll, _set, _close: main; the others: any.
 * Invariant: a version that was taken stays until it is given back. */
#ifndef ACORN_DEPLOY_SERVE_MODEL_H
#define ACORN_DEPLOY_SERVE_MODEL_H

#include <stdio.h>

#include "deploy/serve/version.h"

enum { MODEL_NAME_BYTES = 64, MODEL_MAX_LABELS = 16, MODEL_MAX_SPECIFIC = 16 };

struct model_label {
  char name[MODEL_NAME_BYTES];
  int64_t version;
};

/* Which versions are loaded: the `latest` so many; or `specific` ones. */
struct model_policy {
  int latest; /* INT_MAX: all */
  int num_specific;
  int64_t specific[MODEL_MAX_SPECIFIC];
  int num_labels;
  struct model_label label[MODEL_MAX_LABELS];
};

struct model_config {
  const char *name, *path;
  const char *checkpoint;     /* "best", "latest" */
  const char *env, *env_args; /* as of struct played_run */
  const char *device;
  bool code;
  struct model_policy policy;
  struct version_limits limits;
  int64_t idle_us; /* a sequence of a version that goes ends after so long */
};

struct model_metrics {
  struct metric *loads, *failures;
  struct version_metrics of_versions;
};

struct model;

/* Reads "latest:2", "all", "specific:40,42". Errors: INVALID. */
MUST_CHECK enum status model_parse_policy(struct model_policy *policy, const char *text,
                                          struct error *error);

/* Asks the run's environment for its spaces, and loads what there is. `config` is borrowed until
 * model_close. Thread: main, before any other. Errors: what the user can mend. */
MUST_CHECK enum status model_open(struct model **out, const struct model_config *config,
                                  const struct model_metrics *metrics, struct error *error);
void model_close(struct model *model);
void model_poll(struct model *model, int64_t now_us);
void model_set(struct model *model, const struct model_policy *policy);

const char *model_name(const struct model *model);
const struct signature *model_signature(const struct model *model);
int model_max_rows(const struct model *model);

/* Which version a client has asked for: by number, by label, or neither (""). */
struct model_choice {
  char version[MODEL_NAME_BYTES], label[MODEL_NAME_BYTES];
};

/* Submits a checked request to its version: the newest of those that are chosen, but the one that
 * has its sequence if that has begun. *out: the version, which answers, and stays until it is given
 * back with model_give. Errors: NOT_FOUND: names those that there are; UNAVAILABLE: there is none
 * yet; version_submit's. */
MUST_CHECK enum status model_submit(struct version **out, struct model *model,
                                    const struct model_choice *choice, struct request *request,
                                    struct error *error);
void model_give(struct model *model, struct version *version);
/* After one or more of model_submit: see version_begin. */
void model_begin(struct model *model);

/* Whether there is such a version. */
bool model_is_ready(struct model *model, const struct model_choice *choice, struct error *error);

/* Calls visit for each version that is chosen, newest first, and for those that failed to load,
 * with the reason. */
typedef void (*model_visit)(void *context, int64_t version, const char *failure);
int model_each(struct model *model, const struct model_choice *choice, model_visit visit,
               void *context);

#endif
