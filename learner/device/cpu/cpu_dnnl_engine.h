/* What convolutions and products by oneDNN share: the engine, descriptions, and weights in forms of
 * oneDNN's. Upstream: cpu_dnnl.c, cpu_dnnl_conv.c, cpu_dnnl_product.c. Thread: the device's.
 * Errors: a failure inside oneDNN is fatal. */
#ifndef ACORN_LEARNER_DEVICE_CPU_CPU_DNNL_ENGINE_H
#define ACORN_LEARNER_DEVICE_CPU_CPU_DNNL_ENGINE_H

#include "learner/device/cpu/cpu_dnnl.h"
#include "learner/device/cpu/cpu_dnnl_version.h"

struct plan;    /* cpu_dnnl_conv.c's */
struct product; /* cpu_dnnl_product.c's */
struct kept;    /* cpu_dnnl.c's */

struct cpu_dnnl {
  dnnl_engine_t engine;
  dnnl_stream_t stream;
  int64_t version; /* counts weights_changed */
  struct plan **plan;
  int num_plans;
  struct product **product;
  int num_products;
  dnnl_data_type_t type; /* of what is read */
  struct kept *kept;
  int num_kept;
  /* gradients of one chunk, and of the chunks so far: weights in oneDNN's form, then the biases */
  float *part, *sum;
  size_t room; /* floats of each */
};

/* The device's own, made when it is first asked for. Owner: the device. */
struct cpu_dnnl *cpu_dnnl_open(struct device *d);
void cpu_dnnl_destroy_plans(struct cpu_dnnl *self);
void cpu_dnnl_destroy_products(struct cpu_dnnl *self);

/* Whether oneDNN may use all of these instructions here. */
bool cpu_dnnl_can(dnnl_cpu_isa_t isa);
/* Points nowhere yet. Owner: the caller. */
dnnl_memory_t cpu_dnnl_memory(struct cpu_dnnl *self, const cpu_dnnl_form *form);
/* What is done to the result before it is written: added to what was there; relu. */
dnnl_primitive_attr_t cpu_dnnl_attributes(bool add, bool relu);

/* The memory is at `data` from now on. Memories only read are not const to oneDNN. */
void cpu_dnnl_point(dnnl_memory_t memory, const void *data);
/* Returns when the result is there. */
void cpu_dnnl_execute(struct cpu_dnnl *self, dnnl_primitive_t primitive,
                      const dnnl_exec_arg_t *args, int count);
/* to = from, between two forms of the same array. */
void cpu_dnnl_convert(struct cpu_dnnl *self, void *to, const cpu_dnnl_form *to_form,
                      const float *from, const cpu_dnnl_form *from_form);
/* The weights, which lie in plain_form, in another form: made once for each version of the
 * parameters. Owner: self, until weights_changed; of the forms, the caller, until self is
 * destroyed. */
const void *cpu_dnnl_keep(struct cpu_dnnl *self, const cpu_dnnl_form *form, const float *weights,
                          const cpu_dnnl_form *plain_form);

#endif
