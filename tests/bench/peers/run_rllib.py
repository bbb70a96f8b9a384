"""RLlib's IMPALA on CartPole-v1, on the CPU: one environment runner beside the learner in the main process.

speed: a vector of environments in the runner, the fastest of four arrangements of runners that were tried.
solve: the values and the network of RLlib's own example for CartPole-v1."""

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


def main():
    args = arguments()
    meter = Meter(args)
    ray.init(include_dashboard=False, log_to_driver=False, logging_level="error")
    algorithm = configuration(args).build_algo()
    over = False
    while not over:
        result = algorithm.train()
        # Trained steps; none are reported before the first update is done.
        steps = result.get("learners", {}).get("__all_modules__", {}).get("num_env_steps_trained_lifetime")
        if not steps:
            continue
        runners = result["env_runners"]
        full = runners.get("num_episodes_lifetime", 0) >= 100
        over = meter.mark(int(steps), runners.get("episode_return_mean") if full else None)
    meter.report()
    algorithm.stop()
    ray.shutdown()


main()
