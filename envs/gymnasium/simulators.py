"""Simulators with functions of their own, which become Gymnasium's."""

from acorn_packages import chosen, gymnasium, module


class Football:
    """Google Research Football: four planes of 72 x 96, and what SEED RL trained with."""

    INSTRUCTIONS = (
        "it is installed as https://github.com/google-research/football says, into .venv "
        "(.venv/bin/pip install gfootball)"
    )
    DEFAULTS = {"game": "11_vs_11_easy_stochastic", "rewards": "scoring", "stacked": False}

    def __init__(self, options):
        module("gfootball", self.INSTRUCTIONS)
        import gfootball.env
        import numpy

        options = chosen(options, self.DEFAULTS, "football")
        self.game = gfootball.env.create_environment(
            env_name=options["game"],
            representation="extracted",
            rewards=options["rewards"],
            stacked=options["stacked"],
        )
        spaces = gymnasium().spaces
        shape = tuple(map(int, self.game.observation_space.shape))
        self.observation_space = spaces.Box(0, 255, shape, numpy.uint8)
        self.action_space = spaces.Discrete(int(self.game.action_space.n))

    def reset(self, seed=None):
        if seed is not None:
            self.game.seed(seed)
        return self.game.reset(), {}

    def step(self, action):
        """Its end is the referee's whistle: the clock is a part of the game."""
        observation, reward, done, info = self.game.step(action)
        return observation, reward, done, False, info

    def close(self):
        self.game.close()


class Lab:
    """DeepMind Lab: one picture in colour, and IMPALA's nine actions."""

    INSTRUCTIONS = (
        "it is built as https://github.com/google-deepmind/lab says (docs/users/build.md and "
        "python/pip_package), and its package installed into .venv"
    )
    DEFAULTS = {
        "level": "contributed/dmlab30/explore_goal_locations_small",
        "width": 96,
        "height": 72,
        "frame_skip": 4,
    }
    # Look right and down in pixels a frame; strafe right, go forward, fire, jump, crouch.
    # Source: Espeholt et al. 2018, table D.2.
    ACTIONS = (
        (0, 0, 0, 1, 0, 0, 0),
        (0, 0, 0, -1, 0, 0, 0),
        (0, 0, -1, 0, 0, 0, 0),
        (0, 0, 1, 0, 0, 0, 0),
        (-20, 0, 0, 0, 0, 0, 0),
        (20, 0, 0, 0, 0, 0, 0),
        (-20, 0, 0, 1, 0, 0, 0),
        (20, 0, 0, 1, 0, 0, 0),
        (0, 0, 0, 0, 1, 0, 0),
    )
    PICTURE = "RGB_INTERLEAVED"

    def __init__(self, options):
        lab = module("deepmind_lab", self.INSTRUCTIONS)
        import numpy

        options = chosen(options, self.DEFAULTS, "dmlab")
        size = {key: str(options[key]) for key in ("width", "height")}
        self.lab = lab.Lab(options["level"], [self.PICTURE], config=size)
        self.frame_skip = options["frame_skip"]
        self.actions = [numpy.array(action, numpy.intc) for action in self.ACTIONS]
        self.last = numpy.zeros((options["height"], options["width"], 3), numpy.uint8)
        spaces = gymnasium().spaces
        self.observation_space = spaces.Box(0, 255, self.last.shape, numpy.uint8)
        self.action_space = spaces.Discrete(len(self.actions))

    def look(self):
        """After the end there is no picture: the last one stays."""
        if self.lab.is_running():
            self.last = self.lab.observations()[self.PICTURE]
        return self.last

    def reset(self, seed=None):
        self.lab.reset(**({} if seed is None else {"seed": seed}))
        return self.look(), {}

    def step(self, action):
        reward = self.lab.step(self.actions[action], num_steps=self.frame_skip)
        return self.look(), reward, not self.lab.is_running(), False, {}

    def close(self):
        self.lab.close()
