// Names of options: looking them up, and guessing which one was meant.
#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "common/base/options.h"

enum { WORD_MAX = 64, NOT_NEAR = 1000 };

// Spelling does not tell - from _ or A from a, as far as a guess goes.
static char fold(char c) {
  return c == '-' ? '_' : (char)tolower((unsigned char)c);
}

static int min_int(int a, int b) {
  return a < b ? a : b;
}

// Edits from a to b: insert, delete, replace, or swap two neighbours (Damerau and Levenshtein, each
// place edited once).
static int edit_distance(const char *a, int a_length, const char *b, int b_length) {
  int rows[3][WORD_MAX + 1];
  int *before = rows[0], *above = rows[1], *row = rows[2];
  for (int j = 0; j <= b_length; j++) row[j] = j;
  for (int i = 1; i <= a_length; i++) {
    int *oldest = before;
    before = above;
    above = row;
    row = oldest;
    row[0] = i;
    for (int j = 1; j <= b_length; j++) {
      bool same = fold(a[i - 1]) == fold(b[j - 1]);
      row[j] = min_int(above[j - 1] + !same, min_int(above[j], row[j - 1]) + 1);
      bool swapped =
          i > 1 && j > 1 && fold(a[i - 1]) == fold(b[j - 2]) && fold(a[i - 2]) == fold(b[j - 1]);
      if (swapped) row[j] = min_int(row[j], before[j - 2] + 1);
    }
  }
  return row[b_length];
}

static bool is_prefix(const char *prefix, const char *word) {
  while (*prefix && fold(*prefix) == fold(*word)) prefix++, word++;
  return *prefix == '\0';
}

// How far `typed` is from `word`, or NOT_NEAR. One edit is a slip at any length, each four
// characters more allow another; a beginning ("total" of "total_steps") is as good as two edits.
static int distance(const char *typed, const char *word) {
  size_t typed_length = strlen(typed), word_length = strlen(word);
  if (typed_length > WORD_MAX || word_length > WORD_MAX || typed_length == 0) return NOT_NEAR;
  int edits = edit_distance(typed, (int)typed_length, word, (int)word_length);
  int allowed = 1 + (int)typed_length / 4;
  // "a" is one edit from every word of one letter: half of the word has to be right.
  if (edits <= allowed && edits * 2 <= (int)word_length) return edits;
  return typed_length >= 3 && is_prefix(typed, word) ? 2 : NOT_NEAR;
}

static void keep_nearer(const char **best, int *best_distance, const char *typed,
                        const char *word) {
  int d = word ? distance(typed, word) : NOT_NEAR;
  if (d >= *best_distance) return;
  *best = word;
  *best_distance = d;
}

// What others call options and values of ours, and what is spelt alike is not meant.
static const char *synonym(const char *word) {
  static const char *const synonyms[][2] = {
      {"gamma", "discount"},        {"ent_coef", "entropy_cost"},
      {"gae_lambda", "lambda"},     {"lr", "learning_rate"},
      {"steps", "total_steps"},     {"timesteps", "total_steps"},
      {"vf_coef", "baseline_cost"}, {"total_timesteps", "total_steps"},
      {"n_epochs", "epochs"},       {"gpu", "cuda"},
  };
  for (size_t i = 0; i < sizeof synonyms / sizeof *synonyms; i++)
    if (strcmp(word, synonyms[i][0]) == 0) return synonyms[i][1];
  return NULL;
}

const char *options_nearest_word(const char *const *words, int count, const char *word) {
  const char *best = NULL, *other = synonym(word);
  int best_distance = NOT_NEAR;
  for (int i = 0; i < count; i++) {
    if (other && words[i] && strcmp(words[i], other) == 0) return words[i];
    keep_nearer(&best, &best_distance, word, words[i]);
  }
  return best;
}

const char *options_nearest(const struct option_target *targets, int num_targets,
                            const char *name) {
  const char *best = NULL, *other = synonym(name);
  int best_distance = NOT_NEAR;
  for (int t = 0; t < num_targets; t++) {
    const struct option_table *table = targets[t].table;
    if (other && options_find(table, other)) return other;
    for (int i = 0; i < table->count; i++) {
      keep_nearer(&best, &best_distance, name, table->options[i].name);
      keep_nearer(&best, &best_distance, name, table->options[i].alias);
    }
  }
  keep_nearer(&best, &best_distance, name, "config");
  keep_nearer(&best, &best_distance, name, "help");
  return best;
}

// Equal up to kebab-case: total-steps is total_steps.
static bool is_same_name(const char *a, const char *b) {
  for (; *a && *b; a++, b++) {
    if ((*a == '-' ? '_' : *a) != (*b == '-' ? '_' : *b)) return false;
  }
  return *a == *b;
}

const struct option *options_find(const struct option_table *table, const char *name) {
  for (int i = 0; i < table->count; i++) {
    const struct option *option = &table->options[i];
    if (is_same_name(option->name, name) || (option->alias && is_same_name(option->alias, name)))
      return option;
  }
  return NULL;
}
