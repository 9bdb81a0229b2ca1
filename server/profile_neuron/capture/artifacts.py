"""What is usable of the files that profilers of Neuron left in a folder, and what to do about the rest.

Judged by names, sizes and times alone. That a NEFF and an NTFF are of different compilations is seen by their numbers,
not by the identity inside of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from profile_neuron.capture import artifact_remarks
from profile_neuron.capture.pairing import Pairing, by_number, model_number, pair_files
from profile_neuron.capture.session_dir import ListedFile, find_directories, is_framework_trace, process_directory

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from profile_neuron.capture.session_dir import SessionDirectory

# empty is of a session's directory in which nothing is of a device; a folder of no sessions has no device events.
Status = Literal["ok", "partial", "no-device-events", "empty", "artifact-mismatch"]
# Why the status is not ok, first what matters most.
Reason = Literal[
    "",
    "no-neff",
    "other-neffs",
    "unknown-neff",
    "system-file-missing",
    "unfinished",
    "not-all-seen",
    "system-only",
    "all-ntff-empty",
    "no-ntff",
    "no-session",
    "some-sessions",
]

# What a server compiled beside the directories of its processes.
_SERVED = re.compile(r"(?P<base>(?:[^/]+/)*?)neffs/(?:[^/]+/)*[^/]+\.neff")


@dataclass(frozen=True, slots=True)
class SessionArtifacts:
    """One session's directory; each of its files is in one field, but a NEFF in as many pairs as it has NTFFs."""

    # As in SessionDirectory.
    path: str
    instance: str
    pid: str
    rank: str | None
    status: Status
    reason: Reason
    # With all NEFFs and NTFFs that are whole.
    pairing: Pairing
    # Those that hold something.
    framework_traces: tuple[ListedFile, ...]
    framework_mappings: tuple[ListedFile, ...]
    system_files: tuple[ListedFile, ...]
    # Of ntrace.pb and trace_info.pb.
    missing_system_files: tuple[str, ...]
    resource_files: tuple[ListedFile, ...]
    # Still being written or given up, by name or because there is nothing in them.
    unfinished: tuple[ListedFile, ...]
    others: tuple[ListedFile, ...]
    # One sentence each, with what to do.
    remarks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Artifacts:
    """All files of a folder; each is in one session or in one field here."""

    status: Status
    reason: Reason
    # All that were listed.
    files: tuple[ListedFile, ...]
    # Sorted by path.
    sessions: tuple[SessionArtifacts, ...]
    # In a folder neffs beside the directories of processes; sessions there have them in their pairs.
    shared_neffs: tuple[ListedFile, ...]
    # From before the run: they do not count.
    older: tuple[ListedFile, ...]
    # Of other people.
    others: tuple[ListedFile, ...]
    remarks: tuple[str, ...]


def judge_artifacts(
    folder: str, files: Iterable[ListedFile], since_ns: int | None = None, gaps: Sequence[str] = ()
) -> Artifacts:
    """Judge the files below a folder, which remarks name.

    since_ns: what was last changed before does not count; gaps: why files may be missing from the list, as remarks.
    """
    files = _sorted(files)
    counted, older = _split(files, since_ns)
    directories, loose = find_directories(counted)
    judged, beside = _without_strays(directories)
    served, others = _served(loose)
    sessions = tuple(_judge_session(folder, item, served) for item in judged)
    status, reason = _overall(sessions, bool(gaps))
    told = [*gaps]
    if not sessions:
        told.append(artifact_remarks.no_session(folder))
    elif any(not item.framework_traces for item in sessions):
        strays = [file for file in (*beside, *others) if is_framework_trace(file.name)]
        told += artifact_remarks.stray_traces(folder, strays)
    if older:
        told.append(artifact_remarks.older(folder, older))
    return Artifacts(
        status=status,
        reason=reason,
        files=files,
        sessions=sessions,
        shared_neffs=_sorted(neff for neffs in served.values() for neff in neffs),
        older=_sorted(older),
        others=_sorted((*others, *beside)),
        remarks=tuple(told),
    )


def _sorted(files: Iterable[ListedFile]) -> tuple[ListedFile, ...]:
    return tuple(sorted(files, key=by_number))


def _split(files: Iterable[ListedFile], since_ns: int | None) -> tuple[list[ListedFile], list[ListedFile]]:
    """What counts, and what is older. A time that is not known counts."""
    counted: list[ListedFile] = []
    older: list[ListedFile] = []
    for file in files:
        is_older = since_ns is not None and file.modified_ns is not None and file.modified_ns < since_ns
        (older if is_older else counted).append(file)
    return counted, older


def _without_strays(directories: Sequence[SessionDirectory]) -> tuple[list[SessionDirectory], list[ListedFile]]:
    """Sessions, and the files that lie in a process's directory beside its sessions."""
    with_levels = {process_directory(item.path) for item in directories if process_directory(item.path) != item.path}
    sessions, beside = [], []
    for item in directories:
        if item.path in with_levels and not (item.ntffs or item.neffs or item.system_files or item.unfinished):
            beside += [*item.framework_traces, *item.framework_mappings, *item.resource_files, *item.others]
        else:
            sessions.append(item)
    return sessions, beside


def _served(loose: Iterable[ListedFile]) -> tuple[dict[str, list[ListedFile]], list[ListedFile]]:
    """NEFFs by the directory that their folder neffs lies in, and the other files."""
    served: dict[str, list[ListedFile]] = {}
    others = []
    for file in loose:
        match = _SERVED.fullmatch(file.path)
        if match is None:
            others.append(file)
        else:
            served.setdefault(match["base"].rstrip("/"), []).append(file)
    return served, others


def _judge_session(folder: str, directory: SessionDirectory, served: dict[str, list[ListedFile]]) -> SessionArtifacts:
    neffs, empty_neffs = _whole(directory.neffs)
    traces, empty_traces = _whole(directory.framework_traces)
    system_files, empty_system_files = _whole(directory.system_files)
    process = process_directory(directory.path)
    shared = [neff for neff in served.get(process.rpartition("/")[0], ()) if neff.size_bytes] if process else []
    pairing = pair_files(directory.ntffs, neffs, shared)
    unfinished = _sorted((*directory.unfinished, *empty_neffs, *empty_traces, *empty_system_files))
    status, reason = _verdict(directory, pairing, [*neffs, *shared], unfinished)
    session = SessionArtifacts(
        path=directory.path,
        instance=directory.instance,
        pid=directory.pid,
        rank=directory.rank,
        status=status,
        reason=reason,
        pairing=pairing,
        framework_traces=_sorted(traces),
        framework_mappings=_sorted(directory.framework_mappings),
        system_files=_sorted(system_files),
        missing_system_files=directory.missing_system_files,
        resource_files=_sorted(directory.resource_files),
        unfinished=unfinished,
        others=_sorted(directory.others),
        remarks=(),
    )
    return replace(session, remarks=tuple(artifact_remarks.of_session(folder, session)))


def _whole(files: Iterable[ListedFile]) -> tuple[list[ListedFile], list[ListedFile]]:
    """Those that hold something, and those that hold nothing."""
    return [file for file in files if file.size_bytes], [file for file in files if not file.size_bytes]


def _verdict(
    directory: SessionDirectory,
    pairing: Pairing,
    neffs: Sequence[ListedFile],
    unfinished: Sequence[ListedFile],
) -> tuple[Status, Reason]:
    if pairing.ntffs_without_neff:
        reason = _no_neff(pairing, neffs)
        return ("artifact-mismatch" if reason == "other-neffs" else "partial"), reason
    if pairing.pairs:
        # Without any of the two the profiler was not asked for a system profile.
        if len(directory.missing_system_files) == 1:
            return "partial", "system-file-missing"
        return ("partial", "unfinished") if unfinished else ("ok", "")
    if pairing.empty_ntffs:
        return "no-device-events", "all-ntff-empty"
    if directory.has_system_profile:
        return "partial", "system-only"
    if unfinished:
        return "no-device-events", "unfinished"
    is_capture = neffs or directory.framework_traces or directory.framework_mappings or directory.system_files
    return ("no-device-events" if is_capture else "empty"), "no-ntff"


def _no_neff(pairing: Pairing, neffs: Sequence[ListedFile]) -> Reason:
    """Why NTFFs have no NEFF; neffs: all that they could have had."""
    if pairing.pairs or not neffs:
        return "no-neff"
    are_numbered = any(map(model_number, pairing.ntffs_without_neff)) and any(map(model_number, neffs))
    return "other-neffs" if are_numbered else "unknown-neff"


def _overall(sessions: Sequence[SessionArtifacts], has_gaps: bool) -> tuple[Status, Reason]:
    if has_gaps:
        return "partial", "not-all-seen"
    told = [(item.status, item.reason) for item in sessions if item.status != "empty"]
    if not told:
        return "no-device-events", "no-session"
    states = {status for status, _ in told}
    if len(states) == 1:
        return told[0]
    return ("partial" if states & {"ok", "partial"} else "artifact-mismatch"), "some-sessions"
