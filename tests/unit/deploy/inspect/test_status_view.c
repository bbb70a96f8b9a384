/* The table and the JSON of a Status, at every size. */
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "deploy/inspect/status_view.h"
#include "tests/unit/support/status_example.h"

enum { PLAYERS = 20 };
static struct wire_player players[PLAYERS];

static struct wire_status status_of(int num_players) {
  struct wire_status status = status_example(players, num_players);
  players[0].wait_us = NAN;
  return status;
}

static char *table(const struct wire_status *status, int columns, int rows) {
  char *text;
  size_t bytes;
  FILE *out = open_memstream(&text, &bytes);
  status_view_table(out, status, &(struct view_size){columns, rows, "\n"});
  fclose(out);
  return text;
}

static void all_is_in_the_table(void **state) {
  (void)state;
  struct wire_status status = status_of(2);
  char *text = table(&status, 0, 0);
  assert_string_equal(
      text,
      "cartpole vtrace, training for 4 s: /runs/a\n"
      "steps       567k of 1.50M, 141k/s\n"
      "trained     560k, 140k/s in 226 updates/s; lag 0.24 updates; trainer waits 91%\n"
      "return      476.66 in training, - in evaluation; 3047 episodes\n"
      "actors      16 of 16 environments, 16 late; 0 of evaluators\n"
      "batch       8.00 rows (50% of the environments) after 8 us; inference waits 0%\n"
      "\n"
      "actor     state     envs  late  steps/s    steps       step       wait   silent  role   "
      "host\n"
      "actor/0/0 late        16    16      950    1.23M    2.31 ms          -   12.0 s  train  "
      "10.0.0.7\n"
      "actor/1/0 late        16    16      950    1.23M    2.31 ms      85 us   12.0 s  train  "
      "10.0.0.7\n");
  free(text);
  strcpy(status.no_data, "nobody is here");
  status.num_players = 0;
  text = table(&status, 0, 0);
  assert_non_null(strstr(text, "\nno data     nobody is here\n"));
  assert_null(strstr(text, "steps/s  "));
  free(text);
  status.batch_rows = status.batch_wait_us = NAN;
  text = table(&status, 0, 0);
  assert_non_null(strstr(text, "\nbatch       - rows (0% of the environments) after -;"));
  free(text);
}

static void most_environments_do_not_overflow(void **state) {
  (void)state;
  struct wire_status status = status_of(0);
  status.train_environments = status.eval_environments = INT_MAX;
  status.batch_rows = (double)INT_MAX;
  char *text = table(&status, 0, 0);
  assert_non_null(strstr(text, " rows (50% of the environments) after "));
  free(text);
}

static void a_replay_has_a_line(void **state) {
  (void)state;
  struct wire_status status = status_of(0);
  char *text = table(&status, 0, 0);
  assert_null(strstr(text, "replay"));
  free(text);
  status.replay_windows = 812, status.replay_windows_needed = 50000, status.replay_ratio = NAN;
  text = table(&status, 0, 0);
  assert_non_null(strstr(text, "\nreplay      812 of 50k windows before training starts\n"));
  free(text);
  status.replay_windows = 52345, status.replay_ratio = 0.99731, status.replay_ratio_asked = 1;
  text = table(&status, 0, 0);
  assert_non_null(
      strstr(text, "\nreplay      52k windows; 0.9973 sampled for each new one, 1 asked\n"));
  free(text);
}

static void it_fits_a_terminal(void **state) {
  (void)state;
  struct wire_status status = status_of(PLAYERS);
  for (int rows = 9; rows < 32; rows++) {
    char *text = table(&status, 30, rows);
    int lines = 0, hidden = 0;
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1, lines++) {
      assert_true(end - line <= 30);
      sscanf(line, "... and %d more", &hidden);
    }
    assert_true(lines <= rows);
    assert_int_equal(lines, 8 + PLAYERS - hidden + (hidden > 0));
    free(text);
  }
}

static void json_is_json(void **state) {
  (void)state;
  struct wire_status status = status_of(2);
  char *text;
  size_t bytes;
  status.replay_windows = 812, status.replay_ratio = NAN;
  FILE *out = open_memstream(&text, &bytes);
  assert_int_equal(status_view_json(out, &status, "unix:/s"), 0);
  fclose(out);
  assert_ptr_equal(strchr(text, '\n'), text + bytes - 1);
  json_t *all = json_loads(text, 0, NULL), *first;
  assert_non_null(all);
  assert_string_equal(json_string_value(json_object_get(all, "address")), "unix:/s");
  assert_true(json_real_value(json_object_get(all, "return_mean")) == 476.66);
  assert_true(json_is_null(json_object_get(all, "eval_return_mean")));
  assert_int_equal(json_integer_value(json_object_get(all, "replay_windows")), 812);
  assert_true(json_is_null(json_object_get(all, "replay_ratio")));
  assert_int_equal(json_array_size(json_object_get(all, "players")), 2);
  first = json_array_get(json_object_get(all, "players"), 0);
  assert_int_equal(json_integer_value(json_object_get(first, "steps")), 1234567);
  assert_int_equal(json_integer_value(json_object_get(first, "environments")), 16);
  assert_true(json_is_null(json_object_get(first, "wait_us")));
  json_decref(all);
  free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_is_in_the_table), cmocka_unit_test(most_environments_do_not_overflow),
      cmocka_unit_test(a_replay_has_a_line), cmocka_unit_test(it_fits_a_terminal),
      cmocka_unit_test(json_is_json),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
