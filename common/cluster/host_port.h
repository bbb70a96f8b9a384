/* Addresses of a cluster: "host:port", where host is a name, an IPv4 address or an IPv6 address in
 * brackets.
 * Thread: any. */
#ifndef ACORN_COMMON_CLUSTER_HOST_PORT_H
#define ACORN_COMMON_CLUSTER_HOST_PORT_H

#include <stddef.h>

#include "common/base/status.h"

/* Whether `text` is an address.
 * Errors: INVALID: no port, a port outside 1..65535, no host, a host of more than 253 characters
 * or with a strange one. */
MUST_CHECK enum status host_port_check(const char *text, struct error *error);

/* Writes what a server binds to be reached at `address`, which is valid: its port on all
 * interfaces, "0.0.0.0:port" or "[::]:port". */
void host_port_bind_all(char *text, size_t bytes, const char *address);

#endif
