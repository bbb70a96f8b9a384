"""Episodes whose return is their seed - 1000; that of the seed `breaks` fails once."""
import os

import gymnasium as gym
import numpy as np


class Seeds(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (1,))
    action_space = gym.spaces.Discrete(2)

    def __init__(self, breaks=-1):
        self.breaks = breaks

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.seed = seed
        return np.zeros(1, np.float32), {}

    def step(self, action):
        if self.seed == self.breaks and not os.path.exists("broke"):
            open("broke", "w").close()
            raise RuntimeError("it breaks")
        return np.zeros(1, np.float32), float(self.seed - 1000), True, False, {}


gym.register("Seeds-v0", entry_point=Seeds)
