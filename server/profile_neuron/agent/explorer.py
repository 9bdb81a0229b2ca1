"""Neuron Explorer as a program that turns a capture into tables, or into a profile for its viewer, and ends then.

Source: the guides of Neuron Explorer, SDK 2.31 to 2.33. Which options there are differs between its versions and is
read from its help.
"""

from __future__ import annotations

import logging
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from profile_neuron.agent.child import cause_of_death, run_program
from profile_neuron.agent.device import tool_path
from profile_neuron.core import run_folder
from profile_neuron.errors import CaptureError, HostError

if TYPE_CHECKING:
    from profile_neuron.agent.child import Finished

log = logging.getLogger(__name__)

PROGRAM = "neuron-explorer"
_HELP_S = 30.0
_OUTPUT_BYTES = 1 << 16
_TITLE_CHARACTERS = 60
_LAST_LINE_CHARACTERS = 300
# Of the profile among those of a data folder; it may hold no spaces.
_NAME = "profile-neuron"
_PACKAGE = "aws-neuronx-tools"
MISSING = f"Neuron Explorer is not installed; install the package {_PACKAGE}, which has {PROGRAM}"
_SYSTEM_FILES = {"ntrace.pb", "trace_info.pb"}
# How command lines of several kinds say that they do not know an option.
_UNKNOWN_OPTION = re.compile(rb"unknown (shorthand )?(flag|option)|unrecognized argument|flag provided but not defined")
_NOTHING_FOUND = re.compile(rb"no (\w+ )?(profile|metadata|data)\b", re.IGNORECASE)


async def export_tables(session: Path, into: Path, limit_s: float) -> str:
    """Write the tables of a session directory to a data folder of ours; why that failed, or empty where it did not.

    The tables are in profiles/global/<name>@latest below the folder, which is made; a table without rows has no file.
    What took longer than the limit is ended, and so is what the program itself started in its group.
    """
    program = tool_path(PROGRAM)
    if program is None:
        return MISSING
    started_s = time.monotonic()
    try:
        told = await run_program([program, "view", "--help"], min(_HELP_S, limit_s), _OUTPUT_BYTES)
        options = _options(told.printed, into)
        if isinstance(options, str):
            return _failure(f"{program} view --help", told) or f"{program} {options}; update the package {_PACKAGE}"
        left_s = max(0.0, limit_s - (time.monotonic() - started_s))
        end = await run_program([program, "view", "-d", str(session), *options], left_s, _OUTPUT_BYTES)
    except (HostError, OSError) as error:
        return f"the tables of Neuron Explorer cannot be made ({error}); run neuron-explorer --version to see why"
    log.info("neuron-explorer took %.1f s and ended with %s", time.monotonic() - started_s, end.code)
    if end.code is None:
        return f"{program} took longer than {limit_s:g} s for {session} and was ended; profile fewer calls"
    return _failure(f"{program} view -d {session}", end)


@dataclass(frozen=True, slots=True)
class Session:
    """What Neuron Explorer can make a profile of."""

    # The session directory.
    path: Path
    # It has what the runtime noted, and not only what ran on the device.
    has_system_profile: bool
    # The trace of the device with the most in it, None where there is none, and what may have run there.
    ntff: Path | None
    neffs: tuple[Path, ...]


def find_session(folder: Path) -> Session | None:
    """The last session at or below a folder, one with a system profile before others; None where there is none.

    Of a run folder only what the Neuron profiler wrote counts. Links lead nowhere.
    """
    neuron = folder / run_folder.NEURON
    found: list[Session] = []
    for parent, _, names in os.walk(neuron if neuron.is_dir() else folder):
        path = Path(parent)
        filled = [path / name for name in names if _is_filled(path / name)]
        has_system_profile = {file.name for file in filled} >= _SYSTEM_FILES
        ntffs = [file for file in filled if file.suffix == ".ntff"]
        if has_system_profile or ntffs:
            ntff = max(ntffs, key=lambda file: (file.stat().st_size, file.name), default=None)
            found.append(Session(path, has_system_profile, ntff, _neffs(path, ntff)))
    return max(found, key=lambda item: (item.has_system_profile, item.path), default=None)


def profile_name(title: str, part: str) -> str:
    """A name of letters, digits, dots, dashes and underscores, which can be part of an address as it is."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", f"{title[:_TITLE_CHARACTERS]}-{part}").strip("-.")


async def viewer_options(program: str) -> bytes:
    """What a version says of the options of view. Raises HostError where it does not say."""
    told = await run_program([program, "view", "--help"], _HELP_S, _OUTPUT_BYTES)
    if told.code != 0:
        raise HostError(_failure(f"{program} view --help", told))
    return told.printed


async def ingest(program: str, help_text: bytes, session: Session, name: str, limit_s: float) -> None:
    """Make a profile among the user's own ones, which any viewer of theirs shows.

    Raises HostError where the program cannot do it, and CaptureError where the capture is the reason.
    """
    lacking = [option for option in ("ingest-only", "display-name") if not has_option(help_text, option)]
    if lacking:
        raise HostError(f"{program} has no option --{lacking[0]}, so it is too old; update the package {_PACKAGE}")
    what = ["-d", str(session.path)]
    if not session.has_system_profile:
        # A directory without a system profile is refused.
        what = [argument for neff in session.neffs for argument in ("-n", str(neff))] + ["-s", str(session.ntff)]
    started_s = time.monotonic()
    end = await run_program([program, "view", *what, "--ingest-only", "--display-name", name], limit_s, _OUTPUT_BYTES)
    log.info("neuron-explorer took %.1f s for %s: %s", time.monotonic() - started_s, name, _text(end.printed))
    if end.code is None:
        raise HostError(
            f"{program} took longer than {limit_s / 60:g} minutes for {session.path} and was ended; 10 to 15 are usual "
            "for a large capture, so it was stuck: profile fewer calls"
        )
    if end.code != 0 and _UNKNOWN_OPTION.search(end.printed):
        said = _last_line(end)
        raise HostError(
            f"{program} takes an option of its own help for an error ({said}); update the package {_PACKAGE}"
        )
    if end.code != 0 and _NOTHING_FOUND.search(end.printed):
        raise CaptureError(f"{program} found nothing in {session.path} ({_last_line(end)}); profile it again")
    if end.code != 0:
        raise HostError(_failure(f"{program} view {what[0]} {what[1]}", end))


def has_option(help_text: bytes, option: str) -> bool:
    """Whether a help names an option, which some programs spell with one dash."""
    return re.search(rb"(?<![\w-])--?" + option.encode() + rb"(?![\w-])", help_text) is not None


def _options(help_text: bytes, into: Path) -> list[str] | str:
    """What the export is started with, or what this version lacks for it."""

    def has(option: str) -> bool:
        return has_option(help_text, option)

    if not has("ingest-only"):
        # It would process the profile all the same, and then serve it for ever.
        return "has no option --ingest-only, without which it does not end"
    profile = into / "profiles" / "global" / f"{_NAME}@latest"
    options = ["--ingest-only"]
    into.mkdir(mode=0o700, parents=True, exist_ok=True)
    if has("data-path"):
        options += ["--data-path", str(into)]
    elif has("output-file"):
        profile.mkdir(parents=True, exist_ok=True)
        options += ["--output-file", str(profile)]
    else:
        # Else the tables would go among the user's own profiles.
        return "has neither --data-path nor --output-file, and so no place for its tables"
    if has("display-name"):
        options += ["--display-name", _NAME]
    if has("output-format"):
        options += ["--output-format", "parquet"]
    if has("ignore-device-profile"):
        # The instructions of a NEFF take most of the time, and nothing here is read of them.
        options.append("--ignore-device-profile")
    return options


def _failure(command: str, end: Finished) -> str:
    """Why a command failed; empty for one that did not."""
    if end.code == 0:
        return ""
    how = "did not end" if end.code is None else f"failed with {cause_of_death(end.code)}"
    return f"{command} {how} ({_last_line(end)}); run it by hand to see more"


def _last_line(end: Finished) -> str:
    return _text(end.printed).rpartition("\n")[2].strip()[:_LAST_LINE_CHARACTERS] or "it said nothing"


def _text(printed: bytes) -> str:
    return printed.decode("utf-8", "replace").rstrip()


def _is_filled(path: Path) -> bool:
    return path.is_file() and not path.is_symlink() and path.stat().st_size > 0


def _neffs(session: Path, ntff: Path | None) -> tuple[Path, ...]:
    """The executables that an NTFF may tell of: the one whose hash it is named after, else all of the session."""
    every = sorted(path for path in session.rglob("*.neff") if _is_filled(path))
    number = ntff.name.partition("_")[0] if ntff is not None else ""
    of_hash = [path for path in every if number.isdigit() and number in path.stem.split("_")]
    return tuple(of_hash or every)
