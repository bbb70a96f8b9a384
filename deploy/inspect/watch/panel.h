/* One frame of the recording: the screen on the left, and beside it where the episode stands, the
 * estimate of the value with its past, and the probability of each action, or its value.
 * Upstream: deploy/inspect/watch/watch.c. Downstream: common/picture. Thread: one. */
#ifndef ACORN_DEPLOY_INSPECT_WATCH_PANEL_H
#define ACORN_DEPLOY_INSPECT_WATCH_PANEL_H

#include <stdbool.h>
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

/* What was chosen, and from what; borrowed for the call. */
struct panel_choice {
  float value;               /* of the state */
  const float *probability;  /* (num_actions) */
  const float *action_value; /* (num_actions); NULL: there are none */
  const float *number;       /* (num_actions), of one action; NULL: it is one of the actions */
  const bool *chosen;        /* (num_actions), of each choice one; all false: none is */
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

/* Draws panel->frame. A bar is an action's probability; beside it stands the action's value, or the
 * percentage where there are none. With more actions than there are rows those with the largest of
 * these are shown. Of an action of several numbers a bar is where each lies within its bounds, and
 * the first are shown. */
void panel_draw(struct panel *panel, const struct canvas *screen, const struct panel_text *text,
                const struct panel_choice *choice);

#endif
