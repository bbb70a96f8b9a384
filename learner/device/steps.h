/* Steps as operations take them: what a network reads of them, where they are kept, which of them
 * make a window, whose random numbers they get. Shapes: see device.h.
 * Upstream: learner/device. */
#ifndef ACORN_LEARNER_DEVICE_STEPS_H
#define ACORN_LEARNER_DEVICE_STEPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/space.h"
#include "common/base/step.h"

/* What a network reads of B steps. Shapes: observation (B, row_stride) bytes; the others (B). */
struct device_inputs {
  const uint8_t *observation;
  size_t row_stride;
  int num_tensors;
  struct {
    enum dtype dtype;
    int count;                   /* elements */
    size_t row_offset;           /* bytes from the start of the row, a multiple of 16 */
    int height, width, channels; /* of an image; 0: not one */
    int planes; /* of such images, one after the other: (planes, height, width, channels); 0 counts
                   as 1. Channel-first images have planes, and one channel */
  } tensor[SPACE_MAX_TENSORS];
  /* (B, choices made) int32, -1: none; or (B, box) float, none on a first row */
  const void *previous_action;
  const float *reward;  /* of the step into x_t, as received */
  const uint8_t *flags; /* bit 0 (1): first: the reward input is 0, so is a box's action */
  int discrete;         /* actions, over all choices together, or 0 for a box */
  struct space_choices choices;
  /* masked: from mask_offset on a row has a byte for each of them, 0: it may not be chosen. No
   * operation reads these two: see network_outputs.mask. */
  bool masked;
  size_t mask_offset; /* a multiple of 16 */
  int box;            /* numbers of an action, or 0 */
  bool use_previous_action, use_reward;
  bool raw_reward; /* the reward input is as received, not clipped to [-1, 1] */
  int stack;       /* frames that image shows together; 0 counts as 1 */
  /* The newest frame is the row itself; frame (B, stack - 1): the rows of `history` (rows,
   * row_stride) that are older, newest first; -1: nothing there, as before a first row. Needed by
   * image only, and only if stack > 1. */
  const uint8_t *history;
  const int32_t *frame;
  /* Read by image only. (numbers of all tensors, in their order) reals; mean NULL: numbers are
   * taken as they are. limit: how many deviations one may be from its mean. */
  const void *mean, *deviation;
  float limit;
};

/* Steps of a batch, (B) in an inference batch, (T+1, N) in a training batch. */
struct device_steps {
  uint8_t *observation; /* (B, row_stride) */
  float *reward;
  uint8_t *flags;
  float *statistics;     /* (B, S) of the policy that acted */
  void *action;          /* (B, action_bytes) */
  void *previous_action; /* (B, action_bytes). Only gathered */
};

/* Where steps are kept. All of a step but its observation is one record, because the steps of a
 * batch are filed far from each other: an array for each member would cost a cache line for each.
 * A record is the reward (float), the flags (1 byte of 4), S statistics (floats), the action; see
 * device_record_bytes. */
struct device_pool {
  uint8_t *observation; /* (rows, row_stride) */
  uint8_t *record;      /* (rows, record_bytes) */
  size_t row_stride, record_bytes;
  int statistics; /* S */
  int action_bytes;
  uint8_t no_action; /* each byte of a previous action where there is none: 0xff makes it -1 */
};

enum { DEVICE_RECORD_FLAGS = 4, DEVICE_RECORD_STATISTICS = 8 }; /* offsets */

/* Bytes of a record, a multiple of 4. */
size_t device_record_bytes(int statistics, int action_bytes);

enum { DEVICE_MAX_SPANS = 8, DEVICE_MAX_FOOTPRINT = 16 };

/* Where the steps of a training window lie in the pool. An element of a table in memory that
 * operations read, so small and without host pointers. */
struct device_unroll {
  const void *previous_action; /* (action_bytes) of the step before the first; device memory */
  int32_t num_spans;           /* of consecutive rows, in the order of the steps */
  int32_t depth;               /* of `before` */
  struct {
    int32_t row, count;
  } span[DEVICE_MAX_SPANS];
  /* Observations before the first step that are needed too, for stacked frames: their rows, newest
   * first. */
  int32_t before[DEVICE_MAX_FOOTPRINT];
};

/* Whose random numbers each row gets. Arrays (B). */
struct device_draws {
  int count; /* of each row */
  const uint32_t *environment, *life, *step;
  const uint8_t *greedy; /* not 0: -1 instead of numbers */
};

/* Number of inputs that embed writes per row: elements of all tensors, A (the box's numbers) if
 * use_previous_action, 1 if use_reward. */
int device_inputs_size(const struct device_inputs *in);

/* Channels of a pixel that the operation image writes for one frame: of every plane of every
 * tensor. */
int device_inputs_channels(const struct device_inputs *in);

/* Whether those lie in memory as they are written: one tensor of uint8, one plane. */
bool device_inputs_plain_image(const struct device_inputs *in);

#endif
