"""For images.sh: a light on the left or on the right, as an image of some kind, and a switch: the
button under the light is right, or the other one where the switch is on."""

import gymnasium
import numpy as np
from gymnasium import spaces

SIDE = 40


def byte_box(*shape):
    return spaces.Box(0, 255, shape, np.uint8)


SPACES = {
    "last": byte_box(SIDE, SIDE, 3),
    "first": byte_box(3, SIDE, SIDE),
    "floats": spaces.Box(0, 255, (SIDE, SIDE), np.float32),
    "two": spaces.Dict(
        {
            "far": byte_box(1, SIDE, SIDE),
            "near": spaces.Box(0, 1, (SIDE, SIDE, 3), np.float64),
            "switch": spaces.Box(-1, 1, (2,), np.float32),
        }
    ),
    "unequal": spaces.Dict({"far": byte_box(36, 36), "near": byte_box(SIDE, SIDE)}),
    "small": byte_box(7, 7, 3),
}


class Light(gymnasium.Env):
    action_space = spaces.Discrete(2)

    def __init__(self, kind):
        self.observation_space = SPACES[kind]
        self.has_switch = kind == "two"

    def draw(self, space):
        image = np.zeros(space.shape)
        rows = int(np.argmax(np.array(space.shape) > 3))  # the first side of the image
        half = [slice(None)] * image.ndim
        middle = space.shape[rows + 1] // 2
        half[rows + 1] = slice(middle, None) if self.side else slice(middle)
        image[tuple(half)] = space.high.max()
        return image.astype(space.dtype)

    def look(self):
        self.side = int(self.np_random.integers(2))
        self.on = self.has_switch and int(self.np_random.integers(2))
        if not isinstance(self.observation_space, spaces.Dict):
            return self.draw(self.observation_space)
        seen = {k: self.draw(s) for k, s in self.observation_space.items() if k != "switch"}
        if self.has_switch:
            seen["switch"] = np.array([self.on, -self.on], np.float32)
        return seen

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.look(), {}

    def step(self, action):
        reward = float(action == self.side ^ self.on)
        self.steps += 1
        return self.look(), reward, self.steps == 10, False, {}


gymnasium.register("Light-v0", Light)
