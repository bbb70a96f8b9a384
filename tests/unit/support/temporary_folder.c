#include "tests/unit/support/temporary_folder.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/check.h"

static char group_folder[TEMPORARY_FOLDER_BYTES];

int temporary_folder_setup(void **state) {
  (void)state;
  temporary_folder_make(group_folder);
  return 0;
}

int temporary_folder_teardown(void **state) {
  (void)state;
  temporary_folder_remove(group_folder);
  return 0;
}

const char *temporary_folder(void) {
  return group_folder;
}

void temporary_folder_make(char folder[TEMPORARY_FOLDER_BYTES]) {
  snprintf(folder, TEMPORARY_FOLDER_BYTES, "/tmp/acorn_test-XXXXXX");
  CHECK(mkdtemp(folder), "no folder in /tmp");
}

void temporary_folder_remove(const char *folder) {
  char command[TEMPORARY_FOLDER_BYTES + 16];
  snprintf(command, sizeof(command), "rm -rf '%s'", folder);
  CHECK(system(command) == 0, "cannot remove %s", folder);
}

const char *temporary_folder_path(const char *folder, const char *name) {
  static char path[TEMPORARY_PATH_BYTES];
  snprintf(path, sizeof(path), "%s/%s", folder, name);
  return path;
}

void temporary_folder_write(const char *folder, const char *name, const char *text) {
  FILE *file = fopen(temporary_folder_path(folder, name), "w");
  CHECK(file, "cannot write %s/%s", folder, name);
  CHECK(fputs(text, file) >= 0 && fclose(file) == 0, "cannot write %s/%s", folder, name);
}

char *temporary_folder_read(const char *folder, const char *name) {
  static char text[TEMPORARY_TEXT_BYTES];
  FILE *file = fopen(temporary_folder_path(folder, name), "r");
  size_t count = file ? fread(text, 1, sizeof(text) - 1, file) : 0;
  text[count] = '\0';
  if (file) fclose(file);
  return text;
}
