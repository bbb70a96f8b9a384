"""A field of 6 x 6 places: the picture shows where a parcel lies, a vector where the carrier is. An
action says how far it goes in both directions; a mask forbids to leave the field."""

import gymnasium
import numpy
from gymnasium.spaces import Box, Dict, MultiBinary, MultiDiscrete

PLACES, PIXELS = 6, 6


class Parcel(gymnasium.Env):
    observation_space = Dict(
        {
            "picture": Box(0, 255, (PLACES * PIXELS, PLACES * PIXELS), numpy.uint8),
            "carrier": Box(0, 1, (2,), numpy.float32),
            "action_mask": MultiBinary(6),
        }
    )
    action_space = MultiDiscrete([3, 3])  # back, stay or forth, in rows and in columns

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.carrier, self.parcel = self.np_random.integers(PLACES, size=(2, 2))
        return self.look(), {}

    def step(self, action):
        self.carrier = self.carrier + action - 1
        found = bool((self.carrier == self.parcel).all())
        return self.look(), float(found) - 0.05, found, False, {}

    def look(self):
        field = numpy.zeros((PLACES, PLACES), numpy.uint8)
        field[tuple(self.parcel)] = 255
        may = [[place > 0, True, place < PLACES - 1] for place in self.carrier]
        return {
            "picture": field.repeat(PIXELS, axis=0).repeat(PIXELS, axis=1),
            "carrier": (self.carrier / (PLACES - 1)).astype(numpy.float32),
            "action_mask": numpy.array(may, numpy.int8).flatten(),
        }


gymnasium.register("Parcel-v0", Parcel, max_episode_steps=20)
