#include "deploy/serve/model.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "deploy/inspect/played_run.h"
#include "learner/run/run_environment.h"
#include "learner/run/run_parts.h"

enum { MAX_CANDIDATES = 1024, MAX_RETIRED = 4 };

/* A version that could not be loaded: not tried again before its file changes. */
struct failure {
  int64_t number;
  struct timespec changed;
  struct error error;
};

struct model {
  /* read-only after open */
  const struct model_config *config;
  const struct model_metrics *metrics;
  bool is_run; /* not a folder of numbered ones */
  struct learner_options options;
  struct run run; /* without a checkpoint: what the versions have in common */
  struct signature signature;

  /* main */
  bool vanished;

  pthread_mutex_t lock; /* of all below */
  struct model_policy policy;
  struct version *versions; /* by number, the largest first; retired ones among them */
  int num_failures;
  struct failure failure[MAX_CANDIDATES];
};

const char *model_name(const struct model *model) {
  return model->config->name;
}
const struct signature *model_signature(const struct model *model) {
  return &model->signature;
}
int model_max_rows(const struct model *model) {
  return model->config->limits.max_batch;
}

/* ---- policies */

static bool parse_number(int64_t *number, const char **text) {
  char *end;
  if (**text < '0' || **text > '9') return false;
  *number = strtoll(*text, &end, 10);
  *text = end;
  return true;
}

static bool parse_specific(struct model_policy *policy, const char *text) {
  do {
    if (policy->num_specific == MODEL_MAX_SPECIFIC) return false;
    if (!parse_number(&policy->specific[policy->num_specific++], &text)) return false;
  } while (*text++ == ',');
  return text[-1] == '\0';
}

enum status model_parse_policy(struct model_policy *policy, const char *text, struct error *error) {
  static const char latest[] = "latest:", specific[] = "specific:";
  const char *rest = text + strlen(latest);
  int64_t count = 0;
  policy->latest = policy->num_specific = 0;
  if (strcmp(text, "all") == 0) {
    policy->latest = INT_MAX;
  } else if (strncmp(text, latest, strlen(latest)) == 0) {
    if (parse_number(&count, &rest) && !*rest && count <= MAX_CANDIDATES)
      policy->latest = (int)count;
  } else if (strncmp(text, specific, strlen(specific)) == 0) {
    if (!parse_specific(policy, text + strlen(specific))) policy->num_specific = 0;
  }
  if (policy->latest > 0 || policy->num_specific > 0) return STATUS_OK;
  return status_fail(error, STATUS_INVALID,
                     "policy '%.64s': give latest:N, all, or specific:N,N (at most %d)", text,
                     MODEL_MAX_SPECIFIC);
}

void model_set(struct model *model, const struct model_policy *policy) {
  pthread_mutex_lock(&model->lock);
  model->policy = *policy;
  pthread_mutex_unlock(&model->lock);
}

/* ---- what there is */

/* "best-000000000042.acorn" with the prefix "best-": 42; -1: it is no such name. */
static int64_t number_in(const char *name, const char *prefix) {
  int64_t number;
  if (strncmp(name, prefix, strlen(prefix)) != 0) return -1;
  name += strlen(prefix);
  if (!parse_number(&number, &name)) return -1;
  bool is_file = prefix[0] != '\0';
  return strcmp(name, is_file ? ".acorn" : "") == 0 ? number : -1;
}

struct candidates {
  int count;
  int64_t number[MAX_CANDIDATES]; /* the largest first, each once */
};

static void add(struct candidates *candidates, int64_t number) {
  int at = 0;
  while (at < candidates->count && candidates->number[at] > number) at++;
  if (at < candidates->count && candidates->number[at] == number) return;
  if (at == MAX_CANDIDATES) return;
  if (candidates->count < MAX_CANDIDATES) candidates->count++;
  memmove(&candidates->number[at + 1], &candidates->number[at],
          (size_t)(candidates->count - at - 1) * sizeof(int64_t));
  candidates->number[at] = number;
}

/* The numbers in a folder; false: it cannot be read. */
static bool scan(struct candidates *candidates, const char *folder, const char *prefix) {
  DIR *directory = opendir(folder);
  if (!directory) return false;
  for (struct dirent *entry; (entry = readdir(directory));) {
    int64_t number = number_in(entry->d_name, prefix);
    if (number >= 0) add(candidates, number);
  }
  closedir(directory);
  return true;
}

static bool prefers_best(const struct model *model) {
  return strcmp(model->config->checkpoint, "best") == 0;
}

static void name_checkpoint(char file[CHECKPOINT_PATH_BYTES], const char *run, const char *prefix,
                            int64_t number) {
  snprintf(file, CHECKPOINT_PATH_BYTES, "%.3000s/checkpoints/%s%012lld.acorn", run, prefix,
           (long long)number);
}

/* The run folder and the file of a version. Of a numbered folder that is its best or newest
 * checkpoint, one of the other kind where there is none. */
static void find_file(const struct model *model, int64_t number, char folder[PATH_MAX],
                      char file[CHECKPOINT_PATH_BYTES]) {
  const char *prefixes[] = {"best-", "checkpoint-"};
  bool other = !prefers_best(model);
  snprintf(folder, PATH_MAX, "%s", model->config->path);
  if (!model->is_run)
    snprintf(folder, PATH_MAX, "%.3000s/%lld", model->config->path, (long long)number);
  for (int i = 0; i < 2; i++) {
    const char *prefix = prefixes[other ? 1 - i : i];
    struct candidates found = {0};
    char checkpoints[PATH_MAX];
    snprintf(checkpoints, sizeof(checkpoints), "%.3000s/checkpoints", folder);
    if (!model->is_run) (void)scan(&found, checkpoints, prefix);
    name_checkpoint(file, folder, prefix, found.count ? found.number[0] : number);
    if (access(file, F_OK) == 0) return;
  }
}

/* What could be loaded. A folder that has gone takes no version with it: what is served stays. Nor
 * does a run's next best checkpoint, for which the file of the one before goes, where the policy
 * bounds how many there are. */
static void find_candidates(struct model *model, struct candidates *candidates) {
  char folder[PATH_MAX];
  bool specific = model->policy.num_specific > 0, is_there;
  bool outlive_files = model->is_run && model->policy.latest != INT_MAX;
  snprintf(folder, sizeof(folder), model->is_run ? "%.3000s/checkpoints" : "%.3000s",
           model->config->path);
  if (!model->is_run) {
    is_there = scan(candidates, folder, "") && candidates->count > 0;
  } else {
    is_there = scan(candidates, folder, prefers_best(model) ? "best-" : "checkpoint-");
    if (specific) (void)scan(candidates, folder, prefers_best(model) ? "checkpoint-" : "best-");
  }
  if (!is_there && !model->vanished && model->versions)
    log_warn("model %s: there is nothing in %s any more; what is loaded is served on",
             model->config->name, folder);
  model->vanished = !is_there;
  for (const struct version *v = model->versions; v && (!is_there || outlive_files); v = v->next)
    if (!v->is_retired) add(candidates, v->number);
}

/* ---- loaded and retired */

static struct version *find(const struct model *model, int64_t number) {
  struct version *v = model->versions;
  while (v && (v->is_retired || v->number != number)) v = v->next;
  return v;
}

static struct failure *find_failure(struct model *model, int64_t number) {
  for (int i = 0; i < model->num_failures; i++)
    if (model->failure[i].number == number) return &model->failure[i];
  return NULL;
}

static void forget_failure(struct model *model, struct failure *failure) {
  if (failure) *failure = model->failure[--model->num_failures];
}

static bool is_among(const int64_t *numbers, int count, int64_t number) {
  for (int i = 0; i < count; i++)
    if (numbers[i] == number) return true;
  return false;
}

/* Forgets those whose folder or file has gone. */
static void forget_failures(struct model *model, const struct candidates *candidates) {
  pthread_mutex_lock(&model->lock);
  for (int i = model->num_failures - 1; i >= 0; i--)
    if (!is_among(candidates->number, candidates->count, model->failure[i].number))
      forget_failure(model, &model->failure[i]);
  pthread_mutex_unlock(&model->lock);
}

static void note_failure(struct model *model, int64_t number, const struct timespec *changed,
                         const struct error *error) {
  log_warn("model %s: version %lld cannot be served: %s", model->config->name, (long long)number,
           error->text);
  metric_add(model->metrics->failures, 1);
  pthread_mutex_lock(&model->lock);
  struct failure *failure = find_failure(model, number);
  if (!failure) failure = &model->failure[model->num_failures++];
  *failure = (struct failure){number, *changed, *error};
  pthread_mutex_unlock(&model->lock);
}

static enum status read_run(const struct model *model, struct learner_options *options,
                            const char *folder, struct error *error) {
  const struct model_config *config = model->config;
  const struct played_run played = {.folder = folder,
                                    .env = config->env,
                                    .env_args = config->env_args,
                                    .device = config->device,
                                    .precision = "float32",
                                    .policy = "greedy",
                                    .spaces_alone = true,
                                    .learned_to = "serve",
                                    .code = config->code};
  options_init(&learner_options_table, options);
  return played_run_read(options, &played, error);
}

static void insert(struct model *model, struct version *version) {
  pthread_mutex_lock(&model->lock);
  struct version **link = &model->versions;
  while (*link && (*link)->number > version->number) link = &(*link)->next;
  version->next = *link;
  *link = version;
  forget_failure(model, find_failure(model, version->number));
  pthread_mutex_unlock(&model->lock);
}

/* Whether it is there afterwards. */
static bool load(struct model *model, int64_t number) {
  char folder[PATH_MAX], file[CHECKPOINT_PATH_BYTES];
  struct stat about = {.st_size = 0};
  struct learner_options options;
  struct version *version;
  struct error error;
  if (find(model, number)) return true;
  find_file(model, number, folder, file);
  if (stat(file, &about) != 0 && model->is_run) return false; /* a better one has come */
  const struct failure *failure = find_failure(model, number);
  if (failure && memcmp(&failure->changed, &about.st_mtim, sizeof(about.st_mtim)) == 0)
    return false;
  enum status status = read_run(model, &options, folder, &error);
  if (status == STATUS_OK)
    status = version_open(&version, number, folder, file, &options, &model->run, &model->signature,
                          &model->config->limits, &model->metrics->of_versions, &error);
  else
    options_deinit(&learner_options_table, &options);
  if (status != STATUS_OK) {
    note_failure(model, number, &about.st_mtim, &error);
    return false;
  }
  insert(model, version);
  metric_add(model->metrics->loads, 1);
  log_info("model %s: version %lld is ready (%s)", model->config->name, (long long)number, file);
  return true;
}

/* A version that goes keeps its sequences for a while; the oldest of many goes at once. */
static void close_retired(struct model *model, int64_t now_us) {
  int retired = 0;
  for (struct version **link = &model->versions; *link;) {
    struct version *v = *link;
    bool keeps = v->is_retired && ++retired <= MAX_RETIRED && model->signature.remembers &&
                 version_sequences(v, now_us - model->config->idle_us) > 0;
    pthread_mutex_lock(&model->lock);
    bool goes = v->is_retired && v->users == 0 && !keeps;
    if (goes) *link = v->next;
    pthread_mutex_unlock(&model->lock);
    if (!goes) {
      link = &v->next;
      continue;
    }
    log_info("model %s: version %lld is no longer served", model->config->name,
             (long long)v->number);
    version_close(v);
  }
}

/* Only main changes the list and the policy, so main reads them without the lock. */
void model_poll(struct model *model, int64_t now_us) {
  struct candidates *candidates = check_alloc(1, sizeof(*candidates));
  const struct model_policy *policy = &model->policy;
  int64_t *wanted = check_alloc(MAX_CANDIDATES, sizeof(*wanted));
  int count = 0;
  find_candidates(model, candidates);
  forget_failures(model, candidates);
  for (int i = 0; i < candidates->count; i++) {
    int64_t number = candidates->number[i];
    bool chosen = policy->num_specific ? is_among(policy->specific, policy->num_specific, number)
                                       : count < policy->latest;
    if (chosen && load(model, number)) wanted[count++] = number;
  }
  pthread_mutex_lock(&model->lock);
  for (struct version *v = model->versions; v && count > 0; v = v->next)
    if (!is_among(wanted, count, v->number)) v->is_retired = true;
  pthread_mutex_unlock(&model->lock);
  close_retired(model, now_us);
  free(wanted);
  free(candidates);
}

/* ---- opened and closed */

static bool is_run(const char *folder) {
  char file[PATH_MAX];
  snprintf(file, sizeof(file), "%.4000s/config.txt", folder);
  return access(file, F_OK) == 0;
}

static const struct run nothing = {.folder = {.pin = -1, .lock = -1}, .evaluates = true};

/* Asks a run folder for what its versions have in common. */
static enum status describe(struct model *model, const char *folder, struct error *error) {
  struct run *run = &model->run;
  run_destroy(run);
  options_deinit(&learner_options_table, &model->options);
  *run = nothing;
  run->options = &model->options;
  enum status status = read_run(model, &model->options, folder, error);
  if (status == STATUS_OK) {
    run->agent = algorithms_find(model->options.agent);
    status = run_find_environment(run, &model->options, error);
  }
  if (status == STATUS_OK) status = run_make_network(run, error);
  return status;
}

static bool is_named(const struct model *model, int64_t number) {
  return is_among(model->policy.specific, model->policy.num_specific, number);
}

/* By the largest number that can be described, of those that the policy names where some are there:
 * one that cannot must not keep the others from being served. Errors: those of the first. */
static enum status describe_first(struct model *model, struct error *error) {
  const char *path = model->config->path;
  model->is_run = is_run(path);
  if (model->is_run) return describe(model, path, error);
  struct candidates *found = check_alloc(1, sizeof(*found));
  enum status status = STATUS_NOT_FOUND;
  struct error later;
  bool named = false, tried = false;
  (void)scan(found, path, "");
  for (int i = 0; i < found->count; i++) named |= is_named(model, found->number[i]);
  for (int i = 0; i < found->count && status != STATUS_OK; i++) {
    char folder[PATH_MAX];
    snprintf(folder, sizeof(folder), "%.3000s/%lld", path, (long long)found->number[i]);
    if ((named && !is_named(model, found->number[i])) || !is_run(folder)) continue;
    status = describe(model, folder, tried ? &later : error);
    tried = true;
  }
  free(found);
  if (tried) return status;
  return status_fail(error, STATUS_INVALID,
                     "%s is no run folder, nor a folder with run folders of numbers: there is "
                     "neither config.txt nor 1/config.txt in it",
                     path);
}

enum status model_open(struct model **out, const struct model_config *config,
                       const struct model_metrics *metrics, struct error *error) {
  struct model *model = check_alloc(1, sizeof(*model));
  model->config = config;
  model->metrics = metrics;
  model->policy = config->policy;
  pthread_mutex_init(&model->lock, NULL);
  *out = model;
  model->run = nothing;
  options_init(&learner_options_table, &model->options);
  enum status status = describe_first(model, error);
  if (status != STATUS_OK) return status;
  served_describe(&model->signature, &model->run);
  model_poll(model, clock_now_us());
  if (!model->versions)
    log_warn("model %s: there is no version yet in %s", config->name, config->path);
  return STATUS_OK;
}

void model_close(struct model *model) {
  if (!model) return;
  while (model->versions) {
    struct version *version = model->versions;
    model->versions = version->next;
    version_close(version);
  }
  run_destroy(&model->run);
  options_deinit(&learner_options_table, &model->options);
  pthread_mutex_destroy(&model->lock);
  free(model);
}

/* ---- requests */

/* The number that is chosen; -1: any. Under the lock. */
static enum status chosen_number(int64_t *number, const struct model *model,
                                 const struct model_choice *choice, struct error *error) {
  const char *text = choice->version;
  *number = -1;
  if (choice->label[0]) {
    for (int i = 0; i < model->policy.num_labels; i++)
      if (strcmp(model->policy.label[i].name, choice->label) == 0) {
        *number = model->policy.label[i].version;
        return STATUS_OK;
      }
    return status_fail(error, STATUS_NOT_FOUND, "model %s has no label '%s'", model->config->name,
                       choice->label);
  }
  if (!text[0] || (parse_number(number, &text) && !*text)) return STATUS_OK;
  return status_fail(error, STATUS_NOT_FOUND, "model %s has no version '%s': versions are numbers",
                     model->config->name, choice->version);
}

static enum status no_version(const struct model *model, int64_t number, struct error *error) {
  char list[256] = "";
  size_t n = 0;
  for (const struct version *v = model->versions; v && n < sizeof(list) - 24; v = v->next)
    if (!v->is_retired)
      n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%lld", n ? ", " : "",
                            (long long)v->number);
  if (number < 0 || !list[0])
    return status_fail(error, STATUS_UNAVAILABLE, "model %s has no version that is ready",
                       model->config->name);
  return status_fail(error, STATUS_NOT_FOUND, "model %s does not serve version %lld; it serves %s",
                     model->config->name, (long long)number, list);
}

/* Under the lock. request: NULL: none. */
static struct version *choose(const struct model *model, int64_t number,
                              const struct request *request) {
  bool goes_on = request && request->sequence[0] && !request->start;
  struct version *last = NULL;
  int64_t last_us = -1;
  for (struct version *v = model->versions; v && goes_on; v = v->next) {
    if (number >= 0 && v->number != number) continue;
    int64_t used_us = version_used_us(v, request->sequence);
    if (used_us > last_us) last = v, last_us = used_us;
  }
  if (last) return last; /* it may have begun anew in another version */
  for (struct version *v = model->versions; v; v = v->next)
    if (!v->is_retired && (number < 0 || v->number == number)) return v;
  return NULL;
}

static enum status take(struct version **out, struct model *model,
                        const struct model_choice *choice, const struct request *request,
                        struct error *error) {
  int64_t number;
  pthread_mutex_lock(&model->lock);
  enum status status = chosen_number(&number, model, choice, error);
  struct version *version = status == STATUS_OK ? choose(model, number, request) : NULL;
  if (version)
    version->users++;
  else if (status == STATUS_OK)
    status = no_version(model, number, error);
  pthread_mutex_unlock(&model->lock);
  *out = version;
  return status;
}

void model_give(struct model *model, struct version *version) {
  pthread_mutex_lock(&model->lock);
  version->users--;
  pthread_mutex_unlock(&model->lock);
}

/* *out is written before the version may answer. */
enum status model_submit(struct version **out, struct model *model,
                         const struct model_choice *choice, struct request *request,
                         struct error *error) {
  const struct version_metrics *metrics = &model->metrics->of_versions;
  enum status status = take(out, model, choice, request, error);
  struct version *version = *out;
  if (status == STATUS_OK) {
    status = version_submit(version, request, error);
    if (status != STATUS_OK) {
      model_give(model, version);
      *out = NULL;
    }
  }
  metric_add(status == STATUS_OK ? metrics->requests : metrics->refused, 1);
  return status;
}

void model_begin(struct model *model) {
  pthread_mutex_lock(&model->lock);
  for (struct version *v = model->versions; v; v = v->next) {
    v->users++;
    pthread_mutex_unlock(&model->lock);
    version_begin(v);
    pthread_mutex_lock(&model->lock);
    v->users--;
  }
  pthread_mutex_unlock(&model->lock);
}

bool model_is_ready(struct model *model, const struct model_choice *choice, struct error *error) {
  struct version *version;
  if (take(&version, model, choice, NULL, error) != STATUS_OK) return false;
  model_give(model, version);
  return true;
}

int model_each(struct model *model, const struct model_choice *choice, model_visit visit,
               void *context) {
  int64_t number;
  int count = 0;
  pthread_mutex_lock(&model->lock);
  enum status status = chosen_number(&number, model, choice, NULL);
  for (const struct version *v = model->versions; v && status == STATUS_OK; v = v->next)
    if (!v->is_retired && (number < 0 || v->number == number)) {
      visit(context, v->number, NULL);
      count++;
    }
  for (int i = 0; i < model->num_failures && status == STATUS_OK; i++)
    if (number < 0 || model->failure[i].number == number) {
      visit(context, model->failure[i].number, model->failure[i].error.text);
      count++;
    }
  pthread_mutex_unlock(&model->lock);
  return count;
}
