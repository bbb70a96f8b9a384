/* Streams, events and graphs. Each stream is a thread with a queue. */
#include <pthread.h>

#include <vector>

#include "internal.h"

/* One recording of an event: done once the stream has come to it. */
struct record {
  uint32_t is_done, references;
  uint64_t edge; /* from what the stream did before it to what waits for it */
};

enum kind { WORK, RECORD, WAIT, END };

struct task {
  struct task *next;
  uint64_t edge; /* from the host to the stream */
  enum kind kind;
  uint32_t hold; /* number of the hold that it was given in; 0: none */
  struct emulated_work *work;
  struct record *record;
};

struct emulated_stream {
  pthread_t thread;
  struct hidden_lock lock; /* guards first, last */
  struct task *first, *last;
  uint32_t given;                 /* counts tasks; a stream without work waits on it */
  struct emulated_graph *capture; /* what it captures; NULL: it runs */
  struct emulated_stream *next;
};

struct emulated_event {
  struct record *record; /* the newest; NULL: none */
  bool blocks;
};

/* What was captured, of one stream. */
struct emulated_graph {
  std::vector<struct emulated_work *> steps;
};

static struct hidden_lock lock; /* guards the list of streams */
static struct emulated_stream *streams;
static thread_local int captures_of_thread;
static long launches;

/* ---- records: from a pool, as memory that the streams free would be a race of its own */

enum { MAX_RECORDS = 1 << 16 };
static struct record pool[MAX_RECORDS];
static struct record *unused[MAX_RECORDS];
static int num_unused, num_used;
static struct hidden_lock pool_lock;

static struct record *record_create(uint32_t references) {
  hidden_take(&pool_lock);
  if (!num_unused && num_used == MAX_RECORDS) EMULATED_FAIL("too many events are waited for");
  struct record *record = num_unused ? unused[--num_unused] : &pool[num_used++];
  hidden_give(&pool_lock);
  record->is_done = 0;
  record->references = references;
  return record;
}

static void record_release(struct record *record) {
  if (!record || __atomic_sub_fetch(&record->references, 1, __ATOMIC_ACQ_REL) > 0) return;
  hidden_take(&pool_lock);
  unused[num_unused++] = record;
  hidden_give(&pool_lock);
}

static void record_wait(struct record *record) {
  hidden_wait(&record->is_done, 0);
  edge_acquire(&record->edge);
}

static void record_finish(struct record *record) {
  edge_release(&record->edge);
  __atomic_store_n(&record->is_done, 1, __ATOMIC_RELEASE);
  hidden_wake(&record->is_done);
}

/* ---- work */

static void work_take(struct emulated_work *work) {
  __atomic_fetch_add(&work->references, 1, __ATOMIC_RELAXED);
}

static void work_release(struct emulated_work *work) {
  if (__atomic_sub_fetch(&work->references, 1, __ATOMIC_ACQ_REL) > 0) return;
  edge_acquire(&work->edge);
  work->destroy(work);
}

static void work_run(struct emulated_work *work) {
  if (machine_broken() != cudaSuccess) return;
  if (!work->is_kernel) {
    work->run(work);
    return;
  }
  const struct machine *machine = machine_get();
  bool counts = !*machine->failing_kernel || strstr(work->name, machine->failing_kernel);
  long launch = counts ? __atomic_add_fetch(&launches, 1, __ATOMIC_RELAXED) : 0;
  if (launch && launch == machine->failing_launch)
    machine_break();
  else
    fibers_run(work);
}

/* ---- what tests ask for */

static uint32_t holds, spared_holds, ended_holds;

void emulated_hold() {
  __atomic_fetch_add(&holds, 1, __ATOMIC_RELEASE);
}

void emulated_spare() {
  __atomic_store_n(&spared_holds, __atomic_load_n(&holds, __ATOMIC_ACQUIRE), __ATOMIC_RELEASE);
}

void emulated_let_go() {
  __atomic_store_n(&ended_holds, __atomic_load_n(&holds, __ATOMIC_ACQUIRE), __ATOMIC_RELEASE);
  hidden_wake(&ended_holds);
}

static uint32_t present_hold() {
  uint32_t hold = __atomic_load_n(&holds, __ATOMIC_ACQUIRE);
  bool over = hold <= __atomic_load_n(&ended_holds, __ATOMIC_ACQUIRE) ||
              hold <= __atomic_load_n(&spared_holds, __ATOMIC_ACQUIRE);
  return over ? 0 : hold;
}

static void wait_for_end(uint32_t hold) {
  uint32_t ended;
  while ((ended = __atomic_load_n(&ended_holds, __ATOMIC_ACQUIRE)) < hold)
    hidden_wait(&ended_holds, ended);
}

/* ---- a stream's thread */

static struct task *take(struct emulated_stream *stream) {
  for (;;) {
    uint32_t given = __atomic_load_n(&stream->given, __ATOMIC_ACQUIRE);
    hidden_take(&stream->lock);
    struct task *task = stream->first;
    if (task) stream->first = task->next;
    if (!stream->first) stream->last = NULL;
    hidden_give(&stream->lock);
    if (task) return task;
    hidden_wait(&stream->given, given);
  }
}

static void *run_stream(void *argument) {
  struct emulated_stream *stream = (struct emulated_stream *)argument;
  for (;;) {
    struct task *task = take(stream);
    wait_for_end(task->hold);
    edge_acquire(&task->edge);
    enum kind kind = task->kind;
    if (kind == WORK) {
      work_run(task->work);
      edge_release(&task->work->edge);
      work_release(task->work);
    } else if (kind != END) {
      if (kind == RECORD) record_finish(task->record);
      if (kind == WAIT) record_wait(task->record);
      record_release(task->record);
    }
    free(task);
    if (kind == END) break;
  }
  fibers_end();
  return NULL;
}

/* Takes the work, or a reference of the record. */
static void give(struct emulated_stream *stream, enum kind kind, struct emulated_work *work,
                 struct record *record) {
  struct task *task = (struct task *)calloc(1, sizeof *task);
  task->kind = kind;
  task->work = work;
  task->record = record;
  task->hold = present_hold();
  edge_release(&task->edge);
  hidden_take(&stream->lock);
  if (stream->last)
    stream->last->next = task;
  else
    stream->first = task;
  stream->last = task;
  hidden_give(&stream->lock);
  __atomic_fetch_add(&stream->given, 1, __ATOMIC_RELEASE);
  hidden_wake(&stream->given);
}

static void give_record(struct emulated_stream *stream, enum kind kind, struct record *record) {
  __atomic_fetch_add(&record->references, 1, __ATOMIC_RELAXED);
  give(stream, kind, NULL, record);
}

static void synchronize(struct emulated_stream *stream) {
  struct record *record = record_create(1);
  give_record(stream, RECORD, record);
  record_wait(record);
  record_release(record);
}

static cudaError_t check_stream(struct emulated_stream *stream, const char *call) {
  if (!stream) EMULATED_FAIL("%s: the default stream", call);
  return machine_error(machine_broken());
}

static cudaError_t create(struct emulated_stream **out) {
  *out = NULL;
  cudaError_t error = machine_get()->without_device;
  if (error != cudaSuccess) return machine_error(error);
  struct emulated_stream *stream = (struct emulated_stream *)calloc(1, sizeof *stream);
  if (pthread_create(&stream->thread, NULL, run_stream, stream) != 0)
    EMULATED_FAIL("no thread for a stream");
  hidden_take(&lock);
  stream->next = streams;
  streams = stream;
  hidden_give(&lock);
  *out = stream;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned, int) {
  COUNT_CALL("cudaStreamCreateWithPriority");
  return create(stream);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (!stream) EMULATED_FAIL("cudaStreamDestroy: the default stream");
  hidden_take(&lock);
  struct emulated_stream **link = &streams;
  while (*link != stream) link = &(*link)->next;
  *link = stream->next;
  hidden_give(&lock);
  give(stream, END, NULL, NULL);
  pthread_join(stream->thread, NULL);
  free(stream);
  return machine_error(machine_broken());
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  COUNT_CALL("cudaStreamSynchronize");
  cudaError_t error = check_stream(stream, "cudaStreamSynchronize");
  if (error == cudaSuccess) error = streams_refuse_capture();
  if (error != cudaSuccess) return error;
  synchronize(stream);
  return machine_error(machine_broken());
}

/* Waits behind the lock: a stream may be destroyed meanwhile, when it is done. */
cudaError_t streams_synchronize() {
  std::vector<struct record *> records;
  hidden_take(&lock);
  for (struct emulated_stream *stream = streams; stream; stream = stream->next) {
    if (stream->capture) continue;
    records.push_back(record_create(1));
    give_record(stream, RECORD, records.back());
  }
  hidden_give(&lock);
  for (struct record *record : records) {
    record_wait(record);
    record_release(record);
  }
  return machine_error(machine_broken());
}

cudaError_t streams_refuse_capture() {
  return machine_error(captures_of_thread ? cudaErrorStreamCaptureUnsupported : cudaSuccess);
}

cudaError_t cudaDeviceSynchronize() {
  COUNT_CALL("cudaDeviceSynchronize");
  cudaError_t error = streams_refuse_capture();
  return error == cudaSuccess ? streams_synchronize() : error;
}

/* ---- work that is given, or captured */

/* Takes the work. */
static cudaError_t submit_uncounted(struct emulated_stream *stream, struct emulated_work *work) {
  cudaError_t error = check_stream(stream, work->name);
  if (error != cudaSuccess)
    work_release(work);
  else if (stream->capture)
    stream->capture->steps.push_back(work);
  else
    give(stream, WORK, work, NULL);
  return error;
}

static cudaError_t submit(struct emulated_stream *stream, struct emulated_work *work) {
  COUNT_CALL("work");
  return submit_uncounted(stream, work);
}

void emulated_enqueue_kernel(cudaStream_t stream, struct emulated_work *work) {
  size_t threads = (size_t)work->block.x * work->block.y * work->block.z;
  if (threads < 1 || threads > 1024 || work->grid.x < 1 || work->grid.y < 1 || work->grid.z < 1 ||
      work->grid.y > 65535 || work->grid.z > 65535) {
    machine_error(cudaErrorInvalidConfiguration);
    work_release(work);
    return;
  }
  if (work->shared_bytes > machine_shared(work->kernel)) {
    machine_error(cudaErrorInvalidValue);
    work_release(work);
    return;
  }
  const char *blocking = getenv("CUDA_LAUNCH_BLOCKING");
  if (submit(stream, work) == cudaSuccess && blocking && *blocking == '1' && !stream->capture)
    synchronize(stream);
}

/* ---- copies */

struct transfer {
  struct emulated_work work;
  void *to;
  const void *from; /* NULL: value */
  size_t to_pitch, from_pitch, width, height;
  int value;
};

static void transfer_run(struct emulated_work *work) {
  struct transfer *t = (struct transfer *)work;
  for (size_t i = 0; i < t->height; i++) {
    char *to = (char *)t->to + i * t->to_pitch, *from = (char *)t->from + i * t->from_pitch;
    __tsan_write_range(to, t->width);
    if (t->from) {
      __tsan_read_range(from, t->width);
      memmove(to, from, t->width);
    } else {
      memset(to, t->value, t->width);
    }
  }
}

static void transfer_destroy(struct emulated_work *work) {
  free(work);
}

static struct emulated_work *make_transfer(const struct transfer *given, const char *name) {
  struct transfer *made = (struct transfer *)calloc(1, sizeof *made);
  memcpy((void *)made, (const void *)given, sizeof *made);
  made->work.name = name;
  made->work.run = transfer_run;
  made->work.destroy = transfer_destroy;
  made->work.references = 1;
  return &made->work;
}

static cudaError_t submit_transfer(const struct transfer *given, const char *name,
                                   cudaStream_t stream) {
  return submit(stream, make_transfer(given, name));
}

void emulated_poison(cudaStream_t stream, void *memory, size_t bytes) {
  struct transfer made = {};
  made.to = memory;
  made.value = 0xff;
  made.to_pitch = made.width = bytes;
  made.height = 1;
  if (bytes) submit_uncounted(stream, make_transfer(&made, "poison"));
}

/* The host's memory has to be pinned, or else the GPU's copy would not be asynchronous: checked in
 * a capture, since a graph runs it again; elsewhere it is treated as if it were. */
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t height, enum cudaMemcpyKind kind,
                              cudaStream_t stream) {
  if (width == 0 || height == 0) return machine_error(machine_broken());
  bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (kind == cudaMemcpyDefault) {
    to_device = memory_is_on_device(to);
    from_device = memory_is_on_device(from);
  }
  memory_check(to, (height - 1) * to_pitch + width, to_device, "cudaMemcpyAsync to");
  memory_check(from, (height - 1) * from_pitch + width, from_device, "cudaMemcpyAsync from");
  if (stream && stream->capture && (!memory_is_known(to) || !memory_is_known(from)))
    EMULATED_FAIL("cudaMemcpyAsync: a graph would copy memory of the host that is not pinned");
  struct transfer made = {};
  made.to = to;
  made.from = from;
  made.to_pitch = to_pitch;
  made.from_pitch = from_pitch;
  made.width = width;
  made.height = height;
  return submit_transfer(&made, "cudaMemcpyAsync", stream);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return cudaMemcpy2DAsync(to, bytes, from, bytes, bytes, 1, kind, stream);
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return machine_error(machine_broken());
  memory_check(to, bytes, true, "cudaMemsetAsync");
  struct transfer made = {};
  made.to = to;
  made.value = value;
  made.width = bytes;
  made.height = 1;
  return submit_transfer(&made, "cudaMemsetAsync", stream);
}

struct host_call {
  struct emulated_work work;
  cudaHostFn_t function;
  void *argument;
};

static void host_call_run(struct emulated_work *work) {
  struct host_call *call = (struct host_call *)work;
  call->function(call->argument);
}

/* For the emulated NCCL, which is a library of its own. */
extern "C" __attribute__((visibility("default"))) int emulated_launch_host(void *stream,
                                                                           cudaHostFn_t function,
                                                                           void *argument);

int emulated_launch_host(void *stream, cudaHostFn_t function, void *argument) {
  COUNT_CALL("nccl");
  return cudaLaunchHostFunc((cudaStream_t)stream, function, argument);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *argument) {
  struct host_call *call = (struct host_call *)calloc(1, sizeof *call);
  call->work.name = "cudaLaunchHostFunc";
  call->work.run = host_call_run;
  call->work.destroy = transfer_destroy;
  call->work.references = 1;
  call->function = function;
  call->argument = argument;
  return submit(stream, &call->work);
}

/* ---- events */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags) {
  COUNT_CALL("cudaEventCreateWithFlags");
  cudaError_t error = machine_get()->without_device;
  if (error != cudaSuccess) return machine_error(error);
  struct emulated_event *event = (struct emulated_event *)calloc(1, sizeof *event);
  event->blocks = flags & cudaEventBlockingSync;
  *out = event;
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (!event) return machine_error(cudaErrorInvalidResourceHandle);
  record_release(event->record);
  free(event);
  return cudaSuccess;
}

/* The event's newest record, with a reference; NULL: there is none. A thread may wait while another
 * one records again. */
static struct hidden_lock event_lock;

static struct record *newest(struct emulated_event *event) {
  hidden_take(&event_lock);
  struct record *record = event->record;
  if (record) __atomic_fetch_add(&record->references, 1, __ATOMIC_RELAXED);
  hidden_give(&event_lock);
  return record;
}

static void set_newest(struct emulated_event *event, struct record *record) {
  hidden_take(&event_lock);
  struct record *old = event->record;
  event->record = record;
  hidden_give(&event_lock);
  record_release(old);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  COUNT_CALL("cudaEventRecord");
  cudaError_t error = check_stream(stream, "cudaEventRecord");
  if (error != cudaSuccess) return error;
  if (stream->capture) EMULATED_FAIL("cudaEventRecord: in a capture");
  struct record *record = record_create(1);
  give_record(stream, RECORD, record);
  set_newest(event, record);
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  COUNT_CALL("cudaStreamWaitEvent");
  cudaError_t error = check_stream(stream, "cudaStreamWaitEvent");
  if (error != cudaSuccess) return error;
  if (stream->capture) EMULATED_FAIL("cudaStreamWaitEvent: in a capture");
  struct record *record = newest(event);
  if (record) give(stream, WAIT, NULL, record);
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  COUNT_CALL("cudaEventSynchronize");
  cudaError_t error = streams_refuse_capture();
  if (error != cudaSuccess) return error;
  if (!event->blocks) COUNT_CALL("spin");
  struct record *record = newest(event);
  if (record) record_wait(record);
  record_release(record);
  return machine_error(machine_broken());
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  COUNT_CALL("cudaEventQuery");
  struct record *record = newest(event);
  bool is_done = !record || __atomic_load_n(&record->is_done, __ATOMIC_ACQUIRE);
  if (record && is_done) edge_acquire(&record->edge);
  record_release(record);
  if (machine_broken() != cudaSuccess) return machine_error(machine_broken());
  return is_done ? cudaSuccess : cudaErrorNotReady;
}

/* ---- graphs */

/* Names of what launched graphs were made of, for tests; "poison" is the emulation's own. */
static struct hidden_lock nodes_lock;
static std::vector<const char *> nodes;

static void note_nodes(const struct emulated_graph *graph) {
  hidden_take(&nodes_lock);
  for (const struct emulated_work *work : graph->steps)
    if (strcmp(work->name, "poison") != 0) nodes.push_back(work->name);
  hidden_give(&nodes_lock);
}

size_t emulated_take_nodes(const char **names, size_t most) {
  hidden_take(&nodes_lock);
  size_t count = nodes.size();
  for (size_t i = 0; i < count && i < most; i++) names[i] = nodes[i];
  nodes.clear();
  hidden_give(&nodes_lock);
  return count;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode) {
  COUNT_CALL("cudaStreamBeginCapture");
  cudaError_t error = check_stream(stream, "cudaStreamBeginCapture");
  if (error != cudaSuccess) return error;
  if (stream->capture || machine_get()->without_captures)
    return machine_error(cudaErrorStreamCaptureUnsupported);
  stream->capture = new struct emulated_graph();
  captures_of_thread++;
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out) {
  COUNT_CALL("cudaStreamEndCapture");
  *out = NULL;
  struct emulated_graph *graph = stream->capture;
  if (!graph) return machine_error(cudaErrorInvalidValue);
  stream->capture = NULL;
  captures_of_thread--;
  if (machine_get()->without_graphs) {
    cudaGraphDestroy(graph);
    return machine_error(cudaErrorStreamCaptureInvalidated);
  }
  *out = graph;
  return machine_error(machine_broken());
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status) {
  COUNT_CALL("cudaStreamIsCapturing");
  *status = stream->capture ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long) {
  COUNT_CALL("cudaGraphInstantiate");
  struct emulated_graph *instance = new struct emulated_graph(*graph);
  for (struct emulated_work *work : instance->steps) work_take(work);
  *out = instance;
  return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) {
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  COUNT_CALL("cudaGraphLaunch");
  cudaError_t error = check_stream(stream, "cudaGraphLaunch");
  if (error != cudaSuccess) return error;
  if (stream->capture) return machine_error(cudaErrorStreamCaptureUnsupported);
  note_nodes(graph);
  for (struct emulated_work *work : graph->steps) {
    work_take(work);
    give(stream, WORK, work, NULL);
  }
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  for (struct emulated_work *work : graph->steps) work_release(work);
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  return cudaGraphDestroy(graph);
}
