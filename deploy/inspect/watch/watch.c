/* Plays a checkpoint in this process and writes what is to be seen, a picture for each step, to
 * stdout as PPM files one after the other. scripts/watch.sh makes a video of them. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "actor/crash.h"
#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/option_rows.h"
#include "common/base/process.h"
#include "envs/env_module.h"
#include "deploy/inspect/played_run.h"
#include "deploy/inspect/watch/panel.h"
#include "deploy/inspect/watch/chooser.h"
#include "deploy/inspect/watch/world.h"

enum { EXIT_USAGE = 2, EXIT_NOT_READ = 5 };

struct watch_options {
  struct options_given given;
  char *env, *env_args, *checkpoint, *policy;
  int64_t seed, episodes, max_steps, hold;
  bool code;
};

#define AT(member) offsetof(struct watch_options, member)
static const struct option rows[] = {
    INT("episodes", episodes, "1", 1, 1e6, NULL, "episodes to play"),
    INT("seed", seed, "1000", 0, 9e15, NULL, "of the first episode; the others follow it"),
    CHOICE("policy", policy, "greedy", "greedy|sample", NULL, "how actions are chosen"),
    INT("max_steps", max_steps, "30000", 1, 1e9, NULL, "an episode is shown for no longer"),
    INT("hold", hold, "1", 1, 1000, NULL, "pictures of an episode's end"),
    STRING("checkpoint", checkpoint, "", NULL,
           "best, latest (the newest whole one of the run), or a file; default: the best, and the "
           "newest while there is no best one"),
    PLAYED_RUN_ROWS,
};
static const struct option_exit exits[] = {
    {"0", "every episode was played"},
    {"2", "wrong options, or a run or environment that cannot be played or watched"},
    {"5", "the reader of the pictures has ended"},
    {NULL, NULL},
};

static const struct option_table table = {
    .program = "watch",
    .words = "RUN",
    .about = "Plays the checkpoint of a run folder and writes pictures to stdout.",
    .exits = exits,
    .options = rows,
    .count = sizeof(rows) / sizeof(rows[0]),
};

struct watch {
  struct watch_options options;
  FILE *pictures; /* stdout as it was */
  struct learner_options learner;
  struct run run;
  struct chooser *chooser;
  struct world world;
  struct panel panel;
  char (*name)[32];   /* (A) */
  const char **names; /* (A) of these */
  bool *chosen;       /* (A) */
  char title[64], subtitle[64];
};

/* ---- the run */

static enum status read_run(struct watch *watch, const char *folder, struct error *error) {
  const struct watch_options *options = &watch->options;
  const struct played_run played = {.folder = folder,
                                    .checkpoint = options->checkpoint,
                                    .env = options->env,
                                    .env_args = options->env_args,
                                    .policy = options->policy,
                                    .seed = options->seed,
                                    .code = options->code};
  return played_run_read(&watch->learner, &played, error);
}

static void ignore(void *context) {
  (void)context;
}

/* Name after name, then a frame for a picture that has been drawn once. */
static void make_panel(struct watch *watch) {
  int A = space_num_actions(&watch->run.space);
  watch->name = check_alloc((size_t)A, sizeof(*watch->name));
  watch->names = check_alloc((size_t)A, sizeof(*watch->names));
  watch->chosen = check_alloc((size_t)A, sizeof(*watch->chosen));
  for (int a = 0; a < A; a++) watch->names[a] = world_action_name(&watch->world, a, watch->name[a]);
  snprintf(watch->title, sizeof(watch->title), "%.63s", watch->run.identity);
  long long updates = watch->run.trainer ? trainer_report(watch->run.trainer).updates : 0;
  snprintf(watch->subtitle, sizeof(watch->subtitle), "%.16s %.16s, update %lld",
           watch->learner.agent, watch->learner.policy, updates);
  panel_init(&watch->panel, watch->world.picture.width, watch->world.picture.height, watch->names,
             A);
}

/* Everything, up to the first episode's first picture. */
static enum status open_all(struct watch *watch, const char *folder, struct error *error) {
  const struct run_callbacks callbacks = {ignore, ignore, NULL, NULL};
  enum status status = read_run(watch, folder, error);
  if (status == STATUS_OK) status = run_create(&watch->run, &watch->learner, &callbacks, error);
  if (status != STATUS_OK) return status;
  crash_install(watch->run.env_name);
  crash_limit((unsigned)watch->learner.hang_s);
  watch->chooser = chooser_create(&watch->run);
  status = world_open(&watch->world, &watch->run, chooser_row(watch->chooser), error);
  if (status == STATUS_OK)
    status = world_reset(&watch->world, (uint64_t)watch->options.seed, error);
  if (status == STATUS_OK) status = world_draw(&watch->world, error);
  if (status == STATUS_OK) make_panel(watch);
  return status;
}

static void close_all(struct watch *watch) {
  if (watch->panel.frame.pixels) panel_deinit(&watch->panel);
  if (watch->world.run) world_close(&watch->world);
  chooser_destroy(watch->chooser);
  run_destroy(&watch->run);
  free(watch->names);
  free(watch->chosen);
  free(watch->name);
}

/* ---- pictures */

/* stdout is for pictures alone: what an environment prints goes to stderr. */
static enum status keep_stdout(struct watch *watch, struct error *error) {
  int fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  watch->pictures = fd < 0 ? NULL : fdopen(fd, "w");
  if (watch->pictures && dup2(STDERR_FILENO, STDOUT_FILENO) >= 0) return STATUS_OK;
  return status_fail(error, STATUS_UNAVAILABLE, "stdout cannot be written to: %s", strerror(errno));
}

static enum status write_frame(FILE *to, const struct canvas *frame, struct error *error) {
  size_t pixels = (size_t)frame->width * (size_t)frame->height;
  fprintf(to, "P6\n%d %d\n255\n", frame->width, frame->height);
  fwrite(frame->pixels, 3, pixels, to);
  if (fflush(to) == 0 && !ferror(to)) return STATUS_OK;
  return status_fail(error, STATUS_UNAVAILABLE, "nobody reads the pictures any more: %s",
                     strerror(errno));
}

/* Marks what was chosen; nothing before the first choice. Of a box nothing is. */
static void mark_chosen(struct watch *watch, const struct chooser_choice *choice) {
  const struct space *space = &watch->run.space;
  bool *chosen = watch->chosen;
  memset(chosen, 0, (size_t)space_num_actions(space) * sizeof(*chosen));
  if (!choice->action || !space->discrete) return;
  for (int c = 0; c < space_num_choices(&space->choices); c++) {
    chosen[((const int32_t *)choice->action)[c]] = true;
    chosen += space_among(&space->choices, c, space->discrete);
  }
}

/* What was chosen stays to be seen when the episode has ended. */
static enum status show(struct watch *watch, int episode, const struct chooser_choice *choice,
                        struct error *error) {
  const struct world *world = &watch->world;
  bool over = world->flags & (STEP_TERMINATED | STEP_TRUNCATED) && !(world->flags & STEP_FIRST);
  const struct panel_text text = {.title = watch->title,
                                  .subtitle = watch->subtitle,
                                  .episode = episode + 1,
                                  .num_episodes = (int)watch->options.episodes,
                                  .step = world->steps,
                                  .score = world->score,
                                  .reward = world->reward,
                                  .end = !over                            ? NULL
                                         : world->flags & STEP_TERMINATED ? "end"
                                                                          : "cut"};
  enum status status = world_draw(&watch->world, error);
  if (status != STATUS_OK) return status;
  mark_chosen(watch, choice);
  const struct panel_choice shown = {choice->value, choice->probability, choice->action_value,
                                     choice->number, watch->chosen};
  panel_draw(&watch->panel, &world->picture, &text, &shown);
  for (int64_t i = 0; status == STATUS_OK && i < (over ? watch->options.hold : 1); i++)
    status = write_frame(watch->pictures, &watch->panel.frame, error);
  return status;
}

/* ---- play */

/* From the row after a reset to the row that ends it. */
static enum status play_episode(struct watch *watch, int episode, struct error *error) {
  struct world *world = &watch->world;
  uint64_t seed = (uint64_t)watch->options.seed + (uint64_t)episode;
  enum status status = world_reset(world, seed, error);
  struct chooser_choice choice = {0};
  bool ended = false;
  panel_begin(&watch->panel);
  while (status == STATUS_OK && !ended && world->steps < watch->options.max_steps) {
    choice = chooser_act(watch->chooser, world->reward, world->flags);
    status = show(watch, episode, &choice, error);
    if (status == STATUS_OK) status = world_step(world, choice.action, &ended, error);
  }
  if (status != STATUS_OK) return status;
  /* A learner reads the last row of an episode that was cut, and no other. */
  if (world->flags & STEP_TRUNCATED)
    choice = chooser_act(watch->chooser, world->reward, world->flags);
  status = show(watch, episode, &choice, error);
  log_info("episode %d: return %.9g in %lld steps%s", episode + 1, world->score,
           (long long)world->steps, ended ? "" : ", not to its end (--max_steps)");
  return status;
}

static enum status run(struct watch *watch, int argc, char **argv, struct error *error) {
  int num_words = 0;
  enum status status = options_parse(&table, &watch->options, argc, argv, argv, &num_words, error);
  if (status == STATUS_OK && num_words != 1)
    status = status_fail(error, STATUS_INVALID, "name one run folder");
  if (status == STATUS_OK) status = keep_stdout(watch, error);
  if (status == STATUS_OK) status = open_all(watch, argv[0], error);
  for (int i = 0; status == STATUS_OK && i < watch->options.episodes; i++)
    status = play_episode(watch, i, error);
  return status;
}

int main(int argc, char **argv) {
  static struct watch watch = {.run.folder.lock = -1};
  struct error error;
  process_init();
  log_init("watch", LOG_INFO);
  options_init(&table, &watch.options);
  options_init(&learner_options_table, &watch.learner);
  enum status status = run(&watch, argc, argv, &error);
  close_all(&watch);
  options_deinit(&table, &watch.options);
  options_deinit(&learner_options_table, &watch.learner);
  if (status == STATUS_OK || status == STATUS_DONE) return 0;
  log_error("%s", error.text);
  return status == STATUS_UNAVAILABLE ? EXIT_NOT_READ : EXIT_USAGE;
}
