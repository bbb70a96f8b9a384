/* oneDNN 2 and 3 under one set of names: only the calls that the two versions spell differently.
 *
 * Version 3 made memory descriptors opaque and creates an operation in one call; version 2 has
 * plain structs and fills in an operation descriptor first. Everything else is the same in both and
 * is called directly. A form is a memory descriptor: shape, data type and order in memory.
 * Upstream: cpu_dnnl_engine.h, tests/bench/bench_pixels.c. Thread: any.
 * Errors: a form that cannot be made is fatal; the others return oneDNN's status. */
#ifndef ACORN_LEARNER_DEVICE_CPU_CPU_DNNL_VERSION_H
#define ACORN_LEARNER_DEVICE_CPU_CPU_DNNL_VERSION_H

#include <oneapi/dnnl/dnnl.h>

#include "common/base/check.h"

#define DNNL(call)                                                                \
  do {                                                                            \
    dnnl_status_t status_ = (call);                                               \
    CHECK(status_ == dnnl_success, "oneDNN failed with status %d", (int)status_); \
  } while (0)

#if DNNL_VERSION_MAJOR >= 3
typedef struct dnnl_memory_desc cpu_dnnl_form;
#else
typedef dnnl_memory_desc_t cpu_dnnl_form;
#endif

/* Owner: the caller, of this one and of a copy. */
cpu_dnnl_form *cpu_dnnl_form_create(int rank, const dnnl_dims_t dims, dnnl_data_type_t type,
                                    dnnl_format_tag_t tag);
cpu_dnnl_form *cpu_dnnl_form_copy(const cpu_dnnl_form *form);
/* NULL is fine. */
void cpu_dnnl_form_destroy(cpu_dnnl_form *form);

/* An operation's arrays, or their gradients where the operation writes those; bias may be NULL.
 * Owner: the caller, who destroys all four. */
struct cpu_dnnl_arrays {
  cpu_dnnl_form *x, *weights, *bias, *y;
};
void cpu_dnnl_arrays_deinit(struct cpu_dnnl_arrays *arrays);

enum cpu_dnnl_pass { PASS_FORWARD, PASS_DATA, PASS_WEIGHTS };

struct cpu_dnnl_stride {
  dnnl_dims_t step, before, after; /* rows, columns; before and after: padding */
};

/* Convolution by the direct algorithm: the automatic choice takes Winograd's, which is slower here
 * and less exact. forward: of the same shape, for a backward pass; else NULL. */
dnnl_status_t cpu_dnnl_describe_convolution(dnnl_primitive_desc_t *found, enum cpu_dnnl_pass pass,
                                            const struct cpu_dnnl_arrays *arrays,
                                            const struct cpu_dnnl_stride *stride,
                                            dnnl_engine_t engine, dnnl_primitive_attr_t with,
                                            dnnl_primitive_desc_t forward);
/* y = x weights + bias */
dnnl_status_t cpu_dnnl_describe_product(dnnl_primitive_desc_t *found,
                                        const struct cpu_dnnl_arrays *arrays, dnnl_engine_t engine,
                                        dnnl_primitive_attr_t with);

/* What is done to a result before it is written: added to what was there; relu. */
dnnl_status_t cpu_dnnl_append_sum(dnnl_post_ops_t after);
dnnl_status_t cpu_dnnl_append_relu(dnnl_post_ops_t after);

#endif
