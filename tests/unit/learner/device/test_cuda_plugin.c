/* How the CUDA device is asked for: what is refused, with which words, on emulated machines. Each
 * attempt has a process of its own, since a process loads one plugin. */
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "learner/device/recorded.h"
#include "tests/unit/learner/device/device_testing.h"
#include "tests/unit/support/skip.h"

/* The folder with the plugins of the tests. */
static void tests_folder(char folder[PATH_MAX]) {
  emulated_cuda_use();
  snprintf(folder, PATH_MAX, "%s", getenv("ACORN_CUDA_PLUGIN"));
  *strrchr(folder, '/') = '\0';
}

/* ---- an attempt in a child process */

struct attempt {
  const char *machine; /* ACORN_EMULATED_CUDA */
  const char *plugin;  /* a path, from the folder of the tests unless it begins with a slash */
  const char *variable, *value;
  struct device_options options;
};

struct outcome {
  int code, signal; /* of the process */
  enum status status;
  char text[2048]; /* of the error, or what was printed */
};

static void set_up(const struct attempt *attempt) {
  char folder[PATH_MAX], path[2 * PATH_MAX];
  tests_folder(folder);
  setenv("ACORN_EMULATED_CUDA", attempt->machine ? attempt->machine : "", 1);
  unsetenv("CUDA_VISIBLE_DEVICES");
  unsetenv("CUDA_HOME");
  if (attempt->variable && strcmp(attempt->variable, "CUDA_HOME") == 0) {
    snprintf(path, sizeof path, "%s/%s", folder, attempt->value);
    setenv("CUDA_HOME", path, 1);
  } else if (attempt->variable) {
    setenv(attempt->variable, attempt->value, 1);
  }
  if (!attempt->plugin) return;
  snprintf(path, sizeof path, "%s/%s", folder, attempt->plugin);
  setenv("ACORN_CUDA_PLUGIN", attempt->plugin[0] == '/' ? attempt->plugin : path, 1);
}

static enum status create(struct device **d, const struct attempt *attempt, struct error *error) {
  struct device_options options = attempt->options;
  if (!options.name) options.name = "cuda";
  if (!options.precision) options.precision = "float32";
  return device_create_by(d, &options, error);
}

/* use: what is done with the device, or NULL. */
static struct outcome run_attempt(const struct attempt *attempt, void (*use)(struct device *d)) {
  struct outcome outcome = {.status = STATUS_OK};
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    signal(SIGABRT, SIG_DFL);
    dup2(ends[1], STDERR_FILENO);
    dup2(ends[1], STDOUT_FILENO);
    set_up(attempt);
    struct error error = {""};
    struct device *d;
    enum status status = create(&d, attempt, &error);
    dprintf(ends[1], "%s", error.text);
    if (status == STATUS_OK && use) use(d);
    _exit(100 + (int)status);
  }
  close(ends[1]);
  size_t count = 0;
  for (ssize_t got;
       count < sizeof outcome.text - 1 &&
       (got = read(ends[0], outcome.text + count, sizeof outcome.text - 1 - count)) > 0;)
    count += (size_t)got;
  close(ends[0]);
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  if (WIFSIGNALED(status)) outcome.signal = WTERMSIG(status);
  if (WIFEXITED(status)) outcome.code = WEXITSTATUS(status);
  if (outcome.code >= 100) outcome.status = (enum status)(outcome.code - 100);
  return outcome;
}

static void require_text(const struct outcome *outcome, const char *text) {
  if (!strstr(outcome->text, text)) fail_msg("'%s' is not in: %s", text, outcome->text);
}

/* ---- what is refused */

static const struct refusal {
  struct attempt attempt;
  enum status status;
  const char *text, *more;
} REFUSALS[] = {
    {{.machine = "no_driver"}, STATUS_UNAVAILABLE, "no NVIDIA driver is installed", "libcuda"},
    {{.machine = "old_driver"},
     STATUS_UNAVAILABLE,
     "the NVIDIA driver supports CUDA 11.8, and the plugin is built for 13.0",
     "update the driver"},
    {{.machine = "busy"},
     STATUS_UNAVAILABLE,
     "GPU 0 cannot be used: cudaErrorDevicesUnavailable: CUDA-capable device(s) is/are busy",
     "nvidia-smi"},
    {{.machine = "no_device"}, STATUS_UNAVAILABLE, "the NVIDIA driver shows no GPU", ""},
    {{.variable = "CUDA_VISIBLE_DEVICES", .value = ""},
     STATUS_UNAVAILABLE,
     "shows no GPU",
     "(CUDA_VISIBLE_DEVICES='')"},
    {{.machine = "gpus:2", .options = {.gpu = 2}},
     STATUS_INVALID,
     "--gpu=2: 2 GPUs can be used, from 0 on",
     ""},
    {{.variable = "CUDA_VISIBLE_DEVICES", .value = "3", .options = {.gpu = 1}},
     STATUS_INVALID,
     "--gpu=1: 1 GPU can be used",
     "CUDA_VISIBLE_DEVICES='3'"},
    {{.machine = "memory:100", .options = {.memory_mib = 200}},
     STATUS_INVALID,
     "--gpu_memory_mib=200: GPU 0 (emulated GPU) has 100 MiB, of which 100 are free",
     "give fewer"},
    {{.variable = "ACORN_CUDA_WITHOUT", .value = "tiles,grapes"},
     STATUS_INVALID,
     "ACORN_CUDA_WITHOUT: 'grapes': the ways are dnn, blas, together, waits, graphs, tiles and "
     "nccl",
     ""},
    {{.options = {.precision = "float16"}}, STATUS_INVALID, "--precision=float16", "tf32 or bf16"},
    {{.plugin = "absent.so"}, STATUS_UNAVAILABLE, "absent.so, which is not there", "make cuda"},
    {{.plugin = "/etc/passwd"}, STATUS_UNAVAILABLE, "/etc/passwd", ""},
    {{.plugin = "cuda_home/lib64/libabsent_cuda.so.13"},
     STATUS_MISMATCH,
     "libabsent_cuda.so.13 is no plugin of this program",
     ""},
    {{.plugin = "libacorn_cuda_other.so"},
     STATUS_MISMATCH,
     "libacorn_cuda_other.so is of version ",
     "this program needs "},
};

static void test_refusals(void **state) {
  (void)state;
  if (!emulated_cuda_is_used()) SKIP("for the emulated plugin only");
  for (size_t i = 0; i < sizeof REFUSALS / sizeof *REFUSALS; i++) {
    const struct refusal *refusal = &REFUSALS[i];
    struct outcome outcome = run_attempt(&refusal->attempt, NULL);
    if (outcome.status != refusal->status)
      fail_msg("refusal %zu: status %d (exit code %d, signal %d): %s", i, (int)outcome.status,
               outcome.code, outcome.signal, outcome.text);
    require_text(&outcome, refusal->text);
    require_text(&outcome, refusal->more);
  }
}

/* ---- what is chosen */

static void print_device(struct device *d) {
  printf("%s, %zu bytes", d->description, d->memory_bytes);
  fflush(stdout);
}

static void test_choice(void **state) {
  (void)state;
  if (!emulated_cuda_is_used()) SKIP("for the emulated plugin only");
  struct attempt attempt = {.machine = "gpus:2",
                            .options = {.name = "auto", .gpu = 1, .memory_mib = 50}};
  struct outcome outcome = run_attempt(&attempt, print_device);
  require_text(&outcome, "cuda (emulated GPU), 52428800 bytes");
  attempt.machine = "memory:100";
  attempt.options = (struct device_options){.precision = "bf16"};
  outcome = run_attempt(&attempt, print_device);
  require_text(&outcome, "cuda (emulated GPU, bf16), 104857600 bytes");
  attempt.machine = "no_driver";
  attempt.options = (struct device_options){.name = "auto"};
  outcome = run_attempt(&attempt, print_device);
  require_text(&outcome, "cpu (");
}

static void print_recording(struct device *d) {
  printf("%s", d->ops->record ? "records" : "runs one by one");
  fflush(stdout);
}

static void test_without_graphs(void **state) {
  (void)state;
  if (!emulated_cuda_is_used()) SKIP("for the emulated plugin only");
  struct attempt attempt = {.variable = "ACORN_CUDA_WITHOUT", .value = "together,dnn"};
  struct outcome outcome = run_attempt(&attempt, print_recording);
  require_text(&outcome, "records");
  attempt.value = "graphs,tiles";
  outcome = run_attempt(&attempt, print_recording);
  require_text(&outcome, "runs one by one");
}

/* A layer wide enough for a copy of its weights in bf16. */
struct layer {
  struct testing t;
  real *x, *w, *b, *y;
};
enum { LAYER_I = 512, LAYER_O = 256 };

static void give_layer(void *context) {
  struct layer *layer = context;
  struct device *d = layer->t.device;
  d->ops->linear_forward(d, layer->y, layer->x, LAYER_I, layer->w, layer->b, ACTIVATION_NONE, 1,
                         LAYER_I, LAYER_O);
}

/* The weights change between the run before and the one that is to be recorded. */
static void record_in_vain(struct device *d) {
  struct layer layer = {.t = {.device = d}};
  struct recorded recorded = {0};
  layer.x = testing_room(&layer.t, LAYER_I);
  layer.w = testing_room(&layer.t, LAYER_I * LAYER_O);
  layer.b = testing_room(&layer.t, LAYER_O);
  layer.y = testing_room(&layer.t, LAYER_O);
  device_fill(d, layer.x, 1, LAYER_I);
  device_fill(d, layer.b, 0, LAYER_O);
  for (int k = 1; k <= 3; k++) {
    float sum;
    device_fill(d, layer.w, (float)k, LAYER_I * LAYER_O);
    d->ops->weights_changed(d);
    recorded_run(&recorded, d, give_layer, &layer);
    d->ops->download(d, &sum, layer.y, 1);
    printf("%g ", (double)sum);
  }
  fflush(stdout);
}

static void test_refused_graphs(void **state) {
  (void)state;
  if (!emulated_cuda_is_used()) SKIP("for the emulated plugin only");
  struct attempt attempt = {.machine = "no_graphs", .options = {.precision = "bf16"}};
  struct outcome outcome = run_attempt(&attempt, record_in_vain);
  require_text(&outcome, "cannot be recorded (cudaErrorStreamCaptureInvalidated");
  require_text(&outcome, "512 1024 1536");
  attempt.machine = "no_captures";
  outcome = run_attempt(&attempt, record_in_vain);
  require_text(&outcome, "cannot be recorded (cudaErrorStreamCaptureUnsupported");
  require_text(&outcome, "512 1024 1536");
}

/* Layers of LAYER_I by LAYER_O and by half as many; prints a sum of each. */
static void multiply(struct device *d) {
  struct testing t = {.device = d};
  real *x = testing_room(&t, LAYER_I), *w = testing_room(&t, LAYER_I * LAYER_O),
       *b = testing_room(&t, LAYER_O), *y = testing_room(&t, LAYER_O);
  device_fill(d, x, 1, LAYER_I);
  device_fill(d, w, 1, LAYER_I * LAYER_O);
  device_fill(d, b, 1, LAYER_O);
  for (int O = LAYER_O; O >= LAYER_O / 2; O /= 2) {
    float sum;
    d->ops->linear_forward(d, y, x, LAYER_I, w, b, ACTIVATION_NONE, 1, LAYER_I, O);
    d->ops->download(d, &sum, y, 1);
    printf("%g ", (double)sum);
  }
  printf("by cuBLAS: %ld", emulated_cuda_count("cublasLtMatmul"));
  fflush(stdout);
}

/* A second device of the process goes the same way, without another line in the log. */
static void multiply_twice(struct device *d) {
  struct attempt attempt = {0};
  struct device *other;
  struct error error;
  multiply(d);
  if (create(&other, &attempt, &error) != STATUS_OK) printf("%s", error.text);
  multiply(other);
  device_destroy(other);
}

static const char *after(const char *text, const char *part) {
  const char *found = text ? strstr(text, part) : NULL;
  return found ? found + strlen(part) : NULL;
}

/* Where cuBLAS is missing, another one or lacks an algorithm, one line tells so. */
static void test_products_without_cublas(void **state) {
  (void)state;
  if (!emulated_cuda_is_used()) SKIP("for the emulated plugin only");
  static const struct {
    struct attempt attempt;
    const char *reason, *advice; /* NULL: no line */
    int by_cublas;               /* of two products */
  } table[] = {
      {{.machine = ""}, NULL, NULL, 2},
      {{.variable = "ACORN_CUDA_WITHOUT", .value = "blas"}, NULL, NULL, 0},
      {{.machine = "no_blas"},
       "device cuda: libabsent_cuda.so.13 is in none of LD_LIBRARY_PATH, CUDA's folder and pip's: "
       "Acorn's own kernel computes products, which is slower where they are large; ",
       "scripts/setup.sh cuda installs cuBLAS",
       0},
      {{.machine = "no_blas", .variable = "CUDA_HOME", .value = "cuda_home"},
       "libabsent_cuda.so.13 has no cublasLtGetStatusName: Acorn's own kernel",
       "scripts/setup.sh cuda",
       0},
      {{.machine = "blas_version:12"},
       "cuBLAS 12.1 is here, the plugin is built for 13: Acorn's own kernel",
       "scripts/setup.sh cuda",
       0},
      {{.machine = "blas_lacks:256"},
       "cuBLAS has no algorithm for a product of (1, 512) and (512, 256): Acorn's own kernel",
       "slower",
       1},
  };
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    struct outcome outcome = run_attempt(&table[i].attempt, multiply_twice);
    char sums[64];
    snprintf(sums, sizeof sums, "513 513 by cuBLAS: %d", table[i].by_cublas);
    require_text(&outcome, sums);
    snprintf(sums, sizeof sums, "513 513 by cuBLAS: %d", 2 * table[i].by_cublas);
    require_text(&outcome, sums);
    const char *line = after(outcome.text, "Acorn's own kernel");
    assert_true((line != NULL) == (table[i].reason != NULL));
    assert_null(after(line, "Acorn's own kernel"));
    if (!line) continue;
    require_text(&outcome, table[i].reason);
    require_text(&outcome, table[i].advice);
  }
}

static void test_reason(void **state) {
  (void)state;
  struct error reason;
  emulated_cuda_use();
  assert_string_equal(device_choose("ref", &reason), "ref");
  assert_string_equal(reason.text, "");
  assert_string_equal(device_choose("auto", &reason), "cuda");
  assert_string_equal(reason.text, "");
}

/* ---- what ends the process */

static void allocate_too_much(struct device *d) {
  d->ops->alloc(d, 20 << 20);
  void *released = d->ops->alloc(d, 39 << 20); /* the device has something of its own */
  d->ops->release(d, released);
  d->ops->alloc(d, 41 << 20);
}

static void test_no_memory(void **state) {
  (void)state;
  if (!emulated_cuda_is_used()) SKIP("for the emulated plugin only");
  struct attempt attempt = {.machine = "memory:60"};
  struct outcome outcome = run_attempt(&attempt, allocate_too_much);
  assert_int_equal(outcome.code, 1);
  require_text(&outcome,
               "GPU 0 has no room for 41.0 MiB more: of its 60 MiB 40 are free, this "
               "process takes 20.0 and may take 60.");
  require_text(&outcome, "--replay_steps");
  attempt = (struct attempt){.options = {.memory_mib = 60}};
  outcome = run_attempt(&attempt, allocate_too_much);
  assert_int_equal(outcome.code, 1);
  require_text(&outcome, "may take 60. Give a smaller");
  require_text(&outcome, "raise --gpu_memory_mib");
}

/* A limit holds for each GPU. */
static void allocate_on_both(struct device *d) {
  struct attempt attempt = {.options = {.gpu = 1, .memory_mib = 50}};
  struct device *other;
  struct error error;
  if (create(&other, &attempt, &error) != STATUS_OK) printf("%s", error.text);
  d->ops->alloc(d, 40 << 20);
  other->ops->release(other, other->ops->alloc(other, 40 << 20));
  other->ops->alloc(other, 40 << 20);
}

static void test_memory_of_each_gpu(void **state) {
  (void)state;
  if (!emulated_cuda_is_used()) SKIP("for the emulated plugin only");
  struct attempt attempt = {.machine = "gpus:2", .options = {.memory_mib = 50}};
  struct outcome outcome = run_attempt(&attempt, allocate_on_both);
  if (outcome.code != 100 || outcome.status != STATUS_OK) fail_msg("%s", outcome.text);
}

/* Read and written by transfers and operations as any other, and not of the GPU's memory. */
static void use_spilled(struct device *d) {
  enum { ROWS = 1 << 16, BYTES = 1024 };
  const struct device_ops *ops = d->ops;
  uint8_t *spilled = ops->alloc_spilled(d, (size_t)ROWS * BYTES);
  uint8_t *host = ops->alloc_host(d, BYTES), *row = ops->alloc(d, BYTES);
  int32_t *last = ops->alloc(d, sizeof *last);
  memcpy(host, &(int32_t){ROWS - 1}, sizeof *last);
  ops->upload_bytes(d, last, host, sizeof *last);
  device_finish(d);
  memset(host, 7, BYTES);
  ops->upload_bytes(d, row, host, BYTES);
  ops->scatter_rows(d, spilled, row, last, 1, BYTES);
  ops->download_bytes(d, host, spilled + (size_t)(ROWS - 1) * BYTES, BYTES);
  device_finish(d);
  printf("%d %d, before it %d", host[0], host[BYTES - 1], spilled[(size_t)(ROWS - 1) * BYTES - 1]);
  fflush(stdout);
  ops->upload_bytes(d, spilled, host, BYTES);
  ops->gather_rows(d, row, spilled, last, 1, BYTES);
  device_finish(d);
  ops->release(d, spilled);
  ops->release(d, ops->alloc(d, 50 << 20));
}

static void test_spilled(void **state) {
  (void)state;
  if (!emulated_cuda_is_used()) SKIP("for the emulated plugin only");
  struct outcome outcome = run_attempt(&(struct attempt){.machine = "memory:60"}, use_spilled);
  assert_int_equal(outcome.status, STATUS_OK);
  require_text(&outcome, "7 7, before it 0");
}

static void fill_twice(struct device *d) {
  real *x = d->ops->alloc(d, 4000);
  device_fill(d, x, 1, 1000);
  device_finish(d);
  printf("one is done\n");
  fflush(stdout);
  device_fill(d, x, 2, 1000);
  device_finish(d);
}

static void test_kernel_error(void **state) {
  (void)state;
  if (!emulated_cuda_is_used()) SKIP("for the emulated plugin only");
  struct attempt attempt = {.machine = "kernel_error:2"};
  struct outcome outcome = run_attempt(&attempt, fill_twice);
  assert_int_equal(outcome.signal, SIGABRT);
  require_text(&outcome, "one is done");
  require_text(&outcome,
               "learner/device/cuda/"); /* where it was noticed: launched, or waited for */
  require_text(&outcome, "cudaErrorIllegalAddress: an illegal memory access was encountered");
  require_text(&outcome, "CUDA_LAUNCH_BLOCKING=1");
  attempt.variable = "CUDA_LAUNCH_BLOCKING";
  attempt.value = "1";
  outcome = run_attempt(&attempt, fill_twice);
  assert_int_equal(outcome.signal, SIGABRT);
  require_text(&outcome, "kernel numbers_of_fill");
}

static void test_other_failures(void **state) {
  (void)state;
  if (!emulated_cuda_is_used()) SKIP("for the emulated plugin only");
  struct outcome outcome = run_attempt(&(struct attempt){.machine = "kernel_traps:2"}, fill_twice);
  assert_int_equal(outcome.signal, SIGABRT);
  require_text(&outcome,
               "cudaErrorLaunchFailure: unspecified launch failure. The GPU's state is "
               "lost; a checkpoint is not. If a kernel failed, CUDA_LAUNCH_BLOCKING=1");
  outcome = run_attempt(&(struct attempt){.machine = "gpu_lost:2"}, fill_twice);
  assert_int_equal(outcome.signal, SIGABRT);
  require_text(&outcome, "cudaErrorECCUncorrectable: uncorrectable ECC error encountered");
  require_text(&outcome, "if the GPU itself did, dmesg has a line with Xid");
}

/* ---- marks */

/* Any of them may be waited for, also one whose event was used again since. */
static void test_marks(void **state) {
  (void)state;
  struct testing t = {.device = emulated_cuda_create("float32")};
  const struct device_ops *ops = t.device->ops;
  enum { MARKS = 200 };
  float *host = ops->alloc_host(t.device, MARKS * sizeof *host);
  real *x = testing_room(&t, 1);
  uint64_t mark[MARKS];
  for (int i = 0; i < MARKS; i++) {
    device_fill(t.device, x, (float)i, 1);
    ops->download_bytes(t.device, host + i, x, sizeof *host);
    mark[i] = ops->mark(t.device);
    if (i > 0) assert_true(mark[i] > mark[i - 1]);
  }
  for (int i = MARKS - 1; i >= 0; i -= 7) {
    ops->wait(t.device, mark[i]);
    for (int k = 0; k <= i; k++) assert_true(host[k] == (float)k);
  }
  ops->release_host(t.device, host);
  testing_release(&t);
  device_destroy(t.device);
}

static long spins_of(bool urgent) {
  struct attempt attempt = {.options = {.urgent = urgent}};
  struct device *device;
  struct error error;
  emulated_cuda_use();
  if (create(&device, &attempt, &error) != STATUS_OK) fail_msg("%s", error.text);
  long before = emulated_cuda_count("spin");
  device_finish(device);
  long spins = emulated_cuda_count("spin") - before;
  device_destroy(device);
  return spins;
}

static void test_waits(void **state) {
  (void)state;
  if (!emulated_cuda_is_used()) SKIP("for the emulated plugin only");
  assert_int_equal(spins_of(true), 1);
  assert_int_equal(spins_of(false), 0);
}

/* ---- several threads */

static void *allocate(void *argument) {
  struct device *device = argument;
  for (int i = 0; i < 100; i++) device->ops->release(device, device->ops->alloc(device, 16));
  return NULL;
}

/* A device asks how much memory the process has while another takes some: for ThreadSanitizer. */
static void test_created_while_another_allocates(void **state) {
  (void)state;
  struct device *device = emulated_cuda_create("float32");
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, allocate, device), 0);
  for (int i = 0; i < 3; i++) device_destroy(emulated_cuda_create("float32"));
  pthread_join(thread, NULL);
  device_destroy(device);
}

/* Attempts on machines of their own come first: a process reads ACORN_EMULATED_CUDA once. */
int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_refusals),       cmocka_unit_test(test_choice),
      cmocka_unit_test(test_no_memory),      cmocka_unit_test(test_kernel_error),
      cmocka_unit_test(test_other_failures), cmocka_unit_test(test_memory_of_each_gpu),
      cmocka_unit_test(test_without_graphs), cmocka_unit_test(test_refused_graphs),
      cmocka_unit_test(test_spilled),        cmocka_unit_test(test_products_without_cublas),
      cmocka_unit_test(test_reason),         cmocka_unit_test(test_marks),
      cmocka_unit_test(test_waits),          cmocka_unit_test(test_created_while_another_allocates),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
