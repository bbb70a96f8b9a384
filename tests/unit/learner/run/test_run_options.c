/* The options of a run as they come to hold, and how they are kept for the next learner. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "learner/run/run_options.h"
#include "learner/run/run_parts.h"
#include "tests/unit/support/temporary_folder.h"

static char folder[TEMPORARY_FOLDER_BYTES], logdir[128];
static struct learner_options options;
static char *differences;
static struct error error;

static int setup(void **state) {
  (void)state;
  unsetenv("TF_CONFIG");
  unsetenv("PMI_RANK");
  unsetenv("PMI_SIZE");
  temporary_folder_make(folder);
  snprintf(logdir, sizeof(logdir), "--logdir=%s", folder);
  return 0;
}

static void forget(void) {
  options_deinit(&learner_options_table, &options);
  free(differences);
  differences = NULL;
}

static int teardown(void **state) {
  (void)state;
  forget();
  temporary_folder_remove(folder);
  return 0;
}

/* Reads --env=catch and the words; NULL ends them. */
static enum status read_words(const char *first, ...) {
  char *argv[16] = {(char *)"learner", (char *)"--env=catch"};
  int argc = 2;
  va_list words;
  va_start(words, first);
  for (const char *word = first; word; word = va_arg(words, const char *))
    argv[argc++] = (char *)word;
  va_end(words);
  return run_options_read(&options, &differences, argc, argv, &error);
}

static void a_resumed_run_keeps_its_options_but_for_those_given(void **state) {
  (void)state;
  assert_int_equal(read_words(logdir, "--seed=7", "--unroll_length=5", NULL), STATUS_OK);
  assert_int_equal(run_options_write(&options, folder, &error), STATUS_OK);
  forget();

  assert_int_equal(
      read_words(logdir, "--resume", "--unroll_length=9", "--listen=localhost:1234", NULL),
      STATUS_OK);
  assert_int_equal(options.seed, 7);
  assert_int_equal(options.algorithm.unroll_length, 9);
  /* How it is started is no difference. */
  assert_string_equal(differences, "resuming with --unroll_length=9; it was 5\n");
}

/* Learner 1 was not there at the last start, which had another rate; what is its own stays. */
static void a_learner_does_as_the_others_of_its_run(void **state) {
  (void)state;
  char own[192], path[160];
  snprintf(own, sizeof(own), "%s/learner-1", logdir);
  snprintf(path, sizeof(path), "%s/learner-1", folder);
  assert_int_equal(mkdir(path, 0777), 0);
  assert_int_equal(
      read_words(own, "--learning_rate=0.1", "--total_steps=9", "--trainer_threads=3", NULL),
      STATUS_OK);
  assert_int_equal(run_options_write(&options, path, &error), STATUS_OK);
  forget();
  assert_int_equal(
      read_words(logdir, "--learning_rate=0.2", "--total_steps=10", "--trainer_threads=2", NULL),
      STATUS_OK);
  assert_int_equal(run_options_write(&options, folder, &error), STATUS_OK);
  forget();
  assert_int_equal(read_words(own, "--resume", "--learner_rank=1", "--total_steps=11", NULL),
                   STATUS_OK);
  assert_true(options.optimizer.learning_rate == 0.2);
  assert_int_equal(options.total_steps, 11);
  assert_int_equal(options.trainer_threads, 3);
}

/* A batch of one window of each environment stays one when there are more of them. */
static void a_resumed_synchronous_run_follows_its_environments(void **state) {
  (void)state;
  assert_int_equal(read_words(logdir, "--agent=a2c", "--num_envs=32", NULL), STATUS_OK);
  assert_int_equal(learner_options_batch_size(&options), 32);
  assert_int_equal(run_options_write(&options, folder, &error), STATUS_OK);
  forget();

  assert_int_equal(read_words(logdir, "--resume", "--agent=a2c", "--num_envs=64", NULL), STATUS_OK);
  assert_int_equal(learner_options_batch_size(&options), 64);
  forget();

  assert_int_equal(read_words(logdir, "--resume", "--num_envs=64", "--batch_size=8", NULL),
                   STATUS_OK);
  assert_int_equal(learner_options_batch_size(&options), 8);
}

/* Its file is from before the network was chosen by the observation. */
static void a_run_without_a_network_keeps_an_mlp(void **state) {
  (void)state;
  assert_int_equal(read_words(logdir, NULL), STATUS_OK);
  assert_string_equal(options.network, "auto"); /* which the learner never writes */
  assert_int_equal(run_options_write(&options, folder, &error), STATUS_OK);
  forget();
  assert_int_equal(read_words(logdir, "--resume", NULL), STATUS_OK);
  assert_string_equal(options.network, "mlp");
  assert_int_equal(options.lstm_size, 0);
}

/* What was typed for a part that the network lacks is refused; memory is there if asked for. */
static void a_network_has_what_was_given_for_it(void **state) {
  (void)state;
  static const char *const cases[][3] = {
      {"--network=mlp", "--lstm_size=8", "network mlp has no memory"},
      {"--network=nature", "--hidden=8", "network nature has layers of its own"},
      {"--network=impala_deep", "--activation=relu", "network impala_deep has that of its own"},
      {"--network=lstm", "--normalize_images", "network lstm sees no images: leave it out"}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    assert_int_equal(read_words(cases[i][0], cases[i][1], NULL), STATUS_INVALID);
    if (!strstr(error.text, cases[i][2])) fail_msg("it says: %s", error.text);
    forget();
  }
  assert_int_equal(read_words("--network=mlp", "--lstm_size=0", NULL), STATUS_OK);
  forget();
  assert_int_equal(read_words("--network=mlp", "--no_normalize_images", NULL), STATUS_OK);
  forget();
  assert_int_equal(read_words("--lstm_size=8", NULL), STATUS_OK);
  assert_int_equal(learner_options_choose_network(&options, false, &error), STATUS_OK);
  assert_string_equal(options.network, "lstm");
}

/* By default, and of a file; what is typed is refused. */
static void windows_have_a_burn_in_where_there_is_memory(void **state) {
  (void)state;
  char config[160];
  snprintf(config, sizeof(config), "--config=%s/config.txt", folder);
  assert_int_equal(read_words("--agent=r2d2", "--network=mlp", NULL), STATUS_OK);
  assert_int_equal(options.algorithm.q_learning.burn_in, 0);
  forget();
  assert_int_equal(read_words("--agent=r2d2", "--network=mlp", "--burn_in=5", NULL),
                   STATUS_INVALID);
  assert_non_null(strstr(error.text, "--burn_in=5: network mlp has no memory (--lstm_size=0)"));
  forget();
  assert_int_equal(read_words("--agent=r2d2", "--lstm_size=0", NULL), STATUS_OK);
  assert_int_equal(learner_options_choose_network(&options, true, &error), STATUS_OK);
  assert_int_equal(options.algorithm.q_learning.burn_in, 0);
  forget();
  assert_int_equal(read_words(logdir, "--agent=r2d2", "--network=lstm", NULL), STATUS_OK);
  assert_int_equal(options.algorithm.q_learning.burn_in, 40);
  assert_int_equal(run_options_write(&options, folder, &error), STATUS_OK);
  forget();
  assert_int_equal(read_words(config, "--network=mlp", NULL), STATUS_OK);
  assert_int_equal(options.algorithm.q_learning.burn_in, 0);
}

/* A run that was made when they were accepted goes on; a new one with its file has another
 * choice. */
static void options_of_another_choice_in_a_config_are_dropped(void **state) {
  (void)state;
  char config[160];
  snprintf(config, sizeof(config), "--config=%s/config.txt", folder);
  assert_int_equal(read_words(logdir, "--adam_beta1=0.5", NULL), STATUS_OK);
  options.optimizer.rmsprop_momentum = 0.5;
  assert_int_equal(run_options_write(&options, folder, &error), STATUS_OK);
  forget();
  assert_int_equal(read_words(logdir, "--resume", NULL), STATUS_OK);
  assert_string_equal(differences, "");
  assert_true(options.optimizer.adam_beta1 == 0.5);
  assert_true(options.optimizer.rmsprop_momentum == 0);
  forget();
  assert_int_equal(read_words(config, "--optimizer=rmsprop", NULL), STATUS_OK);
  assert_true(options.optimizer.adam_beta1 == 0.9);
}

static void a_resumed_run_adjusts_its_entropy_as_before(void **state) {
  (void)state;
  assert_int_equal(read_words(logdir, "--target_entropy=0.5", NULL), STATUS_OK);
  assert_int_equal(run_options_write(&options, folder, &error), STATUS_OK);
  forget();
  assert_int_equal(read_words(logdir, "--resume", "--entropy_adjustment_speed=5", NULL),
                   STATUS_MISMATCH);
  assert_non_null(strstr(error.text, "leave --entropy_adjustment_speed out"));
  forget();
  assert_int_equal(read_words(logdir, "--resume", "--entropy_cost=0.2", NULL), STATUS_OK);
  assert_non_null(strstr(differences, "--entropy_cost has no effect"));
}

static void another_budget_moves_what_decays_over_it(void **state) {
  (void)state;
  assert_int_equal(read_words(logdir, "--entropy_cost_decay=1", "--entropy_cost=0.2",
                              "--learning_rate_decay=none", "--total_steps=10", NULL),
                   STATUS_OK);
  assert_int_equal(run_options_write(&options, folder, &error), STATUS_OK);
  forget();
  assert_int_equal(read_words(logdir, "--resume", NULL), STATUS_OK);
  assert_string_equal(differences, "");
  forget();
  assert_int_equal(read_words(logdir, "--resume", "--total_steps=20", NULL), STATUS_OK);
  assert_non_null(strstr(differences, "the learning rate does not depend on --total_steps"));
  assert_non_null(strstr(differences, "the entropy cost is 0.2 x (1 - 1 x step / total_steps)"));
}

/* The kind of network before the sizes that follow from it, both values, and what to do. */
static void a_resumed_run_keeps_its_network(void **state) {
  (void)state;
  static const struct {
    const char *word, *says;
  } cases[] = {
      {"--network=lstm", "--network=lstm: the run in "},
      {"--network=impala_deep", "has --network=mlp, and its checkpoints fit nothing else"},
      {"--network=nature", "leave --network out, or begin a new run with another --logdir"},
      {"--hidden=64", "--hidden=64: "},
      {"--lstm_size=7", "has --lstm_size=0, "},
      {"--frame_stack=4", "--frame_stack=4: "},
      {"--no_previous_action", "has --previous_action=true, "},
      {"--no_previous_reward", "has --previous_reward=true, "},
      {"--no_normalize_observations", "has --normalize_observations=true, "},
      {"--no_normalize_values", "has --normalize_values=true, "},
      {"--optimizer=rmsprop", "has --optimizer=adam, "},
      {"--curiosity=rnd", "has --curiosity=none, "}};
  assert_int_equal(read_words(logdir, "--hidden=64,64", "--network=mlp", NULL), STATUS_OK);
  assert_int_equal(run_options_write(&options, folder, &error), STATUS_OK);
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    forget();
    assert_int_equal(read_words(logdir, "--resume", cases[i].word, NULL), STATUS_MISMATCH);
    if (!strstr(error.text, cases[i].says)) fail_msg("it says: %s", error.text);
    forget();
    assert_int_equal(read_words(logdir, "--mode=evaluate", cases[i].word, NULL), STATUS_MISMATCH);
  }
  forget();
  assert_int_equal(read_words(logdir, "--resume", "--network=mlp", "--lstm_size=-1", NULL),
                   STATUS_OK);
  forget();
  assert_int_equal(read_words(logdir, "--resume", "--network=auto", NULL), STATUS_OK);
  assert_string_equal(options.network, "mlp");
}

static void a_resumed_run_can_leave_its_curiosity_out(void **state) {
  (void)state;
  assert_int_equal(read_words(logdir, "--curiosity=rnd", NULL), STATUS_OK);
  assert_int_equal(run_options_write(&options, folder, &error), STATUS_OK);
  forget();
  assert_int_equal(read_words(logdir, "--resume", "--curiosity=none", NULL), STATUS_OK);
}

/* Drops a line of config.txt, and changes another one unless target_update is NULL. */
static void rewrite_config(const char *dropped, const char *target_update) {
  char path[256], line[512], now[256];
  snprintf(path, sizeof(path), "%s/config.txt", folder);
  snprintf(now, sizeof(now), "%s/now.txt", folder);
  assert_int_equal(rename(path, now), 0);
  FILE *from = fopen(now, "r"), *to = fopen(path, "w");
  assert_true(from && to);
  while (fgets(line, sizeof(line), from)) {
    if (strncmp(line, dropped, strlen(dropped)) == 0) continue;
    bool is_target = target_update && strncmp(line, "target_update", strlen("target_update")) == 0;
    fprintf(to, is_target ? "target_update = %s\n" : "%s", is_target ? target_update : line);
  }
  assert_int_equal(fclose(from) | fclose(to), 0);
}

/* config.txt as it was written when --target_update counted updates. */
static void make_as_before(const char *target_update) {
  rewrite_config("importance_exponent_end", target_update);
}

/* As many updates as it had between two copies, and what is new stays off. */
static void a_target_that_was_counted_in_updates_is_translated(void **state) {
  (void)state;
  static const char *const words[] = {"--replay_ratio=0.75", "--replay_ratio=4", "--batch_size=0",
                                      "--unroll_length=3"};
  static const char *const agents[] = {"dqn", "double_dqn", "rainbow", "r2d2"};
  for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
    char agent[64];
    snprintf(agent, sizeof(agent), "--agent=%s", agents[i]);
    forget();
    assert_int_equal(read_words(logdir, agent, "--burn_in=0", words[i], NULL), STATUS_OK);
    assert_int_equal(run_options_write(&options, folder, &error), STATUS_OK);
    make_as_before("2500");
    for (int again = 0; again < 2; again++) { /* translated once */
      forget();
      assert_int_equal(read_words(logdir, "--resume", agent, NULL), STATUS_OK);
      assert_int_equal(learner_options_target_updates(&options), 2500);
      assert_true(options.importance_exponent_end == -1);
      assert_string_equal(differences, "");
      assert_int_equal(run_options_write(&options, folder, &error), STATUS_OK);
    }
  }
  forget();
  make_as_before("2500");
  assert_int_equal(read_words(logdir, "--resume", "--agent=r2d2", "--target_update=7000", NULL),
                   STATUS_OK);
  assert_int_equal(options.algorithm.q_learning.target_update, 7000); /* the words count steps */
}

/* It has no target, and the option's default is what it was. */
static void a_run_without_a_replay_is_left_alone(void **state) {
  (void)state;
  assert_int_equal(read_words(logdir, NULL), STATUS_OK);
  assert_int_equal(run_options_write(&options, folder, &error), STATUS_OK);
  make_as_before("2500");
  forget();
  assert_int_equal(read_words(logdir, "--resume", NULL), STATUS_OK);
  assert_int_equal(options.algorithm.q_learning.target_update, 2500);
}

/* Presets set them once, whatever the agent. On the command line they are refused. */
static void options_of_other_algorithms_in_a_config_are_dropped(void **state) {
  (void)state;
  char path[256];
  assert_int_equal(read_words(logdir, "--agent=dqn", NULL), STATUS_OK);
  assert_int_equal(run_options_write(&options, folder, &error), STATUS_OK);
  snprintf(path, sizeof(path), "%s/config.txt", folder);
  FILE *out = fopen(path, "a");
  assert_non_null(out);
  fprintf(out, "lambda = 0.9\nentropy_cost = 0.1\n");
  assert_int_equal(fclose(out), 0);
  forget();
  assert_int_equal(read_words(logdir, "--resume", "--agent=dqn", NULL), STATUS_OK);
  assert_true(options.algorithm.actor_critic.lambda == 1);
  assert_string_equal(differences, "");
  forget();
  assert_int_equal(read_words(logdir, "--resume", "--agent=dqn", "--lambda=0.8", NULL),
                   STATUS_INVALID);
}

/* A run of before the options normalised neither observations nor values, and so it goes on and is
 * evaluated; a new run with its file does, too. */
static void observations_of_a_run_of_before_stay_as_they_are(void **state) {
  (void)state;
  static const char *const how[] = {"--resume", "--mode=evaluate", NULL};
  char config[160];
  snprintf(config, sizeof(config), "--config=%s/config.txt", folder);
  assert_int_equal(read_words(logdir, NULL), STATUS_OK);
  assert_true(options.normalize_observations);
  assert_int_equal(run_options_write(&options, folder, &error), STATUS_OK);
  forget();
  assert_int_equal(read_words(logdir, "--resume", NULL), STATUS_OK);
  assert_true(options.normalize_observations);
  rewrite_config("normalize_", NULL);
  for (int i = 0; i < 3; i++) {
    forget();
    assert_int_equal(how[i] ? read_words(logdir, how[i], NULL) : read_words(config, NULL),
                     STATUS_OK);
    assert_false(options.normalize_observations);
    assert_false(options.algorithm.actor_critic.normalize_values);
    if (i == 0) assert_string_equal(differences, "");
  }
  forget();
  assert_int_equal(read_words(logdir, "--resume", "--normalize_observations", NULL),
                   STATUS_MISMATCH);
  forget();
  assert_int_equal(read_words(config, "--normalize_observations", NULL), STATUS_OK);
  assert_true(options.normalize_observations);
}

static void images_of_a_run_of_before_stay_as_they_are(void **state) {
  (void)state;
  assert_int_equal(read_words(logdir, "--agent=ppo", "--network=nature", NULL), STATUS_OK);
  assert_true(options.normalize_images);
  assert_int_equal(run_options_write(&options, folder, &error), STATUS_OK);
  forget();
  assert_int_equal(read_words(logdir, "--resume", NULL), STATUS_OK);
  assert_true(options.normalize_images);
  rewrite_config("normalize_images", NULL);
  forget();
  assert_int_equal(read_words(logdir, "--resume", NULL), STATUS_OK);
  assert_true(options.normalize_observations);
  assert_false(options.normalize_images);
  assert_string_equal(differences, "");
  forget();
  assert_int_equal(read_words(logdir, "--resume", "--normalize_images", NULL), STATUS_MISMATCH);
}

static void a_new_run_takes_nothing_from_the_folder(void **state) {
  (void)state;
  assert_int_equal(read_words(logdir, "--seed=7", NULL), STATUS_OK);
  assert_int_equal(run_options_write(&options, folder, &error), STATUS_OK);
  forget();

  assert_int_equal(read_words(logdir, NULL), STATUS_OK);
  assert_int_not_equal(options.seed, 7);
  assert_null(differences);
}

static void a_folder_without_a_run_is_not_evaluated(void **state) {
  (void)state;
  assert_int_equal(read_words(logdir, "--mode=evaluate", NULL), STATUS_NOT_FOUND);
  assert_non_null(strstr(error.text, "config.txt"));
}

/* How it trained and whose port it has is no matter of an evaluation, unless the words say so. */
static void an_evaluated_run_keeps_what_it_is_about(void **state) {
  (void)state;
  assert_int_equal(read_words(logdir, "--deterministic", "--metrics_port=9100", "--num_envs=4",
                              "--max_envs=8", "--hidden=7", NULL),
                   STATUS_OK);
  assert_int_equal(run_options_write(&options, folder, &error), STATUS_OK);
  forget();

  assert_int_equal(read_words(logdir, "--mode=evaluate", "--num_envs=16", NULL), STATUS_OK);
  assert_string_equal(options.hidden, "7");
  assert_false(options.deterministic);
  assert_int_equal(options.metrics_port, 0);
  assert_int_equal(options.max_envs, 0);
  forget();

  assert_int_equal(read_words("--max_envs=20", logdir, "--mode=evaluate", "--num_envs=16",
                              "--metrics_port=9200", NULL),
                   STATUS_OK);
  assert_int_equal(options.max_envs, 20);
  assert_int_equal(options.metrics_port, 9200);
  assert_false(options.deterministic);
}

static void a_cluster_says_where_to_listen_unless_the_words_do(void **state) {
  (void)state;
  setenv("TF_CONFIG",
         "{\"cluster\": {\"chief\": [\"a:5000\"], \"worker\": [\"b:5001\"]},"
         " \"task\": {\"type\": \"chief\", \"index\": 0}}",
         1);
  assert_int_equal(read_words(NULL, NULL), STATUS_OK);
  assert_non_null(strstr(options.listen, ":5000"));
  forget();
  assert_int_equal(read_words("--listen=localhost:1234", NULL), STATUS_OK);
  assert_string_equal(options.listen, "localhost:1234");
}

static void a_task_that_is_an_actor_is_told_so(void **state) {
  (void)state;
  setenv("TF_CONFIG",
         "{\"cluster\": {\"chief\": [\"a:5000\"], \"worker\": [\"b:5001\"]},"
         " \"task\": {\"type\": \"worker\", \"index\": 0}}",
         1);
  assert_int_equal(read_words(NULL, NULL), STATUS_INVALID);
  assert_non_null(strstr(error.text, "build/actor"));
}

static void set_world(const char *rank, const char *size) {
  setenv("PMI_RANK", rank, 1);
  setenv("PMI_SIZE", size, 1);
}

static void by_mpi_each_rank_has_its_own_place(void **state) {
  (void)state;
  set_world("0", "3");
  assert_int_equal(read_words("--learners_mpi", "--logdir=run", "--metrics_port=9", NULL),
                   STATUS_OK);
  assert_int_equal(options.learners, 3);
  assert_int_equal(options.learner_rank, 0);
  assert_string_equal(options.logdir, "run");
  assert_string_equal(options.listen, "127.0.0.1:8686");
  assert_int_equal(options.metrics_port, 9);
  forget();

  set_world("2", "3");
  assert_int_equal(
      read_words("--learners_mpi", "--logdir=run", "--metrics_port=9", "--target_return=9", NULL),
      STATUS_OK);
  assert_int_equal(options.learners, 3);
  assert_int_equal(options.learner_rank, 2);
  assert_string_equal(options.logdir, "run/learner-2");
  assert_string_equal(options.listen, "127.0.0.1:8688");
  assert_int_equal(options.metrics_port, 0);
  assert_true(isnan(options.target_return)); /* which is the first one's */
  forget();

  /* One that run_local.sh has started has all of it. */
  assert_int_equal(read_words("--learners_mpi", "--learners=3", "--learner_rank=2",
                              "--listen=unix:s", "--logdir=run/learner-2", NULL),
                   STATUS_OK);
  assert_string_equal(options.logdir, "run/learner-2");
  assert_string_equal(options.listen, "unix:s");
  forget();
  assert_int_equal(
      read_words("--learners_mpi", "--learners=3", "--learner_rank=1", "--logdir=run", NULL),
      STATUS_INVALID);
  assert_non_null(strstr(error.text, "MPI gives ranks, here 2 of 3"));
}

static void a_run_by_mpi_is_resumed_by_each_rank(void **state) {
  (void)state;
  set_world("0", "2");
  assert_int_equal(read_words("--learners_mpi", logdir, "--seed=7", NULL), STATUS_OK);
  assert_int_equal(run_options_write(&options, folder, &error), STATUS_OK);
  forget();
  set_world("2", "3"); /* it was not there before */
  assert_int_equal(read_words("--learners_mpi", logdir, "--resume", NULL), STATUS_OK);
  assert_int_equal(options.seed, 7);
  assert_int_equal(options.learners, 3);
  forget();
  /* How learners met is not kept. */
  assert_int_equal(read_words(logdir, "--resume", NULL), STATUS_OK);
  assert_false(options.learners_mpi);
  assert_int_equal(options.learners, 1);
}

/* The learners of one host divide its cores; learners at addresses have a host each. MPI's ranks
 * ("mpi") divide the machine's 64, if each was not given fewer. */
static void threads_are_as_asked_or_one_for_each_core(void **state) {
  (void)state;
  static const struct {
    const char *mode, *learners_at;
    int64_t asked, learners;
    long cores;
    int threads;
  } cases[] = {
      {"train", "", 0, 1, 1, 1},      {"train", "", 0, 1, 3, 3},     {"train", "", 0, 1, 64, 4},
      {"train", "", 0, 2, 6, 3},      {"train", "", 0, 64, 64, 1},   {"train", "", 0, 64, 2, 1},
      {"train", "", 1, 1, 64, 1},     {"train", "", 32, 64, 1, 32},  {"train", "a:1", 0, 64, 3, 3},
      {"evaluate", "", 32, 1, 1, 1},  {"evaluate", "", 0, 1, 64, 1}, {"train", "mpi", 0, 2, 3, 3},
      {"train", "mpi", 0, 32, 64, 2}, {"train", "mpi", 0, 64, 2, 1},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    char mode[16], at[16];
    snprintf(mode, sizeof(mode), "%s", cases[i].mode);
    snprintf(at, sizeof(at), "%s", cases[i].learners_at);
    struct learner_options asked = {.mode = mode,
                                    .learners_at = at,
                                    .learners = cases[i].learners,
                                    .learners_mpi = strcmp(at, "mpi") == 0,
                                    .trainer_threads = cases[i].asked};
    int threads = run_trainer_threads(&asked, cases[i].cores, 64);
    if (threads != cases[i].threads)
      fail_msg("case %zu: %d threads, not %d", i, threads, cases[i].threads);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_resumed_run_keeps_its_options_but_for_those_given, setup,
                                      teardown),
      cmocka_unit_test_setup_teardown(a_learner_does_as_the_others_of_its_run, setup, teardown),
      cmocka_unit_test_setup_teardown(a_resumed_synchronous_run_follows_its_environments, setup,
                                      teardown),
      cmocka_unit_test_setup_teardown(a_resumed_run_keeps_its_network, setup, teardown),
      cmocka_unit_test_setup_teardown(windows_have_a_burn_in_where_there_is_memory, setup,
                                      teardown),
      cmocka_unit_test_setup_teardown(options_of_another_choice_in_a_config_are_dropped, setup,
                                      teardown),
      cmocka_unit_test_setup_teardown(a_resumed_run_can_leave_its_curiosity_out, setup, teardown),
      cmocka_unit_test_setup_teardown(a_resumed_run_adjusts_its_entropy_as_before, setup, teardown),
      cmocka_unit_test_setup_teardown(another_budget_moves_what_decays_over_it, setup, teardown),
      cmocka_unit_test_setup_teardown(a_network_has_what_was_given_for_it, setup, teardown),
      cmocka_unit_test_setup_teardown(a_run_without_a_network_keeps_an_mlp, setup, teardown),
      cmocka_unit_test_setup_teardown(a_target_that_was_counted_in_updates_is_translated, setup,
                                      teardown),
      cmocka_unit_test_setup_teardown(a_run_without_a_replay_is_left_alone, setup, teardown),
      cmocka_unit_test_setup_teardown(options_of_other_algorithms_in_a_config_are_dropped, setup,
                                      teardown),
      cmocka_unit_test_setup_teardown(observations_of_a_run_of_before_stay_as_they_are, setup,
                                      teardown),
      cmocka_unit_test_setup_teardown(images_of_a_run_of_before_stay_as_they_are, setup, teardown),
      cmocka_unit_test_setup_teardown(a_new_run_takes_nothing_from_the_folder, setup, teardown),
      cmocka_unit_test_setup_teardown(a_folder_without_a_run_is_not_evaluated, setup, teardown),
      cmocka_unit_test_setup_teardown(an_evaluated_run_keeps_what_it_is_about, setup, teardown),
      cmocka_unit_test_setup_teardown(a_cluster_says_where_to_listen_unless_the_words_do, setup,
                                      teardown),
      cmocka_unit_test_setup_teardown(a_task_that_is_an_actor_is_told_so, setup, teardown),
      cmocka_unit_test_setup_teardown(by_mpi_each_rank_has_its_own_place, setup, teardown),
      cmocka_unit_test_setup_teardown(a_run_by_mpi_is_resumed_by_each_rank, setup, teardown),
      cmocka_unit_test(threads_are_as_asked_or_one_for_each_core),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
