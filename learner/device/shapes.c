/* Arithmetic on shapes: what device.h has besides devices. Linked into the CUDA plugin too. */
#include "learner/device/device.h"

int device_inputs_size(const struct device_inputs *in) {
  int size = 0;
  for (int k = 0; k < in->num_tensors; k++) size += in->tensor[k].count;
  return size + (in->use_previous_action ? in->discrete + in->box : 0) + (in->use_reward ? 1 : 0);
}

int device_inputs_channels(const struct device_inputs *in) {
  int channels = 0;
  for (int k = 0; k < in->num_tensors; k++)
    channels += in->tensor[k].channels * (in->tensor[k].planes ? in->tensor[k].planes : 1);
  return channels;
}

bool device_inputs_plain_image(const struct device_inputs *in) {
  return in->num_tensors == 1 && in->tensor[0].dtype == DTYPE_UINT8 && in->tensor[0].planes <= 1;
}

size_t device_record_bytes(int statistics, int action_bytes) {
  size_t bytes =
      DEVICE_RECORD_STATISTICS + (size_t)statistics * sizeof(float) + (size_t)action_bytes;
  return (bytes + 3) / 4 * 4;
}

/* Places of the window along a side of this length. */
static int places(const struct device_window *window, int length) {
  if (window->same) return (length + window->stride - 1) / window->stride;
  return length < window->size ? 0 : (length - window->size) / window->stride + 1;
}

int device_window_rows(const struct device_window *window) {
  return places(window, window->H);
}

int device_window_columns(const struct device_window *window) {
  return places(window, window->W);
}

static int zeros(const struct device_window *window, int length) {
  int reach = (places(window, length) - 1) * window->stride + window->size;
  return window->same && reach > length ? reach - length : 0;
}

int device_window_before(const struct device_window *window, int length) {
  return zeros(window, length) / 2;
}

int device_window_after(const struct device_window *window, int length) {
  return zeros(window, length) - device_window_before(window, length);
}
