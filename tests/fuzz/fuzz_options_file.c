/* Any bytes as a configuration file: refused with a sentence that names the line, or read into
 * values that are written and read again as the same. */
#include <stdlib.h>
#include <string.h>

#include "common/base/options.h"
#include "tests/fuzz/fuzz_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct config {
  struct options_given given;
  bool flag;
  int64_t whole, bounded;
  double number, perhaps;
  char *text, *choice;
};

#define AT(member) offsetof(struct config, member)
static const struct option rows[] = {
    {"flag", NULL, OPTION_BOOL, AT(flag), "false", 0, 0, NULL, "first", "a flag"},
    {"whole", "w", OPTION_INT, AT(whole), "1", 0, 0, NULL, "first", "any whole number"},
    {"bounded", NULL, OPTION_INT, AT(bounded), "5", 1, 9, NULL, "second", "a small one"},
    {"number", NULL, OPTION_FLOAT, AT(number), "0.5", 0, 0, NULL, "second", "any number"},
    {"perhaps", NULL, OPTION_FLOAT, AT(perhaps), "none", 0, 1, NULL, "second", "one or none"},
    {"text", NULL, OPTION_STRING, AT(text), "", 0, 0, NULL, "second", "any text"},
    {"choice", NULL, OPTION_CHOICE, AT(choice), "a", 0, 0, "a|b|c", "second", "one of three"},
};
static const struct option_table table = {
    .program = "fuzz", .about = "", .options = rows, .count = sizeof(rows) / sizeof(rows[0])};

static void differs(void *context, const struct option *option, const char *a, const char *b) {
  (void)context;
  check_give_up("--%s: '%s' became '%s'", option->name, a, b);
}

static void check_again(const struct config *config) {
  char *text;
  size_t bytes;
  FILE *out = open_memstream(&text, &bytes);
  options_write(&table, config, NULL, 0, out);
  fclose(out);
  struct config again;
  struct error error = {""};
  options_init(&table, &again);
  enum status status =
      options_read_file(&table, &again, fuzz_file((const uint8_t *)text, bytes), &error);
  CHECK(status == STATUS_OK, "%s", error.text);
  options_compare(&table, config, &again, differs, NULL);
  options_deinit(&table, &again);
  free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct config config;
  struct error error = {""};
  options_init(&table, &config);
  if (options_read_file(&table, &config, fuzz_file(data, size), &error) == STATUS_OK) {
    CHECK(config.bounded >= 1 && config.bounded <= 9, "%lld", (long long)config.bounded);
    CHECK(!memchr(data, 0, size), "a file with a byte 0 is no text");
    check_again(&config);
  } else {
    CHECK(strstr(error.text, ", line "), "the sentence is '%s'", error.text);
  }
  options_deinit(&table, &config);
  return 0;
}
