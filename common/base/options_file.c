// Configuration files: lines "name = value"; # at the start of a word begins a comment. A string
// that would be misread so stands in double quotes, where \", \\ and \n have C's meaning.
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/files.h"
#include "common/base/option_value.h"
#include "common/base/options.h"

// Cuts white space off both ends, in place.
static char *trim(char *text) {
  while (isspace((unsigned char)*text)) text++;
  size_t length = strlen(text);
  while (length > 0 && isspace((unsigned char)text[length - 1])) length--;
  text[length] = '\0';
  return text;
}

static void cut_comment(char *text) {
  for (char *hash = strchr(text, '#'); hash; hash = strchr(hash + 1, '#')) {
    if (hash == text || isspace((unsigned char)hash[-1])) *hash = '\0';
  }
}

enum status options_set_of_file(const struct option_table *table, void *config, const char *name,
                                const char *value, const char *where, struct error *error) {
  enum status status = options_set(table, config, name, value, where, error);
  if (status == STATUS_OK)
    ((struct options_given *)config)->row[options_find(table, name) - table->options] =
        OPTION_OF_FILE;
  return status;
}

// Takes the quotes and the escapes out of "...", in place. False if the closing quote is missing or
// something follows it.
static bool unquote(char *text) {
  char *to = text, *from = text + 1;
  while (*from && *from != '"') {
    bool escaped = *from == '\\' && from[1];
    if (escaped) from++;
    *to++ = escaped && *from == 'n' ? '\n' : *from;
    from++;
  }
  if (*from != '"') return false;
  cut_comment(from + 1);
  bool is_last = *trim(from + 1) == '\0';
  *to = '\0';
  return is_last;
}

// Sets the option of one line. Blank lines and comments are no options.
static enum status read_line(const struct option_table *table, void *config, char *line,
                             const char *where, struct error *error) {
  char *name = trim(line);
  if (name[0] == '\0' || name[0] == '#') return STATUS_OK;
  char *equals = strchr(name, '=');
  if (!equals)
    return status_fail(error, STATUS_INVALID, "%s: '%.200s' is not 'name = value'", where, name);
  *equals = '\0';
  name = trim(name);

  char *value = trim(equals + 1);
  if (value[0] != '"') {
    cut_comment(value);
    value = trim(value);
  } else if (!unquote(value)) {
    return status_fail(error, STATUS_INVALID,
                       "%s: --%.100s: its value has no closing quote at its end", where, name);
  }
  return options_set_of_file(table, config, name, value, where, error);
}

static enum status cannot_read(const char *path, const char *why, struct error *error) {
  return status_fail(error, STATUS_INVALID, "cannot read the config file '%.300s': %s", path, why);
}

static enum status read_lines(const struct option_table *table, void *config, FILE *file,
                              const char *path, struct error *error) {
  enum status status = STATUS_OK;
  char *line = NULL;
  size_t line_bytes = 0;
  ssize_t length;
  for (int number = 1; status == STATUS_OK && (length = getline(&line, &line_bytes, file)) >= 0;
       number++) {
    char where[400], *text = line;
    // Editors may put a byte-order mark before the first line.
    if (number == 1 && strncmp(line, "\xef\xbb\xbf", 3) == 0) text += 3;
    snprintf(where, sizeof where, "config file %.300s, line %d", path, number);
    // What follows it would not be read.
    if (strlen(line) != (size_t)length)
      status = status_fail(error, STATUS_INVALID,
                           "%s: there is a byte 0 in it: this is no text, or it is damaged", where);
    else
      status = read_line(table, config, text, where, error);
  }
  if (status == STATUS_OK && ferror(file)) status = cannot_read(path, strerror(errno), error);
  free(line);
  fclose(file);
  return status;
}

enum status options_read_file(const struct option_table *table, void *config, const char *path,
                              struct error *error) {
  const char *why;
  FILE *file = files_read(path, &why);
  return file ? read_lines(table, config, file, path, error) : cannot_read(path, why, error);
}

/* From a pipe, too; what does not end is none. */
enum status options_read_config(const struct option_table *table, void *config, const char *path,
                                struct error *error) {
  enum { MOST = 1 << 20 };
  FILE *file = fopen(path, "r");
  if (!file) return cannot_read(path, strerror(errno), error);
  char *text = check_alloc(MOST, 1);
  size_t bytes = fread(text, 1, MOST, file);
  enum status status;
  if (ferror(file))
    status = cannot_read(path, strerror(errno), error);
  else if (bytes == MOST)
    status = cannot_read(path, "it has 1 MiB or more: this is no file of options", error);
  else
    status = read_lines(table, config, fmemopen(text, bytes, "r"), path, error);
  fclose(file);
  free(text);
  return status;
}

static void write_quoted(const char *text, FILE *out) {
  fputc('"', out);
  for (; *text; text++) {
    if (*text == '"' || *text == '\\') fputc('\\', out);
    if (*text == '\n')
      fputs("\\n", out);
    else
      fputc(*text, out);
  }
  fputc('"', out);
}

static bool needs_quotes(const char *text) {
  size_t length = strlen(text);
  return length == 0 || isspace((unsigned char)text[0]) ||
         isspace((unsigned char)text[length - 1]) || strpbrk(text, "#\"\n");
}

static bool is_among(const char *const *names, int num_names, const char *name) {
  for (int i = 0; i < num_names; i++)
    if (strcmp(names[i], name) == 0) return true;
  return false;
}

void options_write(const struct option_table *table, const void *config, const char *const *names,
                   int num_names, FILE *out) {
  const char *group = "";
  for (int i = 0; i < table->count; i++) {
    // A heading where the group changes.
    const struct option *option = &table->options[i];
    if (option->group && strcmp(option->group, group) != 0) {
      group = option->group;
      fprintf(out, "%s# %s\n", i > 0 ? "\n" : "", group);
    }

    fprintf(out, "%s%s = ", is_among(names, num_names, option->name) ? "# " : "", option->name);
    const char *text = option_value_string(option, config);
    if (text && needs_quotes(text))
      write_quoted(text, out);
    else
      option_value_write(option, config, out);
    fputc('\n', out);
  }
}

char *options_value_text(const struct option *option, const void *config) {
  char *text = NULL;
  size_t bytes;
  FILE *out = open_memstream(&text, &bytes);
  CHECK(out, "no memory");
  option_value_write(option, config, out);
  fclose(out);
  return text;
}

void options_compare(const struct option_table *table, const void *a, const void *b,
                     void (*differs)(void *context, const struct option *option, const char *a,
                                     const char *b),
                     void *context) {
  for (int i = 0; i < table->count; i++) {
    const struct option *option = &table->options[i];
    char *text_a = options_value_text(option, a), *text_b = options_value_text(option, b);
    if (strcmp(text_a, text_b) != 0) differs(context, option, text_a, text_b);
    free(text_a);
    free(text_b);
  }
}
