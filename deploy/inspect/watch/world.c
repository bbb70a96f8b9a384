#include "deploy/inspect/watch/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "actor/crash.h"
#include "actor/row_check.h"
#include "common/base/check.h"
#include "envs/registry.h"
#include "learner/network/images.h"

enum { NO_IMAGE = -1, MAX_SIDE = 8192 };

static enum status fail(const struct world *world, const char *what, const char *text,
                        struct error *error) {
  return status_fail(error, STATUS_IO, "environment %s failed in %s: %s", world->env->name, what,
                     *text ? text : "it gave no reason");
}

enum status world_open(struct world *world, const struct run *run, uint8_t *row,
                       struct error *error) {
  *world = (struct world){.run = run, .row = row, .image = NO_IMAGE};
  crash_in("dlopen");
  enum status status = registry_find(&world->env, run->options->env, error);
  crash_in(NULL);
  if (status == STATUS_OK)
    status = registry_config(&world->config, world->env, run->options->env_args, error);
  if (status != STATUS_OK) return status;
  world->config.renders = 1;
  struct wire_layout layout;
  wire_layout_of_space(&layout, &run->space, 1);
  for (int i = 0; i < run->space.num_tensors; i++)
    world->tensor[i] = row + layout.tensor[i].row_offset;
  // The run's space was asked for elsewhere; here, too, it comes before `create`.
  struct space space;
  crash_in("space");
  status = registry_space(&space, world->env, &world->config, error);
  crash_in(NULL);
  if (status != STATUS_OK) return status;
  char text[512] = "";
  crash_in("create");
  world->instance = world->env->create(&world->config, text, sizeof(text));
  crash_in(NULL);
  return world->instance ? STATUS_OK : fail(world, "create", text, error);
}

void world_close(struct world *world) {
  crash_in("destroy");
  if (world->instance) world->env->destroy(world->instance);
  crash_in(NULL);
  registry_config_deinit(&world->config);
  free(world->picture.pixels);
  *world = (struct world){0};
}

/* ---- play */

static enum status reset(struct world *world, const uint64_t *seed, struct error *error) {
  struct acorn_row row = {.struct_bytes = sizeof(row), .observation = world->tensor};
  struct error fault;
  char text[512] = "";
  crash_in("reset");
  int failed = world->env->reset(world->instance, seed, &row, text, sizeof(text));
  crash_in(NULL);
  if (failed) return fail(world, "reset", text, error);
  if (row_check_reset(&row, &world->run->space, &fault) != STATUS_OK)
    return fail(world, "reset", fault.text, error);
  return STATUS_OK;
}

enum status world_reset(struct world *world, uint64_t seed, struct error *error) {
  world->score = 0;
  world->steps = 0;
  world->reward = 0;
  world->flags = STEP_FIRST;
  return reset(world, &seed, error);
}

enum status world_step(struct world *world, const void *action, bool *ended, struct error *error) {
  struct acorn_row row = {.struct_bytes = sizeof(row), .observation = world->tensor};
  struct error fault;
  char text[512] = "";
  crash_in("step");
  int failed = world->env->step(world->instance, action, &row, text, sizeof(text));
  crash_in(NULL);
  if (failed) return fail(world, "step", text, error);
  if (row_check_step(&row, &world->run->space, &fault) != STATUS_OK)
    return fail(world, "step", fault.text, error);
  world->steps++;
  world->reward = row.reward;
  world->score += row.reward;
  world->flags = row.terminated ? STEP_TERMINATED : row.truncated ? STEP_TRUNCATED : 0;
  bool goes_on = row.terminated && row.goes_on;
  *ended = world->flags && !goes_on;
  if (!goes_on) return STATUS_OK;
  world->flags |= STEP_FIRST;
  return reset(world, NULL, error);
}

/* ---- the picture */

static enum status make_picture(struct world *world, int width, int height, struct error *error) {
  if (width < 1 || height < 1 || width > MAX_SIDE || height > MAX_SIDE)
    return status_fail(error, STATUS_IO,
                       "environment %s draws a picture of %d x %d; 1 to %d pixels a side are shown",
                       world->env->name, width, height, MAX_SIDE);
  world->picture = (struct canvas){NULL, width, height};
  world->picture.pixels = check_alloc((size_t)width * (size_t)height, 3);
  return STATUS_OK;
}

/* The environment's own. *picture.width stays 0 if it has none. */
static enum status render(struct world *world, struct acorn_picture *picture, struct error *error) {
  char text[512] = "";
  if (!registry_has(world->env, render) || !world->env->render) return STATUS_OK;
  crash_in("render");
  int failed = world->env->render(world->instance, picture, text, sizeof(text));
  crash_in(NULL);
  return failed ? fail(world, "render", text, error) : STATUS_OK;
}

/* The first part of the observation that is an image: of bytes, or of floats that are large. */
static int find_image(const struct device_inputs *inputs) {
  for (int i = 0; i < inputs->num_tensors; i++) {
    enum dtype dtype = inputs->tensor[i].dtype;
    bool is_large = inputs->tensor[i].height >= IMAGES_LEAST_SIDE &&
                    inputs->tensor[i].width >= IMAGES_LEAST_SIDE;
    if (!inputs->tensor[i].height) continue;
    if (dtype == DTYPE_UINT8 || (dtype == DTYPE_FLOAT32 && is_large)) return i;
  }
  return NO_IMAGE;
}

/* Of all planes. */
static int channels_of(const struct world *world) {
  return world->run->inputs.tensor[world->image].channels *
         world->run->inputs.tensor[world->image].planes;
}

/* On the first call: what is shown, and how large it is. */
static enum status choose_picture(struct world *world, struct error *error) {
  struct acorn_picture size = {.struct_bytes = sizeof(size)};
  enum status status = render(world, &size, error);
  if (status != STATUS_OK) return status;
  if (size.width > 0) return make_picture(world, size.width, size.height, error);
  world->image = find_image(&world->run->inputs);
  if (world->image == NO_IMAGE)
    return status_fail(error, STATUS_NOT_FOUND,
                       "environment %s cannot be watched: it draws no picture of itself (`render`, "
                       "see docs/environments.md), and its observation is no image",
                       world->env->name);
  int channels = channels_of(world), planes = channels == 3 ? 1 : channels;
  return make_picture(world, planes * world->run->inputs.tensor[world->image].width,
                      world->run->inputs.tensor[world->image].height, error);
}

/* Channel `channel` of a pixel; of floats 0..1 is shown. */
static uint8_t level_of(const struct world *world, int place, int channel) {
  int C = world->run->inputs.tensor[world->image].channels;
  int pixels = world->run->inputs.tensor[world->image].height *
               world->run->inputs.tensor[world->image].width;
  size_t at = ((size_t)(channel / C) * (size_t)pixels + (size_t)place) * (size_t)C;
  at += (size_t)(channel % C);
  const void *image = world->row + world->run->inputs.tensor[world->image].row_offset;
  if (world->run->inputs.tensor[world->image].dtype == DTYPE_UINT8)
    return ((const uint8_t *)image)[at];
  float x = ((const float *)image)[at];
  return (uint8_t)(255 * (x < 0 ? 0 : x > 1 ? 1 : x) + 0.5f);
}

/* Three channels are colours, others planes of grey side by side. */
static void copy_image(struct world *world) {
  int channels = channels_of(world);
  int width = world->run->inputs.tensor[world->image].width;
  const struct canvas *to = &world->picture;
  for (int y = 0; y < to->height; y++)
    for (int x = 0; x < width; x++)
      for (int c = 0; c < channels; c++) {
        uint8_t level = level_of(world, y * width + x, c);
        if (channels == 3)
          to->pixels[3 * ((size_t)y * (size_t)width + (size_t)x) + (size_t)c] = level;
        else
          canvas_rectangle(to, c * width + x, y, 1, 1, canvas_grey(level));
      }
}

enum status world_draw(struct world *world, struct error *error) {
  if (!world->picture.width) {
    enum status status = choose_picture(world, error);
    if (status != STATUS_OK) return status;
  }
  if (world->image != NO_IMAGE) {
    copy_image(world);
    return STATUS_OK;
  }
  struct acorn_picture picture = {.struct_bytes = sizeof(picture),
                                  .width = world->picture.width,
                                  .height = world->picture.height,
                                  .pixels = world->picture.pixels};
  return render(world, &picture, error);
}

static void number_action(char text[32], const struct space_choices *choices, int action) {
  int c = 0;
  while (c < choices->count && action >= choices->among[c]) action -= choices->among[c++];
  if (choices->count)
    snprintf(text, 32, "%d: %d", c, action);
  else
    snprintf(text, 32, "action %d", action);
}

const char *world_action_name(const struct world *world, int action, char text[32]) {
  const char *name = NULL;
  if (registry_has(world->env, action_name) && world->env->action_name)
    name = world->env->action_name(world->instance, action);
  if (name && *name)
    snprintf(text, 32, "%s", name);
  else
    number_action(text, &world->run->space.choices, action);
  return text;
}
