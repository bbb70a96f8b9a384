#include "deploy/checks.h"

#include <stdbool.h>
#include <string.h>

#include "envs/registry.h"
#include "learner/options.h"

// Whether it is one of the words of "a|b|c".
static bool is_choice(const char *word, const char *choices) {
  size_t length = strlen(word);
  for (const char *at = choices; *at; at += strcspn(at, "|"), at += *at == '|')
    if (strcspn(at, "|") == length && strncmp(at, word, length) == 0) return true;
  return false;
}

enum status checks_order(const struct arguments *words, struct error *error) {
  const struct option *agents = options_find(&learner_options_table, "agent");
  const struct acorn_env *env;
  if (!is_choice(words->env, agents->choices) ||
      registry_find(&env, words->agent, NULL) != STATUS_OK)
    return STATUS_OK;
  return status_fail(error, STATUS_INVALID,
                     "%s is an agent and %s an environment; the order is ENV AGENT NUM_ACTORS "
                     "[ENVS_PER_ACTOR]: ./run_local.sh %s %s %d",
                     words->env, words->agent, words->agent, words->env, words->num_actors);
}

enum status checks_listen(const char *listen, struct error *error) {
  const char *colon = strrchr(listen, ':');
  if (strncmp(listen, "unix:", 5) == 0 || !colon) return STATUS_OK;
  size_t zeros = strspn(colon + 1, "0");
  if (zeros == 0 || colon[1 + zeros]) return STATUS_OK;
  return status_fail(error, STATUS_INVALID,
                     "--listen=%.200s: name a port, since this run's actors have to know it, or "
                     "leave --listen out",
                     listen);
}

enum status checks_options(struct arguments *arguments, const char *env,
                           struct learner_options *learner, struct actor_options *actor,
                           struct error *error) {
  struct words *for_learner = &arguments->learner, *for_actor = &arguments->actor;
  options_init(&learner_options_table, learner);
  options_init(&actor_options_table, actor);
  words_add(for_learner, words_format("--env=%s", env));
  words_add(for_learner, words_format("--agent=%s", arguments->agent));
  for_learner->word[0] = for_actor->word[0] = "launch";
  enum status status = options_parse(&learner_options_table, learner, for_learner->count,
                                     for_learner->word, NULL, NULL, error);
  if (status != STATUS_OK) return status;
  return options_parse(&actor_options_table, actor, for_actor->count, for_actor->word, NULL, NULL,
                       error);
}
