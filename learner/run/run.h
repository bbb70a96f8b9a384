/* One run, wired: all parts of the learner, made from the options and started and stopped in order.
 * Upstream: learner/main.c. Thread: main. */
#ifndef ACORN_LEARNER_RUN_RUN_H
#define ACORN_LEARNER_RUN_RUN_H

#include <signal.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "common/metrics/metrics.h"
#include "learner/learn/algorithms.h"
#include "learner/run/folder.h"
#include "learner/run/options.h"
#include "learner/experience/step_shape.h"
#include "learner/params/checkpoint.h"
#include "learner/episodes/progress.h"
#include "learner/run/run_kept.h"
#include "learner/serve/serve.h"
#include "learner/train/peers.h"
#include "learner/train/trainer.h"

struct run {
  const struct learner_options *options;
  struct folder folder;
  struct credentials *credentials; /* of the port */
  bool trains;                     /* there is something to learn and a mode that learns */
  bool evaluates;                  /* mode=evaluate */
  int num_train_slots, num_eval_slots;

  char env_name[WIRE_NAME_BYTES];        /* the environment's own name: "tmaze" */
  char identity[WIRE_ENVIRONMENT_BYTES]; /* the environment with its options: "tmaze(length=20)" */
  char label[2 * WIRE_NAME_BYTES];       /* what the run is called by: "atari-Breakout" */
  struct space space;
  struct device_inputs inputs;
  struct device *inference_device, *trainer_device;
  struct device *saver_device;       /* of the replay's file; NULL: none is written */
  const struct algorithm_row *agent; /* what --agent names */
  const struct policy *policy;       /* its own for the environment's actions */
  int rank;                          /* of this learner among several; alone: 0 */
  struct peers *peers;               /* these, see run_learners.h; NULL: it is alone */
  pid_t learner_process[PEERS_MAX];  /* of those that this one has started; 0: none */
  struct folder own_folder;          /* while `folder` is that of rank 0, which has ended: */
  bool has_taken_folder;
  int learners_file; /* descriptor of what they share; 0: none was made here */
  struct network *network;
  struct step_shape shape;        /* of all steps: from the space, the policy and the network */
  struct exploration exploration; /* of a policy over values of actions */
  struct {
    struct pages_config pages;
    int64_t min_windows; /* in a replay before training starts */
  } plan;                /* what the sizes in the options come to */
  struct progress *progress;
  struct episode_log *episodes; /* for episodes.csv; NULL: none is written */
  struct weights *weights;
  struct update
      *update; /* the next four: NULL unless it trains (update: unless there is a network) */
  struct train_batch *blank; /* for updates that this learner has no batch for; NULL: alone */
  struct pages *pages;
  struct source *source;
  struct trainer *trainer;
  struct batcher *batcher;
  struct leases *leases;
  struct ingress *ingress;
  struct inference *inference;
  struct serve *serve;
  struct run_parameters *parameters; /* the calls that get and set them, see run_parameters.h */
  struct metrics *metrics;
  struct gauges *gauges;
  struct inference_metrics inference_metrics;
  struct metric *fifo_wait_us, *trainer_wait_us, *window_lag_updates, *update_us;
  struct metric *initial_priority, *updated_priority, *window_age_steps; /* of a replay */
  struct run_replay *replay;          /* its file, see run_replay.h; NULL: it is not saved */
  struct checkpoint_kept kept;        /* of the thread that writes checkpoints */
  struct run_kept others;             /* best and by steps */
  _Atomic int saved_kinds;            /* enum kept_kind: what the buffer was asked for */
  bool resumed, was_finished;         /* finished: resumed with nothing left to train */
  char played[CHECKPOINT_PATH_BYTES]; /* the checkpoint that was loaded; "": none */
};

/* Acting waits for every update. */
static inline bool run_is_synchronous(const struct run *run) {
  return run->agent->pace == SYNCHRONOUS;
}

static inline bool run_replays(const struct run *run) {
  return run->agent->pace == REPLAYED;
}

/* Called from other threads; both only wake main's loop. */
struct run_callbacks {
  void (*on_stop)(void *context);
  void (*on_saved)(void *context);
  void *context;
  char *const *words; /* the program's own, for other learners of the run; NULL: there are none */
};

/* Makes everything, loads the checkpoint when there is one to resume or evaluate. Sets the options
 * that depend on what the environment looks like. Errors: what the user can mend. */
MUST_CHECK enum status run_create(struct run *run, struct learner_options *options,
                                  const struct run_callbacks *callbacks, struct error *error);
/* Starts the trainer, then the server. */
MUST_CHECK enum status run_start(struct run *run, struct error *error);

/* Stops in the order of "Stopping" in docs/design/learner.md. First: refuse Joins; the source
 * closes; the trainer ends its update. */
void run_stop_training(struct run *run);
/* Then: last replies; streams end; calls are cancelled; queues drain. Waits a while for players
 * that have lost their connection, unless *hurry. */
void run_end_streams(struct run *run, const volatile sig_atomic_t *hurry);

void run_destroy(struct run *run);

#endif
