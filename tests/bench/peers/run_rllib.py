"""RLlib's IMPALA on CartPole-v1, on the CPU: one environment runner beside the learner in the main process.

speed: a vector of environments in the runner, the fastest of four arrangements of runners that were tried.
solve: the values and the network of RLlib's own example for CartPole-v1."""

from collections import deque

import ray
from meter import Meter, arguments
from ray.rllib.algorithms.impala import IMPALAConfig
from ray.rllib.connectors.env_to_module import MeanStdFilter
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig


def configuration(args):
    config = IMPALAConfig().environment("CartPole-v1").learners(num_learners=0).debugging(seed=1)
    config.reporting(min_time_s_per_iteration=0.2)
    if args.what == "speed":
        config.env_runners(num_env_runners=1, num_envs_per_env_runner=args.environments,
                           rollout_fragment_length=32)
        config.training(train_batch_size_per_learner=args.environments * 32)
        network = DefaultModelConfig(fcnet_hiddens=[64, 64], fcnet_activation="tanh", vf_share_layers=True)
    else:
        config.env_runners(num_env_runners=1,
                           env_to_module_connector=lambda env, spaces=None, device=None: MeanStdFilter())
        config.training(train_batch_size_per_learner=500, grad_clip=40.0, grad_clip_by="global_norm",
                        lr=0.0005, vf_loss_coeff=0.05, entropy_coeff=0.0)
        network = DefaultModelConfig(vf_share_layers=True)
    return config.rl_module(model_config=network)


class Window:
    """The mean return of the last 100 episodes: RLlib's own mean is over those of one iteration."""

    def __init__(self):
        self.parts = deque()  # (episodes, their mean) of an iteration

    def add(self, runners):
        episodes = runners.get("num_episodes", 0)
        if episodes > 0:  # NaN where there were none
            self.parts.append((int(episodes), float(runners["episode_return_mean"])))
        while self.parts and self.count() - self.parts[0][0] >= 100:
            self.parts.popleft()

    def count(self):
        return sum(episodes for episodes, _ in self.parts)

    def mean(self):
        if self.count() < 100:
            return None
        return sum(episodes * mean for episodes, mean in self.parts) / self.count()


def main():
    args = arguments()
    meter = Meter(args)
    ray.init(include_dashboard=False, log_to_driver=False, logging_level="error")
    algorithm = configuration(args).build_algo()
    window = Window()
    over = False
    while not over:
        result = algorithm.train()
        runners = result["env_runners"]
        window.add(runners)
        # Trained steps; none are reported before the first update is done.
        steps = result.get("learners", {}).get("__all_modules__", {}).get("num_env_steps_trained_lifetime")
        if steps:
            over = meter.mark(int(steps), window.mean())
    meter.report()
    algorithm.stop()
    ray.shutdown()


main()
