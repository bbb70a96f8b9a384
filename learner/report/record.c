#include "learner/report/record.h"

#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "common/base/json_file.h"
#include "common/base/option_value.h"
#include "common/base/process.h"
#include "common/base/version.h"
#include "common/rpc/server.h"
#include "envs/python_packages.h"
#include "learner/device/libraries.h"

#include <uv.h>

static json_t *command; /* of this program */
static json_t *launch;  /* the launcher's words; NULL: there is none */

void record_init(int argc, char **argv) {
  command = json_array();
  for (int i = 0; i < argc; i++) json_array_append_new(command, json_string(argv[i]));
  const char *words = getenv(FOLDER_LAUNCH_VARIABLE);
  launch = words ? json_loads(words, 0, NULL) : NULL;
  unsetenv(FOLDER_LAUNCH_VARIABLE);
}

/* ---- what a start was made of */

static json_t *option_json(const struct option *option, const void *config) {
  const void *member = (const char *)config + option->offset;
  switch (option->type) {
    case OPTION_BOOL:
      return json_boolean(*(const bool *)member);
    case OPTION_INT:
      return json_integer(*(const int64_t *)member);
    case OPTION_FLOAT:
      return json_number(*(const double *)member);
    default:
      return json_string(option_value_string(option, config));
  }
}

static json_t *all_options(const struct learner_options *options) {
  json_t *object = json_object();
  for (int i = 0; i < learner_options_table.count; i++) {
    const struct option *option = &learner_options_table.options[i];
    json_object_set_new(object, option->name, option_json(option, options));
  }
  return object;
}

static void set_string(json_t *object, const char *name, const char *value) {
  if (value[0]) json_object_set_new(object, name, json_string(value));
}

static json_t *packages(const struct run *run) {
  json_t *object = json_object();
  char version[64];
  set_string(object, "grpc-core", rpc_grpc_version());
  set_string(object, "protobuf-c", rpc_protobuf_version());
  set_string(object, "libuv", uv_version_string());
  set_string(object, "jansson", JANSSON_VERSION);
  device_onednn_version(version, sizeof(version));
  set_string(object, "onednn", version);
  device_cuda_version(version, sizeof(version));
  set_string(object, "cuda", version);
  python_packages_add(object, run->options->env);
  return object;
}

static void add_machine(json_t *start) {
  struct utsname name;
  char system[2 * sizeof(name.sysname) + 2];
  if (uname(&name) == 0) {
    snprintf(system, sizeof(system), "%s %s", name.sysname, name.release);
    set_string(start, "host", name.nodename);
    set_string(start, "system", system);
  }
  uv_cpu_info_t *cpus;
  int count;
  if (uv_cpu_info(&cpus, &count) == 0) {
    set_string(start, "cpu", count ? cpus[0].model : "");
    uv_free_cpu_info(cpus, count);
  }
  json_object_set_new(start, "cores", json_integer(process_cores()));
  json_object_set_new(start, "memory_bytes", json_integer((json_int_t)process_memory()));
}

static json_t *describe_start(const struct run *run) {
  char folder[PATH_MAX];
  json_t *start = json_object();
  set_string(start, "version", version_number);
  set_string(start, "commit", version_commit);
  json_object_set_new(start, "started", json_time_now());
  json_object_set_new(start, "ended", json_null());
  json_object_set_new(start, "step", json_integer(progress_steps(run->progress)));
  if (getcwd(folder, sizeof(folder))) set_string(start, "folder", folder);
  if (launch) json_object_update(start, launch);
  json_object_set(start, "learner", command);
  json_object_set_new(start, "environments", json_integer(run->options->num_envs));
  add_machine(start);
  set_string(start, "device", run->inference_device->description);
  json_object_set_new(start, "packages", packages(run));
  json_object_set_new(start, "options", all_options(run->options));
  return start;
}

/* ---- the file */

static void path_of(char path[PATH_MAX], const struct run *run) {
  snprintf(path, PATH_MAX, "%s/run.json", run->folder.path);
}

void record_start(const struct run *run) {
  char path[PATH_MAX];
  path_of(path, run);
  json_t *record = json_file_take(path);
  if (!record) {
    record = json_object();
    set_string(record, "env", run->label);
    set_string(record, "environment", run->identity);
    set_string(record, "agent", run->options->agent);
  }
  json_t *starts = json_object_get(record, "starts");
  if (!json_is_array(starts)) {
    starts = json_array();
    json_object_set_new(record, "starts", starts);
  }
  json_array_append_new(starts, describe_start(run));
  json_file_write_or_warn(path, record);
}

void record_end(const struct run *run, const char *reason, int exit_code) {
  char path[PATH_MAX];
  path_of(path, run);
  json_t *record = json_file_read(path), *starts = json_object_get(record, "starts");
  json_t *start = json_array_get(starts, json_array_size(starts) - 1);
  if (!start) {
    json_decref(record);
    return;
  }
  json_object_set_new(start, "ended", json_time_now());
  set_string(start, "reason", reason);
  json_object_set_new(start, "exit_code", json_integer(exit_code));
  json_file_write_or_warn(path, record);
}
