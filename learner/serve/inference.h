/* Inference batches: rows in, actions out; then the steps are stored in pages and closed windows
 * handed to training. On a CPU the actions are sent before the step is stored, so that actors step
 * while the learner stores. A batch is launched (the device computes) and finished (the host waits
 * for the actions); on an asynchronous device a second one may be launched in between.
 * Thread: inference (with one queue on a CPU: the queue's own thread).
 * Upstream: serve.c. Downstream: serve/memory.h; experience/{pages,source}.h; params/weights.h;
 * learner/network, learner/learn/policy.h. */
#ifndef ACORN_LEARNER_SERVE_INFERENCE_H
#define ACORN_LEARNER_SERVE_INFERENCE_H

#include "common/metrics/metrics.h"
#include "learner/learn/exploration.h"
#include "learner/learn/policy.h"
#include "learner/experience/source.h"
#include "learner/experience/pages.h"
#include "learner/params/weights.h"
#include "learner/episodes/progress.h"
#include "learner/serve/batcher.h"

struct inference_config {
  const struct policy *policy; /* what chooses the actions */
  const struct space *space;   /* that they are in; borrowed */
  struct step_shape shape;     /* as the pages' */
  int num_slots;               /* training slots, then evaluation slots */
  int num_train_slots;
  int max_rows; /* of a batch */
  uint64_t seed;
  int rank;                       /* of this learner */
  bool greedy_eval;               /* evaluation rows take the argmax, or explore as little as
                                     exploration says; false: they act as the first training row */
  struct exploration exploration; /* of a policy over values of actions */
  bool count_eval_steps;          /* evaluate mode: their steps are the run's */
  bool lockstep;                  /* deterministic */
  bool waits_for_updates;         /* of a batch that it has filled, before it goes on */
  uint32_t first_batch; /* number of the first one, for its noise: other after each restart */
  int running;          /* batches between launch and finish at a time, as the batcher's */
};

struct inference_metrics {
  struct metric *batches, *batch_rows, *batch_wait_us, *batch_run_us;
  struct metric *actor_step_us, *actor_wait_us; /* of each message: the actor's part, and ours */
};

struct inference;

/* Borrows everything for its life. pages and source are NULL when nothing is trained. inputs: the
 * layout of a row. */
struct inference *inference_create(const struct inference_config *config, struct device *device,
                                   const struct network *network,
                                   const struct device_inputs *inputs, struct weights *weights,
                                   struct batcher *batcher, struct pages *pages,
                                   struct source *source, struct progress *progress,
                                   const struct inference_metrics *metrics);
void inference_destroy(struct inference *inference);

/* Whether the run has ended: no further batch may run, so that a budget ends it at the same step
 * every time. */
bool inference_ended(const struct inference *inference);

/* Gives a batch to the device. There must be room. Owner: lent until it is finished. */
void inference_launch(struct inference *inference, struct row_batch *batch);
/* Waits for the batch that was launched first, answers its streams, files its steps and recycles
 * it. */
void inference_finish(struct inference *inference);
/* Whether that would wait for the device. */
bool inference_computes(struct inference *inference);
/* Batches between the two, and whether one more may be launched. */
int inference_running(const struct inference *inference);
bool inference_has_room(const struct inference *inference);

#endif
