/* Checks a step against the one before it (flags, lives), and rejects NaN, infinity and > 1e9.
 * Source: docs/protocol.md, "A step". Thread: any (no state of its own). */
#ifndef ACORN_LEARNER_SERVE_RULES_H
#define ACORN_LEARNER_SERVE_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"
#include "common/wire/wire.h"

/* The return of an episode is refused above this, as rewards are above STEP_MAX_NUMBER. */
#define RULES_MAX_RETURN 1e18

/* Checks the flags and rewards of one message against the flags before: the first row of a life is
 * `first`; after a truncated row comes a `first` row with reward 0; `first` otherwise only together
 * with `terminated`; `absent` stands alone. Then remembers the flags in last_flags. Shapes: flags,
 * reward, last_flags (K). started: false on the first message. Errors: INVALID, naming the
 * environment and both rows' flags. */
MUST_CHECK enum status rules_check_flags(const uint8_t *flags, const float *reward,
                                         uint8_t *last_flags, int K, bool started,
                                         struct error *error);

/* Checks the episodes of one message: at most one of each environment, only where the row ended
 * one, with a finite return. After rules_check_flags of the message; marks them in last_flags.
 * Errors: INVALID. */
MUST_CHECK enum status rules_check_episodes(const struct wire_episode *episodes, int num_episodes,
                                            const uint8_t *flags, uint8_t *last_flags, int K,
                                            struct error *error);

/* Checks that rewards and float32 observations are finite and within the bound; absent rows may
 * hold anything. Shapes:
 * flags, reward (K), rows (K, row_stride). Errors: INVALID, naming the environment and the tensor.
 */
MUST_CHECK enum status rules_check_finite(const uint8_t *flags, const float *reward,
                                          const uint8_t *rows, const struct wire_layout *layout,
                                          const struct space *space, struct error *error);

/* Checks that a row which needs an action has one that its action_mask, if there is such a tensor,
 * allows. Shapes as above. Errors: INVALID, naming the environment. */
MUST_CHECK enum status rules_check_mask(const uint8_t *flags, const uint8_t *rows,
                                        const struct wire_layout *layout, const struct space *space,
                                        struct error *error);

#endif
