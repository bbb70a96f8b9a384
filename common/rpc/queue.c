#include "common/rpc/queue.h"

#include <grpc/support/time.h>

#include "common/base/check.h"
#include "common/base/clock.h"

static grpc_completion_queue *create_cq(bool listens) {
  if (listens) return grpc_completion_queue_create_for_next(NULL);
  grpc_completion_queue_attributes attributes = {GRPC_CQ_CURRENT_VERSION, GRPC_CQ_NEXT,
                                                 GRPC_CQ_NON_LISTENING, NULL};
  return grpc_completion_queue_create(grpc_completion_queue_factory_lookup(&attributes),
                                      &attributes, NULL);
}

void queue_init(struct queue *queue, bool listens) {
  queue->cq = create_cq(listens);
  atomic_init(&queue->holds, 1);
}

void queue_deinit(struct queue *queue) {
  CHECK(atomic_load(&queue->holds) == 0, "a queue that is still in use");
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

int queue_poll(struct queue *queue, int64_t deadline_us) {
  gpr_timespec deadline = core_deadline_in_us(deadline_us - clock_now_us());
  grpc_event event = grpc_completion_queue_next(queue->cq, deadline, NULL);
  if (event.type == GRPC_QUEUE_SHUTDOWN) return -1;
  if (event.type == GRPC_QUEUE_TIMEOUT) return 0;
  struct op *op = event.tag;
  op->run(op->owner, event.success != 0);
  return 1;
}
