/* Encoding of Steps, and both ways of Actions: all but the observation itself, which its sender
 * adds by reference. */
#include "common/base/check.h"
#include "common/wire/wire_cursor.h"

enum {
  MAX_LENGTH_BYTES = 5, /* a tag below 16 is one byte, a length at most five */
  FIELD_BYTES = 1 + MAX_LENGTH_BYTES,
  NUMBER_BYTES = FIELD_BYTES + WIRE_NUMBER_NAME_BYTES + 1 + 8,
  EPISODE_BYTES = 2 * FIELD_BYTES + 1 + 8 + WIRE_MAX_EPISODE_NUMBERS * (FIELD_BYTES + NUMBER_BYTES),
};

size_t wire_steps_header_bound(int num_environments, int num_episodes) {
  size_t rows = (size_t)num_environments;
  return 1 + 8 + (FIELD_BYTES + rows * sizeof(float)) + (FIELD_BYTES + rows) +
         (size_t)num_episodes * (FIELD_BYTES + EPISODE_BYTES) + FIELD_BYTES;
}

static uint8_t *put_block(uint8_t *out, uint32_t number, const void *data, size_t bytes) {
  out = wire_put_tag(out, number, WIRE_BYTES);
  out = wire_put_varint(out, bytes);
  return wire_put_bytes(out, data, bytes);
}

static uint8_t *put_double(uint8_t *out, uint32_t number, double value) {
  return wire_put_bytes(wire_put_tag(out, number, WIRE_FIXED64), &value, sizeof(value));
}

static uint8_t *put_uint32(uint8_t *out, uint32_t number, uint32_t value) {
  return value ? wire_put_varint(wire_put_tag(out, number, WIRE_VARINT), value) : out;
}

/* A sub-message is made aside, because its length comes first. */
static uint8_t *put_episode(uint8_t *out, const struct wire_episode *episode) {
  CHECK(episode->num_numbers <= WIRE_MAX_EPISODE_NUMBERS, "%d numbers", episode->num_numbers);
  uint8_t body[EPISODE_BYTES], *end = body;
  end = put_uint32(end, 1, episode->environment);
  end = put_double(end, 2, episode->episode_return);
  end = put_uint32(end, 3, episode->length);
  for (int i = 0; i < episode->num_numbers; i++) {
    uint8_t number[NUMBER_BYTES], *tail = number;
    const char *name = episode->number[i].name;
    tail = put_block(tail, 1, name, strnlen(name, WIRE_NUMBER_NAME_BYTES - 1));
    tail = put_double(tail, 2, episode->number[i].value);
    end = put_block(end, 4, number, (size_t)(tail - number));
  }
  return put_block(out, 4, body, (size_t)(end - body));
}

static bool all_none(const uint8_t *flags, size_t rows) {
  for (size_t k = 0; k < rows; k++)
    if (flags[k] != 0) return false;
  return true;
}

size_t wire_encode_run_id(uint8_t out[WIRE_RUN_ID_BYTES], uint64_t run_id) {
  return (size_t)(wire_put_bytes(wire_put_tag(out, 1, WIRE_FIXED64), &run_id, sizeof(run_id)) -
                  out);
}

size_t wire_encode_steps_header(uint8_t *out, size_t room, uint64_t run_id, const float *reward,
                                const uint8_t *flags, const struct wire_episode *episodes,
                                int num_episodes, int num_environments, size_t observation_bytes) {
  size_t rows = (size_t)num_environments;
  CHECK(room >= wire_steps_header_bound(num_environments, num_episodes), "room for %zu bytes",
        room);
  uint8_t *end = out;
  if (run_id != 0) end += wire_encode_run_id(end, run_id);
  end = put_block(end, 2, reward, rows * sizeof(*reward));
  if (!all_none(flags, rows)) end = put_block(end, 3, flags, rows);
  for (int i = 0; i < num_episodes; i++) end = put_episode(end, &episodes[i]);
  if (observation_bytes)
    end = wire_put_varint(wire_put_tag(end, 15, WIRE_BYTES), observation_bytes);
  return (size_t)(end - out);
}

size_t wire_encode_actions_header(uint8_t out[16], size_t action_bytes) {
  return (size_t)(wire_put_varint(wire_put_tag(out, 1, WIRE_BYTES), action_bytes) - out);
}

enum status wire_decode_actions(void *actions, size_t action_bytes, const struct wire_span *spans,
                                int num_spans, struct error *error) {
  struct wire_cursor cursor, content = {0};
  const struct wire_place *end, place = {1, WIRE_BYTES, &content, "Actions.action"};
  wire_cursor_init(&cursor, spans, num_spans);
  enum status status = wire_cursor_next(&cursor, &end, NULL, &place, 1, "Actions", error);
  if (status == STATUS_OK && content.left != action_bytes)
    return status_fail(error, STATUS_INVALID, "Actions.action has %zu bytes, expected %zu",
                       content.left, action_bytes);
  if (status == STATUS_OK) wire_cursor_read(&content, actions, action_bytes);
  return status;
}
