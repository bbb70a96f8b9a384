/* DESIGN. Memory of the device goes through a staging buffer, whose size bounds what is needed; in
 * runs of rows that are next to each other, which nearly all of a group are. */
#include "learner/experience/pages_file.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "learner/experience/pages_state.h"
#include "learner/experience/step_rules.h"

enum { GROUP_BYTES = 1 << 20 };

/* Rows of a page that windows need. */
struct range {
  int32_t first, end; /* end 0: none */
};

struct pages_file {
  struct pages *pages;
  struct device *device;
  struct step_rules rules;
  uint8_t *staging; /* of the host: (staging_bytes), at least an entry of any column */
  size_t staging_bytes;
  struct pages image;  /* captured: its pages, and what never changes */
  struct range *range; /* (num_pages) */
  int *order;          /* (num_pages) from the oldest */

  /* while it is saved or loaded */
  const struct pages *view; /* the image, or the pages */
  struct pages_kept kept;
};

/* A page, as it is in the file. */
struct record {
  uint64_t generation, previous_generation, next_generation;
  int64_t first_step;
  int32_t slot;
  uint32_t life;
  int32_t previous, next;
};
_Static_assert(sizeof(struct record) == 48, "a record has no padding");

/* An array over rows or starts. */
struct column {
  void *array;
  size_t bytes; /* of an entry; 0: there is no such column */
  bool on_device;
  step_rule *rule; /* for what is loaded; NULL: any */
};

enum { ROW_COLUMNS = 4, START_COLUMNS = 2 };

static void list_row_columns(const struct pages *pages, struct column column[ROW_COLUMNS]) {
  const struct pages_rows *rows = &pages->rows;
  size_t trail = (size_t)(1 + pages->config.shape.statistics) * sizeof(*rows->trail);
  const struct column all[ROW_COLUMNS] = {
      {rows->pool.observation, rows->pool.row_stride, true, step_rules_observation},
      {rows->pool.record, rows->pool.record_bytes, true, step_rules_record},
      {rows->stamp, sizeof(*rows->stamp), false, step_rules_stamp},
      {rows->trail, rows->trail ? trail : 0, false, step_rules_trail},
  };
  memcpy(column, all, sizeof(all));
}

static void list_start_columns(const struct pages *pages, struct column column[START_COLUMNS]) {
  const struct step_shape *shape = &pages->config.shape;
  size_t state = (size_t)shape->state_size * pages->device->ops->real_bytes;
  const struct column all[START_COLUMNS] = {
      {pages->rows.start_action, (size_t)shape->action_bytes, true, step_rules_start_action},
      {pages->rows.start_state, state, true, step_rules_start_state},
  };
  memcpy(column, all, sizeof(all));
}

/* ---- made */

static size_t largest_entry(const struct pages *pages) {
  struct column column[ROW_COLUMNS + START_COLUMNS];
  size_t largest = 0;
  list_row_columns(pages, column);
  list_start_columns(pages, column + ROW_COLUMNS);
  for (int i = 0; i < ROW_COLUMNS + START_COLUMNS; i++)
    if (column[i].bytes > largest) largest = column[i].bytes;
  return largest;
}

struct pages_file *pages_file_create(struct pages *pages, struct device *device,
                                     const struct device_inputs *inputs) {
  size_t num_pages = (size_t)pages->config.num_pages, largest = largest_entry(pages);
  struct pages_file *file = check_alloc(1, sizeof(*file));
  *file = (struct pages_file){
      .pages = pages,
      .device = device,
      .rules = {inputs, pages->config.shape, pages->device->ops->real_bytes},
      .staging_bytes = largest > GROUP_BYTES ? largest : GROUP_BYTES,
      .image = {.config = pages->config, .device = pages->device, .rows = pages->rows},
      .range = check_alloc(num_pages, sizeof(*file->range)),
      .order = check_alloc(num_pages, sizeof(*file->order))};
  file->staging = device->ops->alloc_host(device, file->staging_bytes);
  file->image.page = check_alloc(num_pages, sizeof(*file->image.page));
  memcpy(file->image.page, pages->page, num_pages * sizeof(*pages->page)); /* touches it */
  return file;
}

void pages_file_destroy(struct pages_file *file) {
  if (!file) return;
  file->device->ops->release_host(file->device, file->staging);
  free(file->image.page);
  free(file->range);
  free(file->order);
  free(file);
}

/* ---- which rows and starts */

static bool keeps(const struct pages_file *file, int32_t start) {
  return file->kept.keeps(file->kept.context, start);
}

/* The start before it in its life; NONE. */
static int32_t start_before(const struct pages *pages, int32_t start) {
  int per_page = starts_per_page(pages);
  const struct link *previous = &pages->page[start / per_page].previous;
  if (start % per_page) return start - 1;
  bool is_there =
      previous->page != NONE && pages->page[previous->page].generation == previous->generation;
  return is_there ? (previous->page + 1) * per_page - 1 : NONE;
}

/* A window also needs the state that the next one of its life begins with. */
static bool needs_state(const struct pages_file *file, int32_t start) {
  int32_t before = start_before(file->view, start);
  return keeps(file, start) || (before != NONE && keeps(file, before));
}

static void add_rows(struct pages_file *file, int64_t row, int count) {
  int64_t T = file->view->config.page_steps;
  struct range *range = &file->range[row / T];
  int32_t first = (int32_t)(row % T), end = first + count;
  if (range->end == 0 || first < range->first) range->first = first;
  if (end > range->end) range->end = end;
}

/* Finds the rows of all windows that are kept. Returns false if one of these is not there. */
static bool find_rows(struct pages_file *file) {
  const struct pages *pages = file->view;
  memset(file->range, 0, (size_t)pages->config.num_pages * sizeof(*file->range));
  for (int32_t start = 0; start < pages_num_starts(pages); start++) {
    struct window window;
    if (!keeps(file, start)) continue;
    if (!pages_find(pages, start, &window)) return false;
    struct device_unroll unroll = pages_unroll(pages, &window);
    for (int k = 0; k < unroll.depth; k++) {
      if (unroll.before[k] < 0) return false;
      add_rows(file, unroll.before[k], 1);
    }
    for (int s = 0; s < unroll.num_spans; s++)
      add_rows(file, unroll.span[s].row, unroll.span[s].count);
  }
  return true;
}

/* Pages next to each other, or what is in them. */
struct group {
  int first, end;
};

static int by_age(const void *a, const void *b, void *context) {
  const struct page *page = context, *left = &page[*(const int *)a],
                    *right = &page[*(const int *)b];
  if (left->generation != right->generation) return left->generation < right->generation ? -1 : 1;
  return left < right ? -1 : 1;
}

/* The first num_pages pages, oldest first. Those that were never begun come first, in the order of
 * their numbers. */
static void sort_pages(struct pages_file *file, int num_pages) {
  for (int i = 0; i < num_pages; i++) file->order[i] = i;
  qsort_r(file->order, (size_t)num_pages, sizeof(*file->order), by_age, file->view->page);
}

/* The group that place *at of the order begins with; *at: behind it. */
static struct group next_group(const struct pages_file *file, int *at, int num_pages) {
  const struct pages_config *config = &file->view->config;
  size_t page_bytes = (size_t)config->page_steps * config->shape.row_stride;
  int first = file->order[*at], end = first;
  do {
    (*at)++;
    end++;
  } while (*at < num_pages && file->order[*at] == end &&
           (size_t)(end - first + 1) * page_bytes <= GROUP_BYTES);
  return (struct group){first, end};
}

/* Entries of a column that are next to each other. */
struct run {
  int64_t first, count;
};

/* The rows that are needed, from page *at on, before page `end`; *at: behind them. Returns false if
 * there are none. */
static bool next_rows(const struct pages_file *file, int64_t *at, int end, struct run *run) {
  int64_t T = file->view->config.page_steps;
  while (*at < end && !file->range[*at].end) (*at)++;
  if (*at == end) return false;
  *run = (struct run){*at * T + file->range[*at].first, 0};
  int64_t last;
  do {
    last = *at * T + file->range[*at].end;
    (*at)++;
  } while (last == *at * T && *at < end && file->range[*at].end && !file->range[*at].first);
  run->count = last - run->first;
  return true;
}

/* The same with starts, from start *at on, before start `end`. */
static bool next_starts(const struct pages_file *file, int64_t *at, int end, struct run *run,
                        bool (*is_one)(const struct pages_file *file, int32_t start)) {
  while (*at < end && !is_one(file, (int32_t)*at)) (*at)++;
  run->first = *at;
  while (*at < end && is_one(file, (int32_t)*at)) (*at)++;
  run->count = *at - run->first;
  return run->count > 0;
}

static bool next_kept(const struct pages_file *file, int64_t *at, int end, struct run *run) {
  return next_starts(file, at, end, run, keeps);
}

static bool next_states(const struct pages_file *file, int64_t *at, int end, struct run *run) {
  return next_starts(file, at, end, run, needs_state);
}

typedef bool next_run(const struct pages_file *file, int64_t *at, int end, struct run *run);

/* ---- saving */

static bool save_bytes(struct pages_file *file, struct block_writer *writer,
                       const struct column *column, const uint8_t *from, size_t bytes) {
  const struct device_ops *ops = file->device->ops;
  if (!column->on_device) return block_writer_put(writer, from, bytes);
  for (size_t at = 0, count; at < bytes; at += count) {
    count = bytes - at < file->staging_bytes ? bytes - at : file->staging_bytes;
    ops->download_bytes(file->device, file->staging, from + at, count);
    device_finish(file->device);
    if (!block_writer_put(writer, file->staging, count)) return false;
  }
  return true;
}

/* What is from `first` on and before `end`: pages or starts, as `next` counts. */
static bool save_column(struct pages_file *file, struct block_writer *writer,
                        const struct column *column, next_run *next, int first, int end) {
  struct run run;
  bool saved = true;
  for (int64_t at = first; saved && column->bytes && next(file, &at, end, &run);)
    saved = save_bytes(file, writer, column,
                       (const uint8_t *)column->array + (size_t)run.first * column->bytes,
                       (size_t)run.count * column->bytes);
  return saved;
}

static bool save_page(struct block_writer *writer, const struct page *page) {
  struct record record = {.generation = page->generation,
                          .first_step = page->first_step,
                          .previous_generation = page->previous.generation,
                          .next_generation = page->next.generation,
                          .slot = page->slot,
                          .life = page->life,
                          .previous = page->previous.page,
                          .next = page->next.page};
  return block_writer_put(writer, &record, sizeof(record));
}

static bool save_group(struct pages_file *file, struct block_writer *writer,
                       const struct group *group) {
  struct column row[ROW_COLUMNS], start[START_COLUMNS];
  int per_page = starts_per_page(file->view);
  bool saved = true;
  list_row_columns(file->view, row);
  list_start_columns(file->view, start);
  for (int i = 0; saved && i < ROW_COLUMNS; i++)
    saved = save_column(file, writer, &row[i], next_rows, group->first, group->end);
  for (int i = 0; saved && i < START_COLUMNS; i++)
    saved = save_column(file, writer, &start[i], next_states, group->first * per_page,
                        group->end * per_page);
  return saved;
}

/* From now on the group's pages may be reused. */
static bool tell_written(struct pages_file *file, const struct group *group) {
  pthread_mutex_lock(&file->pages->lock);
  bool goes_on = pages_wrote(file->pages, file->view->page[group->end - 1].generation);
  pthread_mutex_unlock(&file->pages->lock);
  return goes_on;
}

static bool save_pages(struct pages_file *file, struct block_writer *writer) {
  const struct pages *image = file->view;
  struct column depth = {image->rows.start_depth, sizeof(int32_t), false, NULL};
  int num_pages = image->config.num_pages;
  bool saved = block_writer_put(writer, &image->generation, sizeof(image->generation));
  for (int i = 0; saved && i < num_pages; i++) saved = save_page(writer, &image->page[i]);
  if (saved) saved = save_column(file, writer, &depth, next_kept, 0, pages_num_starts(image));
  for (int at = 0; saved && at < num_pages;) {
    struct group group = next_group(file, &at, num_pages);
    saved = save_group(file, writer, &group) && tell_written(file, &group);
  }
  return saved;
}

void pages_file_capture(struct pages_file *file) {
  const struct pages *pages = file->pages;
  memcpy(file->image.page, pages->page, (size_t)pages->config.num_pages * sizeof(*pages->page));
  file->image.generation = pages->generation;
  pages_begin_image(file->pages);
}

bool pages_file_save(struct pages_file *file, struct block_writer *writer,
                     const struct pages_kept *kept) {
  file->view = &file->image;
  file->kept = *kept;
  CHECK(find_rows(file), "a window that is kept is not there");
  sort_pages(file, file->view->config.num_pages);
  bool saved = save_pages(file, writer);
  pthread_mutex_lock(&file->pages->lock);
  pages_end_image(file->pages);
  pthread_mutex_unlock(&file->pages->lock);
  return saved;
}

/* ---- loading */

static enum status check_entries(const struct pages_file *file, const struct block_reader *reader,
                                 const struct column *column, const uint8_t *entry, size_t count,
                                 struct error *error) {
  char fault[STEP_FAULT_BYTES];
  for (size_t i = 0; column->rule && i < count; i++, entry += column->bytes)
    if (!column->rule(fault, &file->rules, entry))
      return status_fail(error, STATUS_CORRUPT, "%s is damaged: a step in it has %s",
                         block_reader_path(reader), fault);
  return STATUS_OK;
}

/* So many entries, to `to`. */
static enum status load_entries(struct pages_file *file, struct block_reader *reader,
                                const struct column *column, uint8_t *to, size_t entries,
                                struct error *error) {
  const struct device_ops *ops = file->device->ops;
  size_t at_a_time = file->staging_bytes / column->bytes;
  for (size_t count; entries > 0; entries -= count, to += count * column->bytes) {
    count = entries < at_a_time ? entries : at_a_time;
    uint8_t *read = column->on_device ? file->staging : to;
    enum status status = block_reader_get(reader, read, count * column->bytes, error);
    if (status == STATUS_OK) status = check_entries(file, reader, column, read, count, error);
    if (status != STATUS_OK) return status;
    if (!column->on_device) continue;
    ops->upload_bytes(file->device, to, read, count * column->bytes);
    device_finish(file->device);
  }
  return STATUS_OK;
}

static enum status load_column(struct pages_file *file, struct block_reader *reader,
                               const struct column *column, next_run *next, int first, int end,
                               struct error *error) {
  struct run run;
  enum status status = STATUS_OK;
  for (int64_t at = first; status == STATUS_OK && column->bytes && next(file, &at, end, &run);)
    status = load_entries(file, reader, column,
                          (uint8_t *)column->array + (size_t)run.first * column->bytes,
                          (size_t)run.count, error);
  return status;
}

static enum status load_group(struct pages_file *file, struct block_reader *reader,
                              const struct group *group, struct error *error) {
  struct column row[ROW_COLUMNS], start[START_COLUMNS];
  int per_page = starts_per_page(file->view);
  enum status status = STATUS_OK;
  list_row_columns(file->view, row);
  list_start_columns(file->view, start);
  for (int i = 0; status == STATUS_OK && i < ROW_COLUMNS; i++)
    status = load_column(file, reader, &row[i], next_rows, group->first, group->end, error);
  for (int i = 0; status == STATUS_OK && i < START_COLUMNS; i++)
    status = load_column(file, reader, &start[i], next_states, group->first * per_page,
                         group->end * per_page, error);
  return status;
}

static enum status load_generation(struct pages *pages, struct block_reader *reader,
                                   struct error *error) {
  const uint64_t most = INT64_MAX;
  enum status status =
      block_reader_get(reader, &pages->generation, sizeof(pages->generation), error);
  if (status != STATUS_OK || pages->generation <= most) return status;
  return status_fail(error, STATUS_CORRUPT, "%s is damaged: it tells of %llu pages",
                     block_reader_path(reader), (unsigned long long)pages->generation);
}

/* Of a life; far from what overflows. */
static const int64_t MOST_STEPS = INT64_C(1) << 50;

static bool is_page(int32_t page, int num_pages) {
  return page >= NONE && page < num_pages;
}

static enum status load_page(struct pages_file *file, struct block_reader *reader, int at,
                             int num_pages, struct error *error) {
  struct pages *pages = file->pages;
  struct record record;
  enum status status = block_reader_get(reader, &record, sizeof(record), error);
  if (status != STATUS_OK) return status;
  if (record.generation > pages->generation || record.slot < 0 ||
      record.first_step <= -pages->config.page_steps || record.first_step > MOST_STEPS ||
      !is_page(record.previous, num_pages) || !is_page(record.next, num_pages))
    return status_fail(error, STATUS_CORRUPT, "%s is damaged: page %d cannot be as it describes it",
                       block_reader_path(reader), at);
  pages->page[at] = (struct page){.generation = record.generation,
                                  .first_step = record.first_step,
                                  .slot = record.slot,
                                  .life = record.life,
                                  .previous = {record.previous, record.previous_generation},
                                  .next = {record.next, record.next_generation}};
  return STATUS_OK;
}

/* Of windows that are kept. */
static enum status load_depths(struct pages_file *file, struct block_reader *reader,
                               struct error *error) {
  struct pages *pages = file->pages;
  int32_t *depth = pages->rows.start_depth;
  struct column column = {depth, sizeof(*depth), false, NULL};
  enum status status =
      load_column(file, reader, &column, next_kept, 0, pages_num_starts(pages), error);
  for (int32_t start = 0; status == STATUS_OK && start < pages_num_starts(pages); start++)
    if (keeps(file, start) && (depth[start] < 0 || depth[start] > pages->config.shape.footprint))
      status =
          status_fail(error, STATUS_CORRUPT, "%s is damaged: window %d has %d frames before it",
                      block_reader_path(reader), start, depth[start]);
  return status;
}

/* All pages are free. */
static void list_free(struct pages_file *file) {
  struct pages *pages = file->pages;
  int num_pages = pages->config.num_pages;
  const int *order = file->order;
  sort_pages(file, num_pages);
  for (int i = 0; i < num_pages; i++) {
    pages->page[order[i]].older = i > 0 ? order[i - 1] : NONE;
    pages->page[order[i]].newer = i + 1 < num_pages ? order[i + 1] : NONE;
  }
  pages->free = (struct list){order[0], order[num_pages - 1]};
  pages->num_free = num_pages;
}

enum status pages_file_load(struct pages_file *file, struct block_reader *reader, int num_pages,
                            const struct pages_kept *kept, struct error *error) {
  file->view = file->pages;
  file->kept = *kept;
  enum status status = load_generation(file->pages, reader, error);
  for (int i = 0; status == STATUS_OK && i < num_pages; i++)
    status = load_page(file, reader, i, num_pages, error);
  if (status == STATUS_OK) status = load_depths(file, reader, error);
  if (status == STATUS_OK && !find_rows(file))
    status = status_fail(error, STATUS_CORRUPT, "%s is damaged: a window in it is not whole",
                         block_reader_path(reader));
  sort_pages(file, num_pages);
  for (int at = 0; status == STATUS_OK && at < num_pages;) {
    struct group group = next_group(file, &at, num_pages);
    status = load_group(file, reader, &group, error);
  }
  if (status == STATUS_OK) list_free(file);
  return status;
}

void pages_file_clear(struct pages_file *file) {
  pages_empty(file->pages);
}
