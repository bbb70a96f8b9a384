"""A corridor: the exit is on the left or on the right, and the first observation shows where."""

import gymnasium
import numpy


class Corridor(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,), numpy.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, length=5):
        self.length = length

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0
        self.exit = self.length * int(self.np_random.choice([-1, 1]))
        return self.look(), {}

    def step(self, action):
        self.place += 1 if action else -1
        at_exit = self.place == self.exit
        return self.look(), float(at_exit), abs(self.place) == self.length, False, {}

    def look(self):
        return numpy.array([self.exit, self.place], numpy.float32) / self.length


gymnasium.register("Corridor-v0", Corridor, max_episode_steps=100)
