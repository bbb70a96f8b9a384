#include "envs/gymnasium/atari.h"

#include <stdlib.h>

#include "envs/gymnasium/bridge.h"
#include "envs/gymnasium/interpreter.h"
#include "envs/gymnasium/screen.h"

struct atari {
  PyObject *ale;                                         /* atari.py's Atari   */
  PyObject *actions;                                     /* list: what act gets for 0.. */
  PyObject *noop;                                        /* what it gets for doing nothing */
  PyObject *act, *game_over, *lives, *reset_game, *grey; /* methods of the emulator */
  PyObject *colour;                                      /* that too */
  PyObject *names;                                       /* list: words for the actions */
  PyObject *array[2];                                    /* numpy's view of the two screens */
  Py_buffer pixels[2];
  struct screen screen;
  int num_actions;
  /* options */
  int frame_skip, max_noops, max_frames, life_loss;
  enum screen_resize resize;
  /* this episode */
  int frames, lives_left, over;
  int has_game;    /* the cartridge is in */
  int lost_life;   /* the last step ended with that: the next reset goes on with the game */
  uint64_t random; /* state of the generator of no-ops */
};

/* ---- make */

static PyObject *take(PyObject *from, const char *name) {
  return from ? PyObject_GetAttrString(from, name) : NULL;
}

static int take_number(struct atari *atari, const char *name) {
  PyObject *value = take(atari->ale, name);
  int number = value ? (int)PyLong_AsLong(value) : -1;
  Py_XDECREF(value);
  return number;
}

static int take_methods(struct atari *atari) {
  PyObject *emulator = take(atari->ale, "emulator");
  atari->act = take(emulator, "act");
  atari->game_over = take(emulator, "game_over");
  atari->lives = take(emulator, "lives");
  atari->reset_game = take(emulator, "reset_game");
  atari->grey = take(emulator, "getScreenGrayscale");
  atari->colour = take(emulator, "getScreenRGB");
  Py_XDECREF(emulator);
  return PyErr_Occurred() ? -1 : 0;
}

static int take_screens(struct atari *atari) {
  PyObject *screens = take(atari->ale, "screens");
  for (int i = 0; screens && i < 2; i++) {
    atari->array[i] = Py_NewRef(PyTuple_GET_ITEM(screens, i));
    if (PyObject_GetBuffer(atari->array[i], &atari->pixels[i], PyBUF_WRITABLE | PyBUF_ND)) break;
  }
  Py_XDECREF(screens);
  if (PyErr_Occurred()) return -1;
  const Py_buffer *pixels = &atari->pixels[0];
  int height = (int)pixels->shape[0], width = (int)pixels->shape[1];
  if (height <= SCREEN_MAX_HEIGHT && width <= SCREEN_MAX_WIDTH) {
    screen_init(&atari->screen, width, height, atari->resize);
    return 0;
  }
  PyErr_Format(PyExc_ValueError, "a screen of %d x %d", width, height);
  return -1;
}

/* With Python's lock. -1 with an exception set. */
static int make(struct atari *atari, const struct acorn_config *config) {
  atari->ale =
      PyObject_CallFunction(interpreter_adapter("Atari"), "s", config->json ? config->json : "{}");
  atari->names = take(atari->ale, "names");
  atari->actions = take(atari->ale, "actions");
  atari->noop = take(atari->ale, "noop");
  if (!atari->actions || !atari->noop) return -1;
  atari->num_actions = (int)PyList_GET_SIZE(atari->actions);
  atari->frame_skip = take_number(atari, "frame_skip");
  atari->max_noops = take_number(atari, "noops");
  atari->max_frames = take_number(atari, "max_frames");
  atari->life_loss = take_number(atari, "life_loss");
  atari->resize = take_number(atari, "linear") ? SCREEN_LINEAR : SCREEN_AREA;
  return PyErr_Occurred() || take_methods(atari) || take_screens(atari) ? -1 : 0;
}

static void unmake(struct atari *atari) {
  for (int i = 0; i < 2; i++) {
    if (atari->pixels[i].obj) PyBuffer_Release(&atari->pixels[i]);
    Py_XDECREF(atari->array[i]);
  }
  PyObject *const owned[] = {atari->act,  atari->game_over, atari->lives, atari->reset_game,
                             atari->grey, atari->colour,    atari->names, atari->actions,
                             atari->noop, atari->ale};
  for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) Py_XDECREF(owned[i]);
  free(atari);
}

static void atari_destroy(void *self) {
  interpreter_enter();
  unmake(self);
  interpreter_leave();
}

static void *atari_create(const struct acorn_config *config, char *error, size_t error_bytes) {
  struct atari *atari = calloc(1, sizeof *atari);
  if (!atari) return NULL;
  interpreter_enter();
  if (make(atari, config)) {
    interpreter_error(error, error_bytes);
    unmake(atari);
    atari = NULL;
  }
  interpreter_leave();
  return atari;
}

static int atari_space(struct acorn_space *space, const struct acorn_config *config, char *error,
                       size_t error_bytes) {
  struct atari *atari = atari_create(config, error, error_bytes);
  if (!atari) return -1;
  space->num_tensors = 1;
  space->tensor[0] = (struct acorn_tensor){"screen", ACORN_UINT8, 2, {SCREEN_SIDE, SCREEN_SIDE}};
  space->discrete = atari->num_actions;
  atari_destroy(atari);
  return 0;
}

/* ---- the emulator; all with Python's lock, -1 with an exception set */

static int call_number(PyObject *method, PyObject *argument) {
  PyObject *result = argument ? PyObject_CallOneArg(method, argument) : PyObject_CallNoArgs(method);
  int number = result ? (int)PyLong_AsLong(result) : -1;
  Py_XDECREF(result);
  return number;
}

/* Plays one frame; the game's reward is added. */
static int play_frame(struct atari *atari, PyObject *action, float *reward) {
  int got = call_number(atari->act, action);
  atari->frames++;
  atari->over = call_number(atari->game_over, Py_False);
  *reward += (float)got;
  return PyErr_Occurred() ? -1 : 0;
}

static int fetch_screen(struct atari *atari, int which) {
  PyObject *result = PyObject_CallOneArg(atari->grey, atari->array[which]);
  Py_XDECREF(result);
  return result ? 0 : -1;
}

static int count_lives(struct atari *atari) {
  int before = atari->lives_left;
  atari->lives_left = call_number(atari->lives, NULL);
  return atari->lives_left < before;
}

static void observe(struct atari *atari, struct acorn_row *row) {
  uint8_t *newest = atari->pixels[0].buf;
  const uint8_t *before = atari->pixels[1].buf;
  if (atari->frame_skip > 1) screen_maximum(newest, before, (size_t)atari->pixels[0].len);
  screen_shrink(&atari->screen, row->observation[0], newest);
}

/* ---- reset */

/* Uniform in 1..max_noops: SplitMix64 (Steele, Lea, Flood 2014). */
static int draw_noops(struct atari *atari) {
  if (atari->max_noops == 0) return 0;
  uint64_t x = atari->random += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return 1 + (int)((x ^ (x >> 31)) % (uint64_t)atari->max_noops);
}

/* The emulator takes a seed only with a cartridge, which takes a tenth of a second. Also without
 * sticky actions: after reset_game some games (Assault, BeamRider) begin otherwise than new. */
static int seed_emulator(struct atari *atari, uint64_t seed) {
  atari->random = seed;
  PyObject *result =
      PyObject_CallMethod(atari->ale, "insert", "K", (unsigned long long)(seed & 0x7fffffffu));
  Py_XDECREF(result);
  atari->has_game = 1;
  return result ? 0 : -1;
}

static int begin_game(struct atari *atari) {
  PyObject *result = PyObject_CallNoArgs(atari->reset_game);
  Py_XDECREF(result);
  atari->frames = 0;
  return result ? 0 : -1;
}

static int new_game(struct atari *atari) {
  float ignored = 0;
  if (begin_game(atari)) return -1;
  for (int noops = draw_noops(atari); noops > 0; noops--)
    if (play_frame(atari, atari->noop, &ignored) || (atari->over && begin_game(atari))) return -1;
  count_lives(atari);
  return PyErr_Occurred() ? -1 : 0;
}

static int reset(struct atari *atari, const uint64_t *seed, struct acorn_row *row) {
  int goes_on = atari->lost_life && !seed;
  atari->lost_life = 0;
  if ((seed || !atari->has_game) && seed_emulator(atari, seed ? *seed : 0)) return -1;
  if ((!goes_on && new_game(atari)) || fetch_screen(atari, 0)) return -1;
  memset(atari->pixels[1].buf, 0, (size_t)atari->pixels[1].len);
  observe(atari, row);
  return 0;
}

static int atari_reset(void *self, const uint64_t *seed, struct acorn_row *row, char *error,
                       size_t error_bytes) {
  interpreter_enter();
  int failed = reset(self, seed, row) ? interpreter_error(error, error_bytes) : 0;
  interpreter_leave();
  return failed;
}

/* ---- step */

/* Of a step that ends early the screens before it stay, as in the reference. */
static int step(struct atari *atari, int action, struct acorn_row *row) {
  PyObject *held = PyList_GET_ITEM(atari->actions, action);
  int lost_life = 0;
  for (int t = 0; t < atari->frame_skip; t++) {
    if (play_frame(atari, held, &row->reward)) return -1;
    if (atari->life_loss) lost_life = count_lives(atari);
    row->truncated = atari->frames >= atari->max_frames;
    if (atari->over || lost_life || row->truncated) break;
    int which = atari->frame_skip - 1 - t;
    if (which < 2 && fetch_screen(atari, which)) return -1;
  }
  if (PyErr_Occurred()) return -1;
  atari->lost_life = lost_life && !atari->over && !row->truncated;
  row->terminated = atari->over || atari->lost_life;
  row->goes_on = atari->lost_life;
  observe(atari, row);
  return 0;
}

static int atari_step(void *self, const void *action, struct acorn_row *row, char *error,
                      size_t error_bytes) {
  interpreter_enter();
  int failed =
      step(self, *(const int32_t *)action, row) ? interpreter_error(error, error_bytes) : 0;
  interpreter_leave();
  return failed;
}

/* ---- for people: the game's own screen, as it is now */

static int draw(struct atari *atari, struct acorn_picture *picture) {
  picture->width = atari->screen.width;
  picture->height = atari->screen.height;
  if (!picture->pixels) return 0;
  PyObject *shown = PyObject_CallNoArgs(atari->colour);
  Py_buffer pixels;
  if (!shown || PyObject_GetBuffer(shown, &pixels, PyBUF_ND)) {
    Py_XDECREF(shown);
    return -1;
  }
  size_t bytes = 3 * (size_t)picture->width * (size_t)picture->height;
  int failed = (size_t)pixels.len != bytes;
  if (failed)
    PyErr_Format(PyExc_ValueError, "a screen of %zd bytes, not %zu", pixels.len, bytes);
  else
    memcpy(picture->pixels, pixels.buf, bytes);
  PyBuffer_Release(&pixels);
  Py_DECREF(shown);
  return failed ? -1 : 0;
}

static int atari_render(void *self, struct acorn_picture *picture, char *error,
                        size_t error_bytes) {
  interpreter_enter();
  int failed = draw(self, picture) ? interpreter_error(error, error_bytes) : 0;
  interpreter_leave();
  return failed;
}

/* The list keeps the words. */
static const char *atari_action_name(void *self, int action) {
  const struct atari *atari = self;
  interpreter_enter();
  const char *name = PyUnicode_AsUTF8(PyList_GET_ITEM(atari->names, action));
  if (!name) PyErr_Clear();
  interpreter_leave();
  return name;
}

const struct acorn_env atari_functions = {
    .abi = ACORN_ENV_ABI,
    .struct_bytes = sizeof(struct acorn_env),
    .about = "the games of the Atari 2600: {\"game\": \"Breakout\"}",
    .any_option = 1,
    .space = atari_space,
    .create = atari_create,
    .reset = atari_reset,
    .step = atari_step,
    .destroy = atari_destroy,
    .render = atari_render,
    .action_name = atari_action_name,
};
