/* The actor: options, one worker per stream, signals. The workers do the work. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "actor/check_apart.h"
#include "actor/check_env.h"
#include "actor/crash.h"
#include "actor/measure.h"
#include "actor/options.h"
#include "actor/signals.h"
#include "actor/worker.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/notify.h"
#include "common/base/process.h"
#include "common/base/thread.h"
#include "common/cluster/mpi_world.h"
#include "envs/env_module.h"
#include "envs/env_words.h"
#include "envs/registry.h"

enum {
  EXIT_USAGE = 2,
  CHECK_HANG_S = 10,
  TICK_MS = 1000,
  GRACE_MS = 500,
  GRACE_TICK_MS = 20,
  END_S = 3 /* to end in; a supervisor waits for 5 */
};

struct app {
  pid_t parent; /* at the start */
  struct actor_options options;
  struct credentials *credentials; /* for the learner */
  const struct acorn_env *env;
  struct acorn_config env_config;
  struct space space;
  struct worker **worker; /* (num_workers) */
  int num_workers;
  struct measure_sum printed; /* what earlier measure lines covered */
  bool holds;                 /* the checked environment */
  volatile bool *checked;     /* the check is over; NULL: there is none */
};

/* ---- options */

static enum status check_streams(struct actor_options *options, struct error *error) {
  options->streams = actor_num_streams(options, (int)options->envs);
  if (options->streams <= options->envs) return STATUS_OK;
  return status_fail(error, STATUS_INVALID,
                     "--streams=%lld is more than --envs=%lld: every stream needs an environment",
                     (long long)options->streams, (long long)options->envs);
}

/* Seconds that a call of the environment may take. Where its author waits for the check they are
 * fewer. */
static unsigned call_limit_s(const struct actor_options *options) {
  bool given = options_given(&actor_options_table, options, "hang_s");
  return options->check_env && !given ? CHECK_HANG_S : (unsigned)options->hang_s;
}

static enum status find_environment(struct app *app, struct error *error) {
  enum status status = env_module_use(app->options.module, app->options.env, error);
  if (status != STATUS_OK) return status;
  crash_install(app->options.env);
  crash_limit(call_limit_s(&app->options));
  crash_in("dlopen");
  status = registry_find(&app->env, app->options.env, error);
  crash_in(NULL);
  if (status != STATUS_OK) return status;
  crash_install(app->env->name);
  status = registry_config(&app->env_config, app->env, app->options.env_args, error);
  if (status != STATUS_OK) return status;
  crash_in("space");
  status = registry_space(&app->space, app->env, &app->env_config, error);
  crash_in(NULL);
  crash_limit(0);
  return status;
}

/* Returns how long the name is, which may be longer than there is room for. */
static int name_stream(char name[WIRE_MAX_PLAYER_NAME], const struct actor_options *options,
                       int stream) {
  return snprintf(name, WIRE_MAX_PLAYER_NAME, "%s/%lld/%d", options->name, (long long)options->task,
                  stream);
}

static enum status check_name(const struct actor_options *options, struct error *error) {
  char name[WIRE_MAX_PLAYER_NAME];
  if (name_stream(name, options, (int)options->streams - 1) >= WIRE_MAX_PLAYER_NAME)
    return status_fail(error, STATUS_INVALID,
                       "--name=%s is too long: with task and stream it must fit %d bytes",
                       options->name, WIRE_MAX_PLAYER_NAME - 1);
  const char *c = options->name;
  while (*c > ' ' && *c <= '~') c++;
  if (!*c && c > options->name) return STATUS_OK;
  return status_fail(error, STATUS_INVALID,
                     "--name=%s: it needs letters, digits or signs of ASCII, and no space",
                     options->name);
}

static enum status read_options(struct app *app, int argc, char **argv, struct error *error) {
  struct actor_options *options = &app->options;
  options_init(&actor_options_table, options);
  enum status status = options_parse(&actor_options_table, options, argc, argv, NULL, NULL, error);
  if (status == STATUS_OK) status = env_words_expand(&actor_options_table, options, error);
  if (status == STATUS_OK && !options->check_env) /* which needs no cluster */
    status = actor_options_apply_tf_config(options, getenv("TF_CONFIG"), error);
  if (status == STATUS_OK) status = actor_options_check_learner(options, error);
  if (status == STATUS_OK) status = check_streams(options, error);
  if (status == STATUS_OK) status = check_name(options, error);
  if (status == STATUS_OK && !options->check_env)
    status = files_check("an actor", ACTOR_FILES, (int)options->streams, error);
  if (status == STATUS_OK)
    status = credentials_open(&app->credentials, &options->access, CREDENTIALS_CLIENT, error);
  if (status == STATUS_OK && options->check_env) app->checked = check_apart(options->env);
  if (status == STATUS_OK) status = find_environment(app, error);
  return status;
}

static void apply_process_options(const struct app *app) {
  const struct actor_options *options = &app->options;
  log_init_named(options->name, options->log_level);
  if (!options->exit_with_parent) return;
  mpi_world_leave();
  // No SIGKILL: what environments have started is to end too. One that is stopped ends as well:
  // its process group is an orphan then, and such ones get a SIGHUP and a SIGCONT.
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != app->parent) _exit(EXIT_SUCCESS); // it ended before the line above
}

/* Whoever started this one ends what environments have started in its process group; after its
 * death that is left to us. */
static void end_orphans(const struct app *app) {
  if (app->options.exit_with_parent && getppid() != app->parent && getpgrp() == getpid())
    kill(0, SIGKILL);
}

/* ---- workers */

static enum status start_worker(struct app *app, int stream, int num_environments,
                                struct error *error) {
  const struct actor_options *options = &app->options;
  struct worker_config config = {
      .address = options->learner,
      .credentials = app->credentials,
      .request = {.protocol = WIRE_PROTOCOL,
                  .space = app->space,
                  .num_environments = num_environments,
                  .role = strcmp(options->role, "eval") == 0 ? WIRE_ROLE_EVAL : WIRE_ROLE_TRAIN},
      .env = app->env,
      .env_config = &app->env_config,
      .step_delay_us = options->step_delay_us,
      .reconnect_us = options->reconnect_s * 1000000,
      .shared_rows = options->shared_rows,
      .call_limit_s = call_limit_s(options),
      .finished = signals_wake,
  };
  registry_identity(config.request.environment, sizeof config.request.environment, app->env,
                    &app->env_config);
  name_stream(config.request.name, options, stream);
  return worker_create(&app->worker[stream], &config, error);
}

/* The environments, as evenly as they go. */
static enum status start_workers(struct app *app, struct error *error) {
  int streams = (int)app->options.streams, envs = (int)app->options.envs;
  app->worker = check_alloc((size_t)streams, sizeof(*app->worker));
  for (int i = 0; i < streams; i++) {
    enum status status = start_worker(app, i, envs / streams + (i < envs % streams), error);
    if (status != STATUS_OK) return status;
    app->num_workers++;
  }
  return STATUS_OK;
}

static void cancel_workers(struct app *app) {
  for (int i = 0; i < app->num_workers; i++) worker_cancel(app->worker[i]);
}

static int count_running(struct app *app) {
  int running = 0;
  for (int i = 0; i < app->num_workers; i++) {
    enum status status;
    struct error error;
    if (!worker_finished(app->worker[i], &status, &error)) running++;
  }
  return running;
}

/* Says what went wrong with a worker, if something did. Returns the exit code for it, or 0. */
static int report_failure(struct app *app) {
  for (int i = 0; i < app->num_workers; i++) {
    enum status status;
    struct error error;
    if (!worker_finished(app->worker[i], &status, &error) || status == STATUS_DONE) continue;
    log_error("stream %d: %s", i, error.text);
    return status == STATUS_UNAVAILABLE ? ACTOR_EXIT_NO_LEARNER : EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}

/* Code that hangs cannot be stopped inside its process, so the process exits; its supervisor
 * restarts it. Streams that only wait for the one that hangs are not named. */
static bool report_hang(struct app *app) {
  int64_t limit_us = app->options.hang_s * 1000000;
  bool hangs = false;
  for (int i = 0; limit_us && i < app->num_workers; i++) {
    int64_t us = worker_stepping_us(app->worker[i]);
    if (us <= limit_us || worker_waits_for_turn(app->worker[i])) continue;
    log_error("environment %s hangs: stream %d has been stepping for %lld s (--hang_s=%lld)",
              app->env->name, i, (long long)(us / 1000000), (long long)app->options.hang_s);
    hangs = true;
  }
  return hangs;
}

/* One line for the time since the last one. */
static void print_measure(struct app *app) {
  struct measure_sum now = {0};
  for (int i = 0; i < app->num_workers; i++) measure_add(&now, worker_measure(app->worker[i]));
  struct measure_sum since = now;
  measure_subtract(&since, &app->printed);
  app->printed = now;
  char name[WIRE_MAX_PLAYER_NAME + 32], line[512];
  snprintf(name, sizeof name, "%s/%lld", app->options.name, (long long)app->options.task);
  measure_line(line, sizeof line, name, &since);
  puts(line);
  fflush(stdout);
}

/* ---- the run */

/* Until the run is over, a signal comes or something fails. Returns the exit code: 0 only where the
 * learner has said that the run is over. */
static int supervise(struct app *app) {
  while (count_running(app) > 0) {
    int number = signals_wait(TICK_MS);
    if (number == SIGUSR1) print_measure(app);
    if (number == SIGTERM || number == SIGINT) {
      log_info("%s: stopping", strsignal(number));
      return SIGNALS_EXIT + number;
    }
    int failure = report_failure(app);
    if (failure) return failure;
    if (report_hang(app)) return EXIT_FAILURE;
  }
  int failure = report_failure(app);
  if (failure) return failure;
  log_info("the learner has ended the run: training done");
  notify_send(NOTICE_FINISHED);
  return EXIT_SUCCESS;
}

/* Gives the workers a moment to end their streams in good order; an environment may not let them.
 * */
static void finish(struct app *app, int exit_code) {
  process_end_within(END_S, exit_code);
  cancel_workers(app);
  int64_t deadline_us = clock_now_us() + GRACE_MS * 1000;
  while (count_running(app) > 0 && clock_now_us() < deadline_us) {
    int number = signals_wait(GRACE_TICK_MS);
    if (number == SIGTERM || number == SIGINT) _exit(SIGNALS_EXIT + number);
  }
  if (app->options.measure) print_measure(app);
  end_orphans(app);
  if (count_running(app) > 0) _exit(exit_code);
  for (int i = 0; i < app->num_workers; i++) worker_destroy(app->worker[i]);
}

static int run(struct app *app) {
  struct error error;
  if (start_workers(app, &error) != STATUS_OK) {
    log_error("%s", error.text);
    finish(app, EXIT_FAILURE);
    return EXIT_FAILURE;
  }
  log_info("%s x %lld over %lld streams, for the learner at %s", app->env->name,
           (long long)app->options.envs, (long long)app->options.streams, app->options.learner);
  int exit_code = supervise(app);
  finish(app, exit_code);
  return exit_code;
}

static void *run_check(void *context) {
  static char crash_stack[CRASH_STACK_BYTES];
  struct app *app = context;
  crash_watch_thread(crash_stack);
  crash_limit(call_limit_s(&app->options));
  app->holds = check_env(app->env, &app->env_config, &app->space, stdout);
  return NULL;
}

/* On a thread of its own, as in a run. No learner, no workers: signals end it. */
static int check_environment(struct app *app) {
  pthread_t thread;
  signals_stop();
  setvbuf(stdout, NULL, _IOLBF, 0); // what was seen stands there when a call hangs
  thread_start(&thread, "check", run_check, app);
  pthread_join(thread, NULL);
  *app->checked = true;
  return app->holds ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv) {
  static struct app app;
  app.parent = getppid();
  process_init();
  notify_init();
  signals_start();
  struct error error;
  enum status status = read_options(&app, argc, argv, &error);
  int exit_code = status == STATUS_DONE ? EXIT_SUCCESS : EXIT_USAGE;
  if (status == STATUS_OK) {
    signals_keep();
    apply_process_options(&app);
    exit_code = app.options.check_env ? check_environment(&app) : run(&app);
  } else if (status != STATUS_DONE) {
    fprintf(stderr, "actor: %s\n", error.text);
  }
  free(app.worker);
  credentials_close(app.credentials);
  registry_config_deinit(&app.env_config);
  options_deinit(&actor_options_table, &app.options);
  return exit_code;
}
