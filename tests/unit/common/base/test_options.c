#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/options.h"

struct config {
  struct options_given given;
  bool resume, shuffle;
  int64_t total_steps, seed, offset;
  double rate, gamma;
  char *logdir, *device;
};

static const struct option rows[] = {
    {"total_steps", NULL, OPTION_INT, offsetof(struct config, total_steps), "1e6", 1, 1e18, NULL,
     "Run", "environment steps to train for"},
    {"rate", "learning_rate", OPTION_FLOAT, offsetof(struct config, rate), "6e-4", 0, 1, NULL,
     "Optimiser",
     "step size of the optimiser, which is the one number that is always worth a second run"},
    {"seed", NULL, OPTION_INT, offsetof(struct config, seed), "-1", 0, 0, NULL, "Run",
     "random seed"},
    {"offset", NULL, OPTION_INT, offsetof(struct config, offset), "0", -5, 5, NULL, "Run",
     "a small number"},
    {"gamma", NULL, OPTION_FLOAT, offsetof(struct config, gamma), "0.99", 0, 0, NULL, "Optimiser",
     "discount"},
    {"resume", NULL, OPTION_BOOL, offsetof(struct config, resume), "false", 0, 0, NULL, "Run",
     "go on"},
    {"shuffle", NULL, OPTION_BOOL, offsetof(struct config, shuffle), "true", 0, 0, NULL, "Run",
     "mix"},
    {"logdir", "job_dir", OPTION_STRING, offsetof(struct config, logdir), NULL, 0, 0, NULL, "Run",
     "run folder"},
    {"device", NULL, OPTION_CHOICE, offsetof(struct config, device), "auto", 0, 0, "auto|cpu|cuda",
     "Run", "device"},
};
static const struct option_table table = {"learner", NULL, "Trains a policy.",
                                          NULL,      rows, sizeof rows / sizeof rows[0]};

static int make(void **state) {
  struct config *config = calloc(1, sizeof *config);
  options_init(&table, config);
  *state = config;
  return 0;
}

static int unmake(void **state) {
  options_deinit(&table, *state);
  free(*state);
  return 0;
}

// Splits `line` at spaces and parses it.
static enum status parse(struct config *config, const char *line, struct error *error) {
  static char words[512];
  char *argv[32] = {"learner"};
  int argc = 1;
  snprintf(words, sizeof words, "%s", line);
  for (char *word = strtok(words, " "); word; word = strtok(NULL, " ")) argv[argc++] = word;
  argv[argc] = NULL;
  return options_parse(&table, config, argc, argv, NULL, NULL, error);
}

// Writes `text` to a new file; `path` gets its name.
static void write_file(char path[64], const char *text) {
  strcpy(path, "/tmp/test_options_XXXXXX");
  int file = mkstemp(path);
  assert_true(file >= 0);
  assert_int_equal(write(file, text, strlen(text)), strlen(text));
  close(file);
}

static void test_defaults(void **state) {
  struct config *config = *state;
  assert_int_equal(config->total_steps, 1000000);
  assert_int_equal(config->seed, -1);
  assert_true(config->rate == 6e-4);
  assert_false(config->resume);
  assert_true(config->shuffle);
  assert_string_equal(config->logdir, "");
  assert_string_equal(config->device, "auto");
  assert_false(options_given(&table, config, "seed"));
}

static void test_syntax(void **state) {
  struct config *config = *state;
  struct error error = {""};
  assert_int_equal(
      parse(config,
            "--total-steps=2M --seed 7 --resume --no_shuffle --job-dir=x --device cpu --offset -3",
            &error),
      STATUS_OK);
  assert_int_equal(config->total_steps, 2000000);
  assert_int_equal(config->seed, 7);
  assert_int_equal(config->offset, -3);
  assert_true(config->resume);
  assert_false(config->shuffle);
  assert_string_equal(config->logdir, "x");
  assert_string_equal(config->device, "cpu");
  assert_true(options_given(&table, config, "logdir") && options_given(&table, config, "shuffle"));
  assert_false(options_given(&table, config, "rate"));

  // Later wins, also over a flag.
  assert_int_equal(
      parse(config, "--seed=1 --seed=2 --resume=no --shuffle=1 --no-shuffle --logdir=", &error),
      STATUS_OK);
  assert_int_equal(config->seed, 2);
  assert_false(config->resume);
  assert_false(config->shuffle);
  assert_string_equal(config->logdir, "");
}

static void test_numbers(void **state) {
  struct config *config = *state;
  static const struct {
    const char *text;
    int64_t value;
  } good[] = {
      {"0", 0},
      {"-12", -12},
      {"500k", 500000},
      {"2M", 2000000},
      {"1G", 1000000000},
      {"1e6", 1000000},
      {"1.5k", 1500},
      {"1.1M", 1100000},
      {"2.5e1", 25},
      {"+3", 3},
      {"007", 7},
      {"4.0", 4},
      {"9007199254740993", 9007199254740993},
      {"9223372036854775807", INT64_MAX},
      {"-9223372036854775808", INT64_MIN},
  };
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    struct error error = {""};
    if (options_set(&table, config, "seed", good[i].text, "", &error) != STATUS_OK)
      fail_msg("%s", error.text);
    if (config->seed != good[i].value)
      fail_msg("%s is read as %lld", good[i].text, (long long)config->seed);
  }
  static const char *const bad[] = {"",        " 1",  "1.5", "0.5",   "1e-1",
                                    "1.0001k", "abc", "1x",  "1kk",   "1 000",
                                    "0x10",    "nan", "inf", "1e400", "9223372036854775808",
                                    "1e19",    "k",   "-",   "1e",    "12345.678"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    struct error error = {""};
    config->seed = 42;
    if (options_set(&table, config, "seed", bad[i], "", &error) != STATUS_INVALID)
      fail_msg("'%s' is taken", bad[i]);
    assert_int_equal(config->seed, 42);
  }
}

static void test_refused(void **state) {
  static const struct {
    const char *line, *why;
  } cases[] = {
      {"--totl_steps=5", "--totl_steps: there is no such option; did you mean --total_steps?"},
      {"--total=5", "did you mean --total_steps?"},
      {"--learning_rte=5", "did you mean --learning_rate?"},
      {"--xyzzy", "--xyzzy: there is no such option; --help lists them all"},
      {"--total_steps=0", "--total_steps: '0' is out of range; allowed: at least 1"},
      {"--offset=6", "--offset: '6' is out of range; allowed: -5..5"},
      {"--rate=1.01", "--rate: '1.01' is out of range; allowed: 0..1"},
      {"--rate=fast", "--rate: 'fast' is not a number; allowed: 0..1"},
      {"--gamma=nan", "--gamma: 'nan' is not a number"},
      {"--seed=1.5", "--seed: '1.5' is not a whole number"},
      {"--seed=10K", "--seed: '10K' is not a whole number as 1500000, 1.5e6, 1500k or 1.5M are"},
      {"--seed", "--seed: its value is missing; write --seed=VALUE"},
      {"--seed --resume", "--seed: its value is missing"},
      {"--config", "--config: its value is missing"},
      {"--resume=maybe", "--resume: 'maybe' is neither true nor false"},
      {"--no_resume=1", "--no_resume takes no value; write --no_resume alone, or --resume=false"},
      {"--no_seed", "--no_seed: there is no such option"},
      {"--device=tpux", "--device: 'tpux' is not one of its values; allowed: auto, cpu, cuda"},
      {"--device=cudda",
       "is not one of its values (did you mean 'cuda'?); allowed: auto, cpu, cuda"},
      {"--device=auto|cpu", "is not one of its values"},
      {"--device=", "is not one of its values"},
      {"cartpole", "'cartpole' is not expected here"},
      {"-s", "'-s' is no option: they start with two dashes"},
      {"-- x", "'x' is not expected here"},
      {"--config=/nowhere/x", "cannot read the config file '/nowhere/x': No such file"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct error error = {""};
    assert_int_equal(parse(*state, cases[i].line, &error), STATUS_INVALID);
    if (!strstr(error.text, cases[i].why)) fail_msg("%s: %s", cases[i].line, error.text);
  }
}

static void test_positional(void **state) {
  struct config *config = *state;
  struct error error = {""};
  char *argv[] = {"launch", "cartpole", "--seed=3", "vtrace", "--", "--seed=4", "4", NULL};
  char *positional[7];
  int count = -1;
  assert_int_equal(options_parse(&table, config, 7, argv, positional, &count, &error), STATUS_OK);
  assert_int_equal(count, 4);
  assert_string_equal(positional[0], "cartpole");
  assert_string_equal(positional[1], "vtrace");
  assert_string_equal(positional[2], "--seed=4");
  assert_string_equal(positional[3], "4");
  assert_int_equal(config->seed, 3);
}

static void test_file(void **state) {
  struct config *config = *state;
  struct error error = {""};
  char path[64], line[128];
  write_file(path,
             "\xef\xbb\xbf# a comment\n\n  total-steps = 5k # and "
             "another\nlogdir=runs/a#b\n\tdevice = \"cpu\" "
             "# quoted\nseed = 1");
  // The command line wins wherever it stands.
  snprintf(line, sizeof line, "--seed=9 --config %s", path);
  if (parse(config, line, &error) != STATUS_OK) fail_msg("%s", error.text);
  assert_int_equal(config->total_steps, 5000);
  assert_string_equal(config->logdir, "runs/a#b");
  assert_string_equal(config->device, "cpu");
  assert_int_equal(config->seed, 9);
  assert_true(options_given(&table, config, "device"));
  unlink(path);
}

static void test_bad_files(void **state) {
  static const struct {
    const char *text, *why;
  } cases[] = {
      {"seed = 1\nseeed = 2\n", ", line 2: --seeed: there is no such option; did you mean --seed?"},
      {"seed\n", ", line 1: 'seed' is not 'name = value'"},
      {"\n\nseed = x\n", ", line 3: --seed: 'x' is not a whole number"},
      {"logdir = \"a\n", ", line 1: --logdir: its value has no closing quote at its end"},
      {"logdir = \"a\" b\n", ", line 1: --logdir: its value has no closing quote at its end"},
      {"config = other\n", ", line 1: --config: there is no such option"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct error error = {""};
    char path[64];
    write_file(path, cases[i].text);
    assert_int_equal(options_read_file(&table, *state, path, &error), STATUS_INVALID);
    if (!strstr(error.text, cases[i].why)) fail_msg("%s", error.text);
    assert_non_null(strstr(error.text, path));
    unlink(path);
  }
}

// What follows a byte 0 would not be read, and nobody would know.
static void test_a_file_with_a_byte_0(void **state) {
  static const char text[] = "seed = 1\nlogdir = a\0b\nseed = 2\n";
  struct error error = {""};
  char path[64];
  write_file(path, "");
  FILE *file = fopen(path, "w");
  fwrite(text, 1, sizeof text - 1, file);
  fclose(file);
  assert_int_equal(options_read_file(&table, *state, path, &error), STATUS_INVALID);
  assert_non_null(strstr(error.text, ", line 2: there is a byte 0 in it"));
  unlink(path);
}

static void test_a_file_without_end(void **state) {
  struct error error = {""};
  assert_int_equal(options_read_config(&table, *state, "/dev/zero", &error), STATUS_INVALID);
  assert_non_null(
      strstr(error.text, "cannot read the config file '/dev/zero': it has 1 MiB or more"));
  assert_int_equal(options_read_config(&table, *state, "/dev/null", &error), STATUS_OK);
}

static void test_written_options_read_back(void **state) {
  struct config *config = *state;
  static const char *const strings[] = {"",    "plain",      " spaces ", "a # b",
                                        "#",   "say \"hi\"", "\"",       "back\\slash",
                                        "\\n", "two\nlines", "a = b",    "\"q\\\" # x"};
  for (size_t i = 0; i < sizeof strings / sizeof strings[0]; i++) {
    struct error error = {""};
    assert_int_equal(options_set(&table, config, "logdir", strings[i], "", &error), STATUS_OK);
    config->rate = 0.1 + 0.2;
    config->seed = INT64_MIN + 1;
    config->resume = true;

    char *text;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    options_write(&table, config, NULL, 0, out);
    fclose(out);
    char path[64];
    write_file(path, text);
    struct config other;
    options_init(&table, &other);
    if (options_read_file(&table, &other, path, &error) != STATUS_OK) fail_msg("%s", error.text);
    assert_string_equal(other.logdir, strings[i]);
    assert_true(other.rate == config->rate);
    assert_true(other.seed == config->seed);
    assert_true(other.resume);
    options_deinit(&table, &other);
    unlink(path);
    free(text);
  }
}

static void test_rows_that_are_left_out_are_comments(void **state) {
  struct config *config = *state, again = {0};
  struct error error;
  assert_int_equal(parse(config, "--seed=5 --logdir=here --rate=0.5", &error), STATUS_OK);
  static const char *const names[] = {"logdir", "rate"};
  char *text;
  size_t bytes;
  FILE *out = open_memstream(&text, &bytes);
  options_write(&table, config, names, 2, out);
  fclose(out);
  assert_non_null(strstr(text, "\n# logdir = here\n"));
  assert_non_null(strstr(text, "\n# rate = 0.5\n"));
  assert_non_null(strstr(text, "\nseed = 5\n"));

  char path[64];
  write_file(path, text);
  options_init(&table, &again);
  assert_int_equal(options_read_file(&table, &again, path, &error), STATUS_OK);
  assert_int_equal(again.seed, 5);
  assert_false(options_given(&table, &again, "logdir"));
  options_deinit(&table, &again);
  unlink(path);
  free(text);
}

static void note_difference(void *context, const struct option *option, const char *a,
                            const char *b) {
  char *notes = context;
  size_t length = strlen(notes);
  snprintf(notes + length, 256 - length, "%s %s %s;", option->name, a, b);
}

static void test_compare(void **state) {
  struct config *config = *state, other;
  struct error error;
  char notes[256] = "";
  options_init(&table, &other);
  options_compare(&table, config, &other, note_difference, notes);
  assert_string_equal(notes, "");
  assert_int_equal(parse(config, "--rate=0.5 --no_shuffle --logdir=here", &error), STATUS_OK);
  options_compare(&table, config, &other, note_difference, notes);
  assert_string_equal(notes, "rate 0.5 0.0006;shuffle false true;logdir here ;");
  options_deinit(&table, &other);
}

static void test_help(void **state) {
  (void)state;
  static const char expected[] =
      "Usage: learner [--name=value ...]\n"
      "\n"
      "Trains a policy.\n"
      "\n"
      "Run:\n"
      "  --total_steps=N           environment steps to train for (default 1e6; at\n"
      "                            least 1)\n"
      "  --seed=N                  random seed (default -1)\n"
      "  --offset=N                a small number (default 0; -5..5)\n"
      "  --resume                  go on\n"
      "  --[no_]shuffle            mix (on by default)\n"
      "  --logdir=TEXT             run folder (also --job_dir)\n"
      "  --device=auto|cpu|cuda    device (default auto)\n"
      "\n"
      "Optimiser:\n"
      "  --rate=X                  step size of the optimiser, which is the one number\n"
      "                            that is always worth a second run (default 6e-4;\n"
      "                            0..1; also --learning_rate)\n"
      "  --gamma=X                 discount (default 0.99)\n"
      "\n"
      "General:\n";
  char *text;
  size_t bytes;
  FILE *out = open_memstream(&text, &bytes);
  options_help(&table, out);
  fclose(out);
  text[strlen(expected)] = '\0';
  assert_string_equal(text, expected);
  free(text);
}

/* Tables of a few options have no groups. */
static void test_markdown_without_groups(void **state) {
  (void)state;
  static const struct option few[] = {
      {"fast", NULL, OPTION_BOOL, 0, "true", 0, 0, NULL, NULL, "hurry"},
      {"seed", NULL, OPTION_INT, 0, "1", 0, 9, NULL, NULL, "random seed"}};
  static const struct option_table small = {"learner", NULL, "Trains.", NULL, few, 2};
  char *text;
  size_t bytes;
  FILE *out = open_memstream(&text, &bytes);
  options_markdown(&small, out);
  fclose(out);
  const char *first = strstr(text, "### Options");
  assert_non_null(first);
  assert_null(strstr(first + 1, "###"));
  assert_non_null(strstr(first, "`--seed`"));
  free(text);
}

static void test_markdown(void **state) {
  (void)state;
  static const struct option few[] = {
      {"logdir", "job_dir", OPTION_STRING, 0, "", 0, 0, NULL, "Run", "default runs/<env>"},
      {"fast", NULL, OPTION_BOOL, 0, "true", 0, 0, NULL, "Speed", "a|b"},
      {"seed", NULL, OPTION_INT, 0, "1", 0, 9, NULL, "Run", "random seed"},
  };
  static const struct option_exit exits[] = {{"0", "it is over"}, {"3", "a|b"}, {NULL, NULL}};
  static const struct option_table small = {"learner", NULL, "Trains a policy.", exits, few, 3};
  static const char expected[] =
      "## learner\n\nTrains a policy.\n"
      "\n### Run\n\n"
      "| option | default | values | meaning |\n|---|---|---|---|\n"
      "| `--logdir`, `--job_dir` |  |  | default runs/\\<env> |\n"
      "| `--seed` | `1` | 0..9 | random seed |\n"
      "\n### Speed\n\n"
      "| option | default | values | meaning |\n|---|---|---|---|\n"
      "| `--fast` | `true` | true, false | a\\|b |\n"
      "\n### Exit codes\n\n| code | meaning |\n|---|---|\n| 0 | it is over |\n| 3 | a\\|b |\n"
      "\n";
  char *text;
  size_t bytes;
  FILE *out = open_memstream(&text, &bytes);
  options_markdown(&small, out);
  fclose(out);
  assert_string_equal(text, expected);
  free(text);
  out = open_memstream(&text, &bytes);
  options_help(&small, out);
  fclose(out);
  assert_non_null(strstr(text,
                         "\nExit codes:\n"
                         "  0                         it is over\n"
                         "  3                         a|b\n\n"));
  free(text);
}

static void test_help_is_asked_for(void **state) {
  static const char *const lines[] = {"--help", "-h", "--nonsense --help", "--seed=1 -h",
                                      "--help=markdown"};
  FILE *null = fopen("/dev/null", "w");
  FILE *shown = stdout;
  for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
    struct error error = {""};
    stdout = null;
    enum status status = parse(*state, lines[i], &error);
    stdout = shown;
    assert_int_equal(status, STATUS_DONE);
  }
  fclose(null);
}

static void test_nearest(void **state) {
  (void)state;
  static const char *const words[] = {"cartpole", "catch", "tmaze", "atari", "gym", "x"};
  static const struct {
    const char *typed, *nearest;
  } cases[] = {
      {"cartpol", "cartpole"},
      {"CartPole", "cartpole"},
      {"catrpole", "cartpole"},
      {"cacth", "catch"},
      {"tmaz", "tmaze"},
      {"ata", "atari"},
      {"gmy", "gym"},
      {"y", NULL},
      {"", NULL},
      {"football", NULL},
      {"cart-pole", "cartpole"},
      {"ab", NULL},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const char *nearest = options_nearest_word(words, 6, cases[i].typed);
    if (!cases[i].nearest != !nearest || (nearest && strcmp(nearest, cases[i].nearest) != 0)) {
      fail_msg("'%s' is taken for '%s'", cases[i].typed, nearest ? nearest : "nothing");
    }
  }
  // A word longer than any name is near to none.
  char long_word[500];
  memset(long_word, 'a', sizeof long_word);
  long_word[499] = '\0';
  assert_null(options_nearest_word(words, 6, long_word));
}

static void test_nearest_over_tables(void **state) {
  (void)state;
  static const struct option more[] = {{.name = "gammas"}};
  static const struct option_table other = {"actor", NULL, "", NULL, more, 1};
  const struct option_target tables[] = {{&table, NULL}, {&other, NULL}};
  assert_string_equal(options_nearest(tables, 2, "gamas"), "gammas");
  assert_string_equal(options_nearest(tables, 1, "gamas"), "gamma");
  assert_string_equal(options_nearest(tables, 1, "confg"), "config");
  assert_null(options_nearest(tables, 2, "quicksilver"));
}

#define WITH_CONFIG(test) cmocka_unit_test_setup_teardown(test, make, unmake)

int main(void) {
  const struct CMUnitTest tests[] = {
      WITH_CONFIG(test_defaults),
      WITH_CONFIG(test_syntax),
      WITH_CONFIG(test_numbers),
      WITH_CONFIG(test_refused),
      WITH_CONFIG(test_positional),
      WITH_CONFIG(test_file),
      WITH_CONFIG(test_bad_files),
      WITH_CONFIG(test_a_file_with_a_byte_0),
      WITH_CONFIG(test_a_file_without_end),
      WITH_CONFIG(test_written_options_read_back),
      WITH_CONFIG(test_help_is_asked_for),
      cmocka_unit_test(test_help),
      cmocka_unit_test(test_markdown),
      cmocka_unit_test(test_markdown_without_groups),
      WITH_CONFIG(test_rows_that_are_left_out_are_comments),
      WITH_CONFIG(test_compare),
      cmocka_unit_test(test_nearest),
      cmocka_unit_test(test_nearest_over_tables),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
