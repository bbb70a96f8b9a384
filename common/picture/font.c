#include "common/picture/font.h"

#include <string.h>

/* The letters as they are seen, side by side, FONT_ADVANCE columns each. */
// clang-format off
static const struct {
  const char *characters;
  const char *row[FONT_HEIGHT];
} blocks[] = {
    {"ABCDEFGHIJKLM",
     {" ###  ####   ###  ####  ##### #####  ###  #   #  ###    ### #   # #     #   #",
      "#   # #   # #   # #   # #     #     #   # #   #   #      #  #  #  #     ## ##",
      "#   # #   # #     #   # #     #     #     #   #   #      #  # #   #     # # #",
      "##### ####  #     #   # ####  ####  # ### #####   #      #  ##    #     # # #",
      "#   # #   # #     #   # #     #     #   # #   #   #      #  # #   #     #   #",
      "#   # #   # #   # #   # #     #     #   # #   #   #   #  #  #  #  #     #   #",
      "#   # ####   ###  ####  ##### #      #### #   #  ###   ##   #   # ##### #   #",
      "                                                                             ",
      "                                                                             "}},
    {"NOPQRSTUVWXYZ",
     {"#   #  ###  ####   ###  ####   #### ##### #   # #   # #   # #   # #   # #####",
      "##  # #   # #   # #   # #   # #       #   #   # #   # #   # #   # #   #     #",
      "# # # #   # #   # #   # #   # #       #   #   # #   # #   #  # #   # #     # ",
      "#  ## #   # ####  #   # ####   ###    #   #   # #   # # # #   #     #     #  ",
      "#   # #   # #     # # # # #       #   #   #   # #   # # # #  # #    #    #   ",
      "#   # #   # #     #  #  #  #      #   #   #   #  # #  ## ## #   #   #   #    ",
      "#   #  ###  #      ## # #   # ####    #    ###    #   #   # #   #   #   #####",
      "                                                                             ",
      "                                                                             "}},
    {"abcdefghijklm",
     {"      #               #         ##        #       #      #  #      ##        ",
      "      #               #        #          #                 #       #        ",
      " ###  ####   ####  ####  ###   #     #### ####   ##     ##  #  #    #   ## # ",
      "    # #   # #     #   # #   # ####  #   # #   #   #      #  # #     #   # # #",
      " #### #   # #     #   # #####  #    #   # #   #   #      #  ##      #   # # #",
      "#   # #   # #     #   # #      #    #   # #   #   #      #  # #     #   # # #",
      " #### ####   ####  ####  ###   #     #### #   #  ###     #  #  #   ###  # # #",
      "                                        #                #                   ",
      "                                     ###               ##                    "}},
    {"nopqrstuvwxyz",
     {"                                     #                                       ",
      "                                     #                                       ",
      "####   ###  ####   #### # ##   #### ####  #   # #   # #   # #   # #   # #####",
      "#   # #   # #   # #   # ##  # #      #    #   # #   # #   #  # #  #   #    # ",
      "#   # #   # #   # #   # #      ###   #    #   # #   # # # #   #   #   #   #  ",
      "#   # #   # #   # #   # #         #  #  # #  ##  # #  # # #  # #  #   #  #   ",
      "#   #  ###  ####   #### #     ####    ##   ## #   #    # #  #   #  #### #####",
      "            #         #                                               #      ",
      "            #         #                                            ###       "}},
    {"0123456789+-=",
     {" ###    #    ###  #####    #  #####   ##  #####  ###   ###                   ",
      "#   #  ##   #   #    #    ##  #      #        # #   # #   #   #              ",
      "#  ##   #       #   #    # #  ####  #        #  #   # #   #   #         #####",
      "# # #   #     ##     #  #  #      # ####    #    ###   #### ##### #####      ",
      "##  #   #    #        # #####     # #   #  #    #   #     #   #         #####",
      "#   #   #   #     #   #    #  #   # #   #  #    #   #    #    #              ",
      " ###   ###  #####  ###     #   ###   ###   #     ###   ##                    ",
      "                                                                             ",
      "                                                                             "}},
    {".,:;%/()_#'\"|",
     {"                        ##  #     #    #   #           # #    #    # #    #  ",
      "             ##    ##   ## #     #    #     #          # #    #    # #    #  ",
      "             ##    ##      #     #   #       #        #####  #            #  ",
      "                          #     #    #       #         # #                #  ",
      "             ##    ##    #     #     #       #        #####               #  ",
      " ##     ##   ##    ##    # ##  #      #     #          # #                #  ",
      " ##     ##          #   #  ## #        #   #           # #                #  ",
      "         #         #                            #####                     #  ",
      "        #                                                                    "}},
    {"?!<>[]{}*@&",
     {" ###    #      #   #     ###   ###    ##   ##          ###   ##  ",
      "#   #   #     #     #    #       #    #     #   # # # #   # #  # ",
      "    #   #    #       #   #       #    #     #    ###  # ### #  # ",
      "  ##    #   #         #  #       #   #       #  ##### # # #  ##  ",
      "  #     #    #       #   #       #    #     #    ###  # ### # # #",
      "              #     #    #       #    #     #   # # # #     #  # ",
      "  #     #      #   #     ###   ###    ##   ##          ###   ## #",
      "                                                                 ",
      "                                                                 "}},
};
// clang-format on
enum { NUM_BLOCKS = sizeof blocks / sizeof *blocks, LETTER_WIDTH = FONT_ADVANCE - 1 };

static void write_box(const struct canvas *canvas, int x, int y, int scale, uint32_t colour) {
  for (int row = 0; row < 7; row++) {
    for (int column = 0; column < LETTER_WIDTH; column++) {
      if (row % 6 && column % (LETTER_WIDTH - 1)) continue;
      canvas_rectangle(canvas, x + column * scale, y + row * scale, scale, scale, colour);
    }
  }
}

static void write_letter(const struct canvas *canvas, int x, int y, char letter, int scale,
                         uint32_t colour) {
  for (int block = 0; block < NUM_BLOCKS; block++) {
    const char *found = strchr(blocks[block].characters, letter);
    if (!found) continue;
    size_t first = (size_t)(found - blocks[block].characters) * FONT_ADVANCE;
    for (int row = 0; row < FONT_HEIGHT; row++) {
      for (int column = 0; column < LETTER_WIDTH; column++) {
        if (blocks[block].row[row][first + (size_t)column] != '#') continue;
        canvas_rectangle(canvas, x + column * scale, y + row * scale, scale, scale, colour);
      }
    }
    return;
  }
  write_box(canvas, x, y, scale, colour);
}

void font_write(const struct canvas *canvas, int x, int y, const char *text, int scale,
                uint32_t colour) {
  for (; *text; text++, x += FONT_ADVANCE * scale)
    if (*text != ' ') write_letter(canvas, x, y, *text, scale, colour);
}

int font_width(const char *text, int scale) {
  return (int)strlen(text) * FONT_ADVANCE * scale;
}
