/* The answer to Status there and back, against protobuf-c, and damaged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "acorn.pb-c.h"
#include "tests/unit/support/status_example.h"

static struct wire_player players[2];

/* With a number in every place, all of them told apart. */
static struct wire_status sent_status(void) {
  struct wire_status status = status_example(players, 2);
  strcpy(status.no_data, "nobody is here");
  status.total_steps = 5000000000;
  status.return_mean = NAN;
  status.eval_return_mean = -1.5;
  status.batch_wait_us = 11;
  status.fifo_wait = 0.25;
  status.expected_environments = 17;
  status.eval_environments = 2;
  status.late_environments = 1;
  status.replay_windows = 812;
  status.replay_windows_needed = 5000;
  status.replay_ratio = 0.99;
  status.replay_ratio_asked = 1.25;
  strcpy(players[0].state, "stepping");
  players[0].late_environments = 0;
  strcpy(players[1].name, "eval/0/0");
  players[1].role = WIRE_ROLE_EVAL;
  players[1].first_environment = 16;
  players[1].num_environments = 1;
  players[1].step_us = NAN;
  players[1].late_environments = 1;
  return status;
}

static void it_is_what_protobuf_c_reads(void **state) {
  (void)state;
  const struct wire_status sent = sent_status();
  size_t size;
  uint8_t *bytes = wire_pack_status(&sent, &size);
  Acorn__StatusReply *message = acorn__status_reply__unpack(NULL, size, bytes);
  free(bytes);
  assert_non_null(message);
  assert_string_equal(message->environment, "cartpole");
  assert_string_equal(message->no_data, "nobody is here");
  assert_true(message->total_steps == 5000000000 && message->updates == 870);
  assert_true(message->seconds == 4 && message->trainer_wait == 0.91);
  assert_true(message->replay_windows == 812 && message->replay_windows_needed == 5000);
  assert_true(message->replay_ratio == 0.99 && message->replay_ratio_asked == 1.25);
  assert_int_equal(message->n_player, 2);
  assert_string_equal(message->player[1]->name, "eval/0/0");
  assert_string_equal(message->player[1]->state, "late");
  assert_int_equal(message->player[1]->first_environment, 16);
  assert_int_equal(message->player[1]->role, ACORN__ROLE__ROLE_EVAL);
  assert_int_equal(message->player[0]->num_environments, 16);
  assert_int_equal(message->player[0]->steps, 1234567);
  acorn__status_reply__free_unpacked(message, NULL);
}

/* Every number is its own: none is lost, none stands in another's place. */
static void it_crosses(void **state) {
  (void)state;
  const struct wire_status sent = sent_status();
  size_t size, again_size;
  struct wire_status received;
  uint8_t *bytes = wire_pack_status(&sent, &size);
  assert_int_equal(wire_unpack_status(&received, bytes, size, NULL), STATUS_OK);
  assert_string_equal(received.run_folder, "/runs/a");
  assert_true(isnan(received.return_mean) && received.eval_return_mean == -1.5);
  assert_int_equal(received.late_environments, 1);
  assert_true(received.players[0].wait_us == 85 && isnan(received.players[1].step_us));
  uint8_t *again = wire_pack_status(&received, &again_size);
  assert_int_equal(again_size, size);
  assert_memory_equal(again, bytes, size);
  wire_status_deinit(&received);
  free(again);
  free(bytes);
}

static void names_cannot_move_the_cursor(void **state) {
  (void)state;
  struct wire_status evil = sent_status();
  strcpy(evil.agent, "a\033[2Jb\n");
  size_t size;
  struct wire_status received;
  uint8_t *bytes = wire_pack_status(&evil, &size);
  assert_int_equal(wire_unpack_status(&received, bytes, size, NULL), STATUS_OK);
  assert_string_equal(received.agent, "a?[2Jb?");
  wire_status_deinit(&received);
  free(bytes);
}

/* JSON and terminals want UTF-8; what is cut off may end within a character. */
static void texts_are_whole_characters(void **state) {
  (void)state;
  static const struct {
    const char *sent, *received;
  } cases[] = {
      {"Z\xc3\xbcrich \xe2\x82\xac \xf0\x9f\x8c\xb0",
       "Z\xc3\xbcrich \xe2\x82\xac \xf0\x9f\x8c\xb0"},
      {"a\xff\x80z", "a??z"},
      {"\xc3", "?"},
      {"\xe2\x82", "??"},
      {"\xc0\xafz", "??z"}, /* longer than it need be */
      {"\xc2\x9b"
       "2J",
       "??2J"}, /* a control character */
      {"\xed\xa0\x80\xe0\x80\x80", "??????"},
      {"\xf4\x90\x80\x80\xf5", "?????"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    struct wire_status odd = sent_status(), received;
    snprintf(odd.no_data, sizeof(odd.no_data), "%s", cases[i].sent);
    size_t size;
    uint8_t *bytes = wire_pack_status(&odd, &size);
    assert_int_equal(wire_unpack_status(&received, bytes, size, NULL), STATUS_OK);
    assert_string_equal(received.no_data, cases[i].received);
    wire_status_deinit(&received);
    free(bytes);
  }
}

static void counts_that_do_not_fit_are_refused(void **state) {
  (void)state;
  struct error error;
  for (int i = 0; i < 2; i++) {
    struct wire_status odd = sent_status(), received;
    struct wire_player player = odd.players[0];
    odd.players = &player;
    odd.num_players = 1;
    *(i ? &odd.train_environments : &player.num_environments) = -5;
    size_t size;
    uint8_t *bytes = wire_pack_status(&odd, &size);
    assert_int_equal(wire_unpack_status(&received, bytes, size, &error), STATUS_INVALID);
    assert_non_null(strstr(error.text, "2^31 environments"));
    free(bytes);
  }
}

static void damaged_ones_are_refused_or_harmless(void **state) {
  (void)state;
  const struct wire_status sent = sent_status();
  size_t size;
  uint8_t *bytes = wire_pack_status(&sent, &size);
  for (size_t i = 0; i < size; i++) {
    struct wire_status received;
    struct error error;
    enum status status = wire_unpack_status(&received, bytes, i, &error);
    assert_true(status == STATUS_OK || status == STATUS_INVALID);
    wire_status_deinit(&received);
    bytes[i] ^= 0xff;
    status = wire_unpack_status(&received, bytes, size, &error);
    assert_true(status == STATUS_OK || status == STATUS_INVALID);
    wire_status_deinit(&received);
    bytes[i] ^= 0xff;
  }
  free(bytes);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(it_is_what_protobuf_c_reads),
      cmocka_unit_test(it_crosses),
      cmocka_unit_test(names_cannot_move_the_cursor),
      cmocka_unit_test(texts_are_whole_characters),
      cmocka_unit_test(counts_that_do_not_fit_are_refused),
      cmocka_unit_test(damaged_ones_are_refused_or_harmless),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
