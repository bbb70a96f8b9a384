/* Log lines on stderr: "12.345 learner: message", seconds since the process started. Thread: any; a
 * line is one write. */
#ifndef ACORN_COMMON_BASE_LOG_H
#define ACORN_COMMON_BASE_LOG_H

#include <stddef.h>
#include <stdio.h>

#include "common/base/status.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

/* Sets the name that starts every line and the lowest level that is printed. Call once, before
 * threads start. */
void log_init(const char *name, enum log_level lowest);
/* The same by the level's name, as --log_level has it: debug, info, warn or error. */
void log_init_named(const char *name, const char *lowest);

/* From now on lines have `name` where `path` stands in a message: what a file is reached by may be
 * nothing that a user could read. There is one alias; a later call replaces it. */
void log_alias(const char *path, const char *name);
/* A text of one's own output, as a line would have it; cut short where there is no room. */
void log_named(char *to, size_t bytes, const char *text);

/* Prints one line; a newline is added. LOG_WARN and LOG_ERROR lines carry the word "warning:" or
 * "error:". */
void log_line(enum log_level level, const char *format, ...) PRINTF_LIKE(2, 3);

#define log_debug(...) log_line(LOG_DEBUG, __VA_ARGS__)
#define log_info(...) log_line(LOG_INFO, __VA_ARGS__)
#define log_warn(...) log_line(LOG_WARN, __VA_ARGS__)
#define log_error(...) log_line(LOG_ERROR, __VA_ARGS__)

/* A live line: on a terminal it stays at the bottom and is redrawn in place, log lines scroll above
 * it; elsewhere it is printed as an ordinary line. An empty text removes it. */
void log_live(const char *text);

/* How many characters of a live line are seen; 0: standard error is no terminal, all are. */
int log_live_columns(void);

/* Prints the last `lines` lines of a log, of its last 16 KiB; or that it cannot be read. */
void log_print_tail(FILE *out, const char *path, int lines);

#endif
