/* Operations that have no file yet: each ends the process with its name. Weak, so that a file that
 * has the operation replaces it. */
#include "learner/device/cuda/cuda.h"

#define MISSING __attribute__((weak)) void

MISSING cuda_gather_rows(struct device *, void *, const void *, const int32_t *, int, size_t) {
  CHECK(false, "device cuda has no gather_rows");
}

MISSING cuda_scatter_rows(struct device *, void *, const void *, const int32_t *, int, size_t) {
  CHECK(false, "device cuda has no scatter_rows");
}

MISSING cuda_scatter_steps(struct device *, const struct device_pool *, const int32_t *,
                           const struct device_steps *, int) {
  CHECK(false, "device cuda has no scatter_steps");
}

MISSING cuda_gather_steps(struct device *, const struct device_steps *, int, int,
                          const struct device_pool *, const struct device_unroll *) {
  CHECK(false, "device cuda has no gather_steps");
}

MISSING cuda_embed(struct device *, real *, const struct device_inputs *, int) {
  CHECK(false, "device cuda has no embed");
}

MISSING cuda_image(struct device *, real *, const struct device_inputs *, int) {
  CHECK(false, "device cuda has no image");
}

MISSING cuda_linear_forward(struct device *, real *, const real *, int, const real *, const real *,
                            enum activation, int, int, int) {
  CHECK(false, "device cuda has no linear_forward");
}

MISSING cuda_linear_backward(struct device *, real *, real *, real *, real *, const real *,
                             const real *, int, const real *, enum activation, int, int, int) {
  CHECK(false, "device cuda has no linear_backward");
}

MISSING cuda_weights_changed(struct device *) {
  CHECK(false, "device cuda has no weights_changed");
}

MISSING cuda_conv_forward(struct device *, real *, const real *, const real *, const real *,
                          const real *, enum activation, const struct device_window *, int) {
  CHECK(false, "device cuda has no conv_forward");
}

MISSING cuda_conv_backward(struct device *, real *, real *, real *, real *, const real *,
                           const real *, const real *, enum activation,
                           const struct device_window *, int, bool) {
  CHECK(false, "device cuda has no conv_backward");
}

MISSING cuda_pool_forward(struct device *, real *, uint8_t *, const real *,
                          const struct device_window *, int) {
  CHECK(false, "device cuda has no pool_forward");
}

MISSING cuda_pool_backward(struct device *, real *, const real *, const uint8_t *,
                           const struct device_window *, int) {
  CHECK(false, "device cuda has no pool_backward");
}

MISSING cuda_relu(struct device *, real *, const real *, size_t) {
  CHECK(false, "device cuda has no relu");
}

MISSING cuda_relu_backward(struct device *, real *, const real *, const real *, size_t) {
  CHECK(false, "device cuda has no relu_backward");
}

MISSING cuda_lstm_forward(struct device *, real *, real *, real *, const real *, const real *,
                          const real *, const uint8_t *, int, int, int) {
  CHECK(false, "device cuda has no lstm_forward");
}

MISSING cuda_lstm_backward(struct device *, real *, real *, real *, const real *, const real *,
                           const real *, const real *, const real *, const real *, const uint8_t *,
                           int, int, int) {
  CHECK(false, "device cuda has no lstm_backward");
}

MISSING cuda_random_uniforms(struct device *, float *, uint64_t, const struct device_draws *,
                             enum random_purpose, int) {
  CHECK(false, "device cuda has no random_uniforms");
}

MISSING cuda_categorical_sample(struct device *, int32_t *, float *, const real *, int,
                                const float *, int, int) {
  CHECK(false, "device cuda has no categorical_sample");
}

MISSING cuda_categorical_evaluate(struct device *, real *, real *, const real *, int,
                                  const int32_t *, int, int) {
  CHECK(false, "device cuda has no categorical_evaluate");
}

MISSING cuda_categorical_backward(struct device *, real *, int, const real *, int, const int32_t *,
                                  const real *, const real *, int, int) {
  CHECK(false, "device cuda has no categorical_backward");
}

MISSING cuda_epsilon_greedy(struct device *, int32_t *, float *, const real *, int,
                            const struct device_action_values *, const float *, const float *,
                            int) {
  CHECK(false, "device cuda has no epsilon_greedy");
}

MISSING cuda_trace(struct device *, real *, real *, const struct device_trace *) {
  CHECK(false, "device cuda has no trace");
}

MISSING cuda_actor_critic_loss(struct device *, real *, real *, real *, real *,
                               const struct device_trace *, const real *, const real *,
                               const real *, const struct device_schedule *, float, float) {
  CHECK(false, "device cuda has no actor_critic_loss");
}

MISSING cuda_q_loss(struct device *, real *, real *, float *, real *,
                    const struct device_q_loss *) {
  CHECK(false, "device cuda has no q_loss");
}

MISSING cuda_q_distance(struct device *, real *, const real *, const real *, int,
                        const struct device_action_values *, int) {
  CHECK(false, "device cuda has no q_distance");
}

MISSING cuda_factor_noise(struct device *, real *, uint64_t, uint32_t, uint32_t, int) {
  CHECK(false, "device cuda has no factor_noise");
}

MISSING cuda_noisy_forward(struct device *, real *, const real *, const real *, const real *,
                           const real *, int, int) {
  CHECK(false, "device cuda has no noisy_forward");
}

MISSING cuda_noisy_backward(struct device *, real *, const real *, const real *, const real *, int,
                            int) {
  CHECK(false, "device cuda has no noisy_backward");
}

MISSING cuda_global_norm(struct device *, real *, const real *, size_t) {
  CHECK(false, "device cuda has no global_norm");
}

MISSING cuda_require_finite(struct device *, real *, const real *, size_t) {
  CHECK(false, "device cuda has no require_finite");
}

MISSING cuda_adam(struct device *, real *, real *, real *, const real *, const real *,
                  const struct device_schedule *, float, float, float, float, bool, size_t) {
  CHECK(false, "device cuda has no adam");
}

MISSING cuda_rmsprop(struct device *, real *, real *, real *, const real *, const real *,
                     const struct device_schedule *, float, float, float, float, size_t) {
  CHECK(false, "device cuda has no rmsprop");
}

__attribute__((weak)) void cuda_linear_destroy(struct cuda *) {}

__attribute__((weak)) void cuda_conv_destroy(struct cuda *) {}
