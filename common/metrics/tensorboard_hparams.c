// What the HPARAMS tab shows: three summaries of the plugin "hparams", with tags of their own.
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/check.h"
#include "common/metrics/tensorboard.h"
#include "tensorboard.pb-c.h"

static void add_data(struct tensorboard *tensorboard, const char *tag,
                     Tensorboard__HParamsPluginData *data) {
  size_t bytes = tensorboard__hparams_plugin_data__get_packed_size(data);
  uint8_t *content = check_alloc(bytes + 1, 1);
  tensorboard__hparams_plugin_data__pack(data, content);
  tensorboard_add_plugin(tensorboard, tag, "hparams", content, bytes);
  free(content);
}

/* ---- the columns */

static Tensorboard__HParamInfo hparam_info(const struct tensorboard_hparam *hparam) {
  static const Tensorboard__HParamInfo__Type types[] = {
      [TENSORBOARD_STRING] = TENSORBOARD__HPARAM_INFO__TYPE__TYPE_STRING,
      [TENSORBOARD_BOOL] = TENSORBOARD__HPARAM_INFO__TYPE__TYPE_BOOL,
      [TENSORBOARD_NUMBER] = TENSORBOARD__HPARAM_INFO__TYPE__TYPE_FLOAT64,
  };
  Tensorboard__HParamInfo info = TENSORBOARD__HPARAM_INFO__INIT;
  info.name = (char *)hparam->name;
  info.type = types[hparam->type];
  info.differs = hparam->is_shown;
  return info;
}

static void add_experiment(struct tensorboard *tensorboard,
                           const struct tensorboard_hparam *hparams, size_t num_hparams,
                           const char *const *metrics, size_t num_metrics) {
  Tensorboard__HParamInfo *hparam = check_alloc(num_hparams, sizeof(*hparam));
  Tensorboard__HParamInfo **hparam_list = check_alloc(num_hparams, sizeof(*hparam_list));
  Tensorboard__MetricInfo *metric = check_alloc(num_metrics, sizeof(*metric));
  Tensorboard__MetricInfo **metric_list = check_alloc(num_metrics, sizeof(*metric_list));
  Tensorboard__MetricName *name = check_alloc(num_metrics, sizeof(*name));
  for (size_t i = 0; i < num_hparams; i++) {
    hparam[i] = hparam_info(&hparams[i]);
    hparam_list[i] = &hparam[i];
  }
  for (size_t i = 0; i < num_metrics; i++) {
    name[i] = (Tensorboard__MetricName)TENSORBOARD__METRIC_NAME__INIT;
    name[i].tag = (char *)metrics[i];
    metric[i] = (Tensorboard__MetricInfo)TENSORBOARD__METRIC_INFO__INIT;
    metric[i].name = &name[i];
    metric_list[i] = &metric[i];
  }
  Tensorboard__Experiment experiment = TENSORBOARD__EXPERIMENT__INIT;
  experiment.n_hparam_infos = num_hparams;
  experiment.hparam_infos = hparam_list;
  experiment.n_metric_infos = num_metrics;
  experiment.metric_infos = metric_list;
  Tensorboard__HParamsPluginData data = TENSORBOARD__HPARAMS_PLUGIN_DATA__INIT;
  data.data_case = TENSORBOARD__HPARAMS_PLUGIN_DATA__DATA_EXPERIMENT;
  data.experiment = &experiment;
  add_data(tensorboard, "_hparams_/experiment", &data);
  void *arrays[] = {hparam, hparam_list, metric, metric_list, name};
  for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++) free(arrays[i]);
}

/* ---- the run's values */

static Tensorboard__Value hparam_value(const struct tensorboard_hparam *hparam) {
  Tensorboard__Value value = TENSORBOARD__VALUE__INIT;
  switch (hparam->type) {
    case TENSORBOARD_STRING:
      value.kind_case = TENSORBOARD__VALUE__KIND_STRING_VALUE;
      value.string_value = (char *)hparam->string;
      break;
    case TENSORBOARD_BOOL:
      value.kind_case = TENSORBOARD__VALUE__KIND_BOOL_VALUE;
      value.bool_value = hparam->number != 0;
      break;
    case TENSORBOARD_NUMBER:
      value.kind_case = TENSORBOARD__VALUE__KIND_NUMBER_VALUE;
      value.number_value = hparam->number;
      break;
  }
  return value;
}

static void add_start(struct tensorboard *tensorboard, const struct tensorboard_hparam *hparams,
                      size_t num_hparams) {
  Tensorboard__Value *value = check_alloc(num_hparams, sizeof(*value));
  Tensorboard__SessionStartInfo__Pair *pair = check_alloc(num_hparams, sizeof(*pair));
  Tensorboard__SessionStartInfo__Pair **list = check_alloc(num_hparams, sizeof(*list));
  for (size_t i = 0; i < num_hparams; i++) {
    value[i] = hparam_value(&hparams[i]);
    pair[i] = (Tensorboard__SessionStartInfo__Pair)TENSORBOARD__SESSION_START_INFO__PAIR__INIT;
    pair[i].key = (char *)hparams[i].name;
    pair[i].value = &value[i];
    list[i] = &pair[i];
  }
  Tensorboard__SessionStartInfo start = TENSORBOARD__SESSION_START_INFO__INIT;
  start.n_hparams = num_hparams;
  start.hparams = list;
  start.start_time_secs = (double)time(NULL);
  Tensorboard__HParamsPluginData data = TENSORBOARD__HPARAMS_PLUGIN_DATA__INIT;
  data.data_case = TENSORBOARD__HPARAMS_PLUGIN_DATA__DATA_SESSION_START_INFO;
  data.session_start_info = &start;
  add_data(tensorboard, "_hparams_/session_start_info", &data);
  free(value);
  free(pair);
  free(list);
}

void tensorboard_add_hparams(struct tensorboard *tensorboard,
                             const struct tensorboard_hparam *hparams, int num_hparams,
                             const char *const *metrics, int num_metrics) {
  add_experiment(tensorboard, hparams, (size_t)num_hparams, metrics, (size_t)num_metrics);
  add_start(tensorboard, hparams, (size_t)num_hparams);
}

void tensorboard_add_end(struct tensorboard *tensorboard, bool success) {
  Tensorboard__SessionEndInfo end = TENSORBOARD__SESSION_END_INFO__INIT;
  end.status = success ? TENSORBOARD__SESSION_END_INFO__OUTCOME__SUCCESS
                       : TENSORBOARD__SESSION_END_INFO__OUTCOME__FAILURE;
  end.end_time_secs = (double)time(NULL);
  Tensorboard__HParamsPluginData data = TENSORBOARD__HPARAMS_PLUGIN_DATA__INIT;
  data.data_case = TENSORBOARD__HPARAMS_PLUGIN_DATA__DATA_SESSION_END_INFO;
  data.session_end_info = &end;
  add_data(tensorboard, "_hparams_/session_end_info", &data);
}
