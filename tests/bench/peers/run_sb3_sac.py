"""Stable-Baselines3's SAC on Pendulum-v1, on the CPU, with its defaults: an update behind each step.
Usage: run_sb3_sac.py THREADS STEPS. Updates per second from the 100th on, those steps long."""

import sys
import time

import torch
from stable_baselines3 import SAC
from stable_baselines3.common.callbacks import BaseCallback

STARTS = 1000  # as many steps as Acorn plays before its first update


class Watch(BaseCallback):
    started = None

    def _on_step(self):
        if self.num_timesteps == STARTS + 100:
            self.started = time.time()
        return True


def main():
    threads, steps = int(sys.argv[1]), int(sys.argv[2])
    torch.set_num_threads(threads)
    watch = Watch()
    model = SAC("MlpPolicy", "Pendulum-v1", learning_starts=STARTS, device="cpu", seed=1)
    model.learn(STARTS + 100 + steps, callback=watch)
    print("updates_per_second=%.1f" % (steps / (time.time() - watch.started)))


main()
