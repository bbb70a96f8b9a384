"""Stable-Baselines3's PPO by its defaults, on one environment: ENV STEPS SEED. Prints "return=R
seconds=S": the mean return of the last 100 training episodes (or as many as there were), and the
seconds from process start."""

import sys
import time

START = time.perf_counter()

from stable_baselines3 import PPO  # noqa: E402 (its import counts)
from stable_baselines3.common.env_util import make_vec_env  # noqa: E402


def main():
    env, steps, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    model = PPO("MlpPolicy", make_vec_env(env, seed=seed), device="cpu", seed=seed)
    model.learn(steps)
    episodes = [episode["r"] for episode in model.ep_info_buffer]
    mean = sum(episodes) / len(episodes) if episodes else float("nan")
    print(f"return={mean:.2f} seconds={time.perf_counter() - START:.1f}")


main()
