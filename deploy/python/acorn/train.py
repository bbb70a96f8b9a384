"""`acorn train gym:ID`: a learner and actors in Python. The programs of this package have no bridge
to Python, which is compiled for one Python, so the actors are processes of this one (actor.py).
scripts/eval.sh evaluates such a run so, too."""
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from acorn.bundle import ROOT, AcornError
from acorn.environment import (CODE, check_code, find, newest_run, of_name, plain_name,
                               recorded, split)
from acorn.world import View

MOST_DEATHS = 5  # of an actor that has never stepped
LONGEST_PAUSE_S = 60
GRACE_S = 2  # for actors to close their environments
LOG_BYTES = 8 << 20  # of an actor: of a longer one the newest half stays
TAIL_BYTES = 4000  # of a log that are shown
EXIT_RUN_OVER = 77  # of an actor; 0 may be its environment's
# Options of run_local.sh that are not here, the values with which they ask for what is here anyway,
# and what to do instead.
MISSING = {
    "module": ((), "write gym:MODULE:ID or --wrapper=MODULE:CLASS, with the module installed or in "
               "PYTHONPATH"),
    "learners": (("1",), "acorn train gym:ID starts one learner: leave it out"),
    "spare_learners": (("0",), "acorn train gym:ID starts one learner: leave it out"),
    "evaluators": (("0",), "acorn train gym:ID has no evaluators: leave it out, and play the "
                   "policy by acorn eval RUN"),
    "eval_envs": (("0",), "acorn train gym:ID has no evaluators: leave it out, and play the policy by "
                  "acorn eval RUN"),
    "max_deaths": ((str(MOST_DEATHS),), "an actor that has never stepped is given up after "
                   f"{MOST_DEATHS} deaths: leave it out"),
    "reconnect_s": ((), "actors of acorn train gym:ID end with their learner: leave it out"),
    "plot": (("false", "0", "no", "off"), "acorn train gym:ID draws no curve: leave it out, and "
             "draw it by acorn plot RUN"),
}


def _refuse_missing(flags):
    """The flags without those that ask for what is here anyway. Errors: AcornError: others of
    MISSING."""
    kept = []
    for flag in flags:
        name, value = split(flag)
        if name in ("no_plot", *MISSING):
            harmless, instead = MISSING.get(name, ((None, "true", "1", "yes", "on"), "leave it out"))
            if value not in harmless:
                raise AcornError(f"{flag}: {instead}")
        else:
            kept.append(flag)
    return kept


def _read_words(words):
    """ENV [AGENT [ACTORS [ENVS]]] and flags, as run_local.sh takes them."""
    plain = [word for word in words if not word.startswith("--")]
    flags = [word for word in words if word.startswith("--")]
    defaults = [None, "ppo", min(os.cpu_count() or 1, 4), 16]
    env, agent, actors, envs = plain[:4] + defaults[len(plain):]
    flags = _refuse_missing(flags)
    try:
        actors, envs = int(actors), int(envs)
    except ValueError:
        actors = 0
    if len(plain) > 4 or actors < 1 or envs < 1:
        raise AcornError("say acorn train gym:ID [AGENT [NUM_ACTORS [ENVS_PER_ACTOR]]], and "
                         f"options as --name=value; not {' '.join(plain)}")
    return env, agent, actors, envs, flags


def _find_folder(env, agent, flags, options):
    """That of --logdir, or of the run that --resume goes on with, which becomes a flag; None: the
    learner makes a new one."""
    folder = options.get("logdir", options.get("job_dir"))
    if folder or options.get("resume", "false") not in (None, "true", "1", "yes", "on"):
        return folder
    folder = newest_run(env, agent)
    if folder:
        flags.append(f"--logdir={folder}")
    return folder


def make(environment, env, renders=False):
    """Errors: AcornError, which says where it may be if `env` did not."""
    try:
        return environment.make(renders)
    except AcornError as error:
        if env.startswith("gym:"):
            raise
        raise AcornError(f"{error}; the run's actors brought the environment: say where it is "
                         "here, --env=./my_env.so or --env=gym:ID") from None


def _name(environment, made, folder, evaluates):
    """What the learner knows the environment by. A run goes on with the name that it began with,
    which had no module in the first version of this package."""
    before = recorded(folder)
    is_same = evaluates or of_name(before) == environment or (
        not environment.args and before == plain_name(made.spec.id))
    return before if before and is_same else environment.name()


class _Actor:
    """A process that plays, in a session of its own, which ends with it: environments may have
    started processes. When it dies it is started again: after 1, 2, 4 ... 60 s, and after 1 s
    again once it has worked for a minute; at once while it has never stepped, but not for ever."""
    shown = None  # of all actors: the death whose output was shown last

    def __init__(self, index, folder, words):
        self.index, self.log, self.mark = index, folder / f"{index}.log", folder / f"{index}.steps"
        self.words = [sys.executable, "-m", "acorn.actor", *words, str(index), self.mark]
        self.deaths, self.is_over = 0, False
        self._start()

    def _start(self):
        self.start_s, self.started_s = None, time.monotonic()
        with open(self.log, "ab") as log:
            self.begin = log.tell()  # of this life's output
            self.process = subprocess.Popen(self.words, stdout=log, stderr=log,
                                            stdin=subprocess.DEVNULL, start_new_session=True)
            self.group = self.process.pid

    def end(self):
        """With what its environments have started."""
        group, self.group = self.group, None
        if group:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        self.process.wait()

    def look(self):
        """Starts it again if it is time to. Whether it plays, or will."""
        self._bound_log()
        now_s, code = time.monotonic(), self.process.poll()
        if code is None or self.is_over:
            return not self.is_over
        if self.start_s is None:
            self._count_death(now_s, code)
        elif now_s >= self.start_s:
            self._start()
        return not self.is_over

    def _bound_log(self):
        """An environment may print at each step, for days."""
        size = self.log.stat().st_size
        if size > LOG_BYTES:
            with open(self.log, "r+b") as log:
                log.seek(size - LOG_BYTES // 2)
                newest = log.read(LOG_BYTES // 2).partition(b"\n")[2]
                log.truncate(0)
            with open(self.log, "ab") as log:  # as the actor itself, which writes meanwhile
                log.write(newest)
            self.begin = 0

    def tail(self):
        """The last whole lines of what it has printed since it was started."""
        with open(self.log, "rb") as log:
            begin = max(self.begin, self.log.stat().st_size - TAIL_BYTES)
            log.seek(begin)
            text = log.read(TAIL_BYTES).decode(errors="replace")
        return text if begin == self.begin else text.partition("\n")[2]

    def _show(self, tail, how):
        """Numbers aside, deaths are alike whose last lines are."""
        how = re.sub("[0-9]+", "", how)
        if tail and how != _Actor.shown:
            _Actor.shown = how
            print(f"---- the last lines of actor {self.index}\n{tail.rstrip()}\n----",
                  file=sys.stderr)

    def _count_death(self, now_s, code):
        self.end()
        stepped = self.mark.exists()
        is_long = stepped and now_s - self.started_s >= LONGEST_PAUSE_S
        self.deaths = 1 if is_long else self.deaths + 1
        self.is_over = code == EXIT_RUN_OVER or not stepped and self.deaths >= MOST_DEATHS
        if not self.is_over:
            pause_s = min(2 ** (self.deaths - 1), LONGEST_PAUSE_S) if stepped else 0.2
            self.start_s = now_s + pause_s
            tail = self.tail()
            last = tail.rstrip().rpartition("\n")[2]
            how = f"exit code {code}: {last}" if code >= 0 else f"signal {-code}"
            self._show(tail, how)
            print(f"actor {self.index} is started again in {pause_s} s; it has died by {how}",
                  file=sys.stderr)


def _wait(learner, actors):
    """Until the learner has ended, or no actor is left to play: that is an error of theirs."""
    while learner.poll() is None:
        if not any([actor.look() for actor in actors]):
            try:
                learner.wait(10)  # the run may just be over
            except subprocess.TimeoutExpired:
                learner.terminate()
                learner.wait()
                sys.stderr.write(actors[0].tail())
                raise AcornError("every actor has ended, the first as above") from None
        time.sleep(0.05)
    return learner.returncode


def train(words):
    """The learner's exit code. Errors: AcornError."""
    env, agent, count, envs, flags = _read_words(words)
    options = dict(map(split, flags))
    logdir, role = _find_folder(env, agent, flags, options), options.get("mode", "train")
    environment = find(env, logdir, options)
    check_code(environment, [env, *flags])
    flags = [flag for flag in flags if split(flag)[0] not in (*CODE, "env_args", "wrapper")]
    made = make(environment, env)
    name = _name(environment, made, logdir, role == "evaluate")
    View(made, environment.gym_id)  # what cannot be learned, and warnings, once
    made.close()
    with tempfile.TemporaryDirectory(prefix="acorn-") as folder:
        folder, actors = Path(folder), []
        address = f"unix:{folder}/socket"
        # Ctrl-C is the learner's: it stops with a checkpoint, and then the actors are ended.
        signal.signal(signal.SIGINT, lambda *_: None)
        learner = subprocess.Popen(
            [ROOT / "build/learner", "--env=join", f"--agent={agent}", f"--num_envs={count * envs}",
             f"--listen={address}", "--exit_with_parent", *flags])
        for signum in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(signum) != signal.SIG_IGN:  # as with nohup
                signal.signal(signum, lambda *_: learner.terminate())
        try:
            for i in range(count):
                actors.append(_Actor(i, folder, [environment.gym_id, json.dumps(environment.args),
                                                name, address, str(envs), role]))
            code = _wait(learner, actors)
            return code if code >= 0 else 128 - code  # as a shell has a signal
        finally:
            end_s = time.monotonic() + GRACE_S
            while time.monotonic() < end_s and None in [actor.process.poll() for actor in actors]:
                time.sleep(0.05)
            for actor in actors:
                actor.end()


def run(function):
    """The exit code of a command that is this function."""
    try:
        return function(sys.argv[1:])
    except AcornError as error:
        print(f"acorn: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(run(train))
