"""The session directories of Neuron captures in a list of files: whose they are, and what each holds.

Which NEFF an NTFF belongs to is not said here: a session's NTFF covers many NEFFs, a model's exactly one.
Source: the capture guides of Neuron Explorer, SDK 2.31 to 2.33. The name of the directory of a timestamp is not
documented, and older captures have none.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# Up to the outermost folder that is named after a process.
_PROCESS = re.compile(r"(?P<directory>(?:[^/]*/)*?(?P<instance>[^/]+)_pid_(?P<pid>[0-9]+))/")
_RANK_TRACE = re.compile(r"neuron_framework_trace_rank_(?P<rank>[0-9]+)\.json")
_MAPPING = re.compile(r"framework_mapping_.*\.json")
_SYSTEM_FILES = ("ntrace.pb", "trace_info.pb")
_NEFF, _NTFF = ".neff", ".ntff"


@dataclass(frozen=True, slots=True)
class SessionFile:
    """A file of a session, by its path as it was listed."""

    path: str
    # 0 for an NTFF of a core on which nothing ran.
    size_bytes: int


@dataclass(frozen=True, slots=True)
class SessionDirectory:
    """What one process left of one session; files are sorted by path."""

    path: str
    # What the name of the process's directory says. Numbers are text: an id may have more digits than an int elsewhere.
    instance: str
    pid: str
    # In the name of its framework trace; None where no name tells it.
    rank: str | None
    neffs: tuple[SessionFile, ...]
    ntffs: tuple[SessionFile, ...]
    framework_traces: tuple[SessionFile, ...]
    framework_mappings: tuple[SessionFile, ...]
    # ntrace.pb and trace_info.pb.
    system_files: tuple[SessionFile, ...]

    @property
    def has_system_profile(self) -> bool:
        """Whether it holds what Neuron Explorer makes the table of system events of."""
        return len([file for file in self.system_files if file.size_bytes]) == len(_SYSTEM_FILES)


def find_session_directories(files: Iterable[tuple[str, int]]) -> tuple[SessionDirectory, ...]:
    """The sessions among files, given by relative path with slashes and by size; sorted by path.

    A process has one session for each directory in its own, or a single one where its capture lies in its own. A NEFF
    may lie any number of directories deeper. What lies in no directory of a process is left out; what lies in it beside
    the directories of sessions is told as of a session of its own, since it may be of any.
    """
    processes: dict[str, list[SessionFile]] = defaultdict(list)
    for path, size_bytes in files:
        process = _PROCESS.match(path)
        if process is not None:
            processes[process["directory"]].append(SessionFile(path, size_bytes))
    found: dict[str, list[SessionFile]] = defaultdict(list)
    for directory, of_process in processes.items():
        has_levels = not any(_folder(file) == directory and _is_of_capture(_name(file)) for file in of_process)
        for file in of_process:
            level, _, below = file.path[len(directory) + 1 :].partition("/")
            found[f"{directory}/{level}" if has_levels and below else directory].append(file)
    return tuple(_session(path, sorted(found[path], key=lambda file: file.path)) for path in sorted(found))


def _folder(file: SessionFile) -> str:
    return file.path.rpartition("/")[0]


def _name(file: SessionFile) -> str:
    return file.path.rpartition("/")[2]


def _is_of_capture(name: str) -> bool:
    return name in _SYSTEM_FILES or name.endswith((_NEFF, _NTFF))


def _is_trace(name: str) -> bool:
    return name == "trace.json" or _RANK_TRACE.fullmatch(name) is not None


def _session(path: str, files: list[SessionFile]) -> SessionDirectory:
    process = _PROCESS.match(f"{path}/")
    assert process is not None
    traces = tuple(file for file in files if _is_trace(_name(file)))
    ranks = {match["rank"] for file in traces if (match := _RANK_TRACE.fullmatch(_name(file)))}
    return SessionDirectory(
        path=path,
        instance=process["instance"],
        pid=process["pid"],
        rank=ranks.pop() if len(ranks) == 1 else None,
        neffs=tuple(file for file in files if file.path.endswith(_NEFF)),
        ntffs=tuple(file for file in files if file.path.endswith(_NTFF)),
        framework_traces=traces,
        framework_mappings=tuple(file for file in files if _MAPPING.fullmatch(_name(file))),
        system_files=tuple(file for file in files if _name(file) in _SYSTEM_FILES),
    )
