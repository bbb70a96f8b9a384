/* Learners of several hosts find each other: strangers, other tokens and other runs do no harm;
 * names that resolve late, tokens that are replaced, learners that are started again. */
#include <errno.h>
#include <netdb.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/cluster/probe.h"
#include "learner/train/peers_hello.h"
#include "tests/unit/learner/train/peers_world.h"

enum { ANSWER_MS = 2000 };

/* The linker puts it in the place of getaddrinfo (Makefile). */
int __real_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **list);
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **list);
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **list) {
  static int calls;
  if (host && strcmp(host, "never.example") == 0) return EAI_NONAME;
  if (!host || strcmp(host, "late.example") != 0)
    return __real_getaddrinfo(host, port, hints, list);
  if (calls++ < 3) return EAI_AGAIN;
  return __real_getaddrinfo("127.0.0.1", port, hints, list);
}

static struct tokens tokens_of(const char *text) {
  struct tokens tokens;
  struct error error;
  if (tokens_parse(&tokens, text, strlen(text), &error) != STATUS_OK) fail_msg("%s", error.text);
  return tokens;
}

#define BLUE "a-blue-token-of-a-run\n"

/* A meeting, so that all are there. */
static void meet_once(struct peers_world *w, struct peers *peers, int rank) {
  struct error error;
  double all[WORLD_MOST], mine = rank + 1;
  if (peers_exchange(peers, all, &mine, 1, &error) != STATUS_OK) return;
  for (int r = 0; r < w->learners; r++) w->result[rank].number[r] = all[r];
}

static void all_have_met(struct peers_world *w) {
  for (int r = 0; r < w->learners; r++) {
    if (w->result[r].status != STATUS_OK) fail_msg("learner %d: %s", r, w->result[r].error);
    for (int k = 0; k < w->learners; k++) assert_true(w->result[r].number[k] == k + 1);
  }
}

static bool has(const struct peers_world *w, int rank, const char *text) {
  if (strstr(w->result[rank].error, text)) return true;
  print_message("learner %d: '%s' lacks '%s'\n", rank, w->result[rank].error, text);
  return false;
}

/* As soon as it listens. */
static int call(const char *address) {
  int fd = -1;
  for (int i = 0; i < 500 && fd < 0; i++) {
    fd = probe_connect(address, ANSWER_MS);
    if (fd < 0) clock_sleep_us(10 * 1000);
  }
  assert_true(fd >= 0);
  return fd;
}

static void say(int fd, const void *bytes, size_t count) {
  (void)!send(fd, bytes, count, MSG_NOSIGNAL);
}

static bool answers(int fd, void *bytes, size_t count) {
  return recv(fd, bytes, count, MSG_WAITALL) == (ssize_t)count;
}

/* As learner 1 would. The connection counts, and nothing was said in it. */
static int prove(const char *address, int learners) {
  struct peers_hello hello = peers_hello_make(1, 0, learners), answer;
  struct peers_proof proof, theirs;
  int fd = call(address);
  say(fd, &hello, sizeof(hello));
  assert_true(answers(fd, &answer, sizeof(answer)));
  proof = peers_prove(NULL, 0, &hello, &answer);
  say(fd, &proof, sizeof(proof));
  assert_true(answers(fd, &theirs, sizeof(theirs)));
  assert_int_equal(peers_proves(&theirs, NULL, &answer, &hello), 0);
  return fd;
}

/* ---- strangers */

static void send_garbage(const char *address) {
  unsigned char bytes[300];
  for (size_t n = 0; n <= sizeof(bytes); n += 37) {
    for (size_t i = 0; i < n; i++) bytes[i] = (unsigned char)(n * 31 + i * 7);
    int fd = call(address);
    say(fd, bytes, n);
    close(fd);
  }
}

static void send_hellos_that_are_none(const char *address) {
  for (int kind = 0; kind < 4; kind++) {
    struct peers_hello hello = peers_hello_make(kind == 1 ? 0 : 1, kind == 2 ? 1 : 0, 2), answer;
    if (kind == 0) hello.form[7]++;
    if (kind == 3) hello.from = 64;
    int fd = call(address);
    say(fd, &hello, sizeof(hello));
    assert_false(answers(fd, &answer, sizeof(answer)));
    close(fd);
  }
}

/* Its own proof comes back, or another token's. */
static void prove_wrongly(const char *address) {
  for (int kind = 0; kind < 3; kind++) {
    const struct tokens blue = tokens_of(BLUE);
    struct peers_hello hello = peers_hello_make(1, 0, 2), answer;
    int fd = call(address);
    say(fd, &hello, sizeof(hello));
    assert_true(answers(fd, &answer, sizeof(answer)));
    struct peers_proof proof = peers_prove(kind ? &blue : NULL, 0, &hello, &answer), theirs;
    if (kind == 2) memset(&proof, 0, sizeof(proof));
    say(fd, &proof, sizeof(proof));
    assert_false(answers(fd, &theirs, sizeof(theirs)));
    close(fd);
  }
}

static void strangers_do_no_harm(void **state) {
  (void)state;
  enum { SILENT = 100 };
  int silent[SILENT];
  struct peers_world w = peers_world_create(2);
  w.tokens[0] = w.tokens[1] = tokens_of(BLUE "another-token-of-it\n");
  w.tokens[1].token[0] = w.tokens[0].token[1], w.tokens[1].token[1] = w.tokens[0].token[0];
  peers_world_start(&w, 0, meet_once);
  for (int i = 0; i < SILENT; i++) {
    silent[i] = call(w.at[0]);
    say(silent[i], "acorn p1", 1 + i % 8);
  }
  unsigned char byte; /* where there are too many the oldest one is closed, the newest is not */
  assert_true(recv(silent[0], &byte, 1, 0) == 0 || errno == ECONNRESET);
  assert_int_equal(recv(silent[SILENT - 1], &byte, 1, MSG_DONTWAIT), -1);
  send_garbage(w.at[0]);
  send_hellos_that_are_none(w.at[0]);
  peers_world_start(&w, 1, meet_once);
  peers_world_wait(&w);
  all_have_met(&w);
  for (int i = 0; i < SILENT; i++) close(silent[i]);
  peers_world_destroy(&w);
}

static void a_proof_by_another_token_is_none(void **state) {
  (void)state;
  struct peers_world w = peers_world_create(2);
  w.tokens[0] = w.tokens[1] = tokens_of("the-token-of-the-run\n");
  peers_world_start(&w, 0, meet_once);
  prove_wrongly(w.at[0]);
  peers_world_start(&w, 1, meet_once);
  peers_world_wait(&w);
  all_have_met(&w);
  peers_world_destroy(&w);
}

/* From a learner by its proof. */
static void what_is_no_message_ends_the_run(void **state) {
  (void)state;
  struct peers_world w = peers_world_create(2);
  peers_world_start(&w, 0, meet_once);
  int fd = prove(w.at[0], 2);
  unsigned char bytes[200];
  memset(bytes, 0xff, sizeof(bytes));
  say(fd, bytes, sizeof(bytes));
  peers_world_wait(&w);
  assert_int_equal(w.result[0].status, STATUS_UNAVAILABLE);
  close(fd);
  peers_world_destroy(&w);
}

/* ---- learners of other runs */

static void another_token_is_named_on_both_sides(void **state) {
  (void)state;
  struct peers_world w = peers_world_create(2);
  w.timeout_ms = 3000;
  w.tokens[0] = tokens_of(BLUE);
  peers_world_run_all(&w, meet_once);
  for (int r = 0; r < 2; r++) assert_int_equal(w.result[r].status, STATUS_UNAVAILABLE);
  assert_true(has(&w, 0, "learner 1 of 2, at 127.0.0.2:"));
  assert_true(has(&w, 0,
                  "has not come within 3 s; a connection from 127.0.0.1 was refused: it has "
                  "another token"));
  assert_true(has(&w, 1, "learner 0 of 2, at 127.0.0.1:"));
  assert_true(has(&w, 1, "within 3 s; it closed the connection"));
  peers_world_destroy(&w);
}

static void another_number_of_learners_is_named(void **state) {
  (void)state;
  struct peers_world w = peers_world_create(3);
  struct peers_world two = w;
  two.learners = 2;
  peers_world_start(&two, 0, meet_once);
  peers_world_start(&w, 1, meet_once);
  w.process[0] = two.process[0];
  peers_world_wait(&w);
  for (int r = 0; r < 2; r++) assert_int_equal(w.result[r].status, STATUS_MISMATCH);
  assert_true(has(&w, 0, "learner 0 has --learners=2, and learner 1 --learners=3"));
  assert_true(has(&w, 1, "learner 1 has --learners=3, and learner 0 --learners=2"));
  peers_world_destroy(&w);
}

static void an_address_of_another_rank_is_named(void **state) {
  (void)state;
  struct peers_world w = peers_world_create(3);
  struct peers_world other = w;
  w.timeout_ms = other.timeout_ms = 1000;
  other.at[0] = w.at[1];
  peers_world_start(&w, 1, meet_once);
  peers_world_start(&other, 2, meet_once);
  w.process[2] = other.process[2];
  peers_world_wait(&w);
  assert_true(has(&w, 2, "learner 0 of 3, at 127.0.0.2:"));
  peers_world_destroy(&w);
}

/* ---- late, and again */

static void a_name_that_resolves_late_is_waited_for(void **state) {
  (void)state;
  static char late[64];
  struct peers_world w = peers_world_create(2);
  struct peers_world other = w;
  snprintf(late, sizeof(late), "late.example%s", strrchr(w.at[0], ':'));
  other.at[0] = late;
  peers_world_start(&other, 1, meet_once);
  clock_sleep_us(100 * 1000); /* and its port is there later still */
  peers_world_start(&w, 0, meet_once);
  w.process[1] = other.process[1];
  peers_world_wait(&w);
  all_have_met(&w);
  peers_world_destroy(&w);
}

/* Also that of a higher rank, which has to call and is not called. */
static void a_name_that_never_resolves_is_named(void **state) {
  (void)state;
  static char never[] = "never.example:9";
  for (int missing = 0; missing < 2; missing++) {
    struct peers_world w = peers_world_create(2);
    int waits = 1 - missing;
    char sentence[160];
    snprintf(sentence, sizeof(sentence),
             "learner %d of 2, at never.example:9, has not come within 0.3 s; its name is not "
             "known: ",
             missing);
    w.timeout_ms = 300;
    w.at[missing] = never;
    peers_world_start(&w, waits, meet_once);
    peers_world_wait(&w);
    assert_int_equal(w.result[waits].status, STATUS_UNAVAILABLE);
    assert_true(has(&w, waits, sentence));
    peers_world_destroy(&w);
  }
}

/* It ends before all have come, so the others take the one that comes in its place. */
static void a_learner_may_be_started_again_until_all_have_come(void **state) {
  (void)state;
  struct peers_world w = peers_world_create(3);
  peers_world_start(&w, 0, meet_once);
  for (int i = 0; i < 3; i++) {
    peers_world_start(&w, 1, meet_once);
    clock_sleep_us(100 * 1000);
    kill(w.process[1], SIGKILL);
    waitpid(w.process[1], NULL, 0);
  }
  peers_world_start(&w, 1, meet_once);
  peers_world_start(&w, 2, meet_once);
  peers_world_wait(&w);
  all_have_met(&w);
  peers_world_destroy(&w);
}

/* Also where the first one has not closed its connection, as after a loss of power. */
static void a_new_connection_of_a_rank_replaces_the_old_one(void **state) {
  (void)state;
  unsigned char byte;
  struct peers_world w = peers_world_create(3);
  peers_world_start(&w, 0, meet_once);
  int first = prove(w.at[0], 3), second = prove(w.at[0], 3);
  assert_int_equal(recv(first, &byte, 1, 0), 0);
  assert_int_equal(recv(second, &byte, 1, MSG_DONTWAIT), -1);
  peers_world_start(&w, 1, meet_once);
  assert_int_equal(recv(second, &byte, 1, 0), 0);
  peers_world_start(&w, 2, meet_once);
  peers_world_wait(&w);
  all_have_met(&w);
  close(second);
  close(first);
  peers_world_destroy(&w);
}

/* Files of a rotation that has reached some of the hosts. */
static void half_a_rotation_of_tokens_is_enough(void **state) {
  (void)state;
  static const char both[] = "the-new-token-of-it\n" BLUE, back[] = BLUE "the-new-token-of-it\n";
  static const char *const files[][2] = {{both, BLUE}, {BLUE, both}, {both, back}, {back, both}};
  for (int k = 0; k < 4; k++) {
    struct peers_world w = peers_world_create(2);
    for (int r = 0; r < 2; r++) w.tokens[r] = tokens_of(files[k][r]);
    peers_world_run_all(&w, meet_once);
    all_have_met(&w);
    peers_world_destroy(&w);
  }
}

static void a_port_in_use_is_named(void **state) {
  (void)state;
  struct peers_world w = peers_world_create(2);
  w.timeout_ms = 200;
  peers_world_start(&w, 0, meet_once);
  int fd = call(w.at[0]);
  struct error error;
  struct peers *peers;
  const struct peers_config config = {
      .at = w.at, .rank = 0, .learners = 2, .timeout_ms = 100, .about = ""};
  assert_int_equal(peers_open(&peers, &config, &error), STATUS_EXISTS);
  assert_non_null(strstr(error.text, "the port is in use"));
  close(fd);
  peers_world_wait(&w);
  peers_world_destroy(&w);
}

static int by_net(void **state) {
  peers_world_by_net = true;
  return temporary_folder_setup(state);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(strangers_do_no_harm),
      cmocka_unit_test(a_proof_by_another_token_is_none),
      cmocka_unit_test(what_is_no_message_ends_the_run),
      cmocka_unit_test(another_token_is_named_on_both_sides),
      cmocka_unit_test(another_number_of_learners_is_named),
      cmocka_unit_test(an_address_of_another_rank_is_named),
      cmocka_unit_test(a_name_that_resolves_late_is_waited_for),
      cmocka_unit_test(a_name_that_never_resolves_is_named),
      cmocka_unit_test(a_learner_may_be_started_again_until_all_have_come),
      cmocka_unit_test(a_new_connection_of_a_rank_replaces_the_old_one),
      cmocka_unit_test(half_a_rotation_of_tokens_is_enough),
      cmocka_unit_test(a_port_in_use_is_named),
  };
  return cmocka_run_group_tests(tests, by_net, temporary_folder_teardown);
}
