/* The resolver of a bare machine, one without /etc/hosts: it does not know localhost. In place of
 * the C library's for the whole program that includes this file. */
#ifndef ACORN_TESTS_UNIT_SUPPORT_BARE_RESOLVER_H
#define ACORN_TESTS_UNIT_SUPPORT_BARE_RESOLVER_H

#include <dlfcn.h>
#include <netdb.h>
#include <stddef.h>
#include <string.h>

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                struct addrinfo **out) {
  int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
  *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
  return node && strcmp(node, "localhost") == 0 ? EAI_NONAME : real(node, service, hints, out);
}

#endif
