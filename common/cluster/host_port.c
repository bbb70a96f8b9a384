#include "common/cluster/host_port.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

enum { HOST_MAX = 253, SHOWN = 80 };

#define LETTERS_AND_DIGITS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

const char *host_port_path(const char *address) {
  static const char prefix[] = "unix:";
  return strncmp(address, prefix, strlen(prefix)) == 0 ? address + strlen(prefix) : NULL;
}

bool host_port_is_port(const char *text, int least) {
  size_t length = strspn(text, "0123456789");
  if (length == 0 || length > 5 || text[length] || (text[0] == '0' && length > 1)) return false;
  int port = atoi(text);
  return port >= least && port <= 65535;
}

// A name or IPv4 address of `length` characters.
static bool is_name(const char *host, size_t length) {
  return length > 0 && strspn(host, LETTERS_AND_DIGITS ".-_") == length;
}

// "[fe80::1%eth0]"
static bool is_bracketed(const char *host, size_t length) {
  if (length < 4 || host[0] != '[' || host[length - 1] != ']') return false;
  return strspn(host + 1, LETTERS_AND_DIGITS ".:%-_") == length - 2 && memchr(host, ':', length);
}

enum status host_port_check(const char *text, struct error *error) {
  const char *colon = strrchr(text, ':');
  if (!colon || strchr(colon, ']')) {
    return status_fail(error, STATUS_INVALID, "address '%.*s' has no port; write host:port", SHOWN,
                       text);
  }
  size_t host_length = (size_t)(colon - text);
  if (!host_port_is_port(colon + 1, 1)) {
    return status_fail(error, STATUS_INVALID, "address '%.*s': its port is not in 1..65535", SHOWN,
                       text);
  }
  if (host_length == 0) {
    return status_fail(error, STATUS_INVALID, "address '%.*s' has no host before its port", SHOWN,
                       text);
  }
  if (host_length > HOST_MAX) {
    return status_fail(error, STATUS_INVALID,
                       "address '%.*s...': its host is longer than %d characters", SHOWN, text,
                       HOST_MAX);
  }
  if (memchr(text, ':', host_length) && text[0] != '[') {
    return status_fail(error, STATUS_INVALID,
                       "address '%.*s': put an IPv6 host in brackets, [host]:port", SHOWN, text);
  }
  if (!is_name(text, host_length) && !is_bracketed(text, host_length)) {
    return status_fail(error, STATUS_INVALID,
                       "address '%.*s': its host has a character that no host name has", SHOWN,
                       text);
  }
  return STATUS_OK;
}

void host_port_bind_all(char *text, size_t bytes, const char *address) {
  const char *everywhere = address[0] == '[' ? "[::]" : "0.0.0.0";
  snprintf(text, bytes, "%s%s", everywhere, strrchr(address, ':'));
}

const char *host_port_node(const char *host) {
  return !host[0] || strcasecmp(host, "localhost") == 0 ? NULL : host;
}

bool host_port_split(char host[HOST_PORT_HOST_BYTES], const char **port, const char *address) {
  const char *end = strrchr(address, ':');
  if (!end) return false;
  *port = end + 1;
  bool bracketed = address[0] == '[' && end - address >= 2 && end[-1] == ']';
  if (bracketed) address++, end--;
  size_t length = (size_t)(end - address);
  if (length >= HOST_PORT_HOST_BYTES || (!bracketed && memchr(address, ':', length))) return false;
  memcpy(host, address, length);
  host[length] = '\0';
  return true;
}

int host_port_find(struct addrinfo **list, const char *address) {
  char host[HOST_PORT_HOST_BYTES];
  const char *port;
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
  if (!host_port_split(host, &port, address)) return EAI_NONAME;
  return getaddrinfo(host_port_node(host), port, &hints, list);
}
