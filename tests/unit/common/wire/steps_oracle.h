/* Steps messages made at random, and what protobuf-c and the documented checks say about them:
 * the oracle of wire_decode_steps, in the unit test and in the fuzzer. */
#ifndef ACORN_TESTS_STEPS_ORACLE_H
#define ACORN_TESTS_STEPS_ORACLE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acorn.pb-c.h"
#include "common/wire/wire.h"

enum { ORACLE_MAX_K = 9, ORACLE_MAX_EPISODES = 4, ORACLE_ROOM = 1 << 16, ORACLE_FILL = 0xCD };

/* ---- random numbers (splitmix64), good enough to choose by */

static uint64_t oracle_random(uint64_t *state) {
  uint64_t z = (*state += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

static uint32_t oracle_below(uint64_t *state, uint32_t bound) {
  return (uint32_t)(oracle_random(state) >> 33) % bound;
}

/* ---- layouts: with and without padding, one tensor and several */

static struct wire_layout oracle_layout(unsigned choice) {
  static const struct {
    int num_tensors;
    size_t bytes[3];
  } kinds[] = {{1, {16}}, {1, {5}}, {2, {3, 20}}, {3, {16, 32, 1}}, {2, {16, 48}}, {1, {300}}};
  unsigned kind = choice % 6;
  struct wire_layout layout = {.num_environments = 1 + (int)(choice / 6 % ORACLE_MAX_K),
                               .num_tensors = kinds[kind].num_tensors};
  for (int i = 0; i < layout.num_tensors; i++) layout.tensor[i].bytes = kinds[kind].bytes[i];
  wire_layout_finish(&layout);
  return layout;
}

/* ---- making messages */

struct oracle_writer {
  uint8_t *bytes;
  size_t size;
  uint64_t *state;
};

static void oracle_put(struct oracle_writer *w, const void *data, size_t size) {
  if (size > 0) memcpy(w->bytes + w->size, data, size);
  w->size += size;
}

/* A varint, now and then longer than it need be. */
static void oracle_put_varint(struct oracle_writer *w, uint64_t value) {
  uint8_t bytes[10];
  size_t n = 0;
  for (; value >= 0x80; value >>= 7) bytes[n++] = (uint8_t)(value | 0x80);
  bytes[n++] = (uint8_t)value;
  while (n < 4 && oracle_below(w->state, 16) == 0) {
    bytes[n - 1] |= 0x80;
    bytes[n++] = 0;
  }
  oracle_put(w, bytes, n);
}

static void oracle_put_block(struct oracle_writer *w, uint32_t number, const void *data,
                             size_t size) {
  oracle_put_varint(w, number << 3 | 2);
  oracle_put_varint(w, size);
  oracle_put(w, data, size);
}

static void oracle_put_junk(struct oracle_writer *w, size_t size) {
  for (size_t i = 0; i < size; i++) w->bytes[w->size++] = (uint8_t)oracle_random(w->state);
}

static void oracle_put_unknown(struct oracle_writer *w) {
  static const uint32_t numbers[] = {5, 14, 16, 17, 1000, 536870911};
  static const uint32_t types[] = {0, 1, 2, 5};
  uint32_t type = types[oracle_below(w->state, 4)];
  oracle_put_varint(w, (uint64_t)numbers[oracle_below(w->state, 6)] << 3 | type);
  if (type == 0) oracle_put_varint(w, oracle_random(w->state) >> oracle_below(w->state, 64));
  if (type == 1) oracle_put_junk(w, 8);
  if (type == 5) oracle_put_junk(w, 4);
  if (type == 2) {
    size_t size = oracle_below(w->state, 40);
    oracle_put_varint(w, size);
    oracle_put_junk(w, size);
  }
}

static void oracle_put_number(struct oracle_writer *w) {
  uint8_t room[128];
  struct oracle_writer number = {room, 0, w->state};
  if (oracle_below(w->state, 3)) {
    oracle_put_varint(&number, 2 << 3 | 1);
    oracle_put_junk(&number, 8);
  }
  oracle_put_block(&number, 1,
                   "lives_and_a_name_that_is_too_long_for_it_as_it_has_more_than_63_bytes",
                   1 + oracle_below(w->state, 67));
  oracle_put_block(w, 4, room, number.size);
}

static void oracle_put_episode(struct oracle_writer *w, int num_environments) {
  uint8_t room[8192];
  struct oracle_writer episode = {room, 0, w->state};
  for (int part = (int)oracle_below(w->state, 7); part >= 0; part--)
    switch (oracle_below(w->state, 5)) {
      case 0:
        oracle_put_varint(&episode, 1 << 3);
        oracle_put_varint(&episode, oracle_below(w->state, (uint32_t)num_environments));
        break;
      case 1:
        oracle_put_varint(&episode, 2 << 3 | 1);
        oracle_put_junk(&episode, 8);
        break;
      case 2:
        oracle_put_varint(&episode, 3 << 3);
        oracle_put_varint(&episode,
                          oracle_random(w->state) >> (oracle_below(w->state, 16) ? 32 : 0));
        break;
      case 3:
        oracle_put_unknown(&episode);
        break;
      default: /* often one, at times more than there may be */
        for (int n = oracle_below(w->state, 8) ? 1 : 9; n > 0; n--) oracle_put_number(&episode);
    }
  oracle_put_block(w, 4, room, episode.size);
}

static void oracle_put_rewards(struct oracle_writer *w, int num_environments) {
  for (int left = num_environments; left > 0;) {
    int n = 1 + (int)oracle_below(w->state, (uint32_t)left);
    if (oracle_below(w->state, 2)) {
      oracle_put_varint(w, 2 << 3 | 2);
      oracle_put_varint(w, (uint64_t)n * 4);
      oracle_put_junk(w, (size_t)n * 4);
    } else {
      n = 1;
      oracle_put_varint(w, 2 << 3 | 5);
      oracle_put_junk(w, 4);
    }
    left -= n;
  }
}

static void oracle_put_flags(struct oracle_writer *w, int num_environments) {
  static const uint8_t common[] = {0, 0, 0, 1, 3, 4, 8, 7, 0, 1, 3, 4};
  uint8_t flags[ORACLE_MAX_K];
  for (int k = 0; k < num_environments; k++)
    flags[k] = common[oracle_below(w->state, sizeof(common))];
  if (oracle_below(w->state, 8) == 0) flags[0] = (uint8_t)oracle_below(w->state, 32);
  oracle_put_block(w, 3, flags, (size_t)num_environments);
}

static void oracle_put_observation(struct oracle_writer *w, size_t size) {
  oracle_put_varint(w, 15 << 3 | 2);
  oracle_put_varint(w, size);
  oracle_put_junk(w, size);
}

/* A message that is right more often than not: fields in any order, some twice, some unknown.
 * Shapes: out has room for ORACLE_ROOM bytes. Returns the bytes written. */
static size_t oracle_make(uint8_t *out, const struct wire_layout *layout, uint64_t *state) {
  struct oracle_writer w = {out, 0, state};
  int K = layout->num_environments;
  int order[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  for (int i = 7; i > 0; i--) {
    int j = (int)oracle_below(state, (uint32_t)i + 1), swap = order[i];
    order[i] = order[j];
    order[j] = swap;
  }
  for (int i = 0; i < 8; i++) {
    bool lucky = oracle_below(state, 4) == 0;
    if (order[i] == 0) oracle_put_rewards(&w, K);
    if (order[i] == 1 || (order[i] == 2 && lucky)) oracle_put_flags(&w, K);
    if (order[i] == 3 && lucky) oracle_put_observation(&w, oracle_below(state, 40));
    if (order[i] == 4 && lucky) oracle_put_episode(&w, K);
    if (order[i] == 5) oracle_put_unknown(&w);
    if (order[i] == 6 && lucky) {
      oracle_put_varint(&w, 1 << 3 | 1);
      oracle_put_junk(&w, 8);
    }
    if (order[i] == 7) oracle_put_episode(&w, K);
  }
  if (oracle_below(state, 10)) oracle_put_observation(&w, layout->wire_bytes * (size_t)K);
  return w.size;
}

/* ---- splitting: each piece has memory of its exact size, for the sanitizers to watch */

enum { ORACLE_MAX_PIECES = 64 };

struct oracle_pieces {
  struct wire_span span[ORACLE_MAX_PIECES];
  uint8_t *memory[ORACLE_MAX_PIECES];
  int count;
};

static void oracle_split(struct oracle_pieces *pieces, const uint8_t *data, size_t size,
                         uint64_t *state) {
  int wanted = 1 + (int)oracle_below(state, ORACLE_MAX_PIECES);
  pieces->count = 0;
  for (size_t at = 0; pieces->count < wanted; pieces->count++) {
    size_t left = size - at, n = left;
    if (pieces->count + 1 < wanted)
      n = oracle_below(state, (uint32_t)(oracle_below(state, 2) ? left + 1 : 4));
    if (n > left) n = left;
    uint8_t *memory = malloc(n ? n : 1);
    if (n > 0) memcpy(memory, data + at, n);
    pieces->memory[pieces->count] = memory;
    pieces->span[pieces->count] = (struct wire_span){n ? memory : NULL, n};
    at += n;
  }
}

static void oracle_join(struct oracle_pieces *pieces) {
  for (int i = 0; i < pieces->count; i++) free(pieces->memory[i]);
}

/* ---- rows */

struct oracle_rows {
  struct wire_rows rows;
  uint8_t observation[ORACLE_MAX_K * 320];
  float reward[ORACLE_MAX_K];
  uint8_t flags[ORACLE_MAX_K];
  struct wire_episode episodes[ORACLE_MAX_EPISODES];
};

/* Rows for messages without any, of the size of a layout, for the sanitizers to watch. */
static uint8_t *oracle_share(const struct wire_layout *layout, uint64_t *state) {
  size_t bytes = layout->wire_bytes * (size_t)layout->num_environments;
  uint8_t *shared = malloc(bytes);
  for (size_t i = 0; i < bytes; i++) shared[i] = (uint8_t)oracle_random(state);
  return shared;
}

static void oracle_rows_init(struct oracle_rows *r) {
  memset(r, ORACLE_FILL, sizeof(*r));
  r->rows = (struct wire_rows){.observation = r->observation,
                               .reward = r->reward,
                               .flags = r->flags,
                               .episodes = r->episodes,
                               .max_episodes = ORACLE_MAX_EPISODES};
}

/* ---- the oracle's decoder */

static bool oracle_number_zero(const ProtobufCMessage *message) {
  for (unsigned i = 0; i < message->n_unknown_fields; i++)
    if (message->unknown_fields[i].tag == 0) return true;
  return false;
}

static bool oracle_take_number(struct wire_episode *episode, const Acorn__Number *number) {
  size_t length = strlen(number->name);
  if (oracle_number_zero(&number->base) || episode->num_numbers == WIRE_MAX_EPISODE_NUMBERS)
    return false;
  if (length == 0 || length >= WIRE_NUMBER_NAME_BYTES) return false;
  const char *fits = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./";
  if (strspn(number->name, fits) != length) return false;
  strcpy(episode->number[episode->num_numbers].name, number->name);
  episode->number[episode->num_numbers++].value = number->value;
  return true;
}

static bool oracle_take_episode(struct oracle_rows *r, const Acorn__Episode *message,
                                int num_environments) {
  if (r->rows.num_episodes == r->rows.max_episodes ||
      message->environment >= (uint32_t)num_environments)
    return false;
  if (oracle_number_zero(&message->base)) return false;
  struct wire_episode *episode = &r->episodes[r->rows.num_episodes++];
  episode->environment = message->environment;
  episode->length = message->length;
  episode->episode_return = message->episode_return;
  episode->num_numbers = 0;
  for (size_t i = 0; i < message->n_number; i++)
    if (!oracle_take_number(episode, message->number[i])) return false;
  return true;
}

static bool oracle_take_flags(uint8_t *out, ProtobufCBinaryData flags, size_t rows) {
  /* first=1 terminated=2 truncated=4 absent=8; 7 becomes 3 */
  static const int accepted[16] = {[0] = 1, [1] = 1, [3] = 1, [4] = 1, [7] = 1, [8] = 1};
  memset(out, 0, rows);
  if (flags.len != 0 && flags.len != rows) return false;
  for (size_t k = 0; k < flags.len; k++) {
    if (flags.data[k] > 15 || !accepted[flags.data[k]]) return false;
    out[k] = flags.data[k] == 7 ? 3 : flags.data[k];
  }
  return true;
}

static bool oracle_take(struct oracle_rows *r, const Acorn__Steps *steps,
                        const struct wire_layout *layout) {
  size_t K = (size_t)layout->num_environments;
  if (oracle_number_zero(&steps->base)) return false;
  bool is_shared = r->rows.shared && steps->observation.len == 0;
  if (steps->n_reward != K) return false;
  if (!is_shared && steps->observation.len != K * layout->wire_bytes) return false;
  const uint8_t *rows = is_shared ? r->rows.shared : steps->observation.data;
  if (!oracle_take_flags(r->flags, steps->flags, K)) return false;
  for (size_t i = 0; i < steps->n_episode; i++)
    if (!oracle_take_episode(r, steps->episode[i], (int)K)) return false;
  r->rows.run_id = steps->run_id;
  memcpy(r->reward, steps->reward, K * sizeof(float));
  for (size_t k = 0; k < K; k++)
    for (int i = 0; i < layout->num_tensors; i++)
      memcpy(r->observation + k * layout->row_stride + layout->tensor[i].row_offset,
             rows + k * layout->wire_bytes + layout->tensor[i].wire_offset,
             layout->tensor[i].bytes);
  return true;
}

static bool oracle_decode(struct oracle_rows *r, const uint8_t *data, size_t size,
                          const struct wire_layout *layout) {
  Acorn__Steps *steps = acorn__steps__unpack(NULL, size, data);
  if (!steps) return false;
  bool accepted = oracle_take(r, steps, layout);
  acorn__steps__free_unpacked(steps, NULL);
  return accepted;
}

/* ---- comparison */

/* NULL if equal, bit by bit (NaN included), padding included; else the name of what differs. */
static const char *oracle_difference(const struct oracle_rows *a, const struct oracle_rows *b) {
  if (a->rows.run_id != b->rows.run_id) return "run_id";
  if (memcmp(a->observation, b->observation, sizeof(a->observation)) != 0) return "observation";
  if (memcmp(a->reward, b->reward, sizeof(a->reward)) != 0) return "reward";
  if (memcmp(a->flags, b->flags, sizeof(a->flags)) != 0) return "flags";
  if (a->rows.num_episodes != b->rows.num_episodes) return "num_episodes";
  for (int i = 0; i < a->rows.num_episodes; i++) {
    const struct wire_episode *x = &a->episodes[i], *y = &b->episodes[i];
    if (x->environment != y->environment || x->length != y->length ||
        x->num_numbers != y->num_numbers || memcmp(&x->episode_return, &y->episode_return, 8) != 0)
      return "episode";
    for (int n = 0; n < x->num_numbers; n++)
      if (strcmp(x->number[n].name, y->number[n].name) != 0 ||
          memcmp(&x->number[n].value, &y->number[n].value, 8) != 0)
        return "number";
  }
  return NULL;
}

/* Decodes one message both ways. Returns NULL if they agree, else a word for what differs. */
static const char *oracle_check(const uint8_t *data, size_t size, const struct wire_layout *layout,
                                uint64_t *state, bool *accepted) {
  static struct oracle_rows ours, theirs;
  oracle_rows_init(&ours);
  oracle_rows_init(&theirs);
  struct oracle_pieces pieces;
  oracle_split(&pieces, data, size, state);
  uint8_t *shared = oracle_below(state, 2) ? oracle_share(layout, state) : NULL;
  ours.rows.shared = theirs.rows.shared = shared;
  struct error error = {{0}};
  bool we = wire_decode_steps(&ours.rows, pieces.span, pieces.count, layout, &error) == STATUS_OK;
  bool they = oracle_decode(&theirs, data, size, layout);
  oracle_join(&pieces);
  free(shared);
  *accepted = we;
  /* Where a number is above 32 bits, protobuf-c goes on with what is left of it. */
  if (!we && strstr(error.text, "more than a uint32 holds")) return NULL;
  if (we != they) return we ? "only we accept it" : "only protobuf-c accepts it";
  if (!we) return error.text[0] ? NULL : "no sentence";
  return oracle_difference(&ours, &theirs);
}

#endif
