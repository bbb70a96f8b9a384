"""The Atari of the bridge against Gymnasium's AtariPreprocessing, frame by frame: 3 games x 1,000
steps of random actions. Then what that cannot show: no-ops, the cap on frames, lives, resizing by
OpenCV's linear rule. Prints PASS or FAIL for each."""

import sys

import ale_py
import gymnasium
import numpy as np
from bridge import Failed, Player
from gymnasium.wrappers import AtariPreprocessing

failures = 0
gymnasium.register_envs(ale_py)
ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)

# Our sums over areas are exact and halves are rounded up; OpenCV sums float32 products and rounds
# halves to even. So a pixel may differ by one.
LARGEST_DIFFERENCE = 1


def report(name, fine, words=""):
    global failures
    failures += not fine
    print(f"{'PASS' if fine else 'FAIL'} {name} {words}".rstrip())


def reference(game, emulator={}, **options):
    env = gymnasium.make(f"ALE/{game}-v5", frameskip=1, repeat_action_probability=0.0, **emulator)
    return AtariPreprocessing(env, noop_max=0, frame_skip=4, **options)


def compare(game):
    ours, theirs = Player("atari", game=game, noops=0), reference(game)
    random = np.random.default_rng(1)
    picture, largest, differing, endings = ours.reset(1)["screen"], 0, 0, 0
    expected = theirs.reset(seed=1)[0]
    same = ours.space.discrete == theirs.action_space.n

    def look():
        nonlocal largest, differing
        difference = np.abs(picture.astype(int) - expected)
        largest, differing = max(largest, difference.max()), differing + (difference > 0).sum()

    for _ in range(1000):
        look()
        action = int(random.integers(ours.space.discrete))
        _, reward, terminated, truncated, _ = ours.step(action)
        expected, *rest, _ = theirs.step(action)
        same &= [reward, terminated, truncated] == rest
        if terminated or truncated:
            look()  # the last one, of a step that the end has cut short
            endings += 1
            ours.reset()
            expected = theirs.reset()[0]
    ours.close()
    report(
        f"{game}: 1,000 steps as AtariPreprocessing has them", same and largest <= LARGEST_DIFFERENCE,
        f"(rewards and ends {'equal' if same else 'DIFFER'}, {endings} ends; largest difference of a pixel "
        f"{largest}, {differing} of {1000 * 84 * 84} pixels differ)",
    )


def cut_short():
    """The last row of an episode that is cut after 1 to 4 of a step's 4 frames, and the one before:
    the screens that the cut step has not fetched are those of the step before."""
    fine, words = True, []
    for max_frames in range(41, 45):
        ours = Player("atari", game="Breakout", noops=0, max_frames=max_frames)
        theirs = reference("Breakout", emulator={"max_num_frames_per_episode": max_frames})
        ours.reset(1), theirs.reset(seed=1)
        for t in range(1, 12):
            seen, reward, *ends, _ = ours.step(1 + t % 3)
            expected, their_reward, *their_ends, _ = theirs.step(1 + t % 3)
            difference = np.abs(seen["screen"].astype(int) - expected).max()
            fine &= difference <= LARGEST_DIFFERENCE and [reward, *ends] == [their_reward, *their_ends]
        words.append((t, ends, int(difference)))
        fine &= ends == [False, True]
        ours.close()
    report("the last row of an episode that is cut within a step", fine, f"{words}")


def colours(game):
    """The game's own screen after steps and after a reset, and its words for the actions."""
    ours, theirs = Player("atari", game=game, noops=0), reference(game)
    ours.reset(1), theirs.reset(seed=1)
    emulator, same = theirs.unwrapped.ale, True
    for t in range(40):
        same &= np.array_equal(ours.picture(), emulator.getScreenRGB())
        ours.step(t % 3), theirs.step(t % 3)
    words = [ours.env.action_name(ours.instance, a).decode() for a in range(ours.space.discrete)]
    same &= words == [word.lower() for word in theirs.unwrapped.get_action_meanings()]
    same &= ours.picture().shape == (210, 160, 3) and len(np.unique(ours.picture())) > 3
    ours.close()
    report(f"{game}: its own screen in colour, and words for its actions", same, f"{words}")


def episode(player, action=0):
    """Steps, score, whether it was cut."""
    steps, score = 0, 0
    while True:
        _, reward, terminated, truncated, goes_on = player.step(action)
        steps, score = steps + 1, score + reward
        if goes_on:
            player.reset()
        elif terminated or truncated:
            return steps, score, truncated


def cap():
    player = Player("atari", game="Breakout", noops=0, max_frames=402)
    player.reset(1)
    report("an episode is cut after its frames", episode(player) == (101, 0, True))
    player.reset()
    report("and the next one begins anew", episode(player) == (101, 0, True))
    player.close()


def noops():
    """Their number shows in the length of an episode that is cut."""
    player = Player("atari", noops=30, frame_skip=1, max_frames=100)
    lengths = []
    for seed in range(30):
        player.reset(seed)
        lengths.append(episode(player)[0])
    player.close()
    inside = min(lengths) >= 70 and max(lengths) <= 99
    report("1 to 30 no-ops", inside and len(set(lengths)) > 12, f"({len(set(lengths))} lengths)")


def noops_without_one():
    """Games whose own actions have no no-op: the emulator's is played, not the first of them."""
    for game in ("backgammon", "video_checkers", "breakout"):
        player = Player("atari", game=game, noops=30)
        ale = ale_py.ALEInterface()
        ale.setFloat("repeat_action_probability", 0.0)
        ale.setInt("random_seed", 1)
        ale.loadROM(ale_py.roms.get_rom_path(game))
        player.reset(1)
        shown, same = player.picture(), False
        ale.reset_game()
        for _ in range(30):
            ale.act(ale_py.Action.NOOP)
            same |= np.array_equal(shown, ale.getScreenRGB())
        player.close()
        report(f"{game} begins with no-ops", same)


def names():
    """However they are written."""
    for game in ("Space Invaders", "space_invaders", "Space-Invaders"):
        try:
            Player("atari", game=game).close()
            said = ""
        except Failed as failed:
            said = str(failed)
        report(f"the game '{game}' is found", not said, said)


def lives():
    """A lost life ends what the learner sees, and not the game: score and length stay."""
    scores = []
    for life_loss in (False, True):
        player = Player("atari", game="SpaceInvaders", noops=0, life_loss=life_loss)
        player.reset(1)
        ends = 0
        steps = score = 0
        while True:
            _, reward, terminated, _, goes_on = player.step(1)
            steps, score, ends = steps + 1, score + reward, ends + terminated
            if terminated and not goes_on:
                break
            if goes_on:
                player.reset()
        player.close()
        scores.append((score, ends))
    whole, by_lives = scores
    fine = whole[1] == 1 and by_lives[1] == 3 and by_lives[0] == whole[0] > 0
    report("life_loss shows 3 ends in a game, and the same score", fine, f"({scores})")


def linear():
    import cv2

    player = Player("atari", game="Qbert", noops=0, resize="linear")
    frame = player.reset(1)["screen"]
    ale = ale_py.ALEInterface()
    ale.loadROM(ale_py.roms.get_rom_path("qbert"))
    ale.reset_game()
    expected = cv2.resize(ale.getScreenGrayscale(), (84, 84), interpolation=cv2.INTER_LINEAR)
    difference = np.abs(frame.astype(int) - expected).max()
    # OpenCV cuts bits off between its two passes.
    report("resize=linear is OpenCV's INTER_LINEAR", difference <= 1, f"(largest difference {difference})")
    player.close()


def refusals():
    for options, words in (
        ({"game": "Brakout"}, "the nearest: Breakout"),
        ({"gamme": "Pong"}, "did you mean 'game'"),
        ({"frame_skip": "4"}, "takes a whole number"),
        ({"sticky_actions": 2.0}, "is not in 0..1"),
        ({"resize": "cubic"}, "not area or linear"),
        ({"mode": 99}, "not 99"),
        ({"mode": -7}, "'mode' is -7"),
        ({"difficulty": -2}, "'difficulty' is -2"),
        ({"sticky_actions": True}, "takes a number, not true"),
    ):
        try:
            Player("atari", **options)
            said = "nothing"
        except Failed as failed:
            said = str(failed)
        report(f"atari refuses {options}", words in said, "" if words in said else said)


def chance():
    """Sticky actions follow from the seed."""
    frames = []
    for seed in (1, 1, 2):
        player = Player("atari", game="Breakout", noops=0, sticky_actions=0.25)
        player.reset(seed)
        frames.append([player.step(t % 4)[0]["screen"].copy() for t in range(60)])
        player.close()
    report("sticky actions follow from the seed", np.array_equal(frames[0], frames[1]))
    report("and differ with it", not np.array_equal(frames[0], frames[2]))


for name in ("Pong", "Breakout", "SpaceInvaders"):
    compare(name)
cut_short()
colours("Breakout")
cap()
noops()
noops_without_one()
names()
lives()
linear()
chance()
refusals()
sys.exit(failures > 0)
