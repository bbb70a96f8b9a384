/* The answer to Status, through protobuf-c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acorn.pb-c.h"
#include "common/base/check.h"
#include "common/rpc/wire.h"

/* Every number of the reply itself: X(member, type here, type on the wire). */
#define NUMBERS(X)                            \
  X(environment_steps, uint64_t, uint64_t)    \
  X(total_steps, uint64_t, uint64_t)          \
  X(trained_steps, uint64_t, uint64_t)        \
  X(updates, uint64_t, uint64_t)              \
  X(episodes, uint64_t, uint64_t)             \
  X(seconds, double, double)                  \
  X(steps_per_second, double, double)         \
  X(trained_steps_per_second, double, double) \
  X(updates_per_second, double, double)       \
  X(return_mean, double, double)              \
  X(eval_return_mean, double, double)         \
  X(policy_lag_updates, double, double)       \
  X(batch_rows, double, double)               \
  X(batch_wait_us, double, double)            \
  X(fifo_wait, double, double)                \
  X(trainer_wait, double, double)             \
  X(expected_environments, int, uint32_t)     \
  X(train_environments, int, uint32_t)        \
  X(eval_environments, int, uint32_t)         \
  X(late_environments, int, uint32_t)

/* And of a player. */
#define PLAYER_NUMBERS(X)                  \
  X(first_environment, uint32_t, uint32_t) \
  X(num_environments, int, uint32_t)       \
  X(role, enum wire_role, Acorn__Role)     \
  X(steps, uint64_t, uint64_t)             \
  X(steps_per_second, double, double)      \
  X(step_us, double, double)               \
  X(wait_us, double, double)               \
  X(late_environments, int, uint32_t)      \
  X(silent_seconds, double, double)

/* ---- out; protobuf-c wants pointers that are not const, but only reads through them */

static void fill_player(Acorn__Player *message, const struct wire_player *player) {
  acorn__player__init(message);
  message->name = (char *)player->name;
  message->state = (char *)player->state;
#define FILL(member, here, wire) message->member = (wire)player->member;
  PLAYER_NUMBERS(FILL)
#undef FILL
}

static void fill_status(Acorn__StatusReply *message, const struct wire_status *status) {
  acorn__status_reply__init(message);
  message->environment = (char *)status->environment;
  message->agent = (char *)status->agent;
  message->run_folder = (char *)status->run_folder;
  message->state = (char *)status->state;
  message->no_data = (char *)status->no_data;
#define FILL(member, here, wire) message->member = (wire)status->member;
  NUMBERS(FILL)
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

/* It goes to a terminal: what could move its cursor is replaced. */
static void take_text(char *out, size_t room, const char *text) {
  snprintf(out, room, "%s", text);
  for (char *p = out; *p; p++)
    if ((unsigned char)*p < ' ' || *p == 0x7f) *p = '?';
}

static void take_player(struct wire_player *player, const Acorn__Player *message) {
  take_text(player->name, sizeof(player->name), message->name);
  take_text(player->state, sizeof(player->state), message->state);
#define TAKE(member, here, wire) player->member = (here)message->member;
  PLAYER_NUMBERS(TAKE)
#undef TAKE
}

static void take_status(struct wire_status *status, const Acorn__StatusReply *message) {
  take_text(status->environment, sizeof(status->environment), message->environment);
  take_text(status->agent, sizeof(status->agent), message->agent);
  take_text(status->run_folder, sizeof(status->run_folder), message->run_folder);
  take_text(status->state, sizeof(status->state), message->state);
  take_text(status->no_data, sizeof(status->no_data), message->no_data);
#define TAKE(member, here, wire) status->member = (here)message->member;
  NUMBERS(TAKE)
#undef TAKE
  status->num_players = (int)message->n_player;
  status->players = check_alloc(message->n_player + 1, sizeof(*status->players));
  for (int i = 0; i < status->num_players; i++)
    take_player(&status->players[i], message->player[i]);
}

enum status wire_unpack_status(struct wire_status *status, const uint8_t *data, size_t size,
                               struct error *error) {
  *status = (struct wire_status){0};
  Acorn__StatusReply *message = acorn__status_reply__unpack(NULL, size, data);
  if (!message)
    return status_fail(error, STATUS_INVALID, "these %zu bytes are no StatusReply", size);
  take_status(status, message);
  acorn__status_reply__free_unpacked(message, NULL);
  return STATUS_OK;
}

void wire_status_deinit(struct wire_status *status) {
  free(status->players);
  status->players = NULL;
}
