/* The file of --models: a JSON object with an entry for each model, by its name:
 * {"cartpole": {"path": "runs/a", "policy": "latest:2", "labels": {"stable": 1200}}}.
 * Upstream: serve.c. Downstream: model.h. Thread: main. */
#ifndef ACORN_DEPLOY_SERVE_MODELS_FILE_H
#define ACORN_DEPLOY_SERVE_MODELS_FILE_H

#include <jansson.h>

#include "deploy/serve/model.h"

enum { MODELS_MAX = 64 };

struct models_file {
  json_t *json; /* whose texts the configurations borrow */
  int count;
  struct model_config model[MODELS_MAX];
};

/* Fills the configurations from the file; what an entry does not say is as in `usual`. Errors:
 * INVALID: the file, or an entry of it. Owner: the caller, with models_file_deinit. */
MUST_CHECK enum status models_file_read(struct models_file *file, const char *path,
                                        const struct model_config *usual, struct error *error);
void models_file_deinit(struct models_file *file);

/* Whether a model may have this name, which is part of paths: letters, digits, '_', '-', '.'. */
bool models_name_fits(const char *name);

#endif
