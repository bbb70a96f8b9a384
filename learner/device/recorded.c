#include "learner/device/recorded.h"

void recorded_run(struct recorded *recorded, struct device *device, void (*give)(void *context),
                  void *context) {
  const struct device_ops *ops = device->ops;
  bool records =
      recorded->has_run && ops->record && !recorded->failed && !device_adds_by_host(device);
  if (records && !recorded->recording) {
    if (ops->record(device)) {
      give(context);
      recorded->recording = ops->recorded(device);
    }
    recorded->failed = !recorded->recording;
  }
  if (recorded->recording)
    ops->play(device, recorded->recording);
  else
    give(context);
  recorded->has_run = true;
}

void recorded_forget(struct recorded *recorded, struct device *device) {
  if (recorded->recording) device->ops->forget(device, recorded->recording);
  *recorded = (struct recorded){0};
}
