/* A slow and lossy network between two network namespaces, for kernels without netem: each gets a
 * TUN device link0, and an IP packet sent there arrives at the other after the delay, or is lost.
 *
 *   bench_link NAMESPACE NAMESPACE [--delay_ms=5] [--loss=0]
 *
 * --loss: of 100 packets. Prints "ready" and runs until it is killed. Needs root. Usage:
 * tests/bench/scale.sh */
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/clock.h"

enum { MAX_BYTES = 2048, MAX_PACKETS = 1 << 14 };

struct packet {
  int64_t due_us;
  ssize_t bytes;
  uint8_t data[MAX_BYTES];
};

/* One direction: packets leave in the order in which they came. */
struct way {
  int from, to;
  unsigned first, end; /* of those under way, modulo MAX_PACKETS */
  struct packet *packets;
};

static int open_tun(const char *name) {
  char path[256];
  snprintf(path, sizeof(path), "/run/netns/%s", name);
  int space = open(path, O_RDONLY | O_CLOEXEC);
  CHECK(space >= 0 && setns(space, CLONE_NEWNET) == 0, "no network namespace '%s'", name);
  close(space);
  int tun = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI};
  strcpy(request.ifr_name, "link0");
  CHECK(tun >= 0 && ioctl(tun, TUNSETIFF, &request) == 0, "no TUN device in '%s'", name);
  return tun;
}

static void take(struct way *way, int64_t delay_us, double loss) {
  while (way->end - way->first < MAX_PACKETS) {
    struct packet *packet = &way->packets[way->end % MAX_PACKETS];
    packet->bytes = read(way->from, packet->data, MAX_BYTES);
    if (packet->bytes <= 0) return;
    packet->due_us = clock_now_us() + delay_us;
    way->end += drand48() * 100 >= loss;
  }
}

static void give(struct way *way, int64_t now_us) {
  for (; way->first != way->end; way->first++) {
    struct packet *packet = &way->packets[way->first % MAX_PACKETS];
    if (packet->due_us > now_us) return;
    if (write(way->to, packet->data, (size_t)packet->bytes) < 0) return; /* its queue is full */
  }
}

static void run(struct way ways[2], int64_t delay_us, double loss) {
  for (;;) {
    int64_t now_us = clock_now_us(), wait_us = 1000 * 1000;
    struct pollfd fds[2];
    for (int i = 0; i < 2; i++) {
      give(&ways[i], now_us);
      if (ways[i].first != ways[i].end) {
        int64_t due_us = ways[i].packets[ways[i].first % MAX_PACKETS].due_us - now_us;
        wait_us = due_us < 100 ? 100 : due_us < wait_us ? due_us : wait_us;
      }
      bool is_full = ways[i].end - ways[i].first == MAX_PACKETS;
      fds[i] = (struct pollfd){.fd = ways[i].from, .events = is_full ? 0 : POLLIN};
    }
    struct timespec limit = {wait_us / 1000000, wait_us % 1000000 * 1000};
    ppoll(fds, 2, &limit, NULL);
    for (int i = 0; i < 2; i++) take(&ways[i], delay_us, loss);
  }
}

int main(int argc, char **argv) {
  double delay_ms = 5, loss = 0;
  for (int i = 3; i < argc; i++)
    CHECK(sscanf(argv[i], "--delay_ms=%lf", &delay_ms) == 1 ||
              sscanf(argv[i], "--loss=%lf", &loss) == 1,
          "%s is no option", argv[i]);
  CHECK(argc >= 3, "bench_link NAMESPACE NAMESPACE [--delay_ms=5] [--loss=0]");
  int a = open_tun(argv[1]), b = open_tun(argv[2]);
  struct way ways[2] = {{.from = a, .to = b}, {.from = b, .to = a}};
  for (int i = 0; i < 2; i++) ways[i].packets = check_alloc(MAX_PACKETS, sizeof(struct packet));
  puts("ready");
  fflush(stdout);
  run(ways, (int64_t)(delay_ms * 1000), loss);
}
