"""Puts the bundle into the wheel.

The wheel holds programs for one system and nothing of CPython's ABI, so one does for every Python
3: its tag is py3-none-manylinux_X_Y_x86_64, where X.Y is the version of glibc that the programs ask
for. All other libraries are in the wheel.
"""
import os
import re
import subprocess
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parents[2]
BUNDLE = ROOT / "build/bundle/acorn"
# For the test of a GPU in a bundle (scripts/gpu_check.sh).
LEFT_OUT = re.compile(
    r"build/tests/|tests/|COMMIT|lib/(terms/)?libcmocka|scripts/(gpu_check|run_units)")


class BundleHook(BuildHookInterface):
    def initialize(self, version, build_data):
        if self.target_name != "wheel" or version == "editable":
            return
        subprocess.run(["make", f"-j{os.cpu_count()}", "bundle",
                        "build/protocol.desc"], cwd=ROOT, check=True)
        needs = re.match(r"needs GLIBC (\d+)\.(\d+) ", (BUNDLE / "README").read_text())
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-manylinux_{}_{}_x86_64".format(*needs.groups())
        for path in sorted(BUNDLE.rglob("*")):
            inside = path.relative_to(BUNDLE).as_posix()
            if path.is_file() and not LEFT_OUT.match(inside):
                build_data["force_include"][str(path)] = f"acorn/bundle/{inside}"
        modules = [f"envs/gymnasium/{path.name}" for path in (ROOT / "envs/gymnasium").glob("*.py")]
        for inside in ("build/protocol.desc", "docs/examples/actor.py", *modules):
            build_data["force_include"][str(ROOT / inside)] = f"acorn/bundle/{inside}"
