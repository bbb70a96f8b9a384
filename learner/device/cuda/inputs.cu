/* What networks read: operations embed and image, for float and bf16. Memory bounds both: an image
 * reads `stack` bytes and writes `stack` numbers for each byte of an observation. */
#include "learner/device/cuda/cuda.h"
#include "learner/device/cuda/pixels.h"
#include "learner/device/cuda/wide.h"

DEVICE float byte_to_number(unsigned byte) {
  return (float)byte * (1.0f / 255);
}

/* ---- embed: a thread for each number */

/* 4 bytes, which need no alignment. */
DEVICE uint32_t unaligned_word(const uint8_t *x) {
  return (uint32_t)x[0] | (uint32_t)x[1] << 8 | (uint32_t)x[2] << 16 | (uint32_t)x[3] << 24;
}

DEVICE float element(const uint8_t *tensor, enum dtype dtype, int i) {
  if (dtype == DTYPE_UINT8) return byte_to_number(tensor[i]);
  uint32_t word = unaligned_word(tensor + 4 * (size_t)i);
  float number;
  memcpy(&number, &word, sizeof number);
  return dtype == DTYPE_INT32 ? (float)(int32_t)word : number;
}

/* Number i of the previous action. */
DEVICE float previous_action(const struct device_inputs &in, size_t b, int i) {
  if (in.discrete) return ((const int32_t *)in.previous_action)[b] == i;
  if (in.flags[b] & STEP_FIRST) return 0;
  float number = ((const float *)in.previous_action)[b * (size_t)in.box + (size_t)i];
  return number * in.action_scale[i] + in.action_shift[i];
}

DEVICE float reward_input(const struct device_inputs &in, size_t b) {
  float reward = in.reward[b];
  if (in.flags[b] & STEP_FIRST) return 0;
  if (in.raw_reward) return reward;
  return reward > 1 ? 1 : reward < -1 ? -1 : reward;
}

/* Number i of row b. */
DEVICE float input_at(const struct device_inputs &in, size_t b, int i) {
  const uint8_t *row = in.observation + b * in.row_stride;
  for (int k = 0; k < in.num_tensors; i -= in.tensor[k++].count)
    if (i < in.tensor[k].count)
      return element(row + in.tensor[k].row_offset, in.tensor[k].dtype, i);
  if (in.use_previous_action && i < in.discrete + in.box) return previous_action(in, b, i);
  return reward_input(in, b);
}

template <typename P>
KERNEL embed(P *y, struct device_inputs in, size_t count, unsigned I) {
  for (size_t i = grid_first(); i < count; i += grid_step()) {
    struct quotient at = divide(i, I);
    y[i] = from_float<P>(input_at(in, at.whole, (int)at.rest));
  }
}

template <typename P>
static void launch_embed(struct device *d, P *y, const struct device_inputs *in, int B) {
  struct cuda *cuda = cuda_of(d);
  int I = device_inputs_size(in);
  size_t count = (size_t)B * (size_t)I;
  if (count == 0) return;
  LAUNCH(embed<P>, blocks_for(count), BLOCK, cuda->stream, y, *in, count, (unsigned)I);
}

void cuda_embed(struct device *d, real *y, const struct device_inputs *in, int B) {
  launch_embed(d, (float *)y, in, B);
}

void cuda_embed_bf16(struct device *d, bf16 *y, const struct device_inputs *in, int B) {
  launch_embed(d, y, in, B);
}

/* ---- image */

/* What the kernels need of struct device_inputs. pixels: H * W; offset: of the image in its row. */
struct picture {
  const uint8_t *observation, *history;
  const int32_t *frame;
  size_t row_stride, offset;
  int stack, channels, pixels;
};

static struct picture picture_of(const struct device_inputs *in) {
  return {in->observation,
          in->history,
          in->frame,
          in->row_stride,
          in->tensor[0].row_offset,
          in->stack > 1 ? in->stack : 1,
          in->tensor[0].channels,
          in->tensor[0].height * in->tensor[0].width};
}

/* The bytes of frame k of row b, newest first; NULL: nothing is there. */
DEVICE const uint8_t *frame_at(const struct picture &p, size_t b, int k) {
  if (k == 0) return p.observation + b * p.row_stride + p.offset;
  int32_t row = p.frame[b * (size_t)(p.stack - 1) + (size_t)(k - 1)];
  return row < 0 ? nullptr : p.history + (size_t)row * p.row_stride + p.offset;
}

/* Any stack, any channels: a thread for each number. */
template <typename P>
KERNEL image(P *y, struct picture p, size_t count) {
  unsigned each = (unsigned)(p.stack * p.channels), size = each * (unsigned)p.pixels;
  for (size_t i = grid_first(); i < count; i += grid_step()) {
    struct quotient row = divide(i, size);
    unsigned pixel = row.rest / each, channel = row.rest % each, k = channel / (unsigned)p.channels;
    const uint8_t *frame = frame_at(p, row.whole, (int)k);
    channel -= k * (unsigned)p.channels;
    y[i] = from_float<P>(
        frame ? byte_to_number(frame[(size_t)pixel * (unsigned)p.channels + channel]) : 0);
  }
}

/* Four bytes of each of S frames of one channel, or of a single frame of any channels, become the
 * 4 S numbers of four pixels. quads: pixels * channels / 4; count: quads of all rows. */
template <typename P, int S>
KERNEL image_quads(P *y, struct picture p, unsigned quads, size_t count) {
  constexpr int V = WIDE<P> < 4 * S ? WIDE<P> : 4 * S;
  for (size_t i = grid_first(); i < count; i += grid_step()) {
    struct quotient row = divide(i, quads);
    uint32_t bytes[S];
    UNROLL
    for (int k = 0; k < S; k++) {
      const uint8_t *frame = frame_at(p, row.whole, k);
      bytes[k] = frame ? ((const uint32_t *)frame)[row.rest] : 0;
    }
    UNROLL
    for (int start = 0; start < 4 * S; start += V) {
      pack<P, V> numbers;
      UNROLL
      for (int j = 0; j < V; j++) {
        int pixel = (start + j) / S, k = (start + j) % S;
        numbers.at[j] = from_float<P>(byte_to_number(bytes[k] >> (8 * pixel) & 0xff));
      }
      store_pack(y + 4 * S * i + (size_t)start, numbers);
    }
  }
}

template <typename P>
static void launch_image(struct device *d, P *y, const struct device_inputs *in, int B) {
  struct cuda *cuda = cuda_of(d);
  struct picture p = picture_of(in);
  size_t bytes = (size_t)p.pixels * (size_t)p.channels, count = (size_t)B * bytes / 4;
  if (B == 0 || bytes == 0) return;
  bool quads = bytes % 4 == 0 && p.row_stride % 4 == 0 && p.offset % 4 == 0 && is_aligned(y) &&
               is_aligned(p.observation, 4) && is_aligned(p.history, 4);
  if (quads && p.stack == 1)
    LAUNCH((image_quads<P, 1>), blocks_for(count), BLOCK, cuda->stream, y, p, (unsigned)(bytes / 4),
           count);
  else if (quads && p.stack == 4 && p.channels == 1)
    LAUNCH((image_quads<P, 4>), blocks_for(count), BLOCK, cuda->stream, y, p, (unsigned)(bytes / 4),
           count);
  else
    LAUNCH(image<P>, blocks_for(4 * count * (size_t)p.stack), BLOCK, cuda->stream, y, p,
           (size_t)B * bytes * (size_t)p.stack);
}

void cuda_image(struct device *d, real *y, const struct device_inputs *in, int B) {
  launch_image(d, (float *)y, in, B);
}

void cuda_image_bf16(struct device *d, bf16 *y, const struct device_inputs *in, int B) {
  launch_image(d, y, in, B);
}
