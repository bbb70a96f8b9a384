/* What a launcher says to people while the learner's live line may stand on the terminal: it takes
 * that line's row. Upstream: supervisor*.c. Thread: any. */
#ifndef ACORN_DEPLOY_SAY_H
#define ACORN_DEPLOY_SAY_H

#include "common/base/log.h"

void say_clear_line(void);

#define say(...) (say_clear_line(), log_info(__VA_ARGS__))
#define say_error(...) (say_clear_line(), log_error(__VA_ARGS__))

#endif
