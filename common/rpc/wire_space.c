/* How an observation is laid out, on the wire and in a row. */
#include "common/base/check.h"
#include "common/rpc/wire.h"

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
