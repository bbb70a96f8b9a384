#include "learner/run/agents.h"

#include <stdio.h>
#include <string.h>

#include "common/base/check.h"
#include "learner/learn/algorithms.h"
#include "learner/network/names.h"

bool agents_list_has(const char *list, const char *word) {
  size_t length = strlen(word);
  if (!list[0]) return true;
  for (const char *at = list; at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL)
    if (strncmp(at, word, length) == 0 && (at[length] == '\0' || at[length] == '|')) return true;
  return false;
}

static const struct agent {
  const char *name, *network, *options;
  enum algorithm_pace pace;
  int evaluators;
} agents[] = {
#define AGENT(name, algorithm, policy, network, pace, evaluators, options, help) \
  {#name, network, options, pace, evaluators},
    ALGORITHMS(AGENT)
#undef AGENT
};

static const struct network_row {
  const char *name;
  bool of_images;
  int lstm_size;
} network_rows[] = {
#define NETWORK(name, of_images, lstm_size) {#name, of_images, lstm_size},
    NETWORKS(NETWORK)
#undef NETWORK
};

/* NULL: none of these, such as auto. */
static const struct network_row *network_of(const struct learner_options *options) {
  for (size_t i = 0; i < sizeof(network_rows) / sizeof(network_rows[0]); i++)
    if (strcmp(network_rows[i].name, options->network) == 0) return &network_rows[i];
  return NULL;
}

static const struct agent *agent_of(const struct learner_options *options) {
  for (size_t i = 0; i < sizeof(agents) / sizeof(agents[0]); i++)
    if (strcmp(agents[i].name, options->agent) == 0) return &agents[i];
  CHECK(false, "no agent %s", options->agent);
  return NULL;
}

bool learner_options_learns(const struct learner_options *options) {
  return !agent_of(options)->network[0];
}

bool learner_options_replays(const struct learner_options *options) {
  return agent_of(options)->pace == REPLAYED;
}

int learner_options_evaluators(const struct learner_options *options) {
  return agent_of(options)->evaluators;
}

bool learner_options_pixels(const struct learner_options *options) {
  const struct network_row *network = network_of(options);
  return learner_options_learns(options) && network && network->of_images;
}

bool learner_options_chooses_network(const struct learner_options *options) {
  return strcmp(options->network, "auto") == 0;
}

int learner_options_default_lstm_size(const struct learner_options *options) {
  const struct network_row *network = network_of(options);
  return network ? network->lstm_size : 0;
}

bool learner_options_remembers(const struct learner_options *options) {
  if (options->lstm_size >= 0) return options->lstm_size > 0;
  const struct network_row *network = network_of(options);
  return !network || network->lstm_size > 0;
}

static bool has_heading(const struct agent *agent, const struct option *option) {
  return agent->options[0] && agents_list_has(agent->options, option->group);
}

bool learner_option_is_of_agents(const struct option *option) {
  for (size_t i = 0; i < sizeof(agents) / sizeof(agents[0]); i++)
    if (has_heading(&agents[i], option)) return true;
  return false;
}

bool learner_option_is_foreign(const struct option *option, const struct learner_options *options) {
  return learner_option_is_of_agents(option) && !has_heading(agent_of(options), option);
}

void agents_list_with(char list[256], const struct option *option) {
  for (size_t i = 0; i < sizeof(agents) / sizeof(agents[0]); i++) {
    size_t used = strlen(list);
    if (has_heading(&agents[i], option) && !(used && agents_list_has(list, agents[i].name)))
      snprintf(list + used, 256 - used, "%s%s", used ? "|" : "", agents[i].name);
  }
}
