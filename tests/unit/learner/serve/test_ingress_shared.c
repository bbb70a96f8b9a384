/* Observations in memory that the learner shares with an actor: whole messages, over a transport in
 * memory. */
#include "tests/unit/learner/serve/ingress_fixture.h"

#include <unistd.h>

#include "common/base/shared_rows.h"

/* How many of this process's mappings are such memory. */
static int count_mappings(void) {
  char line[512];
  int count = 0;
  FILE *maps = fopen("/proc/self/maps", "r");
  assert_non_null(maps);
  while (fgets(line, sizeof(line), maps)) count += strstr(line, "/memfd:acorn-rows-") != NULL;
  fclose(maps);
  return count;
}

static void open_shared(struct shared_rows *rows, const struct wire_join_reply *reply) {
  struct error error;
  assert_int_equal(reply->shared_process, getpid());
  assert_int_equal(shared_rows_open(rows, reply->shared_process, reply->shared_file, K * 16,
                                    reply->run_id, &error),
                   STATUS_OK);
}

static struct wire_join_reply join_sharing(struct fixture *f, struct shared_rows *rows) {
  struct wire_join_request request = request_of("actor/0/0");
  request.shared_rows = true;
  struct wire_join_reply reply = join_with(f, &request);
  open_shared(rows, &reply);
  return reply;
}

/* Rows whose observation is in the memory of the lease. */
static void send_shared(struct rpc_stream *stream, uint64_t run_id, const uint8_t flags[K]) {
  uint8_t message[256];
  const float reward[K] = {0, 0};
  size_t n =
      wire_encode_steps_header(message, sizeof(message), run_id, reward, flags, NULL, 0, K, 0);
  loopback_send(stream, message, n);
}

static void fill(struct shared_rows *rows, float value) {
  for (size_t i = 0; i < rows->bytes / 4; i++) memcpy(rows->data + 4 * i, &value, 4);
}

static void shared_rows_go_into_the_batch(void **state) {
  struct fixture *f = *state;
  struct shared_rows rows;
  struct wire_join_reply reply = join_sharing(f, &rows);
  struct rpc_stream *stream = loopback_open(f->methods, f->num_methods, "/acorn.Acorn/Play");
  fill(&rows, 4.5f);
  send_shared(stream, reply.run_id, first);
  /* What is written after the message is not seen. */
  fill(&rows, 6);
  struct row_batch *batch = take(f);
  const float *row = (const float *)batch->observation;
  assert_true(row[0] == 4.5f && row[7] == 4.5f);
  const int32_t action[K] = {1, 0};
  answer(f, batch, action);
  loopback_free(stream);
  shared_rows_deinit(&rows);
  wire_join_reply_deinit(&reply);
}

/* The descriptor ends with the first message, the memory with the lease. */
static void shared_memory_ends_with_its_lease(void **state) {
  struct fixture *f = *state;
  struct shared_rows rows, again;
  struct error error;
  struct wire_join_reply reply = join_sharing(f, &rows);
  struct rpc_stream *stream = bind_lease(f, reply.run_id);
  assert_int_equal(shared_rows_open(&again, reply.shared_process, reply.shared_file, K * 16,
                                    reply.run_id, &error),
                   STATUS_NOT_FOUND);
  loopback_free(stream);
  shared_rows_deinit(&rows);
  wire_join_reply_deinit(&reply);
  assert_int_equal(count_mappings(), 0);

  /* One that never plays, and is superseded. */
  reply = join_sharing(f, &rows);
  struct wire_join_reply next = join(f, "actor/0/0");
  assert_int_equal(next.shared_process, 0);
  shared_rows_deinit(&rows);
  assert_int_equal(count_mappings(), 0);
  wire_join_reply_deinit(&reply);
  wire_join_reply_deinit(&next);
}

/* The copy is checked, and without memory there are no rows. */
static void shared_rows_are_checked(void **state) {
  struct fixture *f = *state;
  struct shared_rows rows;
  struct wire_join_reply reply = join_sharing(f, &rows);
  struct rpc_stream *stream = loopback_open(f->methods, f->num_methods, "/acorn.Acorn/Play");
  fill(&rows, NAN);
  send_shared(stream, reply.run_id, first);
  assert_int_equal(stream->code, RPC_INVALID_ARGUMENT);
  assert_non_null(strstr(stream->text, "observation 'state' is nan"));
  loopback_free(stream);
  shared_rows_deinit(&rows);
  wire_join_reply_deinit(&reply);

  reply = join(f, "actor/0/0");
  stream = loopback_open(f->methods, f->num_methods, "/acorn.Acorn/Play");
  send_shared(stream, reply.run_id, first);
  assert_int_equal(stream->code, RPC_INVALID_ARGUMENT);
  assert_non_null(strstr(stream->text, "Steps.observation has 0 bytes"));
  loopback_free(stream);
  wire_join_reply_deinit(&reply);
}

int main(void) {
  log_init("test", LOG_ERROR);
  const struct CMUnitTest tests[] = {
      WITH(create, shared_rows_go_into_the_batch),
      WITH(create, shared_memory_ends_with_its_lease),
      WITH(create, shared_rows_are_checked),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
