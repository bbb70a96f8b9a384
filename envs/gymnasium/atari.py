"""The Atari's emulator, which atari.c plays."""

import difflib
import re

from acorn_packages import Refusal, chosen, module, options_of


def within(name, value, low, high):
    if not low <= value <= high:
        raise Refusal(
            f"--env_args: atari's option '{name}' is {value}, which is not in {low}..{high}"
        )


def flat(name):
    return re.sub("[-_ ]", "", name).lower()


class Atari:
    """One emulator with a game; atari.c plays it through the methods of `emulator`."""

    DEFAULTS = {
        "game": "Pong",
        "frame_skip": 4,
        "noops": 30,
        "max_frames": 108000,
        "sticky_actions": 0.0,
        "life_loss": False,
        "full_actions": False,
        "resize": "area",
        "mode": -1,
        "difficulty": -1,
    }

    DESCRIBED = {}

    def __init__(self, text):
        ale_py = module("ale_py")
        import ale_py.roms
        import numpy

        options = chosen(options_of(text), self.DEFAULTS, "atari")
        for name, low, high in (
            ("frame_skip", 1, 1000),
            ("noops", 0, 10000),
            ("max_frames", 1, 2**31 - 1),
            ("sticky_actions", 0, 1),
            ("mode", -1, 2**31 - 1),
            ("difficulty", -1, 2**31 - 1),
        ):
            within(name, options[name], low, high)
        if options["resize"] not in ("area", "linear"):
            raise Refusal(
                f"--env_args: atari's option 'resize' is '{options['resize']}', not area or linear"
            )
        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
        self.emulator = ale_py.ALEInterface()
        self.emulator.setFloat("repeat_action_probability", float(options["sticky_actions"]))
        self.emulator.setInt("max_num_frames_per_episode", 0)
        self.rom = self.find(ale_py.roms, options["game"])
        self.mode, self.difficulty = options["mode"], options["difficulty"]
        self.actions, (height, width) = self.describe(bool(options["full_actions"]))
        self.screens = tuple(numpy.zeros((height, width), numpy.uint8) for _ in range(2))
        # Not the first action: the own actions of backgammon and video_checkers have no no-op.
        self.noop = ale_py.Action.NOOP
        self.names = [action.name.lower() for action in self.actions]
        for name in ("frame_skip", "noops", "max_frames", "life_loss"):
            setattr(self, name, int(options[name]))
        self.linear = int(options["resize"] == "linear")

    def describe(self, full):
        """The actions and the size of the screen. They need the cartridge, which takes a tenth of a
        second to put in: of many emulators with one game, only the first is asked."""
        key = self.rom, full, self.mode, self.difficulty
        if key not in self.DESCRIBED:
            self.insert(0)
            emulator = self.emulator
            actions = emulator.getLegalActionSet() if full else emulator.getMinimalActionSet()
            self.DESCRIBED[key] = list(actions), emulator.getScreenDims()
        return self.DESCRIBED[key]

    # ale-py ends the process when it is given one of these.
    NOT_EMULATED = ("combat", "joust", "maze_craze", "warlords")

    @classmethod
    def find(cls, roms, game):
        ids = {flat(rom): rom for rom in roms.get_all_rom_ids()}
        rom = ids.get(flat(game))
        path = rom and roms.get_rom_path(rom)
        if rom in cls.NOT_EMULATED:
            raise Refusal(f"ale-py has the game '{game}', but does not emulate its cartridge")
        if path:
            return str(path)
        for rom in cls.NOT_EMULATED:
            ids.pop(flat(rom), None)
        near = difflib.get_close_matches(flat(game), ids, 3, 0.5)
        names = [ids[key].title().replace("_", "") for key in near]
        hint = f"; the nearest: {', '.join(names)}" if near else ""
        raise Refusal(f"there is no game '{game}'{hint} ({len(ids)} games are in ale-py)")

    def insert(self, seed):
        """Puts the cartridge in: the emulator's chance follows from the seed."""
        self.emulator.setInt("random_seed", seed)
        self.emulator.loadROM(self.rom)
        for value, there, put in (
            (self.mode, self.emulator.getAvailableModes, self.emulator.setMode),
            (self.difficulty, self.emulator.getAvailableDifficulties, self.emulator.setDifficulty),
        ):
            if value < 0:
                continue
            if value not in there():
                raise Refusal(
                    f"--env_args: this game has the modes or difficulties {there()}, not {value}"
                )
            put(value)
