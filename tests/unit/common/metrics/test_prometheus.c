#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "common/metrics/prometheus.h"

static void test_text(void **state) {
  (void)state;
  struct metrics *metrics = metrics_create(8);
  metric_add(metrics_counter(metrics, "train/updates", "updates\nso far \\ all"), 7);
  metric_set(metrics_gauge(metrics, "train/episode_return", "mean"), -1.5);
  metric_set(metrics_gauge(metrics, "batch/late_us", "bound"), 20000);
  metric_set(metrics_gauge(metrics, "loss/total", "loss"), 2);
  metrics_gauge(metrics, "eval/episode_return", "never set");
  metric_set(metrics_gauge(metrics, "env/v1.2-x/Y", "an environment's own"), 3);
  struct metric *wait = metrics_histogram(metrics, "batch/wait_us", "wait");
  metrics_histogram(metrics, "batch/fill", "rows");
  for (int i = 0; i < 4; i++) metric_observe(wait, 1000000);
  metrics_close_interval(metrics);

  char *text;
  size_t bytes;
  FILE *out = open_memstream(&text, &bytes);
  const struct prometheus_label labels[] = {{"env", "a\"b\\c"}, {"seed", "1"}};
  prometheus_write_info(out, "acorn_run_info", "which", labels, 2);
  prometheus_write(metrics, out);
  fclose(out);
  assert_string_equal(text,
                      "# HELP acorn_run_info which\n"
                      "# TYPE acorn_run_info gauge\n"
                      "acorn_run_info{env=\"a\\\"b\\\\c\",seed=\"1\"} 1\n"
                      "# HELP acorn_train_updates_total updates\\nso far \\\\ all\n"
                      "# TYPE acorn_train_updates_total counter\n"
                      "acorn_train_updates_total 7\n"
                      "# HELP acorn_train_episode_return mean\n"
                      "# TYPE acorn_train_episode_return gauge\n"
                      "acorn_train_episode_return -1.5\n"
                      "# HELP acorn_batch_late_seconds bound\n"
                      "# TYPE acorn_batch_late_seconds gauge\n"
                      "acorn_batch_late_seconds 0.02\n"
                      "# HELP acorn_loss loss\n"
                      "# TYPE acorn_loss gauge\n"
                      "acorn_loss 2\n"
                      "# HELP acorn_eval_episode_return never set\n"
                      "# TYPE acorn_eval_episode_return gauge\n"
                      "acorn_eval_episode_return NaN\n"
                      "# HELP acorn_env_v1_2_x_Y an environment's own\n"
                      "# TYPE acorn_env_v1_2_x_Y gauge\n"
                      "acorn_env_v1_2_x_Y 3\n"
                      "# HELP acorn_batch_wait_seconds wait\n"
                      "# TYPE acorn_batch_wait_seconds summary\n"
                      "acorn_batch_wait_seconds{quantile=\"0.5\"} 1\n"
                      "acorn_batch_wait_seconds{quantile=\"0.99\"} 1\n"
                      "acorn_batch_wait_seconds{quantile=\"1\"} 1\n"
                      "acorn_batch_wait_seconds_sum 4\n"
                      "acorn_batch_wait_seconds_count 4\n"
                      "# HELP acorn_batch_fill rows\n"
                      "# TYPE acorn_batch_fill summary\n"
                      "acorn_batch_fill{quantile=\"0.5\"} NaN\n"
                      "acorn_batch_fill{quantile=\"0.99\"} NaN\n"
                      "acorn_batch_fill{quantile=\"1\"} NaN\n"
                      "acorn_batch_fill_sum 0\n"
                      "acorn_batch_fill_count 0\n");
  free(text);
  metrics_destroy(metrics);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_text)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
