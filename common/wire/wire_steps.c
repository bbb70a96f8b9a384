/* Decoding of Steps, in two strides: one scan over the fields, which adds up rewards and
 * episodes and remembers where the last `flags` and `observation` lie; then, once their lengths
 * are known to be right, one copy of each into its place. */
#include "common/wire/wire_cursor.h"

/* Field numbers of acorn.proto. */
enum {
  STEPS_RUN_ID = 1,
  STEPS_REWARD = 2,
  STEPS_FLAGS = 3,
  STEPS_EPISODE = 4,
  STEPS_OBSERVATION = 15
};

/* What the scan has found. */
struct steps_scan {
  struct wire_rows *rows;
  const struct wire_layout *layout;
  size_t num_rewards;             /* counts on beyond K, so that the sentence can name the number */
  struct wire_cursor flags;       /* the last one; left = 0 if there is none */
  struct wire_cursor observation; /* the last one */
};

/* ---- the scan */

static enum status read_episode(struct steps_scan *scan, struct wire_cursor content,
                                struct error *error) {
  struct wire_rows *rows = scan->rows;
  if (rows->num_episodes == rows->max_episodes)
    return status_fail(error, STATUS_INVALID, "Steps.episode: more than %d episodes in one message",
                       rows->max_episodes);
  return wire_read_episode(&rows->episodes[rows->num_episodes++], content,
                           scan->layout->num_environments, error);
}

/* Rewards come packed, one by one, or mixed; those beyond K are counted and not stored. */
static enum status read_rewards(struct steps_scan *scan, struct wire_cursor content,
                                struct error *error) {
  size_t bytes = content.left, num_environments = (size_t)scan->layout->num_environments;
  if (bytes % sizeof(float) != 0)
    return status_fail(error, STATUS_INVALID, "Steps.reward: %zu bytes is not a number of floats",
                       bytes);
  if (scan->num_rewards < num_environments) {
    size_t room = (num_environments - scan->num_rewards) * sizeof(float);
    wire_cursor_read(&content, scan->rows->reward + scan->num_rewards, bytes < room ? bytes : room);
  }
  scan->num_rewards += bytes / sizeof(float);
  return STATUS_OK;
}

static enum status scan_fields(struct steps_scan *scan, struct wire_cursor *cursor,
                               struct error *error) {
  const struct wire_place *place = NULL,
                          places[] = {
                              {STEPS_RUN_ID, WIRE_FIXED64, &scan->rows->run_id, "Steps.run_id"},
                              {STEPS_REWARD, WIRE_FIXED32, NULL, "Steps.reward"},
                              {STEPS_REWARD, WIRE_BYTES, NULL, "Steps.reward"},
                              {STEPS_FLAGS, WIRE_BYTES, &scan->flags, "Steps.flags"},
                              {STEPS_EPISODE, WIRE_BYTES, NULL, "Steps.episode"},
                              {STEPS_OBSERVATION, WIRE_BYTES, &scan->observation,
                               "Steps.observation"}};
  struct wire_cursor content;
  enum status status;
  do {
    status = wire_cursor_next(cursor, &place, &content, places, 6, "Steps", error);
    if (status == STATUS_OK && place)
      status = place->number == STEPS_REWARD ? read_rewards(scan, content, error)
                                             : read_episode(scan, content, error);
  } while (status == STATUS_OK && place);
  return status;
}

/* ---- the copies */

/* The flags' rules that a single row can break; see "A step" in docs/protocol.md. Returns NULL if
 * all is well. */
static const char *flags_fault(uint8_t flags) {
  if (flags & ~(STEP_FIRST | STEP_TERMINATED | STEP_TRUNCATED | STEP_ABSENT))
    return "unknown bits are set";
  if ((flags & STEP_ABSENT) && flags != STEP_ABSENT) return "an absent row has no other flag";
  if ((flags & STEP_TERMINATED) && !(flags & STEP_FIRST)) return "a terminated row is also first";
  if ((flags & STEP_TRUNCATED) && flags & STEP_FIRST && !(flags & STEP_TERMINATED))
    return "a truncated row is never first";
  return NULL;
}

static enum status place_flags(const struct steps_scan *scan, struct error *error) {
  struct wire_cursor cursor = scan->flags;
  size_t rows = (size_t)scan->layout->num_environments;
  uint8_t *flags = scan->rows->flags;
  if (cursor.left == 0) {
    memset(flags, 0, rows);
    return STATUS_OK;
  }
  if (cursor.left != rows)
    return status_fail(error, STATUS_INVALID,
                       "Steps.flags has %zu rows; the stream has %zu environments", cursor.left,
                       rows);
  wire_cursor_read(&cursor, flags, rows);
  for (size_t k = 0; k < rows; k++) {
    const char *fault = flags_fault(flags[k]);
    if (fault)
      return status_fail(error, STATUS_INVALID, "Steps.flags[%zu] is %d: %s", k, flags[k], fault);
    if (flags[k] & STEP_TERMINATED)
      flags[k] = STEP_TERMINATED | STEP_FIRST; /* terminated wins over truncated */
  }
  return STATUS_OK;
}

static enum status place_observation(const struct steps_scan *scan, struct error *error) {
  struct wire_cursor cursor = scan->observation;
  const struct wire_layout *layout = scan->layout;
  size_t expected = layout->wire_bytes * (size_t)layout->num_environments;
  struct wire_span shared = {scan->rows->shared, expected};
  if (cursor.left == 0 && shared.data) wire_cursor_init(&cursor, &shared, 1);
  if (cursor.left != expected)
    return status_fail(error, STATUS_INVALID,
                       "Steps.observation has %zu bytes; %d environments of %zu bytes have %zu",
                       cursor.left, layout->num_environments, layout->wire_bytes, expected);
  uint8_t *row = scan->rows->observation;
  if (layout->wire_bytes == layout->row_stride) {
    wire_cursor_read(&cursor, row, expected);
    return STATUS_OK;
  }
  for (int k = 0; k < layout->num_environments; k++, row += layout->row_stride)
    for (int i = 0; i < layout->num_tensors; i++)
      wire_cursor_read(&cursor, row + layout->tensor[i].row_offset, layout->tensor[i].bytes);
  return STATUS_OK;
}

enum status wire_decode_steps(struct wire_rows *rows, const struct wire_span *spans, int num_spans,
                              const struct wire_layout *layout, struct error *error) {
  struct steps_scan scan = {.rows = rows, .layout = layout};
  rows->run_id = 0;
  rows->num_episodes = 0;
  struct wire_cursor cursor;
  wire_cursor_init(&cursor, spans, num_spans);
  enum status status = scan_fields(&scan, &cursor, error);
  if (status != STATUS_OK) return status;
  if (scan.num_rewards != (size_t)layout->num_environments)
    return status_fail(error, STATUS_INVALID,
                       "Steps.reward has %zu rows; the stream has %d environments",
                       scan.num_rewards, layout->num_environments);
  status = place_flags(&scan, error);
  return status == STATUS_OK ? place_observation(&scan, error) : status;
}

enum status wire_peek_run_id(uint64_t *run_id, bool *alone, const struct wire_span *spans,
                             int num_spans, struct error *error) {
  const struct wire_place *end, place = {STEPS_RUN_ID, WIRE_FIXED64, run_id, "Steps.run_id"};
  struct wire_cursor cursor;
  wire_cursor_init(&cursor, spans, num_spans);
  *alone = cursor.left == WIRE_RUN_ID_BYTES;
  *run_id = 0;
  return wire_cursor_next(&cursor, &end, NULL, &place, 1, "Steps", error);
}
