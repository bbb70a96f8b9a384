#include "learner/report/diagnosis.h"

#include <math.h>
#include <stdio.h>

enum { PERSISTS = 5 }; /* notes in a row */

/* Where anything is learned returns rise by more than this share of their first deviation: a mean
 * of 100 episodes scatters by a tenth of it, one of the first 30 by a sixth. */
static const double RISE = 0.75;

/* A value is at most the largest return, or, where episodes are cut short, what their rewards would
 * come to in all: a hundred times as much leaves both behind. */
static const double BEYOND = 100;

static void remember(struct diagnosis *d, const struct diagnosis_figures *f) {
  d->largest = fmax(d->largest, fmax(fabs(f->last.min), fabs(f->last.max)));
  if (!d->has_returns) d->best = f->last.mean;
  d->has_returns = true;
  d->best = fmax(d->best, f->last.mean);
}

static bool is_flat(const struct diagnosis *d, const struct diagnosis_figures *f) {
  return d->best <= f->first.mean + RISE * f->first.std;
}

static bool has_risen(const struct diagnosis_figures *f) {
  return f->last.mean > f->first.mean + RISE * f->first.std;
}

/* What explains returns that do not rise; of twice as many episodes as the first ones. */
static enum diagnosis_cause explain(const struct diagnosis *d, const struct diagnosis_figures *f) {
  bool tenth = f->share_done >= 0.1, third = f->share_done >= 1.0 / 3;
  if (f->last.count < 2 * PROGRESS_WINDOW) return DIAGNOSIS_NONE;
  if (tenth && d->largest == 0) return DIAGNOSIS_NO_REWARD;
  bool is_worse = f->last.mean < f->first.mean - RISE * f->first.std;
  if (!is_flat(d, f)) return third && is_worse ? DIAGNOSIS_WORSE : DIAGNOSIS_NONE;
  if (tenth && f->entropy < 0.01 * f->most_entropy) return DIAGNOSIS_COLLAPSED;
  if (third && f->updates_stopped > f->updates / 2) return DIAGNOSIS_STOPPED;
  if (third && f->entropy > 0.999 * f->most_entropy) return DIAGNOSIS_UNIFORM;
  return !third ? DIAGNOSIS_NONE : is_worse ? DIAGNOSIS_WORSE : DIAGNOSIS_FLAT;
}

static bool values_are_beyond(struct diagnosis *d, const struct diagnosis_figures *f) {
  double longest = f->discount < 1 ? 1 / (1 - f->discount) : BEYOND;
  bool beyond = d->largest > 0 && fabs(f->value) > fmax(BEYOND, longest) * d->largest;
  d->beyond = beyond ? d->beyond + 1 : 0;
  return d->beyond >= PERSISTS;
}

static void write(char *text, size_t bytes, enum diagnosis_cause cause, const struct diagnosis *d,
                  const struct diagnosis_figures *f) {
  char flat[160];
  snprintf(flat, sizeof(flat),
           "returns have not risen in %.0f %% of the run: at first %.4g, at best %.4g",
           100 * f->share_done, f->first.mean, d->best);
  switch (cause) {
    case DIAGNOSIS_NO_REWARD:
      snprintf(text, bytes,
               "no reward but 0 in %lld episodes, so that there is nothing to learn from: look at "
               "the environment's rewards, make its start easier, or explore more",
               (long long)f->last.count);
      break;
    case DIAGNOSIS_COLLAPSED:
      snprintf(text, bytes,
               "%s, and the policy has no randomness left to find anything better (entropy %.2g "
               "of %.2g): a higher --entropy_cost or a lower --learning_rate; large returns want "
               "--normalize_values or a smaller --reward_scale",
               flat, f->entropy, f->most_entropy);
      break;
    case DIAGNOSIS_UNIFORM:
      snprintf(text, bytes,
               "%s, and the policy is as random as at first (entropy %.4g of %.4g): a higher "
               "--learning_rate, a lower --entropy_cost, or rewards that tell actions apart",
               flat, f->entropy, f->most_entropy);
      break;
    case DIAGNOSIS_STOPPED:
      snprintf(text, bytes,
               "%s, and %lld of %lld updates ended with their first step: a higher --target_kl",
               flat, (long long)f->updates_stopped, (long long)f->updates);
      break;
    case DIAGNOSIS_WORSE:
      snprintf(text, bytes,
               "returns are below those of the first episodes: %.4g, at first %.4g: a lower "
               "--learning_rate, --learning_rate_decay=linear, a lower --max_gradient_norm",
               f->last.mean, f->first.mean);
      break;
    case DIAGNOSIS_FLAT:
      snprintf(text, bytes,
               "%s: another --learning_rate or --agent, one with memory where the observation does "
               "not tell all, more --total_steps where rewards are rare; scripts/watch.sh shows "
               "what it does",
               flat);
      break;
    default:
      snprintf(text, bytes,
               "values of %.3g, though no return was beyond %.3g: they explode; a lower "
               "--learning_rate or --max_gradient_norm",
               f->value, d->largest);
  }
}

enum diagnosis_cause diagnosis_note(struct diagnosis *d, char *text, size_t bytes,
                                    const struct diagnosis_figures *f) {
  if (f->last.window < PROGRESS_WINDOW) return DIAGNOSIS_NONE;
  remember(d, f);
  if (d->said_returns && !d->withdrawn && has_risen(f)) {
    d->withdrawn = true;
    snprintf(text, bytes, "returns have risen since: at first %.4g, now %.4g", f->first.mean,
             f->last.mean);
    return DIAGNOSIS_LEARNS;
  }
  enum diagnosis_cause cause = values_are_beyond(d, f) ? DIAGNOSIS_VALUES : explain(d, f);
  bool *said = cause == DIAGNOSIS_VALUES ? &d->said_values : &d->said_returns;
  if (cause == DIAGNOSIS_NONE || *said) return DIAGNOSIS_NONE;
  *said = true;
  write(text, bytes, cause, d, f);
  return cause;
}
