#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "learner/report/tags.h"

static void tags_begin_with_returns(void **state) {
  (void)state;
  static const char *const rows[][2] = {
      {"train/episode_return", "charts/episode_return"},
      {"train/episode_return_std", "charts/episode_return_std"},
      {"eval/episode_return", "charts/eval_episode_return"},
      {"train/episode_length", "charts/length"},
      {"learning_rate", "charts/learning_rate"},
      {"env/is_success", "env/is_success"},
      {"eval/env/is_success", "env/eval/is_success"},
      {"env/eval/is_success", "env/train:eval/is_success"},
      {"eval/env/eval/is_success", "env/eval/eval/is_success"},
      {"grad/norm", "loss/gradient_norm"},
      {"loss/total", "loss/total"},
      {"exploration/epsilon", "policy/exploration_epsilon"},
      {"q/value", "q/value"},
      {"train/updates", "telemetry/train/updates"},
      {"actor/step_us", "telemetry/actor/step_us"},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    char tag[METRIC_NAME_BYTES];
    tag_of_metric(tag, rows[i][0]);
    assert_string_equal(tag, rows[i][1]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(tags_begin_with_returns)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
