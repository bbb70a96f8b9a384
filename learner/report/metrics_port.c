#include "learner/report/metrics_port.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/token.h"
#include "common/metrics/http_server.h"
#include "common/metrics/prometheus.h"

struct metrics_port {
  struct http_server *server;
  struct report *report;
  struct token_file *tokens; /* NULL: any client that reaches the port may read */
};

static const char prometheus_type[] = "text/plain; version=0.0.4; charset=utf-8";

static void write_page(struct report *report, FILE *out) {
  const struct run *run = report->run;
  char seed[32];
  snprintf(seed, sizeof(seed), "%lld", (long long)run->options->seed);
  const struct prometheus_label labels[] = {{"env", run->env_name},
                                            {"agent", run->options->agent},
                                            {"seed", seed},
                                            {"folder", run->folder.name}};
  report_measure(report);
  prometheus_write_info(out, "acorn_run_info", "which run this is", labels, 4);
  prometheus_write(run->metrics, out);
}

static bool may_read(const struct metrics_port *port, const struct http_request *request) {
  if (!port->tokens) return true;
  return request->authorization &&
         token_file_accepts(port->tokens, request->authorization, request->authorization_bytes);
}

static struct http_response answer(void *context, const struct http_request *request) {
  struct http_response response = {.status = 200, .type = "text/plain; charset=utf-8"};
  FILE *out = open_memstream(&response.body, &response.bytes);
  CHECK(out, "out of memory for the metrics' page");
  const struct metrics_port *port = context;
  if (!may_read(port, request)) {
    response.status = 401;
    fputs("the metrics ask for a token: Authorization: Bearer TOKEN\n", out);
  } else if (http_request_is(request, "/metrics")) {
    response.type = prometheus_type;
    write_page(port->report, out);
  } else if (http_request_is(request, "/")) {
    fputs("Acorn: the metrics are at /metrics\n", out);
  } else {
    response.status = 404;
    fputs("there is nothing here; the metrics are at /metrics\n", out);
  }
  fclose(out);
  return response;
}

static enum status listen_at(struct metrics_port *port, uv_loop_t *loop,
                             const struct learner_options *options, struct error *error) {
  struct http_server_config config = {.address = options->metrics_address,
                                      .port = (int)options->metrics_port,
                                      .answer = answer,
                                      .context = port};
  struct error reason = {""};
  enum status status = http_server_start(&port->server, loop, &config, &reason);
  if (status == STATUS_INVALID)
    return status_fail(error, status, "--metrics_address: %s", reason.text);
  if (status != STATUS_OK)
    return status_fail(error, status, "--metrics_port: %s: choose another one, or 0 for none",
                       reason.text);
  return STATUS_OK;
}

static void announce(const struct metrics_port *port, const char *address) {
  bool ipv6 = strchr(address, ':');
  log_info("metrics at http://%s%s%s:%d/metrics", ipv6 ? "[" : "", address, ipv6 ? "]" : "",
           http_server_port(port->server));
  if (!port->tokens && strncmp(address, "127.", 4) != 0 && strcmp(address, "::1") != 0)
    log_warn(
        "--metrics_address=%s without --metrics_token_file: whoever reaches the port may read "
        "the metrics",
        address);
}

enum status metrics_port_start(struct metrics_port **out, uv_loop_t *loop,
                               const struct learner_options *options, struct report *report,
                               struct error *error) {
  *out = NULL;
  if (options->metrics_port == 0) return STATUS_OK;
  struct metrics_port *port = check_alloc(1, sizeof(*port));
  port->report = report;
  enum status status = STATUS_OK;
  if (options->metrics_token_file[0])
    status =
        token_file_open(&port->tokens, "--metrics_token_file", options->metrics_token_file, error);
  if (status == STATUS_OK) status = listen_at(port, loop, options, error);
  if (status != STATUS_OK) {
    metrics_port_stop(port);
    return status;
  }
  announce(port, options->metrics_address);
  *out = port;
  return STATUS_OK;
}

void metrics_port_stop(struct metrics_port *port) {
  if (!port) return;
  http_server_stop(port->server);
  token_file_close(port->tokens);
  free(port);
}
