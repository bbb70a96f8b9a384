#include "common/picture/png.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/crc32.h"

enum {
  BLOCK_BYTES = 65535, /* the most that a stored block holds */
  BLOCK_HEADER_BYTES = 5,
  CHUNK_BYTES = 12, /* length, name, checksum */
  HEADER_BYTES = 13,
  ADLER_MODULUS = 65521,
};

struct writer {
  uint8_t *at;
};

static void put(struct writer *writer, const void *bytes, size_t count) {
  memcpy(writer->at, bytes, count);
  writer->at += count;
}

static void put_u32(struct writer *writer, uint32_t value) {
  for (int i = 0; i < 4; i++) *writer->at++ = (uint8_t)(value >> (24 - 8 * i));
}

/* Begins a chunk; returns where its checksum begins to count. */
static uint8_t *begin_chunk(struct writer *writer, const char *name, size_t bytes) {
  put_u32(writer, (uint32_t)bytes);
  uint8_t *begin = writer->at;
  put(writer, name, 4);
  return begin;
}

static void end_chunk(struct writer *writer, const uint8_t *begin) {
  put_u32(writer, crc32_extend(0, begin, (size_t)(writer->at - begin)));
}

static void put_header(struct writer *writer, const struct canvas *canvas, bool grey) {
  const uint8_t kind[] = {8, grey ? 0 : 2, 0, 0, 0}; /* 8 bits, grey or RGB, no interlacing */
  uint8_t *begin = begin_chunk(writer, "IHDR", HEADER_BYTES);
  put_u32(writer, (uint32_t)canvas->width);
  put_u32(writer, (uint32_t)canvas->height);
  put(writer, kind, sizeof kind);
  end_chunk(writer, begin);
}

static uint32_t adler32(const uint8_t *bytes, size_t count) {
  uint32_t a = 1, b = 0;
  for (size_t i = 0; i < count; i++) {
    a = (a + bytes[i]) % ADLER_MODULUS;
    b = (b + a) % ADLER_MODULUS;
  }
  return b << 16 | a;
}

static size_t num_blocks(size_t bytes) {
  return (bytes + BLOCK_BYTES - 1) / BLOCK_BYTES;
}

/* The header of a stream, the scanlines in stored blocks, their checksum. */
static void put_data(struct writer *writer, const uint8_t *lines, size_t bytes) {
  uint8_t *begin =
      begin_chunk(writer, "IDAT", 2 + bytes + num_blocks(bytes) * BLOCK_HEADER_BYTES + 4);
  put(writer, "\x78\x01", 2);
  for (size_t at = 0; at < bytes; at += BLOCK_BYTES) {
    size_t left = bytes - at, length = left < BLOCK_BYTES ? left : BLOCK_BYTES;
    uint8_t low = (uint8_t)length, high = (uint8_t)(length >> 8);
    put(writer, (uint8_t[]){left == length, low, high, (uint8_t)~low, (uint8_t)~high}, 5);
    put(writer, lines + at, length);
  }
  put_u32(writer, adler32(lines, bytes));
  end_chunk(writer, begin);
}

static bool is_grey(const struct canvas *canvas) {
  const uint8_t *pixel = canvas->pixels;
  const uint8_t *end = pixel + 3 * (size_t)canvas->width * (size_t)canvas->height;
  for (; pixel < end; pixel += 3)
    if (pixel[0] != pixel[1] || pixel[0] != pixel[2]) return false;
  return true;
}

uint8_t *png_encode(const struct canvas *canvas, size_t *bytes) {
  bool grey = is_grey(canvas);
  size_t channels = grey ? 1 : 3, row = channels * (size_t)canvas->width;
  size_t height = (size_t)canvas->height;
  size_t line_bytes = height * (row + 1);
  CHECK(line_bytes > 0 && line_bytes < UINT32_MAX / 2, "a picture of %d x %d", canvas->width,
        canvas->height);
  /* Before each line stands how it is filtered: 0, not at all. */
  uint8_t *lines = check_alloc(line_bytes, 1);
  const uint8_t *from = canvas->pixels;
  for (size_t y = 0; y < height; y++) {
    uint8_t *to = lines + y * (row + 1) + 1;
    for (size_t x = 0; x < row; x++, from += grey ? 3 : 1) to[x] = *from;
  }

  *bytes = 8 + 3 * CHUNK_BYTES + HEADER_BYTES + 2 + line_bytes +
           num_blocks(line_bytes) * BLOCK_HEADER_BYTES + 4;
  uint8_t *file = check_alloc(*bytes, 1);
  struct writer writer = {file};
  put(&writer, "\x89PNG\r\n\x1a\n", 8);
  put_header(&writer, canvas, grey);
  put_data(&writer, lines, line_bytes);
  end_chunk(&writer, begin_chunk(&writer, "IEND", 0));
  CHECK(writer.at == file + *bytes, "%zd bytes, not %zu", writer.at - file, *bytes);
  free(lines);
  return file;
}
