#include "learner/run/run_learners.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/notify.h"
#include "common/base/version.h"
#include "common/cluster/host_port.h"
#include "common/cluster/learner_address.h"
#include "common/rpc/address.h"
#include "learner/device/create.h"
#include "learner/params/checkpoint.h"
#include "learner/train/peers.h"
#include "learner/train/peers_devices.h"

/* ---- what cannot be */

static enum status check(const struct run *run, struct error *error) {
  const struct learner_options *options = run->options;
  int learners = (int)options->learners, rank = (int)options->learner_rank;
  const char *colon = strrchr(options->listen, ':');
  bool is_unix = host_port_path(options->listen);
  bool by_file = options->learners_file[0] != '\0', by_net = options->learners_at[0] != '\0';
  int ways = by_file + by_net + options->learners_mpi;
  if (rank >= learners || ways > 1 || (rank >= 0) != ways)
    return status_fail(
        error, STATUS_INVALID,
        "--learner_rank=%d of --learners=%d with --learners_file=%s, --learners_at=%s%s: give all "
        "three, and ranks from 0, or --learners alone; on several hosts --learners_at in place of "
        "--learners_file; or --learners_mpi alone",
        rank, learners, options->learners_file, options->learners_at,
        options->learners_mpi ? ", --learners_mpi" : "");
  if (!run->agent->algorithm || run_replays(run))
    return status_fail(error, STATUS_INVALID,
                       "--learners=%d with --agent=%s: several learners train agents without a "
                       "replay only: vtrace, a2c and ppo",
                       learners, options->agent);
  int64_t windows = options->algorithm.batch_size;
  if (windows && windows < learners)
    return status_fail(error, STATUS_INVALID,
                       "--batch_size=%lld with --learners=%d: each learner needs a window at least",
                       (long long)windows, learners);
  if (windows % learners)
    log_warn("a batch of %lld windows cannot be spread evenly over --learners=%d: it has %lld",
             (long long)windows, learners, (long long)(windows - windows % learners));
  if (!by_net && !is_unix && (!colon || atoi(colon + 1) == 0))
    return status_fail(error, STATUS_INVALID,
                       "--learners=%d with --listen=%s: name a port, since learner RANK listens on "
                       "the port above by its rank",
                       learners, options->listen);
  return peers_check_device(run->trainer_device, error);
}

/* ---- the processes of the others */

static enum status spawn(struct run *run, int rank, const char *file, char *const *words,
                         struct error *error) {
  int count = 0;
  char address[PATH_MAX], log[PATH_MAX + 64];
  char own[5][PATH_MAX + 32];
  int own_count = 4;
  while (words[count]) count++;
  char **all = check_alloc((size_t)count + 16, sizeof(*all));
  memcpy(all, words, (size_t)count * sizeof(*all));
  learner_address(address, run->options->listen, rank);
  snprintf(own[0], sizeof(own[0]), "--listen=%s", address);
  snprintf(own[1], sizeof(own[1]), "--logdir=%s/learner-%d", run->folder.name, rank);
  snprintf(own[2], sizeof(own[2]), "--learner_rank=%d", rank);
  snprintf(own[3], sizeof(own[3]), "--learners_file=%s", file);
  /* As many GPUs as there are, by turns. */
  int gpus = run->trainer_device->ops->asynchronous ? device_count_gpus() : 0;
  if (gpus > 0)
    snprintf(own[own_count++], sizeof(own[0]), "--gpu=%d", ((int)run->options->gpu + rank) % gpus);
  for (int i = 0; i < own_count; i++) all[count++] = own[i];
  static char *const rest[] = {"--exit_with_parent=true", "--metrics_port=0"};
  for (size_t i = 0; i < sizeof(rest) / sizeof(*rest); i++) all[count++] = rest[i];
  snprintf(log, sizeof(log), "%s/logs/learner-%d.log", run->folder.path, rank);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, log, O_CREAT | O_WRONLY | O_APPEND, 0666);
  posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
  notify_share(&files);
  /* In a group of its own, since the supervisor kills the group of a learner that was killed. */
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  /* By its path, so that its process has the program's name. */
  char program[PATH_MAX];
  files_program(program);
  int reason = posix_spawn(&run->learner_process[rank], program, &files, &attributes, all, environ);
  unsetenv(NOTIFY_VARIABLE);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  free(all);
  if (reason == 0) {
    notify_send_number(NOTICE_STARTED, (int)run->learner_process[rank]);
    return STATUS_OK;
  }
  run->learner_process[rank] = 0;
  return status_fail(error, STATUS_EXHAUSTED, "cannot start learner %d of %d: %s", rank,
                     (int)run->options->learners, strerror(reason));
}

/* A file without a name: it ends with its learners. */
static enum status start_others(struct run *run, char *file, size_t bytes, char *const *words,
                                struct error *error) {
  char logs[PATH_MAX];
  snprintf(logs, sizeof(logs), "%s/logs", run->folder.path);
  enum status status = files_make_folders(logs, error);
  run->learners_file = memfd_create("acorn-learners", MFD_CLOEXEC);
  if (status == STATUS_OK && run->learners_file < 0)
    status = status_fail(error, STATUS_EXHAUSTED, "no memory for learners to share: %s",
                         strerror(errno));
  snprintf(file, bytes, "/proc/%d/fd/%d", (int)getpid(), run->learners_file);
  for (int r = 1; r < run->options->learners && status == STATUS_OK; r++)
    status = spawn(run, r, file, words, error);
  return status;
}

static bool has_ended(void *context, int rank) {
  const struct run *run = context;
  siginfo_t info = {0};
  pid_t pid = run->learner_process[rank];
  if (pid <= 0) return false;
  if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0) return errno == ECHILD;
  return info.si_pid == pid;
}

/* Says where its log is, tells the supervisor, which is that of all learners of one host, and kills
 * one that is stopped. The supervisor may end the first learner then, which is a signal for the
 * others: hence the reason of their stop before it. */
static void on_lost(void *context, int rank, bool silent) {
  const struct run *run = context;
  if (run->options->learners_at[0] || run->options->learners_mpi) return;
  if (run->progress) progress_stop(run->progress, STOP_ERROR);
  notify_send_number(silent ? NOTICE_LEARNER_SILENT : NOTICE_LEARNER_ENDED, rank + 1);
  pid_t process = rank < run->options->learners ? run->learner_process[rank] : 0;
  if (process > 0)
    log_warn("the log of learner %d is %s/logs/learner-%d.log", rank, run->folder.path, rank);
  if (silent && process > 0) kill(process, SIGKILL);
}

/* ---- what all have to agree in */

static char *describe(const struct run *run) {
  char *text;
  size_t bytes;
  FILE *out = open_memstream(&text, &bytes);
  CHECK(out, "out of memory for the options of a learner");
  fprintf(out, "version %s\nenvironment %s\n", version_number, run->identity);
  /* Hosts that compute by other instructions would drift apart, a last bit in each update. */
  fprintf(out, "device %s\n", run->trainer_device->description);
  for (int i = 0; i < learner_options_table.count; i++) {
    const struct option *option = &learner_options_table.options[i];
    if (!learner_option_is_shared(option)) continue;
    char *value = options_value_text(option, run->options);
    fprintf(out, "--%s=%s\n", option->name, value);
    free(value);
  }
  fclose(out);
  return text;
}

/* ---- those of other hosts */

/* Splits --learners_at, in place. */
static enum status read_addresses(char **at, char *text, int learners, struct error *error) {
  struct error reason;
  int count = 0;
  for (char *rest = text, *one; (one = strsep(&rest, ",")); count++) {
    if (count < PEERS_MAX) at[count] = one;
    if (host_port_check(one, &reason) != STATUS_OK)
      return status_fail(error, STATUS_INVALID, "--learners_at, learner %d: %.500s", count,
                         reason.text);
  }
  if (count == learners) return STATUS_OK;
  return status_fail(error, STATUS_INVALID,
                     "--learners_at names %d addresses, and --learners=%d: give one for each",
                     count, learners);
}

/* Gradients and parameters travel as they are. */
static void warn_of_open_port(const struct run *run, const char *own) {
  const struct credentials_options *access = &run->options->access;
  if (address_is_local(own)) return;
  if (!access->token_file[0])
    log_warn("--learners_at without --token_file: any client that reaches %s may join as a learner",
             own);
  else
    log_info("learners prove themselves by the token; what they exchange is not encrypted");
}

static enum status open_peers(struct run *run, struct peers_config *config, struct error *error) {
  char *at[PEERS_MAX], *text = check_copy(run->options->learners_at);
  struct tokens tokens;
  enum status status = STATUS_OK;
  credentials_tokens(&tokens, run->credentials);
  if (text[0]) {
    status = read_addresses(at, text, config->learners, error);
    config->at = at;
    config->tokens = &tokens;
    if (status == STATUS_OK) warn_of_open_port(run, at[config->rank]);
  }
  if (status == STATUS_OK) status = peers_open(&run->peers, config, error);
  explicit_bzero(&tokens, sizeof(tokens));
  free(text);
  return status;
}

enum status run_learners_open(struct run *run, char *const *words, struct error *error) {
  const struct learner_options *options = run->options;
  char file[PATH_MAX];
  bool is_placed = options->learners_at[0] || options->learners_file[0];
  if (run->evaluates || (options->learners == 1 && options->learner_rank < 0 && !is_placed))
    return STATUS_OK;
  enum status status = check(run, error);
  if (status != STATUS_OK) return status;
  run->rank = options->learner_rank > 0 ? (int)options->learner_rank : 0;
  snprintf(file, sizeof(file), "%s", options->learners_file);
  if (options->learner_rank < 0) status = start_others(run, file, sizeof(file), words, error);
  if (status != STATUS_OK) return status;
  char *about = describe(run);
  struct peers_config config = {.path = file,
                                .by_mpi = options->learners_mpi,
                                .rank = run->rank,
                                .learners = (int)options->learners,
                                .timeout_ms = (int)(options->learners_timeout_s * 1000),
                                .about = about,
                                .has_ended = has_ended,
                                .lost = on_lost,
                                .context = run};
  status = open_peers(run, &config, error);
  free(about);
  char way[PEERS_DEVICES_BYTES];
  if (status == STATUS_OK) status = peers_join_devices(run->peers, run->trainer_device, way, error);
  if (status == STATUS_OK && run->trainer_device->ops->asynchronous)
    log_info("%d learners add up %s", (int)options->learners, way);
  return status;
}

enum status run_learners_share(struct run *run, struct error *error) {
  struct checkpoint_item items[CHECKPOINT_MAX_ITEMS];
  if (!run->peers) return STATUS_OK;
  trainer_save_now(run->trainer);
  int count = trainer_items(run->trainer, items);
  enum status status = STATUS_OK;
  for (int i = 0; i < count && status == STATUS_OK; i++)
    status = peers_broadcast(run->peers, items[i].data, checkpoint_item_bytes(&items[i]), error);
  if (status != STATUS_OK || run->rank == 0) return status;
  trainer_load(run->trainer);
  int64_t steps = trainer_counter(run->trainer, TRAINER_STEPS);
  progress_restore(run->progress, steps, trainer_counter(run->trainer, TRAINER_EPISODES));
  run->resumed = trainer_counter(run->trainer, TRAINER_RESTARTS) > 0;
  run->was_finished = steps >= run->options->total_steps;
  if (run->was_finished) progress_stop(run->progress, STOP_TOTAL_STEPS);
  return STATUS_OK;
}

/* ---- the end */

/* The kernel frees the folder's lock a moment after it has ended the process that held it. */
static enum status take_folder(struct run *run, struct folder *folder, struct error *error) {
  enum { TRIES = 20, PAUSE_US = 50 * 1000 };
  char path[PATH_MAX], above[PATH_MAX];
  snprintf(path, sizeof(path), "%s/..", run->folder.path);
  if (!realpath(path, above))
    return status_fail(error, STATUS_IO, "the folder above %s cannot be found: %s",
                       run->folder.name, strerror(errno));
  enum status status = STATUS_EXISTS;
  for (int i = 0; i < TRIES && status == STATUS_EXISTS; i++) {
    if (i > 0) clock_sleep_us(PAUSE_US);
    status = folder_open(folder, above, "", "", true, error);
    if (status != STATUS_OK) folder_close(folder);
  }
  return status;
}

/* Learner 0 may have written its last checkpoint, and others may have resumed the run since. */
static bool is_ahead(const struct run *run, const struct folder *folder) {
  int64_t updates = 0, counter[TRAINER_COUNTERS] = {0};
  char path[CHECKPOINT_PATH_BYTES];
  struct error error;
  struct checkpoint_item items[] = {
      {CHECKPOINT_VERSION, CHECKPOINT_INT64, 1, {1}, &updates, false},
      {TRAINER_COUNTERS_NAME, CHECKPOINT_INT64, 1, {TRAINER_COUNTERS}, counter, false}};
  enum status status = checkpoint_read_newest(folder->checkpoints, items, 2, path, &error);
  if (status == STATUS_NOT_FOUND || status == STATUS_CORRUPT) return true;
  bool was_resumed = counter[TRAINER_RESTARTS] > trainer_counter(run->trainer, TRAINER_RESTARTS);
  if (status == STATUS_OK && !was_resumed && trainer_report(run->trainer).updates > updates)
    return true;
  log_info("learner %d leaves %s as it is: %s", run->rank, folder->name,
           status != STATUS_OK ? error.text
           : was_resumed       ? "the run was resumed without it"
                               : "the newest checkpoint there is not older");
  return false;
}

bool run_learners_writes(struct run *run) {
  struct folder folder;
  struct error error;
  if (run->rank == 0) return true;
  if (!peers_is_first(run->peers)) return false;
  bool taken = take_folder(run, &folder, &error) == STATUS_OK;
  bool is_run = taken && folder.held_run;
  if (taken && !is_run) folder_abandon(&folder);
  if (is_run && !is_ahead(run, &folder)) {
    folder_close(&folder);
    return false;
  }
  log_warn(
      "learner 0 has ended, or is out of reach: this one, %d, writes the last checkpoint into "
      "%s",
      run->rank, is_run ? folder.name : run->folder.name);
  if (!taken) log_warn("and not into that of the run: %s", error.text);
  if (!is_run) return true; /* what is above is no run folder, or is in use */
  run->own_folder = run->folder;
  run->folder = folder;
  run->has_taken_folder = true;
  run_kept_forget(&run->others, run->folder.checkpoints);
  run->others.is_evaluated = run->others.best_is_eval; /* by evaluators of learner 0 */
  return true;
}

bool run_learners_leave(struct run *run) {
  if (!run->has_taken_folder) return false;
  folder_close(&run->folder);
  run->folder = run->own_folder;
  run->has_taken_folder = false;
  return true;
}

/* Waits for its end; where learners did not meet, for so long as a checkpoint may take: one that
 * hangs would stay for ever. */
static void end_learner(pid_t process, bool failed) {
  enum { LOOK_US = 50 * 1000, MOST_LOOKS = 100 };
  for (int i = 0; failed && i < MOST_LOOKS; i++) {
    if (waitpid(process, NULL, WNOHANG) != 0) return;
    usleep(LOOK_US);
  }
  if (failed) kill(process, SIGKILL);
  waitpid(process, NULL, 0);
}

void run_learners_close(struct run *run) {
  struct error ignored;
  bool failed = run->peers && peers_status(run->peers, &ignored) != STATUS_OK;
  peers_close(run->peers);
  for (int r = 1; r < PEERS_MAX; r++)
    if (run->learner_process[r] > 0) end_learner(run->learner_process[r], failed);
  if (run->learners_file > 0) close(run->learners_file);
}
