/* Letters on a canvas: one small font, each letter 5 x 7 with room for what hangs below the line.
 * Upstream: deploy/inspect/watch. Thread: any (no state). */
#ifndef ACORN_COMMON_PICTURE_FONT_H
#define ACORN_COMMON_PICTURE_FONT_H

#include "common/picture/canvas.h"

enum { FONT_ADVANCE = 6, FONT_HEIGHT = 9 }; /* of a letter with the gap beside it, at scale 1 */

/* Writes a text with its top left corner at (x, y), each dot scale x scale. What the font does not
 * have is a box. */
void font_write(const struct canvas *canvas, int x, int y, const char *text, int scale,
                uint32_t colour);

/* How wide it is, with the gap behind its last letter. */
int font_width(const char *text, int scale);

#endif
