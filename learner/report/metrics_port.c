#include "learner/report/metrics_port.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/metrics/prometheus.h"

static const char prometheus_type[] = "text/plain; version=0.0.4; charset=utf-8";

static void write_page(struct report *report, FILE *out) {
  const struct run *run = report->run;
  char seed[32];
  snprintf(seed, sizeof(seed), "%lld", (long long)run->options->seed);
  const struct prometheus_label labels[] = {{"env", run->env_name},
                                            {"agent", run->options->agent},
                                            {"seed", seed},
                                            {"folder", run->folder.path}};
  report_measure(report);
  prometheus_write_info(out, "acorn_run_info", "which run this is", labels, 4);
  prometheus_write(run->metrics, out);
}

static struct http_response answer(void *context, const struct http_request *request) {
  struct http_response response = {.status = 200, .type = "text/plain; charset=utf-8"};
  FILE *out = open_memstream(&response.body, &response.bytes);
  CHECK(out, "out of memory for the metrics' page");
  if (http_request_is(request, "/metrics")) {
    response.type = prometheus_type;
    write_page(context, out);
  } else if (http_request_is(request, "/")) {
    fputs("Acorn: the metrics are at /metrics\n", out);
  } else {
    response.status = 404;
    fputs("there is nothing here; the metrics are at /metrics\n", out);
  }
  fclose(out);
  return response;
}

enum status metrics_port_start(struct http_server **out, uv_loop_t *loop,
                               const struct learner_options *options, struct report *report,
                               struct error *error) {
  *out = NULL;
  if (options->metrics_port == 0) return STATUS_OK;
  struct http_server_config config = {.address = options->metrics_address,
                                      .port = (int)options->metrics_port,
                                      .answer = answer,
                                      .context = report};
  struct error reason = {""};
  enum status status = http_server_start(out, loop, &config, &reason);
  if (status == STATUS_INVALID)
    return status_fail(error, status, "--metrics_address: %s", reason.text);
  if (status != STATUS_OK)
    return status_fail(error, status, "--metrics_port: %s: choose another one, or 0 for none",
                       reason.text);
  bool ipv6 = strchr(options->metrics_address, ':');
  log_info("metrics at http://%s%s%s:%d/metrics", ipv6 ? "[" : "", options->metrics_address,
           ipv6 ? "]" : "", http_server_port(*out));
  return STATUS_OK;
}
