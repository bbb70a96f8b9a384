"""Stable-Baselines3's PPO on CartPole-v1, on the CPU.

speed: the environments in one process (DummyVecEnv, the faster choice for CartPole by its documentation),
one epoch over each rollout. solve: the values of RL Baselines3 Zoo for CartPole-v1."""

from meter import Meter, arguments
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env

NETWORK = {"net_arch": [64, 64]}
ZOO_STEPS = 100_000  # the zoo's schedules end there


def falling(value):
    return lambda remaining: remaining * value


class Watch(BaseCallback):
    """A new rollout begins when the update on the last one is done."""

    def __init__(self, meter):
        super().__init__()
        self.meter, self.over = meter, False

    def _on_rollout_start(self):
        episodes = self.model.ep_info_buffer
        full = len(episodes) == episodes.maxlen
        mean = sum(episode["r"] for episode in episodes) / len(episodes) if full else None
        self.over = self.num_timesteps > 0 and self.meter.mark(self.num_timesteps, mean)

    def _on_step(self):
        return not self.over


def main():
    args = arguments()
    meter = Meter(args)
    if args.what == "speed":
        envs = make_vec_env("CartPole-v1", n_envs=args.environments, seed=1)
        values = dict(n_steps=32, batch_size=8192, n_epochs=1)
        steps = args.steps
    else:
        envs = make_vec_env("CartPole-v1", n_envs=8, seed=1)
        values = dict(n_steps=32, batch_size=256, n_epochs=20, gae_lambda=0.8, gamma=0.98, ent_coef=0.0,
                      learning_rate=falling(0.001), clip_range=falling(0.2))
        steps = min(args.steps, ZOO_STEPS)
    watch = Watch(meter)
    model = PPO("MlpPolicy", envs, device="cpu", seed=1, policy_kwargs=NETWORK, **values)
    model.learn(steps, callback=watch)
    if not watch.over:
        watch._on_rollout_start()  # the update on the last rollout
    meter.report()


main()
