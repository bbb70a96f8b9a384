// Any text in TF_CONFIG is either read into a sound structure or refused with a sentence.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/cluster/tf_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *text = check_alloc(size + 1, 1);
  memcpy(text, data, size);
  struct tf_config config;
  struct error error = {""};
  if (tf_config_parse(&config, text, &error) == STATUS_OK) {
    CHECK(tf_role_name(config.role), "a role");
    CHECK(config.index >= 0, "index %d", config.index);
    CHECK(strchr(config.learner, ':'), "the learner is '%s'", config.learner);
    CHECK(config.num_learners >= 1 && config.num_learners <= TF_MAX_LEARNERS, "%d learners",
          config.num_learners);
    CHECK(config.role != TF_ROLE_ACTOR || config.index < config.num_actors, "actor %d of %d",
          config.index, config.num_actors);
    CHECK(config.role == TF_ROLE_EVALUATOR || config.listen[0], "no address to bind");
  } else {
    CHECK(strncmp(error.text, "TF_CONFIG", 9) == 0, "the sentence is '%s'", error.text);
  }
  free(text);
  return 0;
}
