#include "learner/experience/replay_file.h"

#include <math.h>
#include <stdlib.h>

#include "common/base/check.h"

enum { LEAVES_AT_A_TIME = 512 };

/* What must be the same where the file is loaded, in the order of the file. */
enum size {
  SIZE_PAGE_STEPS,
  SIZE_STRIDE,
  SIZE_WINDOW_STEPS,
  SIZE_ROW_STRIDE,
  SIZE_ACTION_BYTES,
  SIZE_BOX,
  SIZE_STATISTICS,
  SIZE_STATE,
  SIZE_FOOTPRINT,
  SIZE_REAL_BYTES,
  SIZES
};

static const char *const size_names[SIZES] = {
    [SIZE_PAGE_STEPS] = "steps of a page",
    [SIZE_STRIDE] = "steps between windows (--window_stride)",
    [SIZE_WINDOW_STEPS] = "steps of a window (--burn_in and --unroll_length)",
    [SIZE_ROW_STRIDE] = "bytes of an observation",
    [SIZE_ACTION_BYTES] = "bytes of an action",
    [SIZE_BOX] = "continuous actions",
    [SIZE_STATISTICS] = "numbers kept with an action",
    [SIZE_STATE] = "numbers of recurrent state",
    [SIZE_FOOTPRINT] = "frames before a window (--frame_stack)",
    [SIZE_REAL_BYTES] = "bytes of a number (--device)",
};

/* What stands before the leaves. */
struct head {
  int64_t size[SIZES];
  int64_t num_pages;
  double exponent, ratio;
  struct replay_counts counts;
};
_Static_assert(sizeof(struct head) == (SIZES + 1 + 7) * sizeof(int64_t) + 3 * sizeof(double),
               "a head has no padding");

static struct head head_of(const struct replay_parts *parts) {
  const struct pages_config *config = pages_config(parts->pages);
  const struct step_shape *shape = &config->shape;
  return (struct head){.size = {[SIZE_PAGE_STEPS] = config->page_steps,
                                [SIZE_STRIDE] = config->stride,
                                [SIZE_WINDOW_STEPS] = config->window_steps,
                                [SIZE_ROW_STRIDE] = (int64_t)shape->row_stride,
                                [SIZE_ACTION_BYTES] = shape->action_bytes,
                                [SIZE_BOX] = shape->box,
                                [SIZE_STATISTICS] = shape->statistics,
                                [SIZE_STATE] = shape->state_size,
                                [SIZE_FOOTPRINT] = shape->footprint,
                                [SIZE_REAL_BYTES] = (int64_t)parts->real_bytes},
                       .num_pages = config->num_pages,
                       .exponent = parts->exponent,
                       .ratio = parts->ratio,
                       .counts = parts->counts};
}

static int starts_per_page(const struct replay_parts *parts) {
  const struct pages_config *config = pages_config(parts->pages);
  return config->page_steps / config->stride;
}

/* The windows in the tree. */
static bool is_in_tree(const void *context, int32_t start) {
  const struct sum_tree *tree = context;
  return sum_tree_get(tree, start) > 0;
}

/* ---- saving */

static bool was_in_tree(const void *context, int32_t start) {
  const double *leaf = context;
  return leaf[start] > 0;
}

void replay_file_capture(const struct replay_parts *parts) {
  sum_tree_get_all(parts->tree, parts->leaf);
  pages_file_capture(parts->file);
}

bool replay_file_save(const struct replay_parts *parts, struct block_writer *writer) {
  struct head head = head_of(parts);
  struct pages_kept kept = {was_in_tree, parts->leaf};
  block_writer_put(writer, &head, sizeof(head));
  block_writer_put(writer, parts->leaf,
                   (size_t)pages_num_starts(parts->pages) * sizeof(*parts->leaf));
  return pages_file_save(parts->file, writer, &kept);
}

/* ---- loading */

static enum status check_fits(const struct head *head, const struct head *ours, const char *path,
                              struct error *error) {
  for (int i = 0; i < SIZES; i++)
    if (head->size[i] != ours->size[i])
      return status_fail(error, STATUS_MISMATCH, "%s does not fit: %s: %lld in it, %lld here", path,
                         size_names[i], (long long)head->size[i], (long long)ours->size[i]);
  if (head->num_pages > ours->num_pages)
    return status_fail(
        error, STATUS_MISMATCH,
        "%s does not fit: the replay had %lld pages of %lld steps, and has %lld here "
        "(--replay_steps, --replay_mib)",
        path, (long long)head->num_pages, (long long)head->size[SIZE_PAGE_STEPS],
        (long long)ours->num_pages);
  if (head->exponent != ours->exponent)
    return status_fail(error, STATUS_MISMATCH,
                       "%s does not fit: --priority_exponent=%g here, and its priorities are of %g",
                       path, ours->exponent, head->exponent);
  return STATUS_OK;
}

/* Far from what overflows. */
enum { COUNT_BITS = 50 };

static bool is_count(int64_t count) {
  return count >= 0 && count < INT64_C(1) << COUNT_BITS;
}

static enum status check_counts(const struct head *head, const struct replay_parts *parts,
                                const char *path, struct error *error) {
  const struct replay_counts *counts = &head->counts;
  const int64_t all[] = {counts->inserted, counts->sampled, counts->batches, counts->late,
                         counts->not_finite};
  bool is_possible = head->num_pages > 0 && head->ratio > 0 && isfinite(head->ratio) &&
                     (counts->started == 0 || counts->started == 1) && counts->largest >= 0 &&
                     counts->largest <= parts->most_priority;
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) is_possible &= is_count(all[i]);
  is_possible = is_possible && counts->inserted_before <= counts->inserted &&
                is_count(llabs(counts->inserted_before));
  if (is_possible) return STATUS_OK;
  return status_fail(error, STATUS_CORRUPT, "%s is damaged: its counts cannot be", path);
}

/* As many windows may be sampled now as with the ratio that the file was saved with. */
static void change_ratio(struct replay_counts *counts, double from, double to) {
  if (from == to) return;
  double since = (double)(counts->inserted - counts->inserted_before);
  double due = from * since - (double)counts->sampled;
  double most = (double)(INT64_C(1) << COUNT_BITS);
  since = fmin(fmax((due + (double)counts->sampled) / to, 0), most);
  counts->inserted_before = counts->inserted - llround(since);
}

/* So many leaves from `first` on. */
static enum status load_some(const struct replay_parts *parts, struct block_reader *reader,
                             int64_t first, int count, struct error *error) {
  double value[LEAVES_AT_A_TIME];
  int64_t leaf[LEAVES_AT_A_TIME];
  double least = pow(parts->least_priority, parts->exponent);
  double most = pow(parts->most_priority, parts->exponent);
  enum status status = block_reader_get(reader, value, (size_t)count * sizeof(*value), error);
  if (status != STATUS_OK) return status;
  for (int i = 0; i < count; i++) {
    leaf[i] = first + i;
    if (!(value[i] == 0 || (value[i] >= least && value[i] <= most)))
      return status_fail(error, STATUS_CORRUPT, "%s is damaged: window %lld has priority %g",
                         block_reader_path(reader), (long long)leaf[i], value[i]);
  }
  sum_tree_set_many(parts->tree, leaf, value, count);
  return STATUS_OK;
}

static enum status load_leaves(const struct replay_parts *parts, struct block_reader *reader,
                               int64_t leaves, struct error *error) {
  enum status status = STATUS_OK;
  for (int64_t at = 0; status == STATUS_OK && at < leaves; at += LEAVES_AT_A_TIME) {
    int64_t left = leaves - at;
    status =
        load_some(parts, reader, at, left < LEAVES_AT_A_TIME ? (int)left : LEAVES_AT_A_TIME, error);
  }
  return status;
}

static void clear(const struct replay_parts *parts) {
  for (int64_t leaf = 0; leaf < pages_num_starts(parts->pages); leaf++)
    if (sum_tree_get(parts->tree, leaf) > 0) sum_tree_set(parts->tree, leaf, 0);
  pages_file_clear(parts->file);
}

enum status replay_file_load(struct replay_parts *parts, struct block_reader *reader,
                             struct error *error) {
  struct head head, ours = head_of(parts);
  const char *path = block_reader_path(reader);
  enum status status = block_reader_get(reader, &head, sizeof(head), error);
  if (status == STATUS_OK) status = check_fits(&head, &ours, path, error);
  if (status == STATUS_OK) status = check_counts(&head, parts, path, error);
  if (status != STATUS_OK) return status;

  struct pages_kept kept = {is_in_tree, parts->tree};
  int num_pages = (int)head.num_pages;
  int64_t leaves = head.num_pages * starts_per_page(parts);
  status = load_leaves(parts, reader, leaves, error);
  if (status == STATUS_OK) status = pages_file_load(parts->file, reader, num_pages, &kept, error);
  if (status == STATUS_OK) status = block_reader_end(reader, error);
  if (status != STATUS_OK) clear(parts);
  if (status != STATUS_OK) return status;
  parts->counts = head.counts;
  change_ratio(&parts->counts, head.ratio, parts->ratio);
  return STATUS_OK;
}

double replay_file_steps(struct block_reader *reader) {
  struct head head;
  if (block_reader_get(reader, &head, sizeof(head), NULL) != STATUS_OK) return 0;
  return fmax(0, (double)head.num_pages * (double)head.size[SIZE_PAGE_STEPS]);
}
