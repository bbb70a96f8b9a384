#include "learner/train/together.h"

#include <string.h>

#include "common/base/clock.h"

bool together_in_group(const struct together *self) {
  return self->device->peers && self->device->peers->joined;
}

/* The least recently agreed one makes room. */
void together_agree(struct together *self, const double *places) {
  if (!together_in_group(self)) return;
  size_t bytes = (size_t)self->device->peers->learners * sizeof(*places);
  struct agreed_update *oldest = self->update, *found = NULL;
  for (int i = 0; i < MAX_TOGETHER; i++) {
    struct agreed_update *one = &self->update[i];
    if (one->agreed < oldest->agreed) oldest = one;
    if (memcmp(one->place, places, bytes) == 0) found = one;
  }
  if (!found) {
    found = oldest;
    recorded_forget(&found->recorded, self->device);
    memcpy(found->place, places, bytes);
  }
  found->agreed = ++self->num_agreed;
  self->next = found;
}

static void check_group(struct together *self) {
  struct error error;
  if (self->device->ops->group->check(self->device, &error) != STATUS_OK)
    peers_fail(self->peers, &error);
}

/* A meeting: whether it holds for all learners. */
static bool holds_for_all(struct peers *peers, bool holds) {
  struct error ignored;
  const double mine = holds;
  double all[PEERS_MAX];
  bool all_hold = peers_exchange(peers, all, &mine, 1, &ignored) == STATUS_OK;
  for (int r = 0; r < peers_learners(peers) && all_hold; r++) all_hold = all[r] > 0;
  return all_hold;
}

/* Where one learner cannot, none plays it; where it cannot begin, none calls NCCL, whose calls wait
 * for those of all. A call that failed is an error before the others are met: they may still be in
 * theirs, until this learner has ended. */
static void record(struct together *self, struct recorded *recorded, void (*give)(void *context),
                   void *context) {
  struct device *device = self->device;
  bool began = device->ops->record(device), all_began = holds_for_all(self->peers, began);
  device->peers->by_group = true;
  if (all_began) give(context);
  device->peers->by_group = false;
  if (began) recorded->recording = device->ops->recorded(device);
  check_group(self);
  if (all_began && holds_for_all(self->peers, recorded->recording != NULL)) return;
  recorded_forget(recorded, device);
  recorded->failed = true;
}

/* What is agreed has run directly once before it is recorded: recorded.h. */
void together_run(struct together *self, struct recorded *own, void (*give)(void *context),
                  void *context) {
  struct recorded *recorded = self->next ? &self->next->recorded : own;
  if (self->next && recorded->has_run && !recorded->failed && !recorded->recording)
    record(self, recorded, give, context);
  self->next = NULL;
  recorded_run(recorded, self->device, give, context);
}

/* The sums may have ended while it was found out that another is missing: then the device stays. */
static void wait_for_group(struct together *self, uint64_t mark) {
  enum { PAUSE_US = 20, LOOK_US = 20 * 1000 };
  struct device *device = self->device;
  struct error ignored;
  struct clock_wait wait = clock_wait_begin();
  while (!device->ops->is_done(device, mark)) {
    clock_sleep_us(PAUSE_US);
    if (clock_now_us() - wait.looked_us < LOOK_US) continue;
    if (peers_look(self->peers, clock_waited_us(&wait), &ignored) == STATUS_OK) check_group(self);
    if (peers_status(self->peers, &ignored) == STATUS_OK) continue;
    if (!device->ops->is_done(device, mark)) device->ops->group->leave(device);
    break;
  }
  check_group(self);
}

void together_wait(struct together *self, uint64_t mark) {
  if (together_in_group(self)) wait_for_group(self, mark);
  self->device->ops->wait(self->device, mark);
}

void together_deinit(struct together *self) {
  for (int i = 0; i < MAX_TOGETHER; i++) recorded_forget(&self->update[i].recorded, self->device);
}
