#include "learner/report/tags.h"

#include <string.h>

/* The first row whose `begin` the name begins with: the tag has `tag` in its place. */
static const struct {
  const char *begin, *tag;
} rules[] = {
    {"train/episode_return", TAG_RETURN},
    {"train/episode_length", "charts/length"},
    {"train/reward", "charts/reward"},
    {"train/value", "charts/value"},
    {"eval/episode_return", TAG_EVAL_RETURN},
    {"eval/episode_length", "charts/eval_length"},
    {"eval/env/", "env/eval/"},
    {"learning_rate", "charts/learning_rate"},
    {"env/eval/", "env/train:eval/"}, /* no number has a ':' in its name */
    {"env/", "env/"},
    {"grad/norm", "loss/gradient_norm"},
    {"loss/", "loss/"},
    {"policy/", "policy/"},
    {"exploration/", "policy/exploration_"},
    {"q/", "q/"},
    {"replay/", "replay/"},
    {"speed/", "speed/"},
    {"", "telemetry/"},
};

void tag_of_metric(char tag[METRIC_NAME_BYTES], const char *name) {
  size_t i = 0;
  while (strncmp(name, rules[i].begin, strlen(rules[i].begin)) != 0) i++;
  snprintf(tag, METRIC_NAME_BYTES, "%s%s", rules[i].tag, name + strlen(rules[i].begin));
}
