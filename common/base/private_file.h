/* Reads a file that only its owner may read: a secret, a private key.
 * Upstream: token.c, common/rpc/credentials.c. Thread: any. */
#ifndef ACORN_COMMON_BASE_PRIVATE_FILE_H
#define ACORN_COMMON_BASE_PRIVATE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "common/base/status.h"

/* Reads the whole file into `text` and terminates it; *info is what the file was then. `option`
 * ("--token_file") begins the error message. Owner: the caller frees *text, also where *bytes is 0.
 * Errors: INVALID: it cannot be read, is not a regular file, is larger than max_bytes, or others
 * may read it (the group may if root owns it, as Kubernetes mounts secrets). */
MUST_CHECK enum status private_file_read(char **text, size_t *bytes, struct stat *info,
                                         const char *option, const char *path, size_t max_bytes,
                                         struct error *error);

/* The same for a file that others may read, like a certificate. */
MUST_CHECK enum status public_file_read(char **text, size_t *bytes, struct stat *info,
                                        const char *option, const char *path, size_t max_bytes,
                                        struct error *error);

/* Whether the file is another one, or has been written, since *seen, which becomes what it is now:
 * so a change is seen once. One that is not there is all zeros. */
bool file_has_changed(const char *path, struct stat *seen);

#endif
