#include "common/cluster/tf_config.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/check.h"
#include "common/cluster/host_port.h"

// The jobs that are read, in the order that numbers the tasks of a role.
static const struct job {
  const char *name;
  enum tf_role role;
} jobs[] = {
    {"chief", TF_ROLE_LEARNER},
    {"master", TF_ROLE_LEARNER},
    {"learner", TF_ROLE_LEARNER},
    {"actor", TF_ROLE_ACTOR},
    {"worker", TF_ROLE_ACTOR},
    {"evaluator", TF_ROLE_EVALUATOR},
    {"ps", TF_ROLE_PS},
    {"workerpool0", TF_ROLE_LEARNER},
    {"workerpool1", TF_ROLE_ACTOR},
    {"workerpool2", TF_ROLE_PS},
    {"workerpool3", TF_ROLE_EVALUATOR},
};
enum { NUM_JOBS = sizeof jobs / sizeof jobs[0] };

static const char known_jobs[] = "learner, chief, master, actor, worker, evaluator, ps";

// One address of the cluster. The strings belong to the JSON document.
struct task {
  const struct job *job;
  int index; // within its job
  enum tf_role role;
  const char *address;
};

struct cluster {
  struct task *task; // heap; by job, then by index
  int count;
};

const char *tf_role_name(enum tf_role role) {
  static const char *const names[] = {"learner", "actor", "evaluator", "ps"};
  CHECK((size_t)role < sizeof names / sizeof names[0], "role %d", (int)role);
  return names[role];
}

static const struct job *find_job(const char *name) {
  for (int i = 0; i < NUM_JOBS; i++) {
    if (strcmp(jobs[i].name, name) == 0) return &jobs[i];
  }
  return NULL;
}

static enum status add_task(struct cluster *cluster, const struct job *job, int index,
                            const json_t *value, struct error *error) {
  const char *address = json_string_value(value);
  if (!address) {
    return status_fail(error, STATUS_INVALID,
                       "TF_CONFIG: %s %d of the cluster is not a string \"host:port\"", job->name,
                       index);
  }
  struct error problem;
  if (host_port_check(address, &problem) != STATUS_OK) {
    return status_fail(error, STATUS_INVALID, "TF_CONFIG: %s %d of the cluster: %s", job->name,
                       index, problem.text);
  }
  cluster->task[cluster->count++] = (struct task){job, index, job->role, address};
  return STATUS_OK;
}

// A key of an index-to-address map: digits alone, without leading zeros. Negative if it is anything
// else.
static int read_index(const char *text) {
  size_t length = strspn(text, "0123456789");
  if (text[length] || length == 0 || length > 6 || (length > 1 && text[0] == '0')) return -1;
  return atoi(text);
}

static int compare_index(const void *a, const void *b) {
  return ((const struct task *)a)->index - ((const struct task *)b)->index;
}

static enum status add_job(struct cluster *cluster, const struct job *job, json_t *tasks,
                           struct error *error) {
  struct task *first = cluster->task + cluster->count;
  size_t i;
  const char *key;
  json_t *value;
  enum status status = STATUS_OK;
  if (json_is_array(tasks)) {
    json_array_foreach(tasks, i, value) {
      if (status == STATUS_OK) status = add_task(cluster, job, (int)i, value, error);
    }
    return status;
  }
  json_object_foreach(tasks, key, value) {
    int index = read_index(key);
    if (status == STATUS_OK && index < 0) {
      status = status_fail(error, STATUS_INVALID,
                           "TF_CONFIG: '%.40s' is not the index of a task; it is a key of \"%s\"",
                           key, job->name);
    }
    if (status == STATUS_OK) status = add_task(cluster, job, index, value, error);
  }
  qsort(first, (size_t)(cluster->task + cluster->count - first), sizeof *first, compare_index);
  return status;
}

// Lists all tasks of the jobs that are known.
static enum status read_cluster(struct cluster *cluster, const json_t *root, struct error *error) {
  const json_t *object = json_object_get(root, "cluster");
  if (!json_is_object(object)) {
    return status_fail(error, STATUS_INVALID,
                       "TF_CONFIG has no \"cluster\": give it {\"worker\": [\"host:port\", ...]}");
  }

  // Room for all of them.
  size_t num_tasks = 0;
  for (int i = 0; i < NUM_JOBS; i++) {
    json_t *tasks = json_object_get(object, jobs[i].name);
    if (tasks && !json_is_array(tasks) && !json_is_object(tasks)) {
      return status_fail(error, STATUS_INVALID,
                         "TF_CONFIG: \"%s\" of the cluster is neither a list of \"host:port\" "
                         "nor a map from index to \"host:port\"",
                         jobs[i].name);
    }
    num_tasks += json_is_array(tasks) ? json_array_size(tasks) : json_object_size(tasks);
  }
  cluster->task = check_alloc(num_tasks, sizeof *cluster->task);

  enum status status = STATUS_OK;
  for (int i = 0; i < NUM_JOBS && status == STATUS_OK; i++) {
    json_t *tasks = json_object_get(object, jobs[i].name);
    if (tasks) status = add_job(cluster, &jobs[i], tasks, error);
  }
  return status;
}

// Two tasks cannot listen on the same port of the same host.
static enum status check_distinct(const struct cluster *cluster, struct error *error) {
  for (int i = 0; i < cluster->count; i++)
    for (int j = i + 1; j < cluster->count; j++) {
      const struct task *a = &cluster->task[i], *b = &cluster->task[j];
      if (strcasecmp(a->address, b->address) != 0) continue;
      return status_fail(error, STATUS_INVALID,
                         "TF_CONFIG: %s %d and %s %d have the same address %.300s; give each task "
                         "a port of its own",
                         a->job->name, a->index, b->job->name, b->index, a->address);
    }
  return STATUS_OK;
}

static int count_role(const struct cluster *cluster, enum tf_role role) {
  int count = 0;
  for (int i = 0; i < cluster->count; i++) count += cluster->task[i].role == role;
  return count;
}

static struct task *find_task(const struct cluster *cluster, const char *job, int index) {
  for (int i = 0; i < cluster->count; i++) {
    struct task *task = &cluster->task[i];
    if (strcmp(task->job->name, job) == 0 && task->index == index) return task;
  }
  return NULL;
}

// Without any learner worker 0 becomes it.
static enum status appoint_learner(struct cluster *cluster, struct error *error) {
  int num_learners = count_role(cluster, TF_ROLE_LEARNER);
  if (num_learners > TF_MAX_LEARNERS) {
    return status_fail(error, STATUS_INVALID,
                       "TF_CONFIG: the cluster has %d learners (tasks of learner, chief and "
                       "master); there may be %d",
                       num_learners, TF_MAX_LEARNERS);
  }
  if (num_learners > 0) return STATUS_OK;
  struct task *worker = find_task(cluster, "worker", 0);
  if (!worker) {
    return status_fail(error, STATUS_INVALID,
                       "TF_CONFIG: the cluster has no learner: add \"learner\": [\"host:port\"] "
                       "(chief and master are the same), or a worker 0");
  }
  worker->role = TF_ROLE_LEARNER;
  return STATUS_OK;
}

// Reads "task": its type, and its index within the cluster's list.
static enum status read_task(const char **type, int *index, const json_t *root,
                             struct error *error) {
  const json_t *task = json_object_get(root, "task");
  if (!json_is_object(task)) {
    return status_fail(error, STATUS_INVALID,
                       "TF_CONFIG has no \"task\": give it {\"type\": \"worker\", \"index\": 0}");
  }
  *type = json_string_value(json_object_get(task, "type"));
  if (!*type)
    return status_fail(error, STATUS_INVALID, "TF_CONFIG: task.type is missing; it is one of %s",
                       known_jobs);
  if (!find_job(*type)) {
    return status_fail(error, STATUS_INVALID,
                       "TF_CONFIG: task.type '%.40s' is unknown; it is one of %s", *type,
                       known_jobs);
  }
  const json_t *number = json_object_get(task, "index");
  if (!json_is_integer(number)) {
    return status_fail(error, STATUS_INVALID,
                       "TF_CONFIG: task.index is missing, or not a whole number");
  }
  json_int_t value = json_integer_value(number);
  if (value < 0 || value > 999999) {
    return status_fail(error, STATUS_INVALID, "TF_CONFIG: task.index %lld is out of range",
                       (long long)value);
  }
  *index = (int)value;
  return STATUS_OK;
}

static int count_job(const struct cluster *cluster, const char *job) {
  int count = 0;
  for (int i = 0; i < cluster->count; i++) count += strcmp(cluster->task[i].job->name, job) == 0;
  return count;
}

// Sets role, index and listen from the place that "task" has in the cluster.
static enum status place_task(struct tf_config *config, const struct cluster *cluster,
                              const char *type, int index, struct error *error) {
  const struct task *self = find_task(cluster, type, index);
  if (self) {
    config->role = self->role;
    for (const struct task *task = cluster->task; task < self; task++)
      config->index += task->role == self->role;
    host_port_bind_all(config->listen, sizeof config->listen, self->address);
    return STATUS_OK;
  }

  // The cluster describes who trains together; an evaluator only looks on.
  int count = count_job(cluster, type);
  if (strcmp(type, "evaluator") == 0 && count == 0) {
    config->role = TF_ROLE_EVALUATOR;
    config->index = index;
    return STATUS_OK;
  }
  return status_fail(
      error, STATUS_INVALID,
      "TF_CONFIG: task.index %d is out of range: the cluster has %d tasks of type %s and none with "
      "that index",
      index, count, type);
}

static enum status read_document(struct tf_config *config, struct cluster *cluster,
                                 const json_t *root, struct error *error) {
  const char *type = NULL;
  int index = 0;
  enum status status = read_cluster(cluster, root, error);
  if (status == STATUS_OK) status = read_task(&type, &index, root, error);
  if (status == STATUS_OK) status = check_distinct(cluster, error);
  if (status == STATUS_OK) status = appoint_learner(cluster, error);
  if (status == STATUS_OK) status = place_task(config, cluster, type, index, error);
  if (status != STATUS_OK) return status;

  config->num_actors = count_role(cluster, TF_ROLE_ACTOR);
  config->num_evaluators = count_role(cluster, TF_ROLE_EVALUATOR);
  for (int i = 0; i < cluster->count; i++) {
    if (cluster->task[i].role != TF_ROLE_LEARNER) continue;
    snprintf(config->learners[config->num_learners++], TF_ADDRESS_BYTES, "%s",
             cluster->task[i].address);
  }
  memcpy(config->learner, config->learners[0], sizeof config->learner);
  return STATUS_OK;
}

enum status tf_config_parse(struct tf_config *config, const char *text, struct error *error) {
  *config = (struct tf_config){.role = TF_ROLE_LEARNER};
  json_error_t problem;
  json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &problem);
  if (!root) {
    return status_fail(error, STATUS_INVALID, "TF_CONFIG is not JSON: line %d, column %d: %s",
                       problem.line, problem.column, problem.text);
  }

  struct cluster cluster = {NULL, 0};
  enum status status = read_document(config, &cluster, root, error);
  free(cluster.task);
  json_decref(root);
  return status;
}
