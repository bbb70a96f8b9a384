#include "learner/experience/step_rules.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

/* A float, or a double. */
static double number_at(const uint8_t *bytes, size_t number_bytes) {
  float single;
  double number;
  if (number_bytes == sizeof(number)) {
    memcpy(&number, bytes, sizeof(number));
    return number;
  }
  memcpy(&single, bytes, sizeof(single));
  return single;
}

static bool check_numbers(char fault[STEP_FAULT_BYTES], const char *what, const void *bytes,
                          int count, size_t number_bytes, double most) {
  for (int i = 0; i < count; i++) {
    double number = number_at((const uint8_t *)bytes + (size_t)i * number_bytes, number_bytes);
    if (fabs(number) <= most) continue;
    snprintf(fault, STEP_FAULT_BYTES, "%s %g", what, number);
    return false;
  }
  return true;
}

static bool check_floats(char fault[STEP_FAULT_BYTES], const char *what, const void *bytes,
                         int count) {
  return check_numbers(fault, what, bytes, count, sizeof(float), STEP_MAX_NUMBER);
}

/* Absent rows are not stored, and of a row that is truncated too the decoder leaves terminated. */
static bool check_flags(char fault[STEP_FAULT_BYTES], uint8_t flags) {
  bool is_good = flags == 0 || flags == STEP_FIRST || flags == (STEP_FIRST | STEP_TERMINATED) ||
                 flags == STEP_TRUNCATED;
  if (!is_good) snprintf(fault, STEP_FAULT_BYTES, "flags %#x", flags);
  return is_good;
}

/* least: -1 where there may be none. */
static bool check_action(char fault[STEP_FAULT_BYTES], const struct step_rules *rules,
                         const void *bytes, int least) {
  const struct device_inputs *inputs = rules->inputs;
  if (inputs->box) return check_floats(fault, "action", bytes, inputs->box);
  for (int c = 0; c < space_num_choices(&inputs->choices); c++) {
    int32_t action;
    int among = space_among(&inputs->choices, c, inputs->discrete);
    memcpy(&action, (const uint8_t *)bytes + (size_t)c * sizeof(action), sizeof(action));
    if (action >= least && action < among) continue;
    snprintf(fault, STEP_FAULT_BYTES, "action %d of %d", (int)action, among);
    return false;
  }
  return true;
}

bool step_rules_observation(char fault[STEP_FAULT_BYTES], const struct step_rules *rules,
                            const void *entry) {
  const struct device_inputs *inputs = rules->inputs;
  for (int t = 0; t < inputs->num_tensors; t++) {
    const uint8_t *numbers = (const uint8_t *)entry + inputs->tensor[t].row_offset;
    if (inputs->tensor[t].dtype == DTYPE_FLOAT32 &&
        !check_floats(fault, "an observation with", numbers, inputs->tensor[t].count))
      return false;
  }
  return true;
}

bool step_rules_record(char fault[STEP_FAULT_BYTES], const struct step_rules *rules,
                       const void *entry) {
  const uint8_t *record = entry;
  size_t statistics = (size_t)rules->shape.statistics * sizeof(float);
  return check_floats(fault, "reward", record, 1) &&
         check_flags(fault, record[DEVICE_RECORD_FLAGS]) &&
         check_action(fault, rules, record + DEVICE_RECORD_STATISTICS + statistics, 0);
}

bool step_rules_stamp(char fault[STEP_FAULT_BYTES], const struct step_rules *rules,
                      const void *entry) {
  (void)rules;
  uint64_t stamp;
  memcpy(&stamp, entry, sizeof(stamp));
  return check_flags(fault, step_stamp_flags(stamp));
}

bool step_rules_trail(char fault[STEP_FAULT_BYTES], const struct step_rules *rules,
                      const void *entry) {
  (void)rules;
  return check_floats(fault, "reward", entry, 1);
}

bool step_rules_start_action(char fault[STEP_FAULT_BYTES], const struct step_rules *rules,
                             const void *entry) {
  return check_action(fault, rules, entry, -1);
}

bool step_rules_start_state(char fault[STEP_FAULT_BYTES], const struct step_rules *rules,
                            const void *entry) {
  return check_numbers(fault, "a recurrent state with", entry, rules->shape.state_size,
                       rules->real_bytes, DBL_MAX);
}
