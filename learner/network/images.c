#include "learner/network/images.h"

static bool is_side(int length) {
  return length >= IMAGES_LEAST_SIDE;
}

static void set(struct device_inputs *inputs, int index, int planes, int height, int width,
                int channels) {
  inputs->tensor[index].planes = planes;
  inputs->tensor[index].height = height;
  inputs->tensor[index].width = width;
  inputs->tensor[index].channels = channels;
}

void images_describe(struct device_inputs *inputs, int index, const struct space_tensor *tensor) {
  const int *shape = tensor->shape;
  set(inputs, index, 1, 0, 0, 0);
  if (tensor->rank == 2)
    set(inputs, index, 1, shape[0], shape[1], 1);
  else if (tensor->rank == 3 && !is_side(shape[0]) && is_side(shape[1]) && is_side(shape[2]))
    set(inputs, index, shape[0], shape[1], shape[2], 1);
  else if (tensor->rank == 3)
    set(inputs, index, 1, shape[0], shape[1], shape[2]);
  else if (tensor->rank == 4 && is_side(shape[1]) && is_side(shape[2]) && !is_side(shape[3]))
    set(inputs, index, shape[0], shape[1], shape[2], shape[3]);
  else if (tensor->rank == 4 && !is_side(shape[1]) && is_side(shape[2]) && is_side(shape[3]))
    set(inputs, index, shape[0] * shape[1], shape[2], shape[3], 1);
}

bool images_has(const struct device_inputs *in, int index) {
  return in->tensor[index].dtype != DTYPE_INT32 && in->tensor[index].channels >= 1 &&
         is_side(in->tensor[index].height) && is_side(in->tensor[index].width);
}

int images_split(struct device_inputs *images, struct device_inputs *rest,
                 const struct device_inputs *in) {
  struct device_inputs part[2] = {*in, *in};
  part[0].num_tensors = part[1].num_tensors = 0;
  for (int k = 0; k < in->num_tensors; k++) {
    struct device_inputs *to = &part[images_has(in, k)];
    to->tensor[to->num_tensors++] = in->tensor[k];
  }
  if (rest) *rest = part[0];
  if (images) *images = part[1];
  return part[1].num_tensors;
}

enum status images_check(const struct device_inputs *in, const char *network, struct error *error) {
  struct device_inputs images;
  if (images_split(&images, NULL, in) == 0)
    return status_fail(error, STATUS_INVALID,
                       "network %s reads uint8 or float32 images of at least %dx%d (rows, columns, "
                       "and channels before or after them if there are any), and the observation "
                       "has none; use mlp or lstm",
                       network, IMAGES_LEAST_SIDE, IMAGES_LEAST_SIDE);
  for (int k = 1; k < images.num_tensors; k++)
    if (images.tensor[k].height != images.tensor[0].height ||
        images.tensor[k].width != images.tensor[0].width)
      return status_fail(error, STATUS_INVALID,
                         "network %s reads several images as channels of one, so they must have "
                         "the same size; the observation has %dx%d and %dx%d: resize them in the "
                         "environment, or use mlp or lstm",
                         network, images.tensor[0].height, images.tensor[0].width,
                         images.tensor[k].height, images.tensor[k].width);
  return STATUS_OK;
}

size_t images_numbers(const struct device_inputs *in) {
  struct device_inputs images;
  images_split(&images, NULL, in);
  size_t stack = in->stack > 1 ? (size_t)in->stack : 1;
  return stack * (size_t)device_inputs_channels(&images) * (size_t)images.tensor[0].height *
         (size_t)images.tensor[0].width;
}
