#include "learner/serve/waiting.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"

void waiting_init(struct waiting *waiting, int room) {
  *waiting = (struct waiting){.join = check_alloc((size_t)room, sizeof(*waiting->join))};
}

void waiting_deinit(struct waiting *waiting) {
  free(waiting->join);
}

int waiting_environments(const struct waiting *waiting, enum wire_role role, const char *without) {
  int environments = 0;
  for (int i = 0; i < waiting->count; i++) {
    const struct wire_join_request *request = &waiting->join[i].request;
    bool counts = request->role == role && !(without && strcmp(request->name, without) == 0);
    if (counts) environments += request->num_environments;
  }
  return environments;
}

struct rpc_stream *waiting_keep(struct waiting *waiting, const struct wire_join_request *request,
                                struct rpc_stream *stream) {
  int place = 0;
  while (place < waiting->count && strcmp(waiting->join[place].request.name, request->name) != 0)
    place++;
  struct rpc_stream *replaced = place < waiting->count ? waiting->join[place].stream : NULL;
  if (!replaced) waiting->count++;
  waiting->join[place] = (struct waiting_join){*request, stream};
  return replaced;
}

bool waiting_forget(struct waiting *waiting, const struct rpc_stream *stream) {
  for (int i = 0; i < waiting->count; i++) {
    if (waiting->join[i].stream != stream) continue;
    waiting->join[i] = waiting->join[--waiting->count];
    return true;
  }
  return false;
}

static int compare(const void *a, const void *b) {
  const struct waiting_join *x = a, *y = b;
  return strverscmp(x->request.name, y->request.name);
}

void waiting_sort(struct waiting *waiting) {
  qsort(waiting->join, (size_t)waiting->count, sizeof(*waiting->join), compare);
}

bool waiting_next(struct waiting *waiting, struct wire_join_request *request,
                  struct rpc_stream **stream) {
  if (waiting->next == waiting->count) return false;
  const struct waiting_join *join = &waiting->join[waiting->next++];
  *request = join->request;
  *stream = join->stream;
  return true;
}
