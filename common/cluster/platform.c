#include "common/cluster/platform.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/cluster/host_port.h"

enum { MAX_WORKERS = 65536 };
static const char sagemaker[] = "SageMaker";

struct platform_words platform_words(void) {
  return (struct platform_words){
      .task = getenv("ACORN_TASK"),
      .learner = getenv("ACORN_LEARNER"),
      .workers = getenv("ACORN_WORKERS"),
      .tf_config = getenv("TF_CONFIG"),
      .cluster_spec = getenv("CLUSTER_SPEC"),
      .sm_resource_config = getenv("SM_RESOURCE_CONFIG"),
      .sm_hosts = getenv("SM_HOSTS"),
      .sm_current_host = getenv("SM_CURRENT_HOST"),
      .sm_resource_file = "/opt/ml/input/config/resourceconfig.json",
  };
}

static bool is_set(const char *text) {
  return text && text[0];
}

// Parses, and lets the sentence of an error begin with `name`.
static enum status parse_as(struct tf_config *config, const char *name, const char *text,
                            struct error *error) {
  static const char usual[] = "TF_CONFIG";
  struct error problem = {""};
  enum status status = tf_config_parse(config, text, &problem);
  if (status == STATUS_OK) return STATUS_OK;
  bool named = strncmp(problem.text, usual, strlen(usual)) == 0;
  return status_fail(error, status, "%s%.900s", name, problem.text + (named ? strlen(usual) : 0));
}

/* ---- ACORN_TASK */

// A whole number from 0 to `max`; negative if the text is anything else.
static int read_number(const char *text, int max) {
  if (!is_set(text) || strlen(text) > 6 || text[strspn(text, "0123456789")]) return -1;
  return atoi(text) <= max ? atoi(text) : -1;
}

static enum status take_address(struct tf_config *config, const char *learner, int port,
                                struct error *error) {
  struct error problem = {""};
  const char *colon = strrchr(learner, ':');
  char *address = config->learners[config->num_learners++];
  if (colon && !strchr(colon, ']'))
    snprintf(address, TF_ADDRESS_BYTES, "%s", learner);
  else
    snprintf(address, TF_ADDRESS_BYTES, "%.265s:%d", learner, port);
  for (int r = 0; r + 1 < config->num_learners; r++)
    if (strcmp(config->learners[r], address) == 0)
      return status_fail(error, STATUS_INVALID,
                         "ACORN_LEARNER: learners %d and %d have the same address %s: give each a "
                         "host or a port of its own",
                         r, config->num_learners - 1, address);
  if (host_port_check(address, &problem) == STATUS_OK) return STATUS_OK;
  return status_fail(error, STATUS_INVALID,
                     "ACORN_LEARNER, the learner's HOST or HOST:PORT, is '%.100s': %.300s", learner,
                     problem.text);
}

// ACORN_LEARNER: one address, or several with commas.
static enum status take_addresses(struct tf_config *config, const char *learners, int port,
                                  struct error *error) {
  char *text = check_copy(learners), *rest = text, *one;
  enum status status = STATUS_OK;
  while (status == STATUS_OK && (one = strsep(&rest, ","))) {
    if (config->num_learners == TF_MAX_LEARNERS)
      status = status_fail(error, STATUS_INVALID, "ACORN_LEARNER names more than %d learners",
                           TF_MAX_LEARNERS);
    else
      status = take_address(config, one, port, error);
  }
  memcpy(config->learner, config->learners[0], sizeof(config->learner));
  free(text);
  return status;
}

// The rank in "learner" or "learner-RANK"; negative if the text is anything else.
static int read_rank(const char *task, int learners) {
  static const char word[] = "learner-";
  if (strcmp(task, "learner") == 0) return 0;
  bool is_learner = strncmp(task, word, strlen(word)) == 0;
  return is_learner ? read_number(task + strlen(word), learners - 1) : -1;
}

static enum status find_plain(struct tf_config *config, const struct platform_words *words,
                              int port, struct error *error) {
  *config = (struct tf_config){.role = TF_ROLE_LEARNER};
  config->num_actors = read_number(words->workers, MAX_WORKERS);
  if (config->num_actors < 0)
    return status_fail(error, STATUS_INVALID,
                       "ACORN_WORKERS, how many tasks are hosts of actors, is '%.100s': a whole "
                       "number from 0 to %d is needed",
                       words->workers ? words->workers : "", MAX_WORKERS);
  enum status status = take_addresses(config, words->learner ? words->learner : "", port, error);
  if (status != STATUS_OK) return status;
  config->index = read_rank(words->task, config->num_learners);
  if (config->index >= 0) {
    host_port_bind_all(config->listen, sizeof(config->listen), config->learners[config->index]);
    return STATUS_OK;
  }
  config->role = TF_ROLE_ACTOR;
  config->index = read_number(words->task, config->num_actors - 1);
  if (config->index >= 0) return STATUS_OK;
  return status_fail(error, STATUS_INVALID,
                     "ACORN_TASK is '%.100s': \"learner\" (one of %d that ACORN_LEARNER names: "
                     "\"learner-RANK\"), or the number of a host of actors, 0 to "
                     "ACORN_WORKERS - 1 = %d, is needed",
                     words->task, config->num_learners, config->num_actors - 1);
}

/* ---- SageMaker */

static int compare_names(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// The hosts' names in one order on every host, whatever the order of the list; NULL: it is not a
// list of names. Owner: the names are the document's, the array is the caller's.
static const char **sorted_names(const json_t *hosts) {
  size_t count = json_array_size(hosts), i;
  const char **names = count ? check_alloc(count, sizeof(*names)) : NULL;
  json_t *host;
  json_array_foreach(hosts, i, host) {
    if ((names[i] = json_string_value(host))) continue;
    free(names);
    return NULL;
  }
  if (names) qsort(names, count, sizeof(*names), compare_names);
  return names;
}

// The first host learns, the others act.
static enum status take_hosts(struct tf_config *config, const char **names, int count,
                              const char *current, int port, struct error *error) {
  bool listed = false;
  char address[TF_ADDRESS_BYTES];
  struct error problem = {""};
  *config = (struct tf_config){.num_actors = count - 1, .num_learners = 1};
  for (int i = 0; i < count; i++) {
    snprintf(address, sizeof(address), "%.265s:%d", names[i], port);
    if (host_port_check(address, &problem) != STATUS_OK)
      return status_fail(error, STATUS_INVALID, "%s: %.300s", sagemaker, problem.text);
    if (i > 0 && strcmp(names[i], names[i - 1]) == 0)
      return status_fail(error, STATUS_INVALID, "%s: two hosts have the same name %s", sagemaker,
                         names[i]);
    if (i == 0) memcpy(config->learners[0], address, sizeof(address));
    if (!current || strcmp(names[i], current) != 0) continue;
    listed = true;
    config->role = i == 0 ? TF_ROLE_LEARNER : TF_ROLE_ACTOR;
    config->index = i == 0 ? 0 : i - 1;
    host_port_bind_all(config->listen, sizeof(config->listen), address);
  }
  memcpy(config->learner, config->learners[0], sizeof(config->learner));
  if (listed) return STATUS_OK;
  return status_fail(error, STATUS_INVALID,
                     "%s: this host (SM_CURRENT_HOST, or current_host) is '%.100s', which is not "
                     "among the hosts",
                     sagemaker, current ? current : "");
}

// `text`: the list of hosts, or {"current_host": "algo-1", "hosts": ["algo-1", "algo-2"], ...}.
static enum status parse_description(struct tf_config *config, const char *name, const char *text,
                                     const char *current, int port, struct error *error) {
  json_error_t problem;
  json_t *root = json_loads(text, 0, &problem);
  if (!root)
    return status_fail(error, STATUS_INVALID, "%s is not JSON: line %d, column %d: %s", name,
                       problem.line, problem.column, problem.text);
  if (!current) current = json_string_value(json_object_get(root, "current_host"));
  const json_t *hosts = json_is_array(root) ? root : json_object_get(root, "hosts");
  const char **names = sorted_names(hosts);
  enum status status =
      names ? take_hosts(config, names, (int)json_array_size(hosts), current, port, error)
            : status_fail(error, STATUS_INVALID,
                          "%s: the hosts are not a list of names: [\"algo-1\", \"algo-2\"]",
                          sagemaker);
  free(names);
  json_decref(root);
  return status;
}

// Owner: the caller's, heap. NULL: there is no such file.
static char *read_file(const char *path) {
  FILE *file = is_set(path) ? fopen(path, "r") : NULL;
  char *text = NULL;
  size_t bytes = 0;
  if (!file) return NULL;
  if (getdelim(&text, &bytes, '\0', file) < 0) {
    free(text);
    text = NULL;
  }
  fclose(file);
  return text;
}

static enum status find_sagemaker(struct tf_config *config, const struct platform_words *words,
                                  int port, struct error *error) {
  if (is_set(words->sm_resource_config))
    return parse_description(config, "SM_RESOURCE_CONFIG", words->sm_resource_config, NULL, port,
                             error);
  if (is_set(words->sm_hosts))
    return parse_description(config, "SM_HOSTS", words->sm_hosts, words->sm_current_host, port,
                             error);
  char *text = read_file(words->sm_resource_file);
  if (!text)
    return status_fail(error, STATUS_NOT_FOUND,
                       "no platform's variables describe this task: ACORN_TASK, TF_CONFIG, "
                       "CLUSTER_SPEC, SM_HOSTS and SM_RESOURCE_CONFIG are not set (on one machine "
                       "./run_local.sh trains; over ssh deploy/fleet.sh does)");
  enum status status = parse_description(config, words->sm_resource_file, text, NULL, port, error);
  free(text);
  return status;
}

/* ---- */

enum status platform_find(struct tf_config *config, const char **source,
                          const struct platform_words *words, int port, struct error *error) {
  if (is_set(words->task)) {
    *source = "ACORN_TASK";
    return find_plain(config, words, port, error);
  }
  if (is_set(words->tf_config)) {
    *source = "TF_CONFIG";
    return parse_as(config, *source, words->tf_config, error);
  }
  if (is_set(words->cluster_spec)) {
    *source = "CLUSTER_SPEC";
    return parse_as(config, *source, words->cluster_spec, error);
  }
  *source = sagemaker;
  return find_sagemaker(config, words, port, error);
}
