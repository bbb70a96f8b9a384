#include "learner/report/video.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/files.h"
#include "common/base/log.h"

extern char **environ;

/* $0: watch, $1: the run folder, $2: the video, $3: the GIF. Longer episodes are shown in part. A
 * palette for each of the GIF's pictures: one for all would keep them all in memory. */
static const char script[] =
    "command -v ffmpeg >/dev/null || exit 9\n"
    "small='fps=5,scale=400:-2:flags=area,trim=end=20,split[a][b]'\n"
    "small=$small';[a]palettegen=stats_mode=single[p];[b][p]paletteuse=new=1'\n"
    "nice -n 10 \"$0\" \"$1\" --checkpoint=latest --episodes=1 --max_steps=3000 --hold=30 |\n"
    "  nice -n 10 ffmpeg -nostdin -v error -y -f image2pipe -framerate 30 -c:v ppm -i - \\\n"
    "    -filter_complex \"[0:v]split[v][g];[g]$small[gif]\" \\\n"
    "    -map '[v]' -c:v libx264 -preset fast -crf 23 -pix_fmt yuv420p -movflags +faststart \\\n"
    "    \"$2.new.mp4\" -map '[gif]' \"$3\" &&\n"
    "  mv \"$2.new.mp4\" \"$2\"\n";
enum { EXIT_NO_FFMPEG = 9 };

/* The program beside this one. */
static bool find_watch(char path[PATH_MAX]) {
  files_program(path);
  if (!path[0]) return false;
  char *name = strrchr(path, '/') + 1;
  if (name + sizeof("watch") > path + PATH_MAX) return false;
  memcpy(name, "watch", sizeof("watch"));
  return access(path, X_OK) == 0;
}

/* A process group of its own, without files of ours, with signals as they are by default. Returns
 * an error's number. */
static int start(pid_t *pid, char *const words[]) {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  for (int fd = 1; fd <= 2; fd++)
    posix_spawn_file_actions_addopen(&files, fd, "/dev/null", O_WRONLY, 0);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  int failed = posix_spawn(pid, "/bin/sh", &files, &attributes, words, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return failed;
}

/* A full disk may have room again. */
static void failed(struct video *video, const char *reason) {
  if (video->failures++ == 0)
    log_warn(
        "--video_every: %s; training goes on without videos, and tries again, each time after "
        "twice as long",
        reason);
}

static bool is_due(const struct video *video, double every_s, int64_t now_us) {
  enum { MOST_DOUBLINGS = 10 };
  int doublings = video->failures < MOST_DOUBLINGS ? video->failures : MOST_DOUBLINGS;
  double since_us = (double)(now_us - video->taken_us);
  return video->taken_us == 0 || since_us >= every_s * 1e6 * (1 << doublings);
}

void video_take(struct video *video, const char *folder, double every_s, int64_t step,
                int64_t now_us) {
  if (every_s <= 0 || video->pid || !is_due(video, every_s, now_us)) return;
  video->taken_us = now_us;
  video->step = step;
  char watch[PATH_MAX], videos[PATH_MAX + 16];
  if (!find_watch(watch)) {
    failed(video, "there is no program watch beside the learner (make)");
    return;
  }
  snprintf(videos, sizeof(videos), "%s/videos", folder);
  snprintf(video->path, sizeof(video->path), "%s/step-%012" PRId64 ".mp4", videos, step);
  snprintf(video->gif, sizeof(video->gif), "%s/newest.gif", videos);
  if (mkdir(videos, 0777) != 0 && errno != EEXIST) {
    failed(video, strerror(errno));
    return;
  }
  char *const words[] = {"sh",           "-c",        (char *)script, watch,
                         (char *)folder, video->path, video->gif,     NULL};
  int reason = start(&video->pid, words);
  if (reason) {
    video->pid = 0;
    failed(video, strerror(reason));
  }
}

static void remove_half(const struct video *video) {
  char half[sizeof(video->path) + 16];
  snprintf(half, sizeof(half), "%s.new.mp4", video->path);
  unlink(half);
  unlink(video->gif);
}

bool video_tick(struct video *video) {
  int status;
  if (!video->pid || waitpid(video->pid, &status, WNOHANG) != video->pid) return false;
  video->pid = 0;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
    log_info("recorded: %s", video->path);
    video->failures = 0;
    return true;
  }
  remove_half(video);
  failed(video, WIFEXITED(status) && WEXITSTATUS(status) == EXIT_NO_FFMPEG
                    ? "ffmpeg is missing, which makes the video (scripts/setup.sh watch)"
                    : "nothing could be recorded: scripts/watch.sh says why");
  return false;
}

void video_close(struct video *video) {
  if (!video->pid) return;
  kill(-video->pid, SIGKILL);
  waitpid(video->pid, NULL, 0);
  video->pid = 0;
  remove_half(video);
}
