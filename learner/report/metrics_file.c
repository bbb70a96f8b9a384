#include "learner/report/metrics_file.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/append.h"
#include "common/base/check.h"
#include "common/base/log.h"

/* ---- what an earlier learner has written */

/* The step and the seconds of a line; false if it is no line of metrics. */
static bool read_line(const char *line, size_t bytes, int64_t *step, double *seconds) {
  json_t *object = json_loadb(line, bytes, 0, NULL);
  const json_t *number = json_object_get(object, "step");
  bool is_line = json_is_integer(number);
  if (is_line) {
    *step = json_integer_value(number);
    *seconds = json_number_value(json_object_get(object, "seconds"));
  }
  json_decref(object);
  return is_line;
}

/* Walks back over the lines past `limit`: the end of the last one that stays. */
static off_t find_end(struct metrics_file *file, const char *text, off_t size, int64_t limit) {
  off_t end = size;
  while (end > 0) {
    off_t last = text[end - 1] == '\n' ? end - 1 : end; /* a torn line has no end */
    const char *newline = memrchr(text, '\n', (size_t)last);
    off_t begin = newline ? newline + 1 - text : 0;
    int64_t step = 0;
    double seconds = 0;
    bool whole = last < end && read_line(text + begin, (size_t)(last - begin), &step, &seconds);
    if (whole && step <= limit) {
      file->step = step;
      file->seconds_before = seconds;
      break;
    }
    end = begin;
  }
  return end;
}

/* Appends lines; one that has no end gets it, so that the next ones do not run into it. Returns
 * false with errno set, and the file as it was. */
static bool append(const char *path, const char *text, size_t bytes) {
  /* O_NONBLOCK: a FIFO is not waited for. */
  int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666);
  if (fd < 0) return false;
  off_t before = lseek(fd, 0, SEEK_END);
  bool is_torn = bytes > 0 && text[bytes - 1] != '\n';
  bool written =
      append_whole(fd, text, bytes, before) && (!is_torn || append_whole(fd, "\n", 1, before));
  int reason = errno;
  close(fd);
  errno = reason;
  return written;
}

static int count_lines(const char *text, size_t bytes) {
  int lines = 0;
  for (const char *at = text; at < text + bytes; lines++) {
    const char *newline = memchr(at, '\n', (size_t)(text + bytes - at));
    at = newline ? newline + 1 : text + bytes;
  }
  return lines;
}

/* A last line that a crash has torn cannot be read, and the next one must not be written behind
 * it. */
static void cut_torn_line(struct metrics_file *file, const char *text, off_t size) {
  const char *newline = memrchr(text, '\n', (size_t)size);
  off_t end = newline ? newline + 1 - text : 0;
  if (end < size && ftruncate(file->fd, end) == 0) file->end = end;
}

/* Moves the lines from file->end on. */
static void set_aside(struct metrics_file *file, const char *folder, const char *text, off_t size) {
  char lost[1024];
  snprintf(lost, sizeof(lost), "%s/metrics.lost.jsonl", folder);
  size_t bytes = (size_t)(size - file->end);
  int lines = count_lines(text + file->end, bytes);
  if (append(lost, text + file->end, bytes) && ftruncate(file->fd, file->end) == 0) {
    log_info("metrics of steps that are made again (%d lines) moved to %s", lines, lost);
    return;
  }
  log_warn("cannot move the metrics of lost steps to %s: %s; %s keeps them", lost, strerror(errno),
           file->path);
  file->end = size;
  cut_torn_line(file, text, size);
}

static enum status take_up(struct metrics_file *file, const char *folder, int64_t step,
                           struct error *error) {
  off_t size = lseek(file->fd, 0, SEEK_END);
  if (size == 0) return STATUS_OK;
  char *text =
      size < 0 ? MAP_FAILED : mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, file->fd, 0);
  if (text == MAP_FAILED)
    return status_fail(error, STATUS_IO, "cannot read %s: %s", file->path, strerror(errno));
  file->end = find_end(file, text, size, step);
  if (file->end < size) set_aside(file, folder, text, size);
  munmap(text, (size_t)size);
  return STATUS_OK;
}

enum status metrics_file_open(struct metrics_file *file, const char *folder, int64_t step,
                              struct error *error) {
  *file = (struct metrics_file){.step = -1};
  snprintf(file->path, sizeof(file->path), "%s/metrics.jsonl", folder);
  file->fd = open(file->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file->fd < 0)
    return status_fail(error, STATUS_IO, "cannot write %s: %s", file->path, strerror(errno));
  enum status status = take_up(file, folder, step, error);
  if (status != STATUS_OK) metrics_file_close(file);
  return status;
}

/* ---- lines */

static void say_change(const struct metrics_file *file, bool written) {
  if (!written)
    log_warn("cannot write %s: %s; training goes on without it", file->path, strerror(errno));
  else
    log_info("%s is written again; the lines in between are missing", file->path);
}

void metrics_file_write(struct metrics_file *file, struct metrics *metrics, int64_t step,
                        double seconds) {
  if (file->fd < 0) return;
  char *line;
  size_t bytes;
  FILE *memory = open_memstream(&line, &bytes);
  CHECK(memory, "out of memory for a line of metrics");
  int failed = metrics_write_json(metrics, step, file->seconds_before + seconds, memory);
  failed |= fclose(memory);
  CHECK(!failed, "out of memory for a line of metrics");

  /* One write where there is room, so that a crash leaves a whole line or none. */
  bool written = append_whole(file->fd, line, bytes, file->end);
  if (written == file->failing) say_change(file, written);
  file->failing = !written;
  if (written) {
    file->end += (off_t)bytes;
    file->step = step;
  }
  free(line);
}

void metrics_file_close(struct metrics_file *file) {
  if (file->fd >= 0) close(file->fd);
  file->fd = -1;
}
