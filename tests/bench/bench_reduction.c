/* What a reduction between learners costs: peers_mean of P floats by two processes, over a copy of
 * the array by each of them, in turns on the same cores; by memory, and by connections of this
 * machine, whose cost between hosts has the network's in place of the kernel's copies. By MPI
 * instead: ACORN_MPI_PLUGIN=build/libacorn_mpi.so mpiexec -n 2 build/tests/bench/bench_reduction.
 * On a machine with other load the median has the waits for a core in it.
 * Usage: bench_reduction [P [ROUNDS]] */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/cluster/mpi_world.h"
#include "learner/train/peers.h"

enum { LEARNERS = 2 };

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *number, int count) {
  qsort(number, (size_t)count, sizeof(*number), compare);
  return number[count / 2];
}

static void wait_for_others(struct peers *peers) {
  double all[LEARNERS], mine = 0;
  struct error error;
  CHECK(peers_exchange(peers, all, &mine, 1, &error) == STATUS_OK, "%s", error.text);
}

static void print_row(const char *name, double reduction, double copy) {
  printf("%-8s %6.0f %6.0f %6.2f\n", name, reduction, copy, reduction / copy);
}

/* path, at: both NULL: by MPI. */
static void measure(const char *path, char **at, int rank, size_t P, int rounds) {
  struct error error;
  struct peers *peers;
  const struct peers_config config = {.path = path,
                                      .at = at,
                                      .by_mpi = !path,
                                      .rank = rank,
                                      .learners = LEARNERS,
                                      .timeout_ms = 60000,
                                      .about = ""};
  CHECK(peers_open(&peers, &config, &error) == STATUS_OK, "%s", error.text);
  float *x = check_alloc(P, sizeof(*x)), *y = check_alloc(P, sizeof(*y));
  double *reduction = check_alloc((size_t)rounds, sizeof(*reduction));
  double *copy = check_alloc((size_t)rounds, sizeof(*copy));
  int64_t reduction_cpu_us = 0, copy_cpu_us = 0;
  for (size_t i = 0; i < P; i++) x[i] = (float)i / (float)P;
  for (int k = 0; k < rounds; k++) {
    wait_for_others(peers);
    int64_t cpu_us = clock_process_cpu_us(), start_us = clock_now_us();
    peers_mean(peers, x, P, 0, sizeof(*x), 1);
    reduction[k] = (double)(clock_now_us() - start_us);
    reduction_cpu_us += clock_process_cpu_us() - cpu_us;
    wait_for_others(peers);
    cpu_us = clock_process_cpu_us(), start_us = clock_now_us();
    memcpy(y, x, P * sizeof(*x));
    __asm__ volatile("" ::"r"(y) : "memory");
    copy[k] = (double)(clock_now_us() - start_us);
    copy_cpu_us += clock_process_cpu_us() - cpu_us;
  }
  double of_reduction = median(reduction, rounds), of_copy = median(copy, rounds);
  if (rank == 0) {
    printf(
        "%zu floats between %d learners by %s; us of a reduction, of a copy by each, their ratio\n",
        P, LEARNERS,
        at     ? "TCP on this machine"
        : path ? "memory"
               : "MPI");
    print_row("median", of_reduction, of_copy);
    print_row("fastest", reduction[0], copy[0]);
    print_row("CPU", (double)reduction_cpu_us / rounds, (double)copy_cpu_us / rounds);
  }
  peers_close(peers);
}

static void measure_both(const char *path, char **at, size_t P, int rounds) {
  fflush(stdout);
  pid_t other = fork();
  measure(path, at, other == 0, P, rounds);
  fflush(stdout);
  if (other == 0) _exit(0);
  waitpid(other, NULL, 0);
}

/* A port that is free now. */
static void find_port(char *address, size_t bytes) {
  struct sockaddr_in place = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof(place);
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  CHECK(bind(fd, (struct sockaddr *)&place, size) == 0 &&
            getsockname(fd, (struct sockaddr *)&place, &size) == 0,
        "there is no free port");
  close(fd);
  snprintf(address, bytes, "127.0.0.1:%d", ntohs(place.sin_port));
}

int main(int argc, char **argv) {
  size_t P = argc > 1 ? strtoul(argv[1], NULL, 10) : 1600000;
  int rounds = argc > 2 ? atoi(argv[2]) : 200;
  int rank, size;
  if (mpi_world_find(&rank, &size)) {
    CHECK(size == LEARNERS, "mpiexec -n %d, not %d", LEARNERS, size);
    measure(NULL, NULL, rank, P, rounds);
    return 0;
  }
  int file = memfd_create("peers", 0);
  char path[64], address[LEARNERS][64], *at[LEARNERS];
  snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getpid(), file);
  for (int r = 0; r < LEARNERS; r++) {
    find_port(address[r], sizeof(address[r]));
    at[r] = address[r];
  }
  measure_both(path, NULL, P, rounds);
  measure_both(path, at, P, rounds);
  return 0;
}
