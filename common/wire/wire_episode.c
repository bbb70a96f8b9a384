/* The finished episodes inside a Steps message. */
#include "common/wire/wire_cursor.h"

static bool fits_in_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.' || c == '/';
}

bool wire_number_name_fits(const char *name) {
  size_t length = strnlen(name, WIRE_NUMBER_NAME_BYTES);
  for (size_t i = 0; i < length; i++)
    if (!fits_in_name(name[i])) return false;
  return length > 0 && length < WIRE_NUMBER_NAME_BYTES;
}

/* It ends at the first 0, as a C string does. */
static enum status take_name(char name[WIRE_NUMBER_NAME_BYTES], struct wire_cursor content,
                             struct error *error) {
  memset(name, 0, WIRE_NUMBER_NAME_BYTES);
  wire_cursor_read(&content, name,
                   content.left < WIRE_NUMBER_NAME_BYTES ? content.left : WIRE_NUMBER_NAME_BYTES);
  if (!memchr(name, 0, WIRE_NUMBER_NAME_BYTES))
    return status_fail(error, STATUS_INVALID, "Steps.episode.number.name is longer than %d bytes",
                       WIRE_NUMBER_NAME_BYTES - 1);
  if (!name[0]) return status_fail(error, STATUS_INVALID, "Steps.episode.number has no name");
  for (const char *c = name; *c; c++)
    if (!fits_in_name(*c))
      return status_fail(error, STATUS_INVALID,
                         "Steps.episode.number.name has the character %d; only letters, digits, "
                         "'_', '-', '.' and '/'",
                         (unsigned char)*c);
  return STATUS_OK;
}

static enum status read_number(struct wire_episode *episode, struct wire_cursor number,
                               struct error *error) {
  if (episode->num_numbers == WIRE_MAX_EPISODE_NUMBERS)
    return status_fail(error, STATUS_INVALID, "Steps.episode has more than %d numbers",
                       WIRE_MAX_EPISODE_NUMBERS);
  char *name = episode->number[episode->num_numbers].name;
  double *value = &episode->number[episode->num_numbers].value;
  struct wire_cursor name_there = {0};
  const struct wire_place *end,
      places[] = {{1, WIRE_BYTES, &name_there, "Steps.episode.number.name"},
                  {2, WIRE_FIXED64, value, "Steps.episode.number.value"}};
  episode->num_numbers++;
  *value = 0;
  enum status status =
      wire_cursor_next(&number, &end, NULL, places, 2, "Steps.episode.number", error);
  return status == STATUS_OK ? take_name(name, name_there, error) : status;
}

enum status wire_read_episode(struct wire_episode *episode, struct wire_cursor cursor,
                              int num_environments, struct error *error) {
  const struct wire_place *place = NULL,
                          places[] = {
                              {1, WIRE_VARINT, &episode->environment, "Steps.episode.environment"},
                              {2, WIRE_FIXED64, &episode->episode_return,
                               "Steps.episode.episode_return"},
                              {3, WIRE_VARINT, &episode->length, "Steps.episode.length"},
                              {4, WIRE_BYTES, NULL, "Steps.episode.number"}};
  struct wire_cursor number;
  episode->environment = episode->length = 0;
  episode->episode_return = 0;
  episode->num_numbers = 0;
  enum status status;
  do {
    status = wire_cursor_next(&cursor, &place, &number, places, 4, "Steps.episode", error);
    if (status == STATUS_OK && place) status = read_number(episode, number, error);
  } while (status == STATUS_OK && place);
  if (status == STATUS_OK && episode->environment >= (uint32_t)num_environments)
    return status_fail(error, STATUS_INVALID,
                       "Steps.episode.environment is %u; the stream has %d environments",
                       (unsigned)episode->environment, num_environments);
  return status;
}
