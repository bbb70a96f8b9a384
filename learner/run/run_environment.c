#include "learner/run/run_environment.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "common/base/log.h"
#include "envs/env_module.h"
#include "envs/env_words.h"
#include "envs/registry.h"
#include "learner/run/folder.h"
#include "learner/network/images.h"
#include "learner/run/run_network.h"
#include "learner/serve/greeter.h"

/* A run that is played or goes on has a module of its own. */
static enum status use_module(const struct run *run, struct error *error) {
  const struct learner_options *options = run->options;
  char kept[PATH_MAX];
  bool had_run = run->evaluates || options->resume;
  bool takes_kept =
      !options->module[0] && had_run && env_module_kept(kept, sizeof(kept), options->logdir);
  return env_module_use(takes_kept ? kept : options->module, options->env, error);
}

/* What an older version wrote as bytes may be floats now, which a network reads otherwise. */
static enum status check_dtypes(const struct run *run, struct error *error) {
  struct space before;
  bool had_run = run->evaluates || run->options->resume;
  if (!had_run || folder_read_space(&before, run->options->logdir, error) != STATUS_OK)
    return STATUS_OK;
  for (int i = 0; i < before.num_tensors && i < run->space.num_tensors; i++) {
    const struct space_tensor *was = &before.tensor[i], *is = &run->space.tensor[i];
    if (was->dtype == is->dtype || strcmp(was->name, is->name) != 0) continue;
    char text[2][SPACE_TENSOR_BYTES];
    return status_fail(error, STATUS_MISMATCH,
                       "the observation '%s' of the run in %.300s is %s, and the environment now "
                       "has %s: play the run with the version that trained it, which is in its "
                       "run.json, or begin a new run",
                       is->name, run->options->logdir, space_describe_tensor(text[0], was),
                       space_describe_tensor(text[1], is));
  }
  return STATUS_OK;
}

/* From the environment's own code, which this process does not let in. */
static enum status ask_environment(struct run *run, struct error *error) {
  struct registry_answer answer;
  const struct registry_question question = {.word = run->options->env,
                                             .env_args = run->options->env_args,
                                             .asks_space = true,
                                             .limit_s = (unsigned)run->options->hang_s};
  enum status status = use_module(run, error);
  if (status == STATUS_OK) status = registry_ask_apart(&answer, &question, error);
  if (status != STATUS_OK) return status;
  run->space = answer.space;
  memcpy(run->identity, answer.identity, sizeof(run->identity));
  return check_dtypes(run, error);
}

/* From the first actor that joins: its environment is none that is known here. */
static enum status ask_actor(struct run *run, struct error *error) {
  struct wire_join_request first;
  enum status status = greeter_wait(&first, run->options->listen, run->credentials, error);
  if (status != STATUS_OK) return status;
  run->space = first.space;
  snprintf(run->identity, sizeof(run->identity), "%s", first.environment);
  return STATUS_OK;
}

/* From the folder of a run that is played: its actors brought the environment. */
static enum status ask_folder(struct run *run, struct error *error) {
  struct folder folder = {.lock = -1};
  enum status status = folder_read_space(&run->space, run->options->logdir, error);
  snprintf(folder.path, sizeof(folder.path), "%s", run->options->logdir);
  folder_read_environment(&folder, 0, run->identity, sizeof(run->identity));
  return status;
}

/* "atari({"game":"Breakout"})" is a run of atari-Breakout. */
static void name_run(struct run *run) {
  size_t length = strcspn(run->identity, "(");
  char env_args[WIRE_ENVIRONMENT_BYTES] = "";
  snprintf(run->env_name, sizeof(run->env_name), "%.*s", (int)length, run->identity);
  if (run->identity[length]) snprintf(env_args, sizeof(env_args), "%s", run->identity + length + 1);
  size_t end = strlen(env_args);
  if (end > 0) env_args[end - 1] = '\0'; /* the bracket */
  env_words_label(run->label, sizeof(run->label), run->env_name, env_args);
}

/* A network that nobody has chosen is logged where it is none of the plain ones. */
static enum status choose_network(const struct run *run, struct learner_options *options,
                                  struct error *error) {
  bool was_open = strcmp(options->network, "auto") == 0;
  int images = images_split(NULL, NULL, &run->inputs);
  enum status status = learner_options_choose_network(options, images > 0, error);
  if (status == STATUS_OK && was_open && images > 0 && learner_options_learns(options))
    log_info("network %s, as the observation has %s; --network=mlp reads numbers", options->network,
             images > 1 ? "images" : "an image");
  return status;
}

static const char *kind_of_actions(const struct space *space) {
  if (space->choices.count) return "actions of several choices";
  return space->discrete ? "discrete actions" : "continuous actions";
}

enum status run_find_environment(struct run *run, struct learner_options *options,
                                 struct error *error) {
  bool joins = strcmp(run->options->env, "join") == 0;
  bool is_known = joins && run->evaluates && ask_folder(run, error) == STATUS_OK;
  enum status status = is_known ? STATUS_OK
                       : joins  ? ask_actor(run, error)
                                : ask_environment(run, error);
  return status == STATUS_OK ? run_take_environment(run, options, error) : status;
}

enum status run_take_environment(struct run *run, struct learner_options *options,
                                 struct error *error) {
  name_run(run);
  run->policy = algorithms_policy(run->agent, &run->space);
  if (run->policy) {
    if (run->space.box) learner_options_choose_for_continuous(options);
    run_network_inputs(&run->inputs, &run->space, options);
    enum status status = choose_network(run, options, error);
    learner_options_choose_minibatches(options, run->space.box > 0);
    run->inputs.stack = (int)options->frame_stack;
    return status;
  }
  char others[256];
  algorithms_for(others, &run->space);
  return status_fail(error, STATUS_INVALID,
                     "environment '%s' has %s; agent '%s' needs %s ones%s: choose another "
                     "agent (%s)",
                     run->env_name, kind_of_actions(&run->space), run->options->agent,
                     run->agent->policies[0]->actions,
                     run->space.choices.count ? " of a single choice" : "", others);
}
