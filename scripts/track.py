#!/usr/bin/env python3
"""Sends runs to an experiment tracker: the metrics of metrics.jsonl, by environment steps, with the
options of config.txt as the configuration and what run.json and result.json have as tags. A run is
one run of the tracker also when it is resumed, or when this script is started again: what has been
sent is not sent again (RUN/tracker-wandb.json, RUN/tracker-mlflow.json).

  scripts/track.py runs/mine --to=mlflow            a run that is over, or as far as it is
  scripts/track.py runs/mine --to=wandb --follow    also what is to come, until the run is over
  scripts/track.py runs/my-sweep --to=wandb         each run in the folder

The tracker's own variables apply: MLFLOW_TRACKING_URI, WANDB_MODE=offline, WANDB_ENTITY, ...
Exit code 0: all is sent; 1: the tracker refused it; 2: wrong options, no run, or the package of the
tracker is missing; 130: stopped; started again it goes on.
"""
import argparse
import datetime
import json
import math
import os
import signal
import sys
import time
import uuid

POLL_S = 1
AT_ONCE = 200  # points, before what has been sent is written down
MLFLOW_METRICS, MLFLOW_PARAMS = 1000, 100  # of one request, at most


def fail(text, code=2):
    print(f"track.py: {text}", file=sys.stderr)
    sys.exit(code)


# ---- a run folder

def open_file(folder, name, mode="r"):
    """A regular file: a FIFO would be waited for, and a device may have no end."""
    path = os.path.join(folder, name)
    if os.path.exists(path) and not os.path.isfile(path):
        fail(f"{path} cannot be read: it is no regular file")
    return open(path, mode)


def read_config(folder):
    """The effective options; a commented row is one that belongs to that start alone."""
    config = {}
    with open_file(folder, "config.txt") as file:
        for line in file:
            name, equals, value = line.strip().partition(" = ")
            if equals and not name.startswith("#"):
                config[name] = value_of(value)
    return config


def value_of(text):
    """Numbers and truth values as such, since trackers sort by them; words without quotes."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, (str, int, float)) else text


def read_json(folder, name):
    try:
        with open_file(folder, name) as file:
            return json.load(file)
    except (OSError, ValueError):
        return {}


def scalars(prefix, values):
    return {prefix + name: value for name, value in values.items()
            if isinstance(value, (str, int, float)) and value != ""}


def read_tags(folder):
    """Where a run comes from and what it came to, of its newest start."""
    record = read_json(folder, "run.json")
    starts = record.get("starts") or [{}]
    return {**scalars("", record), **scalars("", starts[-1]),
            **scalars("result.", read_json(folder, "result.json"))}


def has_failed(tags):
    """3: it ended at its budget before its target; 130: Ctrl-C stopped it in order."""
    return tags.get("result.exit_code", 0) not in (0, 3, 130)


def seconds_of(text):
    """Of "2026-11-20T10:00:00Z", as time.time() counts; None: it is no time."""
    try:
        return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except (AttributeError, ValueError):
        return None


def started_at(folder):
    """When the run was begun."""
    starts = read_json(folder, "run.json").get("starts") or [{}]
    return seconds_of(starts[0].get("started"))


def is_held(folder):
    """Whether a learner of this machine holds the folder's lock; taking it to try could make a
    learner that starts at that moment fail."""
    try:
        inode = os.stat(os.path.join(folder, "lock")).st_ino
        with open("/proc/locks") as file:
            return any(":FLOCK" in line.replace(" ", "") and f":{inode} " in line for line in file)
    except OSError:
        return False


class Lines:
    """The whole lines of metrics.jsonl, each once."""

    def __init__(self, folder):
        self.folder = folder
        self.offset = 0

    def take(self):
        try:
            with open_file(self.folder, "metrics.jsonl", "rb") as file:
                if file.seek(0, os.SEEK_END) < self.offset:  # a resume has cut it
                    self.offset = 0
                file.seek(self.offset)
                text = file.read()
        except FileNotFoundError:
            return
        text = text[:text.rfind(b"\n") + 1]  # the last one may be half written
        self.offset += len(text)
        for line in text.splitlines():
            try:
                values = json.loads(line)
                yield int(values.pop("step")), {
                    name: float(value) for name, value in values.items()
                    if isinstance(value, (int, float)) and math.isfinite(value)}
            except (ValueError, KeyError, AttributeError, TypeError):
                continue  # of a machine that went down, as the other readers do


# ---- trackers: open a new run or go on with one, send points, close it

class Mlflow:
    package = "mlflow"

    def __init__(self, project, folder, run_id, config, tags):
        from mlflow import MlflowClient
        from mlflow.entities import Param
        from mlflow.exceptions import MlflowException
        self.client = MlflowClient()
        if run_id:
            try:
                self.client.update_run(run_id, status="RUNNING")
            except MlflowException as error:
                fail(f"mlflow does not go on with its run {run_id}: {error}; remove the run "
                     "folder's tracker-mlflow.json to send it as a new one", 1)
        else:
            experiment = self.client.get_experiment_by_name(project)
            experiment_id = (experiment.experiment_id if experiment
                             else self.client.create_experiment(project))
            started = started_at(folder)
            run_id = self.client.create_run(experiment_id, run_name=name_of(folder),
                                            start_time=started and int(1000 * started)).info.run_id
            params = [Param(key, str(value)[:500]) for key, value in config.items()]
            for i in range(0, len(params), MLFLOW_PARAMS):
                self.client.log_batch(run_id, params=params[i:i + MLFLOW_PARAMS])
        self.run_id = run_id
        self.tag(tags)

    def tag(self, tags):
        for key, value in tags.items():
            self.client.set_tag(self.run_id, key, str(value)[:5000])

    @staticmethod
    def name_of(metric):
        """Names must be paths, which env/..., with the environment's own words, need not be."""
        return "/".join(part for part in metric.split("/") if part not in ("", ".", ".."))

    def send(self, points):
        """Points of (step, milliseconds, values)."""
        from mlflow.entities import Metric
        metrics = [Metric(self.name_of(key), value, when, step)
                   for step, when, values in points for key, value in values.items()]
        for i in range(0, len(metrics), MLFLOW_METRICS):
            self.client.log_batch(self.run_id, metrics=metrics[i:i + MLFLOW_METRICS])

    def close(self, tags):
        self.tag(tags)
        if "result.exit_code" in tags:  # else it goes on, or nothing has seen it end
            ended = seconds_of(tags.get("result.ended"))
            self.client.set_terminated(self.run_id, "FAILED" if has_failed(tags) else "FINISHED",
                                       ended and int(1000 * ended))


class Wandb:
    package = "wandb"

    def __init__(self, project, folder, run_id, config, tags):
        import wandb
        self.run_id = run_id or uuid.uuid4().hex[:12]
        # wandb keeps files of its own, by default in the folder where the command is typed.
        self.run = wandb.init(project=project, name=name_of(folder), id=self.run_id, resume="allow",
                              dir=os.environ.get("WANDB_DIR", folder),
                              config={**config, **{f"run.{key}": tags[key] for key in tags}})

    def send(self, points):
        for step, _, values in points:
            self.run.log(values, step=step)

    def close(self, tags):
        self.run.summary.update({key: tags[key] for key in tags if key.startswith("result.")})
        self.run.finish(tags["result.exit_code"] if has_failed(tags) else None)


# ---- sending

class Sender:
    """One run: what of it has been sent is kept beside it."""

    def __init__(self, tracker, project, folder):
        self.folder = folder
        self.path = os.path.join(folder, f"tracker-{tracker.package}.json")
        self.lines = Lines(folder)
        state = read_json(folder, os.path.basename(self.path))
        self.step = state.get("step", -1)
        self.begin = state.get("begin")
        self.tracker = tracker(project, folder, state.get("run_id"), read_config(folder),
                               read_tags(folder))
        self.write()

    def write(self):
        with open(self.path + ".new", "w") as file:
            json.dump({"run_id": self.tracker.run_id, "step": self.step, "begin": self.begin}, file)
        os.replace(self.path + ".new", self.path)

    def new_points(self):
        """A run that was killed and resumed repeats some steps: they have been sent."""
        newest = self.step
        for step, values in self.lines.take():
            if self.begin is None:
                self.begin = started_at(self.folder) or time.time() - values.get("seconds", 0)
            if step > newest:
                newest = step
                yield step, int(1000 * (self.begin + values.get("seconds", 0))), values

    def send(self):
        """What is new; whether there was any."""
        points = list(self.new_points())
        for i in range(0, len(points), AT_ONCE):
            if stopping:
                break
            self.tracker.send(points[i:i + AT_ONCE])
            self.step = points[i:i + AT_ONCE][-1][0]
            self.write()
        return len(points) > 0

    def follow(self, idle_s):
        """Until the learner has gone, or, where that cannot be seen, nothing has come for a time."""
        was_held, last = False, time.monotonic()
        while not stopping:
            held = is_held(self.folder)  # before what it may have written at its end is read
            if self.send():
                last = time.monotonic()
            if was_held and not held or not held and time.monotonic() - last > idle_s:
                return
            was_held = held
            time.sleep(POLL_S)

    def close(self):
        self.tracker.close(read_tags(self.folder))


def find_runs(word):
    """A run folder, or those below it. What is below a run folder is of its other learners."""
    found = []
    for path, folders, names in os.walk(word):
        if "config.txt" in names:
            found.append(path)
            folders.clear()
    if not found:
        fail(f"{word} holds no run: there is no config.txt in it")
    return sorted(found)


def name_of(folder):
    """runs/my-sweep/a=1/seed-1 is my-sweep/a=1/seed-1."""
    path = os.path.relpath(folder)
    if path.startswith("."):
        return os.path.basename(os.path.abspath(folder))
    return path[len("runs/"):] if path.startswith("runs/") else path


def read_words():
    parser = argparse.ArgumentParser(prog="scripts/track.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", nargs="+", metavar="RUN", help="a run folder, or a folder of them")
    parser.add_argument("--to", required=True, choices=["mlflow", "wandb"])
    parser.add_argument("--project", default="acorn",
                        help="wandb's project, mlflow's experiment; default: acorn")
    parser.add_argument("--follow", action="store_true", help="send what is to come, too")
    parser.add_argument("--idle_s", type=float, default=60,
                        help="--follow, for a run of another machine: it is over when nothing has "
                        "come for so long; default: 60")
    return parser.parse_args()


def check_package(tracker):
    try:
        __import__(tracker.package)
    except ModuleNotFoundError as error:
        if error.name != tracker.package:
            raise
        fail(f"{sys.executable} has no package {tracker.package}. In an environment of its own: "
             f"python3 -m venv trackers && trackers/bin/pip install {tracker.package}; then "
             "trackers/bin/python scripts/track.py ...")


stopping = []


def stop(signum, frame):
    """Between two requests: one that is cut off would be sent again. A second signal ends it."""
    stopping.append(signum)
    signal.signal(signum, signal.SIG_DFL)


def main():
    words = read_words()
    tracker = {"mlflow": Mlflow, "wandb": Wandb}[words.to]
    runs = [run for word in words.run for run in find_runs(word)]
    if words.follow and len(runs) > 1:
        fail(f"--follow takes one run, these are {len(runs)}")
    check_package(tracker)
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    for folder in runs:
        sender = Sender(tracker, words.project, folder)
        if words.follow:
            sender.follow(words.idle_s)
        else:
            sender.send()
        sender.close()
        print(f"track.py: {folder} is sent to {words.to} as {sender.tracker.run_id}, up to step "
              f"{sender.step}", file=sys.stderr)
        if stopping:
            fail("stopped; started again it goes on", 130)


main()
