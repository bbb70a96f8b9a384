#include "deploy/serve/version_files.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const kinds[] = {"checkpoint-", "best-"};

void version_numbers_add(struct version_numbers *numbers, int64_t number) {
  int at = 0;
  while (at < numbers->count && numbers->number[at] > number) at++;
  if (at < numbers->count && numbers->number[at] == number) return;
  if (at == VERSION_FILES_MOST) return;
  if (numbers->count < VERSION_FILES_MOST) numbers->count++;
  memmove(&numbers->number[at + 1], &numbers->number[at],
          (size_t)(numbers->count - at - 1) * sizeof(int64_t));
  numbers->number[at] = number;
}

bool version_files_number(int64_t *number, const char **text) {
  char *end;
  if (**text < '0' || **text > '9') return false;
  *number = strtoll(*text, &end, 10);
  *text = end;
  return true;
}

/* "best-000000000042.acorn" with the prefix "best-": 42; -1: it is no such name. */
static int64_t number_in(const char *name, const char *prefix) {
  int64_t number;
  if (strncmp(name, prefix, strlen(prefix)) != 0) return -1;
  name += strlen(prefix);
  if (!version_files_number(&number, &name)) return -1;
  bool is_file = prefix[0] != '\0';
  return strcmp(name, is_file ? ".acorn" : "") == 0 ? number : -1;
}

/* The numbers in a folder; false: it cannot be read. */
static bool scan(struct version_numbers *numbers, const char *folder, const char *prefix) {
  DIR *directory = opendir(folder);
  if (!directory) return false;
  for (struct dirent *entry; (entry = readdir(directory));) {
    int64_t number = number_in(entry->d_name, prefix);
    if (number >= 0) version_numbers_add(numbers, number);
  }
  closedir(directory);
  return true;
}

bool version_files_is_run(const char *folder) {
  char file[PATH_MAX];
  snprintf(file, sizeof(file), "%.4000s/config.txt", folder);
  return access(file, F_OK) == 0;
}

bool version_files_scan(struct version_numbers *numbers, const struct version_files *files,
                        bool other_kind) {
  char folder[PATH_MAX];
  if (!files->is_run) return scan(numbers, files->path, "") && numbers->count > 0;
  snprintf(folder, sizeof(folder), "%.3000s/checkpoints", files->path);
  bool is_there = scan(numbers, folder, kinds[files->prefers_best]);
  if (other_kind) (void)scan(numbers, folder, kinds[!files->prefers_best]);
  return is_there;
}

void version_files_locate(const struct version_files *files, int64_t number, char folder[PATH_MAX],
                          char file[CHECKPOINT_PATH_BYTES]) {
  snprintf(folder, PATH_MAX, "%s", files->path);
  if (!files->is_run) snprintf(folder, PATH_MAX, "%.3000s/%lld", files->path, (long long)number);
  for (int i = 0; i < 2; i++) {
    const char *kind = kinds[(i == 0) == files->prefers_best];
    struct version_numbers found = {0};
    char checkpoints[PATH_MAX];
    snprintf(checkpoints, sizeof(checkpoints), "%.3000s/checkpoints", folder);
    if (!files->is_run) (void)scan(&found, checkpoints, kind);
    snprintf(file, CHECKPOINT_PATH_BYTES, "%.3500s/%s%012lld.acorn", checkpoints, kind,
             (long long)(found.count ? found.number[0] : number));
    if (access(file, F_OK) == 0) return;
  }
}
