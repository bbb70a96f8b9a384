"""What the bridge makes of Gymnasium's environments: every kind of observation, ends, seeds,
CartPole and Acrobot step by step against Gymnasium, and each fault by its sentence. Prints PASS or
FAIL for each."""

import os
import sys
import warnings

import gymnasium
import numpy as np
from bridge import BUILD, Failed, Player

failures = 0


def report(name, fine, words=""):
    global failures
    failures += not fine
    print(f"{'PASS' if fine else 'FAIL'} {name} {'' if fine else words}".rstrip())


def everything():
    player = Player("gym:zoo:Everything-v0", length=3)
    seen = {name: array.copy() for name, array in player.reset(5).items()}
    expected = {
        "image": np.array([[0, 2, 4], [6, 8, 10]], np.float32) / np.float32(20),
        "place": np.array([0, -0.5], np.float32),
        "speed": np.float32(np.random.Generator(np.random.PCG64(np.random.SeedSequence(5))).random()),
        "big": np.array([-7], np.int32),
        "room": np.array([255, 0, 0, 0, 0], np.uint8),
        "keys": np.array([1, 0, 0], np.int32),
        "pair.0": np.array([255, 0, 0, 0, 0, 0, 255, 0], np.uint8),
        "pair.1": np.array([0] * 8 + [255], np.uint8),
    }
    same = {name: np.array_equal(seen[name], expected[name]) for name in expected}
    fine = all(same.values()) and set(seen) == set(expected)
    fine &= all(seen[name].dtype == expected[name].dtype for name in expected)
    report("observations of every kind become named tensors", fine, f"{same} {seen}")

    seen, reward, *_ = player.step(2)
    report("and none before the end", player.numbers == {}, str(player.numbers))
    fine = reward == 1 and seen["big"] == 1 - 7 and seen["image"][1, 2] == np.float32(11 / 20) and seen["room"].tolist() == [0, 255, 0, 0, 0]
    report("actions begin where their space does", fine and player.space.discrete == 3, f"{reward} {seen}")
    ends = [player.step(0)[2:4] for _ in range(2)]
    report("terminated comes with the last observation",
           ends == [(False, False), (True, False)] and seen["place"][0] == 3 / 8, str(ends))
    report("finite scalars of the last info become numbers", player.numbers == {
        "is_success": 1, "Wins___": 3, "x/y": 0.5, "zero": 2}, str(player.numbers))
    player.close()
    player = Player("gym:zoo:Everything-v0", length=1, cut=True)
    player.reset(1)
    report("truncated is kept apart", player.step(0)[2:4] == (False, True))
    player.close()
    player = Player("gym:zoo:Everything-v0", length=1, scalars=1000)
    player.reset(1)
    with warnings.catch_warnings(record=True) as warned:
        player.step(0)
    names = ["is_success"] + [f"key{i}" for i in range(15)]
    report("of many scalars the first are kept, and is_success", list(player.numbers) == names, str(player.numbers))
    report("with a warning", ["more than 16 scalars" in str(w.message) for w in warned] == [True], str(warned))
    player.close()


def draw(space, random):
    if space.discrete:
        return int(random.integers(space.discrete))
    low, high = (np.array(bounds[: space.box]) for bounds in (space.low, space.high))
    return random.uniform(low, high).astype(np.float32)


def follow(name, **options):
    """Equal observations, rewards and ends, for 2,000 steps and seeds of all sizes."""
    ours, theirs = Player(f"gym:{name}", **options), gymnasium.make(name, **options)
    random = np.random.default_rng(2)
    seed, same = 42, True
    picture, expected = ours.reset(seed)["observation"], theirs.reset(seed=seed)[0]
    for t in range(2000):
        same &= np.array_equal(picture, expected)
        action = draw(ours.space, random)
        _, *our_rest, _ = ours.step(action)
        expected, reward, *ends, _ = theirs.step(action if ours.space.discrete else np.float32(action))
        same &= our_rest == [np.float32(reward), *ends] and np.array_equal(picture, expected)
        if any(ends):
            ours.reset()
            expected = theirs.reset()[0]
    ours.close()
    report(f"{name} {options or ''} is Gymnasium's, step by step", same)


def refuses(name, words, word, **options):
    """Returns what is said."""
    try:
        player = Player(word, **options)
        player.reset(1)
        for _ in range(5):
            player.step(0)
        said = "nothing"
    except Failed as failed:
        said = str(failed)
    report(name, words in said, f"said: {said}")
    return said


def refuses_at_once(name, words, word, **options):
    """In one sentence, without a traceback."""
    said = refuses(name, words, word, **options)
    report(f"{name}: without a traceback", "traceback" not in said, f"said: {said}")


def faults():
    wrong = "gym:zoo:Wrong-v0"
    for what, words in (
        ("make", "RuntimeError: no such level (the traceback is above, or in the log)"),
        ("reset", "RuntimeError: the door is shut"),
        ("step", "RuntimeError: the lamp broke"),
        ("exit", "SystemExit: 7"),
        ("old", "reset does not return (observation, info)"),
        ("four", "step does not return (observation, reward, terminated, truncated, info)"),
        ("shape", "'observation' is float32[3], the space says float32[2]"),
        ("dtype", "'observation' is int32[2], the space says float32[2]"),
        ("half dtype", "'observation' is float16[2], the space says float32[2]"),
        ("big end", "'observation' is >f4[2], the space says float32[2]"),
        ("objects", "'observation' is object[2], the space says float32[2]"),
        ("texts", "'observation' is <U3[2], the space says float32[2]"),
        ("memory", "'observation' is uint8[2], the space says float32[2]"),
        ("list", "'observation' is a list, the space says an array of float32"),
        ("a part less", "the observation has no part 'b', which stands for"),
        ("no parts", "the observation has no part 'a', which stands for"),
        ("no number", "is 1.5, the space says a whole number"),
        ("words", "RuntimeError: the lamp \\udc80 broke"),
        ("no reward", "the reward must be a real number, not NoneType"),
        ("word reward", "the reward must be a real number, not str"),
        ("word end", "'terminated' must be True or False, not 'False' (str)"),
        ("no end", "'terminated' must be True or False, not None (NoneType)"),
        ("far end", "'terminated' must be True or False, not 7 (int)"),
        ("half end", "'terminated' must be True or False, not 0.5 (float)"),
        ("word truncated", "'truncated' must be True or False, not 'no' (str)"),
    ):
        refuses(f"an environment that does wrong: {what}", words, wrong, what=what)
    strange = "gym:zoo:Strange-v0"
    refuses("actions without bounds", "have numbers without finite bounds", strange, action="free")
    refuses("a bound beyond float32", "have numbers without finite bounds", strange, action="wide")
    refuses("too many numbers", "its actions have 65 numbers; there may be 1 to 64", strange, action="long")
    refuses("actions of whole numbers", "its actions are int32; float32 and float64", strange, action="whole")
    refuses("actions of words", "its actions are a Text space", strange, action="words")
    refuses("words among choices", "a part of its actions is a Text space", strange, action="wordy")
    refuses("a vast choice", f"its actions have 2 choices among {2**62 + 2}", strange, action="vast")
    refuses("too many actions", "it has 65537 actions; there may be 65536", strange, action="many")
    refuses("far too many", f"it has {2**62} actions; there may be 65536", strange, action="countless")
    refuses("too many values", f"its observation 'star' is one of {2**31 + 1} values", strange,
            observation="countless")
    refuses("nothing but text", "its observation has no part but text", strange, observation="text")
    refuses("half precision", "its observation 'observation' is float16", strange, observation="half")
    refuses("too many parts", "its observation has 9 parts", strange, observation="many")
    refuses("too many dimensions", "has 5 dimensions", strange, observation="deep")
    refuses("no number", "its observation 'far' has no number (3, 0)", strange, observation="empty")
    refuses("a name with a blank", "the part 'far away' of its observation has a character", strange,
            observation="blank")
    refuses("two of one name", "two parts of its observation are named 'a.b'", strange, observation="twice")
    refuses_at_once("an unknown ID", "the nearest: CartPole-v1", "gym:CartPool-v1")
    refuses_at_once("windows", "scripts/watch.sh shows", "gym:CartPole-v1", render_mode="human")
    refuses_at_once("an ID that is out of date", "Please use `LunarLander-v3`", "gym:LunarLander-v2")
    refuses_at_once("no ID", "'' is no ID of Gymnasium", "gym:")
    refuses_at_once("an ID with two modules", "'a:b:X-v0' is no ID of Gymnasium", "gym:a:b:X-v0")
    refuses_at_once("an ID with blanks", "Malformed environment ID: CartPole v1", "gym:CartPole v1")
    refuses_at_once("an unknown module", "there is no module 'nowhere'", "gym:nowhere:X-v0")
    refuses("a module that misses another", "No module named 'nowhere'", "gym:lame:X-v0")
    lander = "gym:LunarLander-v3"
    refuses_at_once("an option that it does not have", "did you mean 'gravity'?", lander, gravty=-8)
    refuses_at_once("an option that is missing", "missing 1 required positional argument: 'what'", wrong)
    said = refuses("an option of a wrong type", "not supported between instances", lander, gravity="x")
    report("which its own code says: with a traceback", "traceback" in said, f"said: {said}")


def casts():
    player = Player("gym:zoo:Loose-v0")
    seen = [player.reset(1)["observation"].copy(), player.step(0)[0]["observation"]]
    expected = np.array([[0.1, 0.5], [0.1, 0.7]], np.float32)
    report("float64 is cast to the float32 of the space", np.array_equal(seen, expected), f"{seen}")
    player.close()


def boxes():
    """Bounds of float64 that float32 rounds outwards; the environment looks at what it gets."""
    player = Player("gym:zoo:Boxed-v0")
    low, high = (np.array(bounds[: player.space.box]) for bounds in (player.space.low, player.space.high))
    player.reset(1)
    for action in (low, high, (low + high) / 2):
        seen = player.step(action)[0]["observation"]
        report(f"actions of a Box, {action}", np.allclose(seen, action), f"{seen}")
    player.close()


def wrappers():
    """The first is the innermost."""
    player = Player("gym:CartPole-v1", wrapper="zoo:Plus,zoo:Twice")
    seen = player.reset(3)["observation"]
    expected = (gymnasium.make("CartPole-v1").reset(seed=3)[0] + np.float32(1)) * np.float32(2)
    report("wrappers are applied from left to right", np.array_equal(seen, expected), f"{seen}")
    player.close()
    for name, word, words in (
        ("no class", "zoo", "'zoo' names no class: write MODULE:CLASS"),
        ("no text", 3, "3 is no text: write MODULE:CLASS"),
        ("an unknown module", "nowhere:X", "there is no module 'nowhere' to import for nowhere:X: "),
        ("its remedy", "nowhere:X", "bin/pip install nowhere, or --module=nowhere.py"),
        ("a module of none", "json.nowhere:X", "there is no module 'json.nowhere'"),
        ("an unknown name", "zoo:Twoce", "the module zoo has no 'Twoce'; did you mean 'Twice'?; it has: Plus"),
        ("another class", "zoo:Masked", "zoo:Masked is no class derived from gymnasium.Wrapper"),
        ("one with arguments", "gymnasium.wrappers:FrameStackObservation", "derive a class from it that passes"),
    ):
        refuses_at_once(f"a wrapper that is wrong: {name}", words, "gym:CartPole-v1", wrapper=word)
    refuses("a wrapper that fails", "TypeError: the glue has dried (the traceback", "gym:CartPole-v1", wrapper="zoo:Broken")
    refuses("a wrapper whose module misses another", "No module named 'nowhere'", "gym:CartPole-v1", wrapper="lame:X")
    refuses_at_once("a wrapper of the Atari", "atari has no option 'wrapper'", "atari", wrapper="zoo:Twice")


def ends():
    """All that is True."""
    for what in ("numpy end", "whole end", "numpy whole end", "array end"):
        player = Player("gym:zoo:Wrong-v0", what=what)
        player.reset(1)
        seen = [player.step(0)[2] for _ in range(3)]
        report(f"an end that is a {what}", seen == [False, False, True], f"{seen}")
        player.close()


def packages():
    """What an environment needs, by the name of Gymnasium's extra."""
    try:
        import mujoco  # noqa: F401
    except ImportError:
        refuses_at_once("a missing MuJoCo", 'bin/pip install "gymnasium[mujoco]"', "gym:Ant-v5")
    else:
        print("SKIP a missing MuJoCo: it is there")
    try:
        import minigrid  # noqa: F401
    except ImportError:
        print("SKIP MiniGrid: it is not there")
        return
    player = Player("gym:MiniGrid-Empty-5x5-v0")
    seen = {name: part.dtype.name for name, part in player.reset(1).items()}
    report("MiniGrid without its text", seen == {"direction": "uint8", "image": "float32"}, f"{seen}")
    player.close()


def numbers():
    for dtype, number in (("uint64", 2**64 - 1), ("uint64", 2**64 - 2**31), ("uint64", 2**63), ("uint64", 2**31),
                          ("int64", 2**31), ("int64", -(2**31) - 1), ("uint32", 2**32 - 1)):
        refuses(f"{number} of {dtype}", "has a number at place 1 that no int32 is", "gym:zoo:Numbers-v0",
                dtype=dtype, number=str(number))
    for dtype, number in (("uint64", 2**31 - 1), ("int64", -(2**31)), ("int8", -128), ("uint16", 65535)):
        player = Player("gym:zoo:Numbers-v0", dtype=dtype, number=str(number))
        player.reset(1)
        seen = int(player.step(0)[0]["observation"][1])
        report(f"{number} of {dtype} is carried", seen == number, f"{seen}")
        player.close()


def stars():
    player = Player("gym:zoo:Stars-v0")
    first = int(player.reset(1)["observation"])
    last = int(player.step(65535)[0]["observation"])
    report("the largest spaces of whole numbers", (first, last) == (0, 2**31 - 1), f"{first} {last}")
    try:
        said = str(player.step(0)[0]["observation"])
    except Failed as failed:
        said = str(failed)
    report("a number far from its space", f"'observation' is {2**63 - 1}, the space says -5..{2**31 - 6}"
           in said, f"said: {said}")
    player.close()


def choices():
    player = Player("gym:zoo:Choices-v0")
    first = player.reset(1)["observation"].tolist()
    report("choices are one-hot, from their first values on",
           first == [255, 0, 0] + [255, 0] + [255, 0] + [255, 0, 0, 0], f"{first}")
    seen = player.step(2 * 8 + 3)[0]["observation"].tolist()
    report("and each has a place", seen == [0, 0, 255] + [0, 255] + [0, 255] + [0, 0, 0, 255], f"{seen}")
    try:
        said = str(player.step(4)[0]["observation"])
    except Failed as failed:
        said = str(failed)
    report("a choice that there is not", "'observation' is 9 at place 3, the space says 5..8" in said,
           f"said: {said}")
    player.close()
    player = Player("gym:zoo:Choices-v0", large=True)
    player.reset(1)
    seen = player.step(7)[0]["observation"].tolist()
    report("choices with many values stay numbers", seen == [[1, 0], [1, 12]], f"{seen}")
    player.close()
    player = Player("gym:zoo:Choices-v0", small=True)
    seen = player.reset(1)["observation"]
    report("those of bytes, too", seen.dtype == np.int32 and (seen == 9).all(), f"{seen}")
    player.close()


def images():
    player = Player("gym:zoo:Pictures-v0")
    seen = {name: (part.dtype.name, float(part.flat[-1])) for name, part in player.reset(1).items()}
    try:
        said = str(player.step(1)[0]["bytes"])
    except Failed as failed:
        said = str(failed)
    report("bytes beyond their bounds", "'bytes' is 10 at place 0, the space says 0..9" in said, said)
    player.close()
    expected = {"bytes": ("uint8", 85), "depth": ("float32", 0.5), "wide": ("float32", 0.2),
                "unit": ("float32", -0.5), "mask": ("float32", 1), "open": ("float32", 7),
                "huge": ("int32", 8), "vector": ("float32", 51)}
    for name, (dtype, number) in expected.items():
        fine = name in seen and seen[name][0] == dtype and abs(seen[name][1] - number) < 1e-6
        report(f"an image is scaled by its bounds, if at all: {name}", fine, f"{seen.get(name)}")


def pictures():
    """What is drawn for people."""
    ours = Player("gym:CartPole-v1", renders=1)
    theirs = gymnasium.make("CartPole-v1", render_mode="rgb_array")
    ours.reset(3), theirs.reset(seed=3)
    same = True
    for _ in range(5):
        picture = ours.picture()
        same &= picture is not None and np.array_equal(picture, theirs.render())
        ours.step(1), theirs.step(1)
    ours.close()
    report("CartPole draws Gymnasium's picture", same)

    painter = Player("gym:zoo:Painter-v0", renders=1)
    painter.reset(1), painter.step(0), painter.step(0)
    report("a picture that is not contiguous", np.array_equal(painter.picture(), np.full((4, 5, 3), 2)))
    for what, words in (
        ("grows", "its picture was 5 x 4 and is now 6 x 4"),
        ("grey", "render() gives uint8[4, 5], not uint8[height,width,3]"),
        ("broken", "RuntimeError: the brush broke"),
    ):
        painter = Player("gym:zoo:Painter-v0", renders=1, what=what)
        painter.reset(1)
        try:
            said = str(painter.picture())
        except Failed as failed:
            said = str(failed)
        report(f"a picture that is wrong: {what}", words in said, f"said: {said}")
        painter.close()

    for name, renders in (("Everything", 1), ("Painter", 0)):
        player = Player(f"gym:zoo:{name}-v0", renders=renders)
        player.reset(1)
        report(f"{name} with renders={renders} draws nothing", player.picture() is None)
        player.close()


def simulators():
    """Against modules of the same API, in the folder fake/."""
    for word, instructions in (("football", "github.com/google-research/football"),
                               ("dmlab", "github.com/google-deepmind/lab")):
        refuses(f"{word} says where it is to be had", instructions, word)
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "fake"))

    player = Player("football", game="academy_empty_goal", stacked=True)
    first = player.reset(9)["observation"].copy()
    seen, reward, terminated, truncated, _ = player.step(18)
    fine = player.space.discrete == 19 and first.shape == (72, 96, 16) and first[0, 0, 0] == 9
    fine &= seen["observation"][0, 0, 0] == 18 and (reward, terminated, truncated) == (-1, True, False)
    report("football is played through gfootball's functions", fine)
    player.close()

    player = Player("dmlab", width=40, height=36)
    first = player.reset(9)["observation"].copy()
    seen, reward, *ends, _ = player.step(6)
    fine = player.space.discrete == 9 and first.shape == (36, 40, 3) and first[0, 0, 0] == 9
    # Look left and go forward, four frames, in one number.
    fine &= seen["observation"][0, 0, 0] == 119 and reward == 4 and ends == [False, False]
    last = seen["observation"].copy()
    seen, _, *ends, _ = player.step(0)
    fine &= ends == [True, False] and np.array_equal(seen["observation"], last)
    report("dmlab is played through deepmind_lab's functions", fine)
    player.close()


def allowed(view, seen, random):
    """An action, as the learner gives it, that the mask of what is seen allows."""
    if view.box:
        low, high = (np.frombuffer(side, np.float32) for side in view.box[:2])
        return random.uniform(low, high).astype(np.float32)
    among = [view.count] if view.count else np.frombuffer(view.choices[0], np.int32).tolist()
    mask = seen.get("action_mask", np.ones(sum(among))).ravel()
    parts = np.split(mask, np.cumsum(among)[:-1])
    return np.array([random.choice(np.flatnonzero(part)) for part in parts], np.int32)


def outcome(function, action):
    try:
        return function(action)
    except (Failed, TypeError, ValueError) as error:
        return str(error)


def is_same(ours, theirs):
    return list(ours) == list(theirs) and all(
        np.array_equal(ours[key], theirs[key]) and ours[key].dtype == theirs[key].dtype
        for key in ours
    )


def same_numbers(ours, theirs):
    values = list(ours.values()), list(theirs.values())
    return list(ours) == list(theirs) and np.array_equal(*values, equal_nan=True)


def package(name):
    """The Python package's actor beside the bridge: rows, ends and errors, from the same seed and
    actions. How many episodes ended with numbers."""
    sys.path.append(os.path.join(BUILD, "..", "deploy", "python"))
    from acorn.world import View, World

    player, env, random = Player(f"gym:{name}"), gymnasium.make(name), np.random.default_rng(6)
    world = World(env, View(env, name))
    ours, theirs, same, ends = player.reset(3), world.reset(3), 0, 0
    for i in range(300):
        if not is_same(ours, theirs):
            break
        chosen = allowed(world.view, theirs, random)
        action = world.unpack(chosen.tobytes(), 1)[0]
        row, other = outcome(player.step, chosen), outcome(world.step, action)
        if isinstance(other, str):
            same += isinstance(row, str) and other in row
        else:
            (ours, *most, _), (theirs, *rest) = row, other
            same += most == [np.float32(rest[0]), *rest[1:]]
        if isinstance(other, str) or rest[1] or rest[2]:
            if not isinstance(other, str):
                numbers = dict(world.numbers())
                same -= not same_numbers(player.numbers, numbers)
                ends += len(numbers) > 0
            ours, theirs = player.reset(i), world.reset(i)
    report(f"the Python package's actor sees what the bridge sees: {name}", same == 300,
           f"{same} {ours} {theirs}")
    player.close()
    env.close()
    return ends


everything()
follow("CartPole-v1", disable_env_checker=True)
follow("Acrobot-v1")
follow("LunarLander-v3", gravity=-8)
follow("Pendulum-v1")
follow("LunarLander-v3", continuous=True)
faults()
casts()
boxes()
wrappers()
ends()
packages()
numbers()
stars()
choices()
images()
pictures()
simulators()
ended = sum(map(package, (
    "CartPole-v1", "Pendulum-v1", "zoo:Everything-v0", "zoo:Masked-v0", "zoo:Several-v0",
    "zoo:Choices-v0", "zoo:Boxed-v0", "zoo:Pictures-v0", "zoo:Stars-v0", "zoo:Loose-v0",
    "FrozenLake-v1",
)))  # fmt: skip
report("and the numbers of the last info, of which there are some", ended > 10, ended)
sys.exit(failures > 0)
