import numpy as np


class Space:
    def __init__(self, **parts):
        self.__dict__.update(parts)


class Game:
    """Its picture shows the seed, then the last action; it ends after one step."""

    def __init__(self, channels):
        self.observation_space = Space(shape=(72, 96, channels))
        self.action_space = Space(n=19)

    def seed(self, seed):
        self.shown = seed

    def picture(self):
        return np.full(self.observation_space.shape, self.shown, np.uint8)

    def reset(self):
        return self.picture()

    def step(self, action):
        self.shown = action
        return self.picture(), np.float32(-1), True, {"score_reward": -1}

    def close(self):
        pass


def create_environment(env_name="", stacked=False, representation="extracted", rewards="scoring", **_):
    assert env_name and representation == "extracted" and rewards == "scoring"
    return Game(16 if stacked else 4)
