/* The finished episodes inside a Steps message. */
#include "common/rpc/wire_cursor.h"

/* Field numbers of acorn.proto. */
enum { EPISODE_ENVIRONMENT = 1, EPISODE_RETURN = 2, EPISODE_LENGTH = 3, EPISODE_NUMBER = 4 };
enum { NUMBER_NAME = 1, NUMBER_VALUE = 2 };

static enum status read_double(struct wire_cursor *cursor, const struct wire_field *field,
                               double *value, const char *name, struct error *error) {
  enum status status = wire_expect_type(field, WIRE_FIXED64, name, error);
  if (status != STATUS_OK) return status;
  return wire_cursor_read(cursor, value, sizeof(*value)) ? STATUS_OK
                                                         : wire_ends_inside(name, error);
}

static enum status read_uint32(struct wire_cursor *cursor, const struct wire_field *field,
                               uint32_t *value, const char *name, struct error *error) {
  enum status status = wire_expect_type(field, WIRE_VARINT, name, error);
  if (status != STATUS_OK) return status;
  uint64_t wide;
  if (!wire_cursor_varint(cursor, &wide, 10)) return wire_ends_inside(name, error);
  *value = (uint32_t)wide;
  return STATUS_OK;
}

/* A name goes into metrics and file names: visible ASCII only. It ends at the first 0, as a C
 * string does. */
static enum status check_number_name(const char *name, struct error *error) {
  if (!memchr(name, 0, WIRE_NAME_BYTES))
    return status_fail(error, STATUS_INVALID, "Steps.episode.number.name is longer than %d bytes",
                       WIRE_NAME_BYTES - 1);
  if (!name[0]) return status_fail(error, STATUS_INVALID, "Steps.episode.number has no name");
  for (const char *c = name; *c; c++)
    if (*c <= ' ' || *c > '~')
      return status_fail(error, STATUS_INVALID,
                         "Steps.episode.number.name has the character %d; only visible ASCII",
                         (unsigned char)*c);
  return STATUS_OK;
}

static enum status read_number_name(const struct wire_cursor *cursor,
                                    const struct wire_field *field, char name[WIRE_NAME_BYTES],
                                    struct error *error) {
  enum status status = wire_expect_type(field, WIRE_BYTES, "Steps.episode.number.name", error);
  if (status != STATUS_OK) return status;
  struct wire_cursor content = wire_cursor_content(cursor, field);
  memset(name, 0, WIRE_NAME_BYTES);
  if (!wire_cursor_read(&content, name,
                        field->bytes < WIRE_NAME_BYTES ? field->bytes : WIRE_NAME_BYTES))
    return wire_ends_inside("Steps.episode.number.name", error);
  return STATUS_OK;
}

static enum status read_number(struct wire_cursor number, struct wire_episode *episode,
                               struct error *error) {
  if (episode->num_numbers == WIRE_MAX_EPISODE_NUMBERS)
    return status_fail(error, STATUS_INVALID, "Steps.episode has more than %d numbers",
                       WIRE_MAX_EPISODE_NUMBERS);
  char *name = episode->number[episode->num_numbers].name;
  double *value = &episode->number[episode->num_numbers].value;
  episode->num_numbers++;
  memset(name, 0, WIRE_NAME_BYTES);
  *value = 0;
  while (number.left > 0) {
    struct wire_field field;
    enum status status = wire_cursor_field(&number, &field, "Steps.episode.number", error);
    if (status == STATUS_OK && field.number == NUMBER_NAME)
      status = read_number_name(&number, &field, name, error);
    if (status == STATUS_OK && field.number == NUMBER_VALUE)
      status = read_double(&number, &field, value, "Steps.episode.number.value", error);
    else if (status == STATUS_OK)
      status = wire_cursor_skip(&number, &field, "Steps.episode.number", error);
    if (status != STATUS_OK) return status;
  }
  return check_number_name(name, error);
}

static enum status read_episode_field(struct wire_cursor *cursor, const struct wire_field *field,
                                      struct wire_episode *episode, struct error *error) {
  enum status status;
  switch (field->number) {
    case EPISODE_ENVIRONMENT:
      return read_uint32(cursor, field, &episode->environment, "Steps.episode.environment", error);
    case EPISODE_RETURN:
      return read_double(cursor, field, &episode->episode_return, "Steps.episode.episode_return",
                         error);
    case EPISODE_LENGTH:
      return read_uint32(cursor, field, &episode->length, "Steps.episode.length", error);
    case EPISODE_NUMBER:
      status = wire_expect_type(field, WIRE_BYTES, "Steps.episode.number", error);
      if (status == STATUS_OK)
        status = read_number(wire_cursor_content(cursor, field), episode, error);
      if (status != STATUS_OK) return status;
      break;
  }
  return wire_cursor_skip(cursor, field, "Steps.episode", error);
}

enum status wire_read_episode(struct wire_episode *episode, struct wire_cursor cursor,
                              int num_environments, struct error *error) {
  episode->environment = episode->length = 0;
  episode->episode_return = 0;
  episode->num_numbers = 0;
  while (cursor.left > 0) {
    struct wire_field field;
    enum status status = wire_cursor_field(&cursor, &field, "Steps.episode", error);
    if (status == STATUS_OK) status = read_episode_field(&cursor, &field, episode, error);
    if (status != STATUS_OK) return status;
  }
  if (episode->environment >= (uint32_t)num_environments)
    return status_fail(error, STATUS_INVALID,
                       "Steps.episode.environment is %u; the stream has %d environments",
                       (unsigned)episode->environment, num_environments);
  return STATUS_OK;
}
