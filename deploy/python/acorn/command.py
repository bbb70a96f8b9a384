"""The command `acorn`: it goes on as one of Acorn's programs or scripts, by name."""
import os
import sys

from acorn.bundle import ROOT, AcornError, check_system

ABOUT = {
    "train": "trains an agent in an environment: acorn train cartpole",
    "eval": "plays a run's checkpoint, greedily and sampled, and reports how well",
    "watch": "plays a run's checkpoint and records a video (needs ffmpeg)",
    "export": "writes a run's policy as an ONNX or a safetensors file",
    "status": "what a running learner does",
    "parameters": "gets or sets the parameters of a running learner",
    "plot": "learning curves of runs (needs gnuplot)",
    "sweep": "runs of several seeds or settings, and a table of them",
    "checkpoint": "what is in a checkpoint",
    "serve": "serves policies to other programs",
    "learner": "a learner alone",
    "actor": "an actor alone",
}


def find(name):
    """The words that start it; None: there is no such command."""
    if name == "train":
        return ["bash", str(ROOT / "run_local.sh")]
    for path, start in ((ROOT / f"scripts/{name}.sh", ["bash"]),
                        (ROOT / f"scripts/{name}.py", [sys.executable]),
                        (ROOT / "build" / name, [])):
        if name in ABOUT and path.is_file():
            return [*start, str(path)]
    return None


def usage():
    lines = [f"  {name:<11} {about}" for name, about in ABOUT.items() if find(name)]
    return ("Usage: acorn COMMAND WORDS...; acorn COMMAND --help has the words.\n\n"
            + "\n".join(lines))


def main():
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name in ("", "--help", "-h"):
        print(usage())
        return 0 if name else 2
    if name == "--version":
        print("acorn", (ROOT / "VERSION").read_text().strip())
        return 0
    start = find(name)
    if not start:
        print(f"acorn: there is no command {name}\n{usage()}", file=sys.stderr)
        return 2
    try:
        check_system()
    except AcornError as error:
        print(f"acorn: {error}", file=sys.stderr)
        return 1
    if not (ROOT / "Makefile").exists():
        os.environ["ACORN_PACKAGE_PYTHON"] = sys.executable  # scripts/lib.sh, is_in_package
        if name == "train" and sys.argv[2:] and sys.argv[2].startswith("gym:"):
            start = [sys.executable, "-m", "acorn.train"]
    os.execvp(start[0], start + sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
