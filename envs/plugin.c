#include "envs/plugin.h"

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char symbol[] = "acorn_environment";

bool plugin_is_path(const char *word) {
  size_t length = strlen(word);
  return strchr(word, '/') || (length > 3 && strcmp(word + length - 3, ".so") == 0);
}

bool plugin_is_name(const char *name, size_t length) {
  if (length == 0 || length >= ACORN_NAME_BYTES || !isalnum((unsigned char)name[0])) return false;
  for (size_t i = 0; i < length; i++)
    if (!isalnum((unsigned char)name[i]) && !strchr("_-.", name[i])) return false;
  return length <= 3 || memcmp(name + length - 3, ".so", 3) != 0;
}

/* ---- the file */

/* The loader's own words for these are riddles. */
static enum status check_file(const char *path, struct error *error) {
  char magic[4] = "";
  struct stat info;
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // or a FIFO would wait for its writer
  if (file < 0) {
    return status_fail(error, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_INVALID,
                       "environment %s: %s", path, strerror(errno));
  }
  bool is_file = fstat(file, &info) == 0 && S_ISREG(info.st_mode);
  ssize_t bytes = is_file ? read(file, magic, sizeof magic) : 0;
  close(file);
  if (bytes == sizeof magic && memcmp(magic, "\177ELF", sizeof magic) == 0) return STATUS_OK;
  size_t length = strlen(path);
  if (length > 3 && strcmp(path + length - 3, ".py") == 0)
    return status_fail(error, STATUS_INVALID,
                       "environment %s is a file of Python: name what it registers, gym:MyEnv-v0, "
                       "and the file by --module=%s",
                       path, path);
  return status_fail(error, STATUS_INVALID,
                     "environment %s is not a shared object; make one of the C file: cc -shared "
                     "-fPIC -I.../include my_env.c -o my_env.so",
                     path);
}

enum status plugin_open(const struct acorn_env **out, const char *path, struct error *error) {
  enum status status = check_file(path, error);
  if (status != STATUS_OK) return status;
  // Without a slash the loader would look for it among the system's libraries.
  char absolute[PATH_MAX];
  void *object = realpath(path, absolute) ? dlopen(absolute, RTLD_NOW | RTLD_LOCAL) : NULL;
  if (!object) {
    const char *reason = dlerror();
    return status_fail(error, STATUS_INVALID, "environment %s cannot be loaded: %s", path,
                       reason ? reason : strerror(errno));
  }
  *out = dlsym(object, symbol);
  if (*out) return STATUS_OK;
  dlclose(object);
  return status_fail(error, STATUS_INVALID,
                     "environment %s exports no %s; it must define `const struct acorn_env %s`, "
                     "not static (see docs/environments.md)",
                     path, symbol, symbol);
}

/* ---- the struct */

static enum status check_version(const struct acorn_env *env, struct error *error) {
  if (env->abi != ACORN_ENV_ABI) {
    return status_fail(error, STATUS_INVALID,
                       "it is made for version %u of env.h and this Acorn has version %u: compile "
                       "it anew with this one's header",
                       env->abi, ACORN_ENV_ABI);
  }
  const size_t least = offsetof(struct acorn_env, any_option); // of the oldest plugins
  if (env->struct_bytes >= least) return STATUS_OK;
  return status_fail(error, STATUS_INVALID,
                     "its struct_bytes is %u, at least %zu are needed: set it to sizeof(struct "
                     "acorn_env)",
                     env->struct_bytes, least);
}

static enum status check_name(const char *name, const struct acorn_env *const *reserved,
                              struct error *error) {
  if (!name) return status_fail(error, STATUS_INVALID, "its name is NULL");
  if (!plugin_is_name(name, strlen(name))) {
    return status_fail(error, STATUS_INVALID,
                       "its name is '%.64s'; it needs 1..%d letters, digits, '_', '-' or '.', the "
                       "first a letter or digit, and may not end in .so",
                       name, ACORN_NAME_BYTES - 1);
  }
  for (; *reserved; reserved++) {
    if (strcmp((*reserved)->name, name) != 0) continue;
    return status_fail(error, STATUS_INVALID,
                       "its name '%s' is that of one of Acorn's own: choose "
                       "another",
                       name);
  }
  return STATUS_OK;
}

static enum status check_functions(const struct acorn_env *env, struct error *error) {
  const char *missing = !env->space     ? "space"
                        : !env->create  ? "create"
                        : !env->reset   ? "reset"
                        : !env->step    ? "step"
                        : !env->destroy ? "destroy"
                                        : NULL;
  if (!missing) return STATUS_OK;
  return status_fail(error, STATUS_INVALID, "its function %s is NULL; all five are needed",
                     missing);
}

static enum status check_option(const struct acorn_option *option, int i, struct error *error) {
  size_t length = option->name ? strlen(option->name) : 0;
  bool ok = length > 0 && length < ACORN_NAME_BYTES;
  for (size_t c = 0; ok && c < length; c++)
    ok = isalnum((unsigned char)option->name[c]) || option->name[c] == '_';
  if (!ok) {
    return status_fail(error, STATUS_INVALID,
                       "the name of its option %d needs 1..%d letters, digits or '_'", i,
                       ACORN_NAME_BYTES - 1);
  }
  bool in_range = option->min <= option->value && option->value <= option->max;
  if (in_range && (!option->integer || option->value == floor(option->value))) return STATUS_OK;
  return status_fail(error, STATUS_INVALID,
                     "its option '%s' has the default %g, which is not %s "
                     "in %g..%g",
                     option->name, option->value, option->integer ? "a whole number" : "a number",
                     option->min, option->max);
}

static enum status check_options(const struct acorn_env *env, struct error *error) {
  int count = env->num_options;
  if (count < 0 || count > ACORN_MAX_OPTIONS || (count > 0 && !env->options)) {
    return status_fail(error, STATUS_INVALID,
                       "its num_options is %d, options is %s; there may be 0..%d", count,
                       env->options ? "set" : "NULL", ACORN_MAX_OPTIONS);
  }
  for (int i = 0; i < count; i++) {
    enum status status = check_option(&env->options[i], i, error);
    if (status != STATUS_OK) return status;
    for (int j = 0; j < i; j++) {
      if (strcmp(env->options[i].name, env->options[j].name) == 0)
        return status_fail(error, STATUS_INVALID, "two of its options are named '%s'",
                           env->options[i].name);
    }
  }
  return STATUS_OK;
}

enum status plugin_check(const struct acorn_env *env, const struct acorn_env *const *reserved,
                         struct error *error) {
  enum status status = check_version(env, error);
  if (status == STATUS_OK) status = check_name(env->name, reserved, error);
  if (status == STATUS_OK) status = check_functions(env, error);
  if (status == STATUS_OK) status = check_options(env, error);
  return status;
}
