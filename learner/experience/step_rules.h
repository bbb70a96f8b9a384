/* What a stored step that is read from a file may hold: what the wire's rules let through
 * (serve/rules.h, common/wire/wire_steps.c), and actions that the environment has.
 *
 * A value outside would be trained on, or, as an action is an index, be read out of bounds. What
 * acting computed itself and training does not read, the policy's statistics, may be anything.
 * Upstream: pages_file.c. Thread: any. */
#ifndef ACORN_LEARNER_EXPERIENCE_STEP_RULES_H
#define ACORN_LEARNER_EXPERIENCE_STEP_RULES_H

#include "learner/device/device.h"
#include "learner/experience/step_shape.h"

struct step_rules {
  const struct device_inputs *inputs; /* its tensors and actions */
  struct step_shape shape;
  size_t real_bytes; /* of the device's numbers */
};

enum { STEP_FAULT_BYTES = 64 };

/* Whether an entry of a column of the pages (struct pages_rows) may be used. If not, `fault` says
 * what it has: "reward nan". */
typedef bool step_rule(char fault[STEP_FAULT_BYTES], const struct step_rules *rules,
                       const void *entry);
step_rule step_rules_observation, step_rules_record, step_rules_stamp, step_rules_trail,
    step_rules_start_action, step_rules_start_state;

#endif
