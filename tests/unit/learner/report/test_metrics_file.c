// metrics.jsonl over resumes, crashes and a disk that is full (a limit on the size of files).
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "learner/report/metrics_file.h"
#include "tests/unit/support/temporary_folder.h"

static char folder[TEMPORARY_FOLDER_BYTES];
static struct metrics *metrics;
static struct metrics_file file;
static struct error error;

static void write_text(const char *name, const char *text) {
  temporary_folder_write(folder, name, text);
}

static void assert_text(const char *name, const char *expected) {
  assert_string_equal(temporary_folder_read(folder, name), expected);
}

static void open_at(int64_t step) {
  assert_int_equal(metrics_file_open(&file, folder, step, &error), STATUS_OK);
}

static void lines_are_appended(void **state) {
  (void)state;
  open_at(0);
  assert_int_equal(file.step, -1);
  metrics_file_write(&file, metrics, 10, 0.25);
  metrics_file_write(&file, metrics, 20, 0.5);
  assert_int_equal(file.step, 20);
  assert_text("metrics.jsonl", "{\"step\":10,\"seconds\":0.25}\n{\"step\":20,\"seconds\":0.5}\n");
}

static void a_resumed_run_sets_aside_what_it_makes_again(void **state) {
  (void)state;
  write_text("metrics.jsonl",
             "{\"step\":10,\"seconds\":1.5}\n{\"step\":20,\"seconds\":2}\n"
             "{\"step\":30,\"seconds\":3}\n{\"step\":40,\"sec");
  open_at(25);
  assert_int_equal(file.step, 20);
  metrics_file_write(&file, metrics, 35, 0.5);
  assert_text("metrics.jsonl",
              "{\"step\":10,\"seconds\":1.5}\n{\"step\":20,\"seconds\":2}\n"
              "{\"step\":35,\"seconds\":2.5}\n");
  assert_text("metrics.lost.jsonl", "{\"step\":30,\"seconds\":3}\n{\"step\":40,\"sec\n");
}

static void what_is_whole_and_not_past_the_checkpoint_stays(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int64_t step;
    const char *stays;
  } cases[] = {
      {"", 5, ""},
      {"{\"step\":10,\"seconds\":1}\n", 10, "{\"step\":10,\"seconds\":1}\n"},
      {"{\"step\":10,\"seconds\":1}\n", 9, ""},
      {"{\"step\":0,\"seconds\":1}\n{\"step\":7,\"seconds\":2}\n", 0,
       "{\"step\":0,\"seconds\":1}\n"},
      {"{\"step\":10,\"seconds\":1}", 10, ""}, // torn, though it could be read
      {"{\"step\":10,\"seconds\":1}\n\n", 10, "{\"step\":10,\"seconds\":1}\n"},
      {"{\"step\":10,\"seconds\":1}\nnonsense\n[1]\n", 10, "{\"step\":10,\"seconds\":1}\n"},
      {"nonsense", 10, ""},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    write_text("metrics.jsonl", cases[i].text);
    open_at(cases[i].step);
    metrics_file_close(&file);
    assert_text("metrics.jsonl", cases[i].stays);
  }
}

static void lost_lines_of_several_resumes_are_kept(void **state) {
  (void)state;
  write_text("metrics.jsonl", "{\"step\":10,\"seconds\":1}\n{\"step\":20,\"seconds\":2}\n");
  open_at(15);
  metrics_file_write(&file, metrics, 16, 1);
  metrics_file_close(&file);
  open_at(5);
  assert_text("metrics.jsonl", "");
  assert_text("metrics.lost.jsonl",
              "{\"step\":20,\"seconds\":2}\n{\"step\":10,\"seconds\":1}\n"
              "{\"step\":16,\"seconds\":2.0}\n");
}

/* A crash in the middle of a line, twice. */
static void lines_that_were_torn_do_not_run_into_each_other(void **state) {
  (void)state;
  const char *text = "{\"step\":10,\"seconds\":1}\n{\"step\":20,\"se";
  write_text("metrics.jsonl", text);
  open_at(20);
  metrics_file_close(&file);
  write_text("metrics.jsonl", text);
  open_at(20);
  metrics_file_write(&file, metrics, 30, 1);
  assert_text("metrics.jsonl", "{\"step\":10,\"seconds\":1}\n{\"step\":30,\"seconds\":2.0}\n");
  assert_text("metrics.lost.jsonl", "{\"step\":20,\"se\n{\"step\":20,\"se\n");
}

static void limit_files(rlim_t bytes) {
  struct rlimit limit;
  getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = bytes;
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void a_line_that_does_not_fit_is_taken_back(void **state) {
  (void)state;
  open_at(0);
  metrics_file_write(&file, metrics, 10, 1);
  limit_files(40); // room for half of the next line
  metrics_file_write(&file, metrics, 20, 2);
  metrics_file_write(&file, metrics, 30, 3);
  assert_true(file.failing);
  limit_files(RLIM_INFINITY);
  assert_text("metrics.jsonl", "{\"step\":10,\"seconds\":1.0}\n");
  metrics_file_write(&file, metrics, 40, 4);
  assert_false(file.failing);
  assert_text("metrics.jsonl", "{\"step\":10,\"seconds\":1.0}\n{\"step\":40,\"seconds\":4.0}\n");
}

// Rather a file that goes back than lines that are gone.
static void without_room_to_set_them_aside_lines_stay(void **state) {
  (void)state;
  const char *text = "{\"step\":10,\"seconds\":1}\n{\"step\":20,\"seconds\":2}\n";
  write_text("metrics.jsonl", text);
  limit_files(0);
  open_at(10);
  limit_files(RLIM_INFINITY);
  assert_text("metrics.jsonl", text);
}

static void without_room_a_torn_line_goes(void **state) {
  (void)state;
  write_text("metrics.jsonl",
             "{\"step\":10,\"seconds\":1}\n{\"step\":20,\"seconds\":2}\n{\"step\":3");
  write_text("metrics.lost.jsonl", "{\"step\":5,\"seconds\":1}\n");
  limit_files(30); // a part of what would be moved
  open_at(10);
  limit_files(RLIM_INFINITY);
  metrics_file_write(&file, metrics, 15, 1);
  assert_text("metrics.jsonl",
              "{\"step\":10,\"seconds\":1}\n{\"step\":20,\"seconds\":2}\n"
              "{\"step\":15,\"seconds\":2.0}\n");
  assert_text("metrics.lost.jsonl", "{\"step\":5,\"seconds\":1}\n");
}

static void a_file_that_cannot_be_made_is_an_error_and_then_nothing(void **state) {
  (void)state;
  assert_int_equal(metrics_file_open(&file, "/nowhere/at/all", 0, &error), STATUS_IO);
  assert_non_null(strstr(error.text, "/nowhere/at/all/metrics.jsonl"));
  metrics_file_write(&file, metrics, 10, 1);
}

static int setup(void **state) {
  (void)state;
  temporary_folder_make(folder);
  metrics = metrics_create(1);
  file.fd = -1;
  signal(SIGXFSZ, SIG_IGN);
  return 0;
}

static int teardown(void **state) {
  (void)state;
  metrics_file_close(&file);
  metrics_destroy(metrics);
  unlink(temporary_folder_path(folder, "metrics.jsonl"));
  unlink(temporary_folder_path(folder, "metrics.lost.jsonl"));
  return rmdir(folder);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(lines_are_appended),
      TEST(a_resumed_run_sets_aside_what_it_makes_again),
      TEST(what_is_whole_and_not_past_the_checkpoint_stays),
      TEST(lost_lines_of_several_resumes_are_kept),
      TEST(a_line_that_does_not_fit_is_taken_back),
      TEST(without_room_to_set_them_aside_lines_stay),
      TEST(without_room_a_torn_line_goes),
      TEST(lines_that_were_torn_do_not_run_into_each_other),
      TEST(a_file_that_cannot_be_made_is_an_error_and_then_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
