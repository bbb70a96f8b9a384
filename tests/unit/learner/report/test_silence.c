/* Why nothing is trained: every cause from its figures, and when it is said. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "learner/report/silence.h"

enum { SECOND = 1000 * 1000, MAX_LINES = 64 };

/* ---- the cause */

/* 12 s without an update, of a learner that expects 16 environments. */
static struct silence_figures figures(void) {
  return (struct silence_figures){.silent_us = 12 * SECOND,
                                  .listen = "unix:/s",
                                  .expected_environments = 16,
                                  .batch_windows = 32,
                                  .window_steps = 20,
                                  .steps_per_second = 20};
}

static struct wire_player player(const char *name, const char *state, double silent_seconds) {
  struct wire_player player = {.num_environments = 4, .silent_seconds = silent_seconds};
  strcpy(player.name, name);
  strcpy(player.state, state);
  return player;
}

static void says(const struct silence_figures *f, enum silence_cause cause, const char *sentence) {
  char text[512];
  enum silence_cause found = silence_explain(text, sizeof(text), f);
  if (found != cause || strcmp(text, sentence) != 0)
    fail_msg("cause %d: \"%s\", expected %d: \"%s\"", found, text, cause, sentence);
}

static void nobody_is_there(void **state) {
  (void)state;
  struct silence_figures f = figures();
  f.still_us = 12 * SECOND;
  says(&f, SILENCE_NOBODY,
       "no actor is connected: 0 of 16 environments; they are expected at unix:/s");
  f.barrier_environments = 16, f.waiting_environments = 12, f.collecting = true;
  says(&f, SILENCE_COLLECTING,
       "--deterministic waits until all 16 environments have asked to join at unix:/s: 12 have");
}

static void only_the_others_are_there(void **state) {
  (void)state;
  struct silence_figures f = figures();
  struct wire_player eval = player("eval/0/0", "stepping", 0);
  eval.role = WIRE_ROLE_EVAL;
  f.still_us = 12 * SECOND, f.players = &eval, f.num_players = 1;
  says(&f, SILENCE_EVALUATORS,
       "only evaluators are connected to unix:/s, which are not trained on: 0 of 16 training "
       "environments");
  eval.role = WIRE_ROLE_TRAIN;
  f.evaluates = true;
  says(&f, SILENCE_EVALUATORS,
       "only training actors are connected to unix:/s, which are not evaluated: 0 of 16 "
       "evaluation environments");
}

static void environments_step(void **state) {
  (void)state;
  struct silence_figures f = figures();
  struct wire_player players[3] = {player("actor/0/0", "stepping", 11.6),
                                   player("actor/1/0", "late", 12.3),
                                   player("eval/0/0", "stepping", 99)};
  players[2].role = WIRE_ROLE_EVAL;
  f.still_us = 12 * SECOND, f.players = players, f.num_players = 1;
  says(&f, SILENCE_STEPPING,
       "4 of 16 environments are connected, but no step has come for 12 s: actor/0/0 has not "
       "answered for 12 s (its environments step)");
  f.num_players = 3;
  says(&f, SILENCE_STEPPING,
       "8 of 16 environments are connected, but no step has come for 12 s: actor/1/0 (and 1 more "
       "of 2 streams) has not answered for 12 s (its environments step)");
  players[0] = player("actor/0/0", "joined", 13);
  f.num_players = 1;
  says(&f, SILENCE_STEPPING,
       "4 of 16 environments are connected, but no step has come for 12 s: actor/0/0 has joined "
       "and sent nothing for 13 s");
}

static void the_barrier_misses_one(void **state) {
  (void)state;
  struct silence_figures f = figures();
  struct wire_player players[2] = {player("actor/0/0", "queued", 12),
                                   player("actor/1/0", "stepping", 12)};
  f.still_us = 12 * SECOND, f.players = players, f.num_players = 1;
  f.barrier_environments = 8;
  says(&f, SILENCE_BARRIER, "--deterministic needs all 8 environments, 4 are connected to unix:/s");
  f.num_players = 2;
  says(&f, SILENCE_STEPPING,
       "8 of 16 environments are connected, but no step has come for 12 s: actor/1/0 has not "
       "answered for 12 s (its environments step)");
}

static void inference_is_busy(void **state) {
  (void)state;
  struct silence_figures f = figures();
  struct wire_player players[2] = {player("actor/0/0", "running", 12),
                                   player("actor/1/0", "stepping", 12)};
  f.still_us = 12 * SECOND, f.players = players, f.num_players = 2;
  says(&f, SILENCE_INFERENCE,
       "1 of 2 streams wait for actions: inference has been busy with one batch for 12 s");
}

static void the_trainer_is_busy(void **state) {
  (void)state;
  struct silence_figures f = figures();
  struct wire_player running = player("actor/0/0", "running", 7);
  f.players = &running, f.num_players = 1;
  f.busy_us = 11 * SECOND, f.still_us = 7 * SECOND, f.acting_waits = true;
  says(&f, SILENCE_TRAINER,
       "the trainer has been busy with one update for 11 s and the FIFO is full: actors wait for "
       "it");
  f.acting_waits = false;
  says(&f, SILENCE_TRAINER, "the trainer has been busy with one update for 11 s");
}

static void steps_come_slowly(void **state) {
  (void)state;
  struct silence_figures f = figures();
  struct wire_player stepping = player("actor/0/0", "stepping", 0.1);
  f.players = &stepping, f.num_players = 1, f.still_us = SECOND / 10, f.open_windows = 2;
  says(&f, SILENCE_FILLING,
       "a training batch needs 32 windows of 20 steps and has 2; the environments make 20 "
       "steps/s, so it takes about 30 s more");
  f.windows_dropped = 7, f.max_lag = 1;
  says(&f, SILENCE_DROPPED, "7 windows were older than --max_lag=1 updates and were dropped");
  f.max_lag = 0;
  says(&f, SILENCE_DROPPED,
       "7 windows closed before the newest update and were dropped, as the algorithm is "
       "synchronous");
}

/* 12 s without an update from a replay of windows every 40 steps. */
static struct silence_figures of_replay(void) {
  struct silence_figures f = figures();
  f.replay.exists = true, f.replay.ratio = 0.5, f.replay.stride = 40;
  f.replay.windows = 812, f.replay.needed = 5000;
  return f;
}

static void a_replay_fills(void **state) {
  (void)state;
  struct silence_figures f = of_replay();
  struct wire_player stepping = player("actor/0/0", "stepping", 0.1);
  f.players = &stepping, f.num_players = 1, f.still_us = SECOND / 10, f.steps_per_second = 2000;
  says(&f, SILENCE_STARTING,
       "the replay holds 812 of 5000 windows before training starts; the environments make 2000 "
       "steps/s, so it takes about 84 s more");
  f.steps_per_second = 0;
  says(&f, SILENCE_STARTING,
       "the replay holds 812 of 5000 windows before training starts; the environments make 0 "
       "steps/s");
  f.replay.started = true, f.replay.due = 12, f.steps_per_second = 20;
  says(&f, SILENCE_WINDOWS,
       "the trainer waits for 40 new windows, which --replay_ratio=0.5 asks for before the next "
       "batch of 32; the environments make 20 steps/s, so it takes about 80 s more");
  f.still_us = 12 * SECOND, f.num_players = 0;
  says(&f, SILENCE_NOBODY,
       "no actor is connected: 0 of 16 environments; they are expected at unix:/s");
}

static void a_replay_is_saved(void **state) {
  (void)state;
  struct silence_figures f = of_replay();
  f.replay.started = true, f.replay.saving_us = 11 * SECOND, f.still_us = 11 * SECOND;
  f.acting_waits = true;
  says(&f, SILENCE_SAVING,
       "acting has waited for 11 s for steps to be saved that new ones take the place of "
       "(--checkpoint_replay)");
}

static void acting_waits_for_a_replay(void **state) {
  (void)state;
  struct silence_figures f = of_replay();
  char text[512];
  f.replay.started = true, f.replay.due = 130;
  f.busy_us = 11 * SECOND, f.still_us = 7 * SECOND, f.acting_waits = true;
  says(&f, SILENCE_TRAINER,
       "the trainer has been busy with one update for 11 s and sampling is 130 windows behind "
       "--replay_ratio=0.5: actors wait for it");
  assert_int_equal(silence_explain_acting(text, sizeof(text), &f), SILENCE_ACTING);
  assert_string_equal(text,
                      "actors wait for the trainer: sampling is 130 windows behind "
                      "--replay_ratio=0.5");
}

static void actors_that_keep_dying_are_absent(void **state) {
  (void)state;
  struct silence_figures f = figures();
  f.still_us = SECOND;
  says(&f, SILENCE_NOBODY,
       "no actor is connected: 0 of 16 environments; they are expected at unix:/s");
}

/* Whatever the figures are, the sentence ends where its place does. */
static void a_small_place_is_not_overrun(void **state) {
  (void)state;
  struct silence_figures f = figures();
  char text[24];
  memset(text, 'x', sizeof(text));
  silence_explain(text, 20, &f);
  assert_int_equal(text[19], '\0');
  assert_int_equal(text[20], 'x');
}

/* ---- when to speak */

/* The seconds at which lines are said, of a silence that lasts until `end`. */
static int lines(struct silence *silence, int64_t begin, int64_t end, int64_t *at) {
  int count = 0;
  for (int64_t t = begin; t < end; t++) {
    silence_note(silence, silence->trained, silence->steps, t * SECOND);
    if (!silence_lasts(silence, t * SECOND)) continue;
    if (!silence_say(silence, SILENCE_NOBODY, t * SECOND)) continue;
    if (count < MAX_LINES) at[count] = t;
    count++;
  }
  return count;
}

static void it_is_said_less_and_less_often(void **state) {
  (void)state;
  struct silence silence;
  int64_t at[MAX_LINES];
  silence_init(&silence, 0, 0, 0);
  assert_int_equal(lines(&silence, 0, 2000, at), 8);
  const int64_t expected[] = {10, 30, 70, 150, 310, 630, 1230, 1830};
  assert_memory_equal(at, expected, sizeof(expected));
}

static void another_cause_is_said_soon(void **state) {
  (void)state;
  struct silence silence;
  int64_t at[MAX_LINES];
  silence_init(&silence, 0, 0, 0);
  assert_int_equal(lines(&silence, 0, 100, at), 3); /* at 10, 30 and 70 */
  assert_false(silence_say(&silence, SILENCE_STEPPING, 75 * SECOND));
  assert_true(silence_say(&silence, SILENCE_STEPPING, 100 * SECOND));
  assert_false(silence_say(&silence, SILENCE_STEPPING, 119 * SECOND));
  assert_true(silence_say(&silence, SILENCE_STEPPING, 120 * SECOND));
}

static void the_end_is_said_if_the_silence_was(void **state) {
  (void)state;
  struct silence silence;
  int64_t at[MAX_LINES];
  silence_init(&silence, 5, 100, 0);
  assert_int_equal(silence_note(&silence, 6, 120, 8 * SECOND), 0);
  assert_false(silence_lasts(&silence, 17 * SECOND));
  assert_int_equal(lines(&silence, 9, 20, at), 1);
  assert_int_equal(at[0], 18);
  assert_int_equal(silence_note(&silence, 7, 140, 22 * SECOND), 14 * SECOND);
  assert_int_equal(silence_note(&silence, 8, 160, 23 * SECOND), 0);
}

/* A trainer that takes 12 s for every update is no news after the first one; once all has been well
 * for a minute it is. */
static void a_habit_is_no_news(void **state) {
  (void)state;
  struct silence silence;
  int64_t at[MAX_LINES], t = 0;
  silence_init(&silence, 0, 0, 0);
  int count = 0;
  for (int update = 1; update <= 20; update++, t += 12) {
    count += lines(&silence, t, t + 12, at);
    silence_note(&silence, update, update, (t + 12) * SECOND);
  }
  assert_int_equal(count, 1);
  for (int update = 21; update <= 100; update++) silence_note(&silence, update, 0, ++t * SECOND);
  assert_int_equal(lines(&silence, t, t + 12, at), 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nobody_is_there),
      cmocka_unit_test(only_the_others_are_there),
      cmocka_unit_test(environments_step),
      cmocka_unit_test(the_barrier_misses_one),
      cmocka_unit_test(inference_is_busy),
      cmocka_unit_test(the_trainer_is_busy),
      cmocka_unit_test(steps_come_slowly),
      cmocka_unit_test(a_replay_fills),
      cmocka_unit_test(a_replay_is_saved),
      cmocka_unit_test(acting_waits_for_a_replay),
      cmocka_unit_test(actors_that_keep_dying_are_absent),
      cmocka_unit_test(a_small_place_is_not_overrun),
      cmocka_unit_test(it_is_said_less_and_less_often),
      cmocka_unit_test(another_cause_is_said_soon),
      cmocka_unit_test(the_end_is_said_if_the_silence_was),
      cmocka_unit_test(a_habit_is_no_news),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
