/* DESIGN. A plan is a primitive for one pass over a chunk of one shape, made when the shape is
 * first seen and kept. Images are described as they lie in memory; only weights may have another
 * form, which oneDNN chooses.
 *
 * In bf16 what is read (images, weights, gradients from above) is bf16, what is written (and adds
 * up) is float. */
#include <stdlib.h>

#include "learner/device/cpu/cpu.h"
#include "learner/device/cpu/cpu_dnnl_engine.h"

enum { LARGEST_CHUNK = 32 };

/* How images lie in memory. With one channel, or 16, oneDNN has two names for the same bytes; for a
 * first layer of one channel and 16 outputs its kernels for the other names are a third faster. */
struct forms {
  dnnl_format_tag_t x, y;
};

/* Sizes in oneDNN's order: images (n, C, H, W), weights (O, C, size, size). */
struct shape {
  dnnl_dims_t x, weights, bias, y;
  struct cpu_dnnl_stride stride;
};

struct plan {
  struct device_window window;
  int n;
  enum cpu_dnnl_pass pass;
  bool relu;
  dnnl_primitive_t primitive;
  cpu_dnnl_form *weights_form, *plain_form; /* plain: (size, size, C, O), as the caller has them */
  dnnl_memory_t x, weights, bias, y;
};

int cpu_dnnl_chunk(int B) {
  int n = LARGEST_CHUNK;
  while (n > B) n /= 2;
  return n;
}

/* ---- descriptions */

static struct shape shape_of(const struct device_window *v, int n) {
  return (struct shape){
      .x = {n, v->C, v->H, v->W},
      .weights = {v->O, v->C, v->size, v->size},
      .bias = {v->O},
      .y = {n, v->O, device_window_rows(v), device_window_columns(v)},
      .stride = {.step = {v->stride, v->stride},
                 .before = {device_window_before(v, v->H), device_window_before(v, v->W)},
                 .after = {device_window_after(v, v->H), device_window_after(v, v->W)}},
  };
}

/* With one channel the kernels for floats are the faster ones. */
static dnnl_data_type_t type_of(const struct cpu_dnnl *self, const struct device_window *v) {
  return v->C > 1 ? self->type : dnnl_f32;
}

bool cpu_dnnl_reads_bf16(const struct device *d, const struct device_window *window) {
  return ((const struct cpu *)d)->bf16 && window->C > 1;
}

static struct forms forms_of(const struct device_window *v) {
  bool blocked = v->C == 1 && v->O == 16 && cpu_dnnl_can(dnnl_cpu_isa_avx512_core);
  return blocked ? (struct forms){dnnl_nchw, dnnl_nChw16c} : (struct forms){dnnl_nhwc, dnnl_nhwc};
}

/* ---- plans */

static bool same_window(const struct device_window *a, const struct device_window *b) {
  return a->H == b->H && a->W == b->W && a->C == b->C && a->O == b->O && a->size == b->size &&
         a->stride == b->stride && a->same == b->same;
}

/* The chunks' gradients are added up as they are, so all have the form that oneDNN has chosen for
 * the first one. */
static cpu_dnnl_form *gradient_form(const struct cpu_dnnl *self, const struct device_window *window,
                                    const struct shape *s) {
  for (int i = 0; i < self->num_plans; i++)
    if (self->plan[i]->pass == PASS_WEIGHTS && same_window(&self->plan[i]->window, window))
      return cpu_dnnl_form_copy(self->plan[i]->weights_form);
  return cpu_dnnl_form_create(4, s->weights, dnnl_f32, dnnl_format_tag_any);
}

/* What an operation of this pass reads is low, what it writes is float. */
static struct cpu_dnnl_arrays describe_arrays(const struct cpu_dnnl *self,
                                              const struct device_window *window,
                                              const struct shape *s, enum cpu_dnnl_pass pass) {
  struct forms forms = forms_of(window);
  dnnl_data_type_t low = type_of(self, window);
  return (struct cpu_dnnl_arrays){
      .x = cpu_dnnl_form_create(4, s->x, pass == PASS_DATA ? dnnl_f32 : low, forms.x),
      .weights = pass == PASS_WEIGHTS
                     ? gradient_form(self, window, s)
                     : cpu_dnnl_form_create(4, s->weights, low, dnnl_format_tag_any),
      .bias = cpu_dnnl_form_create(1, s->bias, dnnl_f32, dnnl_a),
      .y = cpu_dnnl_form_create(4, s->y, pass == PASS_FORWARD ? dnnl_f32 : low, forms.y),
  };
}

/* A backward pass is described beside the forward that it belongs to, whose y is low too. */
static dnnl_primitive_desc_t describe_backward(struct cpu_dnnl *self, const struct plan *plan,
                                               const struct cpu_dnnl_arrays *arrays,
                                               const struct shape *s) {
  dnnl_primitive_desc_t forward, found;
  struct cpu_dnnl_arrays below = describe_arrays(self, &plan->window, s, PASS_FORWARD);
  cpu_dnnl_form_destroy(below.y);
  below.y = cpu_dnnl_form_copy(arrays->y);
  DNNL(cpu_dnnl_describe_convolution(&forward, PASS_FORWARD, &below, &s->stride, self->engine, NULL,
                                     NULL));
  DNNL(cpu_dnnl_describe_convolution(&found, plan->pass, arrays, &s->stride, self->engine, NULL,
                                     forward));
  DNNL(dnnl_primitive_desc_destroy(forward));
  cpu_dnnl_arrays_deinit(&below);
  return found;
}

static dnnl_primitive_desc_t describe_forward(struct cpu_dnnl *self, const struct plan *plan,
                                              const struct cpu_dnnl_arrays *arrays,
                                              const struct shape *s) {
  dnnl_primitive_desc_t found;
  dnnl_primitive_attr_t with = cpu_dnnl_attributes(false, plan->relu);
  DNNL(cpu_dnnl_describe_convolution(&found, PASS_FORWARD, arrays, &s->stride, self->engine, with,
                                     NULL));
  DNNL(dnnl_primitive_attr_destroy(with));
  return found;
}

static struct plan *make_plan(struct cpu_dnnl *self, const struct plan *key) {
  struct plan *plan = check_alloc(1, sizeof(*plan));
  *plan = *key;
  struct shape s = shape_of(&plan->window, plan->n);
  struct cpu_dnnl_arrays arrays = describe_arrays(self, &plan->window, &s, plan->pass);
  dnnl_primitive_desc_t found = plan->pass == PASS_FORWARD
                                    ? describe_forward(self, plan, &arrays, &s)
                                    : describe_backward(self, plan, &arrays, &s);
  DNNL(dnnl_primitive_create(&plan->primitive, found));
  dnnl_query_t weights =
      plan->pass == PASS_WEIGHTS ? dnnl_query_diff_weights_md : dnnl_query_weights_md;
  plan->weights_form = cpu_dnnl_form_copy(dnnl_primitive_desc_query_md(found, weights, 0));
  DNNL(dnnl_primitive_desc_destroy(found));
  plan->plain_form = cpu_dnnl_form_create(4, s.weights, dnnl_f32, dnnl_hwio);
  plan->x = cpu_dnnl_memory(self, arrays.x);
  plan->weights = cpu_dnnl_memory(self, plan->weights_form);
  plan->bias = cpu_dnnl_memory(self, arrays.bias);
  plan->y = cpu_dnnl_memory(self, arrays.y);
  cpu_dnnl_arrays_deinit(&arrays);
  self->plan = realloc(self->plan, (size_t)(self->num_plans + 1) * sizeof(struct plan *));
  CHECK(self->plan, "no memory for a plan");
  return self->plan[self->num_plans++] = plan;
}

static struct plan *plan_of(struct cpu_dnnl *self, enum cpu_dnnl_pass pass, bool relu,
                            const struct device_window *window, int n) {
  for (int i = 0; i < self->num_plans; i++) {
    struct plan *plan = self->plan[i];
    if (plan->n == n && plan->pass == pass && plan->relu == relu &&
        same_window(&plan->window, window))
      return plan;
  }
  return make_plan(self, &(struct plan){.window = *window, .n = n, .pass = pass, .relu = relu});
}

static void destroy_plan(struct plan *plan) {
  dnnl_memory_t memories[] = {plan->x, plan->weights, plan->bias, plan->y};
  for (int i = 0; i < 4; i++)
    if (memories[i]) dnnl_memory_destroy(memories[i]);
  dnnl_primitive_destroy(plan->primitive);
  cpu_dnnl_form_destroy(plan->weights_form);
  cpu_dnnl_form_destroy(plan->plain_form);
  free(plan);
}

void cpu_dnnl_destroy_plans(struct cpu_dnnl *self) {
  for (int i = 0; i < self->num_plans; i++) destroy_plan(self->plan[i]);
  free(self->plan);
}

/* ---- passes */

static const void *weights_for(struct cpu_dnnl *self, const struct plan *plan,
                               const float *weights) {
  return cpu_dnnl_keep(self, plan->weights_form, weights, plan->plain_form);
}

void cpu_dnnl_forward(struct device *d, float *y, const void *x, const float *weights,
                      const float *b, bool relu, const struct device_window *window, int n) {
  struct cpu_dnnl *self = cpu_dnnl_open(d);
  struct plan *plan = plan_of(self, PASS_FORWARD, relu, window, n);
  cpu_dnnl_point(plan->x, x);
  cpu_dnnl_point(plan->weights, weights_for(self, plan, weights));
  cpu_dnnl_point(plan->bias, b);
  cpu_dnnl_point(plan->y, y);
  cpu_dnnl_execute(self, plan->primitive,
                   (dnnl_exec_arg_t[]){{DNNL_ARG_SRC, plan->x},
                                       {DNNL_ARG_WEIGHTS, plan->weights},
                                       {DNNL_ARG_BIAS, plan->bias},
                                       {DNNL_ARG_DST, plan->y}},
                   4);
}

void cpu_dnnl_backward_data(struct device *d, float *dx, const void *dy, const float *weights,
                            const struct device_window *window, int n) {
  struct cpu_dnnl *self = cpu_dnnl_open(d);
  struct plan *plan = plan_of(self, PASS_DATA, false, window, n);
  cpu_dnnl_point(plan->x, dx);
  cpu_dnnl_point(plan->weights, weights_for(self, plan, weights));
  cpu_dnnl_point(plan->y, dy);
  cpu_dnnl_execute(self, plan->primitive,
                   (dnnl_exec_arg_t[]){{DNNL_ARG_DIFF_SRC, plan->x},
                                       {DNNL_ARG_WEIGHTS, plan->weights},
                                       {DNNL_ARG_DIFF_DST, plan->y}},
                   3);
}

/* Floats of the weights' gradient in oneDNN's form, whole cache lines. */
static size_t form_floats(const struct plan *plan) {
  return (dnnl_memory_desc_get_size(plan->weights_form) + 63) / 64 * 16;
}

static void make_room(struct cpu_dnnl *self, size_t floats) {
  if (self->room >= floats) return;
  free(self->part);
  free(self->sum);
  self->part = check_alloc(floats, sizeof(float));
  self->sum = check_alloc(floats, sizeof(float));
  self->room = floats;
}

void cpu_dnnl_backward_weights(struct device *d, const void *dy, const void *x,
                               const struct device_window *window, int n, bool first) {
  struct cpu_dnnl *self = cpu_dnnl_open(d);
  struct plan *plan = plan_of(self, PASS_WEIGHTS, false, window, n);
  size_t weights = form_floats(plan), floats = weights + (size_t)window->O;
  make_room(self, floats);
  float *to = first ? self->sum : self->part;
  cpu_dnnl_point(plan->x, x);
  cpu_dnnl_point(plan->weights, to);
  cpu_dnnl_point(plan->bias, to + weights);
  cpu_dnnl_point(plan->y, dy);
  cpu_dnnl_execute(self, plan->primitive,
                   (dnnl_exec_arg_t[]){{DNNL_ARG_SRC, plan->x},
                                       {DNNL_ARG_DIFF_WEIGHTS, plan->weights},
                                       {DNNL_ARG_DIFF_BIAS, plan->bias},
                                       {DNNL_ARG_DIFF_DST, plan->y}},
                   4);
  for (size_t i = 0; !first && i < floats; i++) self->sum[i] += self->part[i];
}

void cpu_dnnl_finish_weights(struct device *d, float *dw, float *db,
                             const struct device_window *window, bool add) {
  struct cpu_dnnl *self = cpu_dnnl_open(d);
  struct plan *plan = plan_of(self, PASS_WEIGHTS, false, window, 1);
  const float *biases = self->sum + form_floats(plan);
  cpu_dnnl_convert(self, add ? self->part : dw, plan->plain_form, self->sum, plan->weights_form);
  size_t weights = dnnl_memory_desc_get_size(plan->plain_form) / sizeof(float);
  for (size_t i = 0; add && i < weights; i++) dw[i] += self->part[i];
  for (int o = 0; o < window->O; o++) db[o] = biases[o] + (add ? db[o] : 0);
}
