"""Acorn in Python: its programs (`acorn train ...`), trained policies, run folders, environments.

    acorn.load("runs/a").act(observation)    a trained policy: policy.py
    acorn.Run("runs/a").metrics()            what a run has written: run.py
    acorn.VectorEnv("cartpole", 64)          environments in C, for Gymnasium: vector.py
    acorn.actor.run(make_env, learner=...)   an actor with an environment in Python: actor.py
"""
import importlib

_WHERE = {"load": "policy", "Policy": "policy", "AcornError": "bundle", "Run": "run",
          "VectorEnv": "vector"}
_MODULES = ("actor", "policy", "run", "vector")
__all__ = [*_WHERE, *_MODULES]


def __getattr__(name):
    # Each when it is first used: `acorn train` needs neither numpy nor gymnasium.
    if name in _MODULES:
        return importlib.import_module(f"acorn.{name}")
    if name in _WHERE:
        return getattr(importlib.import_module(f"acorn.{_WHERE[name]}"), name)
    raise AttributeError(f"module 'acorn' has no attribute '{name}'")
