// --help: the options by group, in the order of the table, wrapped for a terminal of 80 columns.
#include <string.h>

#include "common/base/option_value.h"
#include "common/base/options.h"

enum { COLUMNS = 80, HELP_COLUMN = 28 };

const char *option_group(const struct option *option) {
  return option->group ? option->group : "Options";
}

// Prints words from `column` on and starts a new line, indented, before one that would not fit.
// Ends the line.
static void print_wrapped(FILE *out, const char *text, int column, int indent) {
  bool is_line_start = true;
  for (;;) {
    text += strspn(text, " \n");
    int length = (int)strcspn(text, " \n");
    if (length == 0) break;
    if (!is_line_start && column + 1 + length > COLUMNS) {
      fprintf(out, "\n%*s", indent, "");
      column = indent;
      is_line_start = true;
    }
    fprintf(out, "%s%.*s", is_line_start ? "" : " ", length, text);
    column += length + !is_line_start;
    is_line_start = false;
    text += length;
  }
  fputc('\n', out);
}

// One entry: what is typed, then what it means from the help column on (on the next line where the
// first is long).
static void print_entry(FILE *out, const char *typed, const char *meaning) {
  int column = fprintf(out, "  %s", typed);
  if (column + 2 > HELP_COLUMN) {
    fputc('\n', out);
    column = 0;
  }
  fprintf(out, "%*s", HELP_COLUMN - column, "");
  print_wrapped(out, meaning, HELP_COLUMN, HELP_COLUMN);
}

static bool is_long_choice(const struct option *option) {
  return option->type == OPTION_CHOICE && strlen(option->name) + strlen(option->choices) > 40;
}

// "--port=N", "--device=cpu|ref|ref_double", "--resume", "--[no_]shuffle"
static void print_typed(const struct option *option, char *typed, size_t bytes) {
  static const char *const placeholder[] = {
      [OPTION_INT] = "N", [OPTION_FLOAT] = "X", [OPTION_STRING] = "TEXT", [OPTION_CHOICE] = "NAME"};
  if (option->type == OPTION_BOOL) {
    bool is_on = strcmp(option->fallback, "true") == 0;
    snprintf(typed, bytes, "--%s%s", is_on ? "[no_]" : "", option->name);
  } else {
    bool lists_choices = option->type == OPTION_CHOICE && !is_long_choice(option);
    snprintf(typed, bytes, "--%s=%s", option->name,
             lists_choices ? option->choices : placeholder[option->type]);
  }
}

// Appends "; note" to the notes in brackets, "" starts them.
static void add_note(char *notes, size_t bytes, const char *label, const char *note) {
  size_t length = strlen(notes);
  snprintf(notes + length, bytes - length, "%s%s%s", length ? "; " : "", label, note);
}

static void print_option(FILE *out, const struct option *option) {
  char typed[160], allowed[400], notes[800] = "", meaning[1600];
  print_typed(option, typed, sizeof typed);
  option_value_describe(option, allowed, sizeof allowed);

  bool is_on = option->type == OPTION_BOOL && strcmp(option->fallback, "true") == 0;
  if (is_on) add_note(notes, sizeof notes, "on by default", "");
  if (option->type != OPTION_BOOL && option->fallback && option->fallback[0]) {
    add_note(notes, sizeof notes, "default ", option->fallback);
  }
  if (is_long_choice(option))
    add_note(notes, sizeof notes, "one of ", allowed);
  else if (option->type != OPTION_CHOICE && allowed[0])
    add_note(notes, sizeof notes, "", allowed);
  if (option->alias) add_note(notes, sizeof notes, "also --", option->alias);

  snprintf(meaning, sizeof meaning, "%s%s%s%s", option->help ? option->help : "",
           notes[0] ? " (" : "", notes, notes[0] ? ")" : "");
  print_entry(out, typed, meaning);
}

static bool is_first_of_group(const struct option_table *table, int row) {
  for (int i = 0; i < row; i++) {
    if (strcmp(option_group(&table->options[i]), option_group(&table->options[row])) == 0)
      return false;
  }
  return true;
}

static void print_exits(FILE *out, const struct option_exit *exits) {
  if (!exits) return;
  fprintf(out, "Exit codes:\n");
  for (; exits->code; exits++) print_entry(out, exits->code, exits->meaning);
  fputc('\n', out);
}

void options_help(const struct option_table *table, FILE *out) {
  fprintf(out, "Usage: %s%s%s [--name=value ...]\n\n", table->program, table->words ? " " : "",
          table->words ? table->words : "");
  if (table->about && table->about[0]) {
    print_wrapped(out, table->about, 0, 0);
    fputc('\n', out);
  }

  for (int i = 0; i < table->count; i++) {
    if (!is_first_of_group(table, i)) continue;
    fprintf(out, "%s:\n", option_group(&table->options[i]));
    for (int j = i; j < table->count; j++) {
      if (strcmp(option_group(&table->options[j]), option_group(&table->options[i])) == 0) {
        print_option(out, &table->options[j]);
      }
    }
    fputc('\n', out);
  }

  fprintf(out, "General:\n");
  if (!options_find(table, "config")) {
    print_entry(out, "--config=FILE",
                "read options from a file of lines 'name = value'; the command line wins over it");
  }
  print_entry(out, "--help", "show this text and exit");
  print_entry(out, "--version", "print the version and the commit, and exit");
  fputc('\n', out);
  print_exits(out, table->exits);
  print_wrapped(
      out,
      "Numbers may be written 1e6, 500k or 2M. A dash in a name is the same as an underscore. "
      "Where an option is given twice, the later one counts.",
      0, 0);
}
