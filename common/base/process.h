/* What every program does first. Upstream: the mains. Thread: one, before any other. */
#ifndef ACORN_COMMON_BASE_PROCESS_H
#define ACORN_COMMON_BASE_PROCESS_H

/* Opens /dev/null where stdin, stdout or stderr is closed, so that no socket takes its number and
 * gets what is printed. Ignores SIGPIPE: when nobody reads what is said any more (`| head`), the
 * work goes on. */
void process_init(void);

#endif
