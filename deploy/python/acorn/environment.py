"""The environment of a run whose actors are processes of Python (train.py): which one it is, how
the learner knows it, and how it is made."""
import json
import re
import sys
from pathlib import Path
from typing import NamedTuple

from acorn.bundle import AcornError
from acorn.world import adapter, ask

CODE = ("code", "no_code")
MOST_BYTES = 255  # of a name with its options: docs/protocol.md


def split(flag):
    """The name of an option, as the programs read it, and its value, or None."""
    name, equals, value = flag[2:].partition("=")
    return name.replace("-", "_"), value if equals else None


def plain_name(text):
    return re.sub(r"[^A-Za-z0-9_.-]", "-", text)[:31].lstrip("-.") or "environment"


class Environment(NamedTuple):
    gym_id: str  # as it stands behind gym:
    args: dict = {}  # of --env_args, and the classes of --wrapper as "wrapper"

    def name(self):
        """NAME or NAME(OPTIONS), as the learner knows it; an ID that is no name, and arguments,
        stand behind it as options. Errors: AcornError: it is too long."""
        text = self.gym_id
        if not self.args and re.fullmatch(r"[A-Za-z0-9_.-]{1,31}(\([!-~]*\))?", text):
            return text
        options = {"id": text, **({"env_args": self.args} if self.args else {})}
        visible = re.sub("[ \x7f]", lambda c: f"\\u{ord(c[0]):04x}",
                         json.dumps(options, separators=(",", ":")))
        name = f"{plain_name(text)}({visible})"
        if len(name) > MOST_BYTES:
            raise AcornError(f"the environment {text} with its arguments makes a name of "
                             f"{len(name)} characters, of {MOST_BYTES} at most: have them in a "
                             "module of yours")
        return name

    def make(self, renders=False):
        """Errors: AcornError."""
        args = dict(self.args)
        words, asked = args.pop("wrapper", ""), adapter()
        make = asked.make_visible if renders else asked.make_gym
        try:
            return ask(lambda: asked.wrapped(make(self.gym_id, args, None), words))
        except AcornError:
            raise
        except Exception as error:  # the environment's own
            raise AcornError(f"gym:{self.gym_id}: {type(error).__name__}: {error}") from None


def _no_number(text):
    raise ValueError(f"{text} is no number of JSON")


def _given(options, before):
    """The arguments, with what --env_args and --wrapper say in the place of those before."""
    args = dict(before)
    if "env_args" in options:
        text = options["env_args"]
        try:
            given = json.loads(text or "", parse_constant=_no_number)
        except (ValueError, RecursionError) as error:
            raise AcornError(f"--env_args={text or ''}: {error}") from None
        if not isinstance(given, dict):
            raise AcornError(f'--env_args={text}: no object of JSON, {{"name": value}}')
        wrapper = {"wrapper": args["wrapper"]} if "wrapper" in args else {}
        args = {**wrapper, **given}
    if "wrapper" in options:
        args["wrapper"] = options["wrapper"]
    if not isinstance(args.get("wrapper", ""), str):
        raise AcornError(f"--wrapper: {args['wrapper']} is no text: write MODULE:CLASS")
    if args.get("wrapper") == "":
        del args["wrapper"]
    return args


def recorded(folder):
    """The name of the environment of the run in the folder; "": there is no run."""
    path = Path(folder or "") / "environment.txt"
    if not folder or not path.exists():
        return ""
    try:
        return path.read_text("utf-8").partition("\n")[0]
    except (OSError, ValueError) as error:
        raise AcornError(f"{path} cannot be read: {error}: bring it back as it was") from None


def of_name(name):
    """The environment that a learner knows by that name; None: that is none."""
    gym_id, _, text = name.partition("(")
    args = {}
    try:
        if text.startswith('{"id":'):
            options = json.loads(text[:-1])
            gym_id, args = options["id"], options.get("env_args", {})
    except (ValueError, RecursionError):
        return None
    is_one = isinstance(gym_id, str) and gym_id and isinstance(args, dict)
    is_one = is_one and isinstance(args.get("wrapper", ""), str)
    return Environment(gym_id, args) if is_one else None


def find(env, folder, options):
    """That of gym:ID, or of the environment that the actors of the run in the folder brought
    (join). A run keeps its arguments where the options (a dict) do not say them."""
    name = recorded(folder)
    before = of_name(name)
    if env.startswith("gym:"):
        gym_id = env[len("gym:"):]
    elif before:
        gym_id = before.gym_id
    else:
        raise AcornError(f"{folder}/environment.txt is missing or damaged: its first line names "
                         f"the run's environment, and is '{name[:100]}': bring it back as it was")
    return Environment(gym_id, _given(options, before.args if before else {}))


def newest_run(env, agent):
    """The run folder of that environment and agent under runs/ that was started last, as
    deploy/launch/run_folder.c finds it; None: there is none."""
    gym_id = env[len("gym:"):]
    form = rf"{re.escape(plain_name(gym_id))}-{re.escape(agent)}-(\d{{8}}-\d{{6}})Z?(?:-(\d+))?"
    found = []
    for path in Path("runs").glob("*/config.txt"):
        match = re.fullmatch(form, path.parent.name)
        environment = match and of_name(recorded(path.parent))
        if environment and environment.gym_id == gym_id:
            found.append((match[1], int(match[2] or 0), str(path.parent)))
    return max(found)[2] if found else None


def check_code(environment, words):
    """Before the environment is made: names code that the words do not, but the run. Errors:
    AcornError: --no_code, in any spelling."""
    wrappers = [word.strip() for word in environment.args.get("wrapper", "").split(",")]
    code = [environment.gym_id] if ":" in environment.gym_id else []
    code += filter(None, wrappers)
    if not code:
        return
    for word in words:
        name, value = split(word)
        if name in CODE and (name == "no_code" or value not in (None, "true", "1", "yes", "on")):
            raise AcornError(f"{word}: the environment would run code of {', '.join(code)}")
    given = [word for word in words if not word.startswith("--") or
             split(word)[0] in ("env", "env_args", "wrapper")]
    brought = [each for each in code if not any(each in word for word in given)]
    if brought:
        print(f"acorn: the run brings code of {', '.join(brought)}, which is run: --no_code "
              "refuses it", file=sys.stderr)
