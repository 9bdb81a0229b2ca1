"""What runs and results depend on outside of the editor: files as they are on disk, and the folders of a run."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from profile_neuron.core.project import project_root
from profile_neuron.core.text import decode, split_lines
from profile_neuron.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from profile_neuron.core.model import DeviceKind
    from profile_neuron.daemon.settings import Settings


# An editor may still be writing when it says that it saved.
_WRITING_S = 0.3
_WRITING_TRIES = 10
# Or it may be between the removal of a file and the renaming of the one that takes its place.
_MISSING_TRIES = 1


# Where the driver of Neuron shows its devices.
_DEVICES = Path("/dev")


def device_kind() -> DeviceKind:
    """What a run on this machine would measure, by the device files; a run that was made knows better."""
    return "neuron" if any(_DEVICES.glob("neuron[0-9]*")) else "cpu"


@dataclass(frozen=True, slots=True)
class SavedFile:
    """A file as its bytes are on disk."""

    sha256: str
    text: str


@dataclass(frozen=True, slots=True)
class Problem:
    """Why nothing can be run of a file."""

    # None where no line is to blame.
    line: int | None
    text: str


async def settled(path: str, saved_texts: Callable[[], Sequence[str]]) -> SavedFile | Problem | None:
    """A file as soon as it is on disk what an editor saved last, or why it is not after a while.

    saved_texts: what that may be by now; none where nobody wants to know any more, and then None comes back.
    """
    problem = Problem(None, "")
    for number in range(_WRITING_TRIES):
        if number:
            await asyncio.sleep(_WRITING_S)
        expected = saved_texts()
        if not expected:
            return None
        try:
            saved = await asyncio.to_thread(read, path)
        except FileNotFoundError:
            problem = Problem(None, f"{path} is not on disk; save it first")
            if number >= _MISSING_TRIES:
                break
        except OSError as error:
            problem = Problem(None, f"{path} cannot be read: {error.strerror or error}")
        except SourceError as error:
            problem = Problem(error.line, str(error))
        else:
            if any(same_text(saved.text, text) for text in expected):
                return saved
            problem = Problem(None, f"{path} on disk differs from what the editor saved; save it again")
    return problem


def read(path: str) -> SavedFile:
    """A Python file from disk. Raises OSError, or SourceError where it is not text."""
    source = Path(path).read_bytes()
    return SavedFile(hashlib.sha256(source).hexdigest(), decode(source))


def hashes(paths: Iterable[str]) -> dict[str, str]:
    """SHA-256 of files by path; those that cannot be read are left out."""
    found = {}
    for path in paths:
        with contextlib.suppress(OSError):
            found[path] = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    return found


def is_changed(path: str, sha256: str) -> bool:
    """Whether a file has another content by now, or none."""
    return hashes([path]) != {path: sha256}


def same_text(disk: str, editor: str) -> bool:
    """Whether a file holds what an editor shows: editors keep line ends and the mark at the start for themselves."""
    return disk == editor or split_lines(disk) == split_lines(editor)


def project_folders(path: str, root: str, settings: Settings) -> tuple[str, ...]:
    """Folders whose files count as the project of a file; the first is the nearest project around it."""
    nearest = str(project_root(Path(path), os.path.exists))
    given = [str(Path(root, Path(folder).expanduser())) for folder in settings.project_roots]
    return tuple(dict.fromkeys([nearest, root, *given]))


def working_folder(path: str, root: str, settings: Settings) -> str:
    """Where the code of a file is run."""
    match settings.run_cwd:
        case "workspace":
            return root
        case "file":
            return str(Path(path).parent)
    return str(Path(root, Path(settings.run_cwd).expanduser()))
