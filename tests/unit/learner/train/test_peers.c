/* Learners that meet, by memory and by connections: sums in the order of ranks, means by weights,
 * what all decide by, one that ends at any moment, one that never comes, those that disagree. */
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <sys/resource.h>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "tests/unit/learner/train/peers_world.h"

/* More than an area has room for, and no multiple of it. */
enum { P = 300001, SUMS = 3, ALL = P + SUMS, SHOWN = 64 };

/* Other ones in each round, so that no sum can be made of those of the round before. */
enum { ROUNDS = 3, AREA = 1 << 19 };
static double number_of(int rank, size_t i, int round) {
  return sin((double)i + round) * (rank + 1) + (i % 97 == 0 ? 1e7 * (rank == 1 ? -1 : 1) : 0);
}

/* Another one in each round, and 0 in some. */
static double weight_of(int rank, int round) {
  return rank == 0 ? 0.25 : (rank + round) % 4;
}

/* Which of the numbers are shown: some of each part. */
static size_t shown(int i) {
  return i < SUMS ? (size_t)(P + i) : (size_t)i * (P / SHOWN);
}

static void reduce_doubles(struct peers_world *w, struct peers *peers, int rank) {
  double *x = check_alloc(ALL, sizeof(*x));
  for (int round = 0; round < ROUNDS; round++) {
    for (size_t i = 0; i < ALL; i++) x[i] = number_of(rank, i, round);
    peers_mean(peers, x, P, SUMS, sizeof(*x), weight_of(rank, round));
  }
  for (int i = 0; i < SHOWN; i++) w->result[rank].number[i] = x[shown(i)];
}

static void reduce_floats(struct peers_world *w, struct peers *peers, int rank) {
  float *x = check_alloc(ALL, sizeof(*x));
  for (int round = 0; round < ROUNDS; round++) {
    for (size_t i = 0; i < ALL; i++) x[i] = (float)number_of(rank, i, round);
    peers_mean(peers, x, P, SUMS, sizeof(*x), weight_of(rank, round));
  }
  for (int i = 0; i < SHOWN; i++) w->result[rank].number[i] = (double)x[shown(i)];
}

static double expected_double(int learners, size_t i) {
  double sum = 0, weights = 0;
  for (int r = 0; r < learners; r++) {
    weights += weight_of(r, ROUNDS - 1);
    sum += (i < P ? weight_of(r, ROUNDS - 1) : 1) * number_of(r, i, ROUNDS - 1);
  }
  return i < P ? sum * (1 / weights) : sum;
}

static double expected_float(int learners, size_t i) {
  float sum = 0;
  double weights = 0;
  for (int r = 0; r < learners; r++) {
    weights += weight_of(r, ROUNDS - 1);
    sum += (i < P ? (float)weight_of(r, ROUNDS - 1) : 1) * (float)number_of(r, i, ROUNDS - 1);
  }
  return (double)(i < P ? sum * (float)(1 / weights) : sum);
}

/* To the last bit, on every learner. */
static void sums_are_made_in_the_order_of_ranks(void **state) {
  (void)state;
  for (int learners = 1; learners <= WORLD_MOST; learners++)
    for (int doubles = 0; doubles < 2; doubles++) {
      struct peers_world w = peers_world_create(learners);
      peers_world_run_all(&w, doubles ? reduce_doubles : reduce_floats);
      for (int r = 0; r < learners; r++)
        for (int i = 0; i < SHOWN; i++) {
          double expected =
              doubles ? expected_double(learners, shown(i)) : expected_float(learners, shown(i));
          if (w.result[r].number[i] != expected)
            fail_msg("learner %d of %d, number %zu: %.17g, expected %.17g", r, learners, shown(i),
                     w.result[r].number[i], expected);
        }
      peers_world_destroy(&w);
    }
}

/* One small array behind another, which learners add up whole up to a size, and what is about an
 * area's: how many numbers are not those of a loop in the order of ranks. */
static double small_number(int rank, size_t i, int round) {
  return (double)((i * 31 + (size_t)(rank * 17 + round * 7)) % 1009) / 7 - rank;
}

#define REDUCE_SMALL(NUMBER)                                                                      \
  static void reduce_small_##NUMBER(struct peers_world *w, struct peers *peers, int rank) {       \
    size_t learners = (size_t)peers_learners(peers), whole = AREA / sizeof(NUMBER) / learners;    \
    size_t area = AREA / sizeof(NUMBER);                                                          \
    size_t sizes[] = {1, 2, 5, 1000, whole - 1, whole, whole + 1, 3, area, 1, area + 1, 7, 4, 2}; \
    NUMBER *x = check_alloc(area + 1, sizeof(*x));                                                \
    for (int round = 0; round < 70; round++) {                                                    \
      size_t n = sizes[round % 14], means = n - n / 3;                                            \
      for (size_t i = 0; i < n; i++) x[i] = (NUMBER)small_number(rank, i, round);                 \
      peers_mean(peers, x, means, n - means, sizeof(*x), weight_of(rank, round));                 \
      double weights = 0;                                                                         \
      for (size_t r = 0; r < learners; r++) weights += weight_of((int)r, round);                  \
      for (size_t i = 0; i < n; i++) {                                                            \
        NUMBER sum = 0;                                                                           \
        for (int r = 0; r < (int)learners; r++)                                                   \
          sum +=                                                                                  \
              (NUMBER)(i < means ? weight_of(r, round) : 1) * (NUMBER)small_number(r, i, round);  \
        w->result[rank].number[0] += x[i] != (i < means ? sum * (NUMBER)(1 / weights) : sum);     \
      }                                                                                           \
      w->result[rank].number[1] += 1;                                                             \
    }                                                                                             \
  }
REDUCE_SMALL(float)
REDUCE_SMALL(double)

static void small_sums_are_made_in_the_order_of_ranks(void **state) {
  (void)state;
  for (int learners = 1; learners <= WORLD_MOST; learners++)
    for (int doubles = 0; doubles < 2; doubles++) {
      struct peers_world w = peers_world_create(learners);
      peers_world_run_all(&w, doubles ? reduce_small_double : reduce_small_float);
      for (int r = 0; r < learners; r++) {
        assert_true(w.result[r].number[0] == 0);
        assert_true(w.result[r].number[1] == 70);
      }
      peers_world_destroy(&w);
    }
}

static void exchange_and_broadcast(struct peers_world *w, struct peers *peers, int rank) {
  struct error error;
  double *number = w->result[rank].number, mine[2] = {rank + 0.5, -rank};
  if (peers_exchange(peers, number, mine, 2, &error) != STATUS_OK) return;
  number[10] = rank == 0 ? 42 : 0;
  (void)!peers_broadcast(peers, number + 10, sizeof(double), &error);
}

static void all_see_what_each_one_brings(void **state) {
  (void)state;
  struct peers_world w = peers_world_create(3);
  peers_world_run_all(&w, exchange_and_broadcast);
  for (int r = 0; r < 3; r++) {
    assert_int_equal(w.result[r].status, STATUS_OK);
    for (int k = 0; k < 3; k++) {
      assert_true(w.result[r].number[2 * k] == k + 0.5);
      assert_true(w.result[r].number[2 * k + 1] == -k);
    }
    assert_true(w.result[r].number[10] == 42);
  }
  peers_world_destroy(&w);
}

/* Until one is missing. */
static void reduce_for_ever(struct peers_world *w, struct peers *peers, int rank) {
  struct error error;
  double x[2] = {0, 0};
  while (peers_status(peers, &error) == STATUS_OK) {
    x[0] = x[1] = 1;
    peers_mean(peers, x, 1, 1, sizeof(*x), 1);
    w->result[rank].number[0] += 1;
  }
  w->result[rank].number[1] = x[0], w->result[rank].number[2] = x[1];
}

static void wait_until_they_reduce(const struct peers_world *w) {
  volatile const double *count = &w->result[0].number[0];
  double before = *count;
  while (*count <= before + 10 && !w->result[0].error[0]) clock_sleep_us(200);
  if (w->result[0].error[0]) fail_msg("%s", w->result[0].error);
}

/* At whatever place it is then. The others stop, name it, and get no number of half a sum. */
static void a_learner_that_is_killed_stops_the_others(void **state) {
  (void)state;
  for (int round = 0; round < 20; round++) {
    struct peers_world w = peers_world_create(3);
    int killed = round % 3;
    for (int r = 0; r < 3; r++) peers_world_start(&w, r, reduce_for_ever);
    wait_until_they_reduce(&w);
    clock_sleep_us(37 * round);
    kill(w.process[killed], SIGKILL);
    peers_world_wait(&w);
    char name[64];
    snprintf(name, sizeof(name), "learner %d of 3 ", killed);
    for (int r = 0; r < 3; r++) {
      if (r == killed) continue;
      assert_int_equal(w.result[r].status, STATUS_UNAVAILABLE);
      assert_non_null(strstr(w.result[r].error, name));
      assert_true(isnan(w.result[r].number[1]) && isnan(w.result[r].number[2]));
    }
    peers_world_destroy(&w);
  }
}

/* Both of the others name it, though one of them is the first to give it up and to end. */
static void a_learner_that_does_not_answer_is_given_up(void **state) {
  (void)state;
  struct peers_world w = peers_world_create(3);
  w.timeout_ms = 2000;
  for (int r = 0; r < 3; r++) peers_world_start(&w, r, reduce_for_ever);
  wait_until_they_reduce(&w);
  kill(w.process[1], SIGSTOP);
  for (int r = 0; r < 3; r += 2) {
    waitpid(w.process[r], NULL, 0);
    w.process[r] = 0;
    assert_int_equal(w.result[r].status, STATUS_UNAVAILABLE);
    assert_non_null(strstr(w.result[r].error, "learner 1 of 3 "));
  }
  assert_true(strstr(w.result[0].error, "did not answer within 2 s") ||
              strstr(w.result[2].error, "did not answer within 2 s"));
  kill(w.process[1], SIGKILL);
  peers_world_wait(&w);
  peers_world_destroy(&w);
}

/* And learns, once it goes on, that it is the one. */
static void a_learner_that_was_given_up_ends(void **state) {
  (void)state;
  struct peers_world w = peers_world_create(2);
  w.timeout_ms = 2000;
  for (int r = 0; r < 2; r++) peers_world_start(&w, r, reduce_for_ever);
  wait_until_they_reduce(&w);
  kill(w.process[1], SIGSTOP);
  waitpid(w.process[0], NULL, 0);
  w.process[0] = 0;
  kill(w.process[1], SIGCONT);
  peers_world_wait(&w);
  assert_int_equal(w.result[1].status, STATUS_UNAVAILABLE);
  if (!strstr(w.result[1].error, "have not heard from this learner, 1 of 2, within 2 s"))
    fail_msg("%s", w.result[1].error);
  peers_world_destroy(&w);
}

/* As a scheduler suspends a job: whichever goes on first has waited for none. */
static void learners_that_are_stopped_together_go_on(void **state) {
  (void)state;
  enum { LEARNERS = 3 };
  struct peers_world w = peers_world_create(LEARNERS);
  w.timeout_ms = 2000;
  for (int r = 0; r < LEARNERS; r++) peers_world_start(&w, r, reduce_for_ever);
  wait_until_they_reduce(&w);
  kill(w.process[1], SIGSTOP);
  clock_sleep_us(100 * 1000); /* until the others wait for it */
  for (int r = 0; r < LEARNERS; r++) kill(w.process[r], SIGSTOP);
  clock_sleep_us((w.timeout_ms + 500) * 1000);
  for (int r = LEARNERS - 1; r >= 0; r--) {
    kill(w.process[r], SIGCONT);
    clock_sleep_us(100 * 1000);
  }
  wait_until_they_reduce(&w);
  for (int r = 0; r < LEARNERS; r++) kill(w.process[r], SIGKILL);
  peers_world_wait(&w);
  peers_world_destroy(&w);
}

static void a_learner_that_never_comes_is_named(void **state) {
  (void)state;
  struct peers_world w = peers_world_create(3);
  w.timeout_ms = 2000;
  peers_world_start(&w, 0, reduce_for_ever);
  peers_world_start(&w, 2, reduce_for_ever);
  peers_world_wait(&w);
  assert_int_equal(w.result[0].status, STATUS_UNAVAILABLE);
  assert_non_null(strstr(w.result[0].error, "learner 1 of 3"));
  assert_non_null(strstr(w.result[0].error, "has not come within 2 s"));
  peers_world_destroy(&w);
}

static void see_who_is_first(struct peers_world *w, struct peers *peers, int rank) {
  if (rank == 0) raise(SIGKILL);
  reduce_for_ever(w, peers, rank);
  w->result[rank].number[3] = peers_is_first(peers);
  if (rank == 1) clock_sleep_us(300 * 1000); /* it still runs when the next one asks */
}

static void the_first_one_that_runs_takes_the_place_of_rank_0(void **state) {
  (void)state;
  struct peers_world w = peers_world_create(3);
  peers_world_run_all(&w, see_who_is_first);
  assert_true(w.result[1].number[3] == 1);
  assert_true(w.result[2].number[3] == 0);
  peers_world_destroy(&w);
}

static void lines_are_compared_to_their_ends(void **state) {
  (void)state;
  char ours[2][600];
  for (int r = 0; r < 2; r++) snprintf(ours[r], sizeof(ours[r]), "--env_args=%0500d\n", r);
  const char *const about[][2] = {{ours[0], ours[1]}, {"a=1\n", "a=1\nb=2\n"}};
  for (int k = 0; k < 2; k++) {
    struct peers_world w = peers_world_create(2);
    w.about[0] = about[k][0];
    w.about[1] = about[k][1];
    peers_world_run_all(&w, reduce_for_ever);
    for (int r = 0; r < 2; r++) assert_int_equal(w.result[r].status, STATUS_MISMATCH);
    peers_world_destroy(&w);
  }
}

static void learners_that_disagree_name_both_values(void **state) {
  (void)state;
  struct peers_world w = peers_world_create(3);
  w.about[0] = w.about[1] = "version 1\n--unroll_length=20\n--seed=1\n";
  w.about[2] = "version 1\n--unroll_length=10\n--seed=2\n";
  peers_world_run_all(&w, reduce_for_ever);
  for (int r = 0; r < 3; r++) {
    assert_int_equal(w.result[r].status, STATUS_MISMATCH);
    assert_non_null(strstr(w.result[r].error,
                           "learners 0 and 2 disagree: '--unroll_length=20' "
                           "and '--unroll_length=10'"));
  }
  peers_world_destroy(&w);
}

static void so_do_those_of_two_versions(void **state) {
  (void)state;
  struct peers_world w = peers_world_create(2);
  w.about[0] = "version 1\n--unroll_length=20\n", w.about[1] = "version 2\n--unroll_length=10\n";
  peers_world_run_all(&w, reduce_for_ever);
  for (int r = 0; r < 2; r++) {
    assert_int_equal(w.result[r].status, STATUS_MISMATCH);
    assert_non_null(strstr(w.result[r].error, "'version 1' and 'version 2'"));
  }
  peers_world_destroy(&w);
}

static void a_text_that_only_goes_on_is_another(void **state) {
  (void)state;
  struct peers_world w = peers_world_create(2);
  w.about[0] = "a\n", w.about[1] = "a\nb\n";
  peers_world_run_all(&w, reduce_for_ever);
  assert_int_equal(w.result[0].status, STATUS_MISMATCH);
  assert_non_null(strstr(w.result[0].error, "'' and 'b'"));
  peers_world_destroy(&w);
}

static enum status open_here(const char *path, int rank, int learners, struct error *error) {
  struct peers *peers;
  const struct peers_config config = {
      .path = path, .rank = rank, .learners = learners, .timeout_ms = 100, .about = ""};
  enum status status = peers_open(&peers, &config, error);
  if (status == STATUS_OK) peers_close(peers);
  return status;
}

static void a_file_that_does_not_fit_is_refused(void **state) {
  (void)state;
  struct error error;
  struct peers_world w = peers_world_create(1);
  assert_int_equal(open_here("/nowhere/file", 0, 1, &error), STATUS_IO);
  assert_non_null(strstr(error.text, "cannot open /nowhere/file"));
  assert_int_equal(open_here(w.path, 0, 1, &error), STATUS_OK);
  assert_int_equal(open_here(w.path, 0, 1, &error), STATUS_EXISTS);
  assert_non_null(strstr(error.text, "has a learner 0 already"));
  assert_int_equal(open_here(w.path, 1, 2, &error), STATUS_MISMATCH);
  assert_non_null(strstr(error.text, "another number of learners than --learners=2"));
  FILE *file = fopen(w.path, "r+");
  assert_non_null(file);
  assert_int_equal(fputc(1, file), 1); /* another version's struct */
  fclose(file);
  assert_int_equal(open_here(w.path, 0, 1, &error), STATUS_MISMATCH);
  assert_non_null(strstr(error.text, "another version of Acorn"));
  peers_world_destroy(&w);
}

/* Else its first write would be a SIGBUS. */
static void a_file_without_room_is_refused(void **state) {
  (void)state;
  struct error error;
  struct peers_world w = peers_world_create(1);
  struct rlimit all, little;
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &all), 0);
  little = (struct rlimit){1 << 20, all.rlim_max};
  signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
  enum status status = open_here(w.path, 0, 1, &error);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &all), 0);
  assert_int_equal(status, STATUS_IO);
  assert_non_null(strstr(error.text, "cannot reserve"));
  peers_world_destroy(&w);
}

static int by_memory(void **state) {
  (void)state;
  peers_world_by_net = false;
  return 0;
}

static int by_net(void **state) {
  (void)state;
  peers_world_by_net = true;
  return 0;
}

#define BOTH(test)                                    \
  {#test " (memory)", test, by_memory, NULL, NULL}, { \
#test " (net)", test, by_net, NULL, NULL          \
  }

int main(void) {
  const struct CMUnitTest tests[] = {
      BOTH(sums_are_made_in_the_order_of_ranks),
      BOTH(small_sums_are_made_in_the_order_of_ranks),
      BOTH(all_see_what_each_one_brings),
      BOTH(a_learner_that_is_killed_stops_the_others),
      BOTH(a_learner_that_does_not_answer_is_given_up),
      BOTH(a_learner_that_was_given_up_ends),
      BOTH(learners_that_are_stopped_together_go_on),
      BOTH(a_learner_that_never_comes_is_named),
      BOTH(the_first_one_that_runs_takes_the_place_of_rank_0),
      BOTH(learners_that_disagree_name_both_values),
      BOTH(so_do_those_of_two_versions),
      BOTH(lines_are_compared_to_their_ends),
      BOTH(a_text_that_only_goes_on_is_another),
      cmocka_unit_test_setup(a_file_that_does_not_fit_is_refused, by_memory),
      cmocka_unit_test_setup(a_file_without_room_is_refused, by_memory),
  };
  return cmocka_run_group_tests(tests, temporary_folder_setup, temporary_folder_teardown);
}
