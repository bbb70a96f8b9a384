/* What a run that does not learn is told: each cause by its figures, once, and not before its time;
 * nothing where a run learns. */
#include "learner/report/diagnosis.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* A run in the middle, of returns of 20 +- 10 that have not changed; no other figure is of note. */
static struct diagnosis_figures flat(void) {
  struct diagnosis_figures f = {
      .share_done = 0.5,
      .first = {.count = 100, .window = 100, .mean = 20, .std = 10, .min = 8, .max = 60},
      .entropy = 0.5,
      .most_entropy = 0.69,
      .value = 10,
      .discount = 0.99,
      .updates = 100};
  f.last = f.first;
  f.last.count = 1000;
  return f;
}

static enum diagnosis_cause told(const struct diagnosis_figures *f, const char *word) {
  struct diagnosis d = {.has_returns = false};
  char text[512] = "";
  enum diagnosis_cause cause = diagnosis_note(&d, text, sizeof(text), f);
  if (cause != DIAGNOSIS_NONE && !strstr(text, word)) fail_msg("no '%s' in: %s", word, text);
  assert_true(strlen(text) < sizeof(text) - 1);
  assert_int_equal(diagnosis_note(&d, text, sizeof(text), f), DIAGNOSIS_NONE); /* once */
  return cause;
}

static void each_cause_is_told_with_what_to_try(void **state) {
  (void)state;
  struct diagnosis_figures f = flat();
  assert_int_equal(told(&f, "at first 20, at best 20: another --learning_rate"), DIAGNOSIS_FLAT);
  f.entropy = 0.001;
  assert_int_equal(told(&f, "no randomness left"), DIAGNOSIS_COLLAPSED);
  f.entropy = 0.6899;
  assert_int_equal(told(&f, "as random as at first"), DIAGNOSIS_UNIFORM);
  f.entropy = f.most_entropy = NAN; /* a box of actions */
  assert_int_equal(told(&f, "another --learning_rate"), DIAGNOSIS_FLAT);
  f.updates_stopped = 51;
  assert_int_equal(told(&f, "51 of 100 updates ended with their first step"), DIAGNOSIS_STOPPED);
  f = flat();
  f.last.mean = 12;
  assert_int_equal(told(&f, "below those of the first episodes: 12, at first 20"), DIAGNOSIS_WORSE);
  f = flat();
  f.first.mean = f.first.std = f.first.min = f.first.max = 0;
  f.last.mean = f.last.std = f.last.min = f.last.max = 0;
  assert_int_equal(told(&f, "no reward but 0 in 1000 episodes"), DIAGNOSIS_NO_REWARD);
}

/* Returns that rose and fell again to where they began are worth a word only below that. */
static void what_was_learned_once_counts(void **state) {
  (void)state;
  struct diagnosis d = {.has_returns = false};
  char text[512];
  struct diagnosis_figures f = flat();
  f.share_done = 0.2;
  f.last.mean = 300;
  assert_int_equal(diagnosis_note(&d, text, sizeof(text), &f), DIAGNOSIS_NONE);
  f.share_done = 0.9;
  f.last.mean = 18;
  assert_int_equal(diagnosis_note(&d, text, sizeof(text), &f), DIAGNOSIS_NONE);
  f.last.mean = 9;
  assert_int_equal(diagnosis_note(&d, text, sizeof(text), &f), DIAGNOSIS_WORSE);
}

/* What was said holds no longer once returns have risen. */
static void it_is_taken_back(void **state) {
  (void)state;
  struct diagnosis d = {.has_returns = false};
  char text[512];
  struct diagnosis_figures f = flat();
  assert_int_equal(diagnosis_note(&d, text, sizeof(text), &f), DIAGNOSIS_FLAT);
  f.last.mean = 24;
  assert_int_equal(diagnosis_note(&d, text, sizeof(text), &f), DIAGNOSIS_NONE);
  f.last.mean = 28;
  assert_int_equal(diagnosis_note(&d, text, sizeof(text), &f), DIAGNOSIS_LEARNS);
  assert_string_equal(text, "returns have risen since: at first 20, now 28");
  assert_int_equal(diagnosis_note(&d, text, sizeof(text), &f), DIAGNOSIS_NONE);
}

static void nothing_is_told_too_early(void **state) {
  (void)state;
  struct diagnosis_figures f = flat();
  f.share_done = 0.3;
  assert_int_equal(told(&f, ""), DIAGNOSIS_NONE);
  f.entropy = 0;
  assert_int_equal(told(&f, "no randomness"), DIAGNOSIS_COLLAPSED); /* a tenth is enough */
  f.share_done = 0.09;
  assert_int_equal(told(&f, ""), DIAGNOSIS_NONE);
  f = flat();
  f.last.count = 199; /* mostly the first ones */
  assert_int_equal(told(&f, ""), DIAGNOSIS_NONE);
  f = flat();
  f.last.window = 99;
  assert_int_equal(told(&f, ""), DIAGNOSIS_NONE);
  f = flat();
  f.share_done = 0; /* no budget */
  assert_int_equal(told(&f, ""), DIAGNOSIS_NONE);
}

/* In five notes one after the other. */
static void values_beyond_all_returns_are_told(void **state) {
  (void)state;
  struct diagnosis d = {.has_returns = false};
  char text[512];
  struct diagnosis_figures f = flat();
  f.last.mean = 40;
  f.value = -1e5; /* of returns up to 60 */
  for (int i = 0; i < 3; i++)
    assert_int_equal(diagnosis_note(&d, text, sizeof(text), &f), DIAGNOSIS_NONE);
  f.value = 50;
  assert_int_equal(diagnosis_note(&d, text, sizeof(text), &f), DIAGNOSIS_NONE);
  f.value = -1e5;
  for (int i = 0; i < 4; i++)
    assert_int_equal(diagnosis_note(&d, text, sizeof(text), &f), DIAGNOSIS_NONE);
  assert_int_equal(diagnosis_note(&d, text, sizeof(text), &f), DIAGNOSIS_VALUES);
  assert_non_null(strstr(text, "values of -1e+05, though no return was beyond 60"));
  assert_int_equal(diagnosis_note(&d, text, sizeof(text), &f), DIAGNOSIS_NONE);
  f.discount = 0.9999; /* of episodes that are cut, ten thousand times a reward */
  d = (struct diagnosis){.has_returns = false};
  for (int i = 0; i < 9; i++)
    assert_int_equal(diagnosis_note(&d, text, sizeof(text), &f), DIAGNOSIS_NONE);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_cause_is_told_with_what_to_try),
      cmocka_unit_test(what_was_learned_once_counts),
      cmocka_unit_test(it_is_taken_back),
      cmocka_unit_test(nothing_is_told_too_early),
      cmocka_unit_test(values_beyond_all_returns_are_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
