#include "learner/device/recorded.h"

void recorded_run(struct recorded *recorded, struct device *device, void (*give)(void *context),
                  void *context) {
  const struct device_ops *ops = device->ops;
  if (!recorded->has_run || !ops->record) {
    give(context);
    recorded->has_run = true;
    return;
  }
  if (!recorded->recording) {
    ops->record(device);
    give(context);
    recorded->recording = ops->recorded(device);
  }
  ops->play(device, recorded->recording);
}

void recorded_forget(struct recorded *recorded, struct device *device) {
  if (recorded->recording) device->ops->forget(device, recorded->recording);
  *recorded = (struct recorded){0};
}
