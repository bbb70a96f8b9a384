#include "deploy/serve/sequences.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"

void sequences_init(struct sequences *sequences, int capacity) {
  *sequences = (struct sequences){.capacity = capacity, .num_buckets = 2 * capacity};
  sequences->slot = check_alloc((size_t)capacity, sizeof(*sequences->slot));
  sequences->bucket = check_alloc((size_t)sequences->num_buckets, sizeof(*sequences->bucket));
  for (int i = 0; i < sequences->num_buckets; i++) sequences->bucket[i] = -1;
  for (int i = 0; i < capacity; i++) sequences->slot[i].next = i + 1 < capacity ? i + 1 : -1;
}

void sequences_deinit(struct sequences *sequences) {
  free(sequences->slot);
  free(sequences->bucket);
}

static int *bucket_of(const struct sequences *sequences, const char *id) {
  uint64_t hash = 14695981039346656037u; /* FNV-1a */
  for (; *id; id++) hash = (hash ^ (uint8_t)*id) * 1099511628211u;
  return &sequences->bucket[hash % (uint64_t)sequences->num_buckets];
}

int sequences_find(const struct sequences *sequences, const char *id) {
  int at = *bucket_of(sequences, id);
  while (at >= 0 && strcmp(sequences->slot[at].id, id) != 0) at = sequences->slot[at].next;
  return at;
}

static void remove_slot(struct sequences *sequences, int slot) {
  struct sequence *sequence = &sequences->slot[slot];
  int *link = bucket_of(sequences, sequence->id);
  while (*link != slot) link = &sequences->slot[*link].next;
  *link = sequence->next;
  *sequence = (struct sequence){.next = sequences->free};
  sequences->free = slot;
  sequences->live--;
}

/* The one that was idle for longest; -1: none is. */
static int oldest(const struct sequences *sequences) {
  int at = -1;
  for (int i = 0; i < sequences->capacity; i++) {
    const struct sequence *sequence = &sequences->slot[i];
    if (sequence->is_live && sequence->waiting == 0 &&
        (at < 0 || sequence->used_us < sequences->slot[at].used_us))
      at = i;
  }
  return at;
}

static int begin(struct sequences *sequences, const char *id, bool *evicted) {
  if (sequences->free < 0) {
    int old = oldest(sequences);
    if (old < 0) return -1;
    remove_slot(sequences, old);
    *evicted = true;
  }
  int slot = sequences->free, *bucket = bucket_of(sequences, id);
  struct sequence *sequence = &sequences->slot[slot];
  sequences->free = sequence->next;
  *sequence = (struct sequence){.next = *bucket, .is_live = true};
  memcpy(sequence->id, id, strnlen(id, sizeof(sequence->id) - 1));
  *bucket = slot;
  sequences->live++;
  return slot;
}

int sequences_enter(struct sequences *sequences, const char *id, bool start, bool end,
                    int64_t now_us, bool *evicted) {
  *evicted = false;
  int slot = sequences_find(sequences, id);
  if (slot >= 0 && sequences->slot[slot].ends && !start) return -1;
  if (slot < 0 && start) slot = begin(sequences, id, evicted);
  if (slot < 0) return -1;
  struct sequence *sequence = &sequences->slot[slot];
  sequence->waiting++;
  sequence->ends = end;
  sequence->used_us = now_us;
  return slot;
}

void sequences_leave(struct sequences *sequences, int slot) {
  struct sequence *sequence = &sequences->slot[slot];
  if (--sequence->waiting == 0 && sequence->ends) remove_slot(sequences, slot);
}

void sequences_expire(struct sequences *sequences, int64_t since_us) {
  for (int i = 0; i < sequences->capacity; i++) {
    const struct sequence *sequence = &sequences->slot[i];
    if (sequence->is_live && sequence->waiting == 0 && sequence->used_us < since_us)
      remove_slot(sequences, i);
  }
}
