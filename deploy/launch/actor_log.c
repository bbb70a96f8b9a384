#include "deploy/launch/actor_log.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/files.h"
#include "common/base/log.h"

#define ERROR_WORD "error: " /* of log_error */

void actor_log_init(struct actor_log *log, const char *folder, const char *kind, int number) {
  *log = (struct actor_log){.folder = folder};
  if (folder) snprintf(log->path, sizeof(log->path), "%s/%s-%d.log", folder, kind, number);
}

// A FIFO, which a run folder of somebody else's may have there, would be waited for, by this
// process or by the actor: it gives way.
int actor_log_open(struct actor_log *log) {
  struct stat there;
  log->bytes_at_start = 0;
  if (!log->folder) return ACTOR_LOG_OURS;
  if (files_make_folders(log->folder, NULL) != STATUS_OK) return ACTOR_LOG_FAILED;
  if (stat(log->path, &there) == 0 && S_ISFIFO(there.st_mode)) unlink(log->path);
  int output = open(log->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (output < 0) return ACTOR_LOG_FAILED;
  if (fstat(output, &there) == 0) log->bytes_at_start = there.st_size;
  return output;
}

void actor_log_error(char words[ACTOR_LOG_LINE], const struct actor_log *log) {
  char line[ACTOR_LOG_LINE] = "", *word = words;
  struct stat about;
  *words = '\0';
  if (stat(log->path, &about) != 0 || about.st_size <= log->bytes_at_start) return;
  FILE *file = fmemopen(line, sizeof(line) - 1, "w");
  if (file) log_print_tail(file, log->path, 1);
  if (file) fclose(file);
  if (!strstr(line, ERROR_WORD)) return;
  for (const char *c = line; *c; c++)
    if (!isdigit((unsigned char)*c)) *word++ = *c;
  *word = '\0';
}

void actor_log_show(const struct actor_log *log, int lines) {
  char named[PATH_MAX];
  if (!log->folder) return;
  log_named(named, sizeof(named), log->path);
  if (lines > 1) fprintf(stderr, "---- the last lines of %s\n", named);
  log_print_tail(stderr, log->path, lines);
  if (lines > 1) fprintf(stderr, "----\n");
}

static bool keep_newest_half(int file, off_t size, int most) {
  char *text = check_alloc((size_t)most / 2, 1);
  ssize_t count = pread(file, text, (size_t)most / 2, size - most / 2);
  char *newline = count > 0 ? memchr(text, '\n', (size_t)count) : NULL;
  const char *from = newline ? newline + 1 : text;
  bool kept = count > 0 && ftruncate(file, 0) == 0 &&
              dprintf(file, "(this log was longer than %d bytes: it begins here)\n", most) > 0 &&
              write(file, from, (size_t)(text + count - from)) >= 0;
  free(text);
  return kept;
}

bool actor_log_bound(struct actor_log *log, int most) {
  struct stat about;
  int file = open(log->path, O_RDWR | O_APPEND | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return false;
  bool cut = fstat(file, &about) == 0 && S_ISREG(about.st_mode) && about.st_size > most &&
             keep_newest_half(file, about.st_size, most);
  if (cut) log->bytes_at_start = 0;
  close(file);
  return cut;
}
