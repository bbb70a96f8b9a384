/* Decoding of Steps, in two strides: one scan over the fields, which adds up rewards and
 * episodes and remembers where the last `flags` and `observation` lie; then, once their lengths
 * are known to be right, one copy of each into its place. */
#include "common/rpc/wire_cursor.h"

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

static enum status read_episode(struct wire_cursor content, struct steps_scan *scan,
                                struct error *error) {
  struct wire_rows *rows = scan->rows;
  if (rows->num_episodes == rows->max_episodes)
    return status_fail(error, STATUS_INVALID, "Steps.episode: more than %d episodes in one message",
                       rows->max_episodes);
  return wire_read_episode(&rows->episodes[rows->num_episodes++], content,
                           scan->layout->num_environments, error);
}

/* Rewards come packed, one by one, or mixed; those beyond K are counted and not stored. */
static enum status read_rewards(struct wire_cursor *cursor, const struct wire_field *field,
                                struct steps_scan *scan, struct error *error) {
  size_t bytes = sizeof(float);
  if (field->type == WIRE_BYTES) {
    bytes = field->bytes;
    if (bytes % sizeof(float) != 0)
      return status_fail(error, STATUS_INVALID, "Steps.reward: %zu bytes is not a number of floats",
                         bytes);
  } else if (field->type != WIRE_FIXED32) {
    return wire_expect_type(field, WIRE_BYTES, "Steps.reward", error);
  }
  size_t num_environments = (size_t)scan->layout->num_environments;
  size_t room = scan->num_rewards < num_environments
                    ? (num_environments - scan->num_rewards) * sizeof(float)
                    : 0;
  size_t stored = bytes < room ? bytes : room;
  if (!wire_cursor_read(cursor, scan->rows->reward + (room ? scan->num_rewards : 0), stored) ||
      !wire_cursor_read(cursor, NULL, bytes - stored))
    return wire_ends_inside("Steps.reward", error);
  scan->num_rewards += bytes / sizeof(float);
  return STATUS_OK;
}

static enum status read_run_id(struct wire_cursor *cursor, const struct wire_field *field,
                               uint64_t *run_id, struct error *error) {
  enum status status = wire_expect_type(field, WIRE_FIXED64, "Steps.run_id", error);
  if (status != STATUS_OK) return status;
  return wire_cursor_read(cursor, run_id, sizeof(*run_id))
             ? STATUS_OK
             : wire_ends_inside("Steps.run_id", error);
}

static enum status remember(struct wire_cursor *place, const struct wire_cursor *cursor,
                            const struct wire_field *field, const char *name, struct error *error) {
  enum status status = wire_expect_type(field, WIRE_BYTES, name, error);
  if (status == STATUS_OK) *place = wire_cursor_content(cursor, field);
  return status;
}

static enum status scan_field(struct wire_cursor *cursor, const struct wire_field *field,
                              struct steps_scan *scan, struct error *error) {
  enum status status = STATUS_OK;
  switch (field->number) {
    case STEPS_RUN_ID:
      return read_run_id(cursor, field, &scan->rows->run_id, error);
    case STEPS_REWARD:
      return read_rewards(cursor, field, scan, error);
    case STEPS_FLAGS:
      status = remember(&scan->flags, cursor, field, "Steps.flags", error);
      break;
    case STEPS_EPISODE:
      status = wire_expect_type(field, WIRE_BYTES, "Steps.episode", error);
      if (status == STATUS_OK)
        status = read_episode(wire_cursor_content(cursor, field), scan, error);
      break;
    case STEPS_OBSERVATION:
      status = remember(&scan->observation, cursor, field, "Steps.observation", error);
      break;
  }
  return status == STATUS_OK ? wire_cursor_skip(cursor, field, "Steps", error) : status;
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
  if (!wire_cursor_read(&cursor, flags, rows)) return wire_ends_inside("Steps.flags", error);
  for (size_t k = 0; k < rows; k++) {
    const char *fault = flags_fault(flags[k]);
    if (fault)
      return status_fail(error, STATUS_INVALID, "Steps.flags[%zu] is %d: %s", k, flags[k], fault);
    if (flags[k] & STEP_TERMINATED)
      flags[k] = STEP_TERMINATED | STEP_FIRST; /* terminated wins over truncated */
  }
  return STATUS_OK;
}

static bool place_row(struct wire_cursor *cursor, uint8_t *row, const struct wire_layout *layout) {
  for (int i = 0; i < layout->num_tensors; i++)
    if (!wire_cursor_read(cursor, row + layout->tensor[i].row_offset, layout->tensor[i].bytes))
      return false;
  return true;
}

static enum status place_observation(const struct steps_scan *scan, struct error *error) {
  struct wire_cursor cursor = scan->observation;
  const struct wire_layout *layout = scan->layout;
  size_t expected = layout->wire_bytes * (size_t)layout->num_environments;
  if (cursor.left != expected)
    return status_fail(error, STATUS_INVALID,
                       "Steps.observation has %zu bytes; %d environments of %zu bytes have %zu",
                       cursor.left, layout->num_environments, layout->wire_bytes, expected);
  bool whole = true;
  if (layout->wire_bytes == layout->row_stride) {
    whole = wire_cursor_read(&cursor, scan->rows->observation, expected);
  } else {
    for (int k = 0; whole && k < layout->num_environments; k++)
      whole = place_row(&cursor, scan->rows->observation + (size_t)k * layout->row_stride, layout);
  }
  return whole ? STATUS_OK : wire_ends_inside("Steps.observation", error);
}

enum status wire_decode_steps(struct wire_rows *rows, const struct wire_span *spans, int num_spans,
                              const struct wire_layout *layout, struct error *error) {
  struct steps_scan scan = {.rows = rows, .layout = layout};
  rows->run_id = 0;
  rows->num_episodes = 0;
  struct wire_cursor cursor;
  wire_cursor_init(&cursor, spans, num_spans);
  while (cursor.left > 0) {
    struct wire_field field;
    enum status status = wire_cursor_field(&cursor, &field, "Steps", error);
    if (status == STATUS_OK) status = scan_field(&cursor, &field, &scan, error);
    if (status != STATUS_OK) return status;
  }
  if (scan.num_rewards != (size_t)layout->num_environments)
    return status_fail(error, STATUS_INVALID,
                       "Steps.reward has %zu rows; the stream has %d environments",
                       scan.num_rewards, layout->num_environments);
  enum status status = place_flags(&scan, error);
  return status == STATUS_OK ? place_observation(&scan, error) : status;
}

enum status wire_peek_run_id(uint64_t *run_id, bool *alone, const struct wire_span *spans,
                             int num_spans, struct error *error) {
  struct wire_cursor cursor;
  wire_cursor_init(&cursor, spans, num_spans);
  *run_id = 0;
  *alone = true;
  while (cursor.left > 0) {
    struct wire_field field;
    enum status status = wire_cursor_field(&cursor, &field, "Steps", error);
    if (status != STATUS_OK) return status;
    bool is_run_id = field.number == STEPS_RUN_ID;
    *alone &= is_run_id;
    status = is_run_id ? read_run_id(&cursor, &field, run_id, error)
                       : wire_cursor_skip(&cursor, &field, "Steps", error);
    if (status != STATUS_OK) return status;
  }
  return STATUS_OK;
}
