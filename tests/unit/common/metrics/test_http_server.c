/* The server on a loop of a thread's own, and clients that behave well, badly and not at all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/metrics/http_server.h"

enum { LIMIT_MS = 3000, LARGE_BYTES = 8 << 20, REPLY_BYTES = 4096 };

struct fixture {
  uv_loop_t loop;
  uv_async_t quit;
  struct http_server *server;
  pthread_t thread;
  int port;
};

static struct http_response answer(void *context, const struct http_request *request) {
  (void)context;
  struct http_response response = {.status = 200, .type = "text/plain"};
  if (http_request_is(request, "/large")) {
    response.bytes = LARGE_BYTES;
    response.body = calloc(1, LARGE_BYTES);
    return response;
  }
  if (!http_request_is(request, "/metrics")) response.status = 404;
  response.body = strdup("hello\n");
  response.bytes = 6;
  return response;
}

static void on_quit(uv_async_t *quit) {
  uv_stop(quit->loop);
}

static void *run(void *argument) {
  uv_run(argument, UV_RUN_DEFAULT);
  return NULL;
}

static int create(void **state) {
  struct fixture *f = calloc(1, sizeof(*f));
  struct http_server_config config = {"127.0.0.1", 0, LIMIT_MS, answer, NULL};
  struct error error;
  uv_loop_init(&f->loop);
  uv_async_init(&f->loop, &f->quit, on_quit);
  assert_int_equal(http_server_start(&f->server, &f->loop, &config, &error), STATUS_OK);
  f->port = http_server_port(f->server);
  pthread_create(&f->thread, NULL, run, &f->loop);
  *state = f;
  return 0;
}

static int destroy(void **state) {
  struct fixture *f = *state;
  uv_async_send(&f->quit);
  pthread_join(f->thread, NULL);
  http_server_stop(f->server);
  uv_close((uv_handle_t *)&f->quit, NULL);
  uv_run(&f->loop, UV_RUN_DEFAULT);
  assert_int_equal(uv_loop_close(&f->loop), 0);
  free(f);
  return 0;
}

static int dial(const struct fixture *f) {
  struct sockaddr_in address = {.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)f->port),
                                .sin_addr = {htonl(INADDR_LOOPBACK)}};
  struct timeval patience = {10, 0};
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
  return fd;
}

static void say(int fd, const char *text) {
  assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* Receives again after EINTR, which libuv 1.50's use of io_uring causes in the thread that has made
 * the loop. */
static ssize_t receive(int fd, void *bytes, size_t room) {
  ssize_t n;
  do n = recv(fd, bytes, room, 0);
  while (n < 0 && errno == EINTR);
  return n;
}

/* What the server says until it ends the connection; "" if it says nothing. */
static void hear(int fd, char reply[REPLY_BYTES]) {
  size_t bytes = 0;
  for (ssize_t n; (n = receive(fd, reply + bytes, REPLY_BYTES - 1 - bytes)) > 0;)
    bytes += (size_t)n;
  reply[bytes] = '\0';
  close(fd);
}

static void expect(const struct fixture *f, const char *request, const char *begin,
                   const char *end) {
  char reply[REPLY_BYTES];
  int fd = dial(f);
  say(fd, request);
  hear(fd, reply);
  if (strncmp(reply, begin, strlen(begin)) != 0) fail_msg("'%s' for '%s'", reply, request);
  size_t bytes = strlen(reply), end_bytes = strlen(end);
  if (bytes < end_bytes || strcmp(reply + bytes - end_bytes, end) != 0)
    fail_msg("'%s' does not end in '%s'", reply, end);
}

static void test_answers(void **state) {
  struct fixture *f = *state;
  expect(f, "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n",
         "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n"
         "Connection: close\r\n\r\n",
         "\r\n\r\nhello\n");
  expect(f, "HEAD /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK\r\n",
         "Content-Length: 6\r\nConnection: close\r\n\r\n");
  expect(f, "GET /else HTTP/1.1\r\n\r\n", "HTTP/1.1 404 Not Found\r\n", "hello\n");
  expect(f, "DELETE /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 405 Method Not Allowed\r\n", "\n");
  expect(f, "nonsense\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n", "\n");
  /* What follows a request does not take its answer away. */
  expect(f, "GET /metrics HTTP/1.1\r\n\r\nGET /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK\r\n",
         "hello\n");
}

/* Who has its answer makes room at once, not when the limit is over. */
static void test_many_in_turn(void **state) {
  struct fixture *f = *state;
  enum { REQUESTS = 20 * HTTP_MAX_CONNECTIONS };
  int64_t start_us = clock_now_us();
  for (int i = 0; i < REQUESTS; i++)
    expect(f, "GET /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK\r\n", "hello\n");
  assert_true((clock_now_us() - start_us) / 1000 < 5000);
}

static void test_a_request_in_pieces(void **state) {
  struct fixture *f = *state;
  static const char request[] = "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";
  char reply[REPLY_BYTES];
  int fd = dial(f);
  for (const char *p = request; *p; p++) {
    say(fd, (char[]){*p, '\0'});
    clock_sleep_us(1000);
  }
  hear(fd, reply);
  assert_memory_equal(reply, "HTTP/1.1 200 OK\r\n", 17);
}

static void test_a_request_without_end(void **state) {
  struct fixture *f = *state;
  char reply[REPLY_BYTES], line[1024];
  snprintf(line, sizeof(line), "A: %0*d\r\n", 1000, 0);
  int fd = dial(f);
  say(fd, "GET /metrics HTTP/1.1\r\n");
  for (int i = 0; i < HTTP_MAX_REQUEST_BYTES / 1000 + 1; i++) say(fd, line);
  hear(fd, reply);
  assert_memory_equal(reply, "HTTP/1.1 431 ", 13);
}

/* Who says nothing, and who does not listen, is left after the limit. */
static void test_slow_clients(void **state) {
  struct fixture *f = *state;
  char reply[REPLY_BYTES];
  int deaf = dial(f), silent = dial(f);
  say(deaf, "GET /large HTTP/1.1\r\n\r\n");
  int64_t start_us = clock_now_us();
  hear(silent, reply);
  assert_string_equal(reply, "");
  int64_t waited_ms = (clock_now_us() - start_us) / 1000;
  assert_true(waited_ms > LIMIT_MS / 2 && waited_ms < 3 * LIMIT_MS);
  clock_sleep_us(100000);
  size_t bytes = 0;
  static char part[65536];
  for (ssize_t n; (n = receive(deaf, part, sizeof(part))) > 0;) bytes += (size_t)n;
  assert_true(bytes < LARGE_BYTES);
  close(deaf);
}

/* As many as there are slots, and more that wait before the scraper: it has its answer long before
 * the limit, because they make room. */
static void test_silent_peers_make_room(void **state) {
  struct fixture *f = *state;
  enum { SILENT = 2 * HTTP_MAX_CONNECTIONS };
  int silent[SILENT], deaf = dial(f);
  say(deaf, "GET /large HTTP/1.1\r\n\r\n");
  for (int i = 0; i < SILENT; i++) silent[i] = dial(f);
  int64_t start_us = clock_now_us();
  expect(f, "GET /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK\r\n", "hello\n");
  assert_true((clock_now_us() - start_us) / 1000 < LIMIT_MS / 2);
  for (int i = 0; i < SILENT; i++) close(silent[i]);
  close(deaf);
}

/* "I have said all" is not "I have gone". */
static void test_a_peer_that_only_listens(void **state) {
  struct fixture *f = *state;
  char part[65536];
  size_t bytes = 0;
  int fd = dial(f);
  say(fd, "GET /large HTTP/1.1\r\n\r\n");
  shutdown(fd, SHUT_WR);
  for (ssize_t n; (n = receive(fd, part, sizeof(part))) > 0;) bytes += (size_t)n;
  close(fd);
  assert_true(bytes > LARGE_BYTES);
}

/* A peer that has gone is an error of a write, not the end of the process. */
static void test_a_peer_that_has_gone(void **state) {
  struct fixture *f = *state;
  for (int i = 0; i < 50; i++) {
    int fd = dial(f);
    struct linger reset = {1, 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    say(fd, i % 2 ? "GET /large HTTP/1.1\r\n\r\n" : "GET /metrics HTTP/1.1\r\n\r\n");
    if (i % 5 == 0) shutdown(fd, SHUT_WR);
    if (i % 3 == 0) clock_sleep_us(2000);
    close(fd);
  }
  expect(f, "GET /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK\r\n", "hello\n");
}

static void test_mistakes(void **state) {
  struct fixture *f = *state;
  struct http_server *none = NULL;
  struct error error;
  uv_loop_t loop;
  uv_loop_init(&loop);
  struct http_server_config config = {"127.0.0.1", f->port, 0, answer, NULL};
  assert_int_equal(http_server_start(&none, &loop, &config, &error), STATUS_EXISTS);
  assert_non_null(strstr(error.text, "in use"));
  config.address = "localhost:1";
  assert_int_equal(http_server_start(&none, &loop, &config, &error), STATUS_INVALID);
  config = (struct http_server_config){"203.0.113.1", 0, 0, answer, NULL};
  assert_int_equal(http_server_start(&none, &loop, &config, &error), STATUS_IO);
  assert_null(none);
  assert_int_equal(uv_loop_close(&loop), 0);
}

#define WITH_SERVER(test) cmocka_unit_test_setup_teardown(test, create, destroy)

int main(void) {
  const struct CMUnitTest tests[] = {
      WITH_SERVER(test_answers),
      WITH_SERVER(test_many_in_turn),
      WITH_SERVER(test_a_request_in_pieces),
      WITH_SERVER(test_a_request_without_end),
      WITH_SERVER(test_slow_clients),
      WITH_SERVER(test_silent_peers_make_room),
      WITH_SERVER(test_a_peer_that_only_listens),
      WITH_SERVER(test_a_peer_that_has_gone),
      WITH_SERVER(test_mistakes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
