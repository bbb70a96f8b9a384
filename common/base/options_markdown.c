// --help=markdown: a section with a table for each group, as docs/options.md shows it.
#include <string.h>

#include "common/base/option_value.h"
#include "common/base/options.h"

// A bar would end the cell, and outside of code an angle bracket would start a tag.
static void print_cell(FILE *out, const char *text, bool is_code) {
  for (; *text; text++) {
    if (*text == '|' || (*text == '<' && !is_code)) fputc('\\', out);
    fputc(*text, out);
  }
}

static void print_code(FILE *out, const char *text) {
  if (!text || !text[0]) return;
  fputc('`', out);
  print_cell(out, text, true);
  fputc('`', out);
}

static void print_option(FILE *out, const struct option *option) {
  char allowed[400];
  option_value_describe(option, allowed, sizeof allowed);
  fprintf(out, "| `--%s`", option->name);
  if (option->alias) fprintf(out, ", `--%s`", option->alias);
  fprintf(out, " | ");
  print_code(out, option->fallback);
  fprintf(out, " | ");
  print_cell(out, option->type == OPTION_BOOL ? "true, false" : allowed, false);
  fprintf(out, " | ");
  print_cell(out, option->help ? option->help : "", false);
  fprintf(out, " |\n");
}

static bool starts_group(const struct option_table *table, int row) {
  for (int i = 0; i < row; i++)
    if (strcmp(option_group(&table->options[i]), option_group(&table->options[row])) == 0)
      return false;
  return true;
}

static void print_exits(const struct option_exit *exits, FILE *out) {
  if (!exits) return;
  fprintf(out, "\n### Exit codes\n\n| code | meaning |\n|---|---|\n");
  for (; exits->code; exits++) {
    fprintf(out, "| %s | ", exits->code);
    print_cell(out, exits->meaning, false);
    fprintf(out, " |\n");
  }
}

void options_markdown(const struct option_table *table, FILE *out) {
  fprintf(out, "## %s\n\n%s\n", table->program, table->about);
  for (int i = 0; i < table->count; i++) {
    if (!starts_group(table, i)) continue;
    fprintf(out, "\n### %s\n\n", option_group(&table->options[i]));
    fprintf(out, "| option | default | values | meaning |\n|---|---|---|---|\n");
    for (int j = i; j < table->count; j++)
      if (strcmp(option_group(&table->options[j]), option_group(&table->options[i])) == 0)
        print_option(out, &table->options[j]);
  }
  print_exits(table->exits, out);
  fputc('\n', out);
}
