#include "learner/experience/step_shape.h"

#include "common/base/space.h"

const void *step_shape_no_action(const struct step_shape *shape) {
  static const int32_t none = -1;
  static const float zeros[SPACE_MAX_BOX];
  return shape->box ? (const void *)zeros : &none;
}
