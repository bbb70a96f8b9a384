/* Races of ours with gRPC, which is not instrumented: ThreadSanitizer sees them by what core.h
 * tells it, also with tests/tsan.supp. They are made on purpose, in a process of their own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>
#include <unistd.h>

#include "rpc_fixture.h"
#include "tests/unit/support/skip.h"

static uint8_t body[64 << 10];

/* While an exchange reads it. */
static void *write_the_body(void *nothing) {
  (void)nothing;
  body[5000] = 1;
  return NULL;
}

/* A message that was only lent, while it is given back. */
static volatile uint8_t seen;
static volatile bool has_read;
static void *read_unasked(void *lent) {
  seen = *(const uint8_t *)lent;
  has_read = true;
  return NULL;
}

static pthread_t reader;
static void lend(void *context, const struct wire_span *spans, int n) {
  (void)context, (void)n;
  pthread_create(&reader, NULL, read_unasked, (void *)spans[0].data);
  /* The memory must still be there. A volatile makes no order, unlike a lock. */
  while (!has_read) clock_sleep_us(1000);
}

static int race(void) {
  struct fixture f;
  fixture_create(&f, "127.0.0.1:0", 1, FIXTURE_MESSAGE_BYTES);
  struct rpc_channel *channel = rpc_channel_create(f.address, FIXTURE_MESSAGE_BYTES, NULL);
  struct rpc_call *call = rpc_call_open(channel, "/test/Echo");
  bool ended;
  pthread_t writer;
  pthread_create(&writer, NULL, write_the_body, NULL);
  rpc_exchange(call, "", 0, body, sizeof(body), lend, NULL, &ended);
  pthread_join(writer, NULL);
  pthread_join(reader, NULL);
  rpc_call_close(call);
  rpc_channel_destroy(channel);
  fixture_destroy(&f);
  return 0;
}

static void a_race_with_grpc_is_seen(void **state) {
  (void)state;
#ifndef __SANITIZE_THREAD__
  SKIP("only ThreadSanitizer sees races");
#endif
  char program[1024] = {0}, command[1200];
  assert_true(readlink("/proc/self/exe", program, sizeof(program) - 1) > 0);
  snprintf(command, sizeof(command),
           "TSAN_OPTIONS=\"$TSAN_OPTIONS exitcode=66 log_path=stdout\" '%s' race", program);
  static char reports[1 << 20];
  FILE *out = popen(command, "r");
  assert_non_null(out);
  reports[fread(reports, 1, sizeof(reports) - 1, out)] = '\0';
  assert_int_equal(WEXITSTATUS(pclose(out)), 66);
  assert_non_null(strstr(reports, "write_the_body"));
  assert_non_null(strstr(reports, "read_unasked"));
}

int main(int argc, char **argv) {
  (void)argv;
  if (argc > 1) return race();
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_race_with_grpc_is_seen)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
