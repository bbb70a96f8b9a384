"""How a policy of gym:ALE/Pong-v5 (sticky actions) wins and loses its points: greedy games by an
exported policy, their mean return, and how many strokes of its own each point took.

Usage, with what scripts/setup_python.sh onnx and onnx_games install:
  scripts/export.sh RUN --output=policy.onnx
  build/onnx/bin/python tests/bench/pong_strokes.py policy.onnx [GAMES] (default 12)
"""
import collections
import statistics
import sys

import ale_py
import gymnasium
import numpy as np

import exported

BALL_X = 49  # in the console's memory; 0: there is no ball
JUMP = 60  # no flight: it has left the field


def make():
    gymnasium.register_envs(ale_py)
    env = gymnasium.make("ALE/Pong-v5", frameskip=1, repeat_action_probability=0.25)
    return gymnasium.wrappers.AtariPreprocessing(env, noop_max=30, frame_skip=4, screen_size=84)


class Ball:
    """Strokes of the player on the right: the ball flew to the right, and no longer does."""

    def __init__(self):
        self.x, self.to_the_right, self.strokes = 0, False, 0

    def move(self, x):
        moved = x and self.x and x != self.x
        if moved and abs(x - self.x) < JUMP:
            self.strokes += self.to_the_right and x < self.x
            self.to_the_right = x > self.x
        self.x = x


def play(player, env, points, seed):
    (observation, _), reward, total, done, first = env.reset(seed=seed), 0, 0, False, True
    ball = Ball()
    player.begin()
    while not done:
        action = player.act(np.asarray(observation), reward, first)
        observation, reward, terminated, truncated, _ = env.step(action)
        ball.move(int(env.unwrapped.ale.getRAM()[BALL_X]))
        if reward:
            points[reward > 0, min(ball.strokes, 3)] += 1
            ball = Ball()
        total, done, first = total + reward, terminated or truncated, False
    return float(total)


def main():
    player, env, points = exported.Player(sys.argv[1]), make(), collections.Counter()
    games = int(sys.argv[2]) if len(sys.argv) > 2 else 12
    returns = [play(player, env, points, seed) for seed in range(games)]
    print(f"games={games} return_mean={statistics.fmean(returns):.6g}")
    for won in (True, False):
        counts = " ".join(f"{'3+' if n == 3 else n}:{points[won, n]}" for n in range(4))
        print(f"points {'won' if won else 'lost'}, by strokes: {counts}")


if __name__ == "__main__":
    main()
