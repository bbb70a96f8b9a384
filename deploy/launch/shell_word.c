#include "deploy/launch/shell_word.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

static bool is_plain(const char *word) {
  for (const char *c = word; *c; c++)
    if (!isalnum((unsigned char)*c) && !strchr("_-+=:,./@%", *c)) return false;
  return *word;
}

void shell_word_print(FILE *out, const char *word) {
  if (is_plain(word)) {
    fputs(word, out);
    return;
  }
  fputc('\'', out);
  for (const char *c = word; *c; c++) fputs(*c == '\'' ? "'\\''" : (char[]){*c, '\0'}, out);
  fputc('\'', out);
}
