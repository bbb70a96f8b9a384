/* DESIGN. Weights in a form of oneDNN's are kept by the address of the plain ones until
 * weights_changed: so they are made once for each version of the parameters. */
#include "learner/device/cpu/cpu_dnnl.h"

#include <omp.h>
#include <stdlib.h>

#include "learner/device/cpu/cpu.h"
#include "learner/device/cpu/cpu_dnnl_engine.h"

/* Weights in a form of oneDNN's. */
struct kept {
  const float *plain; /* the caller's, by address */
  const cpu_dnnl_form *plain_form;
  int64_t version; /* of the device's weights when it was made */
  const cpu_dnnl_form *form;
  void *memory;
};

struct cpu_dnnl *cpu_dnnl_open(struct device *d) {
  struct cpu *cpu = (struct cpu *)d;
  omp_set_num_threads(1); /* of the calling thread */
  if (cpu->dnnl) return cpu->dnnl;
  struct cpu_dnnl *self = cpu->dnnl = check_alloc(1, sizeof(*self));
  self->type = cpu->bf16 ? dnnl_bf16 : dnnl_f32;
  DNNL(dnnl_engine_create(&self->engine, dnnl_cpu, 0));
  DNNL(dnnl_stream_create(&self->stream, self->engine, dnnl_stream_default_flags));
  return self;
}

void cpu_dnnl_destroy(struct cpu_dnnl *self) {
  if (!self) return;
  cpu_dnnl_destroy_plans(self);
  cpu_dnnl_destroy_products(self);
  for (int i = 0; i < self->num_kept; i++) free(self->kept[i].memory);
  dnnl_stream_destroy(self->stream);
  dnnl_engine_destroy(self->engine);
  free(self->kept);
  free(self->part);
  free(self->sum);
  free(self);
}

void cpu_dnnl_weights_changed(struct device *d) {
  struct cpu *cpu = (struct cpu *)d;
  if (cpu->dnnl) cpu->dnnl->version++;
}

void cpu_dnnl_array_changed(struct device *d, const float *weights) {
  enum { NO_VERSION = -1 };
  struct cpu_dnnl *self = ((struct cpu *)d)->dnnl;
  for (int i = 0; self && i < self->num_kept; i++)
    if (self->kept[i].plain == weights) self->kept[i].version = NO_VERSION;
}

/* The sets of instructions are sets of bits, not in an order: AVX2 with VNNI is a larger number
 * than AVX-512 with AMX. */
bool cpu_dnnl_can(dnnl_cpu_isa_t isa) {
  return ((unsigned)dnnl_get_effective_cpu_isa() & (unsigned)isa) == (unsigned)isa;
}

bool cpu_dnnl_has_bf16(void) {
  return cpu_dnnl_can(dnnl_cpu_isa_avx512_core);
}

bool cpu_dnnl_has_fast_bf16(void) {
  return cpu_dnnl_can(dnnl_cpu_isa_avx512_core_bf16); /* a part of what AMX brings */
}

/* ---- descriptions */

dnnl_memory_t cpu_dnnl_memory(struct cpu_dnnl *self, const cpu_dnnl_form *form) {
  dnnl_memory_t memory;
  DNNL(dnnl_memory_create(&memory, form, self->engine, DNNL_MEMORY_NONE));
  return memory;
}

dnnl_primitive_attr_t cpu_dnnl_attributes(bool add, bool relu) {
  dnnl_primitive_attr_t attributes;
  dnnl_post_ops_t after;
  DNNL(dnnl_primitive_attr_create(&attributes));
  DNNL(dnnl_post_ops_create(&after));
  if (add) DNNL(cpu_dnnl_append_sum(after));
  if (relu) DNNL(cpu_dnnl_append_relu(after));
  DNNL(dnnl_primitive_attr_set_post_ops(attributes, after));
  DNNL(dnnl_post_ops_destroy(after));
  return attributes;
}

/* ---- running */

void cpu_dnnl_point(dnnl_memory_t memory, const void *data) {
  DNNL(dnnl_memory_set_data_handle(memory, (void *)data));
}

void cpu_dnnl_execute(struct cpu_dnnl *self, dnnl_primitive_t primitive,
                      const dnnl_exec_arg_t *args, int count) {
  DNNL(dnnl_primitive_execute(primitive, self->stream, count, args));
  DNNL(dnnl_stream_wait(self->stream));
}

void cpu_dnnl_convert(struct cpu_dnnl *self, void *to, const cpu_dnnl_form *to_form,
                      const float *from, const cpu_dnnl_form *from_form) {
  dnnl_primitive_desc_t found;
  dnnl_primitive_t reorder;
  DNNL(dnnl_reorder_primitive_desc_create(&found, from_form, self->engine, to_form, self->engine,
                                          NULL));
  DNNL(dnnl_primitive_create(&reorder, found));
  DNNL(dnnl_primitive_desc_destroy(found));
  dnnl_memory_t source = cpu_dnnl_memory(self, from_form), target = cpu_dnnl_memory(self, to_form);
  cpu_dnnl_point(source, from);
  cpu_dnnl_point(target, to);
  cpu_dnnl_execute(self, reorder,
                   (dnnl_exec_arg_t[]){{DNNL_ARG_FROM, source}, {DNNL_ARG_TO, target}}, 2);
  dnnl_memory_destroy(source);
  dnnl_memory_destroy(target);
  dnnl_primitive_destroy(reorder);
}

/* ---- weights in a form of oneDNN's */

/* An entry for weights that are not kept: of an older version in the same form, or a new one. */
static struct kept *room_to_keep(struct cpu_dnnl *self, const cpu_dnnl_form *form) {
  for (int i = 0; i < self->num_kept; i++)
    if (self->kept[i].version != self->version && dnnl_memory_desc_equal(self->kept[i].form, form))
      return &self->kept[i];
  self->kept = realloc(self->kept, (size_t)(self->num_kept + 1) * sizeof(struct kept));
  CHECK(self->kept, "no memory for weights");
  struct kept *kept = &self->kept[self->num_kept++];
  *kept = (struct kept){.form = form, .memory = check_alloc(1, dnnl_memory_desc_get_size(form))};
  return kept;
}

const void *cpu_dnnl_keep(struct cpu_dnnl *self, const cpu_dnnl_form *form, const float *weights,
                          const cpu_dnnl_form *plain_form) {
  for (int i = 0; i < self->num_kept; i++) {
    const struct kept *kept = &self->kept[i];
    if (kept->plain == weights && kept->version == self->version &&
        dnnl_memory_desc_equal(kept->form, form) &&
        dnnl_memory_desc_equal(kept->plain_form, plain_form))
      return kept->memory;
  }
  struct kept *kept = room_to_keep(self, form);
  cpu_dnnl_convert(self, kept->memory, form, weights, plain_form);
  kept->plain = weights;
  kept->plain_form = plain_form;
  kept->version = self->version;
  return kept->memory;
}
