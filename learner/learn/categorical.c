/* categorical: softmax over the logits of a discrete action space. Statistics: log mu(a|x). */
#include "learner/learn/categorical.h"
#include "learner/learn/policy.h"
#include "learner/learn/algorithms.h"

static int head_size(const struct space *space) {
  return space->discrete;
}

static void choose(struct device *device, void *action, float *statistics,
                   const struct network_outputs *out, const struct policy_rows *rows, int B) {
  categorical_sample(device, action, statistics, out->head, out->stride, rows->uniform, B,
                     out->size);
}

static void evaluate(struct device *device, real *log_prob, real *entropy,
                     const struct network_outputs *out, const void *action, int B) {
  categorical_evaluate(device, log_prob, entropy, out->head, out->stride, action, B, out->size);
}

static void backward(struct device *device, real *d_head, const struct network_outputs *out,
                     const void *action, const real *d_log_prob, const real *d_entropy, int B) {
  categorical_backward(device, d_head, out->stride, out->head, out->stride, action, d_log_prob,
                       d_entropy, B, out->size);
}

const struct policy policy_categorical = {
    .name = "categorical",
    .actions = "discrete",
    .head_size = head_size,
    .statistics = 1,
    .choose = choose,
    .evaluate = evaluate,
    .backward = backward,
};
