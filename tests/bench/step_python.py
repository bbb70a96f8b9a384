"""What bench_env.c does, in Python: step_python.py ID STEPS prints us of CPU time per step."""

import sys
import time

import gymnasium

env = gymnasium.make(sys.argv[1], disable_env_checker=True)
steps, actions = int(sys.argv[2]), int(env.action_space.n)


def play(count):
    for t in range(count):
        _, _, terminated, truncated, _ = env.step(t % actions)
        if terminated or truncated:
            env.reset()


env.reset(seed=1)
play(steps // 10)
start = time.process_time()
play(steps)
print(f"{(time.process_time() - start) / steps * 1e6:.4f}")
