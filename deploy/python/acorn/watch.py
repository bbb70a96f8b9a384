"""What scripts/watch.sh starts for a run whose environment is in Python: the pictures that the
environment draws of itself, as PPM on stdout, without the panel of build/watch."""
import os
import re
import sys

import numpy as np

from acorn.bundle import AcornError
from acorn.environment import CODE, check_code, find, split
from acorn.policy import load
from acorn.train import make, run
from acorn.world import View, World, adapter, ask

EXIT_NOT_READ = 5
WORDS = {"env": "join", "checkpoint": "", "policy": "greedy", "episodes": 1, "seed": 1000,
         "hold": 1, "max_steps": 1}


def _read_words(words):
    options = dict(WORDS)
    for word in words:
        name, value = split(word)
        if name in CODE:
            continue
        is_known = name in (*WORDS, "env_args") and value is not None
        if not is_known or name == "policy" and value != "greedy":
            raise AcornError(f"{word}: of an environment in Python the greedy policy alone is "
                             "shown, without --policy=sample")
        is_text = isinstance(WORDS.get(name, ""), str)
        options[name] = value if is_text else _number(word, name, value)
    return options


def _number(word, name, value):
    low = 0 if name == "seed" else 1
    if not re.fullmatch("[0-9]{1,15}", value) or int(value) < low:
        raise AcornError(f"{word}: a whole number from {low} to 1e15")
    return int(value)


def _draw(env, stdout, times):
    try:
        picture = ask(adapter().picture, env)
    except AcornError:
        raise
    except Exception as error:  # the environment's own
        raise AcornError(f"{env.spec.id} cannot be drawn: {error}") from None
    if picture is None:
        raise AcornError(f"{env.spec.id} draws no picture of itself (rgb_array)")
    head = "P6\n{1} {0}\n255\n".format(*picture.shape).encode()
    stdout.write((head + picture.tobytes()) * times)
    stdout.flush()


def _play(world, policy, stdout, options, episode):
    env, observation = world.env, world.reset(options["seed"] + episode)
    state, reward, score, steps, over = None, 0.0, 0.0, 0, False
    while not over and steps < options["max_steps"]:
        _draw(env, stdout, 1)
        action, state = policy.act(observation, state, reward)
        action = world.unpack(np.asarray(action).tobytes(), 1)[0]
        observation, reward, terminated, truncated = world.step(action)
        score, steps, over = score + reward, steps + 1, terminated or truncated
    _draw(env, stdout, options["hold"])
    print(f"episode {episode + 1}: return {score:.9g} in {steps} steps"
          f"{'' if over else ', not to its end (--max_steps)'}", file=sys.stderr)


def watch(words):
    options = _read_words(words[1:])
    stdout = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the environment prints
    environment = find(options["env"], words[0], options)
    check_code(environment, words[1:])
    policy = load(words[0], checkpoint=options["checkpoint"])
    env = make(environment, options["env"], renders=True)
    world = World(env, View(env, environment.gym_id))
    for episode in range(options["episodes"]):
        _play(world, policy, stdout, options, episode)


if __name__ == "__main__":
    try:
        sys.exit(run(watch))
    except BrokenPipeError:
        os._exit(EXIT_NOT_READ)
