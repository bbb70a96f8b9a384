/* The CPU device's vector kernels, compiled once per instruction set (Makefile: KERNELS names
 * the table). The story is in the parts; here are the small operations and the table. */
#include "learner/device/cpu/cpu.h"
#include "learner/device/cpu/cpu_divergence.h"
#include "learner/device/cpu/cpu_image.h"
#include "learner/device/cpu/cpu_linear.h"
#include "learner/device/cpu/cpu_lstm.h"
#include "learner/device/cpu/cpu_n_step.h"
#include "learner/device/cpu/cpu_noise.h"
#include "learner/device/cpu/cpu_optimiser.h"
#include "learner/device/cpu/cpu_random.h"
#include "learner/device/cpu/cpu_rules.h"
#include "learner/device/cpu/cpu_steps.h"
#include "learner/device/cpu/cpu_trace.h"
#include "learner/device/plain_pixels.h"

/* Few numbers per row go down the columns, W rows at a time. */
static void copy_floats(float *y, size_t y_stride, const float *x, size_t x_stride, int B, int n) {
  if (n < 4) {
    for (int b = 0; b < B; b += W)
      for (int i = 0; i < n; i++)
        store_column(y + b * y_stride + i, (int)y_stride,
                     load_column(x + b * x_stride + i, (int)x_stride, at_most_int(W, B - b)),
                     at_most_int(W, B - b));
    return;
  }
  for (int b = 0; b < B; b++)
    for (int i = 0; i < n; i += W)
      store_some(y + b * y_stride + i, load_some(x + b * x_stride + i, n - i), n - i);
}

static void copy_rows(struct device *d, real *y, int y_stride, const real *x, int x_stride, int B,
                      int n) {
  (void)d;
  copy_floats((float *)y, (size_t)y_stride, (const float *)x, (size_t)x_stride, B, n);
}

/* ---- inputs */

static float reward_input(const struct device_inputs *in, int b) {
  float reward = in->reward[b];
  if (in->flags[b] & STEP_FIRST) return 0;
  if (in->raw_reward) return reward;
  return reward > 1 ? 1 : reward < -1 ? -1 : reward;
}

/* Of each choice which one was made. */
static void embed_discrete(float *y, const struct device_inputs *in, int b) {
  int C = space_num_choices(&in->choices);
  const int32_t *chosen = (const int32_t *)in->previous_action + (size_t)b * (size_t)C;
  for (int c = 0; c < C; c++)
    for (int a = 0, A = space_among(&in->choices, c, in->discrete); a < A; a++)
      *y++ = chosen[c] == a;
}

static void embed_box(float *y, const struct device_inputs *in, int b) {
  const float *action = (const float *)in->previous_action + (size_t)b * (size_t)in->box;
  bool first = in->flags[b] & STEP_FIRST;
  for (int i = 0; i < in->box; i++) y[i] = first ? 0 : action[i];
}

static bool is_plain(const struct device_inputs *in) {
  return in->num_tensors == 1 && in->tensor[0].dtype == DTYPE_FLOAT32 && in->row_stride % 4 == 0 &&
         !in->use_previous_action && !in->use_reward;
}

static void embed(struct device *d, real *y_, const struct device_inputs *in, int B) {
  (void)d;
  float *y = (float *)y_;
  if (is_plain(in)) {
    const float *x = (const float *)(const void *)(in->observation + in->tensor[0].row_offset);
    copy_floats(y, (size_t)in->tensor[0].count, x, in->row_stride / 4, B, in->tensor[0].count);
    return;
  }
  for (int b = 0; b < B; b++) {
    const uint8_t *row = in->observation + (size_t)b * in->row_stride;
    for (int k = 0; k < in->num_tensors; k++) {
      embed_tensor(y, row + in->tensor[k].row_offset, in->tensor[k].dtype, in->tensor[k].count);
      y += in->tensor[k].count;
    }
    if (in->use_previous_action) {
      if (in->discrete)
        embed_discrete(y, in, b);
      else
        embed_box(y, in, b);
      y += in->discrete + in->box;
    }
    if (in->use_reward) *y++ = reward_input(in, b);
  }
}

/* ---- the table */

const struct device_ops KERNELS = {
    .name = "cpu",
    .real_bytes = sizeof(float),
    .pixel_bytes = sizeof(float),
    .unified = true,
    .images = 32,
    .destroy = cpu_destroy,
    .alloc = cpu_alloc,
    .release = cpu_release,
    .alloc_spilled = cpu_alloc,
    .alloc_host = cpu_alloc,
    .release_host = cpu_release,
    .upload = cpu_upload,
    .download = cpu_download,
    .upload_bytes = cpu_upload_bytes,
    .download_bytes = cpu_download_bytes,
    .mark = cpu_mark,
    .wait = cpu_wait,
    .follow = cpu_follow,
    .copy_rows = copy_rows,
    .gather_rows = gather_rows,
    .scatter_rows = scatter_rows,
    .scatter_steps = scatter_steps,
    .gather_steps = gather_steps,
    .embed = embed,
    .linear_forward = linear_forward,
    .linear_backward = linear_backward,
    .linear_pixels_forward = plain_linear_pixels_forward,
    .linear_pixels_backward = plain_linear_pixels_backward,
    .image = image,
    .conv_forward = conv_forward,
    .conv_backward = conv_backward,
    .pool_forward = pool_forward,
    .pool_backward = pool_backward,
    .conv_pool_backward = plain_conv_pool_backward,
    .relu = relu,
    .relu_backward = relu_backward,
    .weights_changed = cpu_dnnl_weights_changed,
    .lstm_forward = lstm_forward,
    .lstm_backward = lstm_backward,
    .random_uniforms = random_uniforms,
    .trace = trace,
    .run_rule = run_rule_of_cpu,
    .n_step = n_step,
    .factor_noise = factor_noise,
    .noisy_forward = noisy_forward,
    .noisy_backward = noisy_backward,
    .global_norm = global_norm,
    .require_finite = require_finite,
    .adam = adam,
    .rmsprop = rmsprop,
};
