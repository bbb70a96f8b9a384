/* The run in TensorBoard: every metric as a curve, distributions as histograms, the configuration
 * as text, the hyperparameters and the final return for the HPARAMS tab. The x axis is frames.
 * A disk that is full, or a folder that cannot be written, is said once; training goes on.
 * Upstream: learner/report/report.c. Downstream: common/metrics/tensorboard.h. Thread: main. */
#ifndef ACORN_LEARNER_REPORT_EVENTS_H
#define ACORN_LEARNER_REPORT_EVENTS_H

#include "common/metrics/tensorboard.h"
#include "learner/run/run.h"

struct events {
  struct tensorboard *tensorboard; /* NULL: none */
  bool failing;                    /* the last write failed */
  double written_s;                /* when, in the run's seconds */
  double images_s;                 /* the same of images; 0: none are written yet */
  int64_t images_updates;          /* of these: when they were seen */
};

/* Begins a file in the run folder, with the configuration and the hyperparameters. */
void events_open(struct events *events, struct run *run);
/* Adds the metrics as they stand: the gauges, and the histograms of the last closed interval. In a
 * long run most calls do nothing: a day comes to some 10,000 points. `seconds`: since the start. */
void events_write(struct events *events, struct run *run, int64_t step, double seconds);
/* Adds what the network saw at the checkpoint that has just been written, if it reads images: the
 * first time, and then whenever the run's time has grown by a quarter, so that a run of days has
 * some fifty. The checkpoint's buffer must still be main's (trainer_release_save), or the trainer
 * have ended. `seconds`: since the start. */
void events_write_images(struct events *events, struct run *run, double seconds);
/* Adds the GIF at `path` as an image, if it is one and not large. */
void events_write_video(struct events *events, const char *path, int64_t step);
/* Says that the run is over, and how. */
void events_close(struct events *events, struct run *run);

#endif
