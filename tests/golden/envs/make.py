"""Makes the golden files of the native environments: python3 make.py, with numpy and gymnasium installed.

The tests need none of these. CartPole is computed here with math.sin and math.cos (libm's, as in C; numpy's own vector
versions differ in the last place on some machines) and every step is compared with stock Gymnasium, to 4 ulp.
"""

import math
import random

import gymnasium
import numpy as np


def ulps(a, b):
    return abs(a - b) / math.ulp(max(abs(a), abs(b), 1e-300))


# ---- pcg64.txt: seed, three raw 64-bit numbers, then three uniform numbers, all from one generator


def make_pcg64(out):
    for seed in (0, 1, 42, 123456789, 2**32 - 1, 2**32, 2**32 + 7, 2**53 + 1, 2**64 - 1):
        rng = np.random.default_rng(seed)
        raw = [int(rng.bit_generator.random_raw()) for _ in range(3)]
        uniform = [rng.random() for _ in range(3)]
        print(seed, *raw, *(x.hex() for x in uniform), file=out)


# ---- cartpole.txt


def cartpole_advance(state, action):
    x, x_dot, theta, theta_dot = state
    force = 10.0 if action == 1 else -10.0
    cosine, sine = math.cos(theta), math.sin(theta)
    total_mass = 0.1 + 1.0
    pole_mass_length = 0.1 * 0.5
    temp = (force + pole_mass_length * (theta_dot * theta_dot) * sine) / total_mass
    angular = (9.8 * sine - cosine * temp) / (0.5 * (4.0 / 3.0 - 0.1 * (cosine * cosine) / total_mass))
    linear = temp - pole_mass_length * angular * cosine / total_mass
    tau = 0.02
    return (x + tau * x_dot, x_dot + tau * linear, theta + tau * theta_dot, theta_dot + tau * angular)


def cartpole_fallen(state):
    limit = 12 * 2 * math.pi / 360
    return not (-2.4 <= state[0] <= 2.4 and -limit <= state[2] <= limit)


def check_against_gymnasium(env, state, action, after, fallen):
    env.unwrapped.state = np.array(state)
    env.unwrapped.steps_beyond_terminated = None
    _, reward, terminated, _, _ = env.unwrapped.step(action)
    assert reward == 1.0 and terminated == fallen
    for ours, theirs in zip(after, env.unwrapped.state):
        assert ulps(ours, float(theirs)) <= 4, (state, action, after, env.unwrapped.state)


def make_cartpole(out):
    env = gymnasium.make("CartPole-v1")
    for episode in range(20):
        seed = 42 if episode == 0 else episode * 1000003
        chance = random.Random(episode)
        env.reset(seed=seed)
        state = tuple(float(x) for x in np.random.default_rng(seed).uniform(-0.05, 0.05, 4))
        assert state == tuple(env.unwrapped.state)
        print("reset", seed, *(x.hex() for x in state), file=out)
        for step in range(200):
            if episode % 4 == 3:
                action = chance.randrange(2)
            else:  # the scripted policy, which keeps the pole up for longer
                action = 0 if np.float32(state[2]) < 0 else 1
            action = 1 if step == 0 and episode == 0 else action
            after = cartpole_advance(state, action)
            fallen = cartpole_fallen(after)
            check_against_gymnasium(env, state, action, after, fallen)
            state = after
            print("step", action, int(fallen), *(x.hex() for x in state), file=out)
            if fallen:
                break


# ---- catch.txt: the board as a string of 0 and 1


class Catch:
    def __init__(self, rows, columns, seed):
        self.rows, self.columns = rows, columns
        self.rng = np.random.default_rng(seed)

    def reset(self):
        self.ball = [0, int(self.rng.random() * self.columns)]
        self.paddle = self.columns // 2

    def board(self):
        cells = np.zeros((self.rows, self.columns), int)
        cells[tuple(self.ball)] = 1
        cells[self.rows - 1, self.paddle] = 1
        return "".join(map(str, cells.ravel()))

    def step(self, action):
        self.paddle = min(max(self.paddle + action - 1, 0), self.columns - 1)
        self.ball[0] += 1
        landed = self.ball[0] == self.rows - 1
        return (1 if self.ball[1] == self.paddle else -1) if landed else 0, landed


def make_catch(out):
    for number, (rows, columns) in enumerate([(10, 5)] * 4 + [(4, 7), (2, 1), (6, 2)]):
        seed = number if number < 3 else 2**40 + number
        chance = random.Random(number)
        world = Catch(rows, columns, seed)
        for episode in range(3):  # the first is seeded, the others go on
            world.reset()
            print("reset", rows, columns, seed if episode == 0 else "-", world.board(), file=out)
            landed = False
            while not landed:
                action = chance.randrange(3)
                reward, landed = world.step(action)
                print("step", action, reward, int(landed), world.board(), file=out)


# ---- tmaze.txt: the four signs as a string of 0 and 1

NORTH, EAST, SOUTH, WEST = range(4)


class TMaze:
    def __init__(self, length, seed):
        self.length = length
        self.rng = np.random.default_rng(seed)

    def reset(self):
        self.cue = NORTH if self.rng.random() < 0.5 else SOUTH
        self.position = self.steps = 0

    def signs(self):
        start, end = self.steps == 0, self.position == self.length
        return "%d%d%d%d" % (start and self.cue == NORTH, start and self.cue == SOUTH, not end, end)

    def step(self, action):
        self.steps += 1
        reward, over = 0, False
        if self.position < self.length:
            self.position += action == EAST
        elif action in (NORTH, SOUTH):
            reward, over = int(action == self.cue), True
        return reward, over or self.steps == 3 * self.length


def make_tmaze(out):
    for number, length in enumerate((10, 10, 10, 1, 2, 3, 50)):
        seed = number * 77
        chance = random.Random(number)
        world = TMaze(length, seed)
        for episode in range(5):
            world.reset()
            print("reset", length, seed if episode == 0 else "-", world.signs(), file=out)
            over = False
            while not over:
                # Mostly east; episode 4 never leaves the start, and runs into the limit.
                action = WEST if episode == 4 else EAST if chance.random() < 0.6 else chance.randrange(4)
                reward, over = world.step(action)
                print("step", action, reward, int(over), world.signs(), file=out)


def check_scripted_policy():
    """The table of the scripted policy, on stock Gymnasium."""
    env = gymnasium.make("CartPole-v1", max_episode_steps=200)
    returns = []
    for seed in range(500):
        observation, _ = env.reset(seed=seed)
        total, over = 0.0, False
        while not over:
            observation, reward, terminated, truncated, _ = env.step(0 if observation[2] < 0 else 1)
            total, over = total + reward, terminated or truncated
        returns.append(total)
    print("scripted policy:", np.mean(returns), repr(float(np.std(returns))), min(returns), max(returns))


if __name__ == "__main__":
    for name, make in (("pcg64", make_pcg64), ("cartpole", make_cartpole), ("catch", make_catch), ("tmaze", make_tmaze)):
        with open(name + ".txt", "w") as out:
            make(out)
    check_scripted_policy()
