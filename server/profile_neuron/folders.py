"""The folders of ours on this machine, all private to the user."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

# The variable that names the base, and where it is in the user's home: on Linux, on macOS.
_CACHE = ("XDG_CACHE_HOME", ".cache", "Library/Caches")
_STATE = ("XDG_STATE_HOME", ".local/state", "Library/Application Support")
# For what a path in the user's home cannot be used for.
_TEMPORARY = Path("/tmp")
# Of the 103 bytes that macOS allows for the path of a socket, and the 107 of Linux, the rest is for the socket's name.
_LONGEST_SOCKET_FOLDER = 90
_SOCKETS = "agents"


def cache_folder(name: str) -> Path:
    """A folder in the user's cache, made if it is not there.

    Raises OSError where it cannot be made, or where it belongs to somebody else.
    """
    return _private_folder(_our_folder(*_CACHE) / name)


def state_folder(name: str) -> Path:
    """A folder for what must outlive a cleaned cache, such as the user's decisions, made if it is not there.

    Raises OSError where it cannot be made, or where it belongs to somebody else.
    """
    return _private_folder(_our_folder(*_STATE) / name)


def plain_cache_folder(name: str) -> Path:
    """A cache folder whose path has no blank, colon or semicolon, which settings of the Neuron runtime cannot hold.

    Raises OSError as cache_folder does.
    """
    is_plain = not set(str(_our_folder(*_CACHE) / name)) & set(" \t\n:;")
    return cache_folder(name) if is_plain else _temporary_folder(name)


def socket_folder() -> Path:
    """A folder for the sockets of our agents, whose paths must not be long. Raises OSError as cache_folder does."""
    is_short = len(os.fsencode(_our_folder(*_CACHE) / _SOCKETS)) <= _LONGEST_SOCKET_FOLDER
    return cache_folder(_SOCKETS) if is_short else _temporary_folder(_SOCKETS)


def our_folders() -> tuple[Path, ...]:
    """The folders that all of these lie in, whether they are there or not."""
    return (_our_folder(*_CACHE), _our_folder(*_STATE))


def _our_folder(variable: str, in_home: str, in_home_on_macos: str) -> Path:
    given = os.environ.get(variable)
    if given and Path(given).is_absolute():
        base = Path(given)
    else:
        base = Path.home() / (in_home_on_macos if sys.platform == "darwin" else in_home)
    return base / "profile-neuron"


def _temporary_folder(name: str) -> Path:
    """A folder that only we can enter, in one where anybody may have put something before."""
    base = _TEMPORARY / f"profile-neuron-{os.geteuid()}"
    base.mkdir(mode=0o700, exist_ok=True)
    found = base.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise PermissionError(f"{base} is not a folder of yours alone; remove it")
    return _private_folder(base / name)


def _private_folder(folder: Path) -> Path:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if hasattr(os, "geteuid") and folder.stat().st_uid != os.geteuid():
        raise PermissionError(f"{folder} belongs to another user")
    return folder
