/* What a test logs, in memory instead of on standard error. */
#ifndef ACORN_TESTS_UNIT_SUPPORT_CAPTURED_LOG_H
#define ACORN_TESTS_UNIT_SUPPORT_CAPTURED_LOG_H

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/log.h"

static int captured_file, captured_stderr;

static inline void captured_start(void) {
  captured_stderr = dup(STDERR_FILENO);
  captured_file = memfd_create("log", MFD_CLOEXEC);
  dup2(captured_file, STDERR_FILENO);
  log_init("test", LOG_INFO);
}

/* How often the words are in what has been logged. */
static inline int captured_count(const char *words) {
  static char text[65536];
  int count = 0;
  ssize_t bytes = pread(captured_file, text, sizeof(text) - 1, 0);
  text[bytes > 0 ? bytes : 0] = '\0';
  for (const char *at = text; (at = strstr(at, words)); at += strlen(words)) count++;
  return count;
}

static inline void captured_stop(void) {
  dup2(captured_stderr, STDERR_FILENO);
  close(captured_stderr);
  close(captured_file);
  log_init("test", LOG_ERROR);
}

#endif
