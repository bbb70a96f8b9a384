/* The trainer thread: takes batches from the source, makes updates, publishes the parameters, keeps
 * the run's state for checkpoints. A linear loop. Threads: trainer_* functions are called by main,
 * the loop runs on a thread of its own. Upstream: learner/run/run.c. Downstream:
 * experience/source.h; params/weights.h; main (checkpoint buffers, crossing 4). */
#ifndef ACORN_LEARNER_TRAIN_TRAINER_H
#define ACORN_LEARNER_TRAIN_TRAINER_H

#include "common/metrics/metrics.h"
#include "learner/experience/source.h"
#include "learner/params/weights.h"
#include "learner/episodes/progress.h"
#include "learner/train/access.h"
#include "learner/train/update.h"

/* Counters of the run that travel with the parameters. */
enum {
  TRAINER_STEPS,
  TRAINER_EPISODES,
  TRAINER_RESTARTS,
  TRAINER_TRAINED_STEPS,
  TRAINER_SEED,
  TRAINER_COUNTERS
};
#define TRAINER_COUNTERS_NAME "run/counters" /* in a checkpoint */

enum { TRAINER_IMAGES = 4 };

struct trainer_config {
  /* Called by the trainer at a step border once a requested checkpoint buffer is filled. */
  void (*on_saved)(void *context);
  void *context;
  /* Called by the trainer right before that, when it has given back its batch: captures the source,
   * as it is at the same border. May be NULL. */
  void (*capture_source)(void *saver);
  void *saver;
  struct metric *lag_updates; /* of each window: the age of its first step; may be NULL */
  struct metric *update_us;   /* the time that each update took; may be NULL */
  /* On an asynchronous device an update may be started before the one before it is finished. The
   * source lends two batches at once. */
  bool overlaps;
  /* Other learners that train with this one; NULL: none. An update is made once one of them has a
   * batch and the others have one too, or none for a second. */
  struct peers *peers;
  struct train_batch *blank; /* for an update without a batch of its own */
  int64_t total_steps;       /* of all learners, where the run ends; only with peers */
  bool all_together;         /* updates wait until all of them have batches */
  bool images;               /* the network reads an image: trainer_images shows some */
};

struct trainer;

/* Publishes the initial parameters. Borrows everything for its life. */
struct trainer *trainer_create(const struct trainer_config *config, struct device *device,
                               struct update *update, struct source *source,
                               struct weights *weights, struct progress *progress);
void trainer_destroy(struct trainer *trainer);

void trainer_start(struct trainer *trainer);
/* Ends after the update in hand; the source must have been closed. */
void trainer_join(struct trainer *trainer);

/* Asks for a checkpoint buffer at the next step border; on_saved follows. Nothing happens while one
 * is still in use. */
void trainer_request_save(struct trainer *trainer);
/* What to write, valid from on_saved until trainer_release_save; the number of updates it stands
 * for. */
int trainer_items(struct trainer *trainer, struct checkpoint_item *items);
int64_t trainer_saved_updates(const struct trainer *trainer);
/* What the network saw at an update, one image of each of several windows: (count, ...) as
 * update_images has it; count 0: none yet, or it reads no image. Taken at the first update and with
 * each checkpoint buffer, and valid as long. */
struct trainer_images {
  const float *image;
  int count;
  int64_t updates; /* done by then */
};
struct trainer_images trainer_images(const struct trainer *trainer);
/* The buffer has been written. */
void trainer_release_save(struct trainer *trainer);
/* The same at once, on the caller's thread, when the trainer does not run (at the end). */
void trainer_save_now(struct trainer *trainer);

/* After the items have been filled from a checkpoint: takes them over and publishes. Before
 * trainer_start. */
void trainer_load(struct trainer *trainer);
int64_t trainer_counter(const struct trainer *trainer, int counter);
void trainer_set_counter(struct trainer *trainer, int counter, int64_t value);

/* Reads or sets parameters between two updates, see access.h. Not with other learners. Thread: any.
 */
void trainer_access(struct trainer *trainer, struct access_request *request);

/* The newest update's figures. stats.steps = 0 before the first. Thread: any. */
struct trainer_report {
  struct update_stats stats;
  int64_t updates, trained_steps;
  int64_t updates_stopped; /* since the start, see update_stats */
  int64_t compute_us;      /* spent in updates since the start */
  enum status status;      /* CORRUPT: training has stopped, `error` says why */
  struct error error;
};
struct trainer_report trainer_report(struct trainer *trainer);

#endif
