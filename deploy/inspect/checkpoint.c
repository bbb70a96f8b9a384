/* What is in a checkpoint: a summary and its arrays on stdout. scripts/checkpoint.sh runs it. */
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/option_rows.h"
#include "common/base/option_value.h"
#include "common/base/process.h"
#include "learner/params/checkpoint.h"
#include "learner/run/options.h"
#include "learner/train/trainer.h"

enum { EXIT_USAGE = 2 };

static const char parameters_prefix[] = "params/";

struct checkpoint_options {
  struct options_given given;
};

static const struct option_exit exits[] = {
    {"0", "every checksum is right"},
    {"1", "there is no checkpoint, it is damaged, or stdout cannot be written to"},
    {"2", "wrong options"},
    {NULL, NULL},
};

static const struct option_table table = {
    .program = "checkpoint",
    .words = "RUN|FILE",
    .about = "What is in the newest checkpoint of a run folder, or in a checkpoint file.",
    .exits = exits,
};

struct checkpoint {
  char path[PATH_MAX], folder[PATH_MAX]; /* of the file; of the run, "" if it is not known */
  struct stat about;
  struct checkpoint_item item[CHECKPOINT_MAX_ITEMS]; /* (count) with their data */
  int count;
};

/* ---- which file */

/* The newest whole one of a run folder, or of its folder of checkpoints. */
static enum status find_newest(struct checkpoint *self, const char *folder, struct error *error) {
  char inner[PATH_MAX];
  struct stat about;
  snprintf(inner, sizeof(inner), "%s/checkpoints", folder);
  const char *where = stat(inner, &about) == 0 ? inner : folder;
  return checkpoint_read_newest(where, NULL, 0, self->path, error);
}

/* RUN/checkpoints/FILE: two parts up, if a run is there. */
static void find_run(struct checkpoint *self) {
  char whole[PATH_MAX], config[PATH_MAX];
  struct stat about;
  if (!realpath(self->path, whole)) return;
  for (int i = 0; i < 2; i++) {
    char *slash = strrchr(whole, '/');
    if (!slash) return;
    *slash = '\0';
  }
  if (snprintf(config, sizeof(config), "%s/config.txt", whole) >= (int)sizeof(config)) return;
  if (stat(config, &about) == 0) snprintf(self->folder, sizeof(self->folder), "%s", whole);
}

static enum status find_file(struct checkpoint *self, const char *path, struct error *error) {
  struct stat about;
  enum status status = STATUS_OK;
  if (stat(path, &about) == 0 && S_ISDIR(about.st_mode))
    status = find_newest(self, path, error);
  else
    snprintf(self->path, sizeof(self->path), "%s", path);
  if (status == STATUS_OK) find_run(self);
  return status;
}

/* ---- what is in it */

static enum status read_items(struct checkpoint *self, struct error *error) {
  enum status status = checkpoint_list(self->path, self->item, &self->count, error);
  if (status != STATUS_OK) return status;
  for (int i = 0; i < self->count; i++)
    self->item[i].data = check_alloc(checkpoint_item_bytes(&self->item[i]) + 1, 1);
  if (stat(self->path, &self->about) != 0) self->about = (struct stat){0};
  return checkpoint_read(self->path, self->item, self->count, error);
}

static uint64_t elements(const struct checkpoint_item *item) {
  uint64_t count = 1;
  for (int i = 0; i < item->rank; i++) count *= item->shape[i];
  return count;
}

static bool is_parameter(const struct checkpoint_item *item) {
  return strncmp(item->name, parameters_prefix, strlen(parameters_prefix)) == 0;
}

/* Element `index` of the integers of that name; -1 if there are none. */
static int64_t integer(const struct checkpoint *self, const char *name, uint64_t index) {
  for (int i = 0; i < self->count; i++)
    if (strcmp(self->item[i].name, name) == 0 && self->item[i].dtype == CHECKPOINT_INT64 &&
        index < elements(&self->item[i]))
      return ((const int64_t *)self->item[i].data)[index];
  return -1;
}

static int64_t counter(const struct checkpoint *self, int index) {
  return integer(self, "run/counters", (uint64_t)index);
}

static void print_summary(const struct checkpoint *self) {
  char when[64] = "?";
  struct tm local;
  strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S %z", localtime_r(&self->about.st_mtime, &local));
  uint64_t parameters = 0;
  int arrays = 0;
  for (int i = 0; i < self->count; i++) {
    if (!is_parameter(&self->item[i])) continue;
    parameters += elements(&self->item[i]);
    arrays++;
  }
  printf("checkpoint      %s\n", self->path);
  printf("written         %s\n", when);
  printf("size            %lld bytes, every checksum is right\n", (long long)self->about.st_size);
  printf("format          %d\n", CHECKPOINT_FORMAT);
  printf("version         %" PRId64 " (updates)\n", integer(self, CHECKPOINT_VERSION, 0));
  printf("steps           %" PRId64 " of the environments, %" PRId64 " trained on\n",
         counter(self, TRAINER_STEPS), counter(self, TRAINER_TRAINED_STEPS));
  printf("episodes        %" PRId64 "\n", counter(self, TRAINER_EPISODES));
  printf("resumed         %" PRId64 " times\n", counter(self, TRAINER_RESTARTS));
  printf("seed            %" PRId64 "\n", counter(self, TRAINER_SEED));
  printf("parameters      %" PRIu64 " in %d arrays\n", parameters, arrays);
}

static void print_arrays(const struct checkpoint *self) {
  size_t width = strlen("name");
  for (int i = 0; i < self->count; i++) {
    size_t length = strlen(self->item[i].name);
    if (length > width) width = length;
  }
  printf("\n%-*s  %10s  type (shape)\n", (int)width, "name", "elements");
  for (int i = 0; i < self->count; i++) {
    char text[128];
    printf("%-*s  %10" PRIu64 "  %s\n", (int)width, self->item[i].name, elements(&self->item[i]),
           checkpoint_item_describe(&self->item[i], text));
  }
}

/* The run's options; false: the file does not lie in a run folder. */
static bool read_configuration(const struct checkpoint *self, struct learner_options *options) {
  char path[PATH_MAX + 16];
  struct error error;
  if (!self->folder[0]) return false;
  snprintf(path, sizeof(path), "%s/config.txt", self->folder);
  enum status status = options_read_file(&learner_options_table, options, path, &error);
  if (status == STATUS_OK) learner_options_drop_foreign(options, false);
  if (status != STATUS_OK) log_warn("%s", error.text);
  return status == STATUS_OK;
}

/* The options that say what was learned and how. */
static void print_configuration(const struct checkpoint *self) {
  if (!self->folder[0]) {
    printf("\nno configuration: the file does not lie in a run folder\n");
    return;
  }
  struct learner_options options;
  options_init(&learner_options_table, &options);
  bool known = read_configuration(self, &options);
  if (known) printf("\nconfiguration (all of it: %s/config.txt)\n", self->folder);
  for (int i = 0; i < learner_options_table.count && known; i++) {
    const struct option *option = &learner_options_table.options[i];
    if (!learner_option_is_of_experiment(option)) continue;
    printf("  %s = ", option->name);
    option_value_write(option, &options, stdout);
    printf("\n");
  }
  options_deinit(&learner_options_table, &options);
}

/* ---- */

static enum status run(struct checkpoint *self, struct checkpoint_options *options, int argc,
                       char **argv, struct error *error) {
  int num_words = 0;
  enum status status = options_parse(&table, options, argc, argv, argv, &num_words, error);
  if (status == STATUS_OK && num_words != 1)
    status = status_fail(error, STATUS_INVALID, "name one run folder or checkpoint file");
  if (status == STATUS_OK) status = find_file(self, argv[0], error);
  if (status == STATUS_OK) status = read_items(self, error);
  if (status != STATUS_OK) return status;
  print_summary(self);
  print_arrays(self);
  print_configuration(self);
  return process_flush(error);
}

int main(int argc, char **argv) {
  static struct checkpoint self;
  struct checkpoint_options options;
  struct error error;
  process_ignore_file_limit();
  log_init("checkpoint", LOG_INFO);
  options_init(&table, &options);
  enum status status = run(&self, &options, argc, argv, &error);
  for (int i = 0; i < self.count; i++) free(self.item[i].data);
  options_deinit(&table, &options);
  if (status == STATUS_OK || status == STATUS_DONE) return 0;
  fprintf(stderr, "checkpoint: %s\n", error.text);
  return status == STATUS_INVALID ? EXIT_USAGE : EXIT_FAILURE;
}
