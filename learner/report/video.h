/* A video of an evaluation episode now and then, --video_every: RUN/videos/step-NNN.mp4.
 *
 * The program `watch` plays the checkpoint that has just been written, and ffmpeg records it: both
 * in a process group of their own, at low priority, so that neither the environment's pictures nor
 * a fault in it can disturb training. A video has its name when it is whole. Its first 20 seconds
 * are a small GIF, too, for TensorBoard. A recording that the
 * end of the run meets is ended. Upstream: report.c. Thread: main. */
#ifndef ACORN_LEARNER_REPORT_VIDEO_H
#define ACORN_LEARNER_REPORT_VIDEO_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct video {
  pid_t pid;        /* of the recording; 0: none */
  int failures;     /* since the last that was recorded */
  int64_t taken_us; /* when the last one began; 0: none did */
  int64_t step;     /* of the run, when it began */
  char path[PATH_MAX + 64], gif[PATH_MAX + 64];
};

/* Begins one of the folder's newest checkpoint if `every_s` > 0 seconds have passed since the last;
 * the first one at once. */
void video_take(struct video *video, const char *folder, double every_s, int64_t step,
                int64_t now_us);
/* Looks whether a recording has ended: true, and then there is a video, and a GIF for the caller to
 * remove. A recording that fails is logged, once in a row, and the next waits twice as long. */
bool video_tick(struct video *video);
void video_close(struct video *video);

#endif
