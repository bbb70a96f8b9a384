/* Names of metrics as TensorBoard's tags. TensorBoard sorts groups (what stands before the first
 * '/') by the alphabet and opens the first two: so returns come first, in charts/, then the
 * environment's numbers and losses, and what operators look at last, in telemetry/. Names in
 * metrics.jsonl and on the page for Prometheus are for programs, and stay as they are.
 * Upstream: events.c. Thread: any (no state). */
#ifndef ACORN_LEARNER_REPORT_TAGS_H
#define ACORN_LEARNER_REPORT_TAGS_H

#include "common/metrics/metrics.h"

#define TAG_RETURN "charts/episode_return"
#define TAG_EVAL_RETURN "charts/eval_episode_return"
/* Distributions, a card for each run: so not beside the curves. */
#define TAG_RETURNS "returns/train"
#define TAG_EVAL_RETURNS "returns/eval"
#define TAG_VIDEO "video/greedy_episode"
#define TAG_OBSERVATION "observation/network_input"

/* Writes the tag of the metric `name`; the same for names of what follows from it, NAME_max. */
void tag_of_metric(char tag[METRIC_NAME_BYTES], const char *name);

#endif
