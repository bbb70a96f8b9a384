"""Tasks of one step's thought, for tests/learning/small.sh: an observation says which action is
right, an episode has 20 steps and is cut off then, and a right action is worth 1."""

import gymnasium as gym

STEPS = 20


class Right(gym.Env):
    """Shows one of `shown` numbers; right is the action `factor` times it modulo `actions`."""

    def __init__(self, shown, actions, factor):
        self.observation_space = gym.spaces.Discrete(shown)
        self.action_space = gym.spaces.Discrete(actions)
        self.factor = factor

    def _show(self):
        self.number = int(self.np_random.integers(self.observation_space.n))
        return self.number

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self._show(), {}

    def step(self, action):
        is_right = int(action) == self.factor * self.number % int(self.action_space.n)
        self.steps += 1
        return self._show(), float(is_right), False, self.steps == STEPS, {}


class Fee(Right):
    """Ends with its first step, in which each action is worth 100 more."""

    def step(self, action):
        shown, reward, _, _, info = super().step(action)
        return shown, 100 + reward, True, False, info


gym.register("Colours-v0", entry_point=lambda: Right(3, 3, 1))
gym.register("Numbers-v0", entry_point=lambda: Right(500, 6, 7919))
gym.register("Fee-v0", entry_point=lambda: Fee(4, 4, 1))
