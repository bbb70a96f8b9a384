#include "envs/gymnasium/bridge.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "envs/bridge.h"
#include "envs/gymnasium/atari.h"
#include "envs/gymnasium/game.h"
#include "envs/gymnasium/interpreter.h"

/* The word in letters that a name may have; what is too long ends with a hash of the whole. */
static void name_word(char name[ACORN_NAME_BYTES], const char *word) {
  enum { HASH_CHARACTERS = 9, ROOM = ACORN_NAME_BYTES - 1 };
  size_t length = strlen(word), kept = length <= ROOM ? length : ROOM - HASH_CHARACTERS;
  for (size_t i = 0; i < kept; i++)
    name[i] = isalnum((unsigned char)word[i]) || strchr("_-.", word[i]) ? word[i] : '-';
  name[kept] = '\0';
  if (kept == length) return;
  uint32_t hash = 2166136261u; // FNV-1a
  for (const char *c = word; *c; c++) hash = (hash ^ (unsigned char)*c) * 16777619u;
  snprintf(name + kept, HASH_CHARACTERS + 1, "-%08x", hash);
}

const struct acorn_env *acorn_bridge_open(const char *word, char *error, size_t error_bytes) {
  if (interpreter_start(error, error_bytes)) return NULL;
  struct bridged *bridged = calloc(1, sizeof *bridged);
  if (bridged) bridged->word = strdup(word);
  if (!bridged || !bridged->word) {
    snprintf(error, error_bytes, "out of memory");
    free(bridged);
    return NULL;
  }
  name_word(bridged->name, word);
  bridged->env = strcmp(word, "atari") == 0 ? atari_functions : game_functions;
  bridged->env.name = bridged->name;
  return &bridged->env;
}
