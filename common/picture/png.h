/* A picture as a PNG file in memory, for TensorBoard. It is not compressed, which spares a library:
 * such pictures are small and few. Where all of it is grey a byte for each pixel is enough.
 * Source: W3C, "Portable Network Graphics (PNG) Specification", 2nd edition; RFC 1950 and 1951 for
 * what is in it. Thread: any (no state). */
#ifndef ACORN_COMMON_PICTURE_PNG_H
#define ACORN_COMMON_PICTURE_PNG_H

#include <stddef.h>

#include "common/picture/canvas.h"

/* The whole file, *bytes long. Owner: the caller, with free(). */
uint8_t *png_encode(const struct canvas *canvas, size_t *bytes);

#endif
