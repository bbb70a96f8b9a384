"""A combination lock: at each of its places one of four actions goes on, which one is fixed; all
others go back to the start. The only reward is behind the last place, where acting at random comes
once in 4^length attempts."""

import gymnasium
import numpy


class Lock(gymnasium.Env):
    action_space = gymnasium.spaces.Discrete(4)

    def __init__(self, length=12):
        self.observation_space = gymnasium.spaces.Box(0, 1, (length + 1,), numpy.float32)
        self.combination = numpy.random.default_rng(1).integers(0, 4, length)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0
        return self.look(), {}

    def step(self, action):
        self.place = self.place + 1 if action == self.combination[self.place] else 0
        opened = self.place == len(self.combination)
        return self.look(), float(opened), opened, False, {}

    def look(self):
        return numpy.eye(self.observation_space.shape[0], dtype=numpy.float32)[self.place]


gymnasium.register("Lock-v0", Lock, max_episode_steps=50)
