/* The reference device: naive loops that read like the formulas, and the oracle that the other
 * devices are tested against. Compiled twice (Makefile): REAL is float or double, REF_DEVICE
 * names the two symbols it exports. */
#include "learner/device/ref/ref.h"

#include "learner/device/plain_pixels.h"
#include "learner/device/ref/ref_image.h"
#include "learner/device/ref/ref_linear.h"
#include "learner/device/ref/ref_lstm.h"
#include "learner/device/ref/ref_n_step.h"
#include "learner/device/ref/ref_noise.h"
#include "learner/device/ref/ref_optimiser.h"
#include "learner/device/ref/ref_rules.h"
#include "learner/device/ref/ref_steps.h"
#include "learner/device/ref/ref_trace.h"

#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)

/* ---- memory */

static void *ref_alloc(struct device *d, size_t bytes) {
  (void)d;
  return check_alloc(1, bytes ? bytes : 1);
}

static void ref_release(struct device *d, void *memory) {
  (void)d;
  free(memory);
}

static void ref_upload(struct device *d, real *y_, const float *host, size_t n) {
  (void)d;
  REAL *y = (REAL *)y_;
  for (size_t i = 0; i < n; i++) y[i] = (REAL)host[i];
}

static void ref_download(struct device *d, float *host, const real *x_, size_t n) {
  (void)d;
  const REAL *x = (const REAL *)x_;
  for (size_t i = 0; i < n; i++) host[i] = (float)x[i];
}

static void ref_upload_bytes(struct device *d, void *y, const void *host, size_t bytes) {
  (void)d;
  memcpy(y, host, bytes);
}

static void ref_download_bytes(struct device *d, void *host, const void *x, size_t bytes) {
  (void)d;
  memcpy(host, x, bytes);
}

/* Every operation is done when it returns. */
static uint64_t ref_mark(struct device *d) {
  (void)d;
  return 0;
}

static void ref_wait(struct device *d, uint64_t mark) {
  (void)d, (void)mark;
}

static void ref_follow(struct device *d, struct device *other, uint64_t mark) {
  (void)d, (void)other, (void)mark;
}

static void ref_copy_rows(struct device *d, real *y_, int y_stride, const real *x_, int x_stride,
                          int B, int n) {
  (void)d;
  REAL *y = (REAL *)y_;
  const REAL *x = (const REAL *)x_;
  for (int b = 0; b < B; b++)
    for (int i = 0; i < n; i++) y[(size_t)b * y_stride + i] = x[(size_t)b * x_stride + i];
}

/* ---- inputs */

/* Element i of one tensor as a number; the bytes need no alignment. */
static REAL element(const uint8_t *tensor, enum dtype dtype, int i) {
  int32_t whole;
  float number;
  switch (dtype) {
    case DTYPE_UINT8:
      return (REAL)tensor[i] / (REAL)255;
    case DTYPE_INT32:
      memcpy(&whole, tensor + 4 * (size_t)i, 4);
      return (REAL)whole;
    case DTYPE_FLOAT32:
      memcpy(&number, tensor + 4 * (size_t)i, 4);
      return (REAL)number;
  }
  CHECK(false, "unknown dtype %d", (int)dtype);
  return 0;
}

/* Whether action i, counted over all choices, was chosen. */
static bool was_chosen(const struct device_inputs *in, int b, int i) {
  const struct space_choices *choices = &in->choices;
  int c = 0;
  while (c < choices->count && i >= choices->among[c]) i -= choices->among[c++];
  return ((const int32_t *)in->previous_action)[b * space_num_choices(choices) + c] == i;
}

/* Number i of the previous action. */
static REAL previous_action(const struct device_inputs *in, int b, int i) {
  if (in->discrete) return was_chosen(in, b, i);
  if (in->flags[b] & STEP_FIRST) return 0;
  return (REAL)((const float *)in->previous_action)[(size_t)b * (size_t)in->box + (size_t)i];
}

static REAL reward_input(const struct device_inputs *in, int b) {
  REAL reward = (REAL)in->reward[b];
  if (in->flags[b] & STEP_FIRST) return 0;
  return in->raw_reward ? reward : clip(reward, 1);
}

static void ref_embed(struct device *d, real *y_, const struct device_inputs *in, int B) {
  (void)d;
  REAL *y = (REAL *)y_;
  for (int b = 0; b < B; b++) {
    const uint8_t *row = in->observation + (size_t)b * in->row_stride;
    for (int k = 0; k < in->num_tensors; k++)
      for (int i = 0; i < in->tensor[k].count; i++)
        *y++ = element(row + in->tensor[k].row_offset, in->tensor[k].dtype, i);
    if (in->use_previous_action)
      for (int i = 0; i < in->discrete + in->box; i++) *y++ = previous_action(in, b, i);
    if (in->use_reward) *y++ = reward_input(in, b);
  }
}

/* ---- the table */

static void ref_destroy(struct device *d) {
  free(((struct ref *)d)->carry);
  free(d);
}

static const struct device_ops REF_OPS = {
    .name = sizeof(REAL) == sizeof(float) ? "ref" : "ref_double",
    .real_bytes = sizeof(REAL),
    .pixel_bytes = sizeof(REAL),
    .unified = true,
    .images = 32,
    .destroy = ref_destroy,
    .alloc = ref_alloc,
    .release = ref_release,
    .alloc_spilled = ref_alloc,
    .alloc_host = ref_alloc,
    .release_host = ref_release,
    .upload = ref_upload,
    .download = ref_download,
    .upload_bytes = ref_upload_bytes,
    .download_bytes = ref_download_bytes,
    .mark = ref_mark,
    .wait = ref_wait,
    .follow = ref_follow,
    .copy_rows = ref_copy_rows,
    .gather_rows = ref_gather_rows,
    .scatter_rows = ref_scatter_rows,
    .scatter_steps = ref_scatter_steps,
    .gather_steps = ref_gather_steps,
    .embed = ref_embed,
    .linear_forward = ref_linear_forward,
    .linear_backward = ref_linear_backward,
    .linear_pixels_forward = plain_linear_pixels_forward,
    .linear_pixels_backward = plain_linear_pixels_backward,
    .image = ref_image,
    .conv_forward = ref_conv_forward,
    .conv_backward = ref_conv_backward,
    .pool_forward = ref_pool_forward,
    .pool_backward = ref_pool_backward,
    .conv_pool_backward = plain_conv_pool_backward,
    .relu = ref_relu,
    .relu_backward = ref_relu_backward,
    .weights_changed = ref_weights_changed,
    .lstm_forward = ref_lstm_forward,
    .lstm_backward = ref_lstm_backward,
    .random_uniforms = ref_random_uniforms,
    .trace = ref_trace,
    .run_rule = ref_run_rule,
    .n_step = ref_n_step,
    .factor_noise = ref_factor_noise,
    .noisy_forward = ref_noisy_forward,
    .noisy_backward = ref_noisy_backward,
    .global_norm = ref_global_norm,
    .require_finite = ref_require_finite,
    .adam = ref_adam,
    .rmsprop = ref_rmsprop,
};

struct device *PASTE(REF_DEVICE, _create)(void) {
  struct ref *ref = check_alloc(1, sizeof *ref);
  ref->device.ops = &REF_OPS;
  ref->device.description = REF_OPS.name;
  return &ref->device;
}
