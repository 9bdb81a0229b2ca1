"""Where an agent runs, and the command line that starts it there."""

from __future__ import annotations

import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import msgpack

import profile_neuron
from profile_neuron.core.launch import isolated_command


@dataclass(frozen=True, slots=True)
class LocalHost:
    """This machine, with the interpreter whose torch is to be used."""

    python: str

    def command(self) -> list[str]:
        """Start an agent in the user's interpreter."""
        return isolated_command(self.python, "profile_neuron.agent.__main__", own_path())

    def cwd(self) -> str:
        """A working directory outside of any project."""
        return tempfile.gettempdir() if os.name == "nt" else "/"


def own_path() -> list[str]:
    """Folders with this package and the packages that agent, worker and report need of ours."""
    package = Path(profile_neuron.__file__).resolve().parent.parent
    needed = Path(msgpack.__file__).resolve().parent.parent
    return list(dict.fromkeys([str(package), str(needed)]))


def default_python() -> str:
    """The interpreter this program runs in."""
    return sys.executable
