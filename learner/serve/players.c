#include "learner/serve/players.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"

/* A lease's sums at the last tick, and what they came to over the interval before it. */
struct record {
  uint64_t run_id; /* of the lease that it is about; 0: none */
  uint64_t steps;
  struct batcher_client client;
  double steps_per_second, step_us, wait_us;
};

struct players {
  struct leases *leases;
  struct batcher *batcher;
  struct lease_view *view; /* (num_slots) scratch */
  struct record *record;   /* (num_slots), by the lease's client */
  int num_slots;
  int64_t tick_us; /* of the last one; 0: none yet */
};

struct players *players_create(struct leases *leases, struct batcher *batcher) {
  struct players *players = check_alloc(1, sizeof(*players));
  players->leases = leases;
  players->batcher = batcher;
  players->num_slots = leases_num_slots(leases);
  players->view = check_alloc((size_t)players->num_slots, sizeof(*players->view));
  players->record = check_alloc((size_t)players->num_slots, sizeof(*players->record));
  return players;
}

void players_destroy(struct players *players) {
  if (!players) return;
  free(players->view);
  free(players->record);
  free(players);
}

/* What the batcher knows of a lease; all zero before its first rows. */
static struct batcher_client client_of(const struct players *players,
                                       const struct lease_view *view) {
  if (!view->playing) return (struct batcher_client){.state = "joined"};
  return batcher_client(players->batcher, view->client);
}

/* The first message answers nothing: it follows the Join. */
static int64_t turnarounds(const struct batcher_client *client) {
  return client->messages ? client->messages - 1 : 0;
}

/* The mean over an interval; that of the one before if nothing came. */
static double mean_or(double before, int64_t sum, int64_t count) {
  return count > 0 ? (double)sum / (double)count : before;
}

static void close_record(struct record *record, const struct lease_view *view,
                         const struct batcher_client *client, int64_t begin_us, int64_t now_us) {
  if (record->run_id != view->run_id)
    *record = (struct record){.run_id = view->run_id, .step_us = NAN, .wait_us = NAN};
  if (view->joined_us > begin_us) begin_us = view->joined_us;
  double seconds = (double)(now_us - begin_us) * 1e-6;
  record->steps_per_second = seconds > 0 ? (double)(view->steps - record->steps) / seconds : 0;
  record->step_us = mean_or(record->step_us, client->step_us - record->client.step_us,
                            turnarounds(client) - turnarounds(&record->client));
  record->wait_us = mean_or(record->wait_us, client->wait_us - record->client.wait_us,
                            client->answers - record->client.answers);
  record->steps = view->steps;
  record->client = *client;
}

void players_tick(struct players *players, int64_t now_us) {
  int count = leases_view(players->leases, players->view, players->num_slots);
  for (int i = 0; i < count; i++) {
    const struct lease_view *view = &players->view[i];
    struct batcher_client client = client_of(players, view);
    close_record(&players->record[view->client], view, &client, players->tick_us, now_us);
  }
  players->tick_us = now_us;
}

static void describe(struct wire_player *player, const struct lease_view *view,
                     const struct batcher_client *client, const struct record *record,
                     int64_t now_us) {
  bool known = record->run_id == view->run_id;
  int64_t heard_us = client->messages ? client->message_us : view->joined_us;
  *player = (struct wire_player){
      .first_environment = (uint32_t)view->first_slot,
      .num_environments = view->num_environments,
      .role = view->role,
      .steps = view->steps,
      .steps_per_second = known ? record->steps_per_second : NAN,
      .step_us = known ? record->step_us : NAN,
      .wait_us = known ? record->wait_us : NAN,
      .silent_seconds = now_us > heard_us ? (double)(now_us - heard_us) * 1e-6 : 0,
      .late_environments = client->late ? view->num_environments : 0};
  memcpy(player->name, view->name, sizeof(player->name));
  memcpy(player->host, view->host, sizeof(player->host));
  snprintf(player->state, sizeof(player->state), "%s", client->state);
}

struct wire_player *players_list(struct players *players, int *count, int64_t now_us) {
  *count = leases_view(players->leases, players->view, players->num_slots);
  struct wire_player *list = check_alloc((size_t)*count + 1, sizeof(*list));
  for (int i = 0; i < *count; i++) {
    const struct lease_view *view = &players->view[i];
    struct batcher_client client = client_of(players, view);
    describe(&list[i], view, &client, &players->record[view->client], now_us);
  }
  return list;
}
