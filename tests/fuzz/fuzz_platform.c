/* Any text in any of the variables that a platform sets, and in SageMaker's file: read into a sound
 * structure or refused with a sentence. The first byte chooses where the text stands. */
#include <stdlib.h>
#include <string.h>

#include "common/cluster/platform.h"
#include "tests/fuzz/fuzz_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PLACES = 6, PORT = 77 };

/* What follows the first line is SM_HOSTS. */
static void split_hosts(struct platform_words *words, char *text) {
  char *end = strchr(text, '\n');
  if (end) *end = '\0';
  words->sm_current_host = text;
  words->sm_hosts = end ? end + 1 : NULL;
}

static void check_config(const struct tf_config *config) {
  CHECK(tf_role_name(config->role), "a role");
  CHECK(config->index >= 0, "index %d", config->index);
  CHECK(strchr(config->learner, ':'), "the learner is '%s'", config->learner);
  CHECK(config->role != TF_ROLE_ACTOR || config->index < config->num_actors, "actor %d of %d",
        config->index, config->num_actors);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0) return 0;
  char *text = check_alloc(size, 1);
  memcpy(text, data + 1, size - 1);
  struct platform_words words = {.tf_config = NULL};
  switch (data[0] % PLACES) {
    case 0:
      words.tf_config = text;
      break;
    case 1:
      words.cluster_spec = text;
      break;
    case 2:
      words.sm_resource_config = text;
      break;
    case 3:
      split_hosts(&words, text);
      break;
    case 4:
      words.task = "learner-1";
      words.workers = "3";
      words.learner = text;
      break;
    default:
      words.sm_resource_file = fuzz_file(data + 1, size - 1);
  }
  struct tf_config config;
  struct error error = {""};
  const char *source = NULL;
  if (platform_find(&config, &source, &words, PORT, &error) == STATUS_OK)
    check_config(&config);
  else
    CHECK(error.text[0], "no sentence");
  CHECK(source, "no source");
  free(text);
  return 0;
}
