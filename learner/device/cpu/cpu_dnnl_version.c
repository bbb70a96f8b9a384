#include "learner/device/cpu/cpu_dnnl_version.h"

#include <stdio.h>
#include <stdlib.h>

#include "learner/device/libraries.h"

void device_onednn_version(char *text, size_t bytes) {
  const dnnl_version_t *version = dnnl_version();
  snprintf(text, bytes, "%d.%d.%d", version->major, version->minor, version->patch);
}

void cpu_dnnl_arrays_deinit(struct cpu_dnnl_arrays *arrays) {
  cpu_dnnl_form_destroy(arrays->x);
  cpu_dnnl_form_destroy(arrays->weights);
  cpu_dnnl_form_destroy(arrays->bias);
  cpu_dnnl_form_destroy(arrays->y);
}

#if DNNL_VERSION_MAJOR >= 3

cpu_dnnl_form *cpu_dnnl_form_create(int rank, const dnnl_dims_t dims, dnnl_data_type_t type,
                                    dnnl_format_tag_t tag) {
  cpu_dnnl_form *form;
  DNNL(dnnl_memory_desc_create_with_tag(&form, rank, dims, type, tag));
  return form;
}

cpu_dnnl_form *cpu_dnnl_form_copy(const cpu_dnnl_form *form) {
  cpu_dnnl_form *copy;
  DNNL(dnnl_memory_desc_clone(&copy, form));
  return copy;
}

void cpu_dnnl_form_destroy(cpu_dnnl_form *form) {
  if (form) dnnl_memory_desc_destroy(form);
}

dnnl_status_t cpu_dnnl_describe_convolution(dnnl_primitive_desc_t *found, enum cpu_dnnl_pass pass,
                                            const struct cpu_dnnl_arrays *a,
                                            const struct cpu_dnnl_stride *s, dnnl_engine_t engine,
                                            dnnl_primitive_attr_t with,
                                            dnnl_primitive_desc_t forward) {
  const dnnl_alg_kind_t direct = dnnl_convolution_direct;
  switch (pass) {
    case PASS_FORWARD:
      return dnnl_convolution_forward_primitive_desc_create(
          found, engine, dnnl_forward_training, direct, a->x, a->weights, a->bias, a->y, s->step,
          NULL, s->before, s->after, with);
    case PASS_DATA:
      return dnnl_convolution_backward_data_primitive_desc_create(
          found, engine, direct, a->x, a->weights, a->y, s->step, NULL, s->before, s->after,
          forward, with);
    case PASS_WEIGHTS:
      return dnnl_convolution_backward_weights_primitive_desc_create(
          found, engine, direct, a->x, a->weights, a->bias, a->y, s->step, NULL, s->before,
          s->after, forward, with);
  }
  return dnnl_invalid_arguments;
}

dnnl_status_t cpu_dnnl_describe_product(dnnl_primitive_desc_t *found,
                                        const struct cpu_dnnl_arrays *a, dnnl_engine_t engine,
                                        dnnl_primitive_attr_t with) {
  return dnnl_matmul_primitive_desc_create(found, engine, a->x, a->weights, a->bias, a->y, with);
}

dnnl_status_t cpu_dnnl_append_sum(dnnl_post_ops_t after) {
  return dnnl_post_ops_append_sum(after, 1, 0, dnnl_data_type_undef);
}

dnnl_status_t cpu_dnnl_append_relu(dnnl_post_ops_t after) {
  return dnnl_post_ops_append_eltwise(after, dnnl_eltwise_relu, 0, 0);
}

#else

cpu_dnnl_form *cpu_dnnl_form_create(int rank, const dnnl_dims_t dims, dnnl_data_type_t type,
                                    dnnl_format_tag_t tag) {
  cpu_dnnl_form *form = check_alloc(1, sizeof(*form));
  DNNL(dnnl_memory_desc_init_by_tag(form, rank, dims, type, tag));
  return form;
}

cpu_dnnl_form *cpu_dnnl_form_copy(const cpu_dnnl_form *form) {
  cpu_dnnl_form *copy = check_alloc(1, sizeof(*copy));
  *copy = *form;
  return copy;
}

void cpu_dnnl_form_destroy(cpu_dnnl_form *form) {
  free(form);
}

dnnl_status_t cpu_dnnl_describe_convolution(dnnl_primitive_desc_t *found, enum cpu_dnnl_pass pass,
                                            const struct cpu_dnnl_arrays *a,
                                            const struct cpu_dnnl_stride *s, dnnl_engine_t engine,
                                            dnnl_primitive_attr_t with,
                                            dnnl_primitive_desc_t forward) {
  const dnnl_alg_kind_t direct = dnnl_convolution_direct;
  dnnl_convolution_desc_t operation;
  dnnl_status_t status = dnnl_invalid_arguments;
  switch (pass) {
    case PASS_FORWARD:
      status = dnnl_convolution_forward_desc_init(&operation, dnnl_forward_training, direct, a->x,
                                                  a->weights, a->bias, a->y, s->step, s->before,
                                                  s->after);
      break;
    case PASS_DATA:
      status = dnnl_convolution_backward_data_desc_init(&operation, direct, a->x, a->weights, a->y,
                                                        s->step, s->before, s->after);
      break;
    case PASS_WEIGHTS:
      status = dnnl_convolution_backward_weights_desc_init(
          &operation, direct, a->x, a->weights, a->bias, a->y, s->step, s->before, s->after);
      break;
  }
  if (status != dnnl_success) return status;
  return dnnl_primitive_desc_create(found, &operation, with, engine, forward);
}

dnnl_status_t cpu_dnnl_describe_product(dnnl_primitive_desc_t *found,
                                        const struct cpu_dnnl_arrays *a, dnnl_engine_t engine,
                                        dnnl_primitive_attr_t with) {
  dnnl_matmul_desc_t operation;
  dnnl_status_t status = dnnl_matmul_desc_init(&operation, a->x, a->weights, a->bias, a->y);
  if (status != dnnl_success) return status;
  return dnnl_primitive_desc_create(found, &operation, with, engine, NULL);
}

dnnl_status_t cpu_dnnl_append_sum(dnnl_post_ops_t after) {
  return dnnl_post_ops_append_sum(after, 1);
}

dnnl_status_t cpu_dnnl_append_relu(dnnl_post_ops_t after) {
  return dnnl_post_ops_append_eltwise(after, 1, dnnl_eltwise_relu, 0, 0);
}

#endif
