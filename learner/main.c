/* The learner: options, the control loop (signals, timers, checkpoint files), the result. What it
 * controls is in run.h. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <uv.h>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/cluster/tf_config.h"
#include "learner/options.h"
#include "learner/report.h"
#include "learner/run.h"

enum { TICK_MS = 250, EXIT_USAGE = 2 };

struct app {
  struct learner_options options;
  struct run run;
  struct report report;
  uv_loop_t *loop;
  uv_signal_t interrupt, terminate, hangup;
  uv_timer_t tick, checkpoint;
  uv_async_t stop, saved;
  uv_work_t write;
  bool writing; /* a checkpoint is being written by the pool */
  enum status write_status;
  struct error write_error;
};

/* ---- from other threads: wake the loop */

static void wake_stop(void *context) {
  uv_async_send(&((struct app *)context)->stop);
}

static void wake_saved(void *context) {
  uv_async_send(&((struct app *)context)->saved);
}

/* ---- the loop's callbacks */

static void on_stop(uv_async_t *handle) {
  uv_stop(handle->loop);
}

/* Signals since the run has ended. */
static volatile sig_atomic_t signals_seen;

static void on_late_signal(int signal_number) {
  (void)signal_number;
  if (signals_seen++) _exit(130);
}

/* The first signal stops in good order, a second ends at once. */
static void on_signal(uv_signal_t *handle, int signal_number) {
  struct app *app = handle->data;
  log_info("%s: stopping; once more ends at once", strsignal(signal_number));
  progress_stop(app->run.progress, STOP_SIGNAL);
}

static void on_tick(uv_timer_t *timer) {
  struct app *app = timer->data;
  report_tick(&app->report, clock_now_us());
}

static void on_checkpoint_due(uv_timer_t *timer) {
  struct app *app = timer->data;
  trainer_request_save(app->run.trainer);
}

/* On a thread of libuv's pool: the disk may be slow, training goes on. */
static void write_checkpoint(uv_work_t *work) {
  struct app *app = work->data;
  app->write_status = run_write_saved(&app->run, &app->write_error);
}

static void checkpoint_written(uv_work_t *work, int status) {
  struct app *app = work->data;
  (void)status;
  if (app->write_status != STATUS_OK)
    log_warn("no checkpoint: %s; training goes on", app->write_error.text);
  trainer_release_save(app->run.trainer);
  app->writing = false;
}

static void on_saved(uv_async_t *handle) {
  struct app *app = handle->data;
  if (app->writing) return;
  app->writing = true;
  app->write.data = app;
  uv_queue_work(app->loop, &app->write, write_checkpoint, checkpoint_written);
}

static void loop_init(struct app *app) {
  app->loop = uv_default_loop();
  uv_async_init(app->loop, &app->stop, on_stop);
  uv_async_init(app->loop, &app->saved, on_saved);
  uv_timer_init(app->loop, &app->tick);
  uv_timer_init(app->loop, &app->checkpoint);
  uv_signal_t *signals[] = {&app->interrupt, &app->terminate, &app->hangup};
  for (int i = 0; i < 3; i++) {
    uv_signal_init(app->loop, signals[i]);
    signals[i]->data = app;
  }
  app->saved.data = app->tick.data = app->checkpoint.data = app;
}

static void loop_start(struct app *app) {
  uint64_t checkpoint_ms = (uint64_t)(app->options.checkpoint_secs * 1000);
  uv_timer_start(&app->tick, on_tick, TICK_MS, TICK_MS);
  if (app->run.trains && checkpoint_ms)
    uv_timer_start(&app->checkpoint, on_checkpoint_due, checkpoint_ms, checkpoint_ms);
  uv_signal_start(&app->interrupt, on_signal, SIGINT);
  uv_signal_start(&app->terminate, on_signal, SIGTERM);
  uv_signal_start(&app->hangup, on_signal, SIGHUP);
}

/* From here on the loop does not run: a signal cuts the goodbye short, one more ends at once. A
 * signal that stopped the run counts. A checkpoint that is being written is waited for. */
static void loop_finish(struct app *app) {
  uv_timer_stop(&app->tick);
  uv_timer_stop(&app->checkpoint);
  signals_seen = progress_stopped(app->run.progress) == STOP_SIGNAL;
  uv_signal_t *signals[] = {&app->interrupt, &app->terminate, &app->hangup};
  for (int i = 0; i < 3; i++) {
    int number = signals[i]->signum;
    uv_signal_stop(signals[i]);
    signal(number, on_late_signal);
  }
  while (app->writing) uv_run(app->loop, UV_RUN_ONCE);
}

/* ---- options */

static enum status parse(struct app *app, int argc, char **argv, struct error *error) {
  const struct option_table *table = &learner_options_table;
  enum status status = options_parse(table, &app->options, argc, argv, NULL, NULL, error);
  if (status != STATUS_OK) return status;
  bool plays_run =
      strcmp(app->options.mode, "evaluate") == 0 && strcmp(app->options.agent, "vtrace") == 0;
  if (!plays_run || !app->options.logdir[0]) return STATUS_OK;
  /* An evaluated run brings its own options; the command line wins over them. */
  char path[1024];
  snprintf(path, sizeof(path), "%s/config.txt", app->options.logdir);
  if (access(path, R_OK) != 0)
    return status_fail(error, STATUS_NOT_FOUND,
                       "--logdir=%s holds no run to evaluate: there is no config.txt in it",
                       app->options.logdir);
  options_deinit(table, &app->options);
  options_init(table, &app->options);
  status = options_read_file(table, &app->options, path, error);
  if (status != STATUS_OK) return status;
  return options_parse(table, &app->options, argc, argv, NULL, NULL, error);
}

/* Without --listen a cluster's TF_CONFIG says where to listen. */
static enum status apply_tf_config(struct app *app, struct error *error) {
  const char *json = getenv("TF_CONFIG");
  if (!json || !json[0] || options_given(&learner_options_table, &app->options, "listen"))
    return STATUS_OK;
  struct tf_config config = {0};
  enum status status = tf_config_parse(&config, json, error);
  if (status != STATUS_OK) return status;
  if (config.role != TF_ROLE_LEARNER)
    return status_fail(
        error, STATUS_INVALID,
        "TF_CONFIG makes this task %s %d, but this program is the learner: run build/actor here",
        tf_role_name(config.role), config.index);
  return options_set(&learner_options_table, &app->options, "listen", config.listen, "TF_CONFIG",
                     error);
}

static enum status read_options(struct app *app, int argc, char **argv, struct error *error) {
  options_init(&learner_options_table, &app->options);
  enum status status = parse(app, argc, argv, error);
  if (status == STATUS_OK) status = apply_tf_config(app, error);
  if (status != STATUS_OK) return status;
  learner_options_apply_preset(&app->options);
  return learner_options_check(&app->options, error);
}

static void apply_process_options(const struct learner_options *options) {
  static const char *const levels[] = {"debug", "info", "warn", "error"};
  for (int level = LOG_DEBUG; level <= LOG_ERROR; level++)
    if (strcmp(options->log_level, levels[level]) == 0) log_init("learner", (enum log_level)level);
  if (!options->exit_with_parent) return;
  pid_t parent = getppid();
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) exit(1);
}

/* The effective options, for people and for evaluation. */
static void write_config(const struct app *app) {
  char path[1024];
  snprintf(path, sizeof(path), "%s/config.txt", app->run.folder.path);
  FILE *file = fopen(path, "w");
  if (!file) {
    log_warn("cannot write %s", path);
    return;
  }
  options_write(&learner_options_table, &app->options, file);
  fclose(file);
}

static void announce(const struct app *app) {
  const struct run *run = &app->run;
  int port = serve_port(run->serve);
  log_info("%s %s, seed %lld, on %s; %zu parameters; listening on %s%s%.0d", app->options.env,
           app->options.agent, (long long)app->options.seed, device_describe(run->inference_device),
           agent_num_parameters(run->agent), app->options.listen, port ? ", port " : "", port);
  if (run->folder.path[0]) log_info("run folder %s", run->folder.path);
}

/* ---- */

/* Before the goodbye, which may take a while: nothing that was learned may be lost meanwhile. A run
 * that failed keeps its last good checkpoint. */
static bool write_last_checkpoint(struct app *app) {
  if (!app->run.trains) return true;
  struct trainer_report trainer = trainer_report(app->run.trainer);
  struct error error;
  if (trainer.status != STATUS_OK)
    log_error("%s", trainer.error.text);
  else if (run_write_checkpoint(&app->run, &error) != STATUS_OK)
    log_error("no final checkpoint: %s", error.text);
  else
    return true;
  return false;
}

/* Runs until it is told to stop; then the last checkpoint and the result. Returns the exit code. */
static int run_to_end(struct app *app, int64_t start_us) {
  struct error error;
  if (report_open(&app->report, &app->run, start_us, &error) != STATUS_OK)
    log_warn("%s", error.text);
  announce(app);
  loop_start(app);
  uv_run(app->loop, UV_RUN_DEFAULT);
  int64_t end_us = clock_now_us();
  loop_finish(app);
  run_stop_training(&app->run);
  bool saved = write_last_checkpoint(app);
  run_say_goodbye(&app->run, &signals_seen);
  int code = report_result(&app->report, end_us);
  report_close(&app->report);
  return saved ? code : 1;
}

int main(int argc, char **argv) {
  int64_t start_us = clock_now_us();
  static struct app app;
  struct error error;
  log_init("learner", LOG_INFO);
  enum status status = read_options(&app, argc, argv, &error);
  if (status == STATUS_DONE) return 0;
  if (status == STATUS_OK) {
    apply_process_options(&app.options);
    loop_init(&app);
    struct run_callbacks callbacks = {wake_stop, wake_saved, &app};
    status = run_create(&app.run, &app.options, &callbacks, &error);
    if (status == STATUS_OK) status = run_start(&app.run, &error);
  }
  if (status != STATUS_OK) {
    log_error("%s", error.text);
    folder_abandon(&app.run.folder);
    return EXIT_USAGE;
  }
  if (!app.run.evaluates) write_config(&app);
  int code = run_to_end(&app, start_us);
  run_destroy(&app.run);
  options_deinit(&learner_options_table, &app.options);
  return code;
}
