#include "common/rpc/queue.h"

#include <grpc/support/time.h>
#include <stddef.h>

#include "common/base/check.h"
#include "common/base/clock.h"

enum { MAX_EVENTS_PER_POLL = 64, MAX_LOOKS_SKIPPED = 16 };

static void wake_done(struct op *op, bool ok) {
  (void)ok;
  struct queue *queue = (struct queue *)((char *)op - offsetof(struct queue, wake));
  atomic_store(&queue->wake_posted, false);
  queue_release(queue);
}

void queue_init(struct queue *queue, grpc_channel *lame) {
  queue->cq = grpc_completion_queue_create_for_next(NULL);
  queue->wake.run = wake_done;
  atomic_init(&queue->wake_posted, false);
  atomic_init(&queue->holds, 1);
  grpc_slice path = grpc_slice_from_static_string("/wake");
  queue->wake_call = grpc_channel_create_call(lame, NULL, GRPC_PROPAGATE_DEFAULTS, queue->cq, path,
                                              NULL, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
}

void queue_deinit(struct queue *queue) {
  CHECK(atomic_load(&queue->holds) == 0, "a queue that is still in use");
  grpc_call_unref(queue->wake_call);
  while (grpc_completion_queue_next(queue->cq, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL).type !=
         GRPC_QUEUE_SHUTDOWN)
    ;
  grpc_completion_queue_destroy(queue->cq);
}

bool queue_hold(struct queue *queue) {
  int holds = atomic_load(&queue->holds);
  while (holds > 0)
    if (atomic_compare_exchange_weak(&queue->holds, &holds, holds + 1)) return true;
  return false;
}

void queue_release(struct queue *queue) {
  if (atomic_fetch_sub(&queue->holds, 1) == 1) grpc_completion_queue_shutdown(queue->cq);
}

void queue_wake(struct queue *queue) {
  if (atomic_exchange(&queue->wake_posted, true)) return;
  if (queue_hold(queue)) core_start_batch(queue->wake_call, NULL, 0, &queue->wake);
}

/* Waits for one event and runs it. */
static grpc_completion_type run_next(struct queue *queue, gpr_timespec deadline) {
  grpc_event event = grpc_completion_queue_next(queue->cq, deadline, NULL);
  if (event.type == GRPC_OP_COMPLETE) {
    struct op *op = event.tag;
    op->run(op, event.success != 0);
  }
  return event.type;
}

/* To look for another event is a system call if there is none (15% of a message, measured):
 * after looks in vain, the next 1, 2, 4 ... polls go without. Under load the looks succeed, and
 * cost nothing. */
static bool look_pays(struct queue *queue) {
  return queue->looks_to_skip == 0 || --queue->looks_to_skip == 0;
}

static void look_failed(struct queue *queue) {
  queue->vain_looks = queue->vain_looks == 0 ? 1 : 2 * queue->vain_looks;
  if (queue->vain_looks > MAX_LOOKS_SKIPPED) queue->vain_looks = MAX_LOOKS_SKIPPED;
  queue->looks_to_skip = queue->vain_looks;
}

int queue_poll(struct queue *queue, int64_t deadline_us) {
  grpc_completion_type type = run_next(queue, core_deadline_in_us(deadline_us - clock_now_us()));
  if (type != GRPC_OP_COMPLETE) return type == GRPC_QUEUE_SHUTDOWN ? -1 : 0;
  if (!look_pays(queue)) return 1;
  int count = 1;
  while (count < MAX_EVENTS_PER_POLL &&
         run_next(queue, gpr_inf_past(GPR_CLOCK_MONOTONIC)) == GRPC_OP_COMPLETE)
    count++;
  if (count == 1)
    look_failed(queue);
  else
    queue->vain_looks = 0;
  return count;
}
