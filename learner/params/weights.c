#include "learner/params/weights.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"

/* Two readers may hold one each, a third is the newest, and two are there to be written. */
enum { READERS = 2, WRITTEN = 2, BUFFERS = READERS + 1 + WRITTEN };

/* A snapshot that the device has been told to write. */
struct written {
  int at;
  int64_t version;
  uint64_t mark; /* behind its copy */
};

struct weights {
  struct device *device; /* read-only after create, as are the arrays' addresses */
  size_t num_parameters;
  real *
      array[BUFFERS]; /* (P) each: written by the trainer, outside the lock, while no reader can get
                           hold of it */
  struct written written[WRITTEN]; /* the trainer's: not announced yet, the oldest first */
  int num_written;
  _Atomic int64_t newest_version; /* of array[newest], for those who only ask */

  pthread_mutex_t lock; /* held for a few instructions; guards what follows */
  int64_t version[BUFFERS], serial[BUFFERS];
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

static bool is_written(const struct weights *weights, int at) {
  for (int i = 0; i < weights->num_written; i++)
    if (weights->written[i].at == at) return true;
  return false;
}

/* A buffer that no reader holds or can take: only the newest can be taken. */
static int free_buffer(struct weights *weights) {
  pthread_mutex_lock(&weights->lock);
  int at = 0;
  while (at < BUFFERS &&
         (at == weights->newest || weights->readers[at] > 0 || is_written(weights, at)))
    at++;
  pthread_mutex_unlock(&weights->lock);
  CHECK(at < BUFFERS, "more than %d readers hold parameters", READERS);
  return at;
}

void weights_write(struct weights *weights, struct device *device, const real *parameters,
                   int64_t version) {
  CHECK(weights->num_written < WRITTEN, "%d snapshots have not been announced", WRITTEN);
  int at = free_buffer(weights);
  device_copy(device, weights->array[at], parameters, weights->num_parameters);
  weights->written[weights->num_written++] =
      (struct written){at, version, device->ops->mark(device)};
}

static void make_newest(struct weights *weights, const struct written *written) {
  pthread_mutex_lock(&weights->lock);
  CHECK(written->version >= weights->version[weights->newest], "version %lld after %lld",
        (long long)written->version, (long long)weights->version[weights->newest]);
  weights->serial[written->at] = weights->serial[weights->newest] + 1;
  weights->version[written->at] = written->version;
  weights->newest = written->at;
  atomic_store(&weights->newest_version, written->version);
  pthread_mutex_unlock(&weights->lock);
}

void weights_announce(struct weights *weights, struct device *device) {
  CHECK(weights->num_written > 0, "no snapshot has been written");
  struct written oldest = weights->written[0];
  device->ops->wait(device, oldest.mark);
  make_newest(weights, &oldest);
  weights->num_written--;
  memmove(weights->written, weights->written + 1,
          (size_t)weights->num_written * sizeof(*weights->written));
}

void weights_publish(struct weights *weights, struct device *device, const real *parameters,
                     int64_t version) {
  weights_write(weights, device, parameters, version);
  weights_announce(weights, device);
}

const real *weights_acquire(struct weights *weights, int64_t *version) {
  pthread_mutex_lock(&weights->lock);
  int at = weights->newest;
  weights->readers[at]++;
  *version = weights->version[at];
  pthread_mutex_unlock(&weights->lock);
  return weights->array[at];
}

static int held_buffer(const struct weights *weights, const real *parameters) {
  int at = 0;
  while (at < BUFFERS && weights->array[at] != parameters) at++;
  CHECK(at < BUFFERS && weights->readers[at] > 0, "parameters that are not held");
  return at;
}

void weights_release(struct weights *weights, const real *parameters) {
  pthread_mutex_lock(&weights->lock);
  weights->readers[held_buffer(weights, parameters)]--;
  pthread_mutex_unlock(&weights->lock);
}

int64_t weights_serial(struct weights *weights, const real *parameters) {
  pthread_mutex_lock(&weights->lock);
  int64_t serial = weights->serial[held_buffer(weights, parameters)];
  pthread_mutex_unlock(&weights->lock);
  return serial;
}

int64_t weights_version(const struct weights *weights) {
  return atomic_load(&weights->newest_version);
}
