"""The session directories of Neuron captures in a list of files: whose they are, and what each holds.

Which NEFF an NTFF belongs to is told by pairing.py. Source: the capture guides of Neuron Explorer, SDK 2.31 to 2.33.
The name of the directory of a timestamp is not documented, and older captures have none.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# Both are needed for a system profile.
SYSTEM_FILES = ("ntrace.pb", "trace_info.pb")

# Up to the outermost folder that is named after a process. Off EC2 the form of an instance's id is not known.
_PROCESS = re.compile(r"(?P<directory>(?:[^/]*/)*?(?P<instance>[^/]+)_pid_(?P<pid>[0-9]+))/")
_RANK_TRACE = re.compile(r"neuron_framework_trace_rank_(?P<rank>[0-9]+)\.json")
_MAPPING = re.compile(r"framework_mapping_.*\.json")
_RESOURCE_FILES = ("cpu_util.pb", "host_mem.pb")
# What a file is called while it is written: .tmp behind its name, with or without something that makes it unique.
_UNFINISHED = re.compile(r"(?P<name>[^/]*)\.(?:tmp(?:\.[^./]*)?|part|partial)")
_NEFF, _NTFF = ".neff", ".ntff"


class ListedFile(NamedTuple):
    """A file by its path as it was listed, relative and with slashes."""

    path: str
    # 0 for an NTFF of a core on which nothing ran.
    size_bytes: int
    # Last change, since the epoch; None where the list does not tell it.
    modified_ns: int | None = None

    @property
    def folder(self) -> str:
        """Empty for a file at the top."""
        return self.path.rpartition("/")[0]

    @property
    def name(self) -> str:
        """Without its folder."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class SessionDirectory:
    """What one process left of one session; files are sorted by path, and each is in one field."""

    path: str
    # What the name of the process's directory says; empty where no directory is named after a process. Numbers are
    # text: an id may have more digits than an int elsewhere.
    instance: str
    pid: str
    # In the name of its framework trace; None where no name tells it.
    rank: str | None
    neffs: tuple[ListedFile, ...]
    ntffs: tuple[ListedFile, ...]
    framework_traces: tuple[ListedFile, ...]
    framework_mappings: tuple[ListedFile, ...]
    # ntrace.pb and trace_info.pb.
    system_files: tuple[ListedFile, ...]
    # What the host's processors and memory did.
    resource_files: tuple[ListedFile, ...]
    # By names of files that are being written, or were given up.
    unfinished: tuple[ListedFile, ...]
    others: tuple[ListedFile, ...]

    @property
    def has_system_profile(self) -> bool:
        """Whether it holds what Neuron Explorer makes the table of system events of."""
        return not self.missing_system_files

    @property
    def missing_system_files(self) -> tuple[str, ...]:
        """Names of those of the two that are not there, or hold nothing."""
        present = {file.name for file in self.system_files if file.size_bytes}
        return tuple(name for name in SYSTEM_FILES if name not in present)


def shown_path(path: str) -> str:
    """A path as a sentence names it: quoted and escaped where it holds what cannot be printed."""
    return path if path.isprintable() else ascii(path)


def is_framework_trace(name: str) -> bool:
    """Whether torch's exported trace, or that of one rank, is called so."""
    return name == "trace.json" or _RANK_TRACE.fullmatch(name) is not None


def process_directory(path: str) -> str:
    """The directory of the process that a session's directory is or lies in; empty where there is none."""
    process = _PROCESS.match(f"{path}/")
    return "" if process is None else process["directory"]


def find_session_directories(files: Iterable[ListedFile]) -> tuple[SessionDirectory, ...]:
    """The sessions of processes among files; sorted by path.

    A process has one session for each directory in its own, or a single one where its capture lies in its own. A NEFF
    may lie any number of directories deeper. What lies in no directory of a process is left out; what lies in it beside
    the directories of sessions is told as of a session of its own, since it may be of any.
    """
    return find_directories(file for file in files if process_directory(file.folder))[0]


def find_directories(files: Iterable[ListedFile]) -> tuple[tuple[SessionDirectory, ...], tuple[ListedFile, ...]]:
    """The sessions of processes with the directories of captures that belong to no process, and the files in neither.

    The second kind holds an NTFF or a system profile, and all below it: neuron-explorer capture writes where it is told
    to, and people copy. Both results are sorted by path.
    """
    processes: dict[str, list[ListedFile]] = defaultdict(list)
    loose = []
    for file in files:
        directory = process_directory(file.folder)
        if directory:
            processes[directory].append(file)
        else:
            loose.append(file)
    found: dict[str, list[ListedFile]] = defaultdict(list)
    for directory, of_process in processes.items():
        _add_sessions(found, directory, of_process)
    others = []
    captures = {file.folder for file in loose if _makes_capture(file.name)}
    for file in loose:
        path = next((folder for folder in _upwards(file.folder) if folder in captures), None)
        if path is None:
            others.append(file)
        else:
            found[path].append(file)
    return tuple(_session(path, _by_path(found[path])) for path in sorted(found)), tuple(_by_path(others))


def _add_sessions(found: dict[str, list[ListedFile]], directory: str, files: list[ListedFile]) -> None:
    """Sort a process's files to its sessions; where captures lie on both levels those of the deeper one stay apart."""
    has_levels = not any(file.folder == directory and _is_of_capture(file.name) for file in files)
    captures = {file.folder for file in files if _makes_capture(file.name)}
    for file in files:
        level, _, below = file.path[len(directory) + 1 :].partition("/")
        path = f"{directory}/{level}"
        found[path if below and (has_levels or path in captures) else directory].append(file)


def _upwards(folder: str) -> Iterator[str]:
    yield folder
    while folder:
        folder = folder.rpartition("/")[0]
        yield folder


def _by_path(files: Iterable[ListedFile]) -> list[ListedFile]:
    return sorted(files, key=lambda file: file.path)


def _makes_capture(name: str) -> bool:
    return name in SYSTEM_FILES or name.endswith(_NTFF)


def _is_of_capture(name: str) -> bool:
    unfinished = _UNFINISHED.fullmatch(name)
    finished = name if unfinished is None else unfinished["name"]
    return _makes_capture(finished) or finished.endswith(_NEFF)


def _session(path: str, files: list[ListedFile]) -> SessionDirectory:
    process = _PROCESS.match(f"{path}/")
    roles: dict[str, list[ListedFile]] = defaultdict(list)
    for file in files:
        roles[_role(file.name)].append(file)
    ranks = {match["rank"] for file in roles["framework_traces"] if (match := _RANK_TRACE.fullmatch(file.name))}
    return SessionDirectory(
        path=path,
        instance="" if process is None else process["instance"],
        pid="" if process is None else process["pid"],
        rank=ranks.pop() if len(ranks) == 1 else None,
        neffs=tuple(roles["neffs"]),
        ntffs=tuple(roles["ntffs"]),
        framework_traces=tuple(roles["framework_traces"]),
        framework_mappings=tuple(roles["framework_mappings"]),
        system_files=tuple(roles["system_files"]),
        resource_files=tuple(roles["resource_files"]),
        unfinished=tuple(roles["unfinished"]),
        others=tuple(roles["others"]),
    )


def _role(name: str) -> str:
    """The field of a session's directory that a file belongs in."""
    if _UNFINISHED.fullmatch(name):
        return "unfinished"
    if name in SYSTEM_FILES:
        return "system_files"
    if name in _RESOURCE_FILES:
        return "resource_files"
    if is_framework_trace(name):
        return "framework_traces"
    if _MAPPING.fullmatch(name):
        return "framework_mappings"
    return {_NEFF: "neffs", _NTFF: "ntffs"}.get(name[-len(_NEFF) :], "others")
