#include "learner/network/head.h"

#include <math.h>
#include <string.h>

#include "common/base/check.h"

enum { MAX_STREAMS = 2 };

/* A head of one layer is one stream without a hidden layer. */
struct stream {
  bool has_hidden;
  struct noisy_layer hidden, output;
  int column, outputs; /* of the head: the first that it writes, and how many */
};

struct head {
  int inputs;
  struct stream stream[MAX_STREAMS];
  int num_streams;
  int log_std; /* parameter (log_stds), if there are any */
};

struct stream_buffers {
  struct noisy_layer_buffers hidden_layer, output_layer;
  real *hidden;              /* (rows, H); NULL without a hidden layer, and so d_hidden */
  real *output;              /* (rows, outputs); the head itself where that has no others */
  real *d_hidden, *d_output; /* NULL without backward; d_output also if output is the head */
};

struct head_buffers {
  struct stream_buffers stream[MAX_STREAMS];
  real *d_log_std; /* (rows + 1, log_stds): gradients of rows, and room for what nobody wants; NULL
                      without backward, or without any */
  real *dx;        /* (rows, inputs) from the second stream; NULL without backward, or without it */
};

/* ---- create */

static void declare_one_layer(struct network *network, struct stream *stream, int inputs) {
  stream->outputs = network->config.head_size + network->config.value_size;
  stream->output = noisy_layer_declare(network, "head", inputs, stream->outputs, ACTIVATION_NONE);
}

static void declare_stream(struct network *network, struct stream *stream, const char *hidden,
                           const char *output, int inputs) {
  int H = network->config.head_hidden;
  stream->has_hidden = true;
  stream->hidden = noisy_layer_declare(network, hidden, inputs, H, ACTIVATION_RELU);
  stream->output = noisy_layer_declare(network, output, H, stream->outputs, ACTIVATION_NONE);
}

static void declare_streams(struct network *network, struct head *head, int inputs) {
  struct stream *first = &head->stream[0], *second = &head->stream[1];
  first->outputs = second->column = network->config.head_size;
  second->outputs = network->config.value_size;
  head->num_streams = second->outputs > 0 ? 2 : 1;
  declare_stream(network, first, "head/advantage_hidden", "head/advantage", inputs);
  if (head->num_streams > 1)
    declare_stream(network, second, "head/value_hidden", "head/value", inputs);
}

void head_declare(struct network *network, int inputs) {
  int log_stds = network->config.log_stds;
  struct head *head = network->head = check_alloc(1, sizeof(*head));
  head->inputs = inputs;
  head->num_streams = 1;
  if (network->config.head_hidden)
    declare_streams(network, head, inputs);
  else
    declare_one_layer(network, &head->stream[0], inputs);
  if (log_stds) head->log_std = network_declare(network, "head/log_std", 1, log_stds, 1);
}

static void init_noisy(const struct network *network, const struct stream *stream, float *host,
                       uint64_t seed) {
  if (stream->has_hidden) noisy_layer_init(network, &stream->hidden, host, seed);
  noisy_layer_init(network, &stream->output, host, seed);
}

static void init_plain(const struct network *network, const struct stream *stream, float *host,
                       uint64_t seed) {
  const struct dense *hidden = &stream->hidden.dense, *output = &stream->output.dense;
  int left = network->config.head_size - stream->column; /* for the policy, in this stream */
  int policy = left < stream->outputs ? left : stream->outputs;
  if (stream->has_hidden) dense_init(network, hidden, host, seed, 0, hidden->outputs, sqrt(2));
  dense_init(network, output, host, seed, 0, policy, 0.01);
  dense_init(network, output, host, seed, policy, stream->outputs, 1);
}

void head_init(const struct network *network, float *host, uint64_t seed) {
  const struct head *head = network->head;
  for (int s = 0; s < head->num_streams; s++)
    if (network->config.noisy)
      init_noisy(network, &head->stream[s], host, seed);
    else
      init_plain(network, &head->stream[s], host, seed);
  if (network->config.log_stds > 0)
    memset(host + network->parameter[head->log_std].offset, 0,
           (size_t)network->config.log_stds * sizeof(*host));
}

void head_list(const struct network *network, struct network_layer_list *list) {
  const struct head *head = network->head;
  for (int s = 0; s < head->num_streams; s++) {
    const struct stream *stream = &head->stream[s];
    if (stream->has_hidden) dense_list(&stream->hidden.dense, s + 1, list);
    dense_list(&stream->output.dense, s + 1, list);
  }
}

static void allocate_stream(struct network_workspace *workspace, struct stream_buffers *buffers,
                            const struct stream *stream) {
  bool whole = stream->outputs == workspace->network->outputs;
  int H = workspace->network->config.head_hidden;
  noisy_layer_allocate(workspace, &buffers->output_layer, &stream->output);
  buffers->output = whole ? workspace->head : workspace_reals(workspace, stream->outputs);
  if (workspace->backward && !whole)
    buffers->d_output = workspace_reals(workspace, stream->outputs);
  if (!stream->has_hidden) return;
  noisy_layer_allocate(workspace, &buffers->hidden_layer, &stream->hidden);
  buffers->hidden = workspace_reals(workspace, H);
  if (workspace->backward) buffers->d_hidden = workspace_reals(workspace, H);
}

void head_allocate(struct network_workspace *workspace) {
  const struct head *head = workspace->network->head;
  struct head_buffers *buffers = workspace->head_buffers = check_alloc(1, sizeof(*buffers));
  int log_stds = workspace->network->config.log_stds;
  for (int s = 0; s < head->num_streams; s++)
    allocate_stream(workspace, &buffers->stream[s], &head->stream[s]);
  if (!workspace->backward) return;
  if (head->num_streams > 1) buffers->dx = workspace_reals(workspace, head->inputs);
  if (log_stds > 0)
    buffers->d_log_std =
        workspace_memory(workspace, (size_t)(workspace->rows + 1) * (size_t)log_stds *
                                        workspace->device->ops->real_bytes);
}

int head_value_layer(const struct network *network, const struct dense **layer) {
  const struct head *head = network->head;
  const struct stream *stream = &head->stream[head->num_streams - 1];
  *layer = &stream->output.dense;
  return network->config.head_size - stream->column;
}

void head_set_noise(struct network_workspace *workspace, const struct network_noise *noise) {
  const struct head *head = workspace->network->head;
  for (int s = 0; s < head->num_streams; s++) {
    const struct stream *stream = &head->stream[s];
    struct stream_buffers *buffers = &workspace->head_buffers->stream[s];
    if (stream->has_hidden)
      noisy_layer_draw(workspace, &buffers->hidden_layer, &stream->hidden, noise);
    noisy_layer_draw(workspace, &buffers->output_layer, &stream->output, noise);
  }
}

/* ---- forward, backward */

static void stream_forward(struct network_workspace *workspace,
                           const struct stream_buffers *buffers, const real *params, const real *x,
                           const struct stream *stream, int B) {
  struct device *device = workspace->device;
  if (stream->has_hidden) {
    noisy_layer_forward(workspace, &buffers->hidden_layer, buffers->hidden, params, x,
                        &stream->hidden, B);
    x = buffers->hidden;
  }
  noisy_layer_forward(workspace, &buffers->output_layer, buffers->output, params, x,
                      &stream->output, B);
  if (buffers->output == workspace->head) return;
  device->ops->copy_rows(device, device_at(device, workspace->head, (size_t)stream->column),
                         workspace->network->outputs, buffers->output, stream->outputs, B,
                         stream->outputs);
}

/* Behind all others in the head's rows. */
static size_t log_std_column(const struct network *network) {
  return (size_t)(network->outputs - network->config.log_stds);
}

static void log_std_forward(struct network_workspace *workspace, const real *params, int B) {
  const struct network *network = workspace->network;
  struct device *device = workspace->device;
  if (network->config.log_stds == 0) return;
  device->ops->copy_rows(device, device_at(device, workspace->head, log_std_column(network)),
                         network->outputs,
                         parameter_at_const(workspace, params, network->head->log_std), 0, B,
                         network->config.log_stds);
}

/* The sum over the rows: that of a bias, of a layer whose weights' gradient nobody wants. */
static void log_std_backward(struct network_workspace *workspace, real *grads, const real *params,
                             const real *dhead, int B) {
  const struct network *network = workspace->network;
  struct device *device = workspace->device;
  int n = network->config.log_stds, index = network->head->log_std;
  if (n == 0) return;
  real *d = workspace->head_buffers->d_log_std;
  real *unwanted = device_at(device, d, (size_t)workspace->rows * (size_t)n);
  device->ops->copy_rows(device, d, n, device_at_const(device, dhead, log_std_column(network)),
                         network->outputs, B, n);
  device->ops->linear_backward(
      device, NULL, unwanted, parameter_at(workspace, grads, index), d, d, dhead, network->outputs,
      parameter_at_const(workspace, params, index), ACTIVATION_NONE, B, 1, n);
}

void head_forward(struct network_workspace *workspace, const real *params, const real *x, int B) {
  const struct head *head = workspace->network->head;
  for (int s = 0; s < head->num_streams; s++)
    stream_forward(workspace, &workspace->head_buffers->stream[s], params, x, &head->stream[s], B);
  log_std_forward(workspace, params, B);
}

static void stream_backward(struct network_workspace *workspace,
                            const struct stream_buffers *buffers, real *dx, real *grads,
                            const real *params, real *dhead, const real *x,
                            const struct stream *stream, int B) {
  struct device *device = workspace->device;
  real *d_output = dhead;
  if (buffers->d_output) {
    d_output = buffers->d_output;
    device->ops->copy_rows(device, d_output, stream->outputs,
                           device_at(device, dhead, (size_t)stream->column),
                           workspace->network->outputs, B, stream->outputs);
  }
  bool has_hidden = stream->has_hidden;
  noisy_layer_backward(workspace, &buffers->output_layer, has_hidden ? buffers->d_hidden : dx,
                       grads, params, d_output, buffers->output, has_hidden ? buffers->hidden : x,
                       &stream->output, B);
  if (has_hidden)
    noisy_layer_backward(workspace, &buffers->hidden_layer, dx, grads, params, buffers->d_hidden,
                         buffers->hidden, x, &stream->hidden, B);
}

void head_backward(struct network_workspace *workspace, real *dx, real *grads, const real *params,
                   real *dhead, const real *x, int B) {
  struct device *device = workspace->device;
  const struct head *head = workspace->network->head;
  const struct head_buffers *buffers = workspace->head_buffers;
  log_std_backward(workspace, grads, params, dhead, B);
  stream_backward(workspace, &buffers->stream[0], dx, grads, params, dhead, x, &head->stream[0], B);
  if (head->num_streams == 1) return;
  stream_backward(workspace, &buffers->stream[1], dx ? buffers->dx : NULL, grads, params, dhead, x,
                  &head->stream[1], B);
  if (!dx) return;
  struct sum_rule sum = {
      .run = {.rows = (size_t)B * (size_t)head->inputs}, .a = dx, .b = buffers->dx, .y = dx};
  device->ops->run_rule(device, RULE_sum, &sum.run);
}
