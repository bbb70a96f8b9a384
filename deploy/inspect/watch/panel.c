#include "deploy/inspect/watch/panel.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/decimal.h"
#include "common/picture/font.h"
#include "deploy/inspect/watch/action_values.h"

/* All in pixels. */
enum {
  SCREEN_SIDE = 640, /* a small screen is made about as large */
  MARGIN = 20,
  PANEL_WIDTH = 340,
  SCALE = 2, /* of letters */
  LINE = 24,
  GRAPH_HEIGHT = 90,
  LEAST_PAST = 40,  /* steps that the graph is wide at least */
  NAME_WIDTH = 132, /* of an action: eleven letters */
  NUMBER_WIDTH = 64,
  BAR_HEIGHT = 16,
  MAX_ROWS = 18, /* all actions of the Atari */
  HEAD_LINES = 6,
};

enum {
  BACKGROUND = 0x15191f,
  BRIGHT = 0xeceff2,
  DIM = 0x8b95a1,
  TRACK = 0x262d36,
  BAR = 0x4aa3df,
  CHOSEN = 0xf5a742,
  GRAPH = 0x58b368,
};

static int even(int length) {
  return (length + 1) / 2 * 2;
}

static int largest(int a, int b) {
  return a > b ? a : b;
}

static int panel_height(const struct panel *panel) {
  int rows = panel->num_rows + (panel->num_rows < panel->num_actions);
  return (HEAD_LINES + 1) * LINE + GRAPH_HEIGHT + 3 * MARGIN / 2 + LINE + rows * LINE;
}

void panel_init(struct panel *panel, int screen_width, int screen_height,
                const char *const *action_name, int num_actions) {
  *panel = (struct panel){.action_name = action_name, .num_actions = num_actions};
  panel->num_rows = num_actions < MAX_ROWS ? num_actions : MAX_ROWS;
  panel->factor = largest(1, SCREEN_SIDE / largest(screen_width, screen_height));
  int width = screen_width * panel->factor, height = screen_height * panel->factor;
  panel->frame.width = even(width + PANEL_WIDTH + 3 * MARGIN);
  panel->frame.height = even(largest(height, panel_height(panel)) + 2 * MARGIN);
  panel->frame.pixels = check_alloc((size_t)panel->frame.width * (size_t)panel->frame.height, 3);
}

void panel_deinit(struct panel *panel) {
  free(panel->frame.pixels);
  *panel = (struct panel){0};
}

void panel_begin(struct panel *panel) {
  panel->num_past = 0;
}

static void remember(struct panel *panel, float value) {
  if (panel->num_past == PANEL_MAX_PAST) {
    memmove(panel->past, panel->past + 1, (PANEL_MAX_PAST - 1) * sizeof(*panel->past));
    panel->num_past--;
  }
  panel->past[panel->num_past++] = value;
}

/* ---- parts, each at the place where the pen is */

struct pen {
  const struct canvas *canvas;
  int x, y;
};

/* A text, cut to the panel's width, and further right its value. */
static void write_line(struct pen *pen, uint32_t colour, const char *name, const char *value) {
  enum { LETTERS = PANEL_WIDTH / (FONT_ADVANCE * SCALE) };
  char text[LETTERS + 1];
  snprintf(text, sizeof(text), "%.*s", LETTERS, name);
  font_write(pen->canvas, pen->x, pen->y, text, SCALE, colour);
  if (value) font_write(pen->canvas, pen->x + NAME_WIDTH, pen->y, value, SCALE, BRIGHT);
  pen->y += LINE;
}

static void write_number(struct pen *pen, const char *name, double number) {
  char text[32];
  snprintf(text, sizeof(text), "%.6g", number);
  write_line(pen, DIM, name, text);
}

static void write_head(struct pen *pen, const struct panel_text *text) {
  char episode[64];
  write_line(pen, BRIGHT, text->title, NULL);
  write_line(pen, DIM, text->subtitle, NULL);
  snprintf(episode, sizeof(episode), "%d of %d", text->episode, text->num_episodes);
  write_line(pen, DIM, "episode", episode);
  snprintf(episode, sizeof(episode), "%lld%s%s", (long long)text->step, text->end ? "  " : "",
           text->end ? text->end : "");
  write_line(pen, DIM, "step", episode);
  write_number(pen, "score", text->score);
  write_number(pen, "reward", text->reward);
}

/* What the graph ends at, small, at its right side. */
static void write_limit(const struct pen *pen, int y, float limit) {
  char text[32];
  snprintf(text, sizeof(text), "%.4g", (double)limit);
  font_write(pen->canvas, pen->x + PANEL_WIDTH - font_width(text, 1) - 2, pen->y + y, text, 1, DIM);
}

/* The past values as a line, from the lowest to the highest of them; the newest is a dot. */
static void draw_graph(struct pen *pen, const float *past, int count) {
  float low = past[0], high = past[0];
  for (int i = 1; i < count; i++) {
    low = fminf(low, past[i]);
    high = fmaxf(high, past[i]);
  }
  float span = fmaxf(high - low, 1e-3f);
  const int inset = 6;
  double scale = (GRAPH_HEIGHT - 2 * inset) / (double)span;
  double middle = (high + low) / 2, centre = pen->y + GRAPH_HEIGHT / 2.0;
  double step = (PANEL_WIDTH - 2.0 * inset) / (largest(count, LEAST_PAST) - 1);
  canvas_rectangle(pen->canvas, pen->x, pen->y, PANEL_WIDTH, GRAPH_HEIGHT, TRACK);
  double x = pen->x + inset, y = centre - (past[0] - middle) * scale;
  for (int i = 1; i < count; i++) {
    double next = centre - (past[i] - middle) * scale;
    canvas_line(pen->canvas, x, y, x + step, next, 2, GRAPH);
    x += step;
    y = next;
  }
  canvas_line(pen->canvas, x, y, x, y, 7, BRIGHT);
  write_limit(pen, 2, high);
  write_limit(pen, GRAPH_HEIGHT - FONT_HEIGHT - 2, low);
  pen->y += GRAPH_HEIGHT + MARGIN;
}

/* At most five letters, which is as many as there is room for. */
static void format_value(char text[16], double value) {
  double size = fabs(value);
  if (size < 99999.5)
    snprintf(text, 16, "%.*f", size < 9.995 ? 2 : size < 99.95 ? 1 : 0, value);
  else
    snprintf(text, 16, "%.0e", value);
}

static void draw_action(struct pen *pen, const char *name, float probability, const char *number,
                        bool is_chosen) {
  const int length = PANEL_WIDTH - NAME_WIDTH - NUMBER_WIDTH;
  enum { LETTERS = NAME_WIDTH / (FONT_ADVANCE * SCALE) };
  char text[LETTERS + 1];
  snprintf(text, sizeof(text), "%.*s", LETTERS, name);
  font_write(pen->canvas, pen->x, pen->y, text, SCALE, is_chosen ? CHOSEN : DIM);
  canvas_rectangle(pen->canvas, pen->x + NAME_WIDTH, pen->y - 1, length, BAR_HEIGHT, TRACK);
  canvas_rectangle(pen->canvas, pen->x + NAME_WIDTH, pen->y - 1, (int)lroundf(length * probability),
                   BAR_HEIGHT, is_chosen ? CHOSEN : BAR);
  font_write(pen->canvas, pen->x + PANEL_WIDTH - font_width(number, SCALE), pen->y, number, SCALE,
             is_chosen ? BRIGHT : DIM);
  pen->y += LINE;
}

/* Those that are chosen, then by weight. */
static bool comes_before(const bool *chosen, const float *weight, int a, int b) {
  if (chosen[a] != chosen[b]) return chosen[a];
  return weight[a] > weight[b] || (weight[a] == weight[b] && a < b);
}

/* Which of the actions, in that order, has the last row. */
static int last_shown(const struct panel *panel, const bool *chosen, const float *weight) {
  int first[MAX_ROWS], count = 0;
  for (int a = 0; a < panel->num_actions; a++) {
    int place = count;
    while (place > 0 && comes_before(chosen, weight, a, first[place - 1])) place--;
    if (place == panel->num_rows) continue;
    if (count < panel->num_rows) count++;
    memmove(first + place + 1, first + place, (size_t)(count - 1 - place) * sizeof(*first));
    first[place] = a;
  }
  return first[count - 1];
}

static const char *those_left(const struct panel_choice *choice) {
  if (choice->number) return "more";
  return choice->action_value ? "of less value" : "less likely";
}

static void format_action(char text[16], const struct panel_choice *choice, int action) {
  if (choice->number)
    format_value(text, (double)choice->number[action]);
  else if (choice->action_value && action_value_is_masked(choice->action_value[action]))
    snprintf(text, 16, "-");
  else if (choice->action_value)
    format_value(text, (double)choice->action_value[action]);
  else
    snprintf(text, 16, "%3.0f%%", 100.0 * (double)choice->probability[action]);
}

static void draw_actions(struct panel *panel, struct pen *pen, const struct panel_choice *choice) {
  const float *weight = choice->action_value ? choice->action_value : choice->probability;
  int last = choice->number ? panel->num_rows - 1 : last_shown(panel, choice->chosen, weight);
  write_line(pen, BRIGHT, "actions", NULL);
  for (int a = 0; a < panel->num_actions; a++) {
    char number[16];
    if (choice->number ? a > last : a != last && !comes_before(choice->chosen, weight, a, last))
      continue;
    format_action(number, choice, a);
    draw_action(pen, panel->action_name[a], choice->probability[a], number, choice->chosen[a]);
  }
  if (panel->num_rows == panel->num_actions) return;
  char text[64];
  snprintf(text, sizeof(text), "and %d %s", panel->num_actions - panel->num_rows,
           those_left(choice));
  write_line(pen, DIM, text, NULL);
}

/* ---- all of it */

void panel_draw(struct panel *panel, const struct canvas *screen, const struct panel_text *text,
                const struct panel_choice *choice) {
  const struct canvas *frame = &panel->frame;
  int width = screen->width * panel->factor, height = screen->height * panel->factor;
  remember(panel, choice->value);
  canvas_fill(frame, BACKGROUND);
  canvas_picture(frame, MARGIN, (frame->height - height) / 2, screen, panel->factor);
  struct pen pen = {frame, width + 2 * MARGIN, MARGIN};
  locale_t before = decimal_begin();
  char estimate[32];
  snprintf(estimate, sizeof(estimate), "%.3f", (double)choice->value);
  write_head(&pen, text);
  pen.y += MARGIN / 2;
  write_line(&pen, BRIGHT, "value", estimate);
  draw_graph(&pen, panel->past, panel->num_past);
  draw_actions(panel, &pen, choice);
  decimal_end(before);
}
