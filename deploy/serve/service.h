/* What every way in to the models shares.
 * Upstream: http.h, rpc.h. Downstream: model.h. Thread: any, as noted. */
#ifndef ACORN_DEPLOY_SERVE_SERVICE_H
#define ACORN_DEPLOY_SERVE_SERVICE_H

#include <stdatomic.h>
#include <string.h>

#include "deploy/serve/model.h"

struct service {
  /* read-only once there are clients */
  int num_models;
  struct model **model; /* (num_models) */
  struct metrics *metrics;
  size_t max_bytes; /* of a request's body */
  /* any */
  atomic_bool draining;
  atomic_int in_hand; /* requests that are not answered yet */
};

/* Errors: NOT_FOUND: names the first one. */
static inline enum status service_find(struct model **out, const struct service *service,
                                       const char *name, struct error *error) {
  *out = NULL;
  for (int i = 0; i < service->num_models; i++) {
    *out = service->model[i];
    if (strcmp(model_name(*out), name) == 0) return STATUS_OK;
  }
  return status_fail(error, STATUS_NOT_FOUND, "there is no model '%.64s' here; there is %s%s", name,
                     model_name(service->model[0]), service->num_models > 1 ? " and others" : "");
}

/* Whether every model has a version, and none is asked to stop. */
static inline bool service_is_ready(const struct service *service) {
  static const struct model_choice any = {"", ""};
  bool ready = !atomic_load(&service->draining);
  for (int i = 0; ready && i < service->num_models; i++)
    ready = model_is_ready(service->model[i], &any, NULL);
  return ready;
}

#endif
