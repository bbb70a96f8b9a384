#include "learner/device/cuda/weights.h"

#include "learner/device/cuda/blas.h"

/* Structs of arguments are passed by value, at most 4 KiB. */
enum { COPIES_AT_ONCE = 64, COPY_BLOCKS = 264 };

struct weight_copies {
  struct weight_copy copy[COPIES_AT_ONCE];
};

/* ---- the order of each copy */

/* The channel that stands in column n of a tile product with so many columns. A lane of the product
 * holds columns 2q and 2q + 1 of each tile of 8; so permuted, these are neighbouring channels. */
DEVICE int tile_channel(int n, int columns) {
  int tiles = columns / 8, tile = n / 8, q = n % 8 / 2;
  return q * 2 * tiles + 2 * tile + n % 2;
}

DEVICE float weight_forward(const struct weight_copy &copy, int k, int o) {
  int room = (copy.C + 7) / 8 * 8, place = k / room, c = k % room;
  if (place >= copy.places || c >= copy.C || o >= copy.O) return 0;
  return copy.from[((size_t)place * copy.C + c) * copy.O + o];
}

/* Row k of the window for one remainder: step m of its places, counted from the last, is place
 * remainder + m stride of the window forwards. */
DEVICE float weight_back(const struct weight_copy &copy, int remainder, int k, int c) {
  const struct weight_window &v = copy.window;
  int room = (copy.O + 7) / 8 * 8, place = k / room, o = k % room;
  if (place >= copy.places || o >= copy.O || c >= copy.C) return 0;
  int side = (v.size + v.stride - 1) / v.stride;
  int row = (remainder / v.stride + v.above) % v.stride + (side - 1 - place / side) * v.stride,
      column = (remainder % v.stride + v.left) % v.stride + (side - 1 - place % side) * v.stride;
  if (row >= v.size || column >= v.size) return 0;
  return copy.from[((size_t)(row * v.size + column) * copy.C + c) * copy.O + o];
}

DEVICE float weight_at(const struct weight_copy &copy, int k, int n) {
  if (copy.order == WEIGHTS_ROWS)
    return n < copy.O && k < copy.places * copy.C ? copy.from[(size_t)k * copy.O + n] : 0;
  int channel = tile_channel(n, copy.columns);
  if (copy.order == WEIGHTS_TILES) return weight_forward(copy, k, channel);
  int each = copy.rows / (copy.window.stride * copy.window.stride);
  return weight_back(copy, k / each, k % each, channel);
}

/* Each row of blocks makes one copy. */
KERNEL copy_weights(struct weight_copies copies) {
  const struct weight_copy &copy = copies.copy[blockIdx.y];
  size_t count = (size_t)copy.rows * copy.columns;
  for (size_t i = grid_first(); i < count; i += grid_step())
    copy.to[i] = to_bf16(weight_at(copy, (int)(i / copy.columns), (int)(i % copy.columns)));
}

static void launch(struct cuda *cuda, const struct weight_copies *copies, int count) {
  if (count == 0) return;
  LAUNCH(copy_weights, dim3(COPY_BLOCKS, (unsigned)count), BLOCK, cuda->stream, *copies);
}

/* ---- which are kept */

static bool is_captured(const struct cuda *cuda) {
  cudaStreamCaptureStatus status;
  CUDA_CHECK(cudaStreamIsCapturing(cuda->stream, &status));
  return status != cudaStreamCaptureStatusNone;
}

static struct kept_weights *find(struct blas *blas, const struct weight_copy *copy) {
  for (int i = 0; i < blas->num_kept; i++) {
    const struct weight_copy *kept = &blas->kept[i].copy;
    if (kept->from == copy->from && kept->order == copy->order && kept->places == copy->places &&
        kept->C == copy->C && kept->O == copy->O &&
        memcmp(&kept->window, &copy->window, sizeof kept->window) == 0)
      return &blas->kept[i];
  }
  return NULL;
}

/* Room for one more: a place of its own, or that of one which no graph reads. */
static struct kept_weights *make_room(struct cuda *cuda) {
  struct blas *blas = cuda_blas(cuda);
  if (blas->num_kept < MAX_KEPT_WEIGHTS) return &blas->kept[blas->num_kept++];
  for (int i = 0; i < MAX_KEPT_WEIGHTS; i++) {
    if (blas->kept[i].in_graph) continue;
    /* Waits for the kernels that read it. */
    cuda->device.ops->release(&cuda->device, blas->kept[i].copy.to);
    return &blas->kept[i];
  }
  CHECK(false, "graphs read more than %d arrays of weights", MAX_KEPT_WEIGHTS);
  return NULL;
}

static struct kept_weights *keep(struct cuda *cuda, const struct weight_copy *copy) {
  struct kept_weights *kept = make_room(cuda);
  CHECK(!is_captured(cuda), "weights (%d, %d, %d) that were not used before capture", copy->places,
        copy->C, copy->O);
  kept->copy = *copy;
  kept->valid = kept->in_graph = false;
  size_t bytes = (size_t)copy->rows * copy->columns * sizeof(bf16);
  kept->copy.to = (bf16 *)cuda->device.ops->alloc(&cuda->device, bytes);
  return kept;
}

static const bf16 *copy_of(struct cuda *cuda, int *columns, const struct weight_copy *wanted) {
  struct kept_weights *kept = find(cuda_blas(cuda), wanted);
  if (!kept) kept = keep(cuda, wanted);
  if (!kept->valid) {
    struct weight_copies copies = {};
    copies.copy[0] = kept->copy;
    launch(cuda, &copies, 1);
  }
  kept->valid = true;
  kept->in_graph = kept->in_graph || is_captured(cuda);
  *columns = kept->copy.columns;
  return kept->copy.to;
}

const bf16 *cuda_weights(struct cuda *cuda, int *columns, const float *from,
                         enum weight_order order, int places, int C, int O) {
  struct weight_copy wanted = {from, NULL, order, places, C, O, 0, 0, {}};
  bool tiles = order == WEIGHTS_TILES;
  wanted.rows = tiles ? tile_rows(places, C) : (places * C + 7) / 8 * 8;
  wanted.columns = tiles ? tile_columns(O) : (O + 7) / 8 * 8;
  return copy_of(cuda, columns, &wanted);
}

const bf16 *cuda_weights_back(struct cuda *cuda, int *columns, const float *from,
                              const struct weight_window *window, int C, int O) {
  int side = weight_side_back(window), windows = window->stride * window->stride;
  struct weight_copy wanted = {from, NULL, WEIGHTS_TILES_BACK, side * side, C, O, 0, 0, *window};
  wanted.rows = windows * tile_rows(wanted.places, O);
  wanted.columns = tile_columns(C);
  return copy_of(cuda, columns, &wanted);
}

/* Those of `from`, or all where it is NULL: renewed where a graph reads them, else not used again
 * as they are. */
static void weights_changed(struct cuda *cuda, const float *from) {
  struct blas *blas = cuda_blas(cuda);
  struct weight_copies copies = {};
  int count = 0;
  for (int i = 0; i < blas->num_kept; i++) {
    struct kept_weights *kept = &blas->kept[i];
    if (from && kept->copy.from != from) continue;
    kept->valid = kept->in_graph;
    if (!kept->in_graph) continue;
    copies.copy[count++] = kept->copy;
    if (count < COPIES_AT_ONCE) continue;
    launch(cuda, &copies, count);
    count = 0;
  }
  launch(cuda, &copies, count);
}

void cuda_weights_changed(struct device *d) {
  weights_changed(cuda_of(d), NULL);
}

void cuda_weights_written(struct cuda *cuda, const float *from) {
  weights_changed(cuda, from);
}

void cuda_weights_destroy(struct cuda *cuda) {
  struct blas *blas = (struct blas *)cuda->blas;
  for (int i = 0; i < blas->num_kept; i++)
    cuda->device.ops->release(&cuda->device, blas->kept[i].copy.to);
  blas->num_kept = 0;
}
