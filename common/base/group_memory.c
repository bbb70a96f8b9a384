#include "common/base/group_memory.h"

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of the group that the first `length` letters of the path name. */
static double read_limit(const char *folder, const char *path, size_t length, const char *file) {
  char name[PATH_MAX], text[64] = "";
  snprintf(name, sizeof(name), "%s%.*s/%s", folder, (int)length, path, file);
  FILE *in = fopen(name, "re");
  if (!in) return INFINITY;
  bool is_read = fgets(text, sizeof(text), in);
  fclose(in);
  char *end = text;
  double bytes = is_read ? strtod(text, &end) : 0;
  return end > text ? bytes : INFINITY; /* "max" */
}

/* The limits of all groups above hold, too. In a container the path may be the host's: then the
 * root is the container's. */
static double least_limit(const char *folder, const char *path, const char *file) {
  size_t length = strlen(path);
  double least = read_limit(folder, path, length, file);
  while (length > 0)
    if (path[--length] == '/') least = fmin(least, read_limit(folder, path, length, file));
  return least;
}

/* A line is NUMBER:CONTROLLERS:PATH; version 2 has one, without controllers. */
static double limit_of_line(const char *root, char *line) {
  char folder[PATH_MAX];
  line[strcspn(line, "\n")] = '\0';
  char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL;
  if (!path) return INFINITY;
  *path++ = '\0';
  if (!controllers[1]) return least_limit(root, path, "memory.max");
  snprintf(folder, sizeof(folder), "%s/memory", root);
  bool is_of_memory = strstr(controllers, "memory");
  return is_of_memory ? least_limit(folder, path, "memory.limit_in_bytes") : INFINITY;
}

double group_memory(const char *root, const char *groups) {
  char *line = NULL;
  size_t room = 0;
  double least = INFINITY;
  FILE *in = fopen(groups, "re");
  while (in && getline(&line, &room, in) > 0) least = fmin(least, limit_of_line(root, line));
  free(line);
  if (in) fclose(in);
  return least;
}
