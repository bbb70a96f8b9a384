#include "learner/train/access.h"

#include <stddef.h>

void access_init(struct access *access, struct source *source) {
  *access = (struct access){.source = source, .last = &access->first};
  pthread_mutex_init(&access->lock, NULL);
}

void access_deinit(struct access *access) {
  pthread_mutex_destroy(&access->lock);
}

static void refuse(struct access_request *request) {
  request->status = status_fail(&request->error, STATUS_UNAVAILABLE, "the run is ending");
  request->done(request);
}

void access_ask(struct access *access, struct access_request *request) {
  request->next = NULL;
  pthread_mutex_lock(&access->lock);
  bool ended = access->ended;
  if (!ended) {
    *access->last = request;
    access->last = &request->next;
    source_interrupt(access->source, true);
  }
  pthread_mutex_unlock(&access->lock);
  if (ended) refuse(request);
}

bool access_waits(struct access *access) {
  pthread_mutex_lock(&access->lock);
  bool waits = access->first != NULL;
  pthread_mutex_unlock(&access->lock);
  return waits;
}

static struct access_request *take_all(struct access *access, bool ends) {
  pthread_mutex_lock(&access->lock);
  struct access_request *first = access->first;
  access->first = NULL;
  access->last = &access->first;
  access->ended = ends;
  if (first) source_interrupt(access->source, false);
  pthread_mutex_unlock(&access->lock);
  return first;
}

static enum status serve(struct access_request *request, struct update *update) {
  request->version = update_version(update);
  if (request->expected_version != ACCESS_ANY_VERSION &&
      request->expected_version != request->version)
    return status_fail(&request->error, STATUS_MISMATCH,
                       "the run is at update %lld, not at %lld as expected: nothing was set",
                       (long long)request->version, (long long)request->expected_version);
  if (request->sets)
    update_write_parameters(update, request->values, request->given);
  else
    update_read_parameters(update, request->values);
  return STATUS_OK;
}

void access_serve(struct access *access, struct update *update, struct weights *weights,
                  struct device *device) {
  struct access_request *request = take_all(access, false), *next;
  for (; request; request = next) {
    next = request->next; /* its owner may free it once it is done */
    request->status = serve(request, update);
    if (request->sets && request->status == STATUS_OK)
      weights_publish(weights, device, update_parameters(update), request->version);
    request->done(request);
  }
}

void access_end(struct access *access) {
  struct access_request *request = take_all(access, true), *next;
  for (; request; request = next) {
    next = request->next;
    refuse(request);
  }
}
