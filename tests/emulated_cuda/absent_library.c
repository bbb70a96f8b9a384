/* The library that other_plugin.c may need. */
__attribute__((visibility("default"))) int absent_cuda_function(void);

int absent_cuda_function(void) {
  return 0;
}
