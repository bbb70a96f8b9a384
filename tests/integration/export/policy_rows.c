/* What our own network and policy give for rows of a file: compare.py holds them against an
 * exported policy.
 *
 * Usage: policy_rows RUN CHECKPOINT DEVICE ENV <rows >outputs. CHECKPOINT, ENV: "": as the run has
 * them. The rows: int32 T, int32 B, then T times B of these: a byte of flags, the reward (float),
 * the previous action, then the tensors of the observation, all without gaps. Row b of a step
 * follows row b of the step before. The outputs: int32 stride, policy's outputs, values, bytes of
 * an action, S; then T times B of these: the head's outputs (floats), the values of actions
 * (floats), the greedy action as the environment gets it, the state after the step (floats). */
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/process.h"
#include "deploy/inspect/played_run.h"
#include "learner/run/run.h"

/* (T * B) rows; what the device reads lies in its own memory, which is the host's, too. */
struct rows {
  int T, B;
  uint8_t *observation; /* (T, B, row_stride) */
  float *reward;
  uint8_t *flags;
  uint8_t *previous; /* (T, B, action_bytes) */
  int32_t *frame;    /* (T, B, stack - 1) */
};

static void take(void *to, size_t bytes) {
  CHECK(fread(to, 1, bytes, stdin) == bytes, "the rows end early");
}

static void *room(struct run *run, size_t bytes) {
  return run->inference_device->ops->alloc(run->inference_device, bytes + 1);
}

static void read_rows(struct rows *rows, struct run *run) {
  int32_t size[2];
  take(size, sizeof(size));
  size_t count = (size_t)size[0] * (size_t)size[1];
  size_t action = (size_t)run->shape.action_bytes, stride = run->inputs.row_stride;
  *rows = (struct rows){.T = size[0],
                        .B = size[1],
                        .observation = room(run, count * stride),
                        .reward = room(run, count * sizeof(float)),
                        .flags = room(run, count),
                        .previous = room(run, count * action),
                        .frame = room(run, count * sizeof(int32_t) * 16)};
  struct wire_layout layout;
  wire_layout_of_space(&layout, &run->space, 1);
  for (size_t i = 0; i < count; i++) {
    take(&rows->flags[i], 1);
    take(&rows->reward[i], sizeof(float));
    take(rows->previous + i * action, action);
    for (int k = 0; k < run->space.num_tensors; k++)
      take(rows->observation + i * stride + layout.tensor[k].row_offset,
           space_tensor_bytes(&run->space.tensor[k]));
  }
}

/* Earlier frames of the episode that row b of step t is in. */
static void find_frames(struct rows *rows, int t, int stack) {
  for (int b = 0; b < rows->B; b++)
    for (int k = 1, from = t; k < stack; k++) {
      bool is_first = from < 0 || rows->flags[from * rows->B + b] & STEP_FIRST;
      from = is_first ? -1 : from - 1;
      rows->frame[(t * rows->B + b) * (stack - 1) + k - 1] = from < 0 ? -1 : from * rows->B + b;
    }
}

static struct device_inputs inputs_of(const struct run *run, struct rows *rows, int t) {
  size_t first = (size_t)t * (size_t)rows->B;
  int stack = run->inputs.stack > 1 ? run->inputs.stack : 1;
  struct device_inputs inputs = run->inputs;
  find_frames(rows, t, stack);
  inputs.observation = rows->observation + first * inputs.row_stride;
  inputs.previous_action = rows->previous + first * (size_t)run->shape.action_bytes;
  inputs.reward = rows->reward + first;
  inputs.flags = rows->flags + first;
  inputs.history = rows->observation;
  inputs.frame = rows->frame + first * (size_t)(stack - 1);
  return inputs;
}

static void put_reals(const struct run *run, const real *x, size_t count) {
  float *host = check_alloc(count + 1, sizeof(*host));
  run->inference_device->ops->download(run->inference_device, host, x, count);
  fwrite(host, sizeof(*host), count, stdout);
  free(host);
}

/* Of row b of what a step gives. */
static void put_row(const struct run *run, const struct network_outputs *out, const real *values,
                    const uint8_t *chosen, const real *state, int b) {
  struct device *device = run->inference_device;
  size_t action = (size_t)run->shape.action_bytes, row = (size_t)b;
  size_t A = values ? (size_t)out->of_actions->A : 0, S = (size_t)run->shape.state_size;
  uint8_t sent[SPACE_MAX_BOX * sizeof(float)];
  memcpy(sent, chosen + row * action, action);
  if (run->policy->send) run->policy->send(sent, chosen + row * action, &run->space);
  put_reals(run, device_at_const(device, out->head, row * (size_t)out->stride),
            (size_t)out->stride);
  if (values) put_reals(run, device_at_const(device, values, row * A), A);
  fwrite(sent, 1, action, stdout);
  if (S > 0) put_reals(run, device_at_const(device, state, row * S), S);
}

static void play(struct run *run, struct rows *rows) {
  struct device *device = run->inference_device;
  size_t B = (size_t)rows->B, S = (size_t)run->shape.state_size;
  size_t reals = device->ops->real_bytes;
  int draws = policy_draws(run->policy, &run->space);
  struct network_workspace *workspace =
      network_workspace_create(run->network, device, rows->B, false);
  real *state[2] = {room(run, B * S * reals), room(run, B * S * reals)};
  uint8_t *chosen = room(run, B * (size_t)run->shape.action_bytes);
  float *statistics = room(run, B * sizeof(float) * 2);
  float *uniform = room(run, B * sizeof(float) * (size_t)draws);
  float *epsilon = room(run, B * sizeof(float));
  for (size_t i = 0; i < B * (size_t)draws; i++) uniform[i] = -1;
  const struct policy_rows greedy = {uniform, epsilon};
  int64_t version;
  const real *params = weights_acquire(run->weights, &version);
  device->ops->weights_changed(device);
  for (int t = 0; t < rows->T; t++) {
    struct device_inputs inputs = inputs_of(run, rows, t);
    struct network_outputs out;
    network_forward(workspace, &out, state[(t + 1) % 2], params, &inputs, state[t % 2], 1, rows->B);
    run->policy->choose(device, chosen, statistics, &out, &greedy, rows->B);
    const real *values = run->policy->action_values ? network_values(device, &out, rows->B) : NULL;
    for (int b = 0; b < rows->B; b++) put_row(run, &out, values, chosen, state[(t + 1) % 2], b);
  }
  weights_release(run->weights, params);
}

static void ignore(void *context) {
  (void)context;
}

int main(int argc, char **argv) {
  CHECK(argc == 5, "policy_rows RUN CHECKPOINT DEVICE ENV");
  static struct run run = {.folder.lock = -1};
  static struct rows rows;
  struct learner_options options;
  struct error error;
  const struct run_callbacks callbacks = {.on_stop = ignore, .on_saved = ignore};
  const struct played_run played = {.folder = argv[1],
                                    .checkpoint = argv[2],
                                    .device = argv[3],
                                    .env = argv[4],
                                    .precision = "float32",
                                    .code = true};
  process_init();
  log_init("policy_rows", LOG_WARN);
  options_init(&learner_options_table, &options);
  enum status status = played_run_read(&options, &played, &error);
  if (status == STATUS_OK) status = run_create(&run, &options, &callbacks, &error);
  if (status != STATUS_OK) {
    fprintf(stderr, "policy_rows: %s\n", error.text);
    return 1;
  }
  CHECK(run.inference_device->ops->unified, "device %s has memory of its own", argv[3]);
  read_rows(&rows, &run);
  const int32_t sizes[] = {network_head_stride(run.network), network_head_size(run.network),
                           run.policy->action_values ? network_action_values(run.network)->A : 0,
                           run.shape.action_bytes, run.shape.state_size};
  fwrite(sizes, sizeof(sizes), 1, stdout);
  play(&run, &rows);
  return ferror(stdout) || fflush(stdout) != 0;
}
