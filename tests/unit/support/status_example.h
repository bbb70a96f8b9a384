/* The Status of a run that trains, with players that are late: for tests of how it crosses and of
 * how it is shown. */
#ifndef ACORN_TESTS_SUPPORT_STATUS_EXAMPLE_H
#define ACORN_TESTS_SUPPORT_STATUS_EXAMPLE_H

#include <math.h>
#include <stdio.h>

#include "common/wire/wire.h"

/* Fills `players` too: actor/0/0, actor/1/0, ... Owner: the caller of the players. */
static inline struct wire_status status_example(struct wire_player *players, int num_players) {
  for (int i = 0; i < num_players; i++) {
    players[i] = (struct wire_player){.num_environments = 16,
                                      .steps = 1234567,
                                      .state = "late",
                                      .steps_per_second = 950,
                                      .step_us = 2310,
                                      .wait_us = 85,
                                      .silent_seconds = 12,
                                      .host = "10.0.0.7",
                                      .late_environments = 16};
    snprintf(players[i].name, sizeof(players[i].name), "actor/%d/0", i);
  }
  return (struct wire_status){.environment = "cartpole",
                              .agent = "vtrace",
                              .run_folder = "/runs/a",
                              .state = "training",
                              .environment_steps = 567000,
                              .total_steps = 1500000,
                              .trained_steps = 560000,
                              .updates = 870,
                              .episodes = 3047,
                              .seconds = 4,
                              .steps_per_second = 141000,
                              .trained_steps_per_second = 140000,
                              .updates_per_second = 226,
                              .return_mean = 476.66,
                              .eval_return_mean = NAN,
                              .policy_lag_updates = 0.24,
                              .batch_rows = 8,
                              .batch_wait_us = 8,
                              .trainer_wait = 0.91,
                              .expected_environments = 16,
                              .train_environments = 16,
                              .late_environments = 16,
                              .players = players,
                              .num_players = num_players};
}

#endif
