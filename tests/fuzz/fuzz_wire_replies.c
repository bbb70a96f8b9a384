/* Any bytes as what a learner answers: a StatusReply or a JoinReply, by the first byte. Refused
 * with a sentence, or read into what its readers may rely on; packed again it reads the same, and
 * a status can be shown. The mutator puts whole replies between the mutations. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/wire/wire.h"
#include "deploy/inspect/status_view.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

/* ---- JoinReply */

static void try_join(const uint8_t *data, size_t size) {
  struct wire_join_reply reply, again;
  struct error error = {""};
  if (wire_unpack_join_reply(&reply, data, size, &error) != STATUS_OK) {
    CHECK(error.text[0], "no sentence");
    CHECK(!reply.environment_seed, "seeds of a reply that was refused");
    return;
  }
  int count = reply.num_environments;
  CHECK(count >= 1 && count <= WIRE_MAX_ENVIRONMENTS, "%d environments", count);
  size_t bytes;
  uint8_t *packed = wire_pack_join_reply(&reply, &bytes);
  CHECK(wire_unpack_join_reply(&again, packed, bytes, &error) == STATUS_OK, "%s", error.text);
  CHECK(again.run_id == reply.run_id && again.first_environment == reply.first_environment &&
            again.episode_seed_stride == reply.episode_seed_stride &&
            again.num_environments == count && again.shared_process == reply.shared_process &&
            again.shared_file == reply.shared_file &&
            memcmp(again.environment_seed, reply.environment_seed,
                   (size_t)count * sizeof(uint64_t)) == 0,
        "another reply");
  free(packed);
  wire_join_reply_deinit(&again);
  wire_join_reply_deinit(&reply);
}

/* ---- StatusReply */

static void check_text(const char *text, size_t room) {
  CHECK(memchr(text, 0, room), "a text without an end");
  for (; *text; text++)
    CHECK((unsigned char)*text >= ' ' && *text != 0x7f, "byte %d for a terminal", *text);
}

static void check_status(const struct wire_status *status) {
  check_text(status->environment, sizeof(status->environment));
  check_text(status->agent, sizeof(status->agent));
  check_text(status->run_folder, sizeof(status->run_folder));
  check_text(status->state, sizeof(status->state));
  check_text(status->no_data, sizeof(status->no_data));
  CHECK(status->train_environments >= 0 && status->eval_environments >= 0 &&
            status->expected_environments >= 0 && status->late_environments >= 0,
        "a negative number of environments");
  CHECK(status->num_players >= 0, "%d players", status->num_players);
  for (int i = 0; i < status->num_players; i++) {
    const struct wire_player *player = &status->players[i];
    check_text(player->name, sizeof(player->name));
    check_text(player->state, sizeof(player->state));
    CHECK(player->num_environments >= 0 && player->late_environments >= 0, "%d of %d",
          player->late_environments, player->num_environments);
  }
}

static void show(const struct wire_status *status) {
  char *text;
  size_t bytes;
  FILE *out = open_memstream(&text, &bytes);
  status_view_table(out, status, &(struct view_size){.columns = 80, .rows = 24, .end = "\n"});
  status_view_table(out, status, &(struct view_size){.end = "\n"});
  CHECK(status_view_json(out, status, "a:1") == 0, "it cannot be written as JSON");
  fclose(out);
  free(text);
}

static void try_status(const uint8_t *data, size_t size) {
  struct wire_status status, again;
  struct error error = {""};
  if (wire_unpack_status(&status, data, size, &error) != STATUS_OK) {
    CHECK(error.text[0] && !status.players, "no sentence");
    return;
  }
  check_status(&status);
  show(&status);
  size_t bytes, bytes_again;
  uint8_t *packed = wire_pack_status(&status, &bytes);
  CHECK(wire_unpack_status(&again, packed, bytes, &error) == STATUS_OK, "%s", error.text);
  uint8_t *packed_again = wire_pack_status(&again, &bytes_again);
  CHECK(bytes == bytes_again && memcmp(packed, packed_again, bytes) == 0, "another status");
  free(packed_again);
  free(packed);
  wire_status_deinit(&again);
  wire_status_deinit(&status);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0) return 0;
  if (data[0] & 1)
    try_join(data + 1, size - 1);
  else
    try_status(data + 1, size - 1);
  return 0;
}

/* ---- whole replies */

static uint8_t *make_join(size_t *size, unsigned seed) {
  uint64_t seeds[] = {seed, 0, UINT64_MAX};
  struct wire_join_reply reply = {seed,      seed >> 5, 1 + (int)(seed >> 3) % 3, seeds, seed >> 7,
                                  seed >> 9, seed >> 11};
  return wire_pack_join_reply(&reply, size);
}

static uint8_t *make_status(size_t *size, unsigned seed) {
  struct wire_player players[3] = {{.name = "actor/0/1", .state = "stepping", .steps = seed},
                                   {.name = "actor/10/0", .state = "queued", .step_us = 1e6},
                                   {.name = "eval/0/0", .role = WIRE_ROLE_EVAL}};
  struct wire_status status = {.environment = "catch",
                               .agent = "vtrace",
                               .run_folder = "/runs/a",
                               .state = "training",
                               .updates = seed,
                               .return_mean = 0.25,
                               .train_environments = 4,
                               .players = players,
                               .num_players = (int)(seed >> 3) % 4};
  return wire_pack_status(&status, size);
}

/* A whole reply; the size it had before if it does not fit. */
static size_t replace(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
  size_t bytes;
  bool joins = seed >> 4 & 1;
  uint8_t *packed = joins ? make_join(&bytes, seed >> 8) : make_status(&bytes, seed >> 8);
  bool fits = bytes + 1 <= max_size;
  if (fits) {
    data[0] = joins;
    memcpy(data + 1, packed, bytes);
  }
  free(packed);
  return fits ? bytes + 1 : size;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
  if (seed % 8 == 0) size = replace(data, size, max_size, seed);
  return seed % 16 == 0 ? size : LLVMFuzzerMutate(data, size, max_size);
}
