/* Answers of a batch: each segment its own actions, once, and none where the stream is gone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "learner/serve/reply.h"
#include "tests/unit/learner/serve/loopback.h"

enum { SEGMENTS = 3 };

struct fixture {
  struct rpc_stream stream[SEGMENTS];
  struct batch_segment segment[SEGMENTS];
  struct row_batch batch;
};

/* Rows 0..1, 2 (answered already), and 4..6: row 3 is a hole. */
static void init(struct fixture *f) {
  memset(f, 0, sizeof(*f));
  f->segment[0] = (struct batch_segment){.num_rows = 2, .stream = &f->stream[0]};
  f->segment[1] = (struct batch_segment){.first_row = 2, .num_rows = 1, .dead = true};
  f->segment[2] =
      (struct batch_segment){.first_row = 4, .num_rows = 3, .dead = true, .stream = &f->stream[2]};
  f->batch = (struct row_batch){.num_rows = 7, .segment = f->segment, .num_segments = SEGMENTS};
  f->stream[0].in_hand = f->stream[2].in_hand = true;
}

/* The action bytes are the message's only field: a tag, their length, themselves. */
static void expect_actions(const struct rpc_stream *stream, const void *bytes, size_t size) {
  assert_int_equal(stream->replies, 1);
  assert_false(stream->finished);
  assert_int_equal(stream->answer_bytes, 2 + size);
  assert_int_equal(stream->answer[0], 1 << 3 | 2);
  assert_int_equal(stream->answer[1], size);
  assert_memory_equal(stream->answer + 2, bytes, size);
}

static void each_segment_gets_its_own_rows(void **state) {
  (void)state;
  static struct fixture f;
  const int32_t action[] = {10, 11, 12, 13, 14, 15, 16};
  init(&f);
  reply_actions(&f.batch, action, sizeof(int32_t));
  expect_actions(&f.stream[0], &action[0], 2 * sizeof(int32_t));
  expect_actions(&f.stream[2], &action[4], 3 * sizeof(int32_t)); /* dead, but it waits */
  assert_int_equal(f.stream[1].replies, 0);
}

static void actions_may_have_any_size(void **state) {
  (void)state;
  static struct fixture f;
  uint8_t action[7 * 3];
  for (size_t i = 0; i < sizeof(action); i++) action[i] = (uint8_t)i;
  init(&f);
  reply_actions(&f.batch, action, 3);
  expect_actions(&f.stream[0], action, 2 * 3);
  expect_actions(&f.stream[2], action + 4 * 3, 3 * 3);
}

/* A second answer would be one to nothing. */
static void a_segment_is_answered_once(void **state) {
  (void)state;
  static struct fixture f;
  const int32_t action[7] = {0};
  init(&f);
  reply_actions(&f.batch, action, sizeof(int32_t));
  for (int i = 0; i < SEGMENTS; i++) assert_null(f.segment[i].stream);
  reply_actions(&f.batch, action, sizeof(int32_t));
  reply_finish(&f.batch, RPC_UNAVAILABLE, "late");
  assert_int_equal(f.stream[0].replies, 1);
  assert_false(f.stream[0].finished);
}

static void a_finish_has_a_code_and_a_sentence(void **state) {
  (void)state;
  static struct fixture f;
  init(&f);
  reply_finish(&f.batch, RPC_UNAVAILABLE, "the learner stops");
  for (int i = 0; i < SEGMENTS; i += 2) {
    assert_true(f.stream[i].finished);
    assert_int_equal(f.stream[i].code, RPC_UNAVAILABLE);
    assert_string_equal(f.stream[i].text, "the learner stops");
    assert_int_equal(f.stream[i].answer_bytes, 0);
    assert_null(f.segment[i].stream);
  }
  assert_false(f.stream[1].finished);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_segment_gets_its_own_rows),
      cmocka_unit_test(actions_may_have_any_size),
      cmocka_unit_test(a_segment_is_answered_once),
      cmocka_unit_test(a_finish_has_a_code_and_a_sentence),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
