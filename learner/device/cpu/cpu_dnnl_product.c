/* DESIGN. A product is a primitive of one shape, made when the shape is first seen and kept; of its
 * factors only weights may have a form that oneDNN chooses. */
#include <stdlib.h>

#include "learner/device/cpu/cpu_dnnl_engine.h"

enum { LARGEST_ROWS = 512 };

/* C (M, N) = A (M, K) B (K, N). */
struct product {
  struct cpu_dnnl_product shape;
  dnnl_primitive_t primitive;
  cpu_dnnl_form *b_form, *plain_form; /* of B: as the primitive reads it; as the caller has it */
  dnnl_memory_t a, b, bias, c;
};

int cpu_dnnl_rows(int B) {
  int n = LARGEST_ROWS;
  while (n > B) n /= 2;
  return n;
}

/* rows x columns as they lie in memory, or the other way round. */
static cpu_dnnl_form *matrix(int rows, int columns, dnnl_data_type_t type, bool transposed) {
  dnnl_dims_t dims = {rows, columns};
  return cpu_dnnl_form_create(2, dims, type, transposed ? dnnl_ba : dnnl_ab);
}

static struct product *make_product(struct cpu_dnnl *self, const struct cpu_dnnl_product *s) {
  struct product *product = check_alloc(1, sizeof(*product));
  product->shape = *s;
  dnnl_dims_t b_dims = {s->K, s->N}, bias_dims = {1, s->N};
  struct cpu_dnnl_arrays arrays = {
      .x = matrix(s->M, s->K, self->type, s->a_transposed),
      .weights = s->b_kept ? cpu_dnnl_form_create(2, b_dims, self->type, dnnl_format_tag_any)
                           : matrix(s->K, s->N, self->type, false),
      .bias = s->bias ? cpu_dnnl_form_create(2, bias_dims, dnnl_f32, dnnl_ab) : NULL,
      .y = matrix(s->M, s->N, dnnl_f32, false),
  };
  dnnl_primitive_attr_t with = cpu_dnnl_attributes(s->add, s->relu);
  dnnl_primitive_desc_t found;
  DNNL(cpu_dnnl_describe_product(&found, &arrays, self->engine, with));
  DNNL(dnnl_primitive_attr_destroy(with));
  DNNL(dnnl_primitive_create(&product->primitive, found));
  product->b_form =
      cpu_dnnl_form_copy(dnnl_primitive_desc_query_md(found, dnnl_query_weights_md, 0));
  DNNL(dnnl_primitive_desc_destroy(found));
  product->plain_form = matrix(s->K, s->N, dnnl_f32, s->b_transposed);
  product->a = cpu_dnnl_memory(self, arrays.x);
  product->b = cpu_dnnl_memory(self, product->b_form);
  if (s->bias) product->bias = cpu_dnnl_memory(self, arrays.bias);
  product->c = cpu_dnnl_memory(self, arrays.y);
  cpu_dnnl_arrays_deinit(&arrays);
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

static void destroy_product(struct product *product) {
  dnnl_memory_t memories[] = {product->a, product->b, product->bias, product->c};
  for (int i = 0; i < 4; i++)
    if (memories[i]) dnnl_memory_destroy(memories[i]);
  dnnl_primitive_destroy(product->primitive);
  cpu_dnnl_form_destroy(product->b_form);
  cpu_dnnl_form_destroy(product->plain_form);
  free(product);
}

void cpu_dnnl_destroy_products(struct cpu_dnnl *self) {
  for (int i = 0; i < self->num_products; i++) destroy_product(self->product[i]);
  free(self->product);
}

void cpu_dnnl_multiply(struct device *d, float *c, const void *a, const void *b, const float *bias,
                       const struct cpu_dnnl_product *shape) {
  struct cpu_dnnl *self = cpu_dnnl_open(d);
  struct product *product = product_of(self, shape);
  cpu_dnnl_point(product->a, a);
  cpu_dnnl_point(product->b,
                 shape->b_kept ? cpu_dnnl_keep(self, product->b_form, b, product->plain_form) : b);
  if (shape->bias) cpu_dnnl_point(product->bias, bias);
  cpu_dnnl_point(product->c, c);
  dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, product->a},
                            {DNNL_ARG_WEIGHTS, product->b},
                            {DNNL_ARG_DST, product->c},
                            {DNNL_ARG_BIAS, product->bias}};
  cpu_dnnl_execute(self, product->primitive, args, shape->bias ? 4 : 3);
}
