"""What tests/integration/python_package.sh asks of the package, a function for each test.

Usage: check.py NAME WORDS...
"""
import gc
import json
import os
import subprocess
import sys
import tempfile
import threading
import time

import acorn
import numpy as np


def raises(words, function, *arguments, **named):
    try:
        function(*arguments, **named)
    except acorn.AcornError as error:
        assert words in str(error), (words, str(error))
        return
    raise AssertionError(f"no error: {words}")


def run(folder):
    it = acorn.Run(folder)
    metrics, episodes = it.metrics(), it.episodes()
    assert isinstance(metrics, list) and metrics[-1]["step"] >= 30_000, metrics[-1:]
    assert it.config["env"] == "cartpole" and it.config["learning_rate"] > 0
    assert it.config["previous_action"] is False and it.config["hidden"] == "64,64"
    assert it.result["reason"] == "total_steps" and it.starts[0]["version"]
    assert sum(row["role"] == "train" for row in episodes) == it.result["episodes"] > 100
    assert all(row["return"] == row["length"] for row in episodes)


def quoted(folder):
    assert json.loads(acorn.Run(folder).config["env_args"]) == {"size": 40}


def pandas(folder):
    it = acorn.Run(folder)
    assert it.metrics()["step"].max() >= 30_000
    assert it.episodes()["return"].dtype.kind in "if"


def plays(folder, mean):
    policy, env = acorn.load(folder), acorn.VectorEnv("cartpole", 8)
    observation, _ = env.reset(seed=1000)
    total, over, state = np.zeros(8), np.zeros(8, bool), None
    while not over.all():
        action, state = policy.act(observation, state)
        observation, reward, terminated, truncated, _ = env.step(action)
        total += reward * ~over
        over |= terminated | truncated
    print(total)
    assert abs(total.mean() - float(mean)) < 1e-3, (total, mean)


def sources(folder, checkpoint):
    rows = np.random.default_rng(1).normal(size=(100, 4))
    newest, _ = acorn.load(folder, checkpoint="latest").act(rows)
    assert 0 < newest.mean() < 1
    assert np.array_equal(acorn.load(checkpoint).act(rows)[0], newest)
    assert np.array_equal(acorn.load(f"{folder}/policy.safetensors").act(rows)[0], newest)
    assert acorn.load(folder).metadata("checkpoint").startswith("best")


def onnx(folder):
    policy, other = acorn.load(folder), acorn.load(f"{folder}/policy.onnx")
    rows = np.random.default_rng(2).normal(size=(256, 4))
    assert np.array_equal(policy.act(rows)[0], other.act(rows)[0])
    assert policy.act(rows[0])[0] == other.act(rows[0])[0]
    assert policy.metadata("steps") == other.metadata("steps")
    assert repr(policy.space.tensors) == repr(other.space.tensors) == "[state float32[4]]"
    assert policy.space.discrete == other.space.discrete == 2
    assert policy.act(rows)[0].dtype == other.act(rows)[0].dtype == np.int32
    for one in (policy, other):
        one.close()
        raises("is closed", one.act, rows)


def remembers(folder, name, size):
    """The run and its ONNX file act alike over episodes that begin and end row by row."""
    policy, other = acorn.load(folder), acorn.load(f"{folder}/policy.onnx")
    env = acorn.VectorEnv(name, 5, env_args={"size": int(size)} if int(size) else {})
    random = np.random.default_rng(5)
    (observation, _), state, begun, reward, acts = env.reset(seed=3), None, None, None, []
    for _ in range(60):
        alone = other.act(observation[0], None if begun is None else begun[:1],
                          None if reward is None else reward[0])[0]
        action, state = policy.act(observation, state, reward)
        same, begun = other.act(observation, begun, reward)
        assert np.allclose(action, same, rtol=0, atol=1e-5), (action, same)
        assert np.allclose(alone, same[0], rtol=0, atol=1e-5), (alone, same)
        acts.append(action)
        observation, reward, terminated, truncated, _ = env.step(action)
        over = terminated | truncated | (random.random(5) < 0.1)
        state[over], begun[over] = 0, 0
    assert len(np.unique(acts)) > 1, "one action for all"
    kept, zeros, none = (other.act(observation, x, 0)[1]
                         for x in (begun, np.zeros_like(begun), None))
    assert not np.array_equal(kept, zeros) and np.array_equal(zeros, none)
    if "previous_reward = true" in policy.metadata("options").splitlines():
        for one, past in ((policy, state), (other, begun)):
            assert past.any()
            raises("give reward=", one.act, observation, past)
            one.act(observation, np.zeros_like(past))
    raises("state has the shape", other.act, observation, begun[:2])
    tensor = policy.space.tensors[0]
    if tensor.dtype == np.uint8:
        raises("does not fit uint8", policy.act, np.full(tensor.shape, 256, np.uint16))


def loop(folder, name):
    """That of docs/python.md, on stdin: the state is zero where an episode begins, and only there.
    The policy reads rewards."""
    policy, begins, ended = acorn.load(folder), np.ones(8, bool), np.zeros(8, bool)
    act, seen = policy.act, []

    class Watched(acorn.VectorEnv):
        def step(self, actions):
            result = super().step(actions)
            begins[:], ended[:] = ended, result[2] | result[3]
            return result

    def watched(observation, state, *reward):
        assert state is None or np.array_equal(~state.any(1), begins), (len(seen), state, begins)
        seen.append(begins.sum())
        return act(observation, state, *reward)

    policy.act, acorn.load = watched, lambda _: policy
    acorn.VectorEnv = lambda _, count: Watched(name, count)
    exec(sys.stdin.read(), {})
    assert len(seen) == 100 and sum(seen) > 16, seen


def foreign(folder):
    policy = acorn.load(f"{folder}/policy.onnx")
    raises("NaN", policy.act, np.full(4, np.nan))
    raises("too large", policy.act, np.array([1e300, 0, 0, 0]))
    data = open(f"{folder}/policy.onnx", "rb").read()
    with open("other.onnx", "wb") as file:
        file.write(data.replace(b"\x05space", b"\x05place"))
    raises("is no file of `acorn export`", acorn.load, "other.onnx")


def masked(folder):
    """A mask as Gymnasium's MultiBinary has it, of int8 and with a shape of its own."""
    mask, goal = np.array([[0, 0, 1], [0, 0, 0]], np.int8), np.zeros(6, np.uint8)
    for policy in (acorn.load(folder), acorn.load(f"{folder}/policy.onnx")):
        policy.space.tensors[0].shape = mask.shape  # as its bridge would say
        assert policy.act({"action_mask": mask, "goal": goal})[0] == 2
        raises("does not fit uint8", policy.act, {"action_mask": -mask, "goal": goal})


def observations(folder):
    policy = acorn.load(folder)
    action, state = policy.act([0.0, 0, 0, 0])
    assert action.shape == () and action in (0, 1)
    assert policy.act({"state": np.zeros((3, 4))})[0].shape == (3,)
    raises("state has the shape [3]", policy.act, [1, 2, 3])
    raises("state has the shape [2, 5]", policy.act, np.zeros((2, 5)))
    raises("state is complex128", policy.act, np.zeros(4, complex))
    raises("state is uint8; it is state float32[4]: convert", policy.act, np.zeros(4, np.uint8))
    raises("the observation has no state", policy.act, {"other": 1})
    raises("state has the shape (1,", policy.act, np.zeros((2, 4)), state)
    raises("0 rows", policy.act, np.zeros((0, 4)))


def brought(folder):
    policy = acorn.load(folder)
    assert policy.space.discrete == 2 and policy.act(np.zeros((5, 4)))[0].shape == (5,)
    assert policy.metadata("environment") == "CartPole-v1"


def threads(folder):
    policy, wrong = acorn.load(folder), []
    rows = np.random.default_rng(3).normal(size=(64, 4))
    expected, _ = policy.act(rows)

    def act(count):
        for _ in range(200):
            if not np.array_equal(policy.act(rows[:count])[0], expected[:count]):
                wrong.append(count)

    started = [threading.Thread(target=act, args=(count,)) for count in (1, 7, 64)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    assert not wrong, wrong
    closed = []

    def act_until_closed():
        try:
            while True:
                policy.act(np.zeros((20_000, 4)))
        except acorn.AcornError as error:
            closed.append(str(error))

    started = [threading.Thread(target=act_until_closed) for _ in range(2)]
    for thread in started:
        thread.start()
    time.sleep(0.05)
    policy.close()
    for thread in started:
        thread.join()
    assert closed == ["this policy is closed"] * 2, closed


def same():
    """Gymnasium's own, with the same seeds and actions, over the ends of episodes."""
    import gymnasium
    ours = acorn.VectorEnv("cartpole", 16)
    theirs = gymnasium.make_vec("CartPole-v1", 16, vectorization_mode="sync")
    random = np.random.default_rng(4)
    a, b = ours.reset(seed=7)[0], theirs.reset(seed=7)[0]
    assert np.array_equal(a, b)
    ends, cuts = 0, 0
    for _ in range(1200):
        action = random.integers(0, 2, 16)
        seen = a[0] if isinstance(a, tuple) else a
        action[8:] = (seen @ [0.05, 0.2, 1, 1] > 0)[8:]  # which keeps the pole up
        a, b = ours.step(action), theirs.step(action)
        assert np.allclose(a[0], b[0], rtol=0, atol=1e-5)
        assert all(np.array_equal(x, y) for x, y in zip(a[1:4], b[1:4]))
        assert all(x.dtype == y.dtype for x, y in zip(a[:4], b[:4]))
        ends, cuts = ends + a[2].sum(), cuts + a[3].sum()
    assert ends > 200 and cuts >= 8, (ends, cuts)


def checker():
    import gymnasium
    from gymnasium.utils.env_checker import check_env

    class One(gymnasium.Env):
        """The checker takes single environments."""

        def __init__(self):
            self.vector = acorn.VectorEnv("cartpole", 1)
            self.observation_space = self.vector.single_observation_space
            self.action_space = self.vector.single_action_space

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return self.vector.reset(seed=seed, options=options)[0][0], {}

        def step(self, action):
            observation, reward, *over, _ = self.vector.step(np.array([action]))
            return observation[0], float(reward[0]), *(bool(x[0]) for x in over), {}

    check_env(One(), skip_render_check=True)
    from gymnasium.wrappers.vector import RecordEpisodeStatistics
    env = RecordEpisodeStatistics(acorn.VectorEnv("cartpole", 8))
    env.reset(seed=1)
    lengths = []
    for _ in range(500):
        _, _, _, _, info = env.step(env.action_space.sample())
        lengths += [x for x in info.get("episode", {}).get("l", []) if x]
    assert len(lengths) > 50 and 10 < np.mean(lengths) < 50, np.mean(lengths)


def kinds():
    env = acorn.VectorEnv("catch", 4, env_args={"rows": 12, "columns": 7}, render_mode="rgb_array")
    first, _ = env.reset(seed=[5, 6, 7, 5])
    assert env.observation_space.contains(first), env.observation_space
    assert np.array_equal(first[0], first[3])
    kept = first.copy()
    env.step(np.ones(4, int))
    assert np.array_equal(first, kept), "what a step returns is the caller's"
    pictures = env.render()
    assert len(pictures) == 4 and all(p is None or p.ndim == 3 for p in pictures)
    before, *_ = env.step(np.ones(4, int))
    after, _ = env.reset(seed=1, options={"reset_mask": np.array([1, 0, 0, 0], bool)})
    assert np.array_equal(before[1:], after[1:]) and not np.array_equal(before[0], after[0])
    raises("an action that its action space does not have", env.step, np.full(4, 3))
    raises("cartpool", acorn.VectorEnv, "cartpool", 2)
    raises("gymnasium.make_vec('CartPole-v1', 2)", acorn.VectorEnv, "gym:CartPole-v1", 2)
    raises("0 environments", acorn.VectorEnv, "cartpole", 0)
    raises("wide", acorn.VectorEnv, "catch", 2, env_args={"wide": 3})
    raises("actions are float64, not int32", env.step, np.zeros(4))
    raises("actions have the shape (1,), not (4,)", env.step, [0])
    raises("out of range", env.step, np.full(4, 1 << 32))
    env.close()
    env.close()
    raises("are closed", env.step, np.zeros(4, int))
    raises("are closed", env.reset)
    fresh = [acorn.VectorEnv("cartpole", 2) for _ in range(2)]
    raises("call reset", fresh[0].step, [0, 0])
    starts = np.concatenate([env.reset()[0] for env in fresh])
    assert len(np.unique(starts[:, 0])) == 4  # without a seed each begins elsewhere
    # With a mask, too, and those that were never reset begin with the others.
    starts, _ = acorn.VectorEnv("cartpole", 3).reset(options={"reset_mask": [True, False, False]})
    assert len(np.unique(starts[:, 0])) == 3 and starts.any(1).all(), starts
    # A step that is refused is no environment's.
    once, never = acorn.VectorEnv("cartpole", 3), acorn.VectorEnv("cartpole", 3)
    assert np.array_equal(once.reset(seed=1)[0], never.reset(seed=1)[0])
    raises("environment 2: an action", once.step, [0, 0, 5])
    assert np.array_equal(once.step([0, 0, 0])[0], never.step([0, 0, 0])[0])


def _fails_without_stream(learner):
    """An environment that raises leaves no stream of gRPC to its traceback: at the interpreter's
    end it could wait for ever."""
    import gymnasium

    class Fails(gymnasium.Wrapper):
        def step(self, action):
            raise ValueError("no step")

        def close(self):
            closed.append(self)
            if len(closed) == 2:  # its error is not the actor's
                raise ValueError("no close")

    closed = []
    try:
        acorn.actor.run(lambda: Fails(gymnasium.make("CartPole-v1")), learner=learner, envs=8,
                        environment="my env/1")
    except ValueError as error:
        kept = [value for value in gc.get_objects() if "Rendezvous" in type(value).__name__]
        assert error.__traceback__ and not kept, kept
        assert str(error) == "no step" and len(closed) == 1 + 8, (error, closed)
    else:
        raise AssertionError("the actor goes on")


def actor(learner):
    import gymnasium
    from acorn.environment import Environment
    with tempfile.TemporaryDirectory() as folder:
        address = f"unix:{folder}/socket"
        started = subprocess.Popen(
            [learner, "--env=join", "--agent=ppo", "--num_envs=8", f"--listen={address}",
             "--total_steps=3000", f"--logdir={folder}/run"], stdout=subprocess.PIPE, text=True)
        _fails_without_stream(address)
        acorn.actor.run(lambda: gymnasium.make("CartPole-v1"), learner=address, envs=8,
                        environment="my env/1")
        out, _ = started.communicate()
        assert started.returncode == 0 and "result env=my-env-1" in out, out
    for text, name in (("CartPole-v1", "CartPole-v1"), ("a:b", 'a-b({"id":"a:b"})'),
                       ('a-b({"id":"a:b"})', 'a-b({"id":"a:b"})'),
                       ("a b", 'a-b({"id":"a\\u0020b"})')):
        assert Environment(text).name() == name, (text, Environment(text).name())
    raises("cannot play at unix:/nowhere/socket", acorn.actor.run,
           lambda: gymnasium.make("CartPole-v1"), learner="unix:/nowhere/socket", reconnect_s=0)


def refused(folder):
    raises("/tmp is no run folder", acorn.load, "/tmp")
    raises("is no run folder", acorn.Run, "/tmp")
    raises("none.safetensors cannot be read", acorn.load, "none.safetensors")
    raises("none.onnx", acorn.load, "none.onnx")
    raises("none.acorn", acorn.load, folder, checkpoint="none.acorn")
    whole = open(f"{folder}/policy.safetensors", "rb").read()
    for name, data in (("cut", whole[:-100]), ("empty", b""), ("text", b"no such file" * 10)):
        with open(f"{name}.safetensors", "wb") as file:
            file.write(data)
        raises(f"{name}.safetensors: ", acorn.load, f"{name}.safetensors")
    with open("other.safetensors", "wb") as file:
        file.write((2).to_bytes(8, "little") + b"{}")
    raises("metadata have no options", acorn.load, "other.safetensors")


def fails(folder, words):
    raises(words, acorn.load, folder)


def words(folder):
    from acorn import train, watch
    from acorn.environment import MOST_BYTES, Environment, find
    with tempfile.TemporaryDirectory() as other:
        raises("is missing or damaged", find, "join", other, {})
        for line in (b"", b'x({"id":', b'x({"id":3})', b'x({"id":"a"}', b"\xff\xfe",
                     b'x({"id":"a","env_args":[]})', b'x({"id":"a","env_args":{"wrapper":1}})',
                     b'x({"id":' + b"[" * 99999):
            with open(f"{other}/environment.txt", "wb") as file:
                file.write(line)
            raises("environment.txt", find, "join", other, {})
        made = Environment("a b", {"size": 3, "wrapper": "m:C"})
        with open(f"{other}/environment.txt", "w") as file:
            print(made.name(), file=file)
        assert find("join", other, {}) == find("gym:a b", other, {}) == made, made.name()
        for options, args in (({"env_args": '{"size":4}'}, {"size": 4, "wrapper": "m:C"}),
                              ({"env_args": "{}"}, {"wrapper": "m:C"}),
                              ({"wrapper": ""}, {"size": 3}),
                              ({"wrapper": "m:D"}, {"size": 3, "wrapper": "m:D"}),
                              ({"env_args": '{"wrapper":"m:E"}'}, {"wrapper": "m:E"})):
            assert find("join", other, options) == ("a b", args), options
        assert find("gym:moved:a b", other, {}) == ("moved:a b", made.args)
    assert find("join", folder, {}) == ("CartPole-v1", {})
    for text in (None, "", "{", "[]", "3", "[" * 99999, '{"wrapper":3}', '{"a":NaN}'):
        raises("--", find, "gym:a", "", {"env_args": text})
    raises("is no text", find, "gym:a", "", {"wrapper": None})
    raises(f"of {MOST_BYTES} at most", Environment("a", {"b": "c" * MOST_BYTES}).name)
    raises("--module=a.py: write", train._read_words, ["gym:CartPole-v1", "--module=a.py"])
    for word in ("--seed=-5", "--seed=x", "--episodes=0", "--episodes=-1", "--episodes=",
                 "--max_steps=0", "--max_steps=5k", "--seed=" + "9" * 5000):
        raises(f"{word}: a whole number from", watch._read_words, [word])
    for word in ("--greedy", "--episodes", "--policy=sample", "--env_args", "--x=1", "y"):
        raises(f"{word}: of an environment in Python", watch._read_words, [word])
    assert watch._read_words(["--max-steps=7", "--seed=0", "--code"])["max_steps"] == 7


def deaths():
    """Of an actor whose lives are long: given up when it has never stepped, else begun anew."""
    import types
    from pathlib import Path

    from acorn import train
    now_s = iter(range(0, 10 ** 6, 100))
    train.time = types.SimpleNamespace(monotonic=lambda: next(now_s))
    dead = types.SimpleNamespace(pid=0, poll=lambda: 1, wait=lambda: 1)
    train.subprocess = types.SimpleNamespace(DEVNULL=None, Popen=lambda *_, **__: dead)
    with tempfile.TemporaryDirectory() as folder:
        actor = train._Actor(0, Path(folder), [])
        looks = [actor.look() for _ in range(20)]
        assert looks == [True] * 8 + [False] * 12, looks
        actor = train._Actor(1, Path(folder), [])
        actor.mark.touch()
        assert all(actor.look() for _ in range(20)) and actor.deaths == 1, actor.deaths


def logs():
    """An actor's output is kept over its lives, within a bound, and shown where a death is new."""
    import contextlib
    import io
    import types
    from pathlib import Path

    from acorn import train
    code = None
    lives = types.SimpleNamespace(pid=0, poll=lambda: code, wait=lambda: code)
    train.subprocess = types.SimpleNamespace(DEVNULL=None, Popen=lambda *_, **__: lives)
    train.os = types.SimpleNamespace(killpg=lambda *_: None)
    with tempfile.TemporaryDirectory() as folder:
        actor = train._Actor(0, Path(folder), [])
        actor.mark.touch()
        said = []
        for number in (1, 2, 3):
            code = None
            actor._start()
            with open(actor.log, "ab") as log:
                log.write(b"%d steps\n" % number * (5000 if number == 2 else 3 << 19))
                log.write(b"Traceback:\n" + b"OSError: %d" % (number // 3 or number))
            actor.look()
            with contextlib.redirect_stderr(io.StringIO()) as err:
                code = 1
                actor.look()
            said.append(err.getvalue())
        assert said[0].startswith("---- the last lines of actor 0\n1 steps\n1 steps\n"), said[0][:99]
        assert "\nTraceback:\nOSError: 1\n----\nactor 0 is started again in 1 s; " in said[0], said[0]
        assert "exit code 1: OSError: 1\n" in said[0] and len(said[0]) < 4200
        assert [line.count("----") for line in said] == [2, 0, 0], said
        data = actor.log.read_bytes()
        assert 1 << 20 < len(data) <= 8 << 20 and data.startswith(b"3 steps\n"), len(data)


def masks():
    """Environments of one name, one with a mask in its info: each is looked at for itself."""
    import gymnasium
    from acorn.world import View

    class Masked(gymnasium.Wrapper):
        def reset(self, **words):
            return self.env.reset(**words)[0], {"action_mask": np.ones(2, np.int8)}

    for wrapper in (Masked, gymnasium.Wrapper, Masked):
        view = View(wrapper(gymnasium.make("CartPole-v1")), "CartPole-v1")
        assert [tensor.is_mask for tensor in view.tensors][1:] == [True] * (wrapper is Masked)


def ends():
    """What counts as the end of an episode, as in truth_of of envs/gymnasium/game.c."""
    from acorn.world import _truth
    for value in (True, 1, np.True_, np.int64(1), np.array(True), np.array([True])):
        assert _truth(value, "terminated") is True, value
    for value in (False, 0, np.False_, np.int64(0), np.array(False), np.array([False])):
        assert _truth(value, "terminated") is False, value
    for value in ("False", None, 2, 1.0, np.array([True, True]), np.array([1.0])):
        try:
            _truth(value, "truncated")
        except TypeError as error:
            assert "'truncated' must be True or False" in str(error), error
        else:
            raise AssertionError(f"{value!r} is taken")


def returns():
    """What reset and step may return, as in envs/gymnasium/game.c."""
    import types

    from acorn.world import World
    of_reset, of_step = (1, {}), (1, np.float16(2), False, True, {})
    env = types.SimpleNamespace(reset=lambda seed: of_reset, step=lambda _: of_step)
    view = types.SimpleNamespace(read=lambda result: result[0], pack=None, unpack=None)
    world = World(env, view)
    assert world.reset(7) == 1 and world.step(0) == (1, 2.0, False, True)
    no_reset = "it is no environment of Gymnasium 1: reset does not return (observation, info)"
    no_step = "Gymnasium 1: step does not return (observation, reward, terminated, truncated, info)"
    for of_reset, of_step, words in (
            (np.zeros(2), None, no_reset), ([1, {}], None, no_reset), (1, None, no_reset),
            (None, of_step[:4], no_step), (None, list(of_step), no_step),
            (None, (1, "1.0", *of_step[2:]), "the reward must be a real number, not str"),
            (None, (1, b"1", *of_step[2:]), "the reward must be a real number, not bytes")):
        try:
            world.step(0) if of_reset is None else world.reset(7)
        except TypeError as error:
            assert words in str(error), error
        else:
            raise AssertionError(f"no error: {words}")


def old_libc():
    from acorn import bundle, command
    real = bundle._libc
    for version, words in (("glibc 2.28", "this system has 2.28"), ("", "may have musl")):
        bundle._libc = lambda version=version: version
        raises(words, bundle.check_system)
        raises(words, acorn.load, "none.safetensors")
        sys.argv = ["acorn", "train", "cartpole"]
        assert command.main() == 1
    bundle._libc = real
    bundle.check_system()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    globals()[sys.argv[1]](*sys.argv[2:])
