"""Reads the images of a run folder as TensorBoard does: what a network that stacks four frames of
Catch (10 x 5 cells on 40 x 40 pixels) has seen.

Usage: read_images.py RUN. Prints a line "PASS name" or "FAIL name: why" for each check.
"""
import io
import sys

import numpy as np
from PIL import Image
from tensorboard.backend.event_processing import event_accumulator

STACK, ROWS, FACTOR, SIDE, GAP, GREY = 4, 4, 3, 40, 2, 64
failures = 0


def check(name, problem):
    global failures
    failures += bool(problem)
    print(f"FAIL {name}: {problem}" if problem else f"PASS {name}")


events = event_accumulator.EventAccumulator(sys.argv[1], {"images": 0})
events.Reload()
images = events.Images("observation/network_input") if "observation/network_input" in events.Tags()["images"] else []
pictures = [np.asarray(Image.open(io.BytesIO(e.encoded_image_string)).convert("L")) for e in images]


def sizes():
    length = STACK * SIDE * FACTOR + (STACK - 1) * GAP
    for event, picture in zip(images, pictures):
        if picture.shape != (length, length) or (event.height, event.width) != picture.shape:
            return f"{picture.shape}, said to be {event.height} x {event.width}"
    return "" if images else "there is none"


def cells(picture, row, frame):
    """The rows and columns of Catch's board that are lit."""
    step = SIDE * FACTOR + GAP
    tile = picture[row * step :, frame * step :][: SIDE * FACTOR, : SIDE * FACTOR]
    board = tile.reshape(10, 4 * FACTOR, 5, 8 * FACTOR)
    if board.min((1, 3)).tolist() != board.max((1, 3)).tolist():
        return f"cells that are not of one colour in row {row}, frame {frame}"
    return [tuple(map(int, cell)) for cell in np.argwhere(board.max((1, 3)) == 255)]


def frames():
    """The newest frame is on the left, and in each the ball is one row higher; before an episode
    there is nothing."""
    for picture in pictures:
        for row in range(ROWS):
            boards = [cells(picture, row, frame) for frame in range(STACK)]
            if not boards[0]:
                return f"nothing is seen in row {row}"
            for newer, older in zip(boards, boards[1:]):
                if older and (older[0][0] != newer[0][0] - 1 or older[0][1] != newer[0][1]):
                    return f"the ball is in {older} before {newer}"
                if older and not newer:
                    return f"a frame before the beginning: {boards}"
    return ""


def steps():
    found = [event.step for event in images]
    return f"at the steps {found}" if found != sorted(set(found)) else ""


check("TensorBoard shows images of what the network sees", sizes())
check("they are the network's stacked frames", frames())
check("each stands at a step of its own", steps())
sys.exit(failures > 0)
