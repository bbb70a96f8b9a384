#ifndef TDP
#define TDP
#include <stdint.h>
struct td_priority_config { int T, counted, n_steps; float discount, reward_scale, reward_clip, rescaling, eta; };
float td_priority(const struct td_priority_config *c, const float *value, const float *best, const float *reward, const uint8_t *flags);
#endif
