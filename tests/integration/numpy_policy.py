"""Plays with policy.py, the block of Python in docs/usage.md, and compares the return of each episode
with that of build/watch, whose first seed is 7.

Usage: numpy_policy.py cartpole|tmaze RETURN... Exit code 0: they are the same.
"""
import sys

import numpy as np
from make import TMaze, cartpole_advance, cartpole_fallen  # of tests/golden/envs
from policy import act


class CartPole:
    def __init__(self, seed):
        self.state = tuple(np.random.default_rng(seed).uniform(-0.05, 0.05, 4).tolist())
        self.steps = 0

    def look(self):
        return np.array(self.state, np.float32)

    def step(self, action):
        self.state = cartpole_advance(self.state, action)
        self.steps += 1
        return 1, cartpole_fallen(self.state) or self.steps == 500


class Maze(TMaze):
    def __init__(self, seed):
        super().__init__(10, seed)
        self.reset()

    def look(self):
        return np.array([int(sign) for sign in self.signs()], np.float32)


def play(world):
    total, reward, over = 0, None, False
    while not over:
        reward, over = world.step(act(world.look(), reward=reward))
        total += reward
    return total


world = {"cartpole": CartPole, "tmaze": Maze}[sys.argv[1]]
theirs = [float(word) for word in sys.argv[2:]]
ours = [play(world(7 + i)) for i in range(len(theirs))]
same = sum(a == b for a, b in zip(ours, theirs))
print("numpy", ours, "build/watch", theirs)
# Where two actions are nearly equal, another precision may choose the other one.
sys.exit(len(theirs) < 10 or same < len(theirs) - 1)
