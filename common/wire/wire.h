/* The messages of proto/acorn.proto as bytes, without gRPC: the hot path's two messages by hand,
 * the rest by protobuf-c.
 *
 * Steps are decoded straight from the received pieces into rows that the caller owns: any field
 * order, unknown fields skipped, any split between pieces, repeated `observation` and `flags`:
 * the last wins; `reward` packed or not.
 * Upstream: actor/link.c, learner/serve/ingress.c. Downstream: rpc/client.h, rpc/server.h.
 * Thread: any (no state).
 * Invariant: no input makes the decoder read or write outside what it was given; protobuf-c is
 * its oracle in tests. */
#ifndef ACORN_COMMON_WIRE_WIRE_H
#define ACORN_COMMON_WIRE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/space.h"
#include "common/base/status.h"
#include "common/base/step.h"

enum {
  WIRE_PROTOCOL = 1,
  WIRE_MAX_EPISODE_NUMBERS = 16,
  WIRE_NUMBER_NAME_BYTES = 64, /* with the terminating zero */
  WIRE_NAME_BYTES = SPACE_NAME_BYTES,
  WIRE_ENVIRONMENT_BYTES = 256 /* of a name with its options, see envs/registry.h */
};

/* A piece of a received message. Borrowed. */
struct wire_span {
  const uint8_t *data;
  size_t bytes;
};

/* Where tensor i of an observation stands, on the wire (unpadded) and in a row (each tensor at a
 * multiple of 16). */
struct wire_tensor {
  size_t bytes;
  size_t wire_offset;
  size_t row_offset;
};

/* How an observation of K environments is laid out. Plain data. */
struct wire_layout {
  int num_environments; /* K */
  int num_tensors;
  struct wire_tensor tensor[SPACE_MAX_TENSORS];
  size_t wire_bytes; /* of one environment's observation in a message */
  size_t row_stride; /* bytes from one row to the next: a multiple of 16 */
};

/* Fills offsets, wire_bytes and row_stride from num_tensors and tensor[].bytes. */
void wire_layout_finish(struct wire_layout *layout);

/* A number that an environment reports of a finished episode. Not checked to be finite. */
struct wire_number {
  char name[WIRE_NUMBER_NAME_BYTES];
  double value;
};

struct wire_episode {
  uint32_t environment; /* 0..K-1 */
  uint32_t length;      /* steps */
  double episode_return;
  int num_numbers;
  struct wire_number number[WIRE_MAX_EPISODE_NUMBERS];
};

/* Whether a number may have this name: 1..63 letters, digits, '_', '-', '.' or '/'. It goes into
 * metrics, tags and the header of a table. */
bool wire_number_name_fits(const char *name);

/* The destination of a decoded Steps message. All arrays belong to the caller and have room for
 * K rows. */
struct wire_rows {
  uint8_t *observation;          /* (K, row_stride); padding is left alone */
  float *reward;                 /* (K) */
  uint8_t *flags;                /* (K) */
  struct wire_episode *episodes; /* room for max_episodes */
  int max_episodes;
  const uint8_t *shared; /* (K, wire_bytes): of a message without observation; NULL: none */
  /* computed by wire_decode_steps */
  int num_episodes;
  uint64_t run_id; /* 0 if not sent */
};

/* Decodes one Steps message. Checks lengths against the layout, flags against those rules of "A
 * step" in docs/protocol.md that a single message can break (unknown bits; terminated without
 * first; truncated with first, unless terminated too, which becomes terminated | first, terminated
 * wins), and episodes' environment numbers. NaN is not its business. `shared` may change meanwhile:
 * it is only copied.
 * Errors: INVALID, with a sentence that names the field and both values; the rows are then
 * garbage. */
MUST_CHECK enum status wire_decode_steps(struct wire_rows *rows, const struct wire_span *spans,
                                         int num_spans, const struct wire_layout *layout,
                                         struct error *error);

/* Reads only `run_id` of a Steps message (0 if it is not sent): the first message of a stream
 * names its lease by it. *alone: nothing else is in it.
 * Errors: INVALID if the bytes are no message at all. */
MUST_CHECK enum status wire_peek_run_id(uint64_t *run_id, bool *alone,
                                        const struct wire_span *spans, int num_spans,
                                        struct error *error);

/* Encodes a Steps message that has nothing but a run id. Returns the bytes written. */
enum { WIRE_RUN_ID_BYTES = 9 };
size_t wire_encode_run_id(uint8_t out[WIRE_RUN_ID_BYTES], uint64_t run_id);

/* Encodes everything of a Steps message up to and including the tag and length of `observation`,
 * whose `observation_bytes` (wire_bytes * K) the caller sends right behind it. run_id 0, episodes 0
 * and observation_bytes 0 (the rows are in shared memory) are left out.
 * Shapes: reward (K), flags (K). Returns the bytes written. Errors: CHECK if room <
 * wire_steps_header_bound(). */
size_t wire_encode_steps_header(uint8_t *out, size_t room, uint64_t run_id, const float *reward,
                                const uint8_t *flags, const struct wire_episode *episodes,
                                int num_episodes, int num_environments, size_t observation_bytes);
size_t wire_steps_header_bound(int num_environments, int num_episodes);

/* Encodes tag and length of an Actions message of `action_bytes` (at most 16 bytes are written);
 * the actions follow it. */
size_t wire_encode_actions_header(uint8_t out[16], size_t action_bytes);

/* Copies the `action` field of an Actions message into `actions`. Errors: INVALID if it is not
 * exactly action_bytes. */
MUST_CHECK enum status wire_decode_actions(void *actions, size_t action_bytes,
                                           const struct wire_span *spans, int num_spans,
                                           struct error *error);

/* ---- the other messages, through protobuf-c */

enum wire_role { WIRE_ROLE_TRAIN = 0, WIRE_ROLE_EVAL = 1 };
enum { WIRE_MAX_ENVIRONMENTS = 65536, WIRE_MAX_PLAYER_NAME = 64 };

struct wire_join_request {
  int protocol;
  char name[WIRE_MAX_PLAYER_NAME];
  char environment[WIRE_ENVIRONMENT_BYTES];
  struct space space;
  int num_environments;
  enum wire_role role;
  bool shared_rows;
};

struct wire_join_reply {
  uint64_t run_id;
  uint32_t first_environment;
  int num_environments;
  uint64_t *environment_seed; /* (num_environments), heap: wire_join_reply_deinit frees it */
  uint64_t episode_seed_stride;
  uint32_t shared_process, shared_file; /* 0: no memory is shared */
};

void wire_layout_of_space(struct wire_layout *layout, const struct space *space,
                          int num_environments);

/* The pieces of a small message as one: malloc'd bytes (*size of them), which the caller frees. */
uint8_t *wire_gather(const struct wire_span *spans, int num_spans, size_t *size);

/* Packing returns malloc'd bytes (*size of them), which the caller frees. Unpacking refuses what
 * does not fit the limits above with INVALID. */
uint8_t *wire_pack_join_request(const struct wire_join_request *request, size_t *size);
MUST_CHECK enum status wire_unpack_join_request(struct wire_join_request *request,
                                                const uint8_t *data, size_t size,
                                                struct error *error);
uint8_t *wire_pack_join_reply(const struct wire_join_reply *reply, size_t *size);
MUST_CHECK enum status wire_unpack_join_reply(struct wire_join_reply *reply, const uint8_t *data,
                                              size_t size, struct error *error);
void wire_join_reply_deinit(struct wire_join_reply *reply);

/* ---- Status; what the members mean is said in proto/acorn.proto */

/* The folder: PATH_MAX. */
enum {
  WIRE_STATE_BYTES = 16,
  WIRE_RUN_FOLDER_BYTES = 4096,
  WIRE_NO_DATA_BYTES = 512,
  WIRE_HOST_BYTES = 80
};

/* The reply's members, once: the struct, the message and the JSON of scripts/status.sh come from
 * these lists. X(member, type here, type on the wire) */
#define WIRE_STATUS_NUMBERS(X)                 \
  X(expected_environments, int, uint32_t)      \
  X(train_environments, int, uint32_t)         \
  X(eval_environments, int, uint32_t)          \
  X(late_environments, int, uint32_t)          \
  X(environment_steps, uint64_t, uint64_t)     \
  X(total_steps, uint64_t, uint64_t)           \
  X(trained_steps, uint64_t, uint64_t)         \
  X(updates, uint64_t, uint64_t)               \
  X(episodes, uint64_t, uint64_t)              \
  X(replay_windows, uint64_t, uint64_t)        \
  X(replay_windows_needed, uint64_t, uint64_t) \
  X(seconds, double, double)                   \
  X(steps_per_second, double, double)          \
  X(trained_steps_per_second, double, double)  \
  X(updates_per_second, double, double)        \
  X(return_mean, double, double)               \
  X(eval_return_mean, double, double)          \
  X(policy_lag_updates, double, double)        \
  X(batch_rows, double, double)                \
  X(batch_wait_us, double, double)             \
  X(fifo_wait, double, double)                 \
  X(trainer_wait, double, double)              \
  X(replay_ratio, double, double)              \
  X(replay_ratio_asked, double, double)
/* X(member, room here) */
#define WIRE_STATUS_TEXTS(X)             \
  X(environment, WIRE_ENVIRONMENT_BYTES) \
  X(agent, WIRE_NAME_BYTES)              \
  X(run_folder, WIRE_RUN_FOLDER_BYTES)   \
  X(state, WIRE_STATE_BYTES)             \
  X(no_data, WIRE_NO_DATA_BYTES)         \
  X(not_learning, WIRE_NO_DATA_BYTES)

struct wire_player {
  char name[WIRE_MAX_PLAYER_NAME];
  uint32_t first_environment;
  int num_environments;
  enum wire_role role;
  uint64_t steps;
  char state[WIRE_STATE_BYTES];
  char host[WIRE_HOST_BYTES];
  double steps_per_second, step_us, wait_us, silent_seconds;
  int late_environments;
};

struct wire_status {
#define MEMBER(member, bytes) char member[bytes];
  WIRE_STATUS_TEXTS(MEMBER)
#undef MEMBER
#define MEMBER(member, here, wire) here member;
  WIRE_STATUS_NUMBERS(MEMBER)
#undef MEMBER
  struct wire_player *players; /* (num_players); borrowed when packed, heap when unpacked */
  int num_players;
};
uint8_t *wire_pack_status(const struct wire_status *status, size_t *size);
/* Text that is too long is cut off, and is UTF-8 without control characters, else ASCII; a newer
 * learner's fields are ignored. Errors: INVALID. */
MUST_CHECK enum status wire_unpack_status(struct wire_status *status, const uint8_t *data,
                                          size_t size, struct error *error);
void wire_status_deinit(struct wire_status *status);

/* ---- GetParameters and SetParameters, by hand: data is neither copied nor joined */

enum { WIRE_PIECE_BYTES = 1 << 18, WIRE_PIECE_HEADER_BYTES = 32 };

struct wire_piece {
  size_t bytes; /* of data */
  uint64_t total_bytes, version;
  bool expects_version;
};

/* All but the data, which its sender adds behind. Returns the bytes written. */
size_t wire_encode_piece_header(uint8_t out[WIRE_PIECE_HEADER_BYTES],
                                const struct wire_piece *piece);
/* Reads a piece, and copies its data to `data`, where there is room for `room` bytes; data NULL:
 * the data is left. Errors: INVALID, also if there is more data than room. */
MUST_CHECK enum status wire_decode_piece(struct wire_piece *piece, uint8_t *data, size_t room,
                                         const struct wire_span *spans, int num_spans,
                                         struct error *error);

#endif
