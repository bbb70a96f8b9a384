/* Addresses: "host:port", where host is a name, an IPv4 address or an IPv6 address in
 * brackets; and "unix:PATH".
 * Thread: any. */
#ifndef ACORN_COMMON_CLUSTER_HOST_PORT_H
#define ACORN_COMMON_CLUSTER_HOST_PORT_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/status.h"

struct addrinfo;

/* The path of "unix:PATH", which may be empty; NULL: it is no such address. */
const char *host_port_path(const char *address);

/* Whether `text` is "host:port".
 * Errors: INVALID: no port, a port outside 1..65535, no host, a host of more than 253 characters
 * or with a strange one. */
MUST_CHECK enum status host_port_check(const char *text, struct error *error);

/* Whether `text` is a number from `least` to 65535 without zeros in front. */
bool host_port_is_port(const char *text, int least);

/* Splits at the last colon; the brackets of an IPv6 host are taken off. The host may be empty, and
 * the port anything. False: there is no colon, the host does not fit, or is an IPv6 one without
 * brackets. */
enum { HOST_PORT_HOST_BYTES = 256 };
bool host_port_split(char host[HOST_PORT_HOST_BYTES], const char **port, const char *address);

/* What getaddrinfo is asked for, without AI_PASSIVE: NULL, which is this machine's loopback, for
 * `localhost`, which a resolver may not know, and for no host; else the host.
 * Source: RFC 6761, section 6.3. */
const char *host_port_node(const char *host);

/* Asks getaddrinfo for the stream sockets of "host:port". Returns its error, EAI_NONAME for what
 * does not split. Blocks as long as the system's resolver does. Owner: the caller, of the list. */
int host_port_find(struct addrinfo **list, const char *address);

/* Writes what a server binds to be reached at `address`, which is valid: its port on all
 * interfaces, "0.0.0.0:port" or "[::]:port". */
void host_port_bind_all(char *text, size_t bytes, const char *address);

#endif
