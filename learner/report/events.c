#include "learner/report/events.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/log.h"
#include "learner/network/images.h"
#include "learner/report/sight.h"
#include "learner/report/tags.h"

/* What was added goes into the file, or is lost. */
static void flush(struct events *events) {
  struct error error;
  bool written = tensorboard_write(events->tensorboard, &error) == STATUS_OK;
  if (!written && !events->failing)
    log_warn("%s; training goes on, TensorBoard lacks what comes until it can be written again",
             error.text);
  if (written && events->failing)
    log_info("%s is written again", tensorboard_path(events->tensorboard));
  events->failing = !written;
}

/* ---- the configuration */

/* A cell of a Markdown table holds no line's end and no bar of its own. */
static void write_cell(FILE *out, const char *text) {
  for (; *text; text++) {
    if (*text == '|' || *text == '\\') fputc('\\', out);
    fputc(*text == '\n' ? ' ' : *text, out);
  }
}

static void add_configuration(struct events *events, const struct run *run) {
  char *markdown;
  size_t bytes;
  FILE *out = open_memstream(&markdown, &bytes);
  CHECK(out, "out of memory for the configuration");
  fprintf(out, "| option | value | meaning |\n|---|---|---|\n");
  for (int i = 0; i < learner_options_table.count; i++) {
    const struct option *option = &learner_options_table.options[i];
    char *value = options_value_text(option, run->options);
    fprintf(out, "| %s | ", option->name);
    write_cell(out, value);
    fprintf(out, " | ");
    write_cell(out, option->help);
    fprintf(out, " |\n");
    free(value);
  }
  fclose(out);
  tensorboard_add_text(events->tensorboard, "configuration", progress_steps(run->progress),
                       markdown);
  free(markdown);
}

/* ---- hyperparameters: what changes how well the agent learns, not where files go */

static bool is_hparam(const struct option *option) {
  static const char *const names[] = {"seed", "total_steps", "num_envs"};
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
    if (strcmp(option->name, names[i]) == 0) return true;
  return learner_option_is_of_experiment(option) && strcmp(option->name, "preset") != 0;
}

/* The tab begins with five columns, these; the others can be added there. */
static bool is_shown(const struct run *run, const char *name) {
  bool replays = run->agent->pace == REPLAYED;
  const char *const names[] = {"agent", "env", "learning_rate", "seed",
                               replays ? "replay_ratio" : "entropy_cost"};
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
    if (strcmp(name, names[i]) == 0) return true;
  return false;
}

/* A number that may be "none" is text then. */
static struct tensorboard_hparam make_hparam(const struct option *option, const char *text) {
  struct tensorboard_hparam hparam = {
      .name = option->name,
      .string = text,
  };
  char *end;
  if (option->type == OPTION_BOOL) {
    hparam.type = TENSORBOARD_BOOL;
    hparam.number = strcmp(text, "true") == 0;
  } else if (option->type == OPTION_INT || option->type == OPTION_FLOAT) {
    hparam.number = strtod(text, &end);
    hparam.type = end > text && *end == '\0' ? TENSORBOARD_NUMBER : TENSORBOARD_STRING;
  }
  return hparam;
}

static void add_hparams(struct events *events, const struct run *run) {
  static const char *const metrics[] = {TAG_RETURN, TAG_EVAL_RETURN};
  struct tensorboard_hparam hparam[OPTIONS_MAX] = {{0}};
  char *text[OPTIONS_MAX];
  int count = 0;
  for (int i = 0; i < learner_options_table.count; i++) {
    const struct option *option = &learner_options_table.options[i];
    if (!is_hparam(option)) continue;
    text[count] = options_value_text(option, run->options);
    hparam[count] = make_hparam(option, text[count]);
    hparam[count].is_shown = is_shown(run, option->name);
    count++;
  }
  tensorboard_add_hparams(events->tensorboard, hparam, count, metrics, 2);
  for (int i = 0; i < count; i++) free(text[i]);
}

void events_open(struct events *events, struct run *run) {
  struct error error;
  *events = (struct events){0};
  if (tensorboard_open(&events->tensorboard, run->folder.path, progress_steps(run->progress),
                       &error) != STATUS_OK) {
    log_warn("%s; training goes on without TensorBoard's events", error.text);
    return;
  }
  add_configuration(events, run);
  add_hparams(events, run);
  flush(events);
}

/* ---- metrics */

struct point {
  struct tensorboard *tensorboard;
  int64_t step;
};

/* Of a histogram the mean is a curve; its quantiles and its maximum are in the distribution. */
static void add_metric(void *context, const struct metric_view *view) {
  const struct point *point = context;
  char tag[METRIC_NAME_BYTES], histogram[METRIC_NAME_BYTES + sizeof("/histogram")];
  tag_of_metric(tag, view->name);
  bool is_histogram = view->kind == METRIC_HISTOGRAM;
  tensorboard_add_scalar(point->tensorboard, tag, point->step,
                         is_histogram ? view->mean : view->value);
  if (!is_histogram) return;
  snprintf(histogram, sizeof(histogram), "%s/histogram", tag);
  tensorboard_add_histogram(point->tensorboard, histogram, point->step, view->interval);
}

static void add_returns(const struct point *point, struct run *run, bool eval, const char *tag) {
  double returns[PROGRESS_WINDOW];
  int count = progress_last_returns(run->progress, eval, returns);
  tensorboard_add_values(point->tensorboard, tag, point->step, returns, count);
}

/* A point is at least a 2,000th of the run's time after the one before; the last one is not left
 * out. */
static bool is_due(const struct events *events, const struct run *run, double seconds) {
  if (!events->tensorboard) return false;
  return seconds - events->written_s >= seconds / 2000 ||
         progress_stopped(run->progress) != STOP_NONE;
}

void events_write(struct events *events, struct run *run, int64_t step, double seconds) {
  if (!is_due(events, run, seconds)) return;
  events->written_s = seconds;
  struct point point = {events->tensorboard, step};
  metrics_each(run->metrics, add_metric, &point);
  add_returns(&point, run, false, TAG_RETURNS);
  add_returns(&point, run, true, TAG_EVAL_RETURNS);
  flush(events);
}

/* ---- images */

void events_write_images(struct events *events, struct run *run, double seconds) {
  struct trainer_images images = trainer_images(run->trainer);
  bool is_new = images.count > 0 && images.updates != events->images_updates;
  if (!events->tensorboard || !is_new || seconds < 1.25 * events->images_s) return;
  events->images_s = seconds;
  events->images_updates = images.updates;
  struct device_inputs inputs;
  images_split(&inputs, NULL, &run->inputs);
  struct canvas picture = sight_draw(images.image, images.count, &inputs);
  tensorboard_add_image(events->tensorboard, TAG_OBSERVATION, progress_steps(run->progress),
                        &picture);
  flush(events);
  free(picture.pixels);
}

void events_write_video(struct events *events, const char *path, int64_t step) {
  enum { MOST = 4 << 20, HEAD = 10 };
  FILE *file = events->tensorboard ? fopen(path, "rb") : NULL;
  if (!file) return;
  uint8_t *gif = check_alloc(MOST, 1);
  size_t bytes = fread(gif, 1, MOST, file);
  bool is_whole = feof(file) && bytes > HEAD && memcmp(gif, "GIF8", 4) == 0;
  fclose(file);
  if (is_whole) {
    int width = gif[6] | gif[7] << 8, height = gif[8] | gif[9] << 8;
    tensorboard_add_image_file(events->tensorboard, TAG_VIDEO, step, width, height, gif, bytes);
    flush(events);
  }
  free(gif);
}

void events_close(struct events *events, struct run *run) {
  if (!events->tensorboard) return;
  tensorboard_add_end(events->tensorboard, progress_stopped(run->progress) != STOP_ERROR);
  flush(events);
  tensorboard_close(events->tensorboard);
  events->tensorboard = NULL;
}
