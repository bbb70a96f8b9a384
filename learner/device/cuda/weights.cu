#include "learner/device/cuda/weights.h"

#include "learner/device/cuda/blas.h"

/* Structs of arguments are passed by value, at most 4 KiB. */
enum { COPIES_AT_ONCE = 64, COPY_BLOCKS = 64 };

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

DEVICE float weight_at(const struct weight_copy &copy, int k, int n) {
  int C = copy.C, O = copy.O;
  if (copy.order == WEIGHTS_ROWS) return n < O ? copy.from[(size_t)k * O + n] : 0;
  bool back = copy.order == WEIGHTS_TILES_BACK;
  int in = back ? O : C, out = back ? C : O, room = (in + 7) / 8 * 8;
  int place = k / room, i = k % room, o = tile_channel(n, copy.columns);
  if (place >= copy.places || i >= in || o >= out) return 0;
  if (!back) return copy.from[((size_t)place * C + i) * O + o];
  return copy.from[((size_t)(copy.places - 1 - place) * C + o) * O + i];
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
        kept->C == copy->C && kept->O == copy->O)
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

static struct weight_copy describe(const float *from, enum weight_order order, int places, int C,
                                   int O) {
  struct weight_copy copy = {from, NULL, order, places, C, O, 0, 0};
  copy.rows = order == WEIGHTS_ROWS    ? places * C
              : order == WEIGHTS_TILES ? tile_rows(places, C)
                                       : tile_rows(places, O);
  copy.columns = order == WEIGHTS_ROWS    ? (O + 7) / 8 * 8
                 : order == WEIGHTS_TILES ? tile_columns(O)
                                          : tile_columns(C);
  return copy;
}

const bf16 *cuda_weights(struct cuda *cuda, int *columns, const float *from,
                         enum weight_order order, int places, int C, int O) {
  struct weight_copy wanted = describe(from, order, places, C, O);
  struct kept_weights *kept = find(cuda_blas(cuda), &wanted);
  if (!kept) kept = keep(cuda, &wanted);
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
