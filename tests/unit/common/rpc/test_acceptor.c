/* A server that has run out of file descriptors serves again when there are some. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>
#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/log.h"
#include "tests/unit/common/rpc/rpc_fixture.h"

enum { FILES = 200, FLOOD = 300, FOLDERS = 32 };

/* Connects FLOOD times and, on a word, lets go again; a process with files of its own. */
static pid_t start_flood(int go, int done) {
  pid_t pid = fork();
  if (pid) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  struct sockaddr_in place = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  char port[16] = {0}, byte;
  if (read(go, port, sizeof(port)) <= 0) _exit(1);
  place.sin_port = htons((uint16_t)atoi(port));
  for (int i = 0; i < FLOOD; i++) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&place, sizeof(place)) != 0) _exit(1);
  }
  if (write(done, "x", 1) != 1 || read(go, &byte, 1) != 1) _exit(1);
  _exit(0);
}

static bool serves(const char *address) {
  struct rpc_channel *channel = rpc_channel_create(address, 1000, NULL);
  uint8_t *reply;
  size_t bytes;
  struct rpc_result result = rpc_unary(channel, "/test/Unary", "x", 1, &reply, &bytes, 10000);
  free(reply);
  rpc_channel_destroy(channel);
  return result.code == RPC_OK;
}

static void a_flood_of_connections_passes(void **state) {
  (void)state;
  int go[2], done[2], status;
  assert_int_equal(pipe(go) | pipe(done), 0);
  pid_t flood = start_flood(go[0], done[1]);
  struct rlimit limit = {FILES, FILES};
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
  assert_in_range(rpc_server_max_connections(0), FILES / 2, FILES - 10);

  struct fixture f;
  fixture_create(&f, "127.0.0.1:0", 1, 1000);
  /* Who was there before is not disturbed. */
  struct rpc_channel *channel = rpc_channel_create(f.address, 1000, NULL);
  struct rpc_call *call = rpc_call_open(channel, "/test/Echo");
  struct rpc_result result;
  bool ended;
  char byte, port[16] = {0};
  assert_true(fixture_say(call, "before", &result, &ended));
  snprintf(port, sizeof(port), "%d", rpc_server_port(f.server));
  assert_int_equal(write(go[1], port, sizeof(port)), sizeof(port));
  assert_int_equal(read(done[0], &byte, 1), 1);
  clock_sleep_us(200000);
  assert_true(fixture_say(call, "meanwhile", &result, &ended));
  FILE *file = fopen("/dev/null", "r"); /* there is a reserve */
  assert_non_null(file);
  fclose(file);
  assert_int_equal(write(go[1], "x", 1), 1);
  assert_int_equal(waitpid(flood, &status, 0), flood);
  assert_int_equal(status, 0);
  assert_true(fixture_say(call, "afterwards", &result, &ended));
  assert_true(serves(f.address));
  /* For ThreadSanitizer, which sees neither gRPC's close nor opendir: these are no connections. */
  DIR *folder[FOLDERS];
  for (int i = 0; i < FOLDERS; i++) assert_non_null(folder[i] = opendir("."));
  for (int i = 0; i < FOLDERS; i++) closedir(folder[i]);
  rpc_call_close(call);
  rpc_channel_destroy(channel);
  fixture_destroy(&f);
}

int main(void) {
  log_init("test", LOG_ERROR);
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_flood_of_connections_passes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
