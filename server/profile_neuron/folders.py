"""The folders of ours on this machine, all private to the user."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def cache_folder(name: str) -> Path:
    """A folder in the user's cache, made if it is not there.

    Raises OSError where it cannot be made, or where it belongs to somebody else.
    """
    given = os.environ.get("XDG_CACHE_HOME")
    if given and Path(given).is_absolute():
        base = Path(given)
    else:
        base = Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")
    folder = base / "profile-neuron" / name
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if hasattr(os, "geteuid") and folder.stat().st_uid != os.geteuid():
        raise PermissionError(f"{folder} belongs to another user")
    return folder
