/* Curves as a gnuplot script, with the data in it; or the data alone.
 * Upstream: deploy/inspect/curves.c. Thread: any (no state). */
#ifndef ACORN_DEPLOY_INSPECT_FIGURE_H
#define ACORN_DEPLOY_INSPECT_FIGURE_H

#include <stdio.h>

#include "deploy/inspect/curve.h"

struct figure_line {
  const char *label;
  int num_runs;
  struct curve curve;
};

struct figure {
  const char *title;
  const char *x_label, *y_label;
  const char *band; /* what it shows: "range" */
  const struct figure_line *line;
  int num_lines;
};

/* The script draws a PNG to gnuplot's stdout. */
void figure_write_script(const struct figure *figure, FILE *out);

/* For each curve "# label", then a row "x mean low high" for each point; two blank lines between
 * curves. */
void figure_write_data(const struct figure *figure, FILE *out);

#endif
