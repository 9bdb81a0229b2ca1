"""Where an agent runs, and the command line that starts it there."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import msgpack

import profile_neuron
from profile_neuron.core.launch import isolated_command
from profile_neuron.errors import HostError
from profile_neuron.folders import cache_folder


@dataclass(frozen=True, slots=True)
class LocalHost:
    """This machine, with the interpreter whose torch is to be used."""

    python: str
    # Variables that agent and worker get beside this process's own.
    environment: tuple[tuple[str, str], ...] = ()

    def command(self) -> list[str]:
        """Start an agent in the user's interpreter. Raises HostError where our path cannot be made."""
        own_path = str(packages_folder())
        # Once for the agent itself, and once as the argument that it starts worker and report with.
        return isolated_command(self.python, "profile_neuron.agent.__main__", own_path, own_path)

    def cwd(self) -> str:
        """A working directory outside of any project."""
        return "/" if os.name == "posix" else tempfile.gettempdir()


def own_command(*arguments: str) -> list[str]:
    """Start the command line beside this process, with the same Python and packages."""
    own_path = str(Path(profile_neuron.__file__).resolve().parent.parent)
    python, *rest = isolated_command(sys.executable, "profile_neuron.cli", own_path, *arguments)
    # What it prints is read as UTF-8; isolated it heeds no variable that says so.
    return [python, "-X", "utf8", *(["-S"] if sys.flags.no_site else []), *rest]


def packages_folder() -> Path:
    """A folder with links to the packages that agent, worker and report need of ours, and nothing else.

    The folder that they are installed in holds more, such as another torch, and user code must not find that.
    """
    packages = [Path(module.__file__ or "").resolve().parent for module in (profile_neuron, msgpack)]
    name = hashlib.sha256("\n".join(map(str, packages)).encode()).hexdigest()[:16]
    try:
        folder = cache_folder(f"packages/{name}")
        for package in packages:
            # Another process may make the same links at the same time.
            with contextlib.suppress(FileExistsError):
                (folder / package.name).symlink_to(package, target_is_directory=True)
            if (folder / package.name).resolve() != package:
                raise HostError(f"{folder / package.name} is not the link that it should be; remove {folder}")
    except OSError as error:
        raise HostError(f"the cache folder cannot be used ({error}); set XDG_CACHE_HOME to one that can") from error
    return folder
