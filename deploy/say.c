#include "deploy/say.h"

#include <unistd.h>

void say_clear_line(void) {
  if (isatty(STDERR_FILENO) && write(STDERR_FILENO, "\r\033[K", 4) < 0) return;
}
