/* The run's metrics for Prometheus at http://ADDRESS:PORT/metrics (--metrics_address,
 * --metrics_port). Upstream: learner/main.c. Thread: main, on its loop. */
#ifndef ACORN_LEARNER_REPORT_METRICS_PORT_H
#define ACORN_LEARNER_REPORT_METRICS_PORT_H

#include <uv.h>

#include "learner/report/report.h"

struct metrics_port;

/* Listens if a port is asked for; otherwise *out is NULL. The report is read at every request.
 * Errors: EXISTS, INVALID, IO: what the user can mend. */
MUST_CHECK enum status metrics_port_start(struct metrics_port **out, uv_loop_t *loop,
                                          const struct learner_options *options,
                                          struct report *report, struct error *error);

/* As http_server_stop; NULL is allowed. */
void metrics_port_stop(struct metrics_port *port);

#endif
