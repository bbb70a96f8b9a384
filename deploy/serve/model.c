#include "deploy/serve/model.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "deploy/inspect/played_run.h"
#include "deploy/serve/version_files.h"
#include "learner/run/run_environment.h"
#include "learner/run/run_parts.h"

enum { MAX_RETIRED = 4 };

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
  struct version_files files;
  struct learner_options options;
  struct run run; /* without a checkpoint: what the versions have in common */
  struct signature signature;

  /* main */
  bool vanished;

  pthread_mutex_t lock; /* of all below */
  struct model_policy policy;
  struct version *versions; /* by number, the largest first; retired ones among them */
  int num_failures;
  struct failure failure[VERSION_FILES_MOST];
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

static bool parse_specific(struct model_policy *policy, const char *text) {
  do {
    if (policy->num_specific == MODEL_MAX_SPECIFIC) return false;
    if (!version_files_number(&policy->specific[policy->num_specific++], &text)) return false;
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
    if (version_files_number(&count, &rest) && !*rest && count <= VERSION_FILES_MOST)
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

/* When a run began, or was resumed. */
static struct timespec run_begun(const char *folder) {
  char path[PATH_MAX];
  struct stat about = {.st_size = 0};
  snprintf(path, sizeof(path), "%.4000s/config.txt", folder);
  (void)stat(path, &about);
  return about.st_mtim;
}

/* What could be loaded. A folder that has gone takes no version with it: what is served stays. Nor
 * does a run's next best checkpoint, for which the file of the one before goes, where the policy
 * bounds how many there are; but another run in the folder of one that was removed does. */
static void find_candidates(struct model *model, struct version_numbers *candidates) {
  const struct model_policy *policy = &model->policy;
  bool outlive_files = model->files.is_run && policy->latest != INT_MAX;
  bool is_there = version_files_scan(candidates, &model->files, policy->num_specific > 0);
  if (!is_there && !model->vanished && model->versions)
    log_warn("model %s: there is nothing in %s%s any more; what is loaded is served on",
             model->config->name, model->files.path, model->files.is_run ? "/checkpoints" : "");
  model->vanished = !is_there;
  struct timespec begun = run_begun(model->files.path);
  for (const struct version *v = model->versions; v; v = v->next) {
    bool outlives = outlive_files && memcmp(&v->run_begun, &begun, sizeof(begun)) == 0;
    if (!v->is_retired && (!is_there || outlives)) version_numbers_add(candidates, v->number);
  }
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
static void forget_failures(struct model *model, const struct version_numbers *candidates) {
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
  version_files_locate(&model->files, number, folder, file);
  if (stat(file, &about) != 0 && model->files.is_run) return false; /* a better one has come */
  const struct timespec begun = run_begun(folder);
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
  version->run_begun = begun;
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
  struct version_numbers *candidates = check_alloc(1, sizeof(*candidates));
  const struct model_policy *policy = &model->policy;
  int64_t *wanted = check_alloc(VERSION_FILES_MOST, sizeof(*wanted));
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
  if (model->files.is_run) return describe(model, path, error);
  struct version_numbers *found = check_alloc(1, sizeof(*found));
  enum status status = STATUS_NOT_FOUND;
  struct error later;
  bool named = false, tried = false;
  (void)version_files_scan(found, &model->files, false);
  for (int i = 0; i < found->count; i++) named |= is_named(model, found->number[i]);
  for (int i = 0; i < found->count && status != STATUS_OK; i++) {
    char folder[PATH_MAX];
    snprintf(folder, sizeof(folder), "%.3000s/%lld", path, (long long)found->number[i]);
    if ((named && !is_named(model, found->number[i])) || !version_files_is_run(folder)) continue;
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

/* What the policy reads beside the observation comes last. */
static enum status check_names(const struct signature *signature, struct error *error) {
  const struct tensor *last = &signature->input[signature->num_inputs - 1];
  for (const struct tensor *input = signature->input; input < last; input++)
    if (strcmp(input->name, last->name) == 0)
      return status_fail(error, STATUS_INVALID,
                         "two inputs would be named '%s': rename a tensor of the observation",
                         last->name);
  return STATUS_OK;
}

enum status model_open(struct model **out, const struct model_config *config,
                       const struct model_metrics *metrics, struct error *error) {
  struct model *model = check_alloc(1, sizeof(*model));
  model->config = config;
  model->files = (struct version_files){.path = config->path,
                                        .is_run = version_files_is_run(config->path),
                                        .prefers_best = strcmp(config->checkpoint, "best") == 0};
  model->metrics = metrics;
  model->policy = config->policy;
  pthread_mutex_init(&model->lock, NULL);
  *out = model;
  model->run = nothing;
  options_init(&learner_options_table, &model->options);
  enum status status = describe_first(model, error);
  if (status != STATUS_OK) return status;
  served_describe(&model->signature, &model->run);
  status = check_names(&model->signature, error);
  if (status != STATUS_OK) return status;
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
  if (!text[0] || (version_files_number(number, &text) && !*text)) return STATUS_OK;
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
    bool is_asked = number >= 0 && v->number == number; /* a label may have moved since */
    int64_t used_us = version_used_us(v, request->sequence, is_asked ? NULL : request->choice);
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

static void supersede(struct model *model, const char *sequence, int64_t since_us) {
  pthread_mutex_lock(&model->lock);
  for (struct version *v = model->versions; v; v = v->next)
    version_supersede(v, sequence, since_us);
  pthread_mutex_unlock(&model->lock);
}

/* *out is written before the version may answer, after which the request may be gone. */
enum status model_submit(struct version **out, struct model *model,
                         const struct model_choice *choice, struct request *request,
                         struct error *error) {
  const struct version_metrics *metrics = &model->metrics->of_versions;
  bool starts = request->start;
  char sequence[REQUEST_ID_BYTES];
  int64_t now_us = starts ? clock_now_us() : 0;
  if (starts) snprintf(sequence, sizeof(sequence), "%s", request->sequence);
  request->choice = choice->label[0] ? choice->label : choice->version;
  enum status status = take(out, model, choice, request, error);
  struct version *version = *out;
  if (status == STATUS_OK) {
    status = version_submit(version, request, error);
    if (status == STATUS_OK && starts) supersede(model, sequence, now_us);
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
