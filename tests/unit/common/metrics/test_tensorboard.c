/* Event files, read back record by record. The expected bytes of an event are what TensorFlow's own
 * messages serialise to in Python, at the wall time 1.5. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/metrics/tensorboard.h"
#include "common/metrics/tfrecord.h"
#include "common/picture/png.h"
#include "tensorboard.pb-c.h"

enum { FILE_BYTES = 1 << 20, MAX_EVENTS = 200 };

struct fixture {
  char folder[64];
  struct tensorboard *tensorboard;
  uint8_t bytes[FILE_BYTES];
  size_t count;
  Tensorboard__Event *event[MAX_EVENTS];
  int num_events;
};

static int create(void **state) {
  struct fixture *f = calloc(1, sizeof(*f));
  struct error error;
  strcpy(f->folder, "/tmp/acorn-events-XXXXXX");
  assert_non_null(mkdtemp(f->folder));
  assert_int_equal(tensorboard_open(&f->tensorboard, f->folder, 7, &error), STATUS_OK);
  *state = f;
  return 0;
}

static int destroy(void **state) {
  struct fixture *f = *state;
  for (int i = 0; i < f->num_events; i++) tensorboard__event__free_unpacked(f->event[i], NULL);
  unlink(tensorboard_path(f->tensorboard));
  tensorboard_close(f->tensorboard);
  rmdir(f->folder);
  free(f);
  return 0;
}

// One record at `at`: framed as the writer's own framing says, and an event. Returns its bytes.
static size_t read_record(struct fixture *f, size_t at) {
  size_t bytes = f->bytes[at] | (size_t)f->bytes[at + 1] << 8 | (size_t)f->bytes[at + 2] << 16;
  size_t whole = TFRECORD_HEADER_BYTES + bytes + TFRECORD_FOOTER_BYTES;
  assert_true(at + whole <= f->count);
  uint8_t *again = malloc(whole);
  memcpy(again, f->bytes + at, whole);
  tfrecord_frame(again, bytes);
  assert_memory_equal(again, f->bytes + at, whole);
  free(again);
  const uint8_t *data = f->bytes + at + TFRECORD_HEADER_BYTES;
  assert_true(f->num_events < MAX_EVENTS);
  f->event[f->num_events] = tensorboard__event__unpack(NULL, bytes, data);
  assert_non_null(f->event[f->num_events++]);
  return whole;
}

static void read_back(struct fixture *f) {
  FILE *file = fopen(tensorboard_path(f->tensorboard), "rb");
  f->count = fread(f->bytes, 1, FILE_BYTES, file);
  fclose(file);
  for (size_t at = 0; at < f->count;) at += read_record(f, at);
}

static void write_and_read(struct fixture *f) {
  struct error error;
  assert_int_equal(tensorboard_write(f->tensorboard, &error), STATUS_OK);
  read_back(f);
}

static void assert_event(Tensorboard__Event *event, const char *hex) {
  char text[1024] = "";
  uint8_t bytes[512];
  assert_true(event->wall_time > 1e9);
  event->wall_time = 1.5;
  size_t count = tensorboard__event__pack(event, bytes);
  for (size_t i = 0; i < count; i++) sprintf(text + 2 * i, "%02x", bytes[i]);
  assert_string_equal(text, hex);
}

static void test_known_bytes(void **state) {
  struct fixture *f = *state;
  tensorboard_add_scalar(f->tensorboard, "loss/total", 300, 0.25);
  tensorboard_add_scalar(f->tensorboard, "loss/total", 300, 0);
  tensorboard_add_text(f->tensorboard, "notes", 2, "# hi");
  tensorboard_add_values(f->tensorboard, "d", 2, (double[]){2, 2, 2}, 3);
  write_and_read(f);
  static const char *const expected[] = {
      "09000000000000f83f1a0d627261696e2e4576656e743a32",
      "09000000000000f83f10083a020801",
      "09000000000000f83f10ac022a130a110a0a6c6f73732f746f74616c150000803e",
      "09000000000000f83f10ac022a130a110a0a6c6f73732f746f74616c1500000000",
      "09000000000000f83f10022a230a210a056e6f746573420e08071204120208014204232068694a080a060a047465"
      "7"
      "874",
      "09000000000000f83f10022a480a460a01642a4109000000000000f83f1100000000000004401900000000000008"
      "40210000000000001840290000000000002840320800000000000004403a080000000000000840",
  };
  assert_int_equal(f->num_events, 6);
  for (int i = 0; i < 6; i++) assert_event(f->event[i], expected[i]);
}

static void test_hparams(void **state) {
  struct fixture *f = *state;
  const struct tensorboard_hparam number = {"lr", TENSORBOARD_NUMBER, NULL, 0.5, true};
  tensorboard_add_hparams(f->tensorboard, &number, 1, (const char *const[]){"r"}, 1);
  tensorboard_add_end(f->tensorboard, true);
  write_and_read(f);
  assert_int_equal(f->num_events, 5);
  assert_event(
      f->event[2],
      "09000000000000f83f2a460a440a145f68706172616d735f2f6578706572696d656e74420a080112002a"
      "04000000004a200a1e0a0768706172616d731213121122080a026c72200338012a050a03120172");
  const ProtobufCBinaryData *content =
      &f->event[3]->summary->value[0]->metadata->plugin_data->content;
  Tensorboard__HParamsPluginData *data =
      tensorboard__hparams_plugin_data__unpack(NULL, content->len, content->data);
  assert_non_null(data);
  const Tensorboard__SessionStartInfo__Pair *pair = data->session_start_info->hparams[0];
  assert_string_equal(pair->key, "lr");
  assert_true(pair->value->number_value == 0.5);
  tensorboard__hparams_plugin_data__free_unpacked(data, NULL);
  assert_string_equal(f->event[4]->summary->value[0]->tag, "_hparams_/session_end_info");
}

static void test_images(void **state) {
  struct fixture *f = *state;
  uint8_t pixels[] = {9, 8, 7, 6, 5, 4};
  const struct canvas picture = {pixels, 2, 1};
  tensorboard_add_image(f->tensorboard, "input/observation", 3, &picture);
  write_and_read(f);
  const Tensorboard__Summary__Value *value = f->event[2]->summary->value[0];
  assert_int_equal(f->event[2]->step, 3);
  assert_string_equal(value->tag, "input/observation");
  assert_int_equal(value->value_case, TENSORBOARD__SUMMARY__VALUE__VALUE_IMAGE);
  assert_int_equal(value->image->width, 2);
  assert_int_equal(value->image->height, 1);
  size_t bytes;
  uint8_t *png = png_encode(&picture, &bytes);
  assert_int_equal(value->image->encoded_image_string.len, bytes);
  assert_memory_equal(value->image->encoded_image_string.data, png, bytes);
  free(png);
}

static void test_what_is_no_number_is_left_out(void **state) {
  struct fixture *f = *state;
  tensorboard_add_scalar(f->tensorboard, "a", 1, NAN);
  tensorboard_add_scalar(f->tensorboard, "a", 1, INFINITY);
  tensorboard_add_scalar(f->tensorboard, "a", 1, -1e39); // beyond a float
  tensorboard_add_values(f->tensorboard, "a", 1, NULL, 0);
  struct histogram_snapshot *none = calloc(1, sizeof(*none));
  tensorboard_add_histogram(f->tensorboard, "a", 1, none);
  free(none);
  write_and_read(f);
  assert_int_equal(f->num_events, 2);
}

// Every value is in the bucket whose limits it lies between; limits rise; the sums are right.
static void check_histogram(const Tensorboard__HistogramProto *proto, const double *values,
                            int count) {
  double num = 0, sum = 0;
  assert_int_equal(proto->n_bucket, proto->n_bucket_limit);
  for (size_t i = 0; i < proto->n_bucket; i++) {
    double low = i ? proto->bucket_limit[i - 1] : -INFINITY, high = proto->bucket_limit[i];
    assert_true(low < high);
    bool last = i + 1 == proto->n_bucket;
    int inside = 0;
    for (int v = 0; v < count; v++)
      inside += values[v] >= low && (values[v] < high || (last && values[v] <= high));
    assert_int_equal(proto->bucket[i], inside);
    num += proto->bucket[i];
  }
  for (int v = 0; v < count; v++) sum += values[v];
  assert_true(num == count && proto->num == count);
  assert_true(fabs(proto->sum - sum) < 1e-9 * fabs(sum));
}

// A value is known to a quarter: between two that are far apart lies a bucket that is empty.
static void check_widths(const Tensorboard__HistogramProto *proto) {
  for (size_t i = 1; i < proto->n_bucket; i++)
    assert_true(proto->bucket[i] == 0 ||
                proto->bucket_limit[i] <= 1.25 * proto->bucket_limit[i - 1]);
}

static void test_histograms(void **state) {
  struct fixture *f = *state;
  double values[500];
  struct histogram *histogram = calloc(1, sizeof(*histogram));
  struct histogram_snapshot *snapshot = calloc(1, sizeof(*snapshot));
  for (int i = 0; i < 500; i++) {
    values[i] = i % 50 == 0 ? 0 : exp2(i % 37 - 8);
    histogram_record(histogram, values[i]);
  }
  histogram_snapshot(histogram, snapshot);
  tensorboard_add_histogram(f->tensorboard, "log", 1, snapshot);
  for (int i = 0; i < 500; i++) values[i] = i % 100 - 50.5;
  tensorboard_add_values(f->tensorboard, "linear", 1, values, 500);
  write_and_read(f);
  assert_int_equal(f->num_events, 4);
  check_histogram(f->event[3]->summary->value[0]->histo, values, 500);
  assert_true(f->event[3]->summary->value[0]->histo->min == -50.5);
  assert_true(f->event[3]->summary->value[0]->histo->max == 48.5);
  for (int i = 0; i < 500; i++) values[i] = i % 50 == 0 ? 0 : exp2(i % 37 - 8);
  check_histogram(f->event[2]->summary->value[0]->histo, values, 500);
  check_widths(f->event[2]->summary->value[0]->histo);
  assert_true(f->event[2]->summary->value[0]->histo->max == exp2(28));
  free(histogram);
  free(snapshot);
}

/* A file that may not grow stands for a disk that is full: the write is cut in the middle. */
static void test_a_full_disk_leaves_whole_records(void **state) {
  struct fixture *f = *state;
  struct error error;
  assert_int_equal(tensorboard_write(f->tensorboard, &error), STATUS_OK);
  signal(SIGXFSZ, SIG_IGN);
  struct rlimit before, full;
  getrlimit(RLIMIT_FSIZE, &before);
  full = before;
  full.rlim_cur = 200;
  setrlimit(RLIMIT_FSIZE, &full);
  for (int i = 0; i < 100; i++) tensorboard_add_scalar(f->tensorboard, "lost", i, i);
  enum status cut = tensorboard_write(f->tensorboard, &error);
  setrlimit(RLIMIT_FSIZE, &before);
  assert_int_equal(cut, STATUS_IO);
  assert_non_null(strstr(error.text, tensorboard_path(f->tensorboard)));
  assert_non_null(strstr(error.text, "File too large"));
  tensorboard_add_scalar(f->tensorboard, "kept", 101, 1);
  write_and_read(f);
  assert_int_equal(f->num_events, 3);
  assert_string_equal(f->event[2]->summary->value[0]->tag, "kept");
}

static void make_file(const struct fixture *f, const char *name) {
  char path[128];
  snprintf(path, sizeof(path), "%s/%s", f->folder, name);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fclose(file);
}

static void remove_file(const struct fixture *f, const char *name) {
  char path[128];
  snprintf(path, sizeof(path), "%s/%s", f->folder, name);
  assert_int_equal(unlink(path), 0);
}

static const char *name_of(const struct tensorboard *tensorboard) {
  return strrchr(tensorboard_path(tensorboard), '/') + 1;
}

/* Readers take the files by name: after one of the same second, of a clock that was ahead, of a
 * process whose number was larger. */
static void test_files_are_in_the_order_of_their_names(void **state) {
  struct fixture *f = *state;
  static const char ahead[] = "events.out.tfevents.4000000000.z.9",
                    odd[] = "events.out.tfevents.99999999999.z.9";
  struct tensorboard *second, *third;
  struct error error;
  assert_int_equal(tensorboard_open(&second, f->folder, 0, &error), STATUS_OK);
  assert_true(strcmp(name_of(second), name_of(f->tensorboard)) > 0);
  make_file(f, ahead);
  make_file(f, odd);
  assert_int_equal(tensorboard_open(&third, f->folder, 0, &error), STATUS_OK);
  assert_int_equal(strncmp(name_of(third), "events.out.tfevents.4000000001.", 31), 0);
  remove_file(f, ahead);
  remove_file(f, odd);
  remove_file(f, name_of(second));
  remove_file(f, name_of(third));
  tensorboard_close(second);
  tensorboard_close(third);
}

static void test_a_folder_that_is_not_there(void **state) {
  (void)state;
  struct tensorboard *none = NULL;
  struct error error;
  assert_int_equal(tensorboard_open(&none, "/tmp/there/is/no/such/folder", 0, &error), STATUS_IO);
  assert_non_null(strstr(error.text, "/tmp/there/is/no/such/folder/events.out.tfevents."));
  assert_null(none);
}

#define WITH_FILE(test) cmocka_unit_test_setup_teardown(test, create, destroy)

int main(void) {
  const struct CMUnitTest tests[] = {
      WITH_FILE(test_known_bytes),
      WITH_FILE(test_hparams),
      WITH_FILE(test_images),
      WITH_FILE(test_what_is_no_number_is_left_out),
      WITH_FILE(test_histograms),
      WITH_FILE(test_files_are_in_the_order_of_their_names),
      WITH_FILE(test_a_full_disk_leaves_whole_records),
      cmocka_unit_test(test_a_folder_that_is_not_there),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
