/* TensorBoard's event files: what is added is kept in memory until tensorboard_write appends all of
 * it to the file at once.
 *
 * A run has one file for each time it was started; a reader joins them, and drops from the older
 * ones what lies past the step at which a newer one starts. Nothing allocates in the steady
 * state: the memory grows to the largest write.
 * Upstream: learner/report/events.c. Downstream: a run folder.
 * Thread: the one that reports.
 * Invariant: the file is whole records; one that a full disk has cut is taken back. */
#ifndef ACORN_COMMON_METRICS_TENSORBOARD_H
#define ACORN_COMMON_METRICS_TENSORBOARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"
#include "common/metrics/histogram.h"
#include "common/picture/canvas.h"

struct tensorboard;

/* Makes a new event file in `folder` for a run that stands at `first_step`; by its name it comes
 * after all that are there, whatever the clock says.
 * Errors: IO. Owner: the caller, with tensorboard_close, which takes NULL. */
MUST_CHECK enum status tensorboard_open(struct tensorboard **out, const char *folder,
                                        int64_t first_step, struct error *error);
void tensorboard_close(struct tensorboard *tensorboard);
const char *tensorboard_path(const struct tensorboard *tensorboard);

/* A point of a curve. One that is not finite is left out. */
void tensorboard_add_scalar(struct tensorboard *tensorboard, const char *tag, int64_t step,
                            double value);

/* A distribution; an empty one is left out. */
void tensorboard_add_histogram(struct tensorboard *tensorboard, const char *tag, int64_t step,
                               const struct histogram_snapshot *values);
/* The same of `count` finite numbers of any sign. */
void tensorboard_add_values(struct tensorboard *tensorboard, const char *tag, int64_t step,
                            const double *values, int count);

/* Text, shown as Markdown. */
void tensorboard_add_text(struct tensorboard *tensorboard, const char *tag, int64_t step,
                          const char *markdown);

/* A picture. */
void tensorboard_add_image(struct tensorboard *tensorboard, const char *tag, int64_t step,
                           const struct canvas *picture);
/* The same of a PNG or GIF as it stands in a file. Shapes: content (bytes). */
void tensorboard_add_image_file(struct tensorboard *tensorboard, const char *tag, int64_t step,
                                int width, int height, uint8_t *content, size_t bytes);

enum tensorboard_hparam_type {
  TENSORBOARD_STRING,
  TENSORBOARD_BOOL,
  TENSORBOARD_NUMBER,
};

/* One hyperparameter: `string` or `number` (a bool: 0 or 1), by its type. */
struct tensorboard_hparam {
  const char *name;
  enum tensorboard_hparam_type type;
  const char *string;
  double number;
  bool is_shown; /* its column is shown without being asked for */
};

/* For the HPARAMS tab: the run's hyperparameters, and the tags of the scalars whose last values
 * stand beside them. Once, at the start. */
void tensorboard_add_hparams(struct tensorboard *tensorboard,
                             const struct tensorboard_hparam *hparams, int num_hparams,
                             const char *const *metrics, int num_metrics);
/* For the same tab: the run is over. */
void tensorboard_add_end(struct tensorboard *tensorboard, bool success);

/* A summary that only the named plugin understands. Shapes: content (bytes). */
void tensorboard_add_plugin(struct tensorboard *tensorboard, const char *tag, const char *plugin,
                            const uint8_t *content, size_t bytes);

/* Appends what was added since the last write.
 * Errors: IO: the file is as before, what was added is dropped; the next write may succeed. */
MUST_CHECK enum status tensorboard_write(struct tensorboard *tensorboard, struct error *error);

#endif
