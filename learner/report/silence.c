#include "learner/report/silence.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SECOND_US = 1000 * 1000, CALM_US = 60 * SECOND_US };

/* ---- the cause */

/* The players whose steps count, by what they do. */
struct census {
  int environments;
  int streams, stepping, waiting;    /* streams; stepping: late and just joined ones too */
  const struct wire_player *slowest; /* of those that step: silent for longest */
};

static struct census take_census(const struct silence_figures *f) {
  struct census census = {0};
  for (int i = 0; i < f->num_players; i++) {
    const struct wire_player *player = &f->players[i];
    if ((player->role == WIRE_ROLE_EVAL) != f->evaluates) continue;
    census.environments += player->num_environments;
    census.streams++;
    if (strcmp(player->state, "queued") == 0 || strcmp(player->state, "running") == 0) {
      census.waiting++;
      continue;
    }
    census.stepping++;
    if (!census.slowest || player->silent_seconds > census.slowest->silent_seconds)
      census.slowest = player;
  }
  return census;
}

/* What acting waits for. */
static void describe_backlog(char *text, size_t bytes, const struct silence_figures *f) {
  if (f->replay.exists)
    snprintf(text, bytes, "sampling is %.0f windows behind --replay_ratio=%g", f->replay.due,
             f->replay.ratio);
  else
    snprintf(text, bytes, "the FIFO is full");
}

static enum silence_cause explain_trainer(char *text, size_t bytes,
                                          const struct silence_figures *f) {
  char backlog[128];
  int n = snprintf(text, bytes, "the trainer has been busy with one update for %.0f s",
                   (double)f->busy_us / SECOND_US);
  describe_backlog(backlog, sizeof(backlog), f);
  if (f->acting_waits && n > 0 && (size_t)n < bytes)
    snprintf(text + n, bytes - (size_t)n, " and %s: actors wait for it", backlog);
  return SILENCE_TRAINER;
}

static enum silence_cause explain_absence(char *text, size_t bytes,
                                          const struct silence_figures *f) {
  if (f->collecting) {
    snprintf(text, bytes,
             "--deterministic waits until all %d environments have asked to join at %s: %d have",
             f->barrier_environments, f->listen, f->waiting_environments);
    return SILENCE_COLLECTING;
  }
  if (f->num_players > 0) {
    snprintf(text, bytes, "only %s connected to %s, which %s: 0 of %d %s environments",
             f->evaluates ? "training actors are" : "evaluators are", f->listen,
             f->evaluates ? "are not evaluated" : "are not trained on", f->expected_environments,
             f->evaluates ? "evaluation" : "training");
    return SILENCE_EVALUATORS;
  }
  snprintf(text, bytes, "no actor is connected: 0 of %d environments; they are expected at %s",
           f->expected_environments, f->listen);
  return SILENCE_NOBODY;
}

static enum silence_cause explain_stepping(char *text, size_t bytes,
                                           const struct silence_figures *f,
                                           const struct census *census) {
  const struct wire_player *slowest = census->slowest;
  char others[64] = "";
  if (census->stepping > 1)
    snprintf(others, sizeof(others), " (and %d more of %d streams)", census->stepping - 1,
             census->streams);
  bool joined = strcmp(slowest->state, "joined") == 0;
  snprintf(text, bytes,
           "%d of %d environments are connected, but no step has come for %.0f s: %s%s %s for "
           "%.0f s%s",
           census->environments, f->expected_environments, (double)f->still_us / SECOND_US,
           slowest->name, others, joined ? "has joined and sent nothing" : "has not answered",
           slowest->silent_seconds, joined ? "" : " (its environments step)");
  return SILENCE_STEPPING;
}

/* No steps come. */
static enum silence_cause explain_stillness(char *text, size_t bytes,
                                            const struct silence_figures *f) {
  struct census census = take_census(f);
  if (census.streams == 0) return explain_absence(text, bytes, f);
  if (f->barrier_environments && census.environments < f->barrier_environments) {
    snprintf(text, bytes, "--deterministic needs all %d environments, %d are connected to %s",
             f->barrier_environments, census.environments, f->listen);
    return SILENCE_BARRIER;
  }
  if (census.stepping && (f->barrier_environments || !census.waiting))
    return explain_stepping(text, bytes, f, &census);
  snprintf(text, bytes,
           "%d of %d streams wait for actions: inference has been busy with one batch for %.0f s",
           census.waiting, census.streams, (double)f->still_us / SECOND_US);
  return SILENCE_INFERENCE;
}

/* Without --max_lag only a synchronous algorithm drops windows. */
static void explain_drops(char *text, size_t bytes, const struct silence_figures *f) {
  long long dropped = f->windows_dropped;
  if (f->max_lag)
    snprintf(text, bytes, "%lld windows were older than --max_lag=%lld updates and were dropped",
             dropped, (long long)f->max_lag);
  else
    snprintf(text, bytes,
             "%lld windows closed before the newest update and were dropped, as the algorithm is "
             "synchronous",
             dropped);
}

/* Behind the n letters that stand there: how long so many steps take. */
static void add_estimate(char *text, size_t bytes, int n, double steps,
                         const struct silence_figures *f) {
  if (n < 0 || (size_t)n >= bytes) return;
  const char *format = f->steps_per_second < 999.5 ? "; the environments make %.3g steps/s"
                                                   : "; the environments make %.0f steps/s";
  n += snprintf(text + n, bytes - (size_t)n, format, f->steps_per_second);
  if (f->steps_per_second > 0 && (size_t)n < bytes)
    snprintf(text + n, bytes - (size_t)n, ", so it takes about %.0f s more",
             ceil(steps / f->steps_per_second));
}

/* Steps come, but no batch is due. */
static enum silence_cause explain_replay(char *text, size_t bytes,
                                         const struct silence_figures *f) {
  if (!f->replay.started) {
    int n = snprintf(text, bytes, "the replay holds %lld of %lld windows before training starts",
                     (long long)f->replay.windows, (long long)f->replay.needed);
    double missing = (double)(f->replay.needed - f->replay.windows);
    add_estimate(text, bytes, n, missing * f->replay.stride, f);
    return SILENCE_STARTING;
  }
  double missing = ceil(fmax(f->batch_windows - f->replay.due, 0) / f->replay.ratio);
  int n =
      snprintf(text, bytes,
               "the trainer waits for %.0f new windows, which --replay_ratio=%g asks for before "
               "the next batch of %d",
               missing, f->replay.ratio, f->batch_windows);
  add_estimate(text, bytes, n, missing * f->replay.stride, f);
  return SILENCE_WINDOWS;
}

/* Steps come, but no batch of windows is complete. */
static enum silence_cause explain_slowness(char *text, size_t bytes,
                                           const struct silence_figures *f) {
  if (f->windows_dropped) {
    explain_drops(text, bytes, f);
    return SILENCE_DROPPED;
  }
  if (f->replay.exists) return explain_replay(text, bytes, f);
  double missing = (double)(f->batch_windows - f->open_windows) * f->window_steps;
  int n = snprintf(text, bytes, "a training batch needs %d windows of %d steps and has %d",
                   f->batch_windows, f->window_steps, f->open_windows);
  add_estimate(text, bytes, n, missing, f);
  return SILENCE_FILLING;
}

static enum silence_cause explain_saving(char *text, size_t bytes,
                                         const struct silence_figures *f) {
  snprintf(text, bytes,
           "acting has waited for %.0f s for steps to be saved that new ones take the place of "
           "(--checkpoint_replay)",
           (double)f->replay.saving_us / SECOND_US);
  return SILENCE_SAVING;
}

enum silence_cause silence_explain(char *text, size_t bytes, const struct silence_figures *f) {
  if (f->replay.saving_us >= f->silent_us / 2 + 1) return explain_saving(text, bytes, f);
  if (f->acting_waits || f->busy_us >= f->silent_us / 2 + 1) return explain_trainer(text, bytes, f);
  // An actor that crashes again and again makes a few steps now and then.
  bool absent = take_census(f).streams == 0;
  if (absent || f->still_us >= f->silent_us / 2) return explain_stillness(text, bytes, f);
  return explain_slowness(text, bytes, f);
}

enum silence_cause silence_explain_acting(char *text, size_t bytes,
                                          const struct silence_figures *f) {
  char backlog[128];
  describe_backlog(backlog, sizeof(backlog), f);
  snprintf(text, bytes, "actors wait for the trainer: %s", backlog);
  return SILENCE_ACTING;
}

/* ---- when to speak */

void silence_init(struct silence *silence, int64_t trained, int64_t steps, int64_t now_us) {
  *silence = (struct silence){.trained = trained,
                              .trained_us = now_us,
                              .steps = steps,
                              .steps_us = now_us,
                              .patience_us = SILENCE_MIN_US};
}

/* Something was trained: the silence before it, if it was one, is over. */
static int64_t end_silence(struct silence *silence, int64_t now_us) {
  int64_t lasted_us = silence_lasts(silence, now_us) ? now_us - silence->trained_us : 0;
  bool was_said = silence->said_us != 0;
  silence->trained_us = now_us;
  silence->said_us = 0;
  if (lasted_us) {
    silence->ended_us = now_us;
  } else if (now_us - silence->ended_us >= CALM_US) {
    silence->patience_us = SILENCE_MIN_US;
    silence->said = SILENCE_NONE;
  }
  return was_said ? lasted_us : 0;
}

int64_t silence_note(struct silence *silence, int64_t trained, int64_t steps, int64_t now_us) {
  if (steps != silence->steps) {
    silence->steps = steps;
    silence->steps_us = now_us;
  }
  if (trained == silence->trained) return 0;
  silence->trained = trained;
  return end_silence(silence, now_us);
}

bool silence_lasts(const struct silence *silence, int64_t now_us) {
  return now_us - silence->trained_us >= SILENCE_MIN_US;
}

bool silence_say(struct silence *silence, enum silence_cause cause, int64_t now_us) {
  int64_t since_us = silence->said_us ? silence->said_us : silence->trained_us;
  int64_t patience_us = cause == silence->said ? silence->patience_us : SILENCE_MIN_US;
  if (now_us - since_us < patience_us) return false;
  silence->patience_us = cause == silence->said ? 2 * silence->patience_us : 2 * SILENCE_MIN_US;
  if (silence->patience_us > SILENCE_MAX_US) silence->patience_us = SILENCE_MAX_US;
  silence->said = cause;
  silence->said_us = now_us;
  return true;
}
