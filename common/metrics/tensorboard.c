#include "common/metrics/tensorboard.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "common/base/append.h"
#include "common/base/check.h"
#include "common/metrics/tfrecord.h"
#include "common/picture/png.h"
#include "tensorboard.pb-c.h"

enum { FIRST_BYTES = 65536, PATH_BYTES = 1024, HOST_BYTES = 256 };

static const char name_begin[] = "events.out.tfevents.";
static const long long LAST_TIME = 9999999999; // that its ten digits in a name have room for

struct tensorboard {
  char path[PATH_BYTES];
  int fd;
  off_t end;          // of the last whole record
  uint8_t *added;     // records that are not in the file yet
  size_t bytes, room; // of added
};

static double wall_time(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* ---- events */

static uint8_t *reserve(struct tensorboard *tensorboard, size_t bytes) {
  if (tensorboard->bytes + bytes > tensorboard->room) {
    size_t room = 2 * (tensorboard->bytes + bytes) + FIRST_BYTES;
    tensorboard->added = realloc(tensorboard->added, room);
    CHECK(tensorboard->added, "out of memory for %zu bytes of events", room);
    tensorboard->room = room;
  }
  uint8_t *at = tensorboard->added + tensorboard->bytes;
  tensorboard->bytes += bytes;
  return at;
}

static void add_event(struct tensorboard *tensorboard, Tensorboard__Event *event) {
  event->wall_time = wall_time();
  size_t bytes = tensorboard__event__get_packed_size(event);
  uint8_t *record = reserve(tensorboard, TFRECORD_HEADER_BYTES + bytes + TFRECORD_FOOTER_BYTES);
  tensorboard__event__pack(event, record + TFRECORD_HEADER_BYTES);
  tfrecord_frame(record, bytes);
}

static void add_value(struct tensorboard *tensorboard, const char *tag, int64_t step,
                      Tensorboard__Summary__Value *value) {
  value->tag = (char *)tag;
  Tensorboard__Summary summary = TENSORBOARD__SUMMARY__INIT;
  summary.n_value = 1;
  summary.value = &value;
  Tensorboard__Event event = TENSORBOARD__EVENT__INIT;
  event.step = step;
  event.what_case = TENSORBOARD__EVENT__WHAT_SUMMARY;
  event.summary = &summary;
  add_event(tensorboard, &event);
}

void tensorboard_add_scalar(struct tensorboard *tensorboard, const char *tag, int64_t step,
                            double number) {
  if (!isfinite((float)number)) return;
  Tensorboard__Summary__Value value = TENSORBOARD__SUMMARY__VALUE__INIT;
  value.value_case = TENSORBOARD__SUMMARY__VALUE__VALUE_SIMPLE_VALUE;
  value.simple_value = (float)number;
  add_value(tensorboard, tag, step, &value);
}

static void add_tensor(struct tensorboard *tensorboard, const char *tag, int64_t step,
                       Tensorboard__TensorProto *tensor, const char *plugin, const uint8_t *content,
                       size_t bytes) {
  Tensorboard__SummaryMetadata__PluginData data = TENSORBOARD__SUMMARY_METADATA__PLUGIN_DATA__INIT;
  data.plugin_name = (char *)plugin;
  data.content = (ProtobufCBinaryData){bytes, (uint8_t *)content};
  Tensorboard__SummaryMetadata metadata = TENSORBOARD__SUMMARY_METADATA__INIT;
  metadata.plugin_data = &data;
  Tensorboard__Summary__Value value = TENSORBOARD__SUMMARY__VALUE__INIT;
  value.metadata = &metadata;
  value.value_case = TENSORBOARD__SUMMARY__VALUE__VALUE_TENSOR;
  value.tensor = tensor;
  add_value(tensorboard, tag, step, &value);
}

void tensorboard_add_text(struct tensorboard *tensorboard, const char *tag, int64_t step,
                          const char *markdown) {
  Tensorboard__TensorShapeProto__Dim dim = TENSORBOARD__TENSOR_SHAPE_PROTO__DIM__INIT;
  dim.size = 1;
  Tensorboard__TensorShapeProto__Dim *dims[] = {&dim};
  Tensorboard__TensorShapeProto shape = TENSORBOARD__TENSOR_SHAPE_PROTO__INIT;
  shape.n_dim = 1;
  shape.dim = dims;
  ProtobufCBinaryData text = {strlen(markdown), (uint8_t *)markdown};
  Tensorboard__TensorProto tensor = TENSORBOARD__TENSOR_PROTO__INIT;
  tensor.dtype = TENSORBOARD__DATA_TYPE__DT_STRING;
  tensor.tensor_shape = &shape;
  tensor.n_string_val = 1;
  tensor.string_val = &text;
  add_tensor(tensorboard, tag, step, &tensor, "text", NULL, 0);
}

void tensorboard_add_plugin(struct tensorboard *tensorboard, const char *tag, const char *plugin,
                            const uint8_t *content, size_t bytes) {
  // A value must be there; such a plugin looks at the content alone.
  float zero = 0;
  Tensorboard__TensorShapeProto shape = TENSORBOARD__TENSOR_SHAPE_PROTO__INIT;
  Tensorboard__TensorProto tensor = TENSORBOARD__TENSOR_PROTO__INIT;
  tensor.dtype = TENSORBOARD__DATA_TYPE__DT_FLOAT;
  tensor.tensor_shape = &shape;
  tensor.n_float_val = 1;
  tensor.float_val = &zero;
  add_tensor(tensorboard, tag, 0, &tensor, plugin, content, bytes);
}

void tensorboard_add_image(struct tensorboard *tensorboard, const char *tag, int64_t step,
                           const struct canvas *picture) {
  size_t bytes;
  uint8_t *png = png_encode(picture, &bytes);
  tensorboard_add_image_file(tensorboard, tag, step, picture->width, picture->height, png, bytes);
  free(png);
}

void tensorboard_add_image_file(struct tensorboard *tensorboard, const char *tag, int64_t step,
                                int width, int height, uint8_t *content, size_t bytes) {
  enum { RGB = 3 };
  Tensorboard__Image image = TENSORBOARD__IMAGE__INIT;
  image.height = height;
  image.width = width;
  image.colorspace = RGB;
  image.encoded_image_string = (ProtobufCBinaryData){bytes, content};
  Tensorboard__Summary__Value value = TENSORBOARD__SUMMARY__VALUE__INIT;
  value.value_case = TENSORBOARD__SUMMARY__VALUE__VALUE_IMAGE;
  value.image = &image;
  add_value(tensorboard, tag, step, &value);
}

/* ---- distributions */

// At most this many buckets are drawn, so that a run of days stays a file of megabytes.
enum {
  LINEAR_BUCKETS = 20,
  MERGED = 8, /* of histogram.h's buckets to one: four to an octave */
  MAX_BUCKETS = 2 * HISTOGRAM_BUCKETS / MERGED,
};

struct buckets {
  Tensorboard__HistogramProto proto;
  double limit[MAX_BUCKETS], count[MAX_BUCKETS];
};

static void buckets_init(struct buckets *buckets) {
  buckets->proto = (Tensorboard__HistogramProto)TENSORBOARD__HISTOGRAM_PROTO__INIT;
  buckets->proto.bucket_limit = buckets->limit;
  buckets->proto.bucket = buckets->count;
}

static void buckets_append(struct buckets *buckets, double limit, double count) {
  buckets->limit[buckets->proto.n_bucket] = limit;
  buckets->count[buckets->proto.n_bucket] = count;
  buckets->proto.n_bucket_limit = ++buckets->proto.n_bucket;
}

static void buckets_add(struct tensorboard *tensorboard, const char *tag, int64_t step,
                        struct buckets *buckets) {
  // Of values that are all the same nothing would be seen: a bucket without width is not drawn.
  Tensorboard__HistogramProto *proto = &buckets->proto;
  if (proto->n_bucket == 1 && proto->min >= proto->max) {
    proto->min -= 0.5;
    buckets->limit[0] = proto->max += 0.5;
  }
  Tensorboard__Summary__Value value = TENSORBOARD__SUMMARY__VALUE__INIT;
  value.value_case = TENSORBOARD__SUMMARY__VALUE__VALUE_HISTO;
  value.histo = proto;
  add_value(tensorboard, tag, step, &value);
}

// What a run of MERGED buckets holds; adds its squares, as if all were in the middle.
static double merge(const struct histogram_snapshot *values, int first, double *squares) {
  double count = 0;
  for (int i = first; i < first + MERGED; i++) {
    if (values->bucket[i] == 0) continue;
    double middle = 0.5 * (histogram_edge(i) + histogram_edge(i + 1));
    *squares += (double)values->bucket[i] * middle * middle;
    count += (double)values->bucket[i];
  }
  return count;
}

void tensorboard_add_histogram(struct tensorboard *tensorboard, const char *tag, int64_t step,
                               const struct histogram_snapshot *values) {
  if (values->num_bucketed == 0) return;
  struct buckets buckets;
  buckets_init(&buckets);
  Tensorboard__HistogramProto *proto = &buckets.proto;
  double end = NAN; // of the last bucket appended
  for (int first = 0; first < HISTOGRAM_BUCKETS; first += MERGED) {
    double count = merge(values, first, &proto->sum_squares);
    if (count == 0) continue;
    double begin = histogram_edge(first);
    if (proto->n_bucket == 0) proto->min = begin;
    // A gap is one empty bucket, however wide.
    if (proto->n_bucket > 0 && begin > end) buckets_append(&buckets, begin, 0);
    end = histogram_edge(first + MERGED);
    buckets_append(&buckets, end, count);
  }
  proto->max = values->max;
  proto->num = (double)values->num_bucketed;
  proto->sum = values->sum;
  buckets_add(tensorboard, tag, step, &buckets);
}

void tensorboard_add_values(struct tensorboard *tensorboard, const char *tag, int64_t step,
                            const double *values, int count) {
  if (count == 0) return;
  struct buckets buckets;
  buckets_init(&buckets);
  Tensorboard__HistogramProto *proto = &buckets.proto;
  proto->num = count;
  proto->min = proto->max = values[0];
  for (int i = 0; i < count; i++) {
    proto->min = fmin(proto->min, values[i]);
    proto->max = fmax(proto->max, values[i]);
    proto->sum += values[i];
    proto->sum_squares += values[i] * values[i];
  }
  double width = (proto->max - proto->min) / LINEAR_BUCKETS;
  int num = width > 0 ? LINEAR_BUCKETS : 1;
  for (int i = 1; i <= num; i++)
    buckets_append(&buckets, i < num ? proto->min + i * width : proto->max, 0);
  for (int i = 0; i < count; i++) {
    int place = width > 0 ? (int)((values[i] - proto->min) / width) : 0;
    buckets.count[place < num ? place : num - 1] += 1;
  }
  buckets_add(tensorboard, tag, step, &buckets);
}

/* ---- the file */

// What a file begins with: the format, and that it replaces what earlier files have past the step.
static void add_beginning(struct tensorboard *tensorboard, int64_t first_step) {
  Tensorboard__Event version = TENSORBOARD__EVENT__INIT;
  version.what_case = TENSORBOARD__EVENT__WHAT_FILE_VERSION;
  version.file_version = (char *)"brain.Event:2";
  add_event(tensorboard, &version);
  Tensorboard__SessionLog start = TENSORBOARD__SESSION_LOG__INIT;
  start.status = TENSORBOARD__SESSION_LOG__SESSION_STATUS__START;
  Tensorboard__Event event = TENSORBOARD__EVENT__INIT;
  event.step = first_step + 1;
  event.what_case = TENSORBOARD__EVENT__WHAT_SESSION_LOG;
  event.session_log = &start;
  add_event(tensorboard, &event);
}

// The time in the name of an event file; -1: it is none, or no such time has a successor.
static long long time_of(const char *name) {
  char *end;
  if (strncmp(name, name_begin, strlen(name_begin)) != 0) return -1;
  long long seconds = strtoll(name + strlen(name_begin), &end, 10);
  return *end == '.' && seconds >= 0 && seconds < LAST_TIME ? seconds : -1;
}

// A second later than every file that is there, and not before now: readers take the files in the
// order of their names, but clocks are set back, and two starts may fall into one second.
static long long choose_time(const char *folder) {
  long long chosen = time(NULL);
  DIR *entries = opendir(folder);
  if (!entries) return chosen;
  for (const struct dirent *entry; (entry = readdir(entries));) {
    long long earlier = time_of(entry->d_name);
    if (chosen <= earlier) chosen = earlier + 1;
  }
  closedir(entries);
  return chosen;
}

static void set_path(struct tensorboard *tensorboard, const char *folder, long long seconds) {
  char host[HOST_BYTES] = "";
  gethostname(host, sizeof(host) - 1);
  int length = snprintf(tensorboard->path, PATH_BYTES, "%s/%s%010lld.%s.%d", folder, name_begin,
                        seconds, host[0] ? host : "localhost", (int)getpid());
  CHECK(length < PATH_BYTES, "the path of the event file is too long: %s", tensorboard->path);
}

enum status tensorboard_open(struct tensorboard **out, const char *folder, int64_t first_step,
                             struct error *error) {
  struct tensorboard *tensorboard = check_alloc(1, sizeof(*tensorboard));
  set_path(tensorboard, folder, choose_time(folder));
  tensorboard->fd =
      open(tensorboard->path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
  if (tensorboard->fd < 0) {
    enum status status =
        status_fail(error, STATUS_IO, "cannot write %s: %s", tensorboard->path, strerror(errno));
    tensorboard_close(tensorboard);
    return status;
  }
  add_beginning(tensorboard, first_step);
  *out = tensorboard;
  return STATUS_OK;
}

void tensorboard_close(struct tensorboard *tensorboard) {
  if (!tensorboard) return;
  if (tensorboard->fd >= 0) close(tensorboard->fd);
  free(tensorboard->added);
  free(tensorboard);
}

const char *tensorboard_path(const struct tensorboard *tensorboard) {
  return tensorboard->path;
}

enum status tensorboard_write(struct tensorboard *tensorboard, struct error *error) {
  size_t bytes = tensorboard->bytes;
  tensorboard->bytes = 0;
  if (bytes == 0) return STATUS_OK;
  if (!append_whole(tensorboard->fd, tensorboard->added, bytes, tensorboard->end))
    return status_fail(error, STATUS_IO, "cannot write %s: %s", tensorboard->path, strerror(errno));
  tensorboard->end += (off_t)bytes;
  return STATUS_OK;
}
