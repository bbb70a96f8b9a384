"""As much of deepmind_lab as the bridge uses, with its names and arguments; it plays nothing."""

import numpy as np


class Lab:
    """Its picture shows the seed, then 100 + the sum of the action; it ends after two steps."""

    def __init__(self, level, observations, config={}, renderer="software"):
        assert "/" in level and observations == ["RGB_INTERLEAVED"]
        self.shape = int(config["height"]), int(config["width"]), 3
        self.steps = None

    def reset(self, episode=-1, seed=None):
        self.shown, self.steps = seed, 0

    def is_running(self):
        return self.steps is not None and self.steps < 2

    def observations(self):
        if not self.is_running():
            raise RuntimeError("Environment in wrong status")
        return {"RGB_INTERLEAVED": np.full(self.shape, self.shown, np.uint8)}

    def step(self, action, num_steps=1):
        assert action.dtype == np.intc and action.shape == (7,)
        self.steps += 1
        self.shown = 138 + int(action.sum())
        return float(num_steps)

    def close(self):
        pass
