"""Where recorded inputs are kept, for whoever asks for a run: the server and the command line."""

from __future__ import annotations

import hashlib
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
    """What a result depends on of a recording, by the path that recording_of gave; empty where there is none."""
    try:
        return hashlib.sha256(Path(recording).read_bytes()).hexdigest() if recording else ""
    except OSError:
        return ""
