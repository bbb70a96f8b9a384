/* One frame of the recording: the screen on the left, and beside it where the episode stands, the
 * estimate of the value with its past, and the probability of each action.
 * Upstream: deploy/watch/watch.c. Downstream: common/picture. Thread: one. */
#ifndef ACORN_DEPLOY_WATCH_PANEL_H
#define ACORN_DEPLOY_WATCH_PANEL_H

#include <stdint.h>

#include "common/picture/canvas.h"

enum { PANEL_MAX_PAST = 300 };

/* What is written; strings are borrowed for the call. */
struct panel_text {
  const char *title, *subtitle;
  int episode, num_episodes; /* from 1 */
  int64_t step;
  double score, reward;
  const char *end; /* how the episode ended; NULL: it goes on */
};

struct panel {
  struct canvas frame; /* heap; even numbers of pixels, as video needs them */
  int factor;          /* each pixel of the screen is factor x factor */
  int num_actions, num_rows;
  const char *const *action_name; /* (num_actions), borrowed */
  float past[PANEL_MAX_PAST];     /* values of this episode, the newest last */
  int num_past;
};

/* For screens of that size. */
void panel_init(struct panel *panel, int screen_width, int screen_height,
                const char *const *action_name, int num_actions);
void panel_deinit(struct panel *panel);

/* An episode begins: the values before are forgotten. */
void panel_begin(struct panel *panel);

/* Draws panel->frame. chosen: the action that is taken; -1: none is. With more actions than there
 * are rows the most probable ones are shown. Shapes: probability (num_actions). */
void panel_draw(struct panel *panel, const struct canvas *screen, const struct panel_text *text,
                float value, const float *probability, int chosen);

#endif
