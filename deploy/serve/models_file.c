#include "deploy/serve/models_file.h"

#include <string.h>

bool models_name_fits(const char *name) {
  static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
  size_t length = strlen(name);
  return length > 0 && length < MODEL_NAME_BYTES && name[0] != '.' &&
         strspn(name, allowed) == length;
}

static enum status read_labels(struct model_policy *policy, const json_t *labels,
                               struct error *error) {
  const char *name;
  json_t *version;
  policy->num_labels = 0;
  if (!json_is_object(labels) || json_object_size(labels) > MODEL_MAX_LABELS)
    return status_fail(error, STATUS_INVALID, "labels: give an object of at most %d versions",
                       MODEL_MAX_LABELS);
  json_object_foreach((json_t *)labels, name, version) {
    if (!models_name_fits(name) || !json_is_integer(version) || json_integer_value(version) < 0)
      return status_fail(error, STATUS_INVALID,
                         "label '%.64s': a name of letters, digits and -_. for a version's number, "
                         "0 or more",
                         name);
    struct model_label *label = &policy->label[policy->num_labels++];
    snprintf(label->name, sizeof(label->name), "%s", name);
    label->version = json_integer_value(version);
  }
  return STATUS_OK;
}

static enum status read_text(const char **text, const char *key, const json_t *value,
                             struct error *error) {
  *text = json_string_value(value);
  return *text ? STATUS_OK : status_fail(error, STATUS_INVALID, "%s: give text", key);
}

static enum status read_entry(struct model_config *config, const json_t *entry,
                              struct error *error) {
  const char *key, *text;
  json_t *value;
  const struct {
    const char *name;
    const char **text;
  } texts[] = {{"path", &config->path},
               {"env", &config->env},
               {"env_args", &config->env_args},
               {"checkpoint", &config->checkpoint},
               {"policy", &text}};
  enum status status = STATUS_OK;
  config->path = NULL;
  json_object_foreach((json_t *)entry, key, value) {
    size_t i = 0, count = sizeof(texts) / sizeof(texts[0]);
    while (i < count && strcmp(key, texts[i].name) != 0) i++;
    if (i < count)
      status = read_text(texts[i].text, key, value, error);
    else if (strcmp(key, "labels") == 0)
      status = read_labels(&config->policy, value, error);
    else
      status =
          status_fail(error, STATUS_INVALID,
                      "'%.64s' is none of path, checkpoint, policy, labels, env, env_args", key);
    if (status == STATUS_OK && strcmp(key, "policy") == 0)
      status = model_parse_policy(&config->policy, text, error);
    if (status != STATUS_OK) return status;
  }
  if (!config->path) return status_fail(error, STATUS_INVALID, "there is no path");
  if (strcmp(config->checkpoint, "best") == 0 || strcmp(config->checkpoint, "latest") == 0)
    return STATUS_OK;
  return status_fail(error, STATUS_INVALID, "checkpoint: give best or latest");
}

enum status models_file_read(struct models_file *file, const char *path,
                             const struct model_config *usual, struct error *error) {
  json_error_t reason;
  const char *name;
  json_t *entry;
  struct error why;
  file->count = 0;
  file->json = json_load_file(path, JSON_REJECT_DUPLICATES, &reason);
  if (!file->json)
    return status_fail(error, STATUS_INVALID, "--models=%s, line %d: %s", path, reason.line,
                       reason.text);
  json_object_foreach(file->json, name, entry) {
    if (!models_name_fits(name) || file->count == MODELS_MAX)
      return status_fail(error, STATUS_INVALID,
                         "--models=%s: '%.64s': at most %d models, by names of letters, digits and "
                         "-_.",
                         path, name, MODELS_MAX);
    struct model_config *config = &file->model[file->count++];
    *config = *usual;
    config->name = name;
    if (read_entry(config, entry, &why) != STATUS_OK)
      return status_fail(error, STATUS_INVALID, "--models=%s: model %s: %s", path, name, why.text);
  }
  if (file->count > 0) return STATUS_OK;
  return status_fail(error, STATUS_INVALID, "--models=%s: give an object with a model", path);
}

void models_file_deinit(struct models_file *file) {
  json_decref(file->json);
  file->json = NULL;
}
