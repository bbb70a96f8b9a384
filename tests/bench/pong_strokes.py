"""How a policy of gym:ALE/Pong-v5 (sticky actions) wins and loses its points: greedy games by an
exported policy, their mean return, and how many strokes of its own each point took.

Usage, with what scripts/setup_python.sh onnx and onnx_games install:
  scripts/export.sh RUN --output=policy.onnx
  build/onnx/bin/python tests/bench/pong_strokes.py policy.onnx [GAMES] (default 12)
"""
import collections
import statistics
import sys

import exported

BALL_X = 49  # in the console's memory; 0: there is no ball
JUMP = 60  # no flight: it has left the field


class Points:
    """By the strokes of the player on the right: the ball flew to the right, and no longer does."""

    def __init__(self, memory):
        self.memory, self.count = memory, collections.Counter()
        self.begin()

    def begin(self):
        self.x, self.to_the_right, self.strokes = 0, False, 0

    def look(self, reward):
        x = int(self.memory()[BALL_X])
        moved = x and self.x and x != self.x
        if moved and abs(x - self.x) < JUMP:
            self.strokes += self.to_the_right and x < self.x
            self.to_the_right = x > self.x
        self.x = x
        if reward:
            self.count[reward > 0, min(self.strokes, 3)] += 1
            self.begin()


def main():
    player, env = exported.Player(sys.argv[1]), exported.make("ALE/Pong-v5", sticky=0.25)
    games = int(sys.argv[2]) if len(sys.argv) > 2 else 12
    points = Points(env.unwrapped.ale.getRAM)
    returns = [exported.play(player, env, points.look, seed=seed) for seed in range(games)]
    print(f"games={games} return_mean={statistics.fmean(returns):.6g}")
    for won in (True, False):
        counts = " ".join(f"{'3+' if n == 3 else n}:{points.count[won, n]}" for n in range(4))
        print(f"points {'won' if won else 'lost'}, by strokes: {counts}")


if __name__ == "__main__":
    main()
