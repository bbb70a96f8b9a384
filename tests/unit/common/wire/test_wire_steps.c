/* wire_steps.c and the Steps half of wire_encode.c: hand-made messages, then random ones against
 * protobuf-c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include "common/base/check.h"
#include "steps_oracle.h"

/* ---- hand-made messages: K = 2 environments, one tensor of 2 bytes */

#define REWARDS "\x12\x08\0\0\x80\x3f\0\0\0\x40"
#define OBSERVATION \
  "\x7a\x04"        \
  "abcd"
#define BYTES(text) text, sizeof(text) - 1

static const struct {
  const char *what;
  const char *bytes;
  size_t size;
  const char *fault; /* part of the sentence; NULL: accepted */
} cases[] = {
    {"smallest", BYTES(REWARDS OBSERVATION), NULL},
    {"observation first", BYTES(OBSERVATION REWARDS), NULL},
    {"rewards one by one", BYTES("\x15\0\0\x80\x3f\x15\0\0\0\x40" OBSERVATION), NULL},
    {"rewards packed in two", BYTES("\x12\x04\0\0\x80\x3f\x12\x04\0\0\0\x40" OBSERVATION), NULL},
    {"the last observation wins", BYTES("\x7a\x09wrongsize" REWARDS OBSERVATION), NULL},
    {"the last flags win", BYTES(REWARDS "\x1a\x01\xff\x1a\x02\0\0" OBSERVATION), NULL},
    {"unknown fields",
     BYTES("\x28\x96\x01\x31"
           "12345678"
           "\x3a\x03xyz\x45"
           "1234" REWARDS OBSERVATION),
     NULL},
    {"empty", BYTES(""), "reward has 0 rows"},
    {"no observation", BYTES(REWARDS), "observation has 0 bytes; 2 environments of 2 bytes have 4"},
    {"one reward too many",
     BYTES(REWARDS "\x15"
                   "1234" OBSERVATION),
     "reward has 3 rows; the stream has 2"},
    {"half a reward", BYTES("\x12\x07\0\0\x80\x3f\0\0\0" OBSERVATION), "reward: 7 bytes"},
    {"reward as varint", BYTES("\x10\x01" OBSERVATION), "Steps.reward has wire type 0"},
    {"observation as fixed32",
     BYTES(REWARDS "\x7d"
                   "abcd"),
     "Steps.observation has wire type 5"},
    {"observation too long",
     BYTES(REWARDS "\x7a\x05"
                   "abcde"),
     "observation has 5 bytes"},
    {"length beyond the end",
     BYTES(REWARDS "\x7a\x05"
                   "abcd"),
     "field 15 claims 5 bytes, but only 4 follow"},
    {"length of 2^31",
     BYTES(REWARDS "\x7a\x80\x80\x80\x80\x08"
                   "abcd"),
     "broken length"},
    {"length of six bytes", BYTES(REWARDS "\x7a\x84\x80\x80\x80\x80\0abcd"), "broken length"},
    {"ends in a tag", BYTES(REWARDS OBSERVATION "\x80"), "broken field tag"},
    {"ends in a varint", BYTES(REWARDS OBSERVATION "\x28\x80"), "ends inside field 5"},
    {"ends in a double",
     BYTES(REWARDS OBSERVATION "\x31"
                               "1234567"),
     "ends inside field 6"},
    {"ends in run_id",
     BYTES(REWARDS OBSERVATION "\x09"
                               "1234567"),
     "ends inside Steps.run_id"},
    {"run_id as varint", BYTES("\x08\x01" REWARDS OBSERVATION), "Steps.run_id has wire type 0"},
    {"a group", BYTES("\x2b\x2c" REWARDS OBSERVATION), "wire type 3"},
    {"wire type 7", BYTES("\x2f" REWARDS OBSERVATION), "wire type 7"},
    {"field number 0", BYTES("\x02\x01x" REWARDS OBSERVATION), "number 0"},
    {"field number 0, two bytes long", BYTES("\x82\0\x01x" REWARDS OBSERVATION), "number 0"},
    {"flags short", BYTES(REWARDS "\x1a\x01\0" OBSERVATION), "flags has 1 rows; the stream has 2"},
    {"unknown flag", BYTES(REWARDS "\x1a\x02\0\x10" OBSERVATION),
     "Steps.flags[1] is 16: unknown bits"},
    {"terminated, not first", BYTES(REWARDS "\x1a\x02\x02\0" OBSERVATION),
     "a terminated row is also first"},
    {"terminated, truncated, not first", BYTES(REWARDS "\x1a\x02\x06\0" OBSERVATION),
     "is also first"},
    {"truncated and first", BYTES(REWARDS "\x1a\x02\0\x05" OBSERVATION),
     "a truncated row is never first"},
    {"absent and first", BYTES(REWARDS "\x1a\x02\x09\0" OBSERVATION),
     "an absent row has no other flag"},
    {"an episode of environment 2", BYTES("\x22\x02\x08\x02" REWARDS OBSERVATION),
     "environment is 2"},
    {"a length of 2^64 - 1",
     BYTES("\x22\x0b\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01" REWARDS OBSERVATION),
     "Steps.episode.length is 18446744073709551615, more than a uint32 holds"},
    {"an environment of 2^32", BYTES("\x22\x06\x08\x80\x80\x80\x80\x10" REWARDS OBSERVATION),
     "Steps.episode.environment is 4294967296, more than a uint32 holds"},
    {"five episodes", BYTES("\x22\0\x22\0\x22\0\x22\0\x22\0" REWARDS OBSERVATION),
     "more than 4 episodes"},
    {"a number without a name", BYTES("\x22\x02\x22\0" REWARDS OBSERVATION), "has no name"},
    {"a name with a newline", BYTES("\x22\x05\x22\x03\x0a\x01\n" REWARDS OBSERVATION),
     "the character 10"},
    {"an episode that outgrows its length", BYTES("\x22\x02\x11\0" REWARDS OBSERVATION),
     "ends inside Steps.episode"},
};

/* In one piece, and in pieces of one byte. */
static void run_case(int i, size_t piece_bytes) {
  struct wire_layout layout = {.num_environments = 2, .num_tensors = 1, .tensor[0].bytes = 2};
  wire_layout_finish(&layout);
  struct wire_span spans[128];
  int count = 0;
  for (size_t at = 0; at < cases[i].size; at += piece_bytes) {
    size_t left = cases[i].size - at;
    spans[count++] = (struct wire_span){(const uint8_t *)cases[i].bytes + at,
                                        left < piece_bytes ? left : piece_bytes};
  }
  static struct oracle_rows rows;
  oracle_rows_init(&rows);
  struct error error = {{0}};
  enum status status = wire_decode_steps(&rows.rows, spans, count, &layout, &error);
  if (cases[i].fault) {
    if (status != STATUS_INVALID || !strstr(error.text, cases[i].fault))
      fail_msg("%s: status %d, \"%s\"", cases[i].what, status, error.text);
    return;
  }
  if (status != STATUS_OK) fail_msg("%s: %s", cases[i].what, error.text);
  assert_true(rows.reward[0] == 1.0f && rows.reward[1] == 2.0f);
  assert_memory_equal(rows.flags, "\0\0", 2);
  assert_memory_equal(rows.observation, "ab", 2);
  assert_memory_equal(rows.observation + 16, "cd", 2);
  assert_int_equal(rows.observation[2], ORACLE_FILL);
}

static void hand_made_messages(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    run_case((int)i, 1000);
    run_case((int)i, 1);
  }
}

static void valid_flags_are_taken_as_documented(void **state) {
  (void)state;
  static const struct {
    uint8_t in, out;
  } rows[] = {{0, 0}, {1, 1}, {3, 3}, {4, 4}, {7, 3}, {8, 8}};
  struct wire_layout layout = {.num_environments = 1, .num_tensors = 1, .tensor[0].bytes = 2};
  wire_layout_finish(&layout);
  for (size_t i = 0; i < 6; i++) {
    uint8_t message[] = {0x12, 4, 0, 0, 0, 0, 0x1a, 1, rows[i].in, 0x7a, 2, 'a', 'b'};
    static struct oracle_rows decoded;
    oracle_rows_init(&decoded);
    struct wire_span span = {message, sizeof(message)};
    assert_int_equal(wire_decode_steps(&decoded.rows, &span, 1, &layout, NULL), STATUS_OK);
    assert_int_equal(decoded.flags[0], rows[i].out);
  }
}

/* ---- random messages */

static void random_messages_agree_with_protobuf_c(void **state) {
  (void)state;
  uint64_t random = 1;
  static uint8_t message[ORACLE_ROOM];
  int accepted_whole = 0, accepted_damaged = 0;
  const int rounds = 60000;
  for (int round = 0; round < rounds; round++) {
    struct wire_layout layout = oracle_layout((unsigned)round);
    size_t size = oracle_make(message, &layout, &random);
    int damage = round % 3; /* none, cut off, changed bytes */
    if (damage == 1) size = oracle_below(&random, (uint32_t)size + 1);
    for (int n = 0; damage == 2 && n < 1 + round % 4; n++)
      message[oracle_below(&random, (uint32_t)size)] ^= (uint8_t)(1u << oracle_below(&random, 8));
    bool accepted;
    const char *difference = oracle_check(message, size, &layout, &random, &accepted);
    if (difference) fail_msg("round %d: %s", round, difference);
    *(damage ? &accepted_damaged : &accepted_whole) += accepted;
  }
  /* The comparison says something only if both verdicts are common. */
  assert_in_range(accepted_whole, rounds / 3 / 4, rounds / 3 - 1000);
  assert_in_range(accepted_damaged, 1000, rounds * 2 / 3 - 1000);
}

/* ---- encoding */

static void fill_episode(struct wire_episode *episode, int num_environments, uint64_t *random) {
  *episode =
      (struct wire_episode){.environment = oracle_below(random, (uint32_t)num_environments),
                            .length = (uint32_t)oracle_random(random),
                            .episode_return = (double)oracle_below(random, 1000) - 500,
                            .num_numbers = (int)oracle_below(random, WIRE_MAX_EPISODE_NUMBERS + 1)};
  for (int i = 0; i < episode->num_numbers; i++) {
    snprintf(episode->number[i].name, WIRE_NUMBER_NAME_BYTES, "number_%0*d",
             (int)oracle_below(random, 57), i);
    episode->number[i].value = i * 0.5;
  }
}

static void what_is_encoded_is_decoded(void **state) {
  (void)state;
  static const uint8_t valid[] = {0, 1, 3, 4, 8};
  uint64_t random = 2;
  static uint8_t message[ORACLE_ROOM];
  for (unsigned round = 0; round < 3000; round++) {
    struct wire_layout layout = oracle_layout(round);
    int K = layout.num_environments;
    static struct oracle_rows sent, received;
    oracle_rows_init(&sent);
    sent.rows.run_id = round % 2 ? oracle_random(&random) : 0;
    sent.rows.num_episodes = (int)oracle_below(&random, ORACLE_MAX_EPISODES + 1);
    for (int i = 0; i < sent.rows.num_episodes; i++) fill_episode(&sent.episodes[i], K, &random);
    for (int k = 0; k < K; k++) {
      sent.reward[k] = (float)oracle_below(&random, 1000) - 500;
      sent.flags[k] = round % 3 ? valid[oracle_below(&random, 5)] : 0;
    }
    size_t bound = wire_steps_header_bound(K, sent.rows.num_episodes);
    size_t body = layout.wire_bytes * (size_t)K;
    size_t header =
        wire_encode_steps_header(message, bound, sent.rows.run_id, sent.reward, sent.flags,
                                 sent.episodes, sent.rows.num_episodes, K, body);
    assert_in_range(header, 1, bound);
    for (size_t i = 0; i < body; i++) message[header + i] = (uint8_t)oracle_random(&random);
    oracle_rows_init(&received);
    assert_true(oracle_decode(&received, message, header + body, &layout));
    memcpy(sent.observation, received.observation, sizeof(sent.observation));
    assert_null(oracle_difference(&sent, &received));
    bool accepted;
    assert_null(oracle_check(message, header + body, &layout, &random, &accepted));
    assert_true(accepted);
    struct oracle_pieces pieces;
    uint64_t run_id = 1;
    bool alone = true;
    oracle_split(&pieces, message, header + body, &random);
    assert_int_equal(wire_peek_run_id(&run_id, &alone, pieces.span, pieces.count, NULL), STATUS_OK);
    oracle_join(&pieces);
    assert_false(alone);
    assert_true(run_id == sent.rows.run_id);
  }
}

static void peeking_refuses_what_is_no_message(void **state) {
  (void)state;
  uint64_t run_id;
  bool alone;
  struct wire_span span = {(const uint8_t *)"\x7a\x05" "abcd", 6};
  assert_int_equal(wire_peek_run_id(&run_id, &alone, &span, 1, NULL), STATUS_INVALID);
}

static void a_run_id_alone(void **state) {
  (void)state;
  uint8_t message[WIRE_RUN_ID_BYTES];
  assert_int_equal(wire_encode_run_id(message, 0x123456789abcdef0), sizeof(message));
  for (size_t cut = 0; cut <= sizeof(message); cut++) {
    const struct wire_span spans[] = {{message, cut}, {message + cut, sizeof(message) - cut}};
    uint64_t run_id = 0;
    bool alone = false;
    assert_int_equal(wire_peek_run_id(&run_id, &alone, spans, 2, NULL), STATUS_OK);
    assert_true(run_id == 0x123456789abcdef0 && alone);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(hand_made_messages),
      cmocka_unit_test(valid_flags_are_taken_as_documented),
      cmocka_unit_test(random_messages_agree_with_protobuf_c),
      cmocka_unit_test(what_is_encoded_is_decoded),
      cmocka_unit_test(peeking_refuses_what_is_no_message),
      cmocka_unit_test(a_run_id_alone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
