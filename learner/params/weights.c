#include "learner/params/weights.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "common/base/check.h"

/* Two readers may hold one each, a third is the newest, and the fourth is there to be written. */
enum { READERS = 2, BUFFERS = READERS + 2 };

struct weights {
  struct device *device; /* read-only after create, as are the arrays' addresses */
  size_t num_parameters;
  real *array[BUFFERS]; /* (P) each: written by the trainer, outside the lock, while nobody can get
                           hold of it */
  _Atomic int64_t newest_version; /* of array[newest], for those who only ask */

  pthread_mutex_t lock; /* held for a few instructions; guards what follows */
  int64_t version[BUFFERS];
  int readers[BUFFERS];
  int newest;
};

struct weights *weights_create(struct device *device, size_t num_parameters) {
  struct weights *weights = check_alloc(1, sizeof(*weights));
  *weights = (struct weights){.device = device, .num_parameters = num_parameters};
  for (int i = 0; i < BUFFERS; i++)
    weights->array[i] = device->ops->alloc(device, num_parameters * device->ops->real_bytes);
  pthread_mutex_init(&weights->lock, NULL);
  return weights;
}

void weights_destroy(struct weights *weights) {
  if (!weights) return;
  for (int i = 0; i < BUFFERS; i++)
    weights->device->ops->release(weights->device, weights->array[i]);
  pthread_mutex_destroy(&weights->lock);
  free(weights);
}

/* A buffer that nobody holds and nobody can take: only the newest can be taken. */
static int free_buffer(struct weights *weights) {
  pthread_mutex_lock(&weights->lock);
  int at = 0;
  while (at < BUFFERS && (at == weights->newest || weights->readers[at] > 0)) at++;
  pthread_mutex_unlock(&weights->lock);
  CHECK(at < BUFFERS, "more than %d readers hold parameters", READERS);
  return at;
}

void weights_publish(struct weights *weights, struct device *device, const real *parameters,
                     int64_t version) {
  int at = free_buffer(weights);
  device->ops->copy(device, weights->array[at], parameters, weights->num_parameters);
  /* A reader that took them before they are there would wait for the whole update. */
  device->ops->finish(device);

  pthread_mutex_lock(&weights->lock);
  CHECK(version >= weights->version[weights->newest], "version %lld after %lld", (long long)version,
        (long long)weights->version[weights->newest]);
  weights->version[at] = version;
  weights->newest = at;
  atomic_store(&weights->newest_version, version);
  pthread_mutex_unlock(&weights->lock);
}

const real *weights_acquire(struct weights *weights, int64_t *version) {
  pthread_mutex_lock(&weights->lock);
  int at = weights->newest;
  weights->readers[at]++;
  *version = weights->version[at];
  pthread_mutex_unlock(&weights->lock);
  return weights->array[at];
}

void weights_release(struct weights *weights, const real *parameters) {
  pthread_mutex_lock(&weights->lock);
  int at = 0;
  while (at < BUFFERS && weights->array[at] != parameters) at++;
  CHECK(at < BUFFERS && weights->readers[at] > 0, "parameters that are not held");
  weights->readers[at]--;
  pthread_mutex_unlock(&weights->lock);
}

int64_t weights_version(const struct weights *weights) {
  return atomic_load(&weights->newest_version);
}
