"""A chain for tests/bench/chain.sh: the first observation shows a bit, the last action is right if
it is that bit, and nothing else tells the two chains apart."""

import gymnasium as gym

STEPS = 50


class Chain(gym.Env):
    """Discrete(3): 0 or 1, the bit, in the first step; 2 in all later ones."""

    observation_space = gym.spaces.Discrete(3)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.bit = int(self.np_random.integers(2))
        self.steps = 0
        return self.bit, {}

    def step(self, action):
        self.steps += 1
        ends = self.steps > STEPS
        return 2, float(ends and int(action) == self.bit), ends, False, {}


gym.register("Chain-v0", entry_point=Chain)
