// episodes.csv over new numbers, resumes, odd names and files that are no table.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "learner/report/episodes_file.h"
#include "tests/unit/support/temporary_folder.h"

static char folder[TEMPORARY_FOLDER_BYTES];
static struct episode_log *episodes;
static struct progress *progress;
static struct episodes_file file;
static struct error error;

#define COLUMNS "seconds,step,actor,environment,role,return,length,one_in"

static int setup(void **state) {
  (void)state;
  temporary_folder_make(folder);
  episodes = episode_log_create();
  progress = progress_create(&(struct progress_config){.target_return = NAN, .log = episodes});
  return 0;
}

static int teardown(void **state) {
  (void)state;
  episodes_file_close(&file);
  progress_destroy(progress);
  episode_log_destroy(episodes);
  temporary_folder_remove(folder);
  return 0;
}

static enum status open_at(int64_t step) {
  return episodes_file_open(&file, folder, step, 0, 1.5, &error);
}

/* An episode with one number, or none. */
static void end(bool eval, const char *actor, const char *name, double value) {
  struct wire_number number = {.value = value};
  snprintf(number.name, sizeof(number.name), "%s", name ? name : "");
  struct progress_episode episode = {.eval = eval,
                                     .environment = 3,
                                     .episode_return = -2.5,
                                     .length = 7,
                                     .actor = actor,
                                     .number = &number,
                                     .num_numbers = name != NULL};
  progress_add_steps(progress, 10);
  progress_add_episode(progress, &episode);
}

/* The file without the seconds, which the clock gives. */
static const char *text(void) {
  static char out[TEMPORARY_TEXT_BYTES];
  char *to = out;
  for (const char *line = temporary_folder_read(folder, "episodes.csv"); *line;) {
    const char *comma = strchr(line, ','), *next = strchr(line, '\n') + 1;
    const char *from = line[0] == 's' ? line : comma;
    memcpy(to, from, (size_t)(next - from));
    to += next - from;
    line = next;
  }
  *to = '\0';
  return out;
}

static void a_row_for_each_episode(void **state) {
  (void)state;
  assert_int_equal(open_at(0), STATUS_OK);
  episodes_file_write(&file, episodes, progress, 1);
  assert_string_equal(text(), "");
  end(false, "actor/0/0", NULL, 0);
  end(true, "eval/0/0", NULL, 0);
  end(false, "a,\"b\"", NULL, 0);
  episodes_file_write(&file, episodes, progress, 2);
  assert_string_equal(text(), COLUMNS
                      "\n,10,actor/0/0,3,train,-2.5,7,1\n,20,eval/0/0,3,eval,-2.5,7,1\n"
                      ",30,\"a,\"\"b\"\"\",3,train,-2.5,7,1\n");
}

static void a_new_number_extends_the_header(void **state) {
  (void)state;
  assert_int_equal(open_at(0), STATUS_OK);
  end(false, "a", "won", 1);
  episodes_file_write(&file, episodes, progress, 1);
  end(false, "a", "speed", 0.25);
  end(false, "a", "won", NAN);
  episodes_file_write(&file, episodes, progress, 2);
  assert_string_equal(text(), COLUMNS
                      ",env/won,env/speed\n,10,a,3,train,-2.5,7,1,1\n"
                      ",20,a,3,train,-2.5,7,1,,0.25\n,30,a,3,train,-2.5,7,1,,\n");
  assert_string_equal(temporary_folder_read(folder, "episodes.csv.new"), "");
}

static void a_resumed_run_cuts_what_it_makes_again(void **state) {
  (void)state;
  temporary_folder_write(folder, "episodes.csv",
                         COLUMNS
                         ",env/old\n1.000,5,a,3,train,-2.5,7,1,4\n"
                         "1.100,6,a,3,train,-2.5,7,1,4\n1.200,7,a,3,tr");
  progress_restore(progress, 5, 1);
  assert_int_equal(open_at(5), STATUS_OK);
  end(false, "a", "new", 8);
  episodes_file_write(&file, episodes, progress, 1);
  assert_string_equal(text(), COLUMNS
                      ",env/old,env/new\n,5,a,3,train,-2.5,7,1,4\n"
                      ",15,a,3,train,-2.5,7,1,,8\n");
}

static void all_of_it_may_be_cut(void **state) {
  (void)state;
  temporary_folder_write(folder, "episodes.csv", COLUMNS "\n1.000,5,a,3,train,-2.5,7,1\n");
  assert_int_equal(open_at(0), STATUS_OK);
  assert_string_equal(text(), COLUMNS "\n");
}

static void another_file_of_that_name_is_left_alone(void **state) {
  (void)state;
  static const char *const texts[] = {"my,table\n1,2\n",    "no end of line", COLUMNS ",speed\n",
                                      COLUMNS ",env/a b\n", COLUMNS "x\n",    COLUMNS ",env/\n"};
  for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
    temporary_folder_write(folder, "episodes.csv", texts[i]);
    assert_int_equal(open_at(0), STATUS_IO);
    assert_non_null(strstr(error.text, "is no table of episodes"));
    end(false, "a", NULL, 0);
    episodes_file_write(&file, episodes, progress, 1);
    assert_string_equal(temporary_folder_read(folder, "episodes.csv"), texts[i]);
  }
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest tests[] = {
      TEST(a_row_for_each_episode),
      TEST(a_new_number_extends_the_header),
      TEST(a_resumed_run_cuts_what_it_makes_again),
      TEST(all_of_it_may_be_cut),
      TEST(another_file_of_that_name_is_left_alone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
