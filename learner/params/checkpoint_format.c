#include "learner/params/checkpoint_format.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/crc32c.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "numbers are stored as they are in memory");

static const char MAGIC[8] = {'A', 'C', 'O', 'R', 'N', 'C', 'K', 'P'};

/* ---- items */

/* 0: no such type. */
static size_t dtype_bytes(enum checkpoint_dtype dtype) {
  switch (dtype) {
    case CHECKPOINT_FLOAT32:
      return 4;
    case CHECKPOINT_FLOAT64:
      return 8;
    case CHECKPOINT_INT64:
      return 8;
    case CHECKPOINT_BYTES:
      return 1;
  }
  return 0;
}

static const char *dtype_name(enum checkpoint_dtype dtype) {
  static const char *const names[] = {"?", "float32", "float64", "int64", "bytes"};
  return names[dtype_bytes(dtype) ? dtype : 0];
}

/* False if the type is unknown or the size is more than 64 bits hold. */
static bool item_size(const struct checkpoint_item *item, uint64_t *bytes) {
  *bytes = dtype_bytes(item->dtype);
  bool fits = *bytes > 0;
  for (int i = 0; i < item->rank; i++)
    fits &= !__builtin_mul_overflow(*bytes, item->shape[i], bytes);
  return fits;
}

size_t checkpoint_item_bytes(const struct checkpoint_item *item) {
  uint64_t bytes;
  CHECK(item->rank >= 0 && item->rank <= CHECKPOINT_MAX_RANK && item_size(item, &bytes),
        "item '%.*s': type %d, rank %d", CHECKPOINT_NAME_BYTES, item->name, (int)item->dtype,
        item->rank);
  return (size_t)bytes;
}

/* Printable, and short enough for its terminating zero. */
static bool is_name(const char name[CHECKPOINT_NAME_BYTES]) {
  size_t length = strnlen(name, CHECKPOINT_NAME_BYTES);
  for (size_t i = 0; i < length; i++)
    if (!isgraph((unsigned char)name[i])) return false;
  return length > 0 && length < CHECKPOINT_NAME_BYTES;
}

/* ---- encoding */

size_t checkpoint_padding(uint64_t bytes) {
  return (size_t)(-bytes % CHECKPOINT_ALIGNMENT);
}

static uint8_t *put(uint8_t *to, const void *value, size_t bytes) {
  memcpy(to, value, bytes);
  return to + bytes;
}

static uint8_t *put_entry(uint8_t *to, const struct checkpoint_item *item) {
  uint16_t length = (uint16_t)strlen(item->name);
  uint8_t dtype = (uint8_t)item->dtype, rank = (uint8_t)item->rank;
  uint64_t bytes = checkpoint_item_bytes(item);
  uint32_t crc = crc32c(item->data, bytes);
  to = put(to, &length, sizeof length);
  to = put(to, item->name, length);
  to = put(to, &dtype, sizeof dtype);
  to = put(to, &rank, sizeof rank);
  to = put(to, item->shape, rank * sizeof item->shape[0]);
  to = put(to, &bytes, sizeof bytes);
  return put(to, &crc, sizeof crc);
}

size_t checkpoint_encode_header(uint8_t header[CHECKPOINT_HEADER_ROOM],
                                const struct checkpoint_item *items, int num_items) {
  CHECK(num_items >= 0 && num_items <= CHECKPOINT_MAX_ITEMS, "%d items", num_items);
  uint32_t format = CHECKPOINT_FORMAT, count = (uint32_t)num_items;
  uint8_t *to = put(header, MAGIC, sizeof MAGIC);
  to = put(to, &format, sizeof format);
  to = put(to, &count, sizeof count);
  for (int i = 0; i < num_items; i++) {
    CHECK(is_name(items[i].name), "the name of item %d", i);
    for (int k = 0; k < i; k++)
      CHECK(strcmp(items[i].name, items[k].name) != 0, "two items '%s'", items[i].name);
    to = put_entry(to, &items[i]);
  }
  uint32_t crc = crc32c(header, (size_t)(to - header));
  to = put(to, &crc, sizeof crc);
  size_t padding = checkpoint_padding((uint64_t)(to - header));
  memset(to, 0, padding);
  return (size_t)(to - header) + padding;
}

/* ---- decoding */

/* Where the decoder is. Once `cut` is set every further value is zero. */
struct cursor {
  const uint8_t *bytes;
  size_t size, at;
  bool cut;
};

static void get(struct cursor *cursor, void *value, size_t bytes) {
  memset(value, 0, bytes);
  if (bytes > cursor->size - cursor->at) cursor->cut = true;
  if (cursor->cut) return;
  memcpy(value, cursor->bytes + cursor->at, bytes);
  cursor->at += bytes;
}

/* Reads what is there; whether it makes sense is asked once the header's checksum is known to be
 * right. */
static bool get_entry(struct cursor *cursor, struct checkpoint_entry *entry) {
  uint16_t length;
  uint8_t dtype, rank;
  struct checkpoint_item *item = &entry->item;
  *entry = (struct checkpoint_entry){0};
  get(cursor, &length, sizeof length);
  if (length >= CHECKPOINT_NAME_BYTES) return false;
  get(cursor, item->name, length);
  get(cursor, &dtype, sizeof dtype);
  get(cursor, &rank, sizeof rank);
  if (rank > CHECKPOINT_MAX_RANK) return false;
  get(cursor, item->shape, rank * sizeof item->shape[0]);
  get(cursor, &entry->bytes, sizeof entry->bytes);
  get(cursor, &entry->crc, sizeof entry->crc);
  item->dtype = dtype;
  item->rank = rank;
  return !cursor->cut;
}

bool checkpoint_has_magic(const uint8_t *bytes, size_t size) {
  return size >= sizeof MAGIC && memcmp(bytes, MAGIC, sizeof MAGIC) == 0;
}

/* Magic, format and entries, up to the header's checksum. */
static enum status get_header(struct cursor *cursor, struct checkpoint_directory *directory,
                              struct error *error) {
  char magic[sizeof MAGIC];
  uint32_t format, count, crc;
  get(cursor, magic, sizeof magic);
  if (memcmp(magic, MAGIC, sizeof MAGIC) != 0)
    return status_fail(error, STATUS_CORRUPT, "it does not begin like a checkpoint (\"%.8s\")",
                       MAGIC);
  get(cursor, &format, sizeof format);
  if (format != CHECKPOINT_FORMAT)
    return status_fail(error, STATUS_CORRUPT, "it is of format %u, this program reads format %d",
                       format, CHECKPOINT_FORMAT);
  get(cursor, &count, sizeof count);
  if (count > CHECKPOINT_MAX_ITEMS)
    return status_fail(error, STATUS_CORRUPT,
                       "the header is damaged: %u items, at most %d are possible", count,
                       CHECKPOINT_MAX_ITEMS);
  for (uint32_t i = 0; i < count; i++)
    if (!get_entry(cursor, &directory->entry[i]))
      return status_fail(error, STATUS_CORRUPT, "the header is %s at byte %zu, in item %u of %u",
                         cursor->cut ? "cut short" : "damaged", cursor->at, i + 1, count);
  directory->count = (int)count;
  uint32_t expected = crc32c(cursor->bytes, cursor->at);
  get(cursor, &crc, sizeof crc);
  if (cursor->cut) return status_fail(error, STATUS_CORRUPT, "the header is cut short");
  if (crc != expected)
    return status_fail(error, STATUS_CORRUPT, "the header's checksum is %08x, its bytes give %08x",
                       crc, expected);
  return STATUS_OK;
}

/* A checksum says that a writer meant it, not that the writer was one of ours. */
static enum status check_entry(const struct checkpoint_directory *directory, int i,
                               struct error *error) {
  const struct checkpoint_entry *entry = &directory->entry[i];
  uint64_t bytes;
  if (!is_name(entry->item.name))
    return status_fail(error, STATUS_CORRUPT, "the name of item %d is empty or not printable",
                       i + 1);
  if (!item_size(&entry->item, &bytes) || bytes != entry->bytes)
    return status_fail(error, STATUS_CORRUPT,
                       "item '%s' of type %d has %llu bytes, which its shape does not",
                       entry->item.name, (int)entry->item.dtype, (unsigned long long)entry->bytes);
  for (int k = 0; k < i; k++)
    if (strcmp(entry->item.name, directory->entry[k].item.name) == 0)
      return status_fail(error, STATUS_CORRUPT, "item '%s' is there twice", entry->item.name);
  return STATUS_OK;
}

static enum status skip_padding(struct cursor *cursor, struct error *error) {
  uint8_t padding[CHECKPOINT_ALIGNMENT];
  size_t bytes = checkpoint_padding(cursor->at), at = cursor->at;
  get(cursor, padding, bytes);
  if (cursor->cut) return status_fail(error, STATUS_CORRUPT, "it is cut short at byte %zu", at);
  for (size_t i = 0; i < bytes; i++)
    if (padding[i])
      return status_fail(error, STATUS_CORRUPT, "byte %zu should be zero, it is %u", at + i,
                         padding[i]);
  return STATUS_OK;
}

static enum status get_data(struct cursor *cursor, struct checkpoint_entry *entry,
                            struct error *error) {
  if (entry->bytes > cursor->size - cursor->at)
    return status_fail(
        error, STATUS_CORRUPT, "it is cut short in the data of '%s': %zu bytes of %llu are there",
        entry->item.name, cursor->size - cursor->at, (unsigned long long)entry->bytes);
  entry->data = cursor->bytes + cursor->at;
  uint32_t crc = crc32c(entry->data, (size_t)entry->bytes);
  if (crc != entry->crc)
    return status_fail(error, STATUS_CORRUPT,
                       "the data of '%s', from byte %zu on, has checksum %08x, expected %08x",
                       entry->item.name, cursor->at, crc, entry->crc);
  cursor->at += (size_t)entry->bytes;
  return skip_padding(cursor, error);
}

/* Where the data of each entry is, from `at` on. */
static enum status place_entries(struct checkpoint_directory *directory, uint64_t *end, uint64_t at,
                                 struct error *error) {
  for (int i = 0; i < directory->count; i++) {
    struct checkpoint_entry *entry = &directory->entry[i];
    entry->at = at;
    if (entry->bytes > INT64_MAX - at - CHECKPOINT_ALIGNMENT)
      return status_fail(error, STATUS_CORRUPT, "item '%s' has %llu bytes, more than a file holds",
                         entry->item.name, (unsigned long long)entry->bytes);
    at += entry->bytes + checkpoint_padding(entry->bytes);
  }
  *end = at;
  return STATUS_OK;
}

static enum status decode_header(struct cursor *cursor, struct checkpoint_directory *directory,
                                 uint64_t *end, struct error *error) {
  enum status status = get_header(cursor, directory, error);
  for (int i = 0; status == STATUS_OK && i < directory->count; i++)
    status = check_entry(directory, i, error);
  if (status == STATUS_OK) status = skip_padding(cursor, error);
  if (status == STATUS_OK) status = place_entries(directory, end, cursor->at, error);
  return status;
}

enum status checkpoint_decode_header(struct checkpoint_directory *directory, uint64_t *end,
                                     const uint8_t *bytes, size_t size, struct error *error) {
  struct cursor cursor = {.bytes = bytes, .size = size};
  return decode_header(&cursor, directory, end, error);
}

enum status checkpoint_decode(struct checkpoint_directory *directory, const uint8_t *bytes,
                              size_t size, struct error *error) {
  struct cursor cursor = {.bytes = bytes, .size = size};
  uint64_t end;
  enum status status = decode_header(&cursor, directory, &end, error);
  for (int i = 0; status == STATUS_OK && i < directory->count; i++)
    status = get_data(&cursor, &directory->entry[i], error);
  if (status == STATUS_OK && cursor.at != size)
    return status_fail(error, STATUS_CORRUPT, "%zu bytes follow its end at byte %zu",
                       size - cursor.at, cursor.at);
  return status;
}

/* ---- matching what is asked for */

const char *checkpoint_item_describe(const struct checkpoint_item *item, char text[128]) {
  int length = snprintf(text, 128, "%s (", dtype_name(item->dtype));
  for (int i = 0; i < item->rank; i++)
    length += snprintf(text + length, 128 - (size_t)length, "%s%llu", i ? ", " : "",
                       (unsigned long long)item->shape[i]);
  snprintf(text + length, 128 - (size_t)length, ")");
  return text;
}

static bool same_shape(const struct checkpoint_item *a, const struct checkpoint_item *b) {
  return a->dtype == b->dtype && a->rank == b->rank &&
         memcmp(a->shape, b->shape, (size_t)a->rank * sizeof a->shape[0]) == 0;
}

static const struct checkpoint_entry *find(const struct checkpoint_directory *directory,
                                           const char *name) {
  for (int i = 0; i < directory->count; i++)
    if (strcmp(directory->entry[i].item.name, name) == 0) return &directory->entry[i];
  return NULL;
}

#define ADVICE "use the options that it was written with, or begin a new run"

static enum status match(const struct checkpoint_directory *directory,
                         const struct checkpoint_item *item, struct error *error) {
  char ours[128], theirs[128];
  const struct checkpoint_entry *entry = find(directory, item->name);
  if (!entry && item->optional) return STATUS_OK;
  if (!entry)
    return status_fail(error, STATUS_MISMATCH, "there is no '%s' in it, here it is %s: " ADVICE,
                       item->name, checkpoint_item_describe(item, ours));
  if (!same_shape(&entry->item, item))
    return status_fail(error, STATUS_MISMATCH, "'%s' is %s in it, here it is %s: " ADVICE,
                       item->name, checkpoint_item_describe(&entry->item, theirs),
                       checkpoint_item_describe(item, ours));
  return STATUS_OK;
}

enum status checkpoint_parse(const uint8_t *bytes, size_t size, struct checkpoint_item *items,
                             int num_items, struct error *error) {
  struct checkpoint_directory directory;
  enum status status = checkpoint_decode(&directory, bytes, size, error);
  for (int i = 0; status == STATUS_OK && i < num_items; i++)
    status = match(&directory, &items[i], error);
  if (status != STATUS_OK) return status;
  for (int i = 0; i < num_items; i++) {
    const struct checkpoint_entry *entry = find(&directory, items[i].name);
    if (entry && entry->bytes) memcpy(items[i].data, entry->data, (size_t)entry->bytes);
  }
  return STATUS_OK;
}
