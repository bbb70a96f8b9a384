#include "learner/run/run.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/process.h"
#include "common/rpc/address.h"
#include "learner/device/create.h"
#include "learner/learn/algorithms.h"
#include "learner/run/gauges.h"
#include "learner/run/run_checkpoint.h"
#include "learner/run/run_environment.h"
#include "learner/run/run_experience.h"
#include "learner/run/run_parts.h"
#include "learner/run/run_learners.h"
#include "learner/run/run_parameters.h"
#include "learner/run/run_replay.h"

enum { STOP_GRACE_US = 3 * 1000 * 1000, LINGER_US = 10 * 1000 * 1000 };

/* ---- made */

static enum status open_folder(struct run *run, struct error *error) {
  const struct learner_options *options = run->options;
  if (!run->evaluates)
    return folder_open(&run->folder, options->logdir, run->label, options->agent, options->resume,
                       error);
  if (run->agent->algorithm) return folder_open_read_only(&run->folder, options->logdir, error);
  return STATUS_OK;
}

/* How many environments of each kind there may be. With a barrier training rows stand at their
 * slots, so there are exactly as many as are expected. */
static void count_slots(struct run *run) {
  const struct learner_options *options = run->options;
  int64_t expected = options->num_envs;
  run->num_eval_slots = (int)(run->evaluates ? expected : options->num_eval_envs);
  if (run->evaluates)
    run->num_train_slots = 0;
  else if (options->deterministic)
    run->num_train_slots = (int)expected;
  else
    run->num_train_slots = (int)(options->max_envs ? options->max_envs : 2 * expected);
}

enum status run_create(struct run *run, struct learner_options *options,
                       const struct run_callbacks *callbacks, struct error *error) {
  *run = (struct run){.options = options, .folder = {.pin = -1, .lock = -1}};
  run->evaluates = strcmp(options->mode, "evaluate") == 0;
  run->agent = algorithms_find(options->agent);
  run->trains = !run->evaluates && run->agent->algorithm;
  count_slots(run);

  enum status status =
      credentials_open(&run->credentials, &options->access, CREDENTIALS_SERVER, error);
  if (status == STATUS_OK) status = run_find_environment(run, options, error);
  if (status == STATUS_OK) status = open_folder(run, error);
  if (status == STATUS_OK) status = run_check_same(run, error);
  if (status == STATUS_OK) status = run_make_network(run, error);
  if (status == STATUS_OK) status = run_plan_experience(run, error);
  if (status == STATUS_OK) status = run_learners_open(run, callbacks->words, error);
  if (status != STATUS_OK) return status;
  gauges_create(run);
  run_plan_exploration(run);
  run_make_progress(run, callbacks);
  run->weights = weights_create(run->inference_device, network_num_parameters(run->network));
  status = run_make_training(run, callbacks, error);
  if (status == STATUS_OK && run->rank == 0) status = run_load_if_wanted(run, error);
  if (status == STATUS_OK) status = run_learners_share(run, error);
  if (status == STATUS_OK) run_make_serving(run);
  return status;
}

/* ---- started and stopped */

/* In the worst case every environment has an actor, and so a connection, of its own. */
static void warn_of_few_files(int environments) {
  int connections = rpc_server_max_connections(LEARNER_FILES);
  if (environments <= connections) return;
  log_warn(
      "there is room for %d environments, but files for %d connections only: raise the limit "
      "of open files (ulimit -n) if each has an actor of its own",
      environments, connections);
}

static void warn_of_open_port(const struct learner_options *options) {
  if (address_is_local(options->listen)) return;
  if (!options->access.token_file[0])
    log_warn("--listen=%s without --token_file: any client that reaches the port may join the run",
             options->listen);
  if (!options->access.tls_cert[0] && options->access.operator_token_file[0])
    log_warn("--listen=%s without --tls_cert: the operator's token travels in the clear",
             options->listen);
  else if (!options->access.tls_cert[0] && options->access.token_file[0])
    log_warn("--listen=%s without --tls_cert: the token and all observations travel in the clear",
             options->listen);
}

enum status run_start(struct run *run, struct error *error) {
  size_t slots = (size_t)(run->num_train_slots + run->num_eval_slots);
  size_t rows_bytes = ingress_max_message_bytes(&run->space, (int)slots);
  size_t piece_bytes = WIRE_PIECE_BYTES + WIRE_PIECE_HEADER_BYTES;
  run->parameters = run_parameters_create(run);
  struct serve_config config = {
      .listen = run->options->listen,
      .credentials = run->credentials,
      .queues = run_num_queues(run, process_cores()),
      .max_message_bytes = rows_bytes > piece_bytes ? rows_bytes : piece_bytes,
      .methods = run_parameters_methods(run->parameters),
      .num_methods = RUN_PARAMETERS_METHODS};
  enum status status = serve_start(&run->serve, &config, run->ingress, run->leases, run->batcher,
                                   run->inference, error);
  if (status != STATUS_OK) return status;
  warn_of_few_files((int)slots);
  warn_of_open_port(run->options);
  if (run->trains) trainer_start(run->trainer);
  return STATUS_OK;
}

/* What actors hear: a finished run sends them home, an interrupted one lets them come back. */
static void say_why(struct run *run) {
  switch (progress_stopped(run->progress)) {
    case STOP_SIGNAL:
    case STOP_NO_ACTORS:
      ingress_stop(run->ingress, RPC_UNAVAILABLE, "the learner is stopping");
      break;
    case STOP_ERROR:
      ingress_stop(run->ingress, RPC_FAILED_PRECONDITION, "the learner has failed");
      break;
    default:
      ingress_stop(run->ingress, RPC_OK, "training done");
  }
}

void run_stop_training(struct run *run) {
  say_why(run);
  if (!run->trains) return;
  source_close(run->source);
  trainer_join(run->trainer);
  progress_close(run->progress);
}

void run_end_streams(struct run *run, const volatile sig_atomic_t *hurry) {
  enum stop_reason reason = progress_stopped(run->progress);
  bool interrupted = reason == STOP_SIGNAL || reason == STOP_NO_ACTORS;
  serve_stop(run->serve, STOP_GRACE_US, interrupted ? 0 : LINGER_US, hurry);
}

void run_destroy(struct run *run) {
  serve_destroy(run->serve);
  run_parameters_destroy(run->parameters);
  credentials_close(run->credentials);
  inference_destroy(run->inference);
  ingress_destroy(run->ingress);
  batcher_destroy(run->batcher);
  leases_destroy(run->leases);
  trainer_destroy(run->trainer);
  run_replay_destroy(run->replay);
  if (run->source) source_destroy(run->source);
  if (run->blank) train_batch_destroy(run->trainer_device, run->blank);
  if (run->pages) pages_destroy(run->pages);
  if (run->update) update_destroy(run->update);
  if (run->weights) weights_destroy(run->weights);
  progress_destroy(run->progress);
  episode_log_destroy(run->episodes);
  if (run->network) network_destroy(run->network);
  if (run->trainer_device) device_destroy(run->trainer_device);
  if (run->saver_device) device_destroy(run->saver_device);
  if (run->inference_device) device_destroy(run->inference_device);
  if (run->metrics) metrics_destroy(run->metrics);
  free(run->gauges);
  run_learners_close(run);
  folder_close(&run->folder);
}
