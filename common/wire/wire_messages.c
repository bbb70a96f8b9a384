/* The messages off the hot path, through protobuf-c. A received one is bounded in size before it
 * is unpacked, so that a few bytes cannot ask for much memory, and copied into plain data that
 * fits the limits of wire.h. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "acorn.pb-c.h"
#include "common/base/check.h"
#include "common/wire/wire.h"

enum {
  MAX_JOIN_REQUEST_BYTES = 64 << 10,
  MAX_JOIN_REPLY_BYTES = 1 << 20,
};

uint8_t *wire_gather(const struct wire_span *spans, int num_spans, size_t *size) {
  *size = 0;
  for (int i = 0; i < num_spans; i++) *size += spans[i].bytes;
  uint8_t *bytes = check_alloc(*size + 1, 1), *p = bytes;
  for (int i = 0; i < num_spans; i++) {
    memcpy(p, spans[i].data, spans[i].bytes);
    p += spans[i].bytes;
  }
  return bytes;
}

/* ---- checks of received fields */

/* Names go into logs, metrics and sentences: 1 .. room - 1 bytes of visible ASCII. */
static enum status take_name(char *out, size_t room, const char *name, const char *field,
                             struct error *error) {
  size_t length = strlen(name);
  if (length == 0) return status_fail(error, STATUS_INVALID, "%s is empty", field);
  if (length >= room)
    return status_fail(error, STATUS_INVALID, "%s has %zu bytes, at most %zu are allowed", field,
                       length, room - 1);
  for (size_t i = 0; i < length; i++)
    if (name[i] <= ' ' || name[i] > '~')
      return status_fail(error, STATUS_INVALID,
                         "%s has the character %d; only visible ASCII is allowed", field,
                         (unsigned char)name[i]);
  memcpy(out, name, length + 1);
  return STATUS_OK;
}

static enum status take_number(int *out, uint64_t value, uint64_t min, uint64_t max,
                               const char *field, struct error *error) {
  if (value < min || value > max)
    return status_fail(error, STATUS_INVALID, "%s is %llu, allowed are %llu..%llu", field,
                       (unsigned long long)value, (unsigned long long)min, (unsigned long long)max);
  *out = (int)value;
  return STATUS_OK;
}

static int clamped(uint64_t value) {
  return value < INT_MAX ? (int)value : INT_MAX;
}

/* One choice is a plain discrete action; beside another kind they stay to be refused. */
static void take_choices(struct space *space, const Acorn__ActionSpace *action) {
  uint64_t sum = action->discrete;
  bool is_plain = action->n_choices == 1 && action->discrete == 0 && action->choices[0] > 0;
  space->choices.count = is_plain ? 0 : clamped(action->n_choices);
  for (size_t c = 0; c < action->n_choices && c < SPACE_MAX_CHOICES; c++) {
    space->choices.among[c] = clamped(action->choices[c]);
    sum += action->choices[c];
  }
  space->discrete = clamped(sum);
}

/* What is beyond the limits stays, as a number, to be refused by space_check. */
static enum status take_space(struct space *space, const Acorn__JoinRequest *message,
                              struct error *error) {
  const Acorn__ActionSpace *action = message->action;
  if (!action) return status_fail(error, STATUS_INVALID, "the action space is missing");
  if (action->n_low != action->n_high)
    return status_fail(error, STATUS_INVALID, "the box of actions has %zu low and %zu high bounds",
                       action->n_low, action->n_high);
  *space =
      (struct space){.num_tensors = clamped(message->n_observation), .box = clamped(action->n_low)};
  take_choices(space, action);
  for (int i = 0; i < space->num_tensors && i < SPACE_MAX_TENSORS; i++) {
    const Acorn__Tensor *from = message->observation[i];
    struct space_tensor *to = &space->tensor[i];
    space_set_name(to, from->name);
    to->dtype = (enum dtype)from->dtype;
    to->rank = clamped(from->n_shape);
    for (int d = 0; d < to->rank && d < SPACE_MAX_RANK; d++) to->shape[d] = clamped(from->shape[d]);
  }
  for (int i = 0; i < space->box && i < SPACE_MAX_BOX; i++) {
    space->low[i] = action->low[i];
    space->high[i] = action->high[i];
  }
  return space_check(space, error);
}

static enum status check_size(size_t size, size_t max, const char *message, struct error *error) {
  if (size <= max) return STATUS_OK;
  return status_fail(error, STATUS_INVALID, "%s has %zu bytes, at most %zu are allowed", message,
                     size, max);
}

/* ---- JoinRequest */

static enum status take_join_request(struct wire_join_request *out,
                                     const Acorn__JoinRequest *message, struct error *error) {
  memset(out, 0, sizeof(*out));
  enum status status =
      take_number(&out->protocol, message->protocol, 0, INT_MAX, "JoinRequest.protocol", error);
  int role = 0;
  if (status == STATUS_OK)
    status = take_name(out->name, sizeof(out->name), message->name, "JoinRequest.name", error);
  if (status == STATUS_OK)
    status = take_name(out->environment, sizeof(out->environment), message->environment,
                       "JoinRequest.environment", error);
  if (status == STATUS_OK) status = take_space(&out->space, message, error);
  if (status == STATUS_OK)
    status = take_number(&out->num_environments, message->num_environments, 1,
                         WIRE_MAX_ENVIRONMENTS, "JoinRequest.num_environments", error);
  if (status == STATUS_OK)
    status = take_number(&role, (uint32_t)message->role, WIRE_ROLE_TRAIN, WIRE_ROLE_EVAL,
                         "JoinRequest.role", error);
  out->role = (enum wire_role)role;
  out->shared_rows = message->shared_rows != 0;
  return status;
}

enum status wire_unpack_join_request(struct wire_join_request *request, const uint8_t *data,
                                     size_t size, struct error *error) {
  enum status status = check_size(size, MAX_JOIN_REQUEST_BYTES, "JoinRequest", error);
  if (status != STATUS_OK) return status;
  Acorn__JoinRequest *message = acorn__join_request__unpack(NULL, size, data);
  if (!message)
    return status_fail(error, STATUS_INVALID, "these %zu bytes are no JoinRequest", size);
  status = take_join_request(request, message, error);
  acorn__join_request__free_unpacked(message, NULL);
  return status;
}

/* protobuf-c wants pointers that are not const, but only reads through them. */
uint8_t *wire_pack_join_request(const struct wire_join_request *request, size_t *size) {
  const struct space *space = &request->space;
  Acorn__Tensor tensor[SPACE_MAX_TENSORS], *tensors[SPACE_MAX_TENSORS];
  uint32_t shape[SPACE_MAX_TENSORS][SPACE_MAX_RANK];
  for (int i = 0; i < space->num_tensors; i++) {
    const struct space_tensor *spec = &space->tensor[i];
    tensors[i] = &tensor[i];
    acorn__tensor__init(&tensor[i]);
    tensor[i].name = (char *)spec->name;
    tensor[i].dtype = (Acorn__DType)spec->dtype;
    tensor[i].n_shape = (size_t)spec->rank;
    tensor[i].shape = shape[i];
    for (int d = 0; d < spec->rank; d++) shape[i][d] = (uint32_t)spec->shape[d];
  }
  Acorn__ActionSpace action = ACORN__ACTION_SPACE__INIT;
  uint32_t among[SPACE_MAX_CHOICES];
  for (int c = 0; c < space->choices.count; c++) among[c] = (uint32_t)space->choices.among[c];
  action.n_choices = (size_t)space->choices.count;
  action.choices = among;
  action.discrete = action.n_choices ? 0 : (uint32_t)space->discrete;
  action.n_low = action.n_high = (size_t)space->box;
  action.low = (float *)space->low;
  action.high = (float *)space->high;

  Acorn__JoinRequest message = ACORN__JOIN_REQUEST__INIT;
  message.protocol = (uint32_t)request->protocol;
  message.name = (char *)request->name;
  message.environment = (char *)request->environment;
  message.n_observation = (size_t)space->num_tensors;
  message.observation = tensors;
  message.action = &action;
  message.num_environments = (uint32_t)request->num_environments;
  message.role = (Acorn__Role)request->role;
  message.shared_rows = request->shared_rows;
  *size = acorn__join_request__get_packed_size(&message);
  uint8_t *bytes = check_alloc(*size + 1, 1);
  acorn__join_request__pack(&message, bytes);
  return bytes;
}

/* ---- JoinReply */

enum status wire_unpack_join_reply(struct wire_join_reply *reply, const uint8_t *data, size_t size,
                                   struct error *error) {
  *reply = (struct wire_join_reply){0};
  enum status status = check_size(size, MAX_JOIN_REPLY_BYTES, "JoinReply", error);
  if (status != STATUS_OK) return status;
  Acorn__JoinReply *message = acorn__join_reply__unpack(NULL, size, data);
  if (!message) return status_fail(error, STATUS_INVALID, "these %zu bytes are no JoinReply", size);
  reply->run_id = message->run_id;
  reply->first_environment = message->first_environment;
  reply->episode_seed_stride = message->episode_seed_stride;
  reply->shared_process = message->shared_process;
  reply->shared_file = message->shared_file;
  status = take_number(&reply->num_environments, message->n_environment_seed, 1,
                       WIRE_MAX_ENVIRONMENTS, "the number of seeds in JoinReply", error);
  if (status == STATUS_OK) {
    reply->environment_seed = check_alloc(message->n_environment_seed, sizeof(uint64_t));
    memcpy(reply->environment_seed, message->environment_seed,
           message->n_environment_seed * sizeof(uint64_t));
  }
  acorn__join_reply__free_unpacked(message, NULL);
  return status;
}

uint8_t *wire_pack_join_reply(const struct wire_join_reply *reply, size_t *size) {
  Acorn__JoinReply message = ACORN__JOIN_REPLY__INIT;
  message.run_id = reply->run_id;
  message.first_environment = reply->first_environment;
  message.n_environment_seed = (size_t)reply->num_environments;
  message.environment_seed = reply->environment_seed;
  message.episode_seed_stride = reply->episode_seed_stride;
  message.shared_process = reply->shared_process;
  message.shared_file = reply->shared_file;
  *size = acorn__join_reply__get_packed_size(&message);
  uint8_t *bytes = check_alloc(*size + 1, 1);
  acorn__join_reply__pack(&message, bytes);
  return bytes;
}

void wire_join_reply_deinit(struct wire_join_reply *reply) {
  free(reply->environment_seed);
  reply->environment_seed = NULL;
}

/* ---- how an observation is laid out, on the wire and in a row */

static size_t align16(size_t bytes) {
  return (bytes + 15) & ~(size_t)15;
}

void wire_layout_finish(struct wire_layout *layout) {
  CHECK(layout->num_tensors >= 1 && layout->num_tensors <= SPACE_MAX_TENSORS, "%d tensors",
        layout->num_tensors);
  size_t wire = 0, row = 0;
  for (int i = 0; i < layout->num_tensors; i++) {
    struct wire_tensor *tensor = &layout->tensor[i];
    tensor->wire_offset = wire;
    tensor->row_offset = row;
    wire += tensor->bytes;
    row = align16(row + tensor->bytes);
  }
  layout->wire_bytes = wire;
  layout->row_stride = row;
}

void wire_layout_of_space(struct wire_layout *layout, const struct space *space,
                          int num_environments) {
  *layout =
      (struct wire_layout){.num_environments = num_environments, .num_tensors = space->num_tensors};
  for (int i = 0; i < space->num_tensors; i++)
    layout->tensor[i].bytes = space_tensor_bytes(&space->tensor[i]);
  wire_layout_finish(layout);
}
