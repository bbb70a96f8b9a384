"""libacorn_policy.so by ctypes: see acorn_policy.h. And what a space of its JSON is to numpy."""
import ctypes
import json

import numpy as np

from acorn.bundle import ROOT, AcornError, check_system

_ERROR_BYTES = 1024
_P, _I, _S, _Z = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t
_FUNCTIONS = {  # without the error and its room, which are the last arguments of most
    "policy_open": (_P, [_S]), "policy_act": (_I, [_P, _P, _P, _P, _P, _I]),
    "vector_open": (_P, [_S, _S, _I]), "vector_reset": (_I, [_P, _P, _P, _P]),
    "vector_step": (_I, [_P, _P, _P, _P, _P, _P]), "vector_render": (_I, [_P, _I, _P, _P, _P]),
}
_PLAIN = {
    "policy_close": (None, [_P]), "policy_text": (_S, [_P, _S]), "policy_action_bytes": (_Z, [_P]),
    "policy_state_bytes": (_Z, [_P]), "vector_close": (None, [_P]), "vector_space": (_S, [_P]),
}
_library = None


def library():
    """The library, loaded once. Errors: AcornError: this system cannot run it."""
    global _library
    if _library is None:
        check_system()
        path = ROOT / "build" / "libacorn_policy.so"
        try:
            loaded = ctypes.CDLL(str(path))
        except OSError as error:
            raise AcornError(f"{path} cannot be loaded: {error}") from None
        for name, (result, arguments) in {**_FUNCTIONS, **_PLAIN}.items():
            function = getattr(loaded, "acorn_" + name)
            function.restype = result
            function.argtypes = arguments + ([_S, _Z] if name in _FUNCTIONS else [])
        _library = loaded
    return _library


def call(name, *arguments):
    """A function that may fail. Errors: AcornError, with its sentence."""
    error = ctypes.create_string_buffer(_ERROR_BYTES)
    result = getattr(library(), "acorn_" + name)(*arguments, error, _ERROR_BYTES)
    if result is None or result == -1:
        raise AcornError(error.value.decode(errors="replace"))
    return result


class Tensor:
    """One named part of an observation."""

    def __init__(self, name, dtype, shape):
        self.name, self.dtype, self.shape = name, np.dtype(dtype), tuple(shape)

    def __repr__(self):
        return f"{self.name} {self.dtype}{list(self.shape)}"


class Space:
    """What an environment shows and takes. One of discrete (n), choices ([n, ...]) and box
    ((low, high), arrays of float32) is not None."""

    def __init__(self, text):
        json_space = json.loads(text)
        self.tensors = [Tensor(**tensor) for tensor in json_space["observation"]]
        self.discrete, self.choices = json_space.get("discrete"), json_space.get("choices")
        self.box = None
        if "low" in json_space:
            self.box = tuple(np.array([infinite if x is None else x for x in json_space[side]],
                                      np.float32)
                             for side, infinite in (("low", -np.inf), ("high", np.inf)))

    def action_array(self, rows):
        """Room for the actions of so many rows."""
        if self.box is not None:
            return np.zeros((rows, len(self.box[0])), np.float32)
        return np.zeros((rows, len(self.choices)) if self.choices else rows, np.int32)
