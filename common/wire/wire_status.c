/* The answer to Status, through protobuf-c. */
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acorn.pb-c.h"
#include "common/base/check.h"
#include "common/wire/wire.h"

/* Every number of a player: X(member, type here, type on the wire). */
#define PLAYER_NUMBERS(X)                  \
  X(first_environment, uint32_t, uint32_t) \
  X(num_environments, int, uint32_t)       \
  X(late_environments, int, uint32_t)      \
  X(role, enum wire_role, Acorn__Role)     \
  X(steps, uint64_t, uint64_t)             \
  X(steps_per_second, double, double)      \
  X(step_us, double, double)               \
  X(wait_us, double, double)               \
  X(silent_seconds, double, double)

/* ---- out; protobuf-c wants pointers that are not const, but only reads through them */

static void fill_player(Acorn__Player *message, const struct wire_player *player) {
  acorn__player__init(message);
  message->name = (char *)player->name;
  message->state = (char *)player->state;
  message->host = (char *)player->host;
#define FILL(member, here, wire) message->member = (wire)player->member;
  PLAYER_NUMBERS(FILL)
#undef FILL
}

static void fill_status(Acorn__StatusReply *message, const struct wire_status *status) {
  acorn__status_reply__init(message);
#define POINT(member, bytes) message->member = (char *)status->member;
  WIRE_STATUS_TEXTS(POINT)
#undef POINT
#define FILL(member, here, wire) message->member = (wire)status->member;
  WIRE_STATUS_NUMBERS(FILL)
#undef FILL
}

uint8_t *wire_pack_status(const struct wire_status *status, size_t *size) {
  size_t num_players = (size_t)status->num_players;
  Acorn__Player *player = check_alloc(num_players + 1, sizeof(*player));
  Acorn__Player **players = check_alloc(num_players + 1, sizeof(*players));
  for (size_t i = 0; i < num_players; i++) {
    fill_player(&player[i], &status->players[i]);
    players[i] = &player[i];
  }
  Acorn__StatusReply message;
  fill_status(&message, status);
  message.n_player = num_players;
  message.player = players;
  *size = acorn__status_reply__get_packed_size(&message);
  uint8_t *bytes = check_alloc(*size + 1, 1);
  acorn__status_reply__pack(&message, bytes);
  free(players);
  free(player);
  return bytes;
}

/* ---- in */

static bool is_utf8(const char *text) {
  json_t *string = json_string(text); /* which looks */
  json_decref(string);
  return string != NULL;
}

/* It goes to a terminal or into JSON: what neither can take, or could move a cursor, is replaced;
 * all that is not ASCII where the text is no UTF-8, as its end may be cut off. */
static void take_text(char *out, size_t room, const char *text) {
  snprintf(out, room, "%s", text);
  bool whole = is_utf8(out);
  for (unsigned char *c = (unsigned char *)out; *c; c++) {
    bool is_c1 = c[0] == 0xc2 && (c[1] & 0xe0) == 0x80; /* a control character of two bytes */
    if (is_c1) *c++ = '?';
    if (is_c1 || *c < ' ' || *c == 0x7f || (*c >= 0x80 && !whole)) *c = '?';
  }
}

static void take_player(struct wire_player *player, const Acorn__Player *message) {
  take_text(player->name, sizeof(player->name), message->name);
  take_text(player->state, sizeof(player->state), message->state);
  take_text(player->host, sizeof(player->host), message->host);
#define TAKE(member, here, wire) player->member = (here)message->member;
  PLAYER_NUMBERS(TAKE)
#undef TAKE
}

static void take_status(struct wire_status *status, const Acorn__StatusReply *message) {
#define TAKE_TEXT(member, bytes) take_text(status->member, bytes, message->member);
  WIRE_STATUS_TEXTS(TAKE_TEXT)
#undef TAKE_TEXT
#define TAKE(member, here, wire) status->member = (here)message->member;
  WIRE_STATUS_NUMBERS(TAKE)
#undef TAKE
  status->num_players = (int)message->n_player;
  status->players = check_alloc(message->n_player + 1, sizeof(*status->players));
  for (int i = 0; i < status->num_players; i++)
    take_player(&status->players[i], message->player[i]);
}

/* Whether what is counted on the wire without a sign fits here. */
static bool has_counts(const struct wire_status *status) {
  bool all = status->expected_environments >= 0 && status->train_environments >= 0 &&
             status->eval_environments >= 0 && status->late_environments >= 0;
  for (int i = 0; i < status->num_players; i++)
    all &= status->players[i].num_environments >= 0 && status->players[i].late_environments >= 0;
  return all;
}

enum status wire_unpack_status(struct wire_status *status, const uint8_t *data, size_t size,
                               struct error *error) {
  *status = (struct wire_status){0};
  Acorn__StatusReply *message = acorn__status_reply__unpack(NULL, size, data);
  if (!message)
    return status_fail(error, STATUS_INVALID, "these %zu bytes are no StatusReply", size);
  take_status(status, message);
  acorn__status_reply__free_unpacked(message, NULL);
  if (has_counts(status)) return STATUS_OK;
  wire_status_deinit(status);
  return status_fail(error, STATUS_INVALID,
                     "a StatusReply with 2^31 environments or more: its sender is no learner");
}

void wire_status_deinit(struct wire_status *status) {
  free(status->players);
  status->players = NULL;
}
