#include "learner/report/episodes_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/append.h"
#include "common/base/check.h"
#include "common/base/log.h"

static const char first_columns[] = "seconds,step,actor,environment,role,return,length,one_in";
enum { EVERY_US = 1000 * 1000 };

/* ---- what an earlier learner has written */

/* The names of the header's numbers; false if it is no header of this file. */
static bool read_header(struct episodes_file *file, const char *line, size_t bytes) {
  size_t first = sizeof(first_columns) - 1;
  if (bytes < first || memcmp(line, first_columns, first) != 0) return false;
  const char *at = line + first, *end = line + bytes;
  while (at < end && file->num_numbers < EPISODES_FILE_NUMBERS) {
    const char *begin = at + strlen(",env/");
    if (begin >= end || memcmp(at, ",env/", strlen(",env/")) != 0) return false;
    at = memchr(begin, ',', (size_t)(end - begin));
    if (!at) at = end;
    char *name = file->name[file->num_numbers++];
    if (at - begin >= WIRE_NUMBER_NAME_BYTES) return false;
    memcpy(name, begin, (size_t)(at - begin));
    name[at - begin] = '\0';
    if (!wire_number_name_fits(name)) return false;
  }
  return at == end;
}

/* The step of a row: what stands behind its first comma; -1 if there is none. */
static int64_t step_of(const char *row, size_t bytes) {
  const char *comma = memchr(row, ',', bytes);
  char text[24] = "";
  if (comma) snprintf(text, sizeof(text), "%.*s", (int)(row + bytes - comma - 1), comma + 1);
  char *end;
  long long step = strtoll(text, &end, 10);
  return end > text && *end == ',' ? step : -1;
}

/* Walks back over the rows past `limit`: the end of the last one that stays. `header`: the end of
 * the header. */
static off_t find_end(const char *text, off_t header, off_t size, int64_t limit) {
  off_t end = size;
  while (end > header) {
    off_t last = text[end - 1] == '\n' ? end - 1 : end; /* a torn row has no end */
    off_t begin = (const char *)memrchr(text, '\n', (size_t)last) + 1 - text;
    int64_t step = last < end ? step_of(text + begin, (size_t)(last - begin)) : -1;
    if (step >= 0 && step <= limit) return end;
    end = begin;
  }
  return end;
}

static enum status take_up(struct episodes_file *file, const char *text, off_t size, int64_t step,
                           struct error *error) {
  const char *newline = memchr(text, '\n', (size_t)size);
  if (!newline || !read_header(file, text, (size_t)(newline - text)))
    return status_fail(error, STATUS_IO,
                       "%s is no table of episodes of this program: move it away, or give "
                       "--episodes_csv=false",
                       file->path);
  file->end = find_end(text, newline + 1 - text, size, step);
  if (file->end == size) return STATUS_OK;
  if (ftruncate(file->fd, file->end) != 0)
    return status_fail(error, STATUS_IO, "cannot cut the lost steps off %s: %s", file->path,
                       strerror(errno));
  return STATUS_OK;
}

/* A file that is empty gets its header with the first rows. */
static enum status read_file(struct episodes_file *file, int64_t step, struct error *error) {
  off_t size = lseek(file->fd, 0, SEEK_END);
  if (size == 0) return STATUS_OK;
  char *text =
      size < 0 ? MAP_FAILED : mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, file->fd, 0);
  if (text == MAP_FAILED)
    return status_fail(error, STATUS_IO, "cannot read %s: %s", file->path, strerror(errno));
  enum status status = take_up(file, text, size, step, error);
  munmap(text, (size_t)size);
  return status;
}

enum status episodes_file_open(struct episodes_file *file, const char *folder, int64_t step,
                               int64_t start_us, double seconds_before, struct error *error) {
  *file = (struct episodes_file){
      .start_us = start_us, .written_us = start_us, .seconds_before = seconds_before};
  snprintf(file->path, sizeof(file->path), "%s/episodes.csv", folder);
  file->fd = open(file->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file->fd < 0)
    return status_fail(error, STATUS_IO, "cannot write %s: %s", file->path, strerror(errno));
  enum status status = read_file(file, step, error);
  if (status != STATUS_OK) episodes_file_close(file);
  return status;
}

/* ---- the header */

static void print_header(const struct episodes_file *file, FILE *out) {
  fputs(first_columns, out);
  for (int i = 0; i < file->num_numbers; i++) fprintf(out, ",env/%s", file->name[i]);
  fputc('\n', out);
}

/* Copies the rows of `from`, which stand behind its header. */
static bool copy_rows(int from, FILE *to) {
  static char bytes[1 << 16];
  bool in_header = true;
  off_t at = 0;
  for (ssize_t count; (count = pread(from, bytes, sizeof(bytes), at)) != 0; at += count) {
    if (count < 0) return false;
    char *begin = bytes, *newline = in_header ? memchr(bytes, '\n', (size_t)count) : NULL;
    if (newline) begin = newline + 1;
    if (newline || !in_header) fwrite(begin, 1, (size_t)(bytes + count - begin), to);
    if (newline) in_header = false;
  }
  return true;
}

/* The file anew with a longer header: under another name, which then becomes its own. Names are new
 * in the first seconds of nearly every run, while there is little to copy. */
static bool rewrite(struct episodes_file *file) {
  char path[PATH_MAX + 8];
  snprintf(path, sizeof(path), "%s.new", file->path);
  int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
  FILE *out = fd < 0 ? NULL : fdopen(dup(fd), "w");
  bool written = false;
  if (out) {
    print_header(file, out);
    written = copy_rows(file->fd, out) && !ferror(out);
    written &= fclose(out) == 0;
  }
  if (!written || rename(path, file->path) != 0) {
    int reason = errno;
    if (fd >= 0) close(fd);
    unlink(path);
    errno = reason;
    return false;
  }
  close(file->fd);
  file->fd = fd;
  file->end = lseek(fd, 0, SEEK_END);
  return true;
}

static int column_of(const struct episodes_file *file, const char *name) {
  for (int i = 0; i < file->num_numbers; i++)
    if (strcmp(file->name[i], name) == 0) return i;
  return -1;
}

/* Extends the header by the names that are new. What does not fit is left out. */
static bool learn_names(struct episodes_file *file, const struct progress_number *numbers,
                        int count) {
  int before = file->num_numbers;
  for (int i = 0; i < count && file->num_numbers < EPISODES_FILE_NUMBERS; i++)
    if (column_of(file, numbers[i].name) < 0)
      snprintf(file->name[file->num_numbers++], WIRE_NUMBER_NAME_BYTES, "%s", numbers[i].name);
  if (file->num_numbers == before || file->end == 0) return true;
  if (rewrite(file)) return true;
  file->num_numbers = before;
  return false;
}

/* ---- rows */

/* A name may have any visible character. */
static void print_text(FILE *out, const char *text) {
  if (!strpbrk(text, ",\"")) {
    fputs(text, out);
    return;
  }
  fputc('"', out);
  for (; *text; text++) {
    if (*text == '"') fputc('"', out);
    fputc(*text, out);
  }
  fputc('"', out);
}

/* Shapes: place (num_numbers of the file): the number's column in the log; -1: none. */
static void print_row(const struct episodes_file *file, FILE *out, const struct episode_row *row,
                      bool eval, int64_t one_in, const int *place) {
  double seconds = file->seconds_before + (double)(row->time_us - file->start_us) / 1e6;
  fprintf(out, "%.3f,%" PRId64 ",", seconds, row->step);
  print_text(out, row->actor);
  fprintf(out, ",%d,%s,%.9g,%u,%" PRId64, row->environment, eval ? "eval" : "train",
          row->episode_return, (unsigned)row->length, one_in);
  for (int i = 0; i < file->num_numbers; i++) {
    double value = place[i] < 0 ? NAN : row->number[place[i]];
    if (isnan(value))
      fputc(',', out);
    else
      fprintf(out, ",%.9g", value);
  }
  fputc('\n', out);
}

/* Both roles' rows, merged by their steps. */
static void print_rows(const struct episodes_file *file, FILE *out,
                       const struct episode_rows rows[2], const int *place) {
  for (int at[2] = {0, 0}; at[0] < rows[0].count || at[1] < rows[1].count;) {
    bool eval = at[0] == rows[0].count ||
                (at[1] < rows[1].count && rows[1].row[at[1]].step < rows[0].row[at[0]].step);
    print_row(file, out, &rows[eval].row[at[eval]++], eval, rows[eval].one_in, place);
  }
}

static void say_change(const struct episodes_file *file, bool written) {
  if (!written)
    log_warn("cannot write %s: %s; training goes on without it", file->path, strerror(errno));
  else
    log_info("%s is written again; the rows in between are missing", file->path);
}

/* The rows, behind the header if the file is empty, in memory that the caller frees. */
static char *print_all(const struct episodes_file *file, const struct episode_rows rows[2],
                       const struct progress_number *numbers, int num_numbers, size_t *bytes) {
  int place[EPISODES_FILE_NUMBERS];
  for (int i = 0; i < EPISODES_FILE_NUMBERS; i++) place[i] = -1;
  for (int i = 0; i < num_numbers; i++) {
    int column = column_of(file, numbers[i].name);
    if (column >= 0) place[column] = i;
  }
  char *text;
  FILE *out = open_memstream(&text, bytes);
  CHECK(out, "out of memory for rows of episodes");
  if (file->end == 0) print_header(file, out);
  print_rows(file, out, rows, place);
  CHECK(fclose(out) == 0, "out of memory for rows of episodes");
  return text;
}

bool episodes_file_is_due(const struct episodes_file *file, int64_t now_us) {
  return file->fd >= 0 && now_us - file->written_us >= EVERY_US;
}

void episodes_file_write(struct episodes_file *file, struct episode_log *log,
                         struct progress *progress, int64_t now_us) {
  if (file->fd < 0) return;
  struct episode_rows rows[2];
  file->written_us = now_us;
  episode_log_take(log, rows);
  if (rows[0].count + rows[1].count == 0) return;
  /* After the rows, so that all their numbers have names. */
  struct progress_number numbers[NUMBERS_MAX];
  const char *dropped;
  int num_numbers = progress_numbers(progress, numbers, &dropped);
  bool written = learn_names(file, numbers, num_numbers);
  if (written) {
    size_t bytes;
    char *text = print_all(file, rows, numbers, num_numbers, &bytes);
    written = append_whole(file->fd, text, bytes, file->end);
    if (written) file->end += (off_t)bytes;
    free(text);
  }
  if (written == file->failing) say_change(file, written);
  file->failing = !written;
}

void episodes_file_close(struct episodes_file *file) {
  if (file->fd >= 0) close(file->fd);
  file->fd = -1;
}
