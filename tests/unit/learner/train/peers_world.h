/* Learners as processes of a test: each runs the same function with its rank, and leaves numbers
 * for the test. They meet by a file that they share, or by ports of this machine. */
#ifndef ACORN_TESTS_UNIT_LEARNER_TRAIN_PEERS_WORLD_H
#define ACORN_TESTS_UNIT_LEARNER_TRAIN_PEERS_WORLD_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

#include "common/base/token.h"
#include "learner/train/peers.h"
#include "tests/unit/support/temporary_folder.h"

enum { WORLD_MOST = 4, WORLD_NUMBERS = 1 << 13 };

struct peers_world {
  char path[TEMPORARY_PATH_BYTES];
  int learners, timeout_ms;
  char *at[WORLD_MOST]; /* NULL: by the file */
  struct tokens tokens[WORLD_MOST];
  const char *about[WORLD_MOST]; /* NULL: the same */
  pid_t process[WORLD_MOST];
  /* Shared with the learners. */
  struct peers_result {
    enum status status;
    char error[1024];
    double number[WORLD_NUMBERS];
  } * result; /* (learners) */
  void *context;
};

typedef void (*peers_learner)(struct peers_world *w, struct peers *peers, int rank);

/* How worlds are made from here on. */
static bool peers_world_by_net;

/* A port that is free now, of an address of this machine that each learner has for itself. */
static inline char *peers_world_address(int rank) {
  static char text[WORLD_MOST][32];
  struct sockaddr_in place = {.sin_family = AF_INET,
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK + (uint32_t)rank)};
  socklen_t bytes = sizeof(place);
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (bind(fd, (struct sockaddr *)&place, bytes) != 0 ||
      getsockname(fd, (struct sockaddr *)&place, &bytes) != 0)
    abort();
  close(fd);
  snprintf(text[rank], sizeof(text[rank]), "127.0.0.%d:%d", rank + 1, ntohs(place.sin_port));
  return text[rank];
}

static inline struct peers_world peers_world_create(int learners) {
  static int count;
  struct peers_world w = {.learners = learners, .timeout_ms = 20000};
  snprintf(w.path, sizeof(w.path), "%s/peers-%d-%d", temporary_folder(), (int)getpid(), count++);
  for (int r = 0; r < learners; r++) w.at[r] = peers_world_by_net ? peers_world_address(r) : NULL;
  w.result = mmap(NULL, WORLD_MOST * sizeof(*w.result), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
/* A thread's stack may have been there, which ASan still marks as one. */
#ifdef __SANITIZE_ADDRESS__
  ASAN_UNPOISON_MEMORY_REGION(w.result, WORLD_MOST * sizeof(*w.result));
#endif
  return w;
}

static inline void peers_world_destroy(struct peers_world *w) {
  munmap(w->result, WORLD_MOST * sizeof(*w->result));
  unlink(w->path);
}

/* A learner's process: its life. It ends without the test program's own end. */
static inline void peers_world_run(struct peers_world *w, int rank, peers_learner learner) {
  struct error error = {""};
  struct peers *peers;
  const struct peers_config config = {.path = w->path,
                                      .at = w->at[0] ? w->at : NULL,
                                      .tokens = &w->tokens[rank],
                                      .rank = rank,
                                      .learners = w->learners,
                                      .timeout_ms = w->timeout_ms,
                                      .about = w->about[rank] ? w->about[rank] : "same\n"};
  w->result[rank].status = peers_open(&peers, &config, &error);
  if (w->result[rank].status == STATUS_OK) {
    learner(w, peers, rank);
    w->result[rank].status = peers_status(peers, &error);
    peers_close(peers);
  }
  memcpy(w->result[rank].error, error.text, sizeof(error.text));
  _exit(0);
}

static inline void peers_world_start(struct peers_world *w, int rank, peers_learner learner) {
  fflush(NULL);
  w->process[rank] = fork();
  if (w->process[rank] == 0) peers_world_run(w, rank, learner);
}

static inline void peers_world_wait(struct peers_world *w) {
  for (int r = 0; r < w->learners; r++) {
    if (w->process[r] > 0) waitpid(w->process[r], NULL, 0);
    w->process[r] = 0;
  }
}

/* All of them, to their ends. */
static inline void peers_world_run_all(struct peers_world *w, peers_learner learner) {
  for (int r = 0; r < w->learners; r++) peers_world_start(w, r, learner);
  peers_world_wait(w);
}

#endif
