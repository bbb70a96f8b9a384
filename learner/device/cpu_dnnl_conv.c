/* DESIGN. A plan is a primitive for one pass over a chunk of one shape, made when the shape is
 * first seen and kept. Images are described as they lie in memory; only weights may have another
 * form, which oneDNN chooses.
 *
 * In bf16 what is read (images, weights, gradients from above) is bf16, what is written (and adds
 * up) is float. */
#include <stdlib.h>

#include "learner/device/cpu.h"
#include "learner/device/cpu_dnnl_engine.h"

enum { LARGEST_CHUNK = 32 };
enum pass { PASS_FORWARD, PASS_DATA, PASS_WEIGHTS };

/* How images lie in memory. With one channel, or 16, oneDNN has two names for the same bytes; for a
 * first layer of one channel and 16 outputs its kernels for the other names are a third faster. */
struct forms {
  dnnl_format_tag_t x, y;
};

/* Sizes in oneDNN's order: images (n, C, H, W), weights (O, C, size, size). */
struct shape {
  dnnl_dims_t x, weights, bias, y, stride, before, after;
};

struct plan {
  struct device_window window;
  int n;
  enum pass pass;
  bool relu;
  dnnl_primitive_t primitive;
  dnnl_memory_desc_t weights_form;
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
      .stride = {v->stride, v->stride},
      .before = {device_window_before(v, v->H), device_window_before(v, v->W)},
      .after = {device_window_after(v, v->H), device_window_after(v, v->W)},
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

/* (size, size, C, O), as the caller has them. */
static dnnl_memory_desc_t plain_weights(const struct shape *s) {
  return cpu_dnnl_describe(4, s->weights, dnnl_f32, dnnl_hwio);
}

/* ---- plans */

static bool same_window(const struct device_window *a, const struct device_window *b) {
  return a->H == b->H && a->W == b->W && a->C == b->C && a->O == b->O && a->size == b->size &&
         a->stride == b->stride && a->same == b->same;
}

/* The chunks' gradients are added up as they are, so all have the form that oneDNN has chosen for
 * the first one. */
static dnnl_memory_desc_t gradient_form(const struct cpu_dnnl *self,
                                        const struct device_window *window, const struct shape *s) {
  for (int i = 0; i < self->num_plans; i++)
    if (self->plan[i]->pass == PASS_WEIGHTS && same_window(&self->plan[i]->window, window))
      return self->plan[i]->weights_form;
  return cpu_dnnl_describe(4, s->weights, dnnl_f32, dnnl_format_tag_any);
}

/* The operation of one pass. Backward passes are described beside the forward they belong to. */
static dnnl_primitive_desc_t describe_pass(struct cpu_dnnl *self, const struct plan *plan,
                                           const struct shape *s) {
  struct forms forms = forms_of(&plan->window);
  dnnl_data_type_t low = type_of(self, &plan->window);
  dnnl_memory_desc_t x = cpu_dnnl_describe(4, s->x, low, forms.x),
                     y = cpu_dnnl_describe(4, s->y, low, forms.y);
  dnnl_memory_desc_t bias = cpu_dnnl_describe(1, s->bias, dnnl_f32, dnnl_a);
  dnnl_memory_desc_t weights = cpu_dnnl_describe(4, s->weights, low, dnnl_format_tag_any);
  dnnl_memory_desc_t written = cpu_dnnl_describe(4, plan->pass == PASS_DATA ? s->x : s->y, dnnl_f32,
                                                 plan->pass == PASS_DATA ? forms.x : forms.y);
  dnnl_memory_desc_t gradient = gradient_form(self, &plan->window, s);
  dnnl_convolution_desc_t forward, backward;
  dnnl_primitive_desc_t hint, found;
  /* _direct: the automatic choice takes Winograd's, which is slower here and less exact. */
  DNNL(dnnl_convolution_forward_desc_init(
      &forward, dnnl_forward_training, dnnl_convolution_direct, &x, &weights, &bias,
      plan->pass == PASS_FORWARD ? &written : &y, s->stride, s->before, s->after));
  dnnl_primitive_attr_t with = cpu_dnnl_attributes(false, plan->relu);
  DNNL(dnnl_primitive_desc_create(&hint, &forward, with, self->engine, NULL));
  DNNL(dnnl_primitive_attr_destroy(with));
  if (plan->pass == PASS_FORWARD) return hint;
  if (plan->pass == PASS_DATA)
    DNNL(dnnl_convolution_backward_data_desc_init(&backward, dnnl_convolution_direct, &written,
                                                  &weights, &y, s->stride, s->before, s->after));
  else
    DNNL(dnnl_convolution_backward_weights_desc_init(&backward, dnnl_convolution_direct, &x,
                                                     &gradient, &bias, &y, s->stride, s->before,
                                                     s->after));
  DNNL(dnnl_primitive_desc_create(&found, &backward, NULL, self->engine, hint));
  DNNL(dnnl_primitive_desc_destroy(hint));
  return found;
}

static struct plan *make_plan(struct cpu_dnnl *self, const struct plan *key) {
  struct plan *plan = check_alloc(1, sizeof(*plan));
  *plan = *key;
  struct shape s = shape_of(&plan->window, plan->n);
  dnnl_primitive_desc_t found = describe_pass(self, plan, &s);
  DNNL(dnnl_primitive_create(&plan->primitive, found));
  dnnl_query_t weights =
      plan->pass == PASS_WEIGHTS ? dnnl_query_diff_weights_md : dnnl_query_weights_md;
  plan->weights_form = *dnnl_primitive_desc_query_md(found, weights, 0);
  DNNL(dnnl_primitive_desc_destroy(found));
  struct forms forms = forms_of(&plan->window);
  dnnl_data_type_t low = type_of(self, &plan->window);
  dnnl_memory_desc_t x =
      cpu_dnnl_describe(4, s.x, plan->pass == PASS_DATA ? dnnl_f32 : low, forms.x);
  dnnl_memory_desc_t y =
      cpu_dnnl_describe(4, s.y, plan->pass == PASS_FORWARD ? dnnl_f32 : low, forms.y);
  dnnl_memory_desc_t bias = cpu_dnnl_describe(1, s.bias, dnnl_f32, dnnl_a);
  plan->x = cpu_dnnl_memory(self, &x);
  plan->weights = cpu_dnnl_memory(self, &plan->weights_form);
  plan->bias = cpu_dnnl_memory(self, &bias);
  plan->y = cpu_dnnl_memory(self, &y);
  self->plan = realloc(self->plan, (size_t)(self->num_plans + 1) * sizeof(struct plan *));
  CHECK(self->plan, "no memory for a plan");
  return self->plan[self->num_plans++] = plan;
}

static struct plan *plan_of(struct cpu_dnnl *self, enum pass pass, bool relu,
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
  free(plan);
}

void cpu_dnnl_destroy_plans(struct cpu_dnnl *self) {
  for (int i = 0; i < self->num_plans; i++) destroy_plan(self->plan[i]);
  free(self->plan);
}

/* ---- passes */

static const void *weights_for(struct cpu_dnnl *self, const struct plan *plan,
                               const float *weights) {
  struct shape s = shape_of(&plan->window, plan->n);
  dnnl_memory_desc_t plain = plain_weights(&s);
  return cpu_dnnl_keep(self, &plan->weights_form, weights, &plain);
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
  return (dnnl_memory_desc_get_size(&plan->weights_form) + 63) / 64 * 16;
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
  struct shape s = shape_of(window, 1);
  dnnl_memory_desc_t plain = plain_weights(&s);
  const float *biases = self->sum + form_floats(plan);
  cpu_dnnl_convert(self, add ? self->part : dw, &plain, self->sum, &plan->weights_form);
  size_t weights = dnnl_memory_desc_get_size(&plain) / sizeof(float);
  for (size_t i = 0; add && i < weights; i++) dw[i] += self->part[i];
  for (int o = 0; o < window->O; o++) db[o] = biases[o] + (add ? db[o] : 0);
}
