#include "common/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/decimal.h"

enum { LINE_BYTES = 2048, LIVE_BYTES = 1024, DEFAULT_COLUMNS = 80, TAIL_BYTES = 16 * 1024 };

#define CLEAR_LINE "\r\033[K"

// name and lowest are read-only after log_init; start_us after the program has been loaded.
static const char *log_name;
static enum log_level log_lowest = LOG_INFO;
static int64_t start_us;

// Guarded by lock, so that a log line and a redraw never mix.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char live[LIVE_BYTES];
static char alias_path[64], alias_name[PATH_MAX]; // path "": there is none

__attribute__((constructor)) static void remember_start(void) {
  start_us = clock_now_us();
}

void log_init(const char *name, enum log_level lowest) {
  log_name = name;
  log_lowest = lowest;
}

void log_init_named(const char *name, const char *lowest) {
  static const char *const levels[] = {"debug", "info", "warn", "error"};
  for (int level = LOG_DEBUG; level <= LOG_ERROR; level++)
    if (strcmp(lowest, levels[level]) == 0) log_init(name, (enum log_level)level);
}

// A terminal that understands the sequence which clears a line.
static bool is_terminal(void) {
  const char *term = getenv("TERM");
  return isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
}

static int terminal_columns(void) {
  struct winsize size;
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 2) return DEFAULT_COLUMNS;
  return size.ws_col;
}

// A line that cannot be written (a closed pipe) is lost: the run matters more than its log.
static void write_whole(const char *bytes, size_t count) {
  while (count > 0) {
    ssize_t written = write(STDERR_FILENO, bytes, count);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    bytes += written;
    count -= (size_t)written;
  }
}

// Copies `text` as one row of at most `columns` characters: a row that wraps could not be redrawn
// in place.
static void copy_row(char row[LIVE_BYTES], const char *text, int columns) {
  size_t length = 0;
  for (int used = 0; *text && length < LIVE_BYTES - 1; text++) {
    bool continues =
        ((unsigned char)*text & 0xC0) == 0x80; // UTF-8: belongs to the character before
    if (!continues && ++used > columns) break;
    row[length++] = (unsigned char)*text < ' ' ? ' ' : *text;
  }
  row[length] = '\0';
}

void log_alias(const char *path, const char *name) {
  pthread_mutex_lock(&lock);
  snprintf(alias_path, sizeof alias_path, "%s", path);
  snprintf(alias_name, sizeof alias_name, "%s", name);
  pthread_mutex_unlock(&lock);
}

static size_t append(char *to, size_t bytes, size_t at, const char *text, size_t length) {
  if (length > bytes - 1 - at) length = bytes - 1 - at;
  memcpy(to + at, text, length);
  to[at + length] = '\0';
  return at + length;
}

// The caller holds the lock.
static void copy_named(char *to, size_t bytes, const char *text) {
  size_t at = 0;
  for (const char *found; alias_path[0] && (found = strstr(text, alias_path));) {
    at = append(to, bytes, at, text, (size_t)(found - text));
    at = append(to, bytes, at, alias_name, strlen(alias_name));
    text = found + strlen(alias_path);
  }
  append(to, bytes, at, text, strlen(text));
}

void log_named(char *to, size_t bytes, const char *text) {
  pthread_mutex_lock(&lock);
  copy_named(to, bytes, text);
  pthread_mutex_unlock(&lock);
}

void log_line(enum log_level level, const char *format, ...) {
  static const char *const words[] = {"debug: ", "", "warning: ", "error: "};
  if (level < log_lowest) return;

  char message[LINE_BYTES], named[LINE_BYTES];
  locale_t before = decimal_begin();
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);

  pthread_mutex_lock(&lock);
  copy_named(named, sizeof named, message);
  bool redraw = live[0] && is_terminal();
  char line[LINE_BYTES + LIVE_BYTES + 256];
  int length = snprintf(line, sizeof line, "%s%.3f %.100s: %s%s\n%s", redraw ? CLEAR_LINE : "",
                        (double)(clock_now_us() - start_us) * 1e-6,
                        log_name ? log_name : program_invocation_short_name, words[level], named,
                        redraw ? live : "");
  decimal_end(before);
  write_whole(line, (size_t)length);
  pthread_mutex_unlock(&lock);
}

int log_live_columns(void) {
  return is_terminal() ? terminal_columns() - 1 : 0;
}

void log_live(const char *text) {
  if (!is_terminal()) {
    if (text[0]) log_line(LOG_INFO, "%s", text);
    return;
  }

  pthread_mutex_lock(&lock);
  bool was_shown = live[0];
  copy_row(live, text, terminal_columns() - 1);
  if (was_shown || live[0]) {
    char row[LIVE_BYTES + sizeof CLEAR_LINE];
    int length = snprintf(row, sizeof row, CLEAR_LINE "%s", live);
    write_whole(row, (size_t)length);
  }
  pthread_mutex_unlock(&lock);
}

// Reads the end of the file; -1 with errno if that fails.
static ssize_t read_end(char *bytes, const char *path) {
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return -1;
  off_t size = lseek(fd, 0, SEEK_END);
  ssize_t count = pread(fd, bytes, TAIL_BYTES, size > TAIL_BYTES ? size - TAIL_BYTES : 0);
  close(fd);
  return count;
}

void log_print_tail(FILE *out, const char *path, int lines) {
  char bytes[TAIL_BYTES], named[PATH_MAX];
  ssize_t count = read_end(bytes, path);
  if (count < 0) {
    int reason = errno;
    log_named(named, sizeof(named), path);
    fprintf(out, "(cannot read %s: %s)\n", named, strerror(reason));
    return;
  }
  // Walks back over `lines` line ends, the one of the last line aside.
  ssize_t start = count;
  if (start > 0 && bytes[start - 1] == '\n') start--;
  for (; start > 0; start--)
    if (bytes[start - 1] == '\n' && --lines == 0) break;
  fwrite(bytes + start, 1, (size_t)(count - start), out);
  if (count > start && bytes[count - 1] != '\n') fputc('\n', out);
}
