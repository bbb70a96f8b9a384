#include "learner/train/peers_devices.h"

#include <stdio.h>
#include <string.h>

#include "learner/train/peers_way.h"

/* What each brings: its library, or 0, and its GPU; then whether it has joined. */
enum { WORD_VERSION, WORD_GPU, NUM_WORDS };

static enum status find(struct device *device, struct device_library *library,
                        struct error *error) {
  if (device->ops->group && !device->ops->record)
    return status_fail(error, STATUS_UNAVAILABLE,
                       "updates are not recorded (ACORN_CUDA_WITHOUT=graphs or "
                       "CUDA_LAUNCH_BLOCKING=1)");
  if (device->ops->group) return device->ops->group->find(device, library, error);
  return status_fail(error, STATUS_UNAVAILABLE, "it computes in the host's memory");
}

enum status peers_check_device(struct device *device, struct error *error) {
  struct device_library library;
  struct error reason;
  enum status status = find(device, &library, &reason);
  if (status != STATUS_MISMATCH) return STATUS_OK;
  *error = reason;
  return status;
}

/* Why the devices cannot be a group; false: they can. */
static bool differ(char *why, size_t bytes, const struct peers *peers, const double *all,
                   const struct error *reason) {
  int learners = peers->of_device.learners;
  if (all[peers->of_device.rank * NUM_WORDS + WORD_VERSION] == 0)
    return snprintf(why, bytes, "%.400s", reason->text) > 0;
  for (int r = 0; r < learners; r++) {
    const double *word = &all[r * NUM_WORDS];
    if (word[WORD_VERSION] == 0)
      return snprintf(why, bytes, "learner %d cannot; its log has the reason", r) > 0;
    if (word[WORD_VERSION] != all[WORD_VERSION])
      return snprintf(why, bytes, "learners 0 and %d have versions %.0f and %.0f of the library", r,
                      all[WORD_VERSION], word[WORD_VERSION]) > 0;
    for (int s = 0; s < r; s++)
      if (word[WORD_GPU] == all[s * NUM_WORDS + WORD_GPU])
        return snprintf(why, bytes, "learners %d and %d share a GPU, see --gpu", s, r) > 0;
  }
  return false;
}

/* *joined: whether all have. A learner that cannot goes on to the last meeting at once, and the
 * others come to it after half the time in which it would be given up. */
static enum status join(bool *joined, struct peers *peers, struct device *device,
                        struct error *reason, struct error *error) {
  const struct device_group_ops *group = device->ops->group;
  struct {
    char id[DEVICE_GROUP_ID_BYTES];
    int32_t status;
  } made = {.status = STATUS_OK};
  int rank = peers->of_device.rank, learners = peers->of_device.learners;
  if (rank == 0) made.status = (int32_t)group->make_id(device, made.id, reason);
  enum status status = peers_broadcast(peers, &made, sizeof(made), error);
  if (status != STATUS_OK) return status;
  *joined = made.status == STATUS_OK && group->join(device, made.id, rank, learners,
                                                    peers->config.timeout_ms, reason) == STATUS_OK;
  double all[PEERS_MAX], mine = *joined;
  status = peers_exchange(peers, all, &mine, 1, error);
  for (int r = 0; r < learners && status == STATUS_OK; r++)
    if (*joined && !all[r]) {
      *joined = false;
      (void)!status_fail(reason, STATUS_UNAVAILABLE,
                         "learner %d has failed; its log has the reason", r);
    }
  return status;
}

enum status peers_join_devices(struct peers *peers, struct device *device,
                               char way[PEERS_DEVICES_BYTES], struct error *error) {
  struct device_library library = {.name = ""};
  struct error reason = {"learner 0 has failed; its log has the reason"};
  double all[PEERS_MAX * NUM_WORDS], mine[NUM_WORDS] = {0};
  char why[PEERS_DEVICES_BYTES - 64];
  bool joined = false;
  device->peers = peers_of_device(peers);
  if (find(device, &library, &reason) == STATUS_OK)
    mine[WORD_VERSION] = library.version, mine[WORD_GPU] = (double)library.gpu;
  enum status status = peers_exchange(peers, all, mine, NUM_WORDS, error);
  if (status != STATUS_OK) return status;
  bool can = !differ(why, sizeof(why), peers, all, &reason);
  if (can) status = join(&joined, peers, device, &reason, error);
  if (status != STATUS_OK) return status;
  if (can && !joined) {
    device->ops->group->leave(device);
    snprintf(why, sizeof(why), "%.400s", reason.text);
  }
  peers->of_device.joined = joined;
  if (joined)
    snprintf(way, PEERS_DEVICES_BYTES, "by %s", library.name);
  else
    snprintf(way, PEERS_DEVICES_BYTES, "through the host: %s", why);
  return STATUS_OK;
}
