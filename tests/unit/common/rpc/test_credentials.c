/* A server that asks for a token, over real sockets: who has it is served, nothing is received of
 * who has not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/log.h"
#include "rpc_fixture.h"

#define OLD "old-old-old-old-"
#define NEW "new-new-new-new-"

static char server_path[64], client_path[64];

static void write_token(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs(text, file);
  assert_int_equal(fclose(file) | chmod(path, 0600), 0);
}

static struct credentials *open_credentials(char *path) {
  struct credentials *credentials;
  struct error error;
  static char none[] = "";
  const struct credentials_options options = {path, none, none, none, NULL};
  if (credentials_open(&credentials, &options, CREDENTIALS_CLIENT, &error) != STATUS_OK)
    fail_msg("%s", error.text);
  return credentials;
}

static struct rpc_result ask_of(const struct fixture *f, const char *method,
                                struct credentials *credentials) {
  struct rpc_channel *channel = rpc_channel_create(f->address, 1000, credentials);
  uint8_t *reply;
  size_t bytes;
  struct rpc_result result = rpc_unary(channel, method, "x", 1, &reply, &bytes, 10000);
  free(reply);
  rpc_channel_destroy(channel);
  return result;
}

static struct rpc_result ask(const struct fixture *f, struct credentials *credentials) {
  return ask_of(f, "/test/Unary", credentials);
}

static struct rpc_result say(const struct fixture *f, struct credentials *credentials) {
  struct rpc_channel *channel = rpc_channel_create(f->address, 1000, credentials);
  struct rpc_call *call = rpc_call_open(channel, "/test/Echo");
  struct rpc_result result;
  bool ended;
  fixture_say(call, "hello", &result, &ended);
  rpc_call_close(call);
  rpc_channel_destroy(channel);
  return result;
}

static void a_call_needs_the_token(void **state) {
  (void)state;
  struct fixture f;
  write_token(server_path, OLD "\n");
  struct credentials *credentials = open_credentials(server_path);
  fixture_create_asking(&f, "127.0.0.1:0", credentials);

  struct rpc_result (*const ways[])(const struct fixture *, struct credentials *) = {ask, say};
  for (int way = 0; way < 2; way++) {
    struct rpc_result result = ways[way](&f, NULL);
    assert_int_equal(result.code, RPC_UNAUTHENTICATED);
    assert_non_null(strstr(result.text, "asks for a token"));
    write_token(client_path, NEW "\n");
    struct credentials *wrong = open_credentials(client_path);
    result = ways[way](&f, wrong);
    assert_int_equal(result.code, RPC_UNAUTHENTICATED);
    assert_non_null(strstr(result.text, "none of the learner's"));
    credentials_close(wrong);
    assert_int_equal(atomic_load(&f.opened) + atomic_load(&f.messages), way * 2);
    struct credentials *right = open_credentials(server_path);
    assert_int_equal(ways[way](&f, right).code, RPC_OK);
    credentials_close(right);
  }
  fixture_destroy(&f);
  credentials_close(credentials);
}

/* What actors have opens the other calls, what the operator has opens its own. */
static void the_operator_has_a_token_of_its_own(void **state) {
  (void)state;
  static const char operators[] = "/test/Operator";
  struct fixture f;
  struct error error;
  write_token(server_path, OLD "\n");
  write_token(client_path, NEW "\n");
  struct credentials *actor = open_credentials(server_path);
  struct credentials *owner = open_credentials(client_path);
  struct credentials_options options = {server_path, "", "", "", ""}; /* none of its own */
  struct credentials *credentials;
  assert_int_equal(credentials_open(&credentials, &options, CREDENTIALS_SERVER, &error), STATUS_OK);
  fixture_create_asking(&f, "127.0.0.1:0", credentials);
  assert_int_equal(ask_of(&f, operators, actor).code, RPC_OK);
  assert_int_equal(ask_of(&f, operators, owner).code, RPC_UNAUTHENTICATED);
  fixture_destroy(&f);
  credentials_close(credentials);

  options.operator_token_file = client_path;
  assert_int_equal(credentials_open(&credentials, &options, CREDENTIALS_SERVER, &error), STATUS_OK);
  fixture_create_asking(&f, "127.0.0.1:0", credentials);
  assert_int_equal(ask_of(&f, operators, owner).code, RPC_OK);
  assert_int_equal(ask(&f, actor).code, RPC_OK);
  assert_int_equal(ask(&f, owner).code, RPC_UNAUTHENTICATED);
  struct credentials *refused[] = {actor, NULL};
  for (int i = 0; i < 2; i++) {
    struct rpc_result result = ask_of(&f, operators, refused[i]);
    assert_int_equal(result.code, RPC_UNAUTHENTICATED);
    assert_non_null(strstr(result.text, "the operator's token"));
  }
  write_token(client_path, NEW "\n" OLD "\n"); /* the second would be that of actors */
  assert_int_equal(ask_of(&f, operators, actor).code, RPC_UNAUTHENTICATED);
  assert_int_equal(ask_of(&f, operators, owner).code, RPC_OK);
  fixture_destroy(&f);
  credentials_close(credentials);

  assert_int_equal(credentials_open(&credentials, &options, CREDENTIALS_SERVER, &error),
                   STATUS_INVALID);
  assert_non_null(strstr(error.text, "which actors have"));
  credentials_close(actor);
  credentials_close(owner);
}

/* The server's file first holds both, then the new one alone; a stream that plays goes on. */
static void a_token_is_replaced_without_a_stop(void **state) {
  (void)state;
  struct fixture f;
  struct rpc_result result;
  bool ended;
  write_token(server_path, OLD "\n");
  write_token(client_path, OLD "\n");
  struct credentials *credentials = open_credentials(server_path);
  struct credentials *client = open_credentials(client_path);
  fixture_create_asking(&f, "127.0.0.1:0", credentials);
  struct rpc_channel *channel = rpc_channel_create(f.address, 1000, client);
  struct rpc_call *call = rpc_call_open(channel, "/test/Echo");
  assert_true(fixture_say(call, "before", &result, &ended));

  write_token(server_path, OLD "\n" NEW "\n");
  assert_int_equal(ask(&f, client).code, RPC_OK);
  write_token(client_path, NEW "\n");
  assert_int_equal(ask(&f, client).code, RPC_OK);
  write_token(server_path, NEW "\n");
  assert_int_equal(ask(&f, client).code, RPC_OK);
  write_token(client_path, OLD "\n");
  assert_int_equal(ask(&f, client).code, RPC_UNAUTHENTICATED);

  assert_true(fixture_say(call, "after", &result, &ended));
  rpc_call_close(call);
  rpc_channel_destroy(channel);
  credentials_close(client);
  fixture_destroy(&f);
  credentials_close(credentials);
}

/* One without a token takes one that is shown. */
static void a_token_that_nobody_asks_for_does_no_harm(void **state) {
  (void)state;
  struct fixture f;
  write_token(client_path, OLD "\n");
  struct credentials *client = open_credentials(client_path);
  fixture_create(&f, "127.0.0.1:0", 1, 1000);
  assert_int_equal(ask(&f, client).code, RPC_OK);
  fixture_destroy(&f);
  credentials_close(client);
}

int main(void) {
  log_init("test", LOG_ERROR);
  snprintf(server_path, sizeof(server_path), "/tmp/acorn-server-token-%d", (int)getpid());
  snprintf(client_path, sizeof(client_path), "/tmp/acorn-client-token-%d", (int)getpid());
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_call_needs_the_token),
      cmocka_unit_test(the_operator_has_a_token_of_its_own),
      cmocka_unit_test(a_token_is_replaced_without_a_stop),
      cmocka_unit_test(a_token_that_nobody_asks_for_does_no_harm),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  unlink(server_path);
  unlink(client_path);
  return failed;
}
