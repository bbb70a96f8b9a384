#!/usr/bin/env python3
"""Draws docs/architecture.svg, the picture in the README and in docs/design.md.

Usage: scripts/architecture.py [--check]
--check writes nothing: it fails if the picture is not what this script draws.
"""
import html
import os
import sys

WIDTH, HEIGHT = 1000, 610
PATH = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "docs", "architecture.svg")

# The picture has its own background, so it can be read on any page; where the viewer asks for dark
# colours, it has dark ones.
STYLE = """
  text { font-family: system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328 }
  .title { font-size: 17px; font-weight: 600 }
  .name { font-size: 15px; font-weight: 600 }
  .text { font-size: 13px }
  .paper { fill: #ffffff }
  .host { fill: #f3f5f8; stroke: #8b95a1 }
  .part { fill: #ffffff; stroke: #8b95a1 }
  .device { fill: #e3f4e7; stroke: #2f8f4e }
  .data { stroke: #1f6fc9; stroke-width: 2.2; fill: none; marker-end: url(#data) }
  .data_head, .data_text { fill: #1f6fc9 }
  .starts { stroke: #6b7480; stroke-width: 1.6; stroke-dasharray: 5 4; fill: none;
            marker-end: url(#starts) }
  .starts_head { fill: #6b7480 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 }
    .paper { fill: #0d1117 }
    .host { fill: #161b22; stroke: #6e7681 }
    .part { fill: #21262d; stroke: #6e7681 }
    .device { fill: #12351f; stroke: #3fb950 }
    .data { stroke: #6cb0ff }
    .data_head, .data_text { fill: #6cb0ff }
    .starts { stroke: #9aa4af }
    .starts_head { fill: #9aa4af }
  }
"""


def text(x, y, words, style="text", anchor="start"):
    return f'<text x="{x}" y="{y}" class="{style}" text-anchor="{anchor}">{html.escape(words)}</text>'


def rectangle(x, y, width, height, style):
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="7" class="{style}"/>'


def box(x, y, width, height, name, lines, style="part"):
    """A part: its name and lines of text, centred."""
    centre = x + width / 2
    top = y + height / 2 - 9 * len(lines) + 5
    drawn = [rectangle(x, y, width, height, style), text(centre, top, name, "name", "middle")]
    for i, line in enumerate(lines):
        drawn.append(text(centre, top + 18 * (i + 1), line, "text", "middle"))
    return drawn


def arrow(style, *points):
    path = " L ".join(f"{x} {y}" for x, y in points)
    return [f'<path d="M {path}" class="{style}"/>']


def head(name):
    return (f'<marker id="{name}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="9" '
            f'markerHeight="9" markerUnits="userSpaceOnUse" orient="auto">'
            f'<path d="M 0 0 L 10 5 L 0 10 z" class="{name}_head"/></marker>')


def actor_hosts():
    drawn = []
    for shift in (12, 6, 0):  # a stack: there are several
        drawn.append(rectangle(20 + shift, 60 - shift, 248, 250, "host"))
    drawn.append(text(36, 86, "Actor hosts: CPU only", "title"))
    drawn += box(36, 102, 216, 80, "actor", ["steps K environments,", "has no copy of the network"])
    drawn.append(text(36, 210, "environments:"))
    for i, line in enumerate(["CartPole, Catch, T-maze (C)", "Atari, Gymnasium (Python)",
                              "your own, in C; your own actor,", "in any language with gRPC"]):
        drawn.append(text(46, 231 + 19 * i, line))
    return drawn


def evaluators():
    return ([rectangle(20, 350, 248, 110, "host"), text(36, 376, "Evaluators", "title")] +
            [text(36, 400, "actors that play greedily with"), text(36, 419, "the newest parameters;"),
             text(36, 438, "their steps are never trained on")])


def learner():
    drawn = [rectangle(420, 48, 560, 432, "host"),
             text(436, 76, "Learner: one process, on a CPU or one GPU", "title")]
    drawn += box(436, 96, 146, 76, "ingress", ["checks messages,", "decodes into rows"])
    drawn += box(620, 96, 146, 76, "batcher", ["collects rows", "of many actors"])
    drawn += box(804, 96, 160, 76, "inference", ["one forward pass,", "chooses the actions"], "device")
    drawn += box(436, 290, 240, 76, "pages", ["steps and windows of steps;", "FIFO or prioritised replay"],
                 "device")
    drawn += box(804, 290, 160, 76, "trainer", ["loss, gradient,", "optimiser"], "device")
    drawn += box(856, 208, 108, 44, "weights", [], "device")
    drawn += box(436, 404, 240, 60, "metrics, status", ["TensorBoard, Prometheus, JSON"])
    drawn += box(744, 404, 220, 60, "checkpoints", ["files: resume, evaluate, watch"])
    drawn += arrow("data", (582, 134), (619, 134))
    drawn += arrow("data", (766, 134), (803, 134))
    drawn += arrow("data", (840, 172), (840, 264), (556, 264), (556, 289))
    drawn += [text(700, 256, "steps as they were played", "text data_text", "middle")]
    drawn += arrow("data", (676, 328), (803, 328))
    drawn += [text(740, 319, "training batch", "text data_text", "middle")]
    drawn += arrow("data", (910, 290), (910, 253))
    drawn += arrow("data", (910, 208), (910, 173))
    drawn += arrow("data", (884, 366), (884, 403))
    return drawn


def streams():
    drawn = arrow("data", (280, 134), (435, 134))
    drawn += [text(344, 108, "gRPC stream", "name", "middle"),
              text(344, 126, "Steps: K rows", "text data_text", "middle")]
    drawn += arrow("data", (820, 172), (820, 214), (281, 214))
    drawn += [text(338, 206, "Actions: K", "text data_text", "middle")]
    drawn += arrow("data", (268, 405), (396, 405), (396, 152), (435, 152))
    drawn += [text(342, 397, "same stream", "text data_text", "middle")]
    return drawn


def launcher():
    drawn = [rectangle(20, 530, 960, 60, "part"),
             text(36, 555, "Launcher and supervisor", "name"),
             text(36, 576, "run_local.sh on one machine; fleet.sh over ssh; run_task.sh in a cluster"),
             text(964, 566, "one command; restarts actors that die", "text", "end")]
    drawn += arrow("starts", (144, 530), (144, 461))
    drawn += arrow("starts", (286, 530), (286, 332), (200, 332), (200, 311))
    drawn += arrow("starts", (700, 530), (700, 481))
    return drawn


def legend():
    drawn = arrow("data", (420, 24), (450, 24)) + [text(458, 28, "data")]
    drawn += arrow("starts", (520, 24), (550, 24)) + [text(558, 28, "starts and restarts")]
    drawn += [rectangle(704, 16, 28, 16, "device"),
              text(740, 28, "on the device: the CPU, or a GPU")]
    return drawn


def picture():
    parts = legend() + actor_hosts() + evaluators() + learner() + streams() + launcher()
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" role="img" aria-labelledby="title">',
        "<!-- Written by scripts/architecture.py. -->",
        '<title id="title">Acorn: actors step environments and stream observations to one learner, '
        "which answers with actions and trains</title>",
        f"<style>{STYLE}</style>",
        f"<defs>{head('data')}{head('starts')}</defs>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="10" class="paper"/>', *parts, "</svg>", ""
    ])


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__.strip())
    if sys.argv[1:]:
        with open(PATH, encoding="utf-8") as file:
            if file.read() != picture():
                sys.exit("docs/architecture.svg is not what scripts/architecture.py draws: run it")
    else:
        with open(PATH, "w", encoding="utf-8") as file:
            file.write(picture())


main()
