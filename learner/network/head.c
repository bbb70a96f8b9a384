#include "learner/network/head.h"

#include <math.h>

#include "common/base/check.h"

enum { MAX_STREAMS = 2 };

/* A head of one layer is one stream without a hidden layer. */
struct stream {
  bool has_hidden;
  struct dense hidden, output;
  int column; /* of the head, where its outputs begin */
};

struct head {
  int inputs;
  struct stream stream[MAX_STREAMS];
  int num_streams;
};

struct head_buffers {
  struct {
    real *hidden; /* (rows, hidden) */
    real *output; /* (rows, outputs of the stream); of a single stream the head itself */
    real *d_hidden, *d_output; /* NULL without backward */
  } stream[MAX_STREAMS];
  real *dx; /* (rows, inputs) of the second stream, NULL without backward */
};

/* ---- create */

void head_declare(struct network *network, int inputs) {
  static const char *const names[MAX_STREAMS][2] = {{"head/advantage_hidden", "head/advantage"},
                                                    {"head/value_hidden", "head/value"}};
  const struct network_config *config = &network->config;
  int outputs[MAX_STREAMS] = {config->head_size, config->value_size};
  struct head *head = network->head = check_alloc(1, sizeof(*head));
  head->inputs = inputs;
  if (!config->head_hidden) {
    head->num_streams = 1;
    head->stream[0].output =
        dense_declare(network, "head", inputs, network->outputs, ACTIVATION_NONE);
    return;
  }
  head->num_streams = config->value_size > 0 ? 2 : 1;
  for (int s = 0; s < head->num_streams; s++) {
    struct stream *stream = &head->stream[s];
    stream->has_hidden = true;
    stream->column = s ? config->head_size : 0;
    stream->hidden =
        dense_declare(network, names[s][0], inputs, config->head_hidden, ACTIVATION_RELU);
    stream->output =
        dense_declare(network, names[s][1], config->head_hidden, outputs[s], ACTIVATION_NONE);
  }
}

/* Of a stream's outputs, those for the policy, which come first. */
static int policy_outputs(const struct network *network, const struct stream *stream) {
  int left = network->config.head_size - stream->column;
  return left < stream->output.outputs ? left : stream->output.outputs;
}

void head_init(const struct network *network, float *host, uint64_t seed) {
  const struct head *head = network->head;
  for (int s = 0; s < head->num_streams; s++) {
    const struct stream *stream = &head->stream[s];
    const struct dense *output = &stream->output;
    int policy = policy_outputs(network, stream);
    if (stream->has_hidden)
      dense_init(network, &stream->hidden, host, seed, 0, stream->hidden.outputs, sqrt(2));
    dense_init(network, output, host, seed, 0, policy, 0.01);
    dense_init(network, output, host, seed, policy, output->outputs, 1);
  }
}

void head_allocate(struct network_workspace *workspace) {
  const struct head *head = workspace->network->head;
  struct head_buffers *buffers = workspace->head_buffers = check_alloc(1, sizeof(*buffers));
  bool single = head->num_streams == 1;
  for (int s = 0; s < head->num_streams; s++) {
    int hidden = head->stream[s].hidden.outputs, outputs = head->stream[s].output.outputs;
    bool has_hidden = head->stream[s].has_hidden;
    buffers->stream[s].output = single ? workspace->head : workspace_reals(workspace, outputs);
    if (has_hidden) buffers->stream[s].hidden = workspace_reals(workspace, hidden);
    if (!workspace->backward) continue;
    if (has_hidden) buffers->stream[s].d_hidden = workspace_reals(workspace, hidden);
    if (!single) buffers->stream[s].d_output = workspace_reals(workspace, outputs);
  }
  if (workspace->backward && !single) buffers->dx = workspace_reals(workspace, head->inputs);
}

size_t head_numbers_kept(const struct network *network) {
  const struct head *head = network->head;
  if (!head) return 0;
  size_t numbers = (size_t)network->outputs;
  if (head->num_streams > 1) numbers += (size_t)head->inputs;
  for (int s = 0; s < head->num_streams; s++)
    numbers += 2 * (size_t)(head->stream[s].hidden.outputs + head->stream[s].output.outputs);
  return numbers;
}

/* ---- forward, backward */

static void stream_forward(struct network_workspace *workspace, int s, const real *params,
                           const real *x, int B) {
  struct device *device = workspace->device;
  const struct head *head = workspace->network->head;
  const struct head_buffers *buffers = workspace->head_buffers;
  const struct stream *stream = &head->stream[s];
  if (stream->has_hidden) {
    dense_forward(workspace, buffers->stream[s].hidden, params, x, &stream->hidden, B);
    x = buffers->stream[s].hidden;
  }
  dense_forward(workspace, buffers->stream[s].output, params, x, &stream->output, B);
  if (head->num_streams == 1) return;
  int outputs = stream->output.outputs;
  device->ops->copy_rows(device, device_at(device, workspace->head, (size_t)stream->column),
                         workspace->network->outputs, buffers->stream[s].output, outputs, B,
                         outputs);
}

void head_forward(struct network_workspace *workspace, const real *params, const real *x, int B) {
  for (int s = 0; s < workspace->network->head->num_streams; s++)
    stream_forward(workspace, s, params, x, B);
}

static void stream_backward(struct network_workspace *workspace, int s, real *dx, real *grads,
                            const real *params, real *dhead, const real *x, int B) {
  struct device *device = workspace->device;
  const struct head *head = workspace->network->head;
  const struct head_buffers *buffers = workspace->head_buffers;
  const struct stream *stream = &head->stream[s];
  real *dy = dhead, *hidden = buffers->stream[s].hidden, *d_hidden = buffers->stream[s].d_hidden;
  if (head->num_streams > 1) {
    int outputs = stream->output.outputs;
    dy = buffers->stream[s].d_output;
    device->ops->copy_rows(device, dy, outputs, device_at(device, dhead, (size_t)stream->column),
                           workspace->network->outputs, B, outputs);
  }
  dense_backward(workspace, stream->has_hidden ? d_hidden : dx, grads, params, dy,
                 buffers->stream[s].output, stream->has_hidden ? hidden : x, &stream->output, B);
  if (stream->has_hidden)
    dense_backward(workspace, dx, grads, params, d_hidden, hidden, x, &stream->hidden, B);
}

void head_backward(struct network_workspace *workspace, real *dx, real *grads, const real *params,
                   real *dhead, const real *x, int B) {
  struct device *device = workspace->device;
  const struct head *head = workspace->network->head;
  stream_backward(workspace, 0, dx, grads, params, dhead, x, B);
  if (head->num_streams == 1) return;
  real *second = dx ? workspace->head_buffers->dx : NULL;
  stream_backward(workspace, 1, second, grads, params, dhead, x, B);
  if (dx) device->ops->add(device, dx, second, (size_t)B * (size_t)head->inputs);
}
