#include "deploy/options.h"

#include <stddef.h>

#include "deploy/supervisor.h"

#define RUN "Run"
#define ATARI "The environment atari"
#define AT(member) offsetof(struct launch_options, member)

static const struct option rows[] = {
    {"max_deaths", NULL, OPTION_INT, AT(max_deaths), "5", 0, SUPERVISOR_MAX_DEATHS, NULL, RUN,
     "deaths within 60 s after which an actor that has never stepped is given up; one that has "
     "stepped is restarted each time, after 1, 2, 4 ... 60 s. 0: restart any actor after 0.2 s"},
    {"evaluators", NULL, OPTION_INT, AT(evaluators), "-1", -1, 1024, NULL, RUN,
     "actors that play with the newest parameters, greedily, and are never trained on; with any, "
     "--target_return and the result are about their episodes. -1: as many as suit the agent "
     "(docs/algorithms.md), none with --deterministic"},
    {"eval_envs", NULL, OPTION_INT, AT(eval_envs), "0", 0, 4096, NULL, RUN,
     "environments of each evaluator; 0: as many as an actor has"},
    {"plot", NULL, OPTION_BOOL, AT(plot), "true", 0, 0, NULL, RUN,
     "draw the learning curve into the run folder at the end"},
    {"game", NULL, OPTION_STRING, AT(game), "Pong", 0, 0, NULL, ATARI,
     "Pong, Breakout, SpaceInvaders, ...; docs/gymnasium.md has the other options of atari"},
    {"sticky_actions", NULL, OPTION_FLOAT, AT(sticky_actions), "0", 0, 1, NULL, ATARI,
     "probability that the emulator repeats the action before"},
    {"resize", NULL, OPTION_CHOICE, AT(resize), "area", 0, 0, "area|linear", ATARI,
     "how the screen becomes 84 x 84; linear is SEED RL's"},
};

static const struct option_exit exits[] = {
    {"0", "the run is over, or a signal stopped it in order"},
    {"1", "the run failed, or no actor is left"},
    {"2", "wrong options, or a run folder, address or limit that does not let it start"},
    {"3", "the budget ended before --target_return was reached"},
    {"129, 130, 143", "a signal stopped it before there was a learner (128 + the signal's number)"},
    {"130", "a second signal ended the run at once"},
    {"128 + N", "signal N ended the learner"},
    {NULL, NULL},
};

const struct option_table launch_options_table = {
    .program = "run_local.sh",
    .about =
        "Starts a learner and its actors, and keeps them running. It takes their options as well.",
    .exits = exits,
    .options = rows,
    .count = sizeof(rows) / sizeof(*rows),
};
