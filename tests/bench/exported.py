"""Plays episodes by an exported policy, as a program of a user's does: Gymnasium, onnxruntime and
numpy, nothing of Acorn. Prints the mean return and its 95 % interval by Student's t.

Usage: exported.py FILE.onnx ENV EPISODES [SEED]: ENV is an ID of Gymnasium's, or ALE/Pong-v5, which
is prepared as Acorn prepares it (docs/export.md).
"""
import statistics
import sys

import gymnasium
import numpy as np
import onnxruntime

KINDS = {"tensor(float)": np.float32, "tensor(uint8)": np.uint8, "tensor(int64)": np.int64,
         "tensor(bool)": bool}
OWN = {"reset", "previous_action", "previous_reward", "state_in"}
T_95 = 1.984  # of 99 degrees of freedom


def make(name, sticky=0):
    if not name.startswith("ALE/"):
        return gymnasium.make(name)
    import ale_py
    gymnasium.register_envs(ale_py)
    env = gymnasium.make(name, frameskip=1, repeat_action_probability=sticky)
    return gymnasium.wrappers.AtariPreprocessing(env, noop_max=30, frame_skip=4, screen_size=84)


class Player:
    """The policy, and what it has to be given again: frames, action, reward, state."""

    def __init__(self, path):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(path, options)
        self.outputs = [x.name for x in self.session.get_outputs()]
        self.inputs = {x.name: x for x in self.session.get_inputs()}
        self.squashes = self.session.get_modelmeta().custom_metadata_map["agent"] == "sac"
        (self.observation,) = set(self.inputs) - OWN

    def begin(self):
        self.feed = {name: np.zeros([1] + x.shape[1:], KINDS[x.type])
                     for name, x in self.inputs.items()}

    def act(self, observation, reward, first):
        feed, rows = self.feed, self.feed[self.observation]
        if rows.ndim == 2 + observation.ndim:  # frames, the newest first
            rows[:, 1:] = rows[:, :-1].copy()
            rows[:, 0] = observation
        else:
            rows[0] = observation
        for name, value in (("reset", first), ("previous_reward", reward)):
            if name in feed:
                feed[name][:] = value
        found = dict(zip(self.outputs, self.session.run(None, feed)))
        for name, output in (("state_in", "state_out"), ("previous_action", "mean")):
            if name in feed:
                feed[name] = found.get(output, found["action"])
        if "previous_action" in feed and self.squashes:
            feed["previous_action"] = np.tanh(feed["previous_action"])
        return found["action"][0]


def play(player, env, look=None, **seed):
    """Its return. look: is called with the reward of each step."""
    (observation, _), reward, total, done, first = env.reset(**seed), 0, 0, False, True
    player.begin()
    while not done:
        action = player.act(np.asarray(observation), reward, first)
        observation, reward, terminated, truncated, _ = env.step(action)
        total, done, first = total + reward, terminated or truncated, False
        if look:
            look(reward)
    return float(total)


def main():
    path, name, episodes, *seed = sys.argv[1:]
    player, env = Player(path), make(name)
    returns = [play(player, env, seed=int((seed or [1])[0]))]
    returns += [play(player, env) for _ in range(int(episodes) - 1)]
    mean, half = statistics.fmean(returns), 0.0
    if len(returns) > 1:
        half = T_95 * statistics.stdev(returns) / len(returns) ** 0.5
    print(f"played episodes={len(returns)} return_mean={mean:.6g} "
          f"return_ci95_low={mean - half:.6g} return_ci95_high={mean + half:.6g}")


if __name__ == "__main__":
    main()
