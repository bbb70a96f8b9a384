/* The networks that --network offers, a row each, for those that do not load their code.
 *
 * Upstream: learner/run/options.c (the option's choices), learner/run/agents.c, network.c (their
 * operations). Thread: any (constants). */
#ifndef ACORN_LEARNER_NETWORK_NAMES_H
#define ACORN_LEARNER_NETWORK_NAMES_H

/* X(name, of_images, lstm_size). of_images: it reads images, and the other parts of an observation
 * beside them. lstm_size: units of its LSTM unless told otherwise. */
#define NETWORKS(X)            \
  X(mlp, false, 0)             \
  X(lstm, false, 64)           \
  X(impala_shallow, true, 256) \
  X(impala_deep, true, 256)    \
  X(nature, true, 0)

#endif
