/* Join, Play, Status and what goes wrong with them, over a transport in memory. */
#include "tests/unit/learner/serve/ingress_fixture.h"

static void a_step_goes_in_and_an_action_comes_back(void **state) {
  struct fixture *f = *state;
  struct wire_join_reply reply = join(f, "actor/0/0");
  assert_int_equal(reply.num_environments, K);
  struct rpc_stream *stream = play(f, reply.run_id, 1.5f);
  struct row_batch *batch = take(f);
  assert_non_null(batch);
  assert_int_equal(batch->num_rows, K);
  assert_int_equal(batch->flags[1], STEP_FIRST);
  float x;
  memcpy(&x, batch->observation + 16 + 12, 4);
  assert_true(x == 1.5f);
  const int32_t action[K] = {1, 0};
  answer(f, batch, action);
  const uint8_t expected[] = {0x0a, 8, 1, 0, 0, 0, 0, 0, 0, 0};
  assert_int_equal(stream->answer_bytes, sizeof(expected));
  assert_memory_equal(stream->answer, expected, sizeof(expected));
  send_steps(stream, 0, none, 2, NULL, 0);
  batch = take(f);
  assert_non_null(batch);
  answer(f, batch, action);
  wire_join_reply_deinit(&reply);
  loopback_free(stream);
  assert_int_equal(leases_count(f->leases).players, 0);
}

/* Actions of two floats; the bounds are part of the space that must be the same. */
static void a_box_of_numbers_comes_back(void **state) {
  struct fixture *f = *state;
  struct wire_join_request request = request_of("actor/0/0");
  join_refused(f, &request, RPC_FAILED_PRECONDITION, "discrete(2)");
  request.space = box_space();
  request.space.high[0] = 3;
  join_refused(f, &request, RPC_FAILED_PRECONDITION, "action 0 is in -0.5..2");
  request.space = box_space();
  struct wire_join_reply reply = join_with(f, &request);
  struct rpc_stream *stream = play(f, reply.run_id, 1.5f);
  const float action[2][K][2] = {{{-0.5f, 1e30f}, {2, -7}}, {{0.25f, 0}, {1.75f, 3}}};
  for (int t = 0; t < 2; t++) {
    if (t) send_steps(stream, 0, none, 2, NULL, 0);
    struct row_batch *batch = take(f);
    assert_non_null(batch);
    answer_bytes(f, batch, action[t], sizeof(action[t][0]));
    float received[K][2];
    struct error error;
    const struct wire_span span = {stream->answer, stream->answer_bytes};
    assert_int_equal(wire_decode_actions(received, sizeof(received), &span, 1, &error), STATUS_OK);
    assert_memory_equal(received, action[t], sizeof(received));
  }
  wire_join_reply_deinit(&reply);
  loopback_free(stream);
}

static void joins_that_do_not_match_are_refused_with_both_values(void **state) {
  struct fixture *f = *state;
  struct wire_join_request request = request_of("actor/0/0");
  request.protocol = 99;
  join_refused(f, &request, RPC_FAILED_PRECONDITION, "99");
  request = request_of("actor/0/0");
  snprintf(request.environment, sizeof(request.environment), "catch");
  join_refused(f, &request, RPC_FAILED_PRECONDITION, "catch");
  request = request_of("actor/0/0");
  request.space = space_of(6);
  join_refused(f, &request, RPC_FAILED_PRECONDITION, "6");
  request = request_of("actor/0/0");
  request.space.discrete = 3;
  join_refused(f, &request, RPC_FAILED_PRECONDITION, "3");
  request = request_of("actor/0/0");
  request.num_environments = TRAIN + 1;
  join_refused(f, &request, RPC_FAILED_PRECONDITION, "8 at most");
  struct wire_join_reply reply = join(f, "actor/1/0");
  request = request_of("actor/2/0");
  request.num_environments = TRAIN - 1;
  join_refused(f, &request, RPC_RESOURCE_EXHAUSTED, "no room");
  wire_join_reply_deinit(&reply);
  struct rpc_stream *stream = loopback_open(f->methods, f->num_methods, "/acorn.Acorn/Join");
  loopback_send(stream, "\xff\xff\xff\xff", 4);
  assert_int_equal(stream->code, RPC_INVALID_ARGUMENT);
  loopback_free(stream);
}

static void ids_are_the_lowest_free_and_come_back(void **state) {
  struct fixture *f = *state;
  struct wire_join_reply a = join(f, "actor/0/0"), b = join(f, "actor/1/0");
  assert_int_equal(a.first_environment, 0);
  assert_int_equal(b.first_environment, K);
  struct rpc_stream *stream = play(f, a.run_id, 0);
  answer_next(f);
  loopback_free(stream);
  struct wire_join_reply c = join(f, "actor/2/0");
  assert_int_equal(c.first_environment, 0);
  assert_true(c.run_id != a.run_id);
  assert_true(c.environment_seed[0] != a.environment_seed[0]); /* another life, another seed */
  wire_join_reply_deinit(&a), wire_join_reply_deinit(&b), wire_join_reply_deinit(&c);
}

static void evaluators_get_ids_behind_the_trainers(void **state) {
  struct wire_join_reply reply = join_as_evaluator(*state);
  assert_int_equal(reply.first_environment, TRAIN);
  wire_join_reply_deinit(&reply);
}

static void a_second_join_supersedes_the_first(void **state) {
  struct fixture *f = *state;
  struct wire_join_reply a = join(f, "actor/0/0");
  struct rpc_stream *old = play(f, a.run_id, 0);
  struct wire_join_reply b = join(f, "actor/0/0");
  assert_true(old->cancelled);
  assert_int_equal(b.first_environment, a.first_environment);
  loopback_close(old);
  struct rpc_stream *new = play(f, b.run_id, 0);
  struct row_batch *batch = take(f);
  assert_int_equal(batch->num_segments, 2);
  assert_true(batch->segment[0].dead);
  assert_false(batch->segment[1].dead);
  assert_true(batch->segment[1].life > batch->segment[0].life);
  answer(f, batch, zeros);
  assert_int_equal(leases_count(f->leases).players, 1);
  loopback_free(old);
  loopback_free(new);
  wire_join_reply_deinit(&a), wire_join_reply_deinit(&b);
}

static void a_run_id_is_good_for_one_stream(void **state) {
  struct fixture *f = *state;
  struct wire_join_reply reply = join(f, "actor/0/0");
  struct rpc_stream *stream = play(f, reply.run_id, 0);
  struct rpc_stream *twin = play(f, reply.run_id, 0);
  assert_true(twin->finished);
  assert_int_equal(twin->code, RPC_UNAVAILABLE);
  struct rpc_stream *stranger = play(f, 12345, 0);
  assert_int_equal(stranger->code, RPC_UNAVAILABLE);
  assert_non_null(strstr(stranger->text, "Join again"));
  loopback_free(twin);
  loopback_free(stranger);
  answer_next(f);
  loopback_free(stream);
  wire_join_reply_deinit(&reply);
}

enum { SECOND_US = 1000000 };

/* Expires leases as if so many seconds had passed. Returns the stream that is to be cancelled. */
static struct rpc_stream *after(struct fixture *f, int64_t seconds) {
  return leases_expire(f->leases, clock_now_us() + seconds * SECOND_US);
}

static void a_lease_without_play_expires(void **state) {
  struct fixture *f = *state;
  struct wire_join_reply reply = join(f, "actor/0/0");
  assert_null(after(f, 29));
  assert_int_equal(leases_count(f->leases).players, 1);
  assert_null(after(f, 31));
  assert_int_equal(leases_count(f->leases).players, 0);
  struct rpc_stream *stream = play_reply(f, reply);
  assert_int_equal(stream->code, RPC_UNAVAILABLE);
  loopback_free(stream);
}

/* A client whose environments take minutes to reset sends the run id first, without rows. */
static void a_stream_holds_its_lease_while_environments_reset(void **state) {
  struct fixture *f = *state;
  struct wire_join_reply reply = join(f, "actor/0/0");
  struct rpc_stream *slow = bind_lease(f, reply.run_id);
  assert_int_equal(slow->replies, 1);
  assert_int_equal(slow->answer_bytes, 0); /* an empty Actions */
  assert_null(after(f, 500));
  assert_int_equal(leases_count(f->leases).players, 1);
  /* Batches do not wait for it, and it is not counted as one that steps. */
  struct rpc_stream *quick = enter(f, "actor/1/0");
  assert_int_equal(batcher_counts(f->batcher).live_rows, K);
  answer_next(f);
  assert_int_equal(quick->replies, 1);
  struct rpc_stream *twin = bind_lease(f, reply.run_id);
  assert_int_equal(twin->code, RPC_UNAVAILABLE);
  loopback_free(twin);
  send_steps(slow, 0, first, 0, NULL, 0);
  answer_next(f);
  assert_int_equal(slow->replies, 2);
  assert_null(after(f, 1000000)); /* an environment may take so long to step */
  assert_int_equal(leases_count(f->leases).players, 2);
  loopback_free(slow);
  loopback_free(quick);
  wire_join_reply_deinit(&reply);
}

/* A client may open a Play and send no rows, for ever; or leave. */
static void a_lease_without_rows_ends(void **state) {
  struct fixture *f = *state;
  struct wire_join_reply a = join(f, "actor/0/0"), b = join(f, "actor/1/0");
  struct rpc_stream *silent = bind_lease(f, a.run_id), *gone = bind_lease(f, b.run_id);
  loopback_free(gone);
  assert_int_equal(leases_count(f->leases).players, 1);
  assert_null(after(f, 599));
  assert_ptr_equal(after(f, 601), silent);
  assert_null(after(f, 601));
  rpc_stream_unref(silent);
  assert_int_equal(leases_count(f->leases).players, 0); /* its ids are free at once */
  struct wire_join_reply c = join(f, "actor/2/0");
  assert_int_equal(c.first_environment, a.first_environment);
  loopback_free(silent);
  assert_int_equal(leases_count(f->leases).players, 1);
  wire_join_reply_deinit(&a), wire_join_reply_deinit(&b), wire_join_reply_deinit(&c);
}

/* Rows cannot be left out twice, and a run that stops ends also those that have sent none. */
static void a_run_id_alone_opens_a_stream_only(void **state) {
  struct fixture *f = *state;
  struct wire_join_reply a = join(f, "actor/0/0"), b = join(f, "actor/1/0");
  uint8_t message[WIRE_RUN_ID_BYTES];
  struct rpc_stream *stream = bind_lease(f, a.run_id);
  loopback_send(stream, message, wire_encode_run_id(message, a.run_id));
  assert_int_equal(stream->code, RPC_INVALID_ARGUMENT);
  assert_non_null(strstr(stream->text, "Steps.reward has 0 rows"));
  loopback_free(stream);
  struct rpc_stream *stranger = bind_lease(f, 12345);
  assert_int_equal(stranger->code, RPC_UNAVAILABLE);
  loopback_free(stranger);
  ingress_stop(f->ingress, RPC_OK, "training done");
  struct rpc_stream *late = bind_lease(f, b.run_id);
  assert_true(late->finished);
  assert_string_equal(late->text, "training done");
  loopback_free(late);
  wire_join_reply_deinit(&a), wire_join_reply_deinit(&b);
}

static void a_bad_message_ends_its_own_stream_only(void **state) {
  struct fixture *f = *state;
  struct wire_join_reply a = join(f, "actor/0/0"), b = join(f, "actor/1/0");
  struct rpc_stream *good = play(f, a.run_id, 1), *bad = play(f, b.run_id, NAN);
  assert_int_equal(bad->code, RPC_INVALID_ARGUMENT);
  assert_non_null(strstr(bad->text, "observation 'state'"));
  loopback_free(bad);
  struct row_batch *batch = take(f);
  const int32_t action[2 * K] = {1, 1, 0, 0};
  answer(f, batch, action);
  assert_int_equal(good->replies, 1);
  /* and a message that breaks the rules of a step */
  send_steps(good, 0, first, 0, NULL, 0);
  assert_int_equal(good->code, RPC_INVALID_ARGUMENT);
  loopback_free(good);
  wire_join_reply_deinit(&a), wire_join_reply_deinit(&b);
}

/* Actors that die with their rows queued leave them in the batch. When it is full of them, a new
 * message is told to come back, and everything is well again once the batch has run. */
static void a_batch_full_of_dead_rows_is_unavailable(void **state) {
  struct fixture *f = *state;
  enum { FULL = 2 * (TRAIN + EVAL) / K };
  struct rpc_stream *dead[FULL];
  for (int i = 0; i < FULL; i++) {
    dead[i] = enter(f, "actor/0/0");
    assert_true(dead[i]->in_hand);
    loopback_close(dead[i]);
  }
  struct rpc_stream *turned_away = enter(f, "actor/0/0");
  assert_true(turned_away->finished);
  assert_int_equal(turned_away->code, RPC_UNAVAILABLE);
  assert_non_null(strstr(turned_away->text, "dead actors' rows"));
  loopback_free(turned_away);

  struct row_batch *batch = take(f);
  assert_int_equal(batch->num_segments, FULL);
  for (int i = 0; i < FULL; i++) assert_true(batch->segment[i].dead);
  answer(f, batch, zeros);
  for (int i = 0; i < FULL; i++) loopback_free(dead[i]);
  struct rpc_stream *welcome = enter(f, "actor/0/0");
  answer_next(f);
  assert_int_equal(welcome->replies, 1);
  loopback_free(welcome);
}

static void refusals_are_counted_by_their_kind(void **state) {
  struct fixture *f = *state;
  struct wire_join_request request = request_of("actor/0/0");
  request.protocol = 99;
  join_refused(f, &request, RPC_FAILED_PRECONDITION, "99");
  struct wire_join_reply a = join(f, "actor/0/0");
  loopback_free(play(f, 12345, 0));
  loopback_free(play(f, a.run_id, NAN));
  struct rpc_stream *stream = enter(f, "actor/1/0");
  answer_next(f); /* the refused message's rows are in the batch, dead */
  send_steps(stream, 0, first, 0, NULL, 0);
  loopback_free(stream);
  for (int kind = 0; kind < REFUSAL_KINDS; kind++)
    assert_int_equal(ingress_refused(f->ingress, (enum refusal)kind), 1);
  wire_join_reply_deinit(&a);
}

/* Who leaves a run is missed; who leaves one that stops is not. */
static void who_leaves_before_the_stop_is_missed(void **state) {
  struct fixture *f = *state;
  struct rpc_stream *early = enter(f, "actor/0/0"), *late = enter(f, "actor/1/0");
  answer_next(f);
  loopback_free(early);
  assert_int_equal(leases_count(f->leases).absent, 1);
  ingress_stop(f->ingress, RPC_OK, "done");
  loopback_free(late);
  assert_int_equal(leases_count(f->leases).absent, 1);
}

static void after_stop_everyone_is_sent_home(void **state) {
  struct fixture *f = *state;
  struct rpc_stream *stream = enter(f, "actor/0/0");
  ingress_stop(f->ingress, RPC_OK, "training done");
  struct row_batch *rest = batcher_take_rest(f->batcher);
  ingress_end_batch(f->ingress, rest);
  batcher_recycle(f->batcher, rest);
  assert_true(stream->finished);
  assert_int_equal(stream->code, RPC_OK);
  struct wire_join_request request = request_of("actor/9/0");
  struct rpc_stream *late = send_join(f, &request);
  assert_int_equal(late->code, RPC_OK);
  assert_string_equal(late->text, "training done");
  loopback_free(late);
  loopback_free(stream);
}

static struct wire_status ask_status(struct fixture *f) {
  struct rpc_stream *stream = loopback_open(f->methods, f->num_methods, "/acorn.Acorn/Status");
  loopback_send(stream, "", 0);
  assert_int_equal(stream->code, RPC_OK);
  struct wire_status status;
  struct error error;
  assert_int_equal(wire_unpack_status(&status, stream->answer, stream->answer_bytes, &error),
                   STATUS_OK);
  loopback_free(stream);
  return status;
}

/* As the run counts them; a lease whose rows are all absent has sent rows. */
static void rows_that_need_an_action_are_steps(void **state) {
  struct fixture *f = *state;
  static const struct {
    uint8_t flags[K];
    uint64_t steps;
  } rows[] = {{{STEP_ABSENT, STEP_ABSENT}, 0},
              {{STEP_FIRST, STEP_ABSENT}, 1},
              {{STEP_TRUNCATED, STEP_FIRST}, 2},
              {{STEP_FIRST, STEP_FIRST | STEP_TERMINATED}, 4}};
  struct wire_join_reply reply = join(f, "actor/0/0");
  struct rpc_stream *stream = bind_lease(f, reply.run_id);
  for (size_t t = 0; t < sizeof(rows) / sizeof(rows[0]); t++) {
    send_steps(stream, 0, rows[t].flags, 0, NULL, 0);
    struct wire_status status = ask_status(f);
    assert_int_equal(status.players[0].steps, rows[t].steps);
    wire_status_deinit(&status);
    assert_null(after(f, 1000));
    answer_next(f);
  }
  loopback_free(stream);
  wire_join_reply_deinit(&reply);
}

static void status_shows_the_run_and_its_players(void **state) {
  struct fixture *f = *state;
  struct rpc_stream *stream = enter(f, "actor/0/0");
  struct wire_join_reply joined = join(f, "actor/1/0"), bound = join(f, "actor/2/0");
  struct rpc_stream *resets = bind_lease(f, bound.run_id);
  struct wire_status status = ask_status(f);
  assert_string_equal(status.environment, "cartpole");
  assert_string_equal(status.state, "training");
  assert_int_equal(status.train_environments, 3 * K);
  assert_int_equal(status.eval_environments, 0);
  assert_int_equal(status.num_players, 3);
  assert_string_equal(status.players[0].name, "actor/0/0");
  assert_string_equal(status.players[0].state, "queued");
  assert_int_equal(status.players[0].steps, K);
  assert_string_equal(status.players[1].state, "joined");
  assert_string_equal(status.players[2].state, "joined"); /* its environments reset */
  wire_status_deinit(&status);
  ingress_stop(f->ingress, RPC_OK, "training done");
  status = ask_status(f);
  assert_string_equal(status.state, "stopping");
  wire_status_deinit(&status);
  answer_next(f);
  loopback_free(stream);
  loopback_free(resets);
  wire_join_reply_deinit(&joined), wire_join_reply_deinit(&bound);
}

static void health_answers(void **state) {
  struct fixture *f = *state;
  struct rpc_stream *stream =
      loopback_open(f->methods, f->num_methods, "/grpc.health.v1.Health/Check");
  loopback_send(stream, "", 0);
  assert_memory_equal(stream->answer, "\x08\x01", 2);
  loopback_free(stream);
}

int main(void) {
  log_init("test", LOG_ERROR);
  const struct CMUnitTest tests[] = {
      WITH(create, a_step_goes_in_and_an_action_comes_back),
      WITH(create_box, a_box_of_numbers_comes_back),
      WITH(create, joins_that_do_not_match_are_refused_with_both_values),
      WITH(create, ids_are_the_lowest_free_and_come_back),
      WITH(create, evaluators_get_ids_behind_the_trainers),
      WITH(create, a_second_join_supersedes_the_first),
      WITH(create, a_run_id_is_good_for_one_stream),
      WITH(create, a_lease_without_play_expires),
      WITH(create, a_stream_holds_its_lease_while_environments_reset),
      WITH(create, a_lease_without_rows_ends),
      WITH(create, a_run_id_alone_opens_a_stream_only),
      WITH(create, a_bad_message_ends_its_own_stream_only),
      WITH(create, a_batch_full_of_dead_rows_is_unavailable),
      WITH(create, refusals_are_counted_by_their_kind),
      WITH(create, who_leaves_before_the_stop_is_missed),
      WITH(create, after_stop_everyone_is_sent_home),
      WITH(create, rows_that_need_an_action_are_steps),
      WITH(create, status_shows_the_run_and_its_players),
      WITH(create, health_answers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
