"""Where the programs and libraries of this package are, and whether this machine runs them."""
import os
import platform
import re
from pathlib import Path

# In a source tree, whose modules are used in place, the programs are those of its build folder.
_here = Path(__file__).resolve().parent
ROOT = _here / "bundle" if (_here / "bundle").is_dir() else _here.parents[2]


class AcornError(Exception):
    """What went wrong, and what to do about it."""


def _libc():
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (AttributeError, OSError, ValueError):
        return ""


def check_system():
    """Errors: AcornError: the programs of this package cannot run here."""
    if platform.system() != "Linux" or platform.machine() not in ("x86_64", "AMD64"):
        raise AcornError(f"Acorn's programs are for Linux on x86-64; this is {platform.system()} "
                         f"on {platform.machine()}")
    readme = ROOT / "README"
    needs = readme.exists() and re.match(r"needs GLIBC (\d+)\.(\d+)", readme.read_text())
    has = re.match(r"glibc (\d+)\.(\d+)", _libc())
    if not needs:
        return
    if not has:
        raise AcornError("Acorn's programs need glibc, which this system does not have (it may "
                         "have musl): use a distribution with glibc, or build from source")
    if tuple(map(int, has.groups())) < tuple(map(int, needs.groups())):
        raise AcornError("this package needs glibc {}.{} or newer, this system has {}.{}: use "
                         "a newer distribution (Debian 12, Ubuntu 24.04), or build from source"
                         .format(*needs.groups(), *has.groups()))
