"""Where recorded inputs are kept, for whoever asks for a run: the server and the command line."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from profile_neuron.core.recording import file_name
from profile_neuron.folders import state_folder


def recordings_folder() -> Path:
    """The folder that they are in, made if it is not there. Raises OSError where it cannot be had."""
    return state_folder("recordings")


def recording_of(path: str, qualname: str) -> str:
    """The path of a function's recording; empty where there is none. Looks at the disk."""
    try:
        # A program may have come to the file by another way than the editor.
        file = recordings_folder() / file_name(os.path.realpath(path), qualname)
        return str(file) if file.is_file() else ""
    except OSError:
        return ""


def recording_digest(recording: str) -> str:
    """What a result depends on of a recording, by the path that recording_of gave; empty where there is none.

    Not when it was made: the same call recorded once more gives the same inputs.
    """
    try:
        content = Path(recording).read_bytes() if recording else b""
        kept = json.loads(content) if content else None
    except OSError:
        return ""
    except (ValueError, RecursionError):
        return hashlib.sha256(content).hexdigest()
    if isinstance(kept, dict):
        kept.pop("recorded_s", None)
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest() if content else ""


def recorded_files() -> frozenset[str]:
    """Names of all recordings, as file_name gives them."""
    try:
        return frozenset(os.listdir(recordings_folder()))  # noqa: PTH208 - names are all that is wanted
    except OSError:
        return frozenset()
