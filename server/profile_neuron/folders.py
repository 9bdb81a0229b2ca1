"""The folders of ours on this machine, all private to the user."""

from __future__ import annotations

import os
import sys
from pathlib import Path

# The variable that names the base, and where it is in the user's home: on Linux, on macOS.
_CACHE = ("XDG_CACHE_HOME", ".cache", "Library/Caches")
_STATE = ("XDG_STATE_HOME", ".local/state", "Library/Application Support")


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


def _private_folder(folder: Path) -> Path:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if hasattr(os, "geteuid") and folder.stat().st_uid != os.geteuid():
        raise PermissionError(f"{folder} belongs to another user")
    return folder
