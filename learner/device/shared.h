/* Arrays of which host and device both have their own, where memory is not the same to both.
 * Upstream: learner. */
#ifndef ACORN_LEARNER_DEVICE_SHARED_H
#define ACORN_LEARNER_DEVICE_SHARED_H

#include "learner/device/device.h"

/* Memory of alloc_host as operations can read it: itself on a unified device, otherwise uploaded to
 * `staging`, which has as many bytes. */
static inline void *device_stage(struct device *d, void *staging, void *host, size_t bytes) {
  if (d->ops->unified) return host;
  d->ops->upload_bytes(d, staging, host, bytes);
  return staging;
}

/* An array that host and device both have, to carry what one writes to the other: the same memory
 * on a unified device, otherwise one on each side. */
struct device_shared {
  void *host, *memory;
  size_t bytes;
};

/* Zeroed on both sides. Owner: the caller, with device_unshare. */
static inline struct device_shared device_share(struct device *d, size_t bytes) {
  struct device_shared shared = {d->ops->alloc_host(d, bytes), NULL, bytes};
  shared.memory = d->ops->unified ? shared.host : d->ops->alloc(d, bytes);
  return shared;
}

static inline void device_unshare(struct device *d, struct device_shared *shared) {
  if (shared->memory && shared->memory != shared->host) d->ops->release(d, shared->memory);
  if (shared->host) d->ops->release_host(d, shared->host);
  shared->host = shared->memory = NULL;
  shared->bytes = 0;
}

/* As upload_bytes and download_bytes. */
static inline void device_shared_upload(struct device *d, const struct device_shared *shared) {
  if (shared->memory != shared->host)
    d->ops->upload_bytes(d, shared->memory, shared->host, shared->bytes);
}
static inline void device_shared_download(struct device *d, const struct device_shared *shared,
                                          size_t bytes) {
  if (shared->memory != shared->host)
    d->ops->download_bytes(d, shared->host, shared->memory, bytes);
}

/* What operations read where the host has `host`, which is in the array; NULL for NULL. */
static inline void *device_shared_at(const struct device_shared *shared, const void *host) {
  return host ? (char *)shared->memory + ((const char *)host - (const char *)shared->host) : NULL;
}

#endif
