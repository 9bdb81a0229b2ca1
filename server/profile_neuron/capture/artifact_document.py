"""Artifacts as maps, lists and scalars, for the JSON of reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from profile_neuron.capture.artifacts import Artifacts, SessionArtifacts
    from profile_neuron.capture.session_dir import ListedFile


def artifact_document(artifacts: Artifacts) -> dict[str, Any]:
    """As JSON's own types: files by path, with the sizes of all of them once, and numbers in names as text."""
    return {
        "status": artifacts.status,
        "reason": artifacts.reason or None,
        "files": [{"path": file.path, "size_bytes": file.size_bytes} for file in artifacts.files],
        "sessions": [_session_document(item) for item in artifacts.sessions],
        "shared_neffs": _paths(artifacts.shared_neffs),
        "older": _paths(artifacts.older),
        "others": _paths(artifacts.others),
        "remarks": list(artifacts.remarks),
    }


def _session_document(session: SessionArtifacts) -> dict[str, Any]:
    pairing = session.pairing
    return {
        "path": session.path,
        "instance": session.instance or None,
        "pid": session.pid or None,
        "rank": session.rank,
        "mode": pairing.mode,
        "status": session.status,
        "reason": session.reason or None,
        "pairs": [{"ntff": pair.ntff.path, "neffs": _paths(pair.neffs)} for pair in pairing.pairs],
        "neffs_without_ntff": _paths(pairing.neffs_without_ntff),
        "ntffs_without_neff": _paths(pairing.ntffs_without_neff),
        "empty_ntffs": _paths(pairing.empty_ntffs),
        "used_cores": list(pairing.used_cores),
        "idle_cores": list(pairing.idle_cores),
        "framework_traces": _paths(session.framework_traces),
        "framework_mappings": _paths(session.framework_mappings),
        "system_files": _paths(session.system_files),
        "missing_system_files": list(session.missing_system_files),
        "resource_files": _paths(session.resource_files),
        "unfinished": _paths(session.unfinished),
        "others": _paths(session.others),
        "remarks": list(session.remarks),
    }


def _paths(files: Iterable[ListedFile]) -> list[str]:
    return [file.path for file in files]
