/* What networks read: operations embed and image, of float or (image) bf16. Memory bounds both: an
 * image reads `stack` bytes and writes `stack` numbers for each byte of an observation. */
#include "learner/device/cuda/cuda.h"
#include "learner/device/cuda/wide.h"

DEVICE float byte_to_number(unsigned byte) {
  return (float)byte * (1.0f / 255);
}

/* ---- embed: a thread for each number */

DEVICE float element(const uint8_t *tensor, enum dtype dtype, int i) {
  if (dtype == DTYPE_UINT8) return byte_to_number(tensor[i]);
  uint32_t word = load_word(tensor, (size_t)i);
  float number;
  memcpy(&number, &word, sizeof number);
  return dtype == DTYPE_INT32 ? (float)(int32_t)word : number;
}

/* Whether action i, counted over all choices, was chosen. */
DEVICE bool was_chosen(const struct device_inputs &in, size_t b, int i) {
  const int32_t *chosen = (const int32_t *)in.previous_action;
  if (in.choices.count == 0) return chosen[b] == i;
  chosen += b * (size_t)in.choices.count;
  for (int c = 0; i >= in.choices.among[c]; c++) i -= in.choices.among[c], chosen++;
  return *chosen == i;
}

/* Number i of the previous action. */
DEVICE float previous_action(const struct device_inputs &in, size_t b, int i) {
  if (in.discrete) return was_chosen(in, b, i);
  if (in.flags[b] & STEP_FIRST) return 0;
  return ((const float *)in.previous_action)[b * (size_t)in.box + (size_t)i];
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

KERNEL embed(float *y, PARAMETER struct device_inputs in, size_t count, unsigned I) {
  for (size_t i = grid_first(); i < count; i += grid_step()) {
    struct quotient at = divide(i, I);
    y[i] = input_at(in, at.whole, (int)at.rest);
  }
}

void cuda_embed(struct device *d, real *y, const struct device_inputs *in, int B) {
  struct cuda *cuda = cuda_of(d);
  int I = device_inputs_size(in);
  size_t count = (size_t)B * (size_t)I;
  CHECK(in->row_stride % 4 == 0 && is_aligned(in->observation, 4), "rows of %zu bytes",
        in->row_stride);
  if (count == 0) return;
  LAUNCH(embed, blocks_for(count), BLOCK, cuda->stream, (float *)y, *in, count, (unsigned)I);
}

/* ---- image */

/* What the kernels need of struct device_inputs. pixels: H * W; offset: of the image in its row. */
struct picture {
  const uint8_t *observation, *history;
  const int32_t *frame;
  size_t row_stride, offset;
  int stack, channels, pixels;
  const float *mean, *deviation; /* mean NULL: numbers as they are */
  float limit;
};

static struct picture picture_of(const struct device_inputs *in) {
  return {in->observation,
          in->history,
          in->frame,
          in->row_stride,
          in->tensor[0].row_offset,
          in->stack > 1 ? in->stack : 1,
          in->tensor[0].channels,
          in->tensor[0].height * in->tensor[0].width,
          (const float *)in->mean,
          (const float *)in->deviation,
          in->limit};
}

/* T: struct picture or device_inputs. place: of number x in a frame. */
template <typename T>
DEVICE float normalized(const T &p, float x, size_t place) {
  if (!p.mean) return x;
  x = (x - ((const float *)p.mean)[place]) / ((const float *)p.deviation)[place];
  return fminf(p.limit, fmaxf(-p.limit, x));
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
    unsigned place = row.rest / each, channel = row.rest % each, k = channel / (unsigned)p.channels;
    const uint8_t *frame = frame_at(p, row.whole, (int)k);
    channel -= k * (unsigned)p.channels;
    size_t at = (size_t)place * (unsigned)p.channels + channel;
    y[i] = from_float<P>(frame ? normalized(p, byte_to_number(frame[at]), at) : 0);
  }
}

/* Four bytes of each of S frames of one channel, or of a single frame of any channels, become the
 * 4 S numbers of four pixels. quads: pixels * channels / 4; count: quads of all rows. */
template <typename P, int S>
KERNEL image_quads(P *y, PARAMETER struct picture p, PARAMETER struct divisor quads, size_t count) {
  constexpr int V = WIDE<P> < 4 * S ? WIDE<P> : 4 * S;
  for (size_t i = grid_first(); i < count; i += grid_step()) {
    struct quotient row = divide(i, quads);
    uint32_t bytes[S];
    bool is_there[S];
    UNROLL
    for (int k = 0; k < S; k++) {
      const uint8_t *frame = frame_at(p, row.whole, k);
      is_there[k] = frame;
      bytes[k] = frame ? ((const uint32_t *)frame)[row.rest] : 0;
    }
    UNROLL
    for (int start = 0; start < 4 * S; start += V) {
      pack<P, V> numbers;
      UNROLL
      for (int j = 0; j < V; j++) {
        int place = (start + j) / S, k = (start + j) % S;
        float x = byte_to_number(bytes[k] >> (8 * place) & 0xff);
        if (is_there[k]) x = normalized(p, x, 4 * (size_t)row.rest + (size_t)place);
        numbers.at[j] = from_float<P>(x);
      }
      store_pack(y + 4 * S * i + (size_t)start, numbers);
    }
  }
}

DEVICE unsigned channels_of(const struct device_inputs &in, int t) {
  return (unsigned)(in.tensor[t].channels * (in.tensor[t].planes ? in.tensor[t].planes : 1));
}

/* Images of any kind: a thread for each number. each: channels of one frame. */
template <typename P>
KERNEL image_of_any_kind(P *y, struct device_inputs in, int stack, unsigned each, unsigned pixels,
                         size_t count) {
  unsigned all = each * (unsigned)stack, size = all * pixels;
  for (size_t i = grid_first(); i < count; i += grid_step()) {
    struct quotient row = divide(i, size);
    unsigned place = row.rest / all, k = row.rest % all / each, channel = row.rest % all % each;
    const uint8_t *frame = in.observation + row.whole * in.row_stride;
    if (k > 0) {
      int32_t from = in.frame[row.whole * (size_t)(stack - 1) + (size_t)(k - 1)];
      frame = from < 0 ? nullptr : in.history + (size_t)from * in.row_stride;
    }
    int t = 0;
    unsigned channels = channels_of(in, t);
    size_t before = 0;
    for (; channel >= channels; channels = channels_of(in, t)) {
      channel -= channels;
      before += (size_t)in.tensor[t++].count;
    }
    unsigned C = (unsigned)in.tensor[t].channels;
    size_t at = ((size_t)(channel / C) * pixels + place) * C + channel % C;
    float x = frame ? element(frame + in.tensor[t].row_offset, in.tensor[t].dtype, (int)at) : 0;
    y[i] = from_float<P>(frame ? normalized(in, x, before + at) : 0);
  }
}

template <typename P>
static void launch_image_of_any_kind(struct cuda *cuda, P *y, const struct device_inputs *in,
                                     int B) {
  int stack = in->stack > 1 ? in->stack : 1;
  unsigned each = (unsigned)device_inputs_channels(in);
  unsigned pixels = (unsigned)(in->tensor[0].height * in->tensor[0].width);
  size_t count = (size_t)B * (size_t)stack * each * pixels;
  CHECK(in->row_stride % 4 == 0 && is_aligned(in->observation, 4), "rows of %zu bytes",
        in->row_stride);
  if (count == 0) return;
  LAUNCH(image_of_any_kind<P>, blocks_for(count), BLOCK, cuda->stream, y, *in, stack, each, pixels,
         count);
}

template <typename P>
static void launch_image(struct cuda *cuda, P *y, const struct device_inputs *in, int B) {
  if (!device_inputs_plain_image(in)) {
    launch_image_of_any_kind(cuda, y, in, B);
    return;
  }
  struct picture p = picture_of(in);
  size_t bytes = (size_t)p.pixels * (size_t)p.channels, count = (size_t)B * bytes / 4;
  if (B == 0 || bytes == 0) return;
  bool quads = bytes % 4 == 0 && p.row_stride % 4 == 0 && p.offset % 4 == 0 && is_aligned(y) &&
               is_aligned(p.observation, 4) && is_aligned(p.history, 4);
  if (quads && p.stack == 1)
    LAUNCH((image_quads<P, 1>), blocks_for(count), BLOCK, cuda->stream, y, p,
           divisor_of((int)(bytes / 4)), count);
  else if (quads && p.stack == 4 && p.channels == 1)
    LAUNCH((image_quads<P, 4>), blocks_for(count), BLOCK, cuda->stream, y, p,
           divisor_of((int)(bytes / 4)), count);
  else
    LAUNCH(image<P>, blocks_for(4 * count * (size_t)p.stack), BLOCK, cuda->stream, y, p,
           (size_t)B * bytes * (size_t)p.stack);
}

void cuda_image(struct device *d, pixel *y, const struct device_inputs *in, int B) {
  struct cuda *cuda = cuda_of(d);
  if (cuda->bf16)
    launch_image(cuda, (bf16 *)y, in, B);
  else
    launch_image(cuda, (float *)y, in, B);
}
