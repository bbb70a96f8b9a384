"""Prints steps per second of 64 environments of CartPole, and ratios: see vector_env.sh."""
import statistics
import time

import acorn
import gymnasium
import numpy as np

ENVS, TURNS, SECONDS = 64, 5, 1.0


def speed(env, actions):
    env.reset(seed=1)
    steps, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < SECONDS:
        for action in actions:
            env.step(action)
        steps += len(actions) * ENVS
    return steps / (time.perf_counter() - begin)


actions = np.random.default_rng(1).integers(0, 2, (50, ENVS))
envs = {"acorn": acorn.VectorEnv("cartpole", ENVS),
        "sync": gymnasium.make_vec("CartPole-v1", ENVS, vectorization_mode="sync"),
        "numpy": gymnasium.make_vec("CartPole-v1", ENVS, vectorization_mode="vector_entry_point")}
speeds = {name: [] for name in envs}
for _ in range(TURNS):
    for name, env in envs.items():
        speeds[name].append(speed(env, actions))
for name, found in speeds.items():
    print(name, f"{statistics.median(found):.0f} steps/s")
for name in ("sync", "numpy"):
    ratios = [a / b for a, b in zip(speeds["acorn"], speeds[name])]
    print(f"over_{name}", f"{statistics.median(ratios):.1f}")
