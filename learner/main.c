/* The learner: the control loop (signals, timers, checkpoint files), the result. What it controls
 * is in run.h. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <uv.h>

#include "common/base/clock.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/notify.h"
#include "common/base/process.h"
#include "common/base/thread.h"
#include "envs/env_module.h"
#include "learner/learn/algorithms.h"
#include "learner/report/metrics_port.h"
#include "learner/report/pace.h"
#include "learner/report/record.h"
#include "learner/report/report.h"
#include "learner/report/result_file.h"
#include "learner/run/run.h"
#include "learner/run/run_checkpoint.h"
#include "learner/run/run_kept.h"
#include "learner/run/run_learners.h"
#include "learner/run/run_options.h"
#include "learner/run/run_parts.h"

enum {
  EXIT_USAGE = 2,
  SAME_WISH_US = 1000 * 1000,
  NUM_SIGNALS = 4,
  FIRST_CHECKPOINT_MS = 1000,
  NUM_THREADS = 16, /* its own, gRPC's and libuv's */
  END_S = 10        /* to end in, once the result has been printed */
};

struct app {
  struct learner_options options;
  char *differences; /* run_options_read's, until they are said */
  struct run run;
  struct report report;
  uv_loop_t *loop;
  uv_signal_t signals[NUM_SIGNALS];
  int num_signals; /* handled */
  uv_timer_t tick, serve, checkpoint;
  uv_async_t stop, saved;
  uv_work_t write, first_work;
  struct metrics_port *metrics_port; /* NULL: none */
  bool finishing;                    /* only the last checkpoint is written now */
  bool writing;                      /* a checkpoint is being written by the pool */
  bool requested;                    /* or has been asked for */
  int wanted;                        /* enum kept_kind: to be asked for after it */
  int missed;                        /* likewise: that could not be written, with the next one */
  enum status write_status;
  int failing;      /* enum kept_kind: what could not be written, until it is again */
  bool folder_lost; /* the run folder is gone: nothing is written any more */
  bool interrupted; /* SIGINT stopped the run */
  struct error write_error;
};

static const char no_actors[] = "no actor is left: each was given up; logs/actor-*.log tell why";

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
static volatile int64_t first_signal_us; /* 0: there has been none */

/* What stops a service signals every process of it, and so does our parent: that is one wish. */
static bool is_repeated(int signal_number, int64_t now_us) {
  return signal_number != SIGINT && first_signal_us && now_us - first_signal_us < SAME_WISH_US;
}

static void on_late_signal(int signal_number) {
  int64_t now_us = clock_now_us();
  if (is_repeated(signal_number, now_us)) return;
  if (!first_signal_us) first_signal_us = now_us;
  if (signals_seen++) _exit(PROCESS_INTERRUPTED);
}

/* The first signal stops in good order, a second ends at once. SIGUSR1 is the supervisor's: it has
 * given up all actors. */
static void on_signal(uv_signal_t *handle, int signal_number) {
  struct app *app = handle->data;
  if (first_signal_us) return;
  first_signal_us = clock_now_us();
  if (signal_number == SIGUSR1) {
    log_error("%s", no_actors);
    progress_stop(app->run.progress, STOP_NO_ACTORS);
    return;
  }
  app->interrupted = signal_number == SIGINT;
  log_info("%s: stopping; once more ends at once", strsignal(signal_number));
  progress_stop(app->run.progress, STOP_SIGNAL);
}

/* One buffer at a time: what comes meanwhile waits for it. What others are written with stays while
 * they are. */
static void request_checkpoint(struct app *app, int kinds) {
  if (kinds) {
    app->wanted |= kinds | app->missed;
    app->missed = 0;
  }
  if (!app->wanted || app->requested) return;
  app->requested = true;
  run_request_checkpoint(&app->run, app->wanted);
  app->wanted = 0;
}

static void request_others(struct app *app, int64_t now_us) {
  const struct vitals *vitals = &app->report.vitals;
  if (!app->run.trains || app->run.rank > 0 || app->requested) return;
  int64_t longest_us = (int64_t)(app->options.checkpoint_secs * 1e6);
  app->run.others.is_evaluated = vitals->status.eval_environments > 0;
  request_checkpoint(app,
                     run_kept_due(&app->run.others, &vitals->train, &vitals->eval,
                                  progress_steps(app->run.progress), app->options.checkpoint_steps,
                                  now_us - app->report.start_us, longest_us));
}

/* False: there is nowhere to write to. The run ends then, unless it has. One in a folder that was
 * renamed goes on. */
static bool has_folder(struct app *app) {
  struct folder *folder = &app->run.folder;
  struct error error;
  if (app->folder_lost) return false;
  if (folder_moved(folder))
    log_warn("the run folder was moved or renamed: the run goes on in %s", folder->name);
  if (folder_check(folder, &error) == STATUS_OK) return true;
  log_error("%s", error.text);
  app->folder_lost = true;
  progress_stop(app->run.progress, STOP_ERROR);
  return false;
}

static void on_tick(uv_timer_t *timer) {
  struct app *app = timer->data;
  int64_t now_us = clock_now_us();
  if (!has_folder(app)) return;
  report_tick(&app->report, now_us);
  request_others(app, now_us);
  int64_t elapsed_us = now_us - app->report.start_us;
  uv_timer_set_repeat(timer, pace_tick_ms(app->options.metrics_steps ? 0 : elapsed_us));
}

static void on_serve(uv_timer_t *timer) {
  struct app *app = timer->data;
  uint64_t ms = (uint64_t)serve_poll(app->run.serve);
  uv_timer_start(timer, on_serve, ms, 0);
}

static void on_checkpoint_due(uv_timer_t *timer) {
  request_checkpoint(timer->data, KEPT_NEWEST);
}

/* On a thread of libuv's pool: the disk may be slow, training goes on. */
static void write_checkpoint(uv_work_t *work) {
  struct app *app = work->data;
  app->write_status = run_write_saved(&app->run, &app->write_error);
}

/* One that was saved without the replay tells nothing of the room for that. */
static void say_whether_written(struct app *app) {
  int kinds = atomic_load(&app->run.saved_kinds);
  if (app->write_status == STATUS_DONE || !has_folder(app)) return;
  if (app->write_status != STATUS_OK) {
    log_warn("%s; training goes on", app->write_error.text);
    app->failing |= kinds;
    if (kinds & KEPT_BEST) run_kept_forget(&app->run.others, app->run.folder.checkpoints);
    app->missed |= kinds & KEPT_STEP;
  } else if (kinds & KEPT_NEWEST || !(app->failing & KEPT_NEWEST)) {
    if (app->failing) log_info("checkpoints are written again");
    app->failing = 0;
  }
}

static void checkpoint_written(uv_work_t *work, int status) {
  struct app *app = work->data;
  (void)status;
  say_whether_written(app);
  report_checkpoint(&app->report, clock_now_us());
  trainer_release_save(app->run.trainer);
  app->writing = app->requested = false;
  if (!app->finishing) request_checkpoint(app, 0);
}

static void on_saved(uv_async_t *handle) {
  struct app *app = handle->data;
  if (app->writing || app->finishing || !has_folder(app)) return;
  app->writing = true;
  app->write.data = app;
  uv_queue_work(app->loop, &app->write, write_checkpoint, checkpoint_written);
}

static void do_nothing(uv_work_t *work) {
  (void)work;
}

static void pool_started(uv_work_t *work, int status) {
  (void)work, (void)status;
}

static void loop_init(struct app *app) {
  app->loop = uv_default_loop();
  uv_async_init(app->loop, &app->stop, on_stop);
  uv_async_init(app->loop, &app->saved, on_saved);
  uv_timer_init(app->loop, &app->tick);
  uv_timer_init(app->loop, &app->serve);
  uv_timer_init(app->loop, &app->checkpoint);
  app->saved.data = app->tick.data = app->serve.data = app->checkpoint.data = app;
  /* The pool's threads start with its first work, and libuv aborts where they cannot: so before
   * anything else takes memory. */
  uv_queue_work(app->loop, &app->first_work, do_nothing, pool_started);
}

/* All but those that were inherited as ignored (nohup). */
static void handle_signals(struct app *app) {
  static const int stops[NUM_SIGNALS] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
  for (int i = 0; i < NUM_SIGNALS; i++) {
    if (process_ignores(stops[i])) continue;
    uv_signal_t *handle = &app->signals[app->num_signals++];
    uv_signal_init(app->loop, handle);
    handle->data = app;
    uv_signal_start(handle, on_signal, stops[i]);
  }
}

static void loop_start(struct app *app) {
  uint64_t checkpoint_ms = (uint64_t)(app->options.checkpoint_secs * 1000);
  uint64_t tick_ms = pace_tick_ms(0);
  uv_timer_start(&app->tick, on_tick, tick_ms, tick_ms);
  uv_timer_start(&app->serve, on_serve, SERVE_POLL_MS, 0);
  if (app->run.trains && checkpoint_ms)
    uv_timer_start(&app->checkpoint, on_checkpoint_due,
                   checkpoint_ms < FIRST_CHECKPOINT_MS ? checkpoint_ms : FIRST_CHECKPOINT_MS,
                   checkpoint_ms);
}

/* From here on the loop does not run: a signal shortens the wait for players, one more ends the
 * process. A signal of this process that stopped the run counts; where another learner's did, its
 * own is still to come. Waits for a checkpoint that is being written. */
static void loop_finish(struct app *app) {
  uv_timer_stop(&app->tick);
  uv_timer_stop(&app->serve);
  uv_timer_stop(&app->checkpoint);
  enum stop_reason reason = progress_stopped(app->run.progress);
  signals_seen = first_signal_us && (reason == STOP_SIGNAL || reason == STOP_NO_ACTORS);
  /* In libuv's place, which would leave the default action for a moment. */
  for (int i = 0; i < app->num_signals; i++) signal(app->signals[i].signum, on_late_signal);
  app->finishing = true;
  metrics_port_stop(app->metrics_port);
  while (app->writing) uv_run(app->loop, UV_RUN_ONCE);
}

/* ---- at the start */

static void apply_process_options(const struct learner_options *options) {
  log_init_named("learner", options->log_level);
  if (!options->exit_with_parent) return;
  pid_t parent = getppid();
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) exit(1);
}

/* For those who want to watch; the run goes on without. */
static void write_address(const struct run *run) {
  struct error error;
  if (folder_write_address(&run->folder, run->options->listen, serve_port(run->serve),
                           &run->options->access, &error) != STATUS_OK)
    log_warn("%s", error.text);
}

/* A run whose folder does not say what it is could not be continued, nor played: it ends. Of one
 * that is continued the folder says it already. */
static void describe_run(struct app *app) {
  const struct folder *folder = &app->run.folder;
  char action[SPACE_ACTION_BYTES];
  struct error error;
  enum status status = folder_write_environment(folder, app->run.identity,
                                                run_choices(action, &app->run.space), &error);
  if (status == STATUS_OK) status = folder_write_space(folder, &app->run.space, &error);
  if (status == STATUS_OK) status = run_options_write(&app->options, folder->path, &error);
  if (status == STATUS_OK) return;
  if (app->run.resumed) {
    log_warn("%s", error.text);
    return;
  }
  log_error("%s", error.text);
  progress_stop(app->run.progress, STOP_ERROR);
}

/* Playing the run later would need the file; the run goes on without a copy. */
static void keep_module(const struct run *run) {
  struct error error;
  if (env_module_keep(run->folder.path, &error) != STATUS_OK) log_warn("%s", error.text);
}

static void announce(const struct app *app) {
  const struct run *run = &app->run;
  int port = serve_port(run->serve);
  log_info("%s %s, seed %lld, on %s; %zu parameters; listening on %s%s%.0d", run->env_name,
           app->options.agent, (long long)app->options.seed, run->inference_device->description,
           network_num_parameters(run->network), app->options.listen, port ? ", port " : "", port);
  if (run->folder.name[0]) log_info("run folder %s", run->folder.name);
}

/* ---- */

/* With those that were asked for, if the run ended before the trainer's next update. */
static int last_kinds(struct app *app) {
  struct vitals *vitals = &app->report.vitals;
  int missed = app->requested ? atomic_load(&app->run.saved_kinds) & (KEPT_BEST | KEPT_STEP) : 0;
  missed |= app->missed;
  vitals_read_returns(vitals);
  return missed | run_kept_last(&app->run.others, &vitals->train, &vitals->eval,
                                progress_steps(app->run.progress), app->options.checkpoint_steps);
}

/* Before the streams end, which may take a while: a kill meanwhile then loses nothing. A run that
 * failed keeps its last good checkpoint. */
static bool write_last_checkpoint(struct app *app) {
  if (!app->run.trains) return true;
  if (!has_folder(app)) return false;
  struct trainer_report trainer = trainer_report(app->run.trainer);
  struct error error;
  bool failed = trainer.status != STATUS_OK;
  if (failed) log_error("%s", trainer.error.text);
  /* Where another learner is missing this one is as good as before. */
  if (failed && trainer.status != STATUS_UNAVAILABLE) return false;
  /* Nor does a stop fail by one that ended before; but the end of the first one, which has started
   * the others, is a signal for them. */
  if (failed && app->run.rank > 0) progress_fail(app->run.progress);
  if (progress_stopped(app->run.progress) == STOP_SIGNAL) failed = false;
  if (app->run.peers && !run_learners_writes(&app->run)) return !failed;
  if (run_write_checkpoint(&app->run, last_kinds(app), &error) != STATUS_OK)
    log_error("%s", error.text);
  else
    return !failed;
  return false;
}

/* Why a run failed; "": it did not. */
static const char *failure(struct app *app, bool saved) {
  static struct trainer_report trainer;
  if (app->report.result.reason == STOP_NO_ACTORS) return no_actors;
  if (app->run.trainer) trainer = trainer_report(app->run.trainer);
  bool failed = app->report.result.reason == STOP_ERROR || !saved;
  if (failed && trainer.status != STATUS_OK) return trainer.error.text;
  return saved ? "" : "the last checkpoint or its replay could not be written";
}

/* run.json and result.json; an evaluation changes neither. */
static void write_results(struct app *app, bool saved, int code) {
  const struct run_result *result = &app->report.result;
  if (app->run.evaluates || app->folder_lost) return;
  do {
    record_end(&app->run, stop_reason_name(result->reason), code);
    result_file_write(&app->run, result, code, failure(app, saved));
  } while (run_learners_leave(&app->run)); /* then in its own folder, too */
}

/* Runs until a stop; then writes the last checkpoint and the result. Returns the exit code. */
static int run_to_end(struct app *app, int64_t start_us) {
  struct error error;
  if (report_open(&app->report, &app->run, start_us, &error) != STATUS_OK)
    log_warn("%s", error.text);
  announce(app);
  if (app->run.trains)
    run_kept_init(&app->run.others, app->run.folder.checkpoints, progress_steps(app->run.progress),
                  app->options.checkpoint_steps);
  loop_start(app);
  uv_run(app->loop, UV_RUN_DEFAULT);
  int64_t end_us = clock_now_us();
  loop_finish(app);
  run_stop_training(&app->run);
  bool saved = write_last_checkpoint(app);
  notify_send(NOTICE_FINISHED); /* nothing is lost from here on */
  if (app->run.trains) report_checkpoint(&app->report, clock_now_us());
  run_end_streams(&app->run, &signals_seen);
  int code = report_result(&app->report, end_us);
  if (!saved) code = 1;
  if (code == 0 && app->interrupted) code = PROCESS_INTERRUPTED;
  write_results(app, saved, code);
  report_close(&app->report);
  /* In this order: where this learner could not write, another one takes the folder. */
  folder_close(&app->run.folder);
  peers_leave(app->run.peers, saved);
  return code;
}

int main(int argc, char **argv) {
  int64_t start_us = clock_now_us();
  static struct app app = {.run.folder = {.pin = -1, .lock = -1}};
  struct error error;
  process_init();
  notify_init();
  record_init(argc, argv);
  log_init("learner", LOG_INFO);
  if (argc == 2 && strcmp(argv[1], "--help=algorithms") == 0) {
    algorithms_markdown(stdout);
    return 0;
  }
  enum status status = run_options_read(&app.options, &app.differences, argc, argv, &error);
  if (status == STATUS_DONE) return 0;
  if (status == STATUS_OK) status = files_check("the learner", LEARNER_FILES, 1, &error);
  if (status == STATUS_OK)
    status = thread_check(
        NUM_THREADS - 1 +
            run_trainer_threads(&app.options, process_cores(), sysconf(_SC_NPROCESSORS_ONLN)),
        &error);
  if (status == STATUS_OK) {
    apply_process_options(&app.options);
    loop_init(&app);
    struct run_callbacks callbacks = {wake_stop, wake_saved, &app, argv};
    status = run_create(&app.run, &app.options, &callbacks, &error);
    if (status == STATUS_OK) run_options_say_differences(app.differences);
    if (status == STATUS_OK)
      status = metrics_port_start(&app.metrics_port, app.loop, &app.options, &app.report, &error);
    /* Before the learner listens, as a supervisor may stop it from then on: libuv keeps a signal
     * until the loop runs. */
    if (status == STATUS_OK) handle_signals(&app);
    if (status == STATUS_OK) status = run_start(&app.run, &error);
  }
  if (status != STATUS_OK) {
    /* Done: stopped while it waited for an actor to tell the environment. */
    if (status != STATUS_DONE) log_error("%s", error.text);
    folder_abandon(&app.run.folder);
    if (status != STATUS_DONE) result_file_write_refusal(&app.run, EXIT_USAGE, error.text);
    peers_leave(app.run.peers, false);
    return status == STATUS_DONE ? 0 : EXIT_USAGE;
  }
  if (!app.run.evaluates) {
    describe_run(&app);
    keep_module(&app.run);
    write_address(&app.run);
    result_file_remove(&app.run);
    record_start(&app.run);
  }
  int code = run_to_end(&app, start_us);
  process_end_within(END_S, code);
  run_destroy(&app.run);
  /* A supervisor has its own way, and MPI's launcher would kill the learners that still write. */
  bool by_signal = !app.options.exit_with_parent && !app.options.learners_mpi;
  options_deinit(&learner_options_table, &app.options);
  if (code == PROCESS_INTERRUPTED && by_signal) process_end_interrupted();
  return code;
}
