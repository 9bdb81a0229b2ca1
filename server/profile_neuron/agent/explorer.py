"""Neuron Explorer as a program that turns a capture into tables, and ends then.

Source: the guides of Neuron Explorer, SDK 2.31 to 2.33. Which options there are differs between its versions and is
read from its help.
"""

from __future__ import annotations

import logging
import re
import time
from typing import TYPE_CHECKING

from profile_neuron.agent.child import cause_of_death, run_program
from profile_neuron.agent.device import tool_path
from profile_neuron.errors import HostError

if TYPE_CHECKING:
    from pathlib import Path

    from profile_neuron.agent.child import Finished

log = logging.getLogger(__name__)

_PROGRAM = "neuron-explorer"
_HELP_S = 30.0
_OUTPUT_BYTES = 1 << 16
_LAST_LINE_CHARACTERS = 300
# Of the profile among those of a data folder; it may hold no spaces.
_NAME = "profile-neuron"
_PACKAGE = "aws-neuronx-tools"


async def export_tables(session: Path, into: Path, limit_s: float) -> str:
    """Write the tables of a session directory to a data folder of ours; why that failed, or empty where it did not.

    The tables are in profiles/global/<name>@latest below the folder, which is made; a table without rows has no file.
    What took longer than the limit is ended, and so is what the program itself started in its group.
    """
    program = tool_path(_PROGRAM)
    if program is None:
        return f"Neuron Explorer is not installed; install the package {_PACKAGE}, which has {_PROGRAM}"
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


def _options(help_text: bytes, into: Path) -> list[str] | str:
    """What the export is started with, or what this version lacks for it."""

    def has(option: str) -> bool:
        return re.search(rb"(?<![\w-])--?" + option.encode() + rb"(?![\w-])", help_text) is not None

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
    last = end.printed.decode("utf-8", "replace").rstrip().rpartition("\n")[2].strip()[:_LAST_LINE_CHARACTERS]
    return f"{command} {how} ({last or 'it said nothing'}); run it by hand to see more"
