// Against numpy: tests/golden/envs/make.py.
#include "tests/unit/envs/play.h"

#include "envs/pcg64.h"

static void check_line(char *const *word, int num_words) {
  assert_int_equal(num_words, 7);
  struct pcg64 rng;
  pcg64_seed(&rng, strtoull(word[0], NULL, 10));
  for (int i = 1; i <= 3; i++) assert_true(pcg64_next(&rng) == strtoull(word[i], NULL, 10));
  for (int i = 4; i <= 6; i++) assert_true(pcg64_double(&rng) == strtod(word[i], NULL));
}

static void agrees_with_numpy(void **state) {
  (void)state;
  play_golden("tests/golden/envs/pcg64.txt", check_line);
}

static void below_covers_its_range(void **state) {
  (void)state;
  struct pcg64 rng;
  pcg64_seed(&rng, 3);
  int seen[5] = {0};
  for (int i = 0; i < 5000; i++) {
    int drawn = pcg64_below(&rng, 5);
    assert_in_range(drawn, 0, 4);
    seen[drawn]++;
  }
  for (int i = 0; i < 5; i++) assert_in_range(seen[i], 800, 1200);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(agrees_with_numpy),
      cmocka_unit_test(below_covers_its_range),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
