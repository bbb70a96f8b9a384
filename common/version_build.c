/* The version of the programs, in an object of its own: see version.h. */
#include "common/base/version.h"

#include "acorn_version.h"

const char version_number[] = ACORN_VERSION;
const char version_commit[] = ACORN_COMMIT;
