#include "deploy/inspect/npz.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/crc32.h"

enum {
  MAX_TEXTS = 8,
  NPY_HEADER_BYTES = 192, /* a multiple of 64, with room for four dimensions */
  LOCAL_SIGNATURE = 0x04034b50,
  CENTRAL_SIGNATURE = 0x02014b50,
  END_SIGNATURE = 0x06054b50,
  VERSION = 20,   /* of the format: 2.0 */
  NO_DATE = 0x21, /* 1980-01-01, the first there is */
};

/* One file in the archive. */
struct entry {
  char name[CHECKPOINT_NAME_BYTES + 8];
  uint32_t crc, bytes, offset;
};

/* Little-endian, field after field. */
struct record {
  uint8_t bytes[64];
  size_t size;
};

static void put(struct record *record, uint32_t value, int bytes) {
  for (int i = 0; i < bytes; i++) record->bytes[record->size++] = (uint8_t)(value >> 8 * i);
}

/* ---- .npy */

/* Magic, version 1.0, the header's length, a Python literal, blanks, a newline. */
static void npy_header(char header[NPY_HEADER_BYTES], const char *type, int rank,
                       const uint64_t *shape) {
  const size_t prefix = 10, length = NPY_HEADER_BYTES - prefix;
  memset(header, ' ', NPY_HEADER_BYTES);
  memcpy(header, "\x93NUMPY\x01\x00", 8);
  header[8] = (char)(length & 255);
  header[9] = (char)(length >> 8);
  char text[NPY_HEADER_BYTES];
  int n = snprintf(text, sizeof(text), "{'descr': '%s', 'fortran_order': False, 'shape': (", type);
  for (int i = 0; i < rank; i++)
    n += snprintf(text + n, sizeof(text) - (size_t)n, "%llu, ", (unsigned long long)shape[i]);
  n += snprintf(text + n, sizeof(text) - (size_t)n, "), }");
  CHECK((size_t)n < length, "a header of %d bytes", n);
  memcpy(header + prefix, text, (size_t)n);
  header[NPY_HEADER_BYTES - 1] = '\n';
}

/* ---- ZIP */

/* What the local and the central header have in common: from "version needed" to the lengths. */
static void put_description(struct record *record, const struct entry *entry) {
  put(record, VERSION, 2);
  put(record, 0, 2); /* flags */
  put(record, 0, 2); /* stored */
  put(record, 0, 2); /* time */
  put(record, NO_DATE, 2);
  put(record, entry->crc, 4);
  put(record, entry->bytes, 4); /* compressed */
  put(record, entry->bytes, 4); /* uncompressed */
  put(record, (uint32_t)strlen(entry->name), 2);
  put(record, 0, 2); /* extra field */
}

static void write_record(const struct record *record, const char *name, FILE *file) {
  fwrite(record->bytes, 1, record->size, file);
  fwrite(name, 1, strlen(name), file);
}

/* One file: a header and the data. */
static void write_file(struct entry *entry, const char *name, const char header[NPY_HEADER_BYTES],
                       const void *data, size_t bytes, FILE *file) {
  snprintf(entry->name, sizeof(entry->name), "%s.npy", name);
  entry->crc = crc32_extend(crc32_extend(0, header, NPY_HEADER_BYTES), data, bytes);
  entry->bytes = (uint32_t)(NPY_HEADER_BYTES + bytes);
  entry->offset = (uint32_t)ftell(file);

  struct record record = {.size = 0};
  put(&record, LOCAL_SIGNATURE, 4);
  put_description(&record, entry);
  write_record(&record, entry->name, file);
  fwrite(header, 1, NPY_HEADER_BYTES, file);
  if (bytes > 0) fwrite(data, 1, bytes, file);
}

static void write_item(struct entry *entry, const struct checkpoint_item *item, FILE *file) {
  static const char *const types[] = {[CHECKPOINT_FLOAT32] = "<f4",
                                      [CHECKPOINT_FLOAT64] = "<f8",
                                      [CHECKPOINT_INT64] = "<i8",
                                      [CHECKPOINT_BYTES] = "|u1"};
  char header[NPY_HEADER_BYTES];
  npy_header(header, types[item->dtype], item->rank, item->shape);
  write_file(entry, item->name, header, item->data, checkpoint_item_bytes(item), file);
}

/* numpy's strings have four bytes for each character. */
static void write_text(struct entry *entry, const struct npz_text *text, FILE *file) {
  uint8_t characters[4 * NPZ_TEXT_CHARACTERS] = {0};
  char header[NPY_HEADER_BYTES], type[16];
  size_t length = strlen(text->value);
  CHECK(length <= NPZ_TEXT_CHARACTERS, "a text of %zu characters", length);
  for (size_t i = 0; i < length; i++) characters[4 * i] = (uint8_t)text->value[i];
  snprintf(type, sizeof(type), "<U%zu", length);
  npy_header(header, type, 0, NULL);
  write_file(entry, text->name, header, characters, 4 * length, file);
}

static void write_central_entry(const struct entry *entry, FILE *file) {
  struct record record = {.size = 0};
  put(&record, CENTRAL_SIGNATURE, 4);
  put(&record, VERSION, 2); /* made by */
  put_description(&record, entry);
  put(&record, 0, 2); /* comment */
  put(&record, 0, 2); /* disk */
  put(&record, 0, 2); /* internal attributes */
  put(&record, 0, 4); /* external attributes */
  put(&record, entry->offset, 4);
  write_record(&record, entry->name, file);
}

static void write_archive(const struct checkpoint_item *items, int num_items,
                          const struct npz_text *texts, int num_texts, FILE *file) {
  struct entry entry[CHECKPOINT_MAX_ITEMS + MAX_TEXTS];
  int count = num_items + num_texts;
  for (int i = 0; i < num_items; i++) write_item(&entry[i], &items[i], file);
  for (int i = 0; i < num_texts; i++) write_text(&entry[num_items + i], &texts[i], file);
  uint32_t begin = (uint32_t)ftell(file);
  for (int i = 0; i < count; i++) write_central_entry(&entry[i], file);
  uint32_t end = (uint32_t)ftell(file);

  struct record record = {.size = 0};
  put(&record, END_SIGNATURE, 4);
  put(&record, 0, 2); /* this disk */
  put(&record, 0, 2); /* the directory's disk */
  put(&record, (uint32_t)count, 2);
  put(&record, (uint32_t)count, 2);
  put(&record, end - begin, 4);
  put(&record, begin, 4);
  put(&record, 0, 2); /* comment */
  write_record(&record, "", file);
}

/* ---- */

static enum status check_size(const struct checkpoint_item *items, int num_items,
                              struct error *error) {
  uint64_t bytes = 0;
  for (int i = 0; i < num_items; i++)
    bytes += checkpoint_item_bytes(&items[i]) + NPY_HEADER_BYTES + 512;
  if (bytes < UINT32_MAX) return STATUS_OK;
  return status_fail(error, STATUS_INVALID,
                     "the arrays come to %.1f GiB, an .npz file of ours holds less than 4",
                     (double)bytes / 0x1p30);
}

enum status npz_write(const char *path, const struct checkpoint_item *items, int num_items,
                      const struct npz_text *texts, int num_texts, struct error *error) {
  CHECK(num_items <= CHECKPOINT_MAX_ITEMS && num_texts <= MAX_TEXTS, "%d arrays, %d texts",
        num_items, num_texts);
  enum status status = check_size(items, num_items, error);
  if (status != STATUS_OK) return status;

  char temporary[PATH_MAX];
  snprintf(temporary, sizeof(temporary), "%s.new", path);
  FILE *file = fopen(temporary, "wb");
  bool written = file != NULL;
  if (file) {
    write_archive(items, num_items, texts, num_texts, file);
    written = !ferror(file);
    written &= fclose(file) == 0;
    written = written && rename(temporary, path) == 0;
  }
  if (written) return STATUS_OK;
  int reason = errno;
  if (file) unlink(temporary);
  return status_fail(error, STATUS_IO, "%.300s cannot be written: %s", path, strerror(reason));
}
