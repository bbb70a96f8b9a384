/* What one kind of network implements: a row of operations in its own file (mlp.c, lstm.c,
 * pixels.c, scripted.c), found by name in network.c. Private to learner/network. A new kind is one
 * more file and one more row in names.h.
 *
 * Thread: as in network.h. Owner: `own` of a network or a workspace belongs to the kind, is
 * allocated by declare or allocate with check_alloc and freed by network.c; device memory comes
 * from workspace_reals and is released by network.c. */
#ifndef ACORN_LEARNER_NETWORK_KIND_H
#define ACORN_LEARNER_NETWORK_KIND_H

#include "learner/network/layer_list.h"
#include "learner/network/network.h"

struct network_kind {
  const char *name;
  bool blind;          /* does not look at its inputs: they are not embedded for it */
  bool embeds;         /* likewise, and reads images by convolution, all else by itself */
  bool differentiates; /* backward gives workspace->d_inputs alone, where it is not NULL */
  /* What this kind needs beyond what every kind needs (optional). */
  enum status (*check)(const struct network_config *config, struct error *error);
  /* Names the parameters in order (network_declare), the head's last (head_declare), sets
   * network->state_size and network->own (optional: no parameters). */
  void (*declare)(struct network *network);
  /* Writes all parameters but the head's (optional, with declare). */
  void (*init)(const struct network *network, float *host, uint64_t seed);
  /* Adds the layers before the head's (optional, with declare). */
  void (*list)(const struct network *network, struct network_layer_list *list);
  /* The kind's own buffers of a workspace (optional). */
  void (*allocate)(struct network_workspace *workspace);
  /* From workspace->inputs, embedded already, to workspace->head, for T*N rows. */
  void (*forward)(struct network_workspace *workspace, real *state_out, const real *params,
                  const struct device_inputs *inputs, const real *state_in, int T, int N);
  /* (optional, with declare) */
  void (*backward)(struct network_workspace *workspace, real *grads, const real *params,
                   real *dhead, const struct device_inputs *inputs, int T, int N);
};

extern const struct network_kind kind_mlp, kind_lstm, kind_random, kind_scripted;
extern const struct network_kind kind_impala_shallow, kind_impala_deep, kind_nature;

struct head;         /* head.c's */
struct head_buffers; /* head.c's */

/* What is normalised of an observation. */
enum { NORMALISED_VECTORS, NORMALISED_IMAGES, NUM_NORMALISED };
struct normalised {
  int numbers;    /* of one step, F; 0: none */
  int statistics; /* the first parameter of theirs */
};

struct network {
  struct network_config config; /* inputs' pointers NULL */
  const struct network_kind *kind;
  int inputs_size; /* I */
  int outputs;     /* head_size + value_size + log_stds */
  int state_size;  /* S */
  struct network_parameter parameter[NETWORK_MAX_PARAMETERS];
  int num_parameters;
  size_t total;                                 /* P */
  struct normalised normalised[NUM_NORMALISED]; /* see observation.h */
  bool scales_value;                            /* see value_scale.h */
  int value_statistics;                         /* likewise */
  struct head *head;                            /* NULL: the kind has no parameters */
  void *own;
};

enum { WORKSPACE_MAX_BUFFERS = 96 };

struct network_workspace {
  const struct network *network;
  struct device *device;
  int rows;                          /* capacity, T*N */
  bool backward;                     /* whether there are buffers for it */
  int forward_T, forward_N;          /* of the last forward */
  real *inputs;                      /* (rows, I); NULL where they are not embedded */
  real *d_inputs;                    /* (rows, I); NULL: not wanted */
  real *vectors;                     /* (rows, F) of what is normalised; NULL where nothing is */
  real *deviations;                  /* (F) of images that are normalised, else NULL */
  real *head;                        /* (rows, outputs) */
  real *joined, *d_head;             /* of a dueling network: (rows, A*Z), and (rows, outputs) with
                                        backward; else NULL */
  real *values;                      /* (rows, A), of distributions or masked; else NULL */
  real *mask;                        /* (rows, A); NULL: each action may be chosen */
  struct head_buffers *head_buffers; /* NULL without network->head */
  void *own;
  void *buffer[WORKSPACE_MAX_BUFFERS]; /* all device memory */
  int num_buffers;
  bool is_counted; /* for its size alone: without memory */
  size_t bytes;
};

/* Appends a parameter array of `rank` 1 or 2 (columns 1 for rank 1) and returns its index. */
int network_declare(struct network *network, const char *name, int rank, int rows, int columns);

/* Device memory of the workspace, zeroed; NULL while it is counted. */
void *workspace_memory(struct network_workspace *workspace, size_t bytes);

/* Device memory for (rows of the workspace, per_row) reals, zeroed. */
real *workspace_reals(struct network_workspace *workspace, int per_row);

#endif
