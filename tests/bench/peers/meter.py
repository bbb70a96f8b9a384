"""What the measurements of the peers share: their arguments, the clock, and the line that they print.

Each peer's script calls Meter.mark after every update, with the environment steps that were trained on
and the mean return of the last 100 training episodes, and ends when it returns True."""

import argparse
import os
import time

TARGET = 475


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["speed", "solve"])
    parser.add_argument("--environments", type=int, default=256, help="of speed; solve has the peer's own")
    parser.add_argument("--seconds", type=float, default=10, help="speed: measured so long; solve: at most")
    parser.add_argument("--steps", type=int, default=20_000_000, help="ends after so many steps")
    return parser.parse_args()


class Meter:
    def __init__(self, args):
        self.args = args
        # When the process was started, where the shell script tells: imports count.
        self.started = float(os.environ.get("STARTED", time.time()))
        self.marks = []  # (seconds, steps)
        self.solved = False

    def mark(self, steps, mean_return=None):
        """Records an update; returns whether the measurement is over."""
        now = time.time()
        if not self.marks or steps > self.marks[-1][1]:
            self.marks.append((now, steps))
        if steps >= self.args.steps:
            over = True
        elif self.args.what == "speed":
            # A rate takes two updates after the first, however slow they are.
            over = len(self.marks) > 2 and now - self.marks[0][0] >= self.warmup() + self.args.seconds
        else:
            over = now - self.started >= self.args.seconds
        if self.args.what == "solve" and mean_return is not None and mean_return >= TARGET:
            self.solved = over = True
        return over

    def warmup(self):
        return self.args.seconds / 4

    def report(self):
        if self.args.what == "solve":
            seconds, steps = self.marks[-1]
            print(f"solved={int(self.solved)} steps={steps} seconds={seconds - self.started:.1f}", flush=True)
            return
        first, last = self.marks[0], self.marks[-1]
        warm = [mark for mark in self.marks if mark[0] - first[0] >= self.warmup()]
        if warm and warm[0] != last:
            first = warm[0]
        rate = (last[1] - first[1]) / (last[0] - first[0]) if last[0] > first[0] else float("nan")
        print(f"steps_per_second={rate:.0f} measured_seconds={last[0] - first[0]:.1f}", flush=True)
