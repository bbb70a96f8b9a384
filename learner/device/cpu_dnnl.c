/* DESIGN. A plan is a primitive for one pass over a chunk of one shape, made when the shape is
 * first seen and kept. Images are described as they lie in memory; only weights may have another
 * form, which oneDNN chooses. Weights in that form are kept by address until weights_changed: so
 * they are made once for each version of the parameters.
 *
 * In bf16 what is read (images, weights, gradients from above) is bf16, what is written (and adds
 * up) is float. */
#include "learner/device/cpu_dnnl.h"

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "learner/device/cpu.h"

#define DNNL(call)                                                                \
  do {                                                                            \
    dnnl_status_t status_ = (call);                                               \
    CHECK(status_ == dnnl_success, "oneDNN failed with status %d", (int)status_); \
  } while (0)

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

/* C (M, N) = A (M, K) B (K, N). */
struct product {
  struct cpu_dnnl_product shape;
  dnnl_primitive_t primitive;
  dnnl_memory_desc_t b_form;
  dnnl_memory_t a, b, bias, c;
};

/* Weights in a form of oneDNN's. */
struct kept {
  const float *plain; /* the caller's, by address */
  dnnl_memory_desc_t plain_form;
  int64_t version; /* of the device's weights when it was made */
  dnnl_memory_desc_t form;
  void *memory;
};

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

static struct cpu_dnnl *open(struct device *d) {
  struct cpu *cpu = (struct cpu *)d;
  omp_set_num_threads(1); /* of the calling thread */
  if (cpu->dnnl) return cpu->dnnl;
  struct cpu_dnnl *self = cpu->dnnl = check_alloc(1, sizeof(*self));
  self->type = cpu->bf16 ? dnnl_bf16 : dnnl_f32;
  DNNL(dnnl_engine_create(&self->engine, dnnl_cpu, 0));
  DNNL(dnnl_stream_create(&self->stream, self->engine, dnnl_stream_default_flags));
  return self;
}

static void destroy_plan(struct plan *plan) {
  dnnl_memory_t memories[] = {plan->x, plan->weights, plan->bias, plan->y};
  for (int i = 0; i < 4; i++)
    if (memories[i]) dnnl_memory_destroy(memories[i]);
  dnnl_primitive_destroy(plan->primitive);
  free(plan);
}

static void destroy_product(struct product *product) {
  dnnl_memory_t memories[] = {product->a, product->b, product->bias, product->c};
  for (int i = 0; i < 4; i++) dnnl_memory_destroy(memories[i]);
  dnnl_primitive_destroy(product->primitive);
  free(product);
}

void cpu_dnnl_destroy(struct cpu_dnnl *self) {
  if (!self) return;
  for (int i = 0; i < self->num_plans; i++) destroy_plan(self->plan[i]);
  for (int i = 0; i < self->num_products; i++) destroy_product(self->product[i]);
  free(self->product);
  for (int i = 0; i < self->num_kept; i++) free(self->kept[i].memory);
  dnnl_stream_destroy(self->stream);
  dnnl_engine_destroy(self->engine);
  free(self->plan);
  free(self->kept);
  free(self->part);
  free(self->sum);
  free(self);
}

void cpu_dnnl_weights_changed(struct device *d) {
  struct cpu *cpu = (struct cpu *)d;
  if (cpu->dnnl) cpu->dnnl->version++;
}

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

static dnnl_memory_desc_t describe(int rank, const dnnl_dims_t dims, dnnl_data_type_t type,
                                   dnnl_format_tag_t tag) {
  dnnl_memory_desc_t form;
  DNNL(dnnl_memory_desc_init_by_tag(&form, rank, dims, type, tag));
  return form;
}

static struct forms forms_of(const struct device_window *v) {
  bool blocked =
      v->C == 1 && v->O == 16 && dnnl_get_effective_cpu_isa() >= dnnl_cpu_isa_avx512_core;
  return blocked ? (struct forms){dnnl_nchw, dnnl_nChw16c} : (struct forms){dnnl_nhwc, dnnl_nhwc};
}

/* (size, size, C, O), as the caller has them. */
static dnnl_memory_desc_t plain_weights(const struct shape *s) {
  return describe(4, s->weights, dnnl_f32, dnnl_hwio);
}

/* What is done to the result before it is written: added to what was there; relu. */
static dnnl_primitive_attr_t attributes(bool add, bool relu) {
  dnnl_primitive_attr_t attributes;
  dnnl_post_ops_t after;
  DNNL(dnnl_primitive_attr_create(&attributes));
  DNNL(dnnl_post_ops_create(&after));
  if (add) DNNL(dnnl_post_ops_append_sum(after, 1));
  if (relu) DNNL(dnnl_post_ops_append_eltwise(after, 1, dnnl_eltwise_relu, 0, 0));
  DNNL(dnnl_primitive_attr_set_post_ops(attributes, after));
  DNNL(dnnl_post_ops_destroy(after));
  return attributes;
}

/* ---- plans */

/* The operation of one pass. Backward passes are described beside the forward they belong to. */
static dnnl_primitive_desc_t describe_pass(struct cpu_dnnl *self, const struct plan *plan,
                                           const struct shape *s) {
  struct forms forms = forms_of(&plan->window);
  dnnl_data_type_t low = type_of(self, &plan->window);
  dnnl_memory_desc_t x = describe(4, s->x, low, forms.x), y = describe(4, s->y, low, forms.y);
  dnnl_memory_desc_t bias = describe(1, s->bias, dnnl_f32, dnnl_a);
  dnnl_memory_desc_t weights = describe(4, s->weights, low, dnnl_format_tag_any);
  dnnl_memory_desc_t written = describe(4, plan->pass == PASS_DATA ? s->x : s->y, dnnl_f32,
                                        plan->pass == PASS_DATA ? forms.x : forms.y);
  dnnl_memory_desc_t gradient = describe(4, s->weights, dnnl_f32, dnnl_format_tag_any);
  dnnl_convolution_desc_t forward, backward;
  dnnl_primitive_desc_t hint, found;
  /* _direct: the automatic choice takes Winograd's, which is slower here and less exact. */
  DNNL(dnnl_convolution_forward_desc_init(
      &forward, dnnl_forward_training, dnnl_convolution_direct, &x, &weights, &bias,
      plan->pass == PASS_FORWARD ? &written : &y, s->stride, s->before, s->after));
  dnnl_primitive_attr_t with = attributes(false, plan->relu);
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

static dnnl_memory_t memory_of(struct cpu_dnnl *self, const dnnl_memory_desc_t *form) {
  dnnl_memory_t memory;
  DNNL(dnnl_memory_create(&memory, form, self->engine, DNNL_MEMORY_NONE));
  return memory;
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
  dnnl_memory_desc_t x = describe(4, s.x, plan->pass == PASS_DATA ? dnnl_f32 : low, forms.x);
  dnnl_memory_desc_t y = describe(4, s.y, plan->pass == PASS_FORWARD ? dnnl_f32 : low, forms.y);
  dnnl_memory_desc_t bias = describe(1, s.bias, dnnl_f32, dnnl_a);
  plan->x = memory_of(self, &x);
  plan->weights = memory_of(self, &plan->weights_form);
  plan->bias = memory_of(self, &bias);
  plan->y = memory_of(self, &y);
  self->plan = realloc(self->plan, (size_t)(self->num_plans + 1) * sizeof(struct plan *));
  CHECK(self->plan, "no memory for a plan");
  return self->plan[self->num_plans++] = plan;
}

static bool same_window(const struct device_window *a, const struct device_window *b) {
  return a->H == b->H && a->W == b->W && a->C == b->C && a->O == b->O && a->size == b->size &&
         a->stride == b->stride && a->same == b->same;
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

/* ---- running */

/* Memories only read are not const to oneDNN. */
static void at(dnnl_memory_t memory, const void *data) {
  DNNL(dnnl_memory_set_data_handle(memory, (void *)data));
}

static void execute(struct cpu_dnnl *self, dnnl_primitive_t primitive, const dnnl_exec_arg_t *args,
                    int count) {
  DNNL(dnnl_primitive_execute(primitive, self->stream, count, args));
  DNNL(dnnl_stream_wait(self->stream));
}

/* to = from, between two forms of the same array. */
static void convert(struct cpu_dnnl *self, void *to, const dnnl_memory_desc_t *to_form,
                    const float *from, const dnnl_memory_desc_t *from_form) {
  dnnl_primitive_desc_t found;
  dnnl_primitive_t reorder;
  DNNL(dnnl_reorder_primitive_desc_create(&found, from_form, self->engine, to_form, self->engine,
                                          NULL));
  DNNL(dnnl_primitive_create(&reorder, found));
  DNNL(dnnl_primitive_desc_destroy(found));
  dnnl_memory_t source = memory_of(self, from_form), target = memory_of(self, to_form);
  at(source, from);
  at(target, to);
  execute(self, reorder, (dnnl_exec_arg_t[]){{DNNL_ARG_FROM, source}, {DNNL_ARG_TO, target}}, 2);
  dnnl_memory_destroy(source);
  dnnl_memory_destroy(target);
  dnnl_primitive_destroy(reorder);
}

/* An entry for weights that are not kept: of an older version in the same form, or a new one. */
static struct kept *room_to_keep(struct cpu_dnnl *self, const dnnl_memory_desc_t *form) {
  for (int i = 0; i < self->num_kept; i++)
    if (self->kept[i].version != self->version && dnnl_memory_desc_equal(&self->kept[i].form, form))
      return &self->kept[i];
  self->kept = realloc(self->kept, (size_t)(self->num_kept + 1) * sizeof(struct kept));
  CHECK(self->kept, "no memory for weights");
  struct kept *kept = &self->kept[self->num_kept++];
  *kept = (struct kept){.form = *form, .memory = check_alloc(1, dnnl_memory_desc_get_size(form))};
  return kept;
}

/* The weights, which lie in plain_form, in another form. */
static const void *keep(struct cpu_dnnl *self, const dnnl_memory_desc_t *form, const float *weights,
                        const dnnl_memory_desc_t *plain_form) {
  for (int i = 0; i < self->num_kept; i++) {
    const struct kept *kept = &self->kept[i];
    if (kept->plain == weights && kept->version == self->version &&
        dnnl_memory_desc_equal(&kept->form, form) &&
        dnnl_memory_desc_equal(&kept->plain_form, plain_form))
      return kept->memory;
  }
  struct kept *kept = room_to_keep(self, form);
  convert(self, kept->memory, form, weights, plain_form);
  kept->plain = weights;
  kept->plain_form = *plain_form;
  kept->version = self->version;
  return kept->memory;
}

static const void *weights_for(struct cpu_dnnl *self, const struct plan *plan,
                               const float *weights) {
  struct shape s = shape_of(&plan->window, plan->n);
  dnnl_memory_desc_t plain = plain_weights(&s);
  return keep(self, &plan->weights_form, weights, &plain);
}

void cpu_dnnl_forward(struct device *d, float *y, const void *x, const float *weights,
                      const float *b, bool relu, const struct device_window *window, int n) {
  struct cpu_dnnl *self = open(d);
  struct plan *plan = plan_of(self, PASS_FORWARD, relu, window, n);
  at(plan->x, x);
  at(plan->weights, weights_for(self, plan, weights));
  at(plan->bias, b);
  at(plan->y, y);
  execute(self, plan->primitive,
          (dnnl_exec_arg_t[]){{DNNL_ARG_SRC, plan->x},
                              {DNNL_ARG_WEIGHTS, plan->weights},
                              {DNNL_ARG_BIAS, plan->bias},
                              {DNNL_ARG_DST, plan->y}},
          4);
}

void cpu_dnnl_backward_data(struct device *d, float *dx, const void *dy, const float *weights,
                            const struct device_window *window, int n) {
  struct cpu_dnnl *self = open(d);
  struct plan *plan = plan_of(self, PASS_DATA, false, window, n);
  at(plan->x, dx);
  at(plan->weights, weights_for(self, plan, weights));
  at(plan->y, dy);
  execute(self, plan->primitive,
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
  struct cpu_dnnl *self = open(d);
  struct plan *plan = plan_of(self, PASS_WEIGHTS, false, window, n);
  size_t weights = form_floats(plan), floats = weights + (size_t)window->O;
  make_room(self, floats);
  float *to = first ? self->sum : self->part;
  at(plan->x, x);
  at(plan->weights, to);
  at(plan->bias, to + weights);
  at(plan->y, dy);
  execute(self, plan->primitive,
          (dnnl_exec_arg_t[]){{DNNL_ARG_SRC, plan->x},
                              {DNNL_ARG_DIFF_WEIGHTS, plan->weights},
                              {DNNL_ARG_DIFF_BIAS, plan->bias},
                              {DNNL_ARG_DIFF_DST, plan->y}},
          4);
  for (size_t i = 0; !first && i < floats; i++) self->sum[i] += self->part[i];
}

void cpu_dnnl_finish_weights(struct device *d, float *dw, float *db,
                             const struct device_window *window, bool add) {
  struct cpu_dnnl *self = open(d);
  /* The form is the same whatever the chunk. */
  struct plan *plan = plan_of(self, PASS_WEIGHTS, false, window, 1);
  struct shape s = shape_of(window, 1);
  dnnl_memory_desc_t plain = plain_weights(&s);
  const float *biases = self->sum + form_floats(plan);
  convert(self, add ? self->part : dw, &plain, self->sum, &plan->weights_form);
  size_t weights = dnnl_memory_desc_get_size(&plain) / sizeof(float);
  for (size_t i = 0; add && i < weights; i++) dw[i] += self->part[i];
  for (int o = 0; o < window->O; o++) db[o] = biases[o] + (add ? db[o] : 0);
}

/* ---- products */

enum { LARGEST_ROWS = 512 };

bool cpu_dnnl_has_bf16(void) {
  return dnnl_get_effective_cpu_isa() >= dnnl_cpu_isa_avx512_core;
}

bool cpu_dnnl_has_fast_bf16(void) {
  return dnnl_get_effective_cpu_isa() >= dnnl_cpu_isa_avx512_core_amx;
}

int cpu_dnnl_rows(int B) {
  int n = LARGEST_ROWS;
  while (n > B) n /= 2;
  return n;
}

/* rows x columns as they lie in memory, or the other way round. */
static dnnl_memory_desc_t matrix(int rows, int columns, dnnl_data_type_t type, bool transposed) {
  dnnl_dims_t dims = {rows, columns};
  return describe(2, dims, type, transposed ? dnnl_ba : dnnl_ab);
}

static struct product *make_product(struct cpu_dnnl *self, const struct cpu_dnnl_product *s) {
  struct product *product = check_alloc(1, sizeof(*product));
  product->shape = *s;
  dnnl_dims_t b_dims = {s->K, s->N}, bias_dims = {1, s->N};
  dnnl_memory_desc_t a = matrix(s->M, s->K, self->type, s->a_transposed);
  dnnl_memory_desc_t b = s->b_kept ? describe(2, b_dims, self->type, dnnl_format_tag_any)
                                   : matrix(s->K, s->N, self->type, false);
  dnnl_memory_desc_t bias = describe(2, bias_dims, dnnl_f32, dnnl_ab);
  dnnl_memory_desc_t c = matrix(s->M, s->N, dnnl_f32, false);
  dnnl_matmul_desc_t operation;
  DNNL(dnnl_matmul_desc_init(&operation, &a, &b, s->bias ? &bias : NULL, &c));
  dnnl_primitive_attr_t with = attributes(s->add, s->relu);
  dnnl_primitive_desc_t found;
  DNNL(dnnl_primitive_desc_create(&found, &operation, with, self->engine, NULL));
  DNNL(dnnl_primitive_attr_destroy(with));
  DNNL(dnnl_primitive_create(&product->primitive, found));
  product->b_form = *dnnl_primitive_desc_query_md(found, dnnl_query_weights_md, 0);
  DNNL(dnnl_primitive_desc_destroy(found));
  product->a = memory_of(self, &a);
  product->b = memory_of(self, &product->b_form);
  product->bias = memory_of(self, &bias);
  product->c = memory_of(self, &c);
  self->product =
      realloc(self->product, (size_t)(self->num_products + 1) * sizeof(struct product *));
  CHECK(self->product, "no memory for a product");
  return self->product[self->num_products++] = product;
}

static struct product *product_of(struct cpu_dnnl *self, const struct cpu_dnnl_product *s) {
  for (int i = 0; i < self->num_products; i++) {
    const struct cpu_dnnl_product *has = &self->product[i]->shape;
    if (has->M == s->M && has->N == s->N && has->K == s->K &&
        has->a_transposed == s->a_transposed && has->b_kept == s->b_kept &&
        has->b_transposed == s->b_transposed && has->bias == s->bias && has->relu == s->relu &&
        has->add == s->add)
      return self->product[i];
  }
  return make_product(self, s);
}

void cpu_dnnl_multiply(struct device *d, float *c, const void *a, const void *b, const float *bias,
                       const struct cpu_dnnl_product *shape) {
  struct cpu_dnnl *self = open(d);
  struct product *product = product_of(self, shape);
  dnnl_memory_desc_t plain = matrix(shape->K, shape->N, dnnl_f32, shape->b_transposed);
  at(product->a, a);
  at(product->b, shape->b_kept ? keep(self, &product->b_form, b, &plain) : b);
  at(product->bias, bias);
  at(product->c, c);
  dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, product->a},
                            {DNNL_ARG_WEIGHTS, product->b},
                            {DNNL_ARG_DST, product->c},
                            {DNNL_ARG_BIAS, product->bias}};
  execute(self, product->primitive, args, shape->bias ? 4 : 3);
}
