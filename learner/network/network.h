/* Networks: observations in, logits or action values and a state value out. Written once against
 * the device table; backward is the forward read upwards.
 *
 * A network is immutable after create and shared by all threads; what changes lives in the
 * parameters (one flat array, owned by the caller) and in a workspace (one per thread and use).
 * Upstream: learner/serve/acting.h, learner/train.
 * Dimension letters: T steps, N sequences, A actions, H hidden size, P parameters, S reals of
 * recurrent state. */
#ifndef ACORN_LEARNER_NETWORK_NETWORK_H
#define ACORN_LEARNER_NETWORK_NETWORK_H

#include "learner/device/device.h"
#include "learner/network/action_values.h"

/* impala_deep with an LSTM and a head of two noisy streams has 51 parameter arrays. */
enum { NETWORK_MAX_LAYERS = 4, NETWORK_MAX_PARAMETERS = 64, NETWORK_NAME_BYTES = 40 };

struct network_config {
  /* "mlp", "lstm"; for images "impala_shallow", "impala_deep", "nature"; "random" (uniform),
   * "scripted" (CartPole: towards the angle) */
  const char *network;
  /* Pointers NULL: only the layout, the action's form and the two switches are read. */
  struct device_inputs inputs;
  int head_size;   /* outputs for the policy: A logits, or A*Z advantages */
  int value_size;  /* outputs for the value: 1; Z, or 0 where the advantages are the values */
  int log_stds;    /* outputs behind the value that are parameters, the same for every row: the
                      logarithms of a normal policy's standard deviations; 0: none */
  int head_hidden; /* 0: the head is one layer; else a hidden layer of so many (relu) before the
                      outputs for the policy, and one of its own before those for the value */
  bool noisy;      /* the head's layers are noisy ones */
  bool normalize;  /* vectors are normalised by running statistics, which are parameters: see
                      network_observe */
  bool normalize_images; /* so are images, by a network for images */
  int observation_limit; /* what vectors are clipped to; 0: NETWORK_OBSERVATION_LIMIT */
  bool scale_value;      /* the value is on a scale of running statistics, which are parameters: see
                       network_rescale_value. value_size is 1 */
  struct action_values values; /* how the outputs are read, if they give values of actions */
  int num_layers;              /* mlp: hidden layers; lstm: layers before the LSTM (may be 0) */
  int hidden[NETWORK_MAX_LAYERS];
  int lstm_size; /* lstm: 1 or more; for images 0: none */
  enum activation activation;
};

/* One named parameter array inside the flat one. */
struct network_parameter {
  char name[NETWORK_NAME_BYTES];
  int rank;
  int shape[2];
  size_t offset; /* in reals */
  size_t count;
};

struct network;
struct network_workspace;
struct network_observer;

/* What forward gives and backward takes. Arrays belong to the workspace. */
struct network_outputs {
  real *head;   /* (T*N, stride): what the policy reads (logits, means), the value, the log_stds; or
                   the numbers of struct action_values */
  int size;     /* outputs for the policy */
  int stride;   /* of all outputs */
  real *values; /* (T*N, A): room for the actions' values, where they are not the head itself or
                   are masked: see network_values */
  const struct action_values *of_actions; /* the network's, see network_config */
  const struct space_choices *choices;    /* of the actions that the policy has outputs for */
  const real *mask; /* (T*N, A): above 0 where an action may be chosen; NULL: each may. Logits in
                       `head` are masked, values are by network_values */
};

/* Which noise the noisy layers of a workspace have from now on: that of (seed, number), the same
 * for the same two on every device. */
struct network_noise {
  bool on; /* false: none, the weights are their means */
  uint64_t seed;
  uint32_t number; /* of the batch or update */
};

/* Errors: INVALID (unknown network: names the nearest; sizes that make no sense). */
MUST_CHECK enum status network_create(struct network **out, const struct network_config *config,
                                      struct error *error);
void network_destroy(struct network *network);

size_t network_num_parameters(const struct network *network); /* P; may be 0 */
const struct network_config *network_config(const struct network *network);
/* S: h and c of each sequence; 0 without recurrence. */
int network_state_size(const struct network *network);
/* Outputs for the policy, and all outputs: those, the value's and the log_stds; of a dueling
 * network the joined ones. */
int network_head_size(const struct network *network);
int network_head_stride(const struct network *network);
const struct action_values *network_action_values(const struct network *network);
const struct device_inputs *network_inputs(
    const struct network *network); /* the layout, pointers NULL */
const struct network_parameter *network_parameters(const struct network *network, int *count);

/* Initial parameters (P floats): orthogonal-like scaled normal per layer, the head's outputs for
 * the policy x 0.01, for the value x 1, biases and log_stds 0; what reads an image: sums of 0, so
 * that a plain background is none; LSTM: uniform +-1/sqrt(H); noisy
 * layers of I inputs: means uniform +-1/sqrt(I), deviations 0.5/sqrt(I). The same for the same seed
 * on every machine. */
void network_init_parameters(const struct network *network, float *host, uint64_t seed);

/* Buffers for up to `rows` = T*N rows; `backward` adds what the backward needs. */
struct network_workspace *network_workspace_create(const struct network *network,
                                                   struct device *device, int rows, bool backward);
/* Bytes of device memory that such a one takes. */
size_t network_workspace_bytes(const struct network *network, struct device *device, int rows,
                               bool backward);
void network_workspace_destroy(struct network_workspace *workspace);
/* From now on network_backward gives the gradient of the inputs in the place of that of the
 * parameters, for which its array is scratch, of a mlp. Returns it: (rows, I), I =
 * device_inputs_size, of vectors that are normalised with respect to what they are normalised to.
 * Of a workspace with backward, before the first forward. */
real *network_differentiate_inputs(struct network_workspace *workspace);

/* Draws the noise of the layers that have any; it stays until the next call. Without a call there
 * is none. Backward has to follow a forward with the same noise. */
void network_set_noise(struct network_workspace *workspace, const struct network_noise *noise);

/* Forward over T steps of N sequences. inputs: T*N rows, time-major. state_in, state_out: (N, S), h
 * then c; NULL when S = 0. state_out may be NULL. On `first` rows the state before the step is
 * zero. */
void network_forward(struct network_workspace *workspace, struct network_outputs *out,
                     real *state_out, const real *params, const struct device_inputs *inputs,
                     const real *state_in, int T, int N);

/* The actions' values (rows, A) of the first rows of `out`, MASKED where one may not be chosen. */
static inline const real *network_values(struct device *device, const struct network_outputs *out,
                                         int rows) {
  const struct action_values *v = out->of_actions;
  const real *values = action_values_of(device, out->values, out->head, v, (size_t)rows);
  return action_values_masked(device, out->values, values, out->mask, v->A, (size_t)rows);
}

/* How many deviations from the mean a normalised number may be. */
enum { NETWORK_OBSERVATION_LIMIT = 10, NETWORK_IMAGE_LIMIT = 5 };

/* Whether tensor `index` is normalised as a vector, by a network that normalises: one of float32
 * that is no image. */
bool network_normalizes(const struct device_inputs *inputs, int index);

/* What training sees of a network's inputs moves the statistics that it normalises them by; nothing
 * else does. NULL where it normalises nothing. Of each batch it sees T rows of N environments. */
struct network_observer *network_observer_create(const struct network *network,
                                                 struct device *device, int T, int N);
/* Bytes of device memory that such a one of one learner takes. */
size_t network_observer_bytes(const struct network *network, const struct device *device, int T,
                              int N);
void network_observer_destroy(struct network_observer *observer);
enum { NETWORK_IMAGES_SEEN = 512 };
/* Takes the first T N rows of the inputs, of their images at most NETWORK_IMAGES_SEEN from all over
 * them, into the statistics among the parameters (P), and those of other learners, in the order of
 * their ranks. inputs NULL: this learner has seen none. skipped (1): 0; or NaN: the statistics
 * stay as they are. */
void network_observe(struct network_observer *observer, real *params, const real *skipped,
                     const struct device_inputs *inputs);

/* Among the parameters: where the statistics of vectors begin; returns how many numbers they are, 0
 * where none is normalised. */
size_t network_observation_statistics(const struct network *network, size_t *offset);

/* A value's count, mean and deviation among the parameters (P), in this order; NULL where it is not
 * scaled. Outputs of the network are not normalised. */
enum { NETWORK_VALUE_STATISTICS = 3 };
const real *network_value_statistics(const struct network *network, const struct device *device,
                                     const real *params);
/* The next ones take their place, and the head's last layer moves so that all values stay as they
 * are; they follow the first ones where these are far away. skipped (1): as of network_observe.
 * Where the value is scaled. */
void network_rescale_value(const struct network *network, struct device *device, real *params,
                           const real *next, const real *skipped);
/* They take their place, and values follow them. */
void network_set_value_statistics(const struct network *network, struct device *device,
                                  real *params, const real *next, const real *skipped);

/* Gradient (P, overwritten) for dhead (T*N, stride), which is used as scratch. Call after
 * network_forward of the same workspace, inputs and N. T may be smaller than the forward's: the
 * later steps then count as having no gradient, which spares the work of a bootstrap step. */
void network_backward(struct network_workspace *workspace, real *grads, const real *params,
                      real *dhead, const struct device_inputs *inputs, int T, int N);

#endif
