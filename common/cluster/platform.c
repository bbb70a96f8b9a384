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

// The hosts' names in one order on every host, whatever the order of the list. Owner: the names are
// the document's, the array is the caller's.
static const char **sorted_names(const json_t *hosts) {
  size_t count = json_array_size(hosts), i;
  const char **names = check_alloc(count, sizeof(*names));
  json_t *host;
  json_array_foreach(hosts, i, host) {
    names[i] = json_string_value(host) ? json_string_value(host) : "";
  }
  qsort(names, count, sizeof(*names), compare_names);
  return names;
}

// The cluster as TF_CONFIG would have it: the first host learns, the others act.
static json_t *describe_hosts(const json_t *hosts, const char *current, int port) {
  const char **names = sorted_names(hosts);
  json_t *learner = json_array(), *actor = json_array();
  json_t *task = json_pack("{s:s, s:i}", "type", "actor", "index", -1);
  for (size_t i = 0; i < json_array_size(hosts); i++) {
    json_array_append_new(i == 0 ? learner : actor, json_sprintf("%s:%d", names[i], port));
    if (strcmp(names[i], current) != 0) continue;
    json_object_set_new(task, "type", json_string(i == 0 ? "learner" : "actor"));
    json_object_set_new(task, "index", json_integer(i == 0 ? 0 : (json_int_t)i - 1));
  }
  free(names);
  return json_pack("{s:{s:o, s:o}, s:o}", "cluster", "learner", learner, "actor", actor, "task",
                   task);
}

static enum status parse_hosts(struct tf_config *config, const json_t *hosts, const char *current,
                               int port, struct error *error) {
  if (!json_is_array(hosts) || json_array_size(hosts) == 0)
    return status_fail(error, STATUS_INVALID,
                       "%s: the hosts are not a list of names: [\"algo-1\", \"algo-2\"]",
                       sagemaker);
  bool listed = false;
  for (size_t i = 0; i < json_array_size(hosts); i++) {
    const char *name = json_string_value(json_array_get(hosts, i));
    listed = listed || (name && current && strcmp(name, current) == 0);
  }
  if (!listed)
    return status_fail(error, STATUS_INVALID,
                       "%s: this host (SM_CURRENT_HOST, or current_host) is '%.100s', which is not "
                       "among the hosts",
                       sagemaker, current ? current : "");
  json_t *cluster = describe_hosts(hosts, current, port);
  char *text = json_dumps(cluster, 0);
  enum status status = parse_as(config, sagemaker, text, error);
  free(text);
  json_decref(cluster);
  return status;
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
  enum status status = parse_hosts(config, hosts, current, port, error);
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
