"""`acorn train gym:ID`: a learner and actors in Python. The programs of this package have no bridge
to Python, which is compiled for one Python, so the actors are processes of this one (actor.py)."""
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from acorn.bundle import ROOT, AcornError


def _read_words(words):
    """ENV [AGENT [ACTORS [ENVS]]] and flags, as run_local.sh takes them."""
    plain = [word for word in words if not word.startswith("--")]
    flags = [word for word in words if word.startswith("--")]
    defaults = [None, "ppo", min(os.cpu_count() or 1, 4), 16]
    env, agent, actors, envs = plain[:4] + defaults[len(plain):]
    try:
        actors, envs = int(actors), int(envs)
    except ValueError:
        actors = 0
    if len(plain) > 4 or actors < 1 or envs < 1:
        raise AcornError("say acorn train gym:ID [AGENT [NUM_ACTORS [ENVS_PER_ACTOR]]], and "
                         f"options as --name=value; not {' '.join(plain)}")
    return env[len("gym:"):], agent, actors, envs, flags


def _check_environment(name):
    try:
        import gymnasium
        import grpc  # noqa: F401
    except ImportError as missing:
        raise AcornError(f"{missing}: environments of Gymnasium need gymnasium, grpcio and "
                         "protobuf: pip install gymnasium grpcio protobuf") from None
    try:
        gymnasium.make(name).close()
    except Exception as error:  # the environment's own
        raise AcornError(f"gym:{name}: {type(error).__name__}: {error}") from None


def _wait(learner, actors, folder):
    """Until the learner has ended, or no actor is left to play: that is an error of theirs."""
    while learner.poll() is None:
        if all(actor.poll() is not None for actor in actors):
            try:
                learner.wait(10)  # the run may just be over
            except subprocess.TimeoutExpired:
                learner.terminate()
                learner.wait()
                sys.stderr.write((folder / "actor0.log").read_text()[-2000:])
                raise AcornError("every actor has ended, the first as above") from None
        time.sleep(0.05)
    return learner.returncode


def train(words):
    """The learner's exit code. Errors: AcornError."""
    name, agent, count, envs, flags = _read_words(words)
    _check_environment(name)
    with tempfile.TemporaryDirectory(prefix="acorn-") as folder:
        folder, actors = Path(folder), []
        address = f"unix:{folder}/socket"
        # Ctrl-C is the learner's: it stops with a checkpoint, and then the actors are ended.
        signal.signal(signal.SIGINT, lambda *_: None)
        learner = subprocess.Popen(
            [ROOT / "build/learner", "--env=join", f"--agent={agent}", f"--num_envs={count * envs}",
             f"--listen={address}", "--exit_with_parent", *flags])
        signal.signal(signal.SIGTERM, lambda *_: learner.terminate())
        try:
            for i in range(count):
                with open(folder / f"actor{i}.log", "w") as log:
                    actors.append(subprocess.Popen(
                        [sys.executable, "-m", "acorn.actor", name, address, str(envs), str(i)],
                        stdout=log, stderr=log, stdin=subprocess.DEVNULL))
            code = _wait(learner, actors, folder)
            return code if code >= 0 else 128 - code  # as a shell has a signal
        finally:
            for actor in actors:
                actor.kill()
                actor.wait()
