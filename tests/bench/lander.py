"""gym:Lander-v0: Gymnasium's LunarLander-v3 by a name for which Acorn has no settings."""
import gymnasium

gymnasium.register("Lander-v0", entry_point="gymnasium.envs.box2d.lunar_lander:LunarLander",
                   max_episode_steps=1000, reward_threshold=200)
