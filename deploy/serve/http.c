#include "deploy/serve/http.h"

#include <errno.h>
#include <jansson.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/private_file.h"
#include "common/base/version.h"
#include "common/metrics/prometheus.h"
#include "deploy/serve/request_json.h"

enum {
  IDLE_S = 60,
  BACKLOG = 1024,
  MAX_PATH_PARTS = 8,
  PATH_BYTES = 512,
  MAX_CONNECTION_MEMORY = 65536,
  MAX_TLS_BYTES = 1 << 20
};

struct http {
  struct service *service;
  struct http_options options;
  struct MHD_Daemon *daemon;
  int port;
  char *cert, *key;     /* NULL: no TLS */
  atomic_int suspended; /* connections */
  atomic_bool stopping; /* set before `suspended` is read, which is counted before this is read */
};

/* A request, from its first header to the last byte of its response. Thread: the daemon's; between
 * submission and `done` the version's. */
struct call {
  struct http *http;
  struct MHD_Connection *connection;
  char *body;
  size_t bytes, room;
  bool too_large;
  /* of an inference: */
  bool suspended; /* or was */
  struct model *model;
  struct version *version; /* until it is given back */
  struct request request;
  enum json_form form;
  enum status status;
  struct error error;
};

/* What a path names: /v2/models/MODEL/versions/VERSION/infer. */
struct route {
  int api;       /* 1 or 2; 0: neither */
  char what[32]; /* "infer", "predict", "ready" ...; "": the thing itself */
  char model[MODEL_NAME_BYTES];
  struct model_choice choice;
};

/* ---- responses */

static enum MHD_Result respond(const struct call *call, unsigned code, const char *type, char *text,
                               size_t bytes) {
  struct MHD_Response *response =
      MHD_create_response_from_buffer(bytes, text, MHD_RESPMEM_MUST_FREE);
  CHECK(response, "out of memory for a response");
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
  if (code == MHD_HTTP_UNAUTHORIZED)
    MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
  if (atomic_load(&call->http->service->draining))
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
  enum MHD_Result result = MHD_queue_response(call->connection, code, response);
  MHD_destroy_response(response);
  return result;
}

static enum MHD_Result respond_json(const struct call *call, unsigned code, json_t *json) {
  char *text = json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(9));
  CHECK(text, "out of memory for a response");
  json_decref(json);
  return respond(call, code, "application/json", text, strlen(text));
}

/* The same form in both protocols. */
static enum MHD_Result respond_error(const struct call *call, unsigned code, const char *text) {
  json_t *error = json_string(text);
  return respond_json(call, code,
                      json_pack("{s:o}", "error", error ? error : json_string("no UTF-8")));
}

static enum MHD_Result respond_status(const struct call *call, enum status status,
                                      const struct error *error) {
  unsigned code = status == STATUS_NOT_FOUND     ? MHD_HTTP_NOT_FOUND
                  : status == STATUS_EXHAUSTED   ? MHD_HTTP_SERVICE_UNAVAILABLE
                  : status == STATUS_UNAVAILABLE ? MHD_HTTP_SERVICE_UNAVAILABLE
                                                 : MHD_HTTP_BAD_REQUEST;
  return respond_error(call, code, error->text);
}

/* ---- paths */

static void set(char *to, size_t room, const char *text) {
  snprintf(to, room, "%s", text);
}

/* ["versions", V] or ["labels", L]. */
static int parse_choice(struct model_choice *choice, char *const part[], int count) {
  if (count >= 2 && strcmp(part[0], "versions") == 0) {
    set(choice->version, sizeof(choice->version), part[1]);
    return 2;
  }
  if (count >= 2 && strcmp(part[0], "labels") == 0) {
    set(choice->label, sizeof(choice->label), part[1]);
    return 2;
  }
  return 0;
}

/* "M:predict" is the model M, and what is done. */
static void split_verb(struct route *route, char *last) {
  char *colon = strrchr(last, ':');
  if (!colon || route->api != 1) return;
  *colon = '\0';
  set(route->what, sizeof(route->what), colon + 1);
}

/* false: no such path. */
static bool parse_route(struct route *route, const char *url) {
  char path[PATH_BYTES], *part[MAX_PATH_PARTS], *rest = NULL;
  int count = 0;
  *route = (struct route){.api = 0};
  if (strlen(url) >= sizeof(path)) return false;
  set(path, sizeof(path), url);
  for (char *p = strtok_r(path, "/", &rest); p; p = strtok_r(NULL, "/", &rest)) {
    if (count == MAX_PATH_PARTS) return false;
    part[count++] = p;
  }
  if (count == 0) return false;
  route->api = strcmp(part[0], "v2") == 0 ? 2 : strcmp(part[0], "v1") == 0 ? 1 : 0;
  if (route->api == 2 && count <= 3 && (count < 2 || strcmp(part[1], "models") != 0)) {
    set(route->what, sizeof(route->what), count == 3 ? part[2] : count == 2 ? part[1] : "server");
    return count != 2;
  }
  if (!route->api || count < 3 || strcmp(part[1], "models") != 0) return false;
  split_verb(route, part[count - 1]);
  set(route->model, sizeof(route->model), part[2]);
  int used = 3 + parse_choice(&route->choice, part + 3, count - 3);
  if (used == count) return true;
  if (used + 1 < count || route->what[0]) return false;
  set(route->what, sizeof(route->what), part[used]);
  return true;
}

/* ---- what a model is */

static void add_number(void *versions, int64_t version, const char *failure) {
  char text[24];
  snprintf(text, sizeof(text), "%lld", (long long)version);
  if (!failure) json_array_append_new(versions, json_string(text));
}

static json_t *describe_tensors(const struct tensor *tensors, int count) {
  json_t *list = json_array();
  for (int i = 0; i < count; i++) {
    json_t *shape = json_pack("[i]", -1);
    for (int d = 0; d < tensors[i].rank; d++)
      json_array_append_new(shape, json_integer(tensors[i].shape[d]));
    json_array_append_new(list, json_pack("{s:s,s:s,s:o}", "name", tensors[i].name, "datatype",
                                          tensor_type_name(tensors[i].type), "shape", shape));
  }
  return list;
}

static json_t *describe_model(struct model *model, const struct model_choice *choice) {
  const struct signature *signature = model_signature(model);
  json_t *versions = json_array();
  model_each(model, choice, add_number, versions);
  return json_pack("{s:s,s:o,s:s,s:{s:b},s:o,s:o}", "name", model_name(model), "versions", versions,
                   "platform", "acorn", "parameters", "sequence", (int)signature->remembers,
                   "inputs", describe_tensors(signature->input, signature->num_inputs), "outputs",
                   describe_tensors(signature->output, signature->num_outputs));
}

/* TensorFlow Serving's names. */
static json_t *describe_columns(const struct tensor *tensors, int count) {
  static const char *const types[TENSOR_TYPES] = {"DT_UINT8", "DT_INT32", "DT_INT64", "DT_FLOAT"};
  json_t *columns = json_object();
  for (int i = 0; i < count; i++) {
    json_t *dims = json_pack("[{s:s}]", "size", "-1");
    for (int d = 0; d < tensors[i].rank; d++) {
      char size[16];
      snprintf(size, sizeof(size), "%d", tensors[i].shape[d]);
      json_array_append_new(dims, json_pack("{s:s}", "size", size));
    }
    json_object_set_new(
        columns, tensors[i].name,
        json_pack("{s:s,s:{s:o}}", "dtype", types[tensors[i].type], "tensor_shape", "dim", dims));
  }
  return columns;
}

static json_t *describe_signature(struct model *model, const struct model_choice *choice) {
  const struct signature *signature = model_signature(model);
  json_t *versions = json_array();
  model_each(model, choice, add_number, versions);
  json_t *spec = json_pack("{s:s,s:O}", "name", model_name(model), "version",
                           json_array_get(versions, 0) ? json_array_get(versions, 0) : json_null());
  json_decref(versions);
  return json_pack("{s:o,s:{s:{s:{s:{s:o,s:o,s:s}}}}}", "model_spec", spec, "metadata",
                   "signature_def", "signature_def", "serving_default", "inputs",
                   describe_columns(signature->input, signature->num_inputs), "outputs",
                   describe_columns(signature->output, signature->num_outputs), "method_name",
                   "tensorflow/serving/predict");
}

static void add_state(void *states, int64_t version, const char *failure) {
  char number[24];
  snprintf(number, sizeof(number), "%lld", (long long)version);
  json_array_append_new(
      states, json_pack("{s:s,s:s,s:{s:s,s:s}}", "version", number, "state",
                        failure ? "END" : "AVAILABLE", "status", "error_code",
                        failure ? "UNKNOWN" : "OK", "error_message", failure ? failure : ""));
}

static enum MHD_Result answer_status(const struct call *call, struct model *model,
                                     const struct model_choice *choice) {
  struct error error = {"there is no version"};
  json_t *states = json_array();
  if (model_each(model, choice, add_state, states) > 0)
    return respond_json(call, MHD_HTTP_OK, json_pack("{s:o}", "model_version_status", states));
  json_decref(states);
  (void)model_is_ready(model, choice, &error);
  return respond_error(call, MHD_HTTP_NOT_FOUND, error.text);
}

static enum MHD_Result answer_about(const struct call *call, struct model *model,
                                    const struct route *route) {
  struct error error;
  if (route->api == 1 && !route->what[0]) return answer_status(call, model, &route->choice);
  bool ready = model_is_ready(model, &route->choice, &error);
  if (route->api == 2 && strcmp(route->what, "ready") == 0)
    return respond_json(call, ready ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE,
                        json_pack("{s:s,s:b}", "name", model_name(model), "ready", (int)ready));
  if (!ready && (route->choice.version[0] || route->choice.label[0]))
    return respond_error(call, MHD_HTTP_NOT_FOUND, error.text);
  if (route->api == 1 && strcmp(route->what, "metadata") == 0)
    return respond_json(call, MHD_HTTP_OK, describe_signature(model, &route->choice));
  if (route->api == 2 && !route->what[0])
    return respond_json(call, MHD_HTTP_OK, describe_model(model, &route->choice));
  return respond_error(call, MHD_HTTP_NOT_FOUND, "there is no such path: see docs/serving.md");
}

/* ---- what the server is */

static enum MHD_Result answer_metrics(const struct call *call) {
  const struct service *service = call->http->service;
  char *text = NULL;
  size_t bytes;
  FILE *out = open_memstream(&text, &bytes);
  CHECK(out, "out of memory for the metrics' page");
  metrics_close_interval(service->metrics);
  prometheus_write(service->metrics, out);
  fclose(out);
  return respond(call, MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8", text, bytes);
}

static enum MHD_Result answer_server(const struct call *call, const char *what) {
  bool ready = service_is_ready(call->http->service);
  if (strcmp(what, "live") == 0)
    return respond_json(call, MHD_HTTP_OK, json_pack("{s:b}", "live", 1));
  if (strcmp(what, "ready") == 0)
    return respond_json(call, ready ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE,
                        json_pack("{s:b}", "ready", (int)ready));
  if (strcmp(what, "server") == 0)
    return respond_json(call, MHD_HTTP_OK,
                        json_pack("{s:s,s:s,s:[ss]}", "name", "acorn", "version", version_number,
                                  "extensions", "sequence", "binary_tensor_data"));
  return respond_error(call, MHD_HTTP_NOT_FOUND, "there is no such path: see docs/serving.md");
}

/* ---- inference */

/* On the thread that computed the outputs. */
static void done(struct request *request) {
  struct call *call = request->context;
  struct http *http = call->http;
  MHD_resume_connection(call->connection);
  atomic_fetch_sub(&http->suspended, 1);
}

static size_t header_bytes(const struct call *call) {
  const char *text = MHD_lookup_connection_value(call->connection, MHD_HEADER_KIND,
                                                 "Inference-Header-Content-Length");
  if (!text) return call->bytes;
  char *end;
  unsigned long long bytes = strtoull(text, &end, 10);
  return *end || bytes > call->bytes ? call->bytes : (size_t)bytes;
}

/* The connection is suspended first: the answer may come at once. */
static enum MHD_Result infer(struct call *call, struct model *model, const struct route *route) {
  struct request *request = &call->request;
  struct error error;
  request_init(request, model_signature(model), model_max_rows(model));
  request->done = done;
  request->context = call;
  call->form = JSON_INFER;
  call->model = model;
  const char *body = call->body ? call->body : "";
  enum status status =
      route->api == 2 ? request_read_infer(request, body, header_bytes(call), call->bytes, &error)
                      : request_read_predict(request, &call->form, body, call->bytes, &error);
  if (status != STATUS_OK) return respond_status(call, status, &error);
  atomic_fetch_add(&call->http->suspended, 1);
  if (atomic_load(&call->http->stopping)) {
    atomic_fetch_sub(&call->http->suspended, 1);
    return respond_error(call, MHD_HTTP_SERVICE_UNAVAILABLE, "the server is stopping");
  }
  call->suspended = true;
  MHD_suspend_connection(call->connection);
  call->status = model_submit(&call->version, model, &route->choice, request, &call->error);
  if (call->status != STATUS_OK)
    done(request);
  else
    model_begin(model);
  return MHD_YES;
}

static enum MHD_Result answer_inference(struct call *call) {
  if (call->status != STATUS_OK) return respond_status(call, call->status, &call->error);
  json_t *json =
      request_write(&call->request, call->form, model_name(call->model), call->version->number);
  model_give(call->model, call->version);
  call->version = NULL;
  return respond_json(call, MHD_HTTP_OK, json);
}

/* ---- requests */

static enum MHD_Result answer(struct call *call, const char *url, const char *method) {
  struct service *service = call->http->service;
  struct route route;
  struct model *model = NULL;
  struct error error;
  if (call->suspended) return answer_inference(call);
  if (call->too_large) {
    snprintf(error.text, sizeof(error.text), "the body has more than %zu bytes",
             service->max_bytes);
    return respond_error(call, MHD_HTTP_CONTENT_TOO_LARGE, error.text);
  }
  bool is_get = strcmp(method, MHD_HTTP_METHOD_GET) == 0 ||
                strcmp(method, MHD_HTTP_METHOD_HEAD) == 0; /* of which the body is not sent */
  bool is_post = strcmp(method, MHD_HTTP_METHOD_POST) == 0;
  if (strcmp(url, "/metrics") == 0 || strcmp(url, "/monitoring/prometheus/metrics") == 0)
    return answer_metrics(call);
  if (!parse_route(&route, url))
    return respond_error(call, MHD_HTTP_NOT_FOUND, "there is no such path: see docs/serving.md");
  bool infers = strcmp(route.what, route.api == 2 ? "infer" : "predict") == 0;
  if (infers ? !is_post : !is_get)
    return respond_error(call, MHD_HTTP_METHOD_NOT_ALLOWED,
                         infers ? "this path takes POST" : "this path takes GET");
  if (!route.model[0]) return answer_server(call, route.what);
  enum status status = service_find(&model, service, route.model, &error);
  if (status != STATUS_OK) return respond_status(call, status, &error);
  return infers ? infer(call, model, &route) : answer_about(call, model, &route);
}

/* Beyond the limit nothing is kept. */
static void receive(struct call *call, const char *bytes, size_t count) {
  size_t max = call->http->service->max_bytes;
  if (call->too_large || count > max - call->bytes) {
    call->too_large = true;
    return;
  }
  if (call->bytes + count > call->room) {
    call->room = 2 * (call->bytes + count);
    call->body = realloc(call->body, call->room);
    CHECK(call->body, "out of memory for a request");
  }
  memcpy(call->body + call->bytes, bytes, count);
  call->bytes += count;
}

/* Health is told to any client: a probe has no token. */
static bool may_call(const struct http *http, struct MHD_Connection *connection, const char *url) {
  if (!http->options.tokens || strncmp(url, "/v2/health/", strlen("/v2/health/")) == 0) return true;
  const char *header =
      MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
  return header && token_file_accepts(http->options.tokens, header, strlen(header));
}

static enum MHD_Result begin(struct http *http, struct MHD_Connection *connection, const char *url,
                             void **context) {
  struct call *call = check_alloc(1, sizeof(*call));
  call->http = http;
  call->connection = connection;
  *context = call;
  atomic_fetch_add(&http->service->in_hand, 1);
  if (may_call(http, connection, url)) return MHD_YES;
  return respond_error(call, MHD_HTTP_UNAUTHORIZED,
                       "a token is asked for: Authorization: Bearer TOKEN");
}

/* Called with the header, with each piece of the body, and without more of it; after a connection
 * was resumed once more. */
static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *protocol, const char *bytes,
                                  size_t *count, void **own) {
  struct call *call = *own;
  (void)protocol;
  if (!call) return begin(context, connection, url, own);
  if (*count == 0) return answer(call, url, method);
  receive(call, bytes, *count);
  *count = 0;
  return MHD_YES;
}

static void on_completed(void *context, struct MHD_Connection *connection, void **own,
                         enum MHD_RequestTerminationCode reason) {
  struct http *http = context;
  struct call *call = *own;
  (void)connection;
  (void)reason;
  if (!call) return;
  if (call->version) model_give(call->model, call->version);
  request_deinit(&call->request);
  free(call->body);
  free(call);
  atomic_fetch_sub(&http->service->in_hand, 1);
}

/* ---- listening */

static enum status open_socket(struct http *http, int *out, struct error *error) {
  struct sockaddr_storage address = {0};
  socklen_t length = sizeof(address);
  const char *text = http->options.address;
  int port = http->options.port, on = 1;
  bool ipv6 = strchr(text, ':');
  int bad = ipv6 ? uv_ip6_addr(text, port, (struct sockaddr_in6 *)&address)
                 : uv_ip4_addr(text, port, (struct sockaddr_in *)&address);
  if (bad) return status_fail(error, STATUS_INVALID, "--address=%s is no IP address", text);
  length = ipv6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
  int fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return status_fail(error, STATUS_IO, "no socket: %s", strerror(errno));
  (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)); /* after a restart */
  if (bind(fd, (struct sockaddr *)&address, length) != 0 || listen(fd, BACKLOG) != 0 ||
      getsockname(fd, (struct sockaddr *)&address, &length) != 0) {
    enum status status =
        status_fail(error, errno == EADDRINUSE ? STATUS_EXISTS : STATUS_IO,
                    "port %d of %s cannot be listened at: %s; choose another --port", port, text,
                    strerror(errno));
    close(fd);
    return status;
  }
  http->port = ntohs(ipv6 ? ((struct sockaddr_in6 *)&address)->sin6_port
                          : ((struct sockaddr_in *)&address)->sin_port);
  *out = fd;
  return STATUS_OK;
}

static void log_mhd(void *context, const char *format, va_list arguments)
    __attribute__((__format__(__printf__, 2, 0)));
static void log_mhd(void *context, const char *format, va_list arguments) {
  char text[512];
  (void)context;
  vsnprintf(text, sizeof(text), format, arguments);
  text[strcspn(text, "\n")] = '\0';
  log_debug("http: %s", text);
}

/* libmicrohttpd borrows the texts for the daemon's life. */
static enum status read_tls(struct http *http, struct error *error) {
  const struct http_options *options = &http->options;
  struct stat info;
  size_t bytes;
  if (!options->tls_cert[0]) return STATUS_OK;
  enum status status = public_file_read(&http->cert, &bytes, &info, "--tls_cert", options->tls_cert,
                                        MAX_TLS_BYTES, error);
  if (status == STATUS_OK)
    status = private_file_read(&http->key, &bytes, &info, "--tls_key", options->tls_key,
                               MAX_TLS_BYTES, error);
  return status;
}

static bool start_daemon(struct http *http, int fd) {
  const struct MHD_OptionItem tls[] = {
      {MHD_OPTION_HTTPS_MEM_CERT, 0, http->cert},
      {MHD_OPTION_HTTPS_MEM_KEY, 0, http->key},
      {MHD_OPTION_END, 0, NULL},
  };
  unsigned flags = MHD_USE_POLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
  http->daemon = MHD_start_daemon(
      flags | (http->cert ? MHD_USE_TLS : 0), 0, NULL, NULL, on_request, http,
      MHD_OPTION_EXTERNAL_LOGGER, log_mhd, NULL, MHD_OPTION_LISTEN_SOCKET, fd,
      MHD_OPTION_CONNECTION_LIMIT, (unsigned)http->options.max_connections,
      MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
      (size_t)MAX_CONNECTION_MEMORY, MHD_OPTION_NOTIFY_COMPLETED, on_completed, http,
      MHD_OPTION_ARRAY, http->cert ? tls : tls + 2, MHD_OPTION_END);
  return http->daemon;
}

enum status http_start(struct http **out, struct service *service,
                       const struct http_options *options, struct error *error) {
  struct http *http = *out = check_alloc(1, sizeof(*http));
  int fd = -1;
  http->service = service;
  http->options = *options;
  enum status status = read_tls(http, error);
  if (status == STATUS_OK) status = open_socket(http, &fd, error);
  if (status != STATUS_OK || start_daemon(http, fd)) return status;
  close(fd);
  return status_fail(error, STATUS_IO, "the HTTP server cannot be started%s",
                     http->cert ? ": are --tls_cert and --tls_key PEM files of one pair?" : "");
}

int http_port(const struct http *http) {
  return http->port;
}

void http_drain(struct http *http) {
  MHD_socket fd = MHD_quiesce_daemon(http->daemon);
  if (fd != MHD_INVALID_SOCKET) close(fd);
}

int http_connections(const struct http *http) {
  const union MHD_DaemonInfo *info =
      MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);
  return info ? (int)info->num_connections : 0;
}

void http_stop(struct http *http) {
  if (!http) return;
  atomic_store(&http->stopping, true);
  while (atomic_load(&http->suspended) > 0) clock_sleep_us(1000);
  if (http->daemon) MHD_stop_daemon(http->daemon);
  free(http->cert);
  free(http->key);
  free(http);
}
