/* Answers inference requests for trained policies over HTTP and gRPC. scripts/serve.sh runs it. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/option_rows.h"
#include "common/base/private_file.h"
#include "common/base/process.h"
#include "common/rpc/credentials.h"
#include "deploy/inspect/played_run.h"
#include "deploy/serve/http.h"
#include "deploy/serve/models_file.h"
#include "deploy/serve/rpc.h"
#include "envs/env_module.h"

enum { EXIT_USAGE = 2, QUIET_US = 500 * 1000, MAX_METRICS = 16, OTHER_FILES = 64, MIB = 1 << 20 };

struct serve_options {
  struct options_given given;
  struct credentials_options access;
  char *address, *models, *checkpoint, *policy, *device, *env, *env_args;
  int64_t port, grpc_port, max_batch_size, batch_delay_us, max_queue, max_sequences,
      max_connections, max_mib;
  double poll_secs, drain_secs, sequence_secs;
  bool code;
};

#define AT(member) offsetof(struct serve_options, member)
static const struct option rows[] = {
    INT("port", port, "8501", -1, 65535, NULL, "of HTTP; 0: the system chooses; -1: none"),
    INT("grpc_port", grpc_port, "8500", -1, 65535, NULL,
        "of gRPC; 0: the system chooses; -1: none"),
    STRING("address", address, "127.0.0.1", NULL,
           "to listen at; 0.0.0.0: any, for which a token and TLS are there"),
    STRING("models", models, "", NULL,
           "JSON file that names models, instead of words; read again when it changes"),
    CHOICE("checkpoint", checkpoint, "best", "best|latest", NULL,
           "of a run: which of its checkpoints become versions"),
    STRING("policy", policy, "latest:1", NULL,
           "which versions are served: latest:N, all, specific:N,N"),
    INT("max_batch_size", max_batch_size, "64", 1, 65536, "Batches", "rows of a batch"),
    INT("batch_delay_us", batch_delay_us, "0", 0, 1e7, "Batches",
        "how long the first request waits for others while there is room"),
    INT("max_queue", max_queue, "1024", 1, 1e6, "Batches",
        "requests that may wait for a version; more are refused"),
    INT("max_sequences", max_sequences, "1024", 1, 1e6, "Batches",
        "of a version of a policy with a memory; a new one evicts the one idle for longest"),
    FLOAT("sequence_secs", sequence_secs, "60", 0, 1e6, "Batches",
          "a version that is replaced waits so long for the next step of a sequence"),
    FLOAT("poll_secs", poll_secs, "1", 0.01, 3600, NULL, "between two looks for new versions"),
    FLOAT("drain_secs", drain_secs, "10", 0, 3600, NULL,
          "after SIGTERM, for what clients have sent"),
    INT("max_connections", max_connections, "512", 1, 1e5, NULL, "of HTTP at a time"),
    INT("max_request_mib", max_mib, "4", 1, 1024, NULL,
        "size of a request; JSON takes up to eighty times as much while it is read"),
    STRING("device", device, "cpu", NULL, "cpu, cuda, auto or ref"),
    PLAYED_RUN_ROWS,
    CREDENTIALS_SERVER_ROWS(access, "Access", "the server's", "clients"),
};
static const struct option_exit exits[] = {
    {"0", "SIGTERM or SIGINT has ended it, and every request was answered"},
    {"1", "the port is in use, or cannot be listened at"},
    {"2", "wrong options, or a run that cannot be served"},
    {NULL, NULL},
};

static const struct option_table table = {
    .program = "serve",
    .words = "[NAME=]RUN ...",
    .about =
        "Answers inference requests for the policies of run folders: the Open Inference "
        "Protocol over gRPC and HTTP, and TensorFlow Serving's REST.",
    .exits = exits,
    .options = rows,
    .count = sizeof(rows) / sizeof(rows[0]),
};

struct serve {
  struct serve_options options;
  struct model_policy policy; /* --policy */
  struct models_file file;
  struct stat file_seen;
  struct model *model[MODELS_MAX];
  struct model_metrics model_metrics;
  struct service service;
  struct token_file *tokens;
  struct credentials *credentials;
  struct http *http;
  struct rpc *rpc;
};

/* ---- the models */

static struct model_config usual(const struct serve *self) {
  const struct serve_options *options = &self->options;
  return (struct model_config){.checkpoint = options->checkpoint,
                               .env = options->env,
                               .env_args = options->env_args,
                               .device = options->device,
                               .code = options->code,
                               .policy = self->policy,
                               .limits = {.max_batch = (int)options->max_batch_size,
                                          .delay_us = options->batch_delay_us,
                                          .max_queue = (int)options->max_queue,
                                          .max_sequences = (int)options->max_sequences},
                               .idle_us = (int64_t)(options->sequence_secs * 1e6)};
}

/* Where NAME ends; NULL: the word is a path. Those of sweep.py have "=" in them, too. */
static char *end_of_name(char *word) {
  char *equals = strchr(word, '=');
  struct stat info;
  if (!equals || memchr(word, '/', (size_t)(equals - word))) return NULL;
  return stat(word, &info) == 0 && S_ISDIR(info.st_mode) ? NULL : equals;
}

/* "NAME=PATH", or a path whose last part is the name. The word is cut. */
static enum status take_word(struct model_config *config, char *word, struct error *error) {
  char *equals = end_of_name(word);
  config->path = equals ? equals + 1 : word;
  if (equals) *equals = '\0';
  for (size_t end = strlen(word); !equals && end > 1 && word[end - 1] == '/';) word[--end] = '\0';
  char *slash = strrchr(word, '/');
  config->name = equals || !slash ? word : slash + 1;
  if (models_name_fits(config->name)) return STATUS_OK;
  return status_fail(error, STATUS_INVALID,
                     "'%.64s' is no name for a model (letters, digits and -_.): write NAME=%s",
                     config->name, config->path);
}

static enum status name_models(struct serve *self, int num_words, char **words,
                               struct error *error) {
  enum status status = model_parse_policy(&self->policy, self->options.policy, error);
  if (status != STATUS_OK) return status;
  struct model_config config = usual(self);
  bool has_file = self->options.models[0] != '\0';
  if (has_file == (num_words > 0) || num_words > MODELS_MAX)
    return status_fail(error, STATUS_INVALID, "name one or more run folders, or --models=FILE");
  if (has_file) {
    (void)file_has_changed(self->options.models, &self->file_seen);
    return models_file_read(&self->file, self->options.models, &config, error);
  }
  for (int i = 0; status == STATUS_OK && i < num_words; i++) {
    self->file.model[i] = config;
    status = take_word(&self->file.model[self->file.count++], words[i], error);
  }
  return status;
}

static void make_metrics(struct serve *self) {
  struct metrics *m = self->service.metrics = metrics_create(MAX_METRICS);
  self->model_metrics = (struct model_metrics){
      .loads = metrics_counter(m, "serve/versions_loaded", "versions that became ready"),
      .failures = metrics_counter(m, "serve/versions_failed", "versions that cannot be served"),
      .of_versions = {
          .requests = metrics_counter(m, "serve/requests", "inference requests accepted"),
          .refused = metrics_counter(m, "serve/requests_refused",
                                     "requests that no version took: queue full, not found"),
          .rows = metrics_counter(m, "serve/rows", "rows answered"),
          .batches = metrics_counter(m, "serve/batches", "batches run"),
          .evictions = metrics_counter(m, "serve/sequences_evicted",
                                       "sequences that made room for new ones"),
          .batch_rows = metrics_histogram(m, "serve/batch_rows", "rows of a batch"),
          .wait_us = metrics_histogram(m, "serve/wait_us", "a request's time in the queue"),
          .run_us = metrics_histogram(m, "serve/run_us", "time to compute a batch")}};
}

static enum status open_models(struct serve *self, struct error *error) {
  struct service *service = &self->service;
  service->model = self->model;
  service->max_bytes = (size_t)self->options.max_mib * MIB;
  make_metrics(self);
  for (int i = 0; i < self->file.count; i++) {
    for (int k = 0; k < i; k++)
      if (strcmp(self->file.model[i].name, self->file.model[k].name) == 0)
        return status_fail(error, STATUS_INVALID, "two models are named %s: write NAME=RUN",
                           self->file.model[i].name);
    enum status status = model_open(&self->model[service->num_models++], &self->file.model[i],
                                    &self->model_metrics, error);
    if (status != STATUS_OK) return status;
  }
  return STATUS_OK;
}

/* Policies and labels of models that are there; a file that is wrong changes nothing. */
static void read_file_again(struct serve *self) {
  struct models_file *next = check_alloc(1, sizeof(*next));
  struct model_config config = usual(self);
  struct error error;
  if (models_file_read(next, self->options.models, &config, &error) != STATUS_OK)
    log_warn("%s; the file as it was before stays in force", error.text);
  else
    for (int i = 0; i < next->count; i++) {
      struct model *model;
      if (service_find(&model, &self->service, next->model[i].name, &error) == STATUS_OK)
        model_set(model, &next->model[i].policy);
      else
        log_warn("--models: model %s is new, which takes a restart", next->model[i].name);
    }
  models_file_deinit(next);
  free(next);
}

static void poll_models(struct serve *self) {
  if (self->options.models[0] && file_has_changed(self->options.models, &self->file_seen))
    read_file_again(self);
  for (int i = 0; i < self->service.num_models; i++) model_poll(self->model[i], clock_now_us());
}

/* ---- served */

static enum status check_access(const struct serve_options *options, struct error *error) {
  if (options->port < 0 && options->grpc_port < 0)
    return status_fail(error, STATUS_INVALID, "--port=-1 and --grpc_port=-1: there is no way in");
  if (options->access.tls_ca[0] && options->port >= 0)
    return status_fail(error, STATUS_INVALID,
                       "--tls_ca: HTTP asks no client for a certificate: leave it out (--port=-1)");
  return files_check("serve", OTHER_FILES, (int)options->max_connections, error);
}

static enum status start_http(struct serve *self, struct error *error) {
  const struct serve_options *options = &self->options;
  const struct http_options http = {.address = options->address,
                                    .port = (int)options->port,
                                    .max_connections = (int)options->max_connections,
                                    .tokens = self->tokens,
                                    .tls_cert = options->access.tls_cert,
                                    .tls_key = options->access.tls_key};
  enum status status = http_start(&self->http, &self->service, &http, error);
  if (status == STATUS_OK)
    log_info("serving at %s://%s:%d/v2/models/%s", http.tls_cert[0] ? "https" : "http",
             http.address, http_port(self->http), model_name(self->model[0]));
  return status;
}

static enum status start_rpc(struct serve *self, struct error *error) {
  enum status status = rpc_start(&self->rpc, &self->service, self->options.address,
                                 (int)self->options.grpc_port, self->credentials, error);
  if (status == STATUS_OK)
    log_info("serving at gRPC %s:%d", self->options.address, rpc_port(self->rpc));
  return status;
}

static enum status listen_at(struct serve *self, struct error *error) {
  const struct serve_options *options = &self->options;
  const char *address = options->address;
  enum status status = check_access(options, error);
  if (status == STATUS_OK && options->access.token_file[0])
    status = token_file_open(&self->tokens, "--token_file", options->access.token_file, error);
  if (status == STATUS_OK)
    status = credentials_open(&self->credentials, &options->access, CREDENTIALS_SERVER, error);
  if (status == STATUS_OK && options->port >= 0) status = start_http(self, error);
  if (status == STATUS_OK && options->grpc_port >= 0) status = start_rpc(self, error);
  if (status != STATUS_OK) return status;
  bool local = strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0;
  if (!self->tokens && !local)
    log_warn("--address=%s without --token_file: all who reach the port may ask", address);
  else if (!options->access.tls_cert[0] && !local)
    log_warn("--address=%s without --tls_cert: the token and all observations travel in the clear",
             address);
  return STATUS_OK;
}

/* True: a signal asks to stop. */
static bool wait_for_signal(const sigset_t *signals, double seconds) {
  int64_t ns = (int64_t)(seconds * 1e9);
  struct timespec time = {ns / 1000000000, ns % 1000000000};
  int signal_number = sigtimedwait(signals, NULL, &time);
  if (signal_number > 0) log_info("%s: stopping", strsignal(signal_number));
  return signal_number > 0;
}

/* Not ready for balancers, no new connections of HTTP, no new requests of gRPC; what is on its way
 * is answered. A connection that stays open without a request is not waited for longer than a
 * moment, in which clients of gRPC have their next request refused. */
static void drain(struct serve *self) {
  int64_t now_us = clock_now_us(), busy_us = now_us;
  int64_t end_us = now_us + (int64_t)(self->options.drain_secs * 1e6);
  atomic_store(&self->service.draining, true);
  if (self->http) http_drain(self->http);
  while (now_us < end_us && now_us - busy_us < QUIET_US) {
    bool busy = atomic_load(&self->service.in_hand) > 0;
    if (!busy && !self->rpc && http_connections(self->http) == 0) return;
    if (busy) busy_us = now_us;
    clock_sleep_us(1000);
    now_us = clock_now_us();
  }
}

static enum status run(struct serve *self, int argc, char **argv, struct error *error) {
  sigset_t signals;
  int num_words = 0;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  if (!process_ignores(SIGINT)) sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, NULL); /* before threads inherit the mask */
  enum status status = options_parse(&table, &self->options, argc, argv, argv, &num_words, error);
  if (status == STATUS_OK) status = name_models(self, num_words, argv, error);
  if (status == STATUS_OK) status = open_models(self, error);
  if (status == STATUS_OK) status = listen_at(self, error);
  if (status != STATUS_OK) return status;
  while (!wait_for_signal(&signals, self->options.poll_secs)) poll_models(self);
  drain(self);
  return STATUS_OK;
}

int main(int argc, char **argv) {
  static struct serve self;
  struct error error;
  process_init();
  log_init("serve", LOG_INFO);
  options_init(&table, &self.options);
  enum status status = run(&self, argc, argv, &error);
  http_stop(self.http);
  rpc_stop(self.rpc);
  for (int i = 0; i < self.service.num_models; i++) model_close(self.model[i]);
  models_file_deinit(&self.file);
  token_file_close(self.tokens);
  credentials_close(self.credentials);
  if (self.service.metrics) metrics_destroy(self.service.metrics);
  options_deinit(&table, &self.options);
  if (status == STATUS_OK || status == STATUS_DONE) return 0;
  log_error("%s", error.text);
  return status == STATUS_EXISTS || status == STATUS_IO ? EXIT_FAILURE : EXIT_USAGE;
}
