#include "common/cluster/learner_address.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cluster/host_port.h"

void learner_address(char out[PATH_MAX], const char *address, int rank) {
  const char *colon = strrchr(address, ':');
  if (rank == 0 || !colon)
    snprintf(out, PATH_MAX, "%s", address);
  else if (host_port_path(address))
    snprintf(out, PATH_MAX, "%s-%d", address, rank);
  else
    snprintf(out, PATH_MAX, "%.*s:%d", (int)(colon - address), address, atoi(colon + 1) + rank);
}
