#include "deploy/launch/launch_record.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/files.h"
#include "common/base/json_file.h"
#include "common/base/pinned_folder.h"
#include "common/base/process.h"
#include "deploy/launch/child.h"
#include "deploy/launch/run_folder.h"
#include "deploy/launch/shell_word.h"
#include "envs/env_words.h"
#include "learner/run/folder.h"

enum { MAX_BYTES = 100 * 1000 }; /* a variable may have 128 KiB */
enum { EXIT_USAGE = 2, EXIT_SIGNAL = 128 };

static json_t *words;        /* for the learner's record */
static size_t starts_before; /* in run.json, before this one */
static struct {
  char path[PATH_MAX]; /* "": it is not known, or an evaluation's, which only reads */
  char name[PATH_MAX]; /* as it was given; loses its last part with each folder removed */
  size_t there;        /* bytes of the name that led to a folder before */
  int pin;             /* pinned_folder.h's */
} folder;

/* ---- at the start */

static json_t *command_line(const char *program, int argc, char **argv) {
  char *text;
  size_t bytes;
  FILE *out = open_memstream(&text, &bytes);
  CHECK(out, "out of memory for the command line");
  fputs(program, out);
  for (int i = 1; i < argc; i++) {
    fputc(' ', out);
    shell_word_print(out, argv[i]);
  }
  fclose(out);
  json_t *line = json_string(bytes < MAX_BYTES ? text : "(too long to keep)");
  free(text);
  return line;
}

/* The starts in run.json; 0 where the folder is not known. */
static size_t num_starts(void) {
  char path[PATH_MAX + 16];
  if (!folder.path[0]) return 0;
  snprintf(path, sizeof(path), "%s/run.json", folder.path);
  json_t *record = json_file_read(path);
  size_t count = json_array_size(json_object_get(record, "starts"));
  json_decref(record);
  return count;
}

/* "a/b" becomes "a", and "b" becomes "". */
static void cut_last(char *path) {
  size_t length = strlen(path);
  while (length > 0 && path[length - 1] == '/') length--;
  while (length > 0 && path[length - 1] != '/') length--;
  while (length > 0 && path[length - 1] == '/') length--;
  path[length] = '\0';
}

size_t launch_record_existing(const char *name) {
  char path[PATH_MAX];
  snprintf(path, sizeof(path), "%s", name);
  while (path[0] && access(path, F_OK) != 0) cut_last(path);
  return strlen(path);
}

/* Those folders of its name that were made here and are still empty. The learner, which finds them
 * made, has left its refusal there. */
static void remove_made(int exit_code) {
  char path[PATH_MAX + 16];
  snprintf(path, sizeof(path), "%s/result.json", folder.path);
  bool is_made = strlen(folder.name) > folder.there;
  if (is_made && exit_code == EXIT_USAGE && !launch_record_has("config.txt")) unlink(path);
  while (strlen(folder.name) > folder.there && rmdir(folder.name) == 0) cut_last(folder.name);
}

/* What goes wrong here the learner reports, which needs the same. */
static void take_folder(const struct plan *plan, size_t existing) {
  const char *name = plan->run_folder;
  if (!name[0] || plan->evaluates) return;
  snprintf(folder.name, sizeof(folder.name), "%s", name);
  folder.there = existing;
  if (files_make_folders(name, NULL) != STATUS_OK) return;
  folder.pin = pinned_folder_open(folder.path, name);
  if (folder.pin < 0) folder.path[0] = '\0';
}

const char *launch_record_folder(void) {
  return folder.path;
}

void launch_record_follow(struct plan *plan) {
  if (folder.path[0]) pinned_folder_moved(plan->run_folder, folder.pin, folder.path);
}

void launch_record_actors(const struct plan *plan) {
  const struct plan_part *part = &plan->part;
  json_object_set_new(words, "actors", json_integer(part->num_actors));
  json_object_set_new(words, "envs_per_actor", json_integer(part->envs_per_actor));
  json_object_set_new(words, "evaluators", json_integer(part->num_evaluators));
  json_object_set_new(words, "envs_per_evaluator",
                      json_integer(part->num_evaluators ? plan->own.eval_envs : 0));
  char *text = json_dumps(words, JSON_COMPACT);
  if (text) setenv(FOLDER_LAUNCH_VARIABLE, text, 1);
  free(text);
}

void launch_record_begin(const struct plan *plan, size_t existing, const char *program, int argc,
                         char **argv) {
  words = json_object();
  json_object_set_new(words, "command", command_line(program, argc, argv));
  launch_record_actors(plan);
  take_folder(plan, existing);
  starts_before = num_starts();
}

/* ---- at the end */

bool launch_record_has(const char *pattern) {
  char path[PATH_MAX + 64];
  glob_t found;
  snprintf(path, sizeof(path), "%s/%s", folder.path, pattern);
  bool has = folder.path[0] && glob(path, GLOB_NOSORT, NULL, &found) == 0;
  if (has) globfree(&found);
  return has;
}

void launch_record_end(const struct plan *plan, int exit_code) {
  if (!folder.path[0]) return;
  if (pinned_folder_is(folder.name, folder.pin)) remove_made(exit_code);
  if (launch_record_has("result.json") || num_starts() <= starts_before) return;
  if (exit_code == EXIT_USAGE) return; /* that start is another launcher's */
  char label[RUN_LABEL_BYTES], how[128], why[160], path[PATH_MAX + 16], whole[PATH_MAX];
  int signum = exit_code > EXIT_SIGNAL ? exit_code - EXIT_SIGNAL : 0;
  env_words_label(label, sizeof(label), plan->env_name, plan->learner.env_args);
  child_describe_end(how, sizeof(how), exit_code, signum);
  snprintf(why, sizeof(why), "the learner %s", how);
  if (exit_code == PROCESS_INTERRUPTED)
    snprintf(why, sizeof(why), "a second signal ended the run at once");
  json_t *result = folder_result("killed", exit_code, why);
  json_object_set_new(result, "env", json_string(label));
  json_object_set_new(result, "agent", json_string(plan->arguments.agent));
  json_object_set_new(result, "seed", json_integer(plan->learner.seed));
  json_object_set_new(result, "logdir",
                      json_string(realpath(folder.path, whole) ? whole : plan->run_folder));
  snprintf(path, sizeof(path), "%s/result.json", folder.path);
  json_file_write_or_warn(path, result);
}
