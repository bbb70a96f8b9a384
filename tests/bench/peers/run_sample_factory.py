"""Sample Factory's APPO on CartPole-v1, on the CPU: serial and batched, the environments in one numpy array.

The environments are Gymnasium's own CartPoleVectorEnv. Stock environments stepped one by one reached a
twentieth of its speed. speed: one epoch, no normalisation. solve: the values of its documented command for
CartPole-v1, whose network is the default, 2 x 512."""

import tempfile

import gymnasium
import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from meter import Meter, arguments
from sample_factory.algo.runners.runner import AlgoObserver
from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args
from sample_factory.envs.env_utils import register_env
from sample_factory.train import make_runner

ROLLOUT = 32
SOLVE_ENVIRONMENTS = 64


class Batched(gymnasium.Env):
    """Many environments that Sample Factory sees as one with many agents."""

    is_multiagent = True

    def __init__(self, num_agents):
        self.envs, self.num_agents = CartPoleVectorEnv(num_agents, max_episode_steps=500), num_agents
        self.observation_space = self.envs.single_observation_space
        self.action_space = self.envs.single_action_space

    def reset(self, **options):
        return self.envs.reset(**options)

    def step(self, actions):
        return self.envs.step(np.asarray(actions))  # resets the environments that have ended


def make_environments(name, cfg, env_config, render_mode=None):
    """Of the name "cartpole_N"; a function that other processes can import."""
    return Batched(int(name.split("_")[1]))


class Watch(AlgoObserver):
    def __init__(self, meter):
        self.meter = meter

    def on_training_step(self, runner, _):
        returns = runner.policy_avg_stats.get("reward", [()])[0]
        full = len(returns) >= runner.cfg.stats_avg
        mean = float(np.mean(returns)) if full else None
        steps = runner.env_steps.get(0, 0)
        if steps > 0 and self.meter.mark(steps, mean):
            runner.cfg.train_for_env_steps = 0


def settings(args, name, folder):
    words = [f"--env={name}", "--experiment=run", f"--train_dir={folder}", "--device=cpu", "--seed=1"]
    words += ["--serial_mode=True", "--async_rl=False", "--batched_sampling=True", "--num_workers=1"]
    words += ["--num_envs_per_worker=1", "--worker_num_splits=1", f"--rollout={ROLLOUT}", "--recurrence=1"]
    words += ["--use_rnn=False", "--save_every_sec=100000", "--train_for_env_steps=1000000000000"]
    if args.what == "speed":
        return words + [f"--batch_size={args.environments * ROLLOUT}", "--num_batches_per_epoch=1",
                        "--num_epochs=1", "--normalize_input=False", "--normalize_returns=False",
                        "--encoder_mlp_layers", "64", "64", "--nonlinearity=tanh"]
    batches = SOLVE_ENVIRONMENTS * ROLLOUT // 512
    return words + ["--batch_size=512", f"--num_batches_per_epoch={batches}", "--num_epochs=1",
                    "--with_vtrace=False", "--reward_scale=0.1"]


def main():
    args = arguments()
    meter = Meter(args)
    agents = args.environments if args.what == "speed" else SOLVE_ENVIRONMENTS
    name = f"cartpole_{agents}"
    register_env(name, make_environments)
    with tempfile.TemporaryDirectory() as folder:
        words = settings(args, name, folder)
        parser, _ = parse_sf_args(argv=words)
        _, runner = make_runner(parse_full_cfg(parser, argv=words))
        runner.register_observer(Watch(meter))
        runner.init()
        runner.run()
    meter.report()


if __name__ == "__main__":
    main()
