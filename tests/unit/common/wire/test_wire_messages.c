/* Layouts, Actions, spaces and the messages that go through protobuf-c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "acorn.pb-c.h"
#include "common/wire/wire.h"

/* ---- layout */

static void tensors_start_at_multiples_of_16(void **state) {
  (void)state;
  struct space space = {.num_tensors = 3,
                        .tensor = {{"screen", DTYPE_UINT8, 2, {5, 5}},
                                   {"speed", DTYPE_FLOAT32, 1, {4}},
                                   {"lives", DTYPE_INT32, 0, {0}}},
                        .box = 6};
  struct wire_layout layout;
  wire_layout_of_space(&layout, &space, 7);
  assert_int_equal(layout.num_environments, 7);
  static const size_t bytes[] = {25, 16, 4}, wire[] = {0, 25, 41}, row[] = {0, 32, 48};
  for (int i = 0; i < 3; i++) {
    assert_int_equal(layout.tensor[i].bytes, bytes[i]);
    assert_int_equal(layout.tensor[i].wire_offset, wire[i]);
    assert_int_equal(layout.tensor[i].row_offset, row[i]);
  }
  assert_int_equal(layout.wire_bytes, 45);
  assert_int_equal(layout.row_stride, 64);
  assert_int_equal(space_action_bytes(&space), 24);
  space.discrete = 18;
  assert_int_equal(space_action_bytes(&space), 4);
}

/* ---- Actions */

static void actions_cross_in_any_pieces(void **state) {
  (void)state;
  uint8_t message[16 + 300], decoded[300];
  for (size_t bytes = 0; bytes <= 300; bytes += 50) {
    size_t header = wire_encode_actions_header(message, bytes);
    for (size_t i = 0; i < bytes; i++) message[header + i] = (uint8_t)i;
    for (size_t cut = 0; cut <= header + bytes; cut++) {
      struct wire_span spans[2] = {{message, cut}, {message + cut, header + bytes - cut}};
      memset(decoded, 0xff, sizeof(decoded));
      assert_int_equal(wire_decode_actions(decoded, bytes, spans, 2, NULL), STATUS_OK);
      assert_memory_equal(decoded, message + header, bytes);
    }
    Acorn__Actions *oracle = acorn__actions__unpack(NULL, header + bytes, message);
    assert_non_null(oracle);
    assert_int_equal(oracle->action.len, bytes);
    acorn__actions__free_unpacked(oracle, NULL);
  }
}

static void bad_actions_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *bytes;
    size_t size;
    const char *fault; /* NULL: accepted */
  } cases[] = {
      {"\x0a\x04"
       "abcd",
       6, NULL},
      {"\x0a\x01x\x12\x01y\x0a\x04"
       "abcd",
       12, NULL},
      {"", 0, "has 0 bytes, expected 4"},
      {"\x0a\x03"
       "abc",
       5, "has 3 bytes, expected 4"},
      {"\x0a\x05"
       "abcde",
       7, "has 5 bytes, expected 4"},
      {"\x0a\x04"
       "abc",
       5, "claims 4 bytes"},
      {"\x0d"
       "abcd",
       5, "wire type 5"},
      {"\x0b\x0c", 2, "wire type 3"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    struct wire_span span = {(const uint8_t *)cases[i].bytes, cases[i].size};
    struct error error = {{0}};
    char actions[4];
    enum status status = wire_decode_actions(actions, 4, &span, 1, &error);
    assert_int_equal(status, cases[i].fault ? STATUS_INVALID : STATUS_OK);
    if (!cases[i].fault) assert_memory_equal(actions, "abcd", 4);
    if (cases[i].fault && !strstr(error.text, cases[i].fault))
      fail_msg("case %zu: \"%s\"", i, error.text);
  }
}

/* ---- JoinRequest */

static struct wire_join_request sample(void) {
  struct wire_join_request request = {.protocol = 1,
                                      .name = "actor/0/1",
                                      .environment =
                                          "ALE/Pong-v5(frame_skip=4,repeat_action_probability=0.25,"
                                          "full_action_space=1,max_episode_steps=27000)",
                                      .space = {.num_tensors = 2,
                                                .tensor = {{"screen", DTYPE_UINT8, 3, {4, 84, 84}},
                                                           {"state", DTYPE_FLOAT32, 1, {4}}},
                                                .box = 2,
                                                .low = {-1, -INFINITY},
                                                .high = {1, INFINITY}},
                                      .num_environments = 16,
                                      .role = WIRE_ROLE_EVAL,
                                      .shared_rows = true};
  return request;
}

static void a_join_request_crosses(void **state) {
  (void)state;
  struct wire_join_request request = sample(), received;
  size_t size;
  uint8_t *bytes = wire_pack_join_request(&request, &size);
  assert_int_equal(wire_unpack_join_request(&received, bytes, size, NULL), STATUS_OK);
  free(bytes);
  assert_int_equal(received.protocol, 1);
  assert_string_equal(received.name, request.name);
  assert_string_equal(received.environment, request.environment);
  assert_int_equal(received.num_environments, 16);
  assert_int_equal(received.role, WIRE_ROLE_EVAL);
  assert_true(received.shared_rows);
  assert_int_equal(space_compare(&request.space, "here", &received.space, "there", NULL),
                   STATUS_OK);
}

/* Each breaks one thing of a message that is right. */
static void break_name(Acorn__JoinRequest *m) {
  m->name[0] = 0;
}
static void break_name_long(Acorn__JoinRequest *m) {
  static char longer[65];
  memset(longer, 'x', 64);
  m->name = longer;
}
static void break_name_control(Acorn__JoinRequest *m) {
  m->name[2] = '\n';
}
static void break_environment_long(Acorn__JoinRequest *m) {
  static char longer[257];
  memset(longer, 'x', 256);
  m->environment = longer;
}
static void break_environment(Acorn__JoinRequest *m) {
  m->environment[0] = (char)0xc3;
}
static void break_no_tensor(Acorn__JoinRequest *m) {
  m->n_observation = 0;
}
static void break_dtype(Acorn__JoinRequest *m) {
  m->observation[1]->dtype = (Acorn__DType)4;
}
static void break_dtype_none(Acorn__JoinRequest *m) {
  m->observation[0]->dtype = (Acorn__DType)0;
}
static void break_shape_zero(Acorn__JoinRequest *m) {
  m->observation[0]->shape[1] = 0;
}
static void break_shape_huge(Acorn__JoinRequest *m) {
  m->observation[0]->shape[0] = 0xffffffffu;
}
static void break_product(Acorn__JoinRequest *m) {
  m->observation[0]->shape[0] = 9511;
} /* 84 * 84 * 9511 > 2^26 */
static void break_sum(Acorn__JoinRequest *m) {
  m->observation[0]->shape[0] = 9510; /* fits alone, by 4 KB; the other one then has 64 KB */
  m->observation[1]->shape[0] = 16384;
}
static void break_twins(Acorn__JoinRequest *m) {
  m->observation[1]->name = m->observation[0]->name;
}
static void break_no_action(Acorn__JoinRequest *m) {
  m->action = NULL;
}
static void break_both(Acorn__JoinRequest *m) {
  m->action->discrete = 3;
}
static void break_neither(Acorn__JoinRequest *m) {
  m->action->n_low = m->action->n_high = 0;
}
static void break_bounds(Acorn__JoinRequest *m) {
  m->action->n_low = 1;
}
static void break_empty_box(Acorn__JoinRequest *m) {
  m->action->low[0] = 2;
}
static void break_nan(Acorn__JoinRequest *m) {
  m->action->high[1] = NAN;
}
static void break_infinite(Acorn__JoinRequest *m) {
  m->action->low[1] = INFINITY;
}
static void break_discrete(Acorn__JoinRequest *m) {
  m->action->n_low = m->action->n_high = 0;
  m->action->discrete = 65537;
}
static void set_choices(Acorn__JoinRequest *m, const uint32_t *among, size_t count) {
  m->action->n_low = m->action->n_high = 0;
  m->action->n_choices = count;
  m->action->choices = (uint32_t *)among; /* only read; the message is given back as it was */
}
static void break_choices_and_discrete(Acorn__JoinRequest *m) {
  static const uint32_t among[] = {3};
  set_choices(m, among, 1);
  m->action->discrete = 3;
}
static void break_choices_and_box(Acorn__JoinRequest *m) {
  static const uint32_t among[] = {3, 2};
  m->action->n_choices = 2;
  m->action->choices = (uint32_t *)among;
}
static void break_empty_choice(Acorn__JoinRequest *m) {
  static const uint32_t among[] = {3, 0, 2};
  set_choices(m, among, 3);
}
static void break_only_empty_choice(Acorn__JoinRequest *m) {
  static const uint32_t among[] = {0};
  set_choices(m, among, 1);
}
static void break_many_choices(Acorn__JoinRequest *m) {
  static const uint32_t among[65] = {2, 2};
  set_choices(m, among, 65);
}
static void break_huge_choices(Acorn__JoinRequest *m) {
  static const uint32_t among[] = {0xffffffffu, 0xffffffffu};
  set_choices(m, among, 2);
}
static void break_no_k(Acorn__JoinRequest *m) {
  m->num_environments = 0;
}
static void break_k(Acorn__JoinRequest *m) {
  m->num_environments = 65537;
}
static void break_role(Acorn__JoinRequest *m) {
  m->role = (Acorn__Role)2;
}
static void break_protocol(Acorn__JoinRequest *m) {
  m->protocol = 0x80000000u;
}

static const struct {
  void (*apply)(Acorn__JoinRequest *message);
  const char *fault;
} breaks[] = {
    {break_name, "JoinRequest.name is empty"},
    {break_name_long, "JoinRequest.name has 64 bytes, at most 63"},
    {break_name_control, "the character 10"},
    {break_environment_long, "JoinRequest.environment has 256 bytes, at most 255"},
    {break_environment, "JoinRequest.environment has the character 195"},
    {break_no_tensor, "0 observation tensors, there may be 1..8"},
    {break_dtype, "has a dtype that is none of"},
    {break_dtype_none, "has a dtype that is none of"},
    {break_shape_zero, "tensor 0 has a shape with a number below 1"},
    {break_shape_huge, "tensor 0 has more than 64 MiB"},
    {break_product, "tensor 0 has more than 64 MiB"},
    {break_sum, "an observation has more than 64 MiB"},
    {break_twins, "tensor 1 has the name of an earlier one"},
    {break_no_action, "action space is missing"},
    {break_both, "exactly one must be above 0"},
    {break_neither, "discrete 0 and box 0 actions"},
    {break_bounds, "1 low and 2 high"},
    {break_empty_box, "action 0 of the box is in 2..1"},
    {break_nan, "action 1 of the box is in"},
    {break_infinite, "action 1 of the box is in inf..inf"},
    {break_discrete, "discrete at most 65536"},
    {break_choices_and_discrete, "discrete actions and choices; only one of"},
    {break_choices_and_box, "choices and a box; only one of"},
    {break_empty_choice, "choice 1 of the action is among 0"},
    {break_only_empty_choice, "choice 0 of the action is among 0"},
    {break_many_choices, "an action of 65 choices; there may be 1..64"},
    {break_huge_choices, "choice 0 of the action is among 2147483647"},
    {break_no_k, "num_environments is 0"},
    {break_k, "num_environments is 65537"},
    {break_role, "role is 2"},
    {break_protocol, "protocol is 2147483648"},
};

/* Damages the sample through the unpacked message, whose parts are the allocator's and must go
 * back to it unchanged. */
static enum status unpack_broken(int i, struct error *error) {
  struct wire_join_request request = sample(), received;
  size_t size;
  uint8_t *bytes = wire_pack_join_request(&request, &size);
  Acorn__JoinRequest *message = acorn__join_request__unpack(NULL, size, bytes), kept = *message;
  Acorn__Tensor second = *message->observation[1];
  breaks[i].apply(message);
  free(bytes);
  size = acorn__join_request__get_packed_size(message);
  bytes = malloc(size);
  acorn__join_request__pack(message, bytes);
  message->observation[1]->name = second.name;
  message->name = kept.name;
  message->environment = kept.environment;
  message->action = kept.action;
  message->action->n_choices = 0;
  message->action->choices = NULL;
  message->n_observation = kept.n_observation;
  acorn__join_request__free_unpacked(message, NULL);
  enum status status = wire_unpack_join_request(&received, bytes, size, error);
  free(bytes);
  return status;
}

static void a_join_request_that_does_not_fit_is_refused(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof(breaks) / sizeof(breaks[0]); i++) {
    struct error error = {{0}};
    enum status status = unpack_broken((int)i, &error);
    if (status != STATUS_INVALID || !strstr(error.text, breaks[i].fault))
      fail_msg("expected \"%s\", got %d \"%s\"", breaks[i].fault, status, error.text);
  }
  struct wire_join_request received;
  static uint8_t zeros[65537];
  struct error error;
  assert_int_equal(wire_unpack_join_request(&received, zeros, sizeof(zeros), &error),
                   STATUS_INVALID);
  assert_non_null(strstr(error.text, "at most 65536"));
  assert_int_equal(wire_unpack_join_request(&received, zeros, 3, &error), STATUS_INVALID);
  assert_non_null(strstr(error.text, "no JoinRequest"));
}

static void an_observation_of_64_mib_is_the_largest(void **state) {
  (void)state;
  struct wire_join_request request = sample(), received;
  request.space.num_tensors = 1;
  request.space.tensor[0] = (struct space_tensor){"volume", DTYPE_FLOAT32, 3, {16, 1024, 1024}};
  for (int extra = 0; extra < 2; extra++) {
    request.space.tensor[0].shape[0] += extra;
    size_t size;
    uint8_t *bytes = wire_pack_join_request(&request, &size);
    enum status status = wire_unpack_join_request(&received, bytes, size, NULL);
    free(bytes);
    assert_int_equal(status, extra ? STATUS_INVALID : STATUS_OK);
  }
}

static void damaged_join_requests_never_crash(void **state) {
  (void)state;
  struct wire_join_request request = sample(), received;
  size_t size;
  uint8_t *bytes = wire_pack_join_request(&request, &size);
  int refused = 0;
  for (size_t i = 0; i < size; i++)
    for (int bit = 0; bit < 8; bit++) {
      bytes[i] ^= (uint8_t)(1u << bit);
      refused += wire_unpack_join_request(&received, bytes, size, NULL) != STATUS_OK;
      bytes[i] ^= (uint8_t)(1u << bit);
    }
  assert_in_range(refused, size, size * 8 - 1);
  for (size_t cut = 0; cut < size; cut++)
    refused += wire_unpack_join_request(&received, bytes, cut, NULL) != STATUS_OK;
  free(bytes);
}

/* ---- spaces */

/* choices(3,a,b) instead of its box. */
static struct space with_choices(struct space space, int a, int b) {
  space.box = 0;
  space.discrete = 9;
  space.choices = (struct space_choices){.count = 3, .among = {3, a, b}};
  return space;
}

/* One alone is a plain discrete action. */
static void choices_cross(void **state) {
  (void)state;
  struct wire_join_request request = sample(), received;
  struct error error = {{0}};
  for (int i = 0; i < 2; i++) {
    request.space = with_choices(request.space, 2, 4);
    if (i) request.space.choices = (struct space_choices){.count = 1, .among = {9}};
    size_t size;
    uint8_t *bytes = wire_pack_join_request(&request, &size);
    assert_int_equal(wire_unpack_join_request(&received, bytes, size, &error), STATUS_OK);
    assert_int_equal(received.space.discrete, 9);
    assert_int_equal(received.space.choices.count, i ? 0 : 3);
    if (i) request.space.choices.count = 0;
    assert_int_equal(space_compare(&request.space, "sent", &received.space, "received", &error),
                     STATUS_OK);
    free(bytes);
  }
}

static void spaces_differ_in_words(void **state) {
  (void)state;
  struct space base = sample().space;
  for (int i = 0; i < 9; i++) {
    struct space other = base;
    static const char *const sentences[] = {
        "an observation has 2 tensors here, 1 there",
        "observation 1 is named 'state' here, 'speed' there",
        "observation 'state' is float32[4] here, float32[6] there",
        "observation 'screen' is uint8[4,84,84] here, int32[4,84,84] there",
        "observation 'screen' is uint8[4,84,84] here, uint8[4,84] there",
        "the action is box(2) here, discrete(4) there",
        "action 0 is in -1..1 here, -1..3 there",
        "the action is box(2) here, choices(3,2,4) there",
        "the action is choices(3,2,4) here, choices(3,4,2) there",
    };
    if (i == 0) other.num_tensors = 1;
    if (i == 1) strcpy(other.tensor[1].name, "speed");
    if (i == 2) other.tensor[1].shape[0] = 6;
    if (i == 3) other.tensor[0].dtype = DTYPE_INT32;
    if (i == 4) other.tensor[0].rank = 2;
    if (i == 5) other.discrete = 4, other.box = 0;
    if (i == 6) other.high[0] = 3;
    if (i == 7) other = with_choices(base, 2, 4);
    if (i == 8) other = with_choices(base, 4, 2);
    struct space ours = i == 8 ? with_choices(base, 2, 4) : base;
    struct error error = {{0}};
    assert_int_equal(space_compare(&ours, "here", &other, "there", &error), STATUS_MISMATCH);
    assert_string_equal(error.text, sentences[i]);
  }
}

/* ---- JoinReply, StatusReply */

static void a_join_reply_crosses(void **state) {
  (void)state;
  uint64_t seeds[3] = {1, UINT64_MAX, 1ull << 40};
  struct wire_join_reply reply = {0x123456789abcdefull, 48, 3, seeds, 1ull << 33, 1u << 22, 31},
                         received;
  size_t size;
  uint8_t *bytes = wire_pack_join_reply(&reply, &size);
  assert_int_equal(wire_unpack_join_reply(&received, bytes, size, NULL), STATUS_OK);
  assert_true(received.run_id == reply.run_id &&
              received.episode_seed_stride == reply.episode_seed_stride);
  assert_true(received.shared_process == 1u << 22 && received.shared_file == 31);
  assert_int_equal(received.first_environment, 48);
  assert_int_equal(received.num_environments, 3);
  assert_memory_equal(received.environment_seed, seeds, sizeof(seeds));
  wire_join_reply_deinit(&received);
  assert_int_equal(wire_unpack_join_reply(&received, bytes, size - 1, NULL), STATUS_INVALID);
  wire_join_reply_deinit(&received);
  free(bytes);
  struct error error;
  assert_int_equal(wire_unpack_join_reply(&received, NULL, 0, &error), STATUS_INVALID);
  assert_non_null(strstr(error.text, "number of seeds in JoinReply is 0"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tensors_start_at_multiples_of_16),
      cmocka_unit_test(actions_cross_in_any_pieces),
      cmocka_unit_test(bad_actions_are_refused),
      cmocka_unit_test(a_join_request_crosses),
      cmocka_unit_test(a_join_request_that_does_not_fit_is_refused),
      cmocka_unit_test(an_observation_of_64_mib_is_the_largest),
      cmocka_unit_test(damaged_join_requests_never_crash),
      cmocka_unit_test(choices_cross),
      cmocka_unit_test(spaces_differ_in_words),
      cmocka_unit_test(a_join_reply_crosses),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
