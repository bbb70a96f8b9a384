#include "deploy/inspect/figure.h"

#include <math.h>
#include <string.h>

/* Told apart by most eyes, with and without colour vision, on white.
 * Source: Okabe and Ito 2008, in an order of our own. */
static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                      "#56b4e9", "#e69f00", "#000000"};
enum { NUM_COLOURS = sizeof(colours) / sizeof(colours[0]) };

/* ---- the script */

/* In double quotes, where gnuplot takes three characters for more than themselves. Not in single
 * quotes: it reads a doubled one there at most once in a row, and not at the beginning. */
static void write_quoted(const char *text, FILE *out) {
  fputc('"', out);
  for (; *text; text++) {
    if (strchr("\"\\`", *text)) fputc('\\', out);
    fputc(*text == '\n' ? ' ' : *text, out);
  }
  fputc('"', out);
}

static void write_words(const char *command, const char *text, FILE *out) {
  fprintf(out, "set %s ", command);
  write_quoted(text, out);
  fprintf(out, " noenhanced\n");
}

static void write_points(const struct curve *curve, FILE *out) {
  for (int i = 0; i < curve->count; i++)
    fprintf(out, "%.9g %.9g %.9g %.9g\n", curve->point[i].x, curve->point[i].mean,
            curve->point[i].low, curve->point[i].high);
}

static void write_legend(const struct figure *figure, const struct figure_line *line, FILE *out) {
  char text[512];
  if (line->num_runs == 1)
    snprintf(text, sizeof(text), "%.400s", line->label);
  else
    snprintf(text, sizeof(text), "%.400s (mean and %s of %d runs)", line->label, figure->band,
             line->num_runs);
  write_quoted(text, out);
}

/* Large numbers along x as 200.0k and 1.5M; along y with all digits in which they differ, where
 * gnuplot would write 10^6 at each. */
static void write_axes(const struct figure *figure, FILE *out) {
  double end = 0;
  for (int i = 0; i < figure->num_lines; i++) {
    const struct curve *curve = &figure->line[i].curve;
    end = fmax(end, curve->point[curve->count - 1].x);
  }
  fprintf(out, "set xrange [0:%.9g]\nset tics nomirror\n", end > 0 ? end : 1);
  if (end >= 1e5) fprintf(out, "set format x '%%.1s%%c'\n");
  fprintf(out, "set format y '%%.10g'\n");
}

/* The bands first, so that no line is under one; a first element that shows nothing saves thinking
 * about commas. */
static void write_plot(const struct figure *figure, FILE *out) {
  fprintf(out, "plot NaN notitle");
  for (int i = 0; i < figure->num_lines; i++)
    if (figure->line[i].num_runs > 1)
      fprintf(out,
              ", \\\n  $line%d using 1:3:4 with filledcurves fs transparent solid 0.18 noborder lc "
              "rgb '%s' notitle",
              i, colours[i % NUM_COLOURS]);
  for (int i = 0; i < figure->num_lines; i++) {
    fprintf(out, ", \\\n  $line%d using 1:2 with lines lw 2 lc rgb '%s' title ", i,
            colours[i % NUM_COLOURS]);
    write_legend(figure, &figure->line[i], out);
    fprintf(out, " noenhanced");
  }
  fputc('\n', out);
}

void figure_write_script(const struct figure *figure, FILE *out) {
  /* The legend stands below, where it hides nothing, and the picture is as much taller. */
  fprintf(out,
          "set terminal pngcairo size 1200,%d font 'DejaVu Sans,13' background '#ffffff'\n"
          "set encoding utf8\n"
          "set border 3 lc rgb '#606060'\n"
          "set grid lc rgb '#dddddd' lt 1 lw 1\n"
          "set key below vertical maxcols 1 left Left reverse noenhanced samplen 2 spacing 1.2 "
          "height 1\n"
          "set rmargin 4\n",
          700 + 24 * figure->num_lines);
  if (figure->num_lines == 1 && figure->line[0].num_runs == 1) fprintf(out, "set nokey\n");
  write_words("title", figure->title, out);
  write_words("xlabel", figure->x_label, out);
  write_words("ylabel", figure->y_label, out);
  write_axes(figure, out);
  for (int i = 0; i < figure->num_lines; i++) {
    fprintf(out, "$line%d << END_OF_LINE\n", i);
    write_points(&figure->line[i].curve, out);
    fprintf(out, "END_OF_LINE\n");
  }
  write_plot(figure, out);
}

void figure_write_data(const struct figure *figure, FILE *out) {
  for (int i = 0; i < figure->num_lines; i++) {
    fprintf(out, "%s# %s, %d run%s\n", i > 0 ? "\n\n" : "", figure->line[i].label,
            figure->line[i].num_runs, figure->line[i].num_runs > 1 ? "s" : "");
    write_points(&figure->line[i].curve, out);
  }
}
