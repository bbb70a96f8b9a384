/* A look at a running learner: asks it for its Status and shows the answer, once or again and
 * again. What scripts/status.sh starts. */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/option_rows.h"
#include "common/rpc/client.h"
#include "deploy/inspect/learner_place.h"
#include "deploy/inspect/status_view.h"

enum { EXIT_FAILED = 1, EXIT_USAGE = 2, MESSAGE_BYTES = 64 << 20, ROWS_WITHOUT_NUMBER = 0 };

struct settings {
  struct options_given given;
  bool json;
  double watch; /* seconds; NaN: once */
  double timeout_s;
  struct credentials_options access;
};

#define AT(member) offsetof(struct settings, member)
static const struct option rows[] = {
    FLOAT("watch", watch, "none", 0.1, 3600, "Options",
          "show it again every so many seconds (--watch alone: 1), until the run is over"),
    BOOL("json", json, "false", "Options", "one line of JSON instead of a table"),
    FLOAT("timeout_s", timeout_s, "5", 0.1, 3600, "Options", "seconds to wait for an answer"),
    CREDENTIALS_CLIENT_ROWS(access, "Options"),
};

static const struct option_exit exits[] = {
    {"0", "a learner answered, and with --watch until its run was over"},
    {"1", "no learner answers, or the output cannot be written"},
    {"2", "wrong options"},
    {NULL, NULL},
};

static const struct option_table table = {
    .program = "status",
    .words = "[ADDRESS]",
    .about =
        "What scripts/status.sh starts: shows what a running learner does. "
        "ADDRESS is HOST:PORT, unix:PATH or a run folder of this machine, or a folder of them: the "
        "newest run that goes on is shown; without it that of runs/. Of a run folder the files "
        "below need not be given.",
    .exits = exits,
    .options = rows,
    .count = sizeof(rows) / sizeof(rows[0]),
};

struct app {
  struct settings settings;
  struct learner_place place;
  struct credentials *credentials;
  struct rpc_channel *channel;
};

static int timeout_ms(const struct app *app) {
  return (int)(app->settings.timeout_s * 1000);
}

/* ---- asking */

static enum status ask(struct wire_status *status, const struct app *app, struct error *error) {
  uint8_t *reply;
  size_t bytes;
  rpc_channel_renew(app->channel);
  struct rpc_result result =
      rpc_unary(app->channel, "/acorn.Acorn/Status", "", 0, &reply, &bytes, timeout_ms(app));
  enum status outcome = result.code == RPC_OK
                            ? wire_unpack_status(status, reply, bytes, error)
                            : learner_place_explain(&app->place, &result, timeout_ms(app), error);
  free(reply);
  return outcome;
}

/* ---- showing */

static struct view_size terminal_size(bool redraws) {
  struct winsize size;
  struct view_size view = {.end = redraws ? "\033[K\n" : "\n"};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 2) return view;
  view.columns = redraws ? size.ws_col - 1 : size.ws_col;
  view.rows = redraws ? size.ws_row - 1 : ROWS_WITHOUT_NUMBER;
  return view;
}

/* On a terminal the new page is written over the old one, so that it does not flicker. */
static enum status show(const struct app *app, const struct wire_status *status, bool redraws,
                        struct error *error) {
  if (app->settings.json) {
    status_view_json(stdout, status, app->place.address);
  } else {
    struct view_size size = terminal_size(redraws);
    if (redraws) fputs("\033[H", stdout);
    status_view_table(stdout, status, &size);
    fputs(redraws ? "\033[J" : isnan(app->settings.watch) ? "" : "\n", stdout);
  }
  if (fflush(stdout) == 0) return STATUS_OK;
  return status_fail(error, STATUS_IO, "cannot write: %s", strerror(errno));
}

static enum status look(const struct app *app, bool redraws, struct error *error) {
  struct wire_status status;
  enum status outcome = ask(&status, app, error);
  if (outcome != STATUS_OK) return outcome;
  outcome = show(app, &status, redraws, error);
  wire_status_deinit(&status);
  return outcome;
}

/* Until the run is over, which is no failure once it was seen. */
static enum status watch(const struct app *app, struct error *error) {
  bool redraws = isatty(STDOUT_FILENO) && !app->settings.json;
  if (redraws) fputs("\033[2J", stdout);
  enum status status = look(app, redraws, error);
  while (status == STATUS_OK) {
    clock_sleep_us((int64_t)(app->settings.watch * 1e6));
    status = look(app, redraws, error);
    if (status != STATUS_UNAVAILABLE) continue;
    fprintf(stderr, "status: the watch is over: %s\n", error->text);
    return STATUS_OK;
  }
  return status;
}

/* ---- */

/* "--watch" alone has a value of its own. */
static void complete_words(int argc, char **argv) {
  static char once_a_second[] = "--watch=1";
  for (int i = 1; i < argc; i++) {
    bool has_value = i + 1 < argc && argv[i + 1][0] >= '0' && argv[i + 1][0] <= '9' &&
                     !strchr(argv[i + 1], ':') && access(argv[i + 1], F_OK) != 0;
    if (strcmp(argv[i], "--watch") == 0 && !has_value) argv[i] = once_a_second;
  }
}

static enum status start(struct app *app, int argc, char **argv, struct error *error) {
  int num_words = 0;
  complete_words(argc, argv);
  options_init(&table, &app->settings);
  enum status status = options_parse(&table, &app->settings, argc, argv, argv, &num_words, error);
  if (status == STATUS_OK && num_words > 1)
    status = status_fail(error, STATUS_INVALID, "one ADDRESS, please: '%s' is one word too many",
                         argv[1]);
  if (status == STATUS_OK)
    status = learner_place_find(&app->place, num_words ? argv[0] : NULL, "runs", error);
  if (status == STATUS_OK)
    status =
        learner_place_credentials(&app->credentials, &app->place, &app->settings.access, error);
  return status;
}

int main(int argc, char **argv) {
  static struct app app;
  struct error error = {""};
  enum status status = start(&app, argc, argv, &error);
  if (status == STATUS_DONE) return 0;
  int code = status == STATUS_INVALID ? EXIT_USAGE : EXIT_FAILED;
  if (status == STATUS_OK && !credentials_have_tls(app.credentials))
    status = learner_place_listens(&app.place, timeout_ms(&app), &error);
  if (status == STATUS_OK) {
    app.channel = rpc_channel_create(app.place.address, MESSAGE_BYTES, app.credentials);
    status = isnan(app.settings.watch) ? look(&app, false, &error) : watch(&app, &error);
    rpc_channel_destroy(app.channel);
    credentials_close(app.credentials);
  }
  options_deinit(&table, &app.settings);
  if (status == STATUS_OK) return 0;
  fprintf(stderr, "status: %s\n", error.text);
  return code;
}
