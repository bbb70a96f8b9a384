"""What the Atari of the bridge is compared with, each in one process:
  step_atari.py act STEPS     ale-py: act x 4 and two grey screens, random actions, no resize
  step_atari.py vector STEPS  ale-py's vector environment with one thread, its own preprocessing
Prints frames per second (four a step)."""

import sys
import time

import ale_py
import numpy as np
from ale_py import roms

kind, steps = sys.argv[1], int(sys.argv[2])
ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)


def act(count):
    for t in range(count):
        chosen = actions[choice[t % len(choice)]]
        for k in range(4):
            ale.act(chosen)
            if k >= 2:
                ale.getScreenGrayscale(screens[k - 2])
        if ale.game_over():
            ale.reset_game()


def vector(count):
    for t in range(count // LANES):
        env.step(choice[t % len(choice)])


if kind == "act":
    ale = ale_py.ALEInterface()
    ale.setFloat("repeat_action_probability", 0.0)
    ale.loadROM(roms.get_rom_path("pong"))
    actions = ale.getMinimalActionSet()
    choice = np.random.default_rng(1).integers(0, len(actions), 1000).tolist()
    screens = [np.zeros(ale.getScreenDims(), np.uint8) for _ in range(2)]
    play = act
else:
    from ale_py.vector_env import AtariVectorEnv

    LANES = 8
    env = AtariVectorEnv("pong", num_envs=LANES, num_threads=1, stack_num=1, repeat_action_probability=0.0)
    env.reset(seed=1)
    choice = np.random.default_rng(1).integers(0, 6, (1000, LANES))
    play = vector
play(steps // 10)
start = time.perf_counter()
play(steps)
print(f"{4 * steps / (time.perf_counter() - start):.1f}")
