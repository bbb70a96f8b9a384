/* Limits of memory in trees of files as the kernel shows them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/group_memory.h"
#include "tests/unit/support/temporary_folder.h"

static char root[TEMPORARY_PATH_BYTES], groups[TEMPORARY_PATH_BYTES + 16];

static void write_text(const char *path, const char *text) {
  FILE *out = fopen(path, "w");
  assert_non_null(out);
  fputs(text, out);
  fclose(out);
}

/* root/group/file, and the folders above it. */
static void write_limit(const char *group, const char *file, const char *text) {
  char path[2 * TEMPORARY_PATH_BYTES];
  snprintf(path, sizeof(path), "%s/%s/%s", root, group, file);
  for (char *slash = path + strlen(root); (slash = strchr(slash + 1, '/'));) {
    *slash = '\0';
    mkdir(path, 0700);
    *slash = '/';
  }
  write_text(path, text);
}

static void check_memory(const char *lines, double expected) {
  write_text(groups, lines);
  double bytes = group_memory(root, groups);
  if (bytes != expected) fail_msg("%s: %g, expected %g", lines, bytes, expected);
}

static void begin(const char *name) {
  snprintf(root, sizeof(root), "%s/%s", temporary_folder(), name);
  snprintf(groups, sizeof(groups), "%s/cgroup", root);
  mkdir(root, 0700);
}

static void the_least_limit_of_the_groups_above_holds(void **state) {
  (void)state;
  begin("version_2");
  write_limit("job/step/task", "memory.max", "max\n");
  write_limit("job/step", "memory.max", "3000000\n");
  write_limit("job", "memory.max", "4000000\n");
  write_limit("other", "memory.max", "1000\n");
  check_memory("0::/job/step/task\n", 3000000);
  check_memory("0::/job\n", 4000000);
  check_memory("0::/\n", INFINITY);
}

static void a_container_has_its_limit_at_the_root(void **state) {
  (void)state;
  begin("container");
  write_limit(".", "memory.max", "2147483648\n");
  check_memory("0::/\n", 2147483648);
  check_memory("0::/docker/0123456789abcdef\n", 2147483648);
}

static void so_do_those_of_version_1(void **state) {
  (void)state;
  begin("version_1");
  write_limit("memory/job/step", "memory.limit_in_bytes", "9223372036854771712\n");
  write_limit("memory/job", "memory.limit_in_bytes", "5000000\n");
  write_limit("cpu/job", "memory.limit_in_bytes", "10\n");
  check_memory("9:cpu:/job\n4:memory:/job/step\n0::/\n", 5000000);
  check_memory("4:hugetlb,memory:/job\n", 5000000);
  check_memory("9:cpu:/job\n", INFINITY);
}

static void what_cannot_be_read_is_no_limit(void **state) {
  (void)state;
  begin("nothing");
  check_memory("0::/job\n", INFINITY);
  check_memory("", INFINITY);
  check_memory("0\n:\n::\n0:memory\n0:memory:\n\n", INFINITY);
  write_limit("job", "memory.max", "");
  check_memory("0::/job", INFINITY);
  assert_true(isinf(group_memory(root, "/nowhere/cgroup")));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_least_limit_of_the_groups_above_holds),
      cmocka_unit_test(a_container_has_its_limit_at_the_root),
      cmocka_unit_test(so_do_those_of_version_1),
      cmocka_unit_test(what_cannot_be_read_is_no_limit),
  };
  return cmocka_run_group_tests(tests, temporary_folder_setup, temporary_folder_teardown);
}
