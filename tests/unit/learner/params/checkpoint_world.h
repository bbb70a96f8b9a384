/* What the tests of checkpoint files share: a folder of their own, and two items whose values
 * follow from the number of updates. */
#ifndef ACORN_TESTS_UNIT_LEARNER_PARAMS_CHECKPOINT_WORLD_H
#define ACORN_TESTS_UNIT_LEARNER_PARAMS_CHECKPOINT_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "learner/params/checkpoint.h"

enum { COUNT = 1000, NOBODY = 65534, PATH_BYTES = 128 };

struct world {
  char folder[64];
  int64_t values[COUNT], counter;
  struct checkpoint_item item[2];
};

static inline int setup(void **state) {
  struct world *world = calloc(1, sizeof *world);
  strcpy(world->folder, "/tmp/test_checkpoint.XXXXXX");
  if (!mkdtemp(world->folder)) return -1;
  world->item[0] = (struct checkpoint_item){.name = "values",
                                            .dtype = CHECKPOINT_INT64,
                                            .rank = 2,
                                            .shape = {10, 100},
                                            .data = world->values};
  world->item[1] = (struct checkpoint_item){
      .name = CHECKPOINT_VERSION, .dtype = CHECKPOINT_INT64, .rank = 0, .data = &world->counter};
  *state = world;
  return 0;
}

/* Calls `visit` on the path of every file in the folder; returns how many there are. */
static inline int for_each_file(const char *folder, void (*visit)(const char *path)) {
  DIR *directory = opendir(folder);
  int count = 0;
  for (struct dirent *entry; directory && (entry = readdir(directory));) {
    if (entry->d_name[0] == '.') continue;
    char path[PATH_BYTES + 256];
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    if (visit) visit(path);
    count++;
  }
  if (directory) closedir(directory);
  return count;
}

static inline void remove_file(const char *path) {
  remove(path);
}

static inline int teardown(void **state) {
  struct world *world = *state;
  for_each_file(world->folder, remove_file);
  int failed = rmdir(world->folder);
  free(world);
  return failed;
}

static inline void path_of(char path[PATH_BYTES], const struct world *world, int64_t updates) {
  snprintf(path, PATH_BYTES, "%s/checkpoint-%012lld.acorn", world->folder, (long long)updates);
}

static inline bool exists(const struct world *world, int64_t updates) {
  char path[PATH_BYTES];
  path_of(path, world, updates);
  return access(path, F_OK) == 0;
}

/* All values follow from the number of updates. */
static inline void fill(struct world *world, int64_t updates) {
  for (int i = 0; i < COUNT; i++) world->values[i] = updates * COUNT + i;
  world->counter = updates;
}

static inline bool holds(const struct world *world, int64_t updates) {
  bool same = world->counter == updates;
  for (int i = 0; i < COUNT; i++) same &= world->values[i] == updates * COUNT + i;
  return same;
}

static inline enum status try_write(struct world *world, const char *folder, int64_t updates,
                                    int keep, struct error *error) {
  struct checkpoint_kept kept = {.count = keep};
  fill(world, updates);
  error->text[0] = '\0';
  return checkpoint_write(folder, updates, world->item, 2, &kept, error);
}

static inline void write_one(struct world *world, int64_t updates, int keep) {
  struct error error;
  if (try_write(world, world->folder, updates, keep, &error) != STATUS_OK)
    fail_msg("%s", error.text);
}

static inline void flip_bit(const struct world *world, int64_t updates, long at) {
  char path[PATH_BYTES];
  path_of(path, world, updates);
  FILE *file = fopen(path, "r+b");
  assert_non_null(file);
  fseek(file, at, SEEK_SET);
  int byte = fgetc(file);
  fseek(file, at, SEEK_SET);
  fputc(byte ^ 4, file);
  fclose(file);
}

/* Whether what had the name of so many updates was set aside. */
static inline bool is_aside(const struct world *world, int64_t updates) {
  char path[PATH_BYTES], aside[PATH_BYTES + 16];
  struct stat about;
  path_of(path, world, updates);
  snprintf(aside, sizeof aside, "%s.aside-1", path);
  return lstat(aside, &about) == 0;
}

static inline void rename_file(const struct world *world, int64_t from, int64_t to) {
  char old_path[PATH_BYTES], new_path[PATH_BYTES];
  path_of(old_path, world, from);
  path_of(new_path, world, to);
  assert_int_equal(rename(old_path, new_path), 0);
}

/* What `read_newest` gives, and what it said on stderr meanwhile. *updates: of its content. */
static inline enum status read_newest(struct world *world, int64_t *updates, char said[4096],
                                      struct error *error) {
  char read_path[CHECKPOINT_PATH_BYTES];
  char path[PATH_BYTES] = "/tmp/test_checkpoint_log.XXXXXX";
  int log = mkstemp(path), terminal = dup(STDERR_FILENO);
  unlink(path);
  dup2(log, STDERR_FILENO);
  fill(world, -1);
  error->text[0] = '\0';
  enum status status = checkpoint_read_newest(world->folder, world->item, 2, read_path, error);
  *updates = world->counter;
  dup2(terminal, STDERR_FILENO);
  ssize_t length = pread(log, said, 4095, 0);
  said[length > 0 ? length : 0] = '\0';
  close(log);
  close(terminal);
  return status;
}

#endif
