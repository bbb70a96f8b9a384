"""Plays the environments of gymnasium.so from Python, by the ABI of envs/env.h, so that a test can
compare them with Gymnasium in the same process."""

import ctypes as c
import json
import os

import numpy as np

BUILD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "build")
TEXT = 512


class Tensor(c.Structure):
    _fields_ = [("name", c.c_char_p), ("dtype", c.c_int), ("rank", c.c_int), ("shape", c.c_int * 4)]


class Space(c.Structure):
    _fields_ = [
        ("struct_bytes", c.c_uint32), ("num_tensors", c.c_int), ("tensor", Tensor * 8),
        ("discrete", c.c_int), ("box", c.c_int), ("low", c.c_float * 64), ("high", c.c_float * 64),
    ]


class Config(c.Structure):
    _fields_ = [
        ("struct_bytes", c.c_uint32), ("option", c.c_void_p), ("num_options", c.c_int),
        ("env", c.c_void_p), ("json", c.c_char_p), ("renders", c.c_int),
    ]


class Picture(c.Structure):
    _fields_ = [
        ("struct_bytes", c.c_uint32), ("width", c.c_int), ("height", c.c_int), ("pixels", c.c_void_p),
    ]


class Number(c.Structure):
    _fields_ = [("name", c.c_char_p), ("value", c.c_double)]


class Row(c.Structure):
    _fields_ = [
        ("struct_bytes", c.c_uint32), ("observation", c.POINTER(c.c_void_p)), ("reward", c.c_float),
        ("terminated", c.c_int), ("truncated", c.c_int), ("num_numbers", c.c_int),
        ("number_name", c.c_char_p * 4), ("number", c.c_double * 4), ("goes_on", c.c_int),
        ("num_more_numbers", c.c_int), ("more_numbers", c.POINTER(Number)),
    ]


P, N = c.c_void_p, c.c_size_t


class Env(c.Structure):
    _fields_ = [
        ("abi", c.c_uint32), ("struct_bytes", c.c_uint32), ("name", c.c_char_p), ("about", c.c_char_p),
        ("options", P), ("num_options", c.c_int),
        ("space", c.CFUNCTYPE(c.c_int, c.POINTER(Space), c.POINTER(Config), P, N)),
        ("create", c.CFUNCTYPE(P, c.POINTER(Config), P, N)),
        ("reset", c.CFUNCTYPE(c.c_int, P, c.POINTER(c.c_uint64), c.POINTER(Row), P, N)),
        ("step", c.CFUNCTYPE(c.c_int, P, P, c.POINTER(Row), P, N)),
        ("destroy", c.CFUNCTYPE(None, P)), ("any_option", c.c_int),
        ("render", c.CFUNCTYPE(c.c_int, P, c.POINTER(Picture), P, N)),
        ("action_name", c.CFUNCTYPE(c.c_char_p, P, c.c_int)),
    ]


class Failed(Exception):
    pass


library = c.CDLL(os.path.join(BUILD, "gymnasium.so"), mode=c.RTLD_GLOBAL)
library.acorn_bridge_open.restype = c.POINTER(Env)
library.acorn_bridge_open.argtypes = [c.c_char_p, P, N]


class Player:
    """One instance; observations are arrays by their names."""

    def __init__(self, word, renders=0, **options):
        self.text = c.create_string_buffer(TEXT)
        env = library.acorn_bridge_open(word.encode(), self.text, TEXT)
        self.check(env)
        self.env = env.contents
        self.config = Config(c.sizeof(Config), None, 0, c.addressof(self.env), json.dumps(options).encode(),
                             renders)
        self.space = Space(struct_bytes=c.sizeof(Space))
        self.check(self.env.space(self.space, self.config, self.text, TEXT) == 0)
        self.instance = self.env.create(self.config, self.text, TEXT)
        self.check(self.instance)
        dtypes = [None, np.uint8, np.int32, np.float32]
        tensors = self.space.tensor[: self.space.num_tensors]
        self.observation = {
            t.name.decode(): np.full(t.shape[: t.rank], 77, dtypes[t.dtype]) for t in tensors
        }
        self.pointers = (P * 8)(*(array.ctypes.data for array in self.observation.values()))

    def check(self, fine):
        if not fine:
            raise Failed(self.text.value.decode())

    def row(self):
        return Row(struct_bytes=c.sizeof(Row), observation=self.pointers)

    def reset(self, seed=None):
        number = None if seed is None else c.byref(c.c_uint64(seed))
        self.check(self.env.reset(self.instance, number, self.row(), self.text, TEXT) == 0)
        return self.observation

    def step(self, action):
        row = self.row()
        chosen = np.array(action, np.float32 if self.space.box else np.int32)
        self.check(self.env.step(self.instance, chosen.ctypes.data, row, self.text, TEXT) == 0)
        self.numbers = {n.name.decode(): n.value for n in row.more_numbers[: row.num_more_numbers]}
        return self.observation, row.reward, bool(row.terminated), bool(row.truncated), row.goes_on

    def picture(self):
        """What is drawn, (height, width, 3); None where nothing is."""
        picture = Picture(struct_bytes=c.sizeof(Picture))
        self.check(self.env.render(self.instance, picture, self.text, TEXT) == 0)
        if picture.width == 0:
            return None
        pixels = np.full((picture.height, picture.width, 3), 77, np.uint8)
        picture.pixels = pixels.ctypes.data
        self.check(self.env.render(self.instance, picture, self.text, TEXT) == 0)
        return pixels

    def close(self):
        self.env.destroy(self.instance)
