#include "learner/serve/predictor.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"

void predictor_init(struct predictor *self, const struct acting *acting, const struct space *space,
                    int num_slots) {
  const struct memory_config memory = {
      .num_slots = num_slots, .shape = acting->shape, .draws = policy_draws(acting->policy, space)};
  size_t rows = (size_t)acting->max_rows;
  *self = (struct predictor){.acting = *acting, .space = space};
  self->acting.inputs = *network_inputs(acting->network);
  self->memory = self->acting.memory = memory_create(acting->device, &memory);
  acting_init(&self->acting);
  acting_batch_init(&self->acting, &self->batch);
  row_batch_init(&self->rows, acting->device, acting->max_rows, 1, acting->shape.row_stride);
  wire_layout_of_space(&self->layout, space, 1);
  self->head = check_alloc(rows * (size_t)network_head_stride(acting->network), sizeof(float));
  if (acting->policy->action_values)
    self->values = check_alloc(rows * (size_t)space_num_actions(space), sizeof(float));
}

void predictor_deinit(struct predictor *self) {
  if (!self->memory) return;
  row_batch_deinit(&self->rows);
  acting_batch_deinit(&self->acting, &self->batch);
  acting_deinit(&self->acting);
  memory_destroy(self->memory);
  free(self->head);
  free(self->values);
  *self = (struct predictor){.memory = NULL};
}

/* Rows of padding are of no slot. */
void predictor_begin(struct predictor *self, int num_rows) {
  acting_begin(&self->acting, &self->batch, num_rows);
  for (int row = num_rows; row < self->batch.B; row++)
    memory_clear_row(self->memory, &self->batch.rows, row);
}

void predictor_enter(struct predictor *self, int row, int slot, uint8_t flags, float reward,
                     bool greedy) {
  bool lacks_state = slot < 0 && self->acting.shape.state_size > 0; /* none is gathered for it */
  self->rows.flags[row] = lacks_state ? flags | STEP_FIRST : flags;
  self->rows.reward[row] = reward;
  if (slot < 0)
    memory_clear_row(self->memory, &self->batch.rows, row);
  else
    memory_enter_row(self->memory, &self->batch.rows, row, slot, flags, greedy);
}

void predictor_choose(struct predictor *self) {
  struct device *device = self->acting.device;
  const struct network_outputs *out = &self->batch.out;
  const int32_t *slot = self->batch.rows.slot;
  int B = self->batch.num_rows;
  acting_choose(&self->acting, &self->batch, &self->rows, NULL);
  acting_file(&self->acting, &self->batch);
  device->ops->download(device, self->head, out->head, (size_t)B * (size_t)out->stride);
  if (self->values)
    device->ops->download(device, self->values, network_values(device, out, B),
                          (size_t)B * (size_t)out->of_actions->A);
  device_finish(device);
  for (int row = 0; row < B; row++)
    if (slot[row] >= 0)
      memory_leave(self->memory, slot[row], acting_action(&self->acting, &self->batch, row));
}

void predictor_send(const struct predictor *self, void *sent, int row) {
  const struct policy *policy = self->acting.policy;
  const void *chosen = acting_action(&self->acting, &self->batch, row);
  if (policy->send)
    policy->send(sent, chosen, self->space);
  else
    memcpy(sent, chosen, (size_t)self->acting.shape.action_bytes);
}
