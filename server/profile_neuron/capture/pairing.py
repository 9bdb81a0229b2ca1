"""Which NEFFs each NTFF is read with, by the names of both.

The profiler of a session writes an NTFF for each NeuronCore, of all that ran there; one of models writes an NTFF for
each NEFF and NeuronCore, and both carry the model's number. neuron-explorer capture writes an NTFF of one NEFF, under
any name. Source: the capture guides of Neuron Explorer, SDK 2.31 to 2.33; public tools for names with _vnc_ alone.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from profile_neuron.capture.session_dir import ListedFile

# What made the NTFFs: a session, models, neuron-explorer capture; none where there are none.
Mode = Literal["session", "model", "capture", "none"]

_OF_SESSION = re.compile(r"profile_nc_(?P<core>[0-9]{1,9})_session_[0-9]+\.ntff")
# The number is a hash of 64 bits: text, since programs that read our JSON may round it.
_OF_MODEL = re.compile(
    r"(?:neff_|graph_)?(?P<number>[0-9]+)(?:_instid_(?P<instance>[0-9]+))?(?:_vnc_(?P<core>[0-9]{1,9}))?\.(?:neff|ntff)"
)
_OF_CAPTURE = re.compile(r"(?P<tag>[^/]+?)(?:_rank_[0-9]+)?(?:_exec_[0-9]+)?\.ntff")


@dataclass(frozen=True, slots=True)
class Pair:
    """An NTFF that holds something, with what Neuron Explorer needs to read it."""

    ntff: ListedFile
    # In a session all that it may have executed, else one.
    neffs: tuple[ListedFile, ...]


@dataclass(frozen=True, slots=True)
class Pairing:
    """The NEFFs and NTFFs of one directory; sorted by path, with numbers in it by value."""

    mode: Mode
    pairs: tuple[Pair, ...]
    # Normal: not executed while the profiler was on.
    neffs_without_ntff: tuple[ListedFile, ...]
    ntffs_without_neff: tuple[ListedFile, ...]
    # In no pair: there is nothing in them to read.
    empty_ntffs: tuple[ListedFile, ...]
    # NeuronCores by the names of NTFFs; idle ones have only empty ones.
    used_cores: tuple[int, ...]
    idle_cores: tuple[int, ...]


def pair_files(
    ntffs: Iterable[ListedFile], neffs: Iterable[ListedFile], shared_neffs: Iterable[ListedFile] = ()
) -> Pairing:
    """Match the files of one directory; neffs: without empty ones.

    shared_neffs: that a server keeps beside the directories of its processes. They are told in pairs only.
    """
    ntffs, neffs, shared = (sorted(files, key=by_number) for files in (ntffs, neffs, shared_neffs))
    candidates = _Candidates(neffs, shared)
    written = [(ntff, candidates.of(ntff)) for ntff in ntffs if ntff.size_bytes]
    executed = candidates.executed(found for _, found in written)
    used = {_core(ntff) for ntff, _ in written}
    idle = {_core(ntff) for ntff in ntffs} - used
    return Pairing(
        mode=_mode(ntffs),
        pairs=tuple(Pair(ntff, found) for ntff, found in written if found),
        neffs_without_ntff=tuple(neff for neff in neffs if neff not in executed),
        ntffs_without_neff=tuple(ntff for ntff, found in written if not found),
        empty_ntffs=tuple(ntff for ntff in ntffs if not ntff.size_bytes),
        used_cores=tuple(sorted(core for core in used if core is not None)),
        idle_cores=tuple(sorted(core for core in idle if core is not None)),
    )


def model_number(file: ListedFile) -> str:
    """The number in the name of a model's NEFF or NTFF; empty where the name has none."""
    match = _OF_MODEL.fullmatch(file.name)
    return "" if match is None else match["number"]


def by_number(file: ListedFile) -> tuple[Any, ...]:
    """A key that sorts paths with the numbers in them by value: vnc_2 before vnc_10."""
    parts = re.split(r"([0-9]+)", file.path)
    for index in range(1, len(parts), 2):
        digits = parts[index].lstrip("0")
        # As the length ahead of the digits, since a number may be of any length.
        parts[index] = f"{len(digits):05}{digits}"
    return parts, file.path


def _mode(ntffs: Sequence[ListedFile]) -> Mode:
    if not ntffs:
        return "none"
    kinds = {_kind(ntff) for ntff in ntffs}
    return "session" if "session" in kinds else "model" if "model" in kinds else "capture"


def _kind(ntff: ListedFile) -> Mode:
    if _OF_SESSION.fullmatch(ntff.name):
        return "session"
    return "model" if _OF_MODEL.fullmatch(ntff.name) else "capture"


def _core(ntff: ListedFile) -> int | None:
    match = _OF_SESSION.fullmatch(ntff.name) or _OF_MODEL.fullmatch(ntff.name)
    return None if match is None or match["core"] is None else int(match["core"])


class _Candidates:
    """The NEFFs that an NTFF may be of."""

    def __init__(self, neffs: Sequence[ListedFile], shared: Sequence[ListedFile]) -> None:
        self._own = neffs
        # One object for all NTFFs of a session: there may be a hundred, and thousands of NEFFs.
        self._all = (*neffs, *shared)
        self._own_by_number = _by_number(neffs)
        self._shared_by_number = _by_number(shared)

    def of(self, ntff: ListedFile) -> tuple[ListedFile, ...]:
        """Those that it is of; empty where there is none, or no telling which."""
        kind = _kind(ntff)
        if kind == "session":
            return self._all
        if kind == "capture":
            return _of_capture(ntff, self._own)
        number = model_number(ntff)
        return _of_model(ntff, self._own_by_number.get(number) or self._shared_by_number.get(number, []))

    def executed(self, found: Iterable[tuple[ListedFile, ...]]) -> set[ListedFile]:
        """All NEFFs in what was found for NTFFs."""
        distinct = {id(neffs): neffs for neffs in found}
        return {neff for neffs in distinct.values() for neff in neffs}


def _by_number(neffs: Iterable[ListedFile]) -> dict[str, list[ListedFile]]:
    found = defaultdict(list)
    for neff in neffs:
        found[model_number(neff)].append(neff)
    return found


def _of_model(ntff: ListedFile, neffs: Sequence[ListedFile]) -> tuple[ListedFile, ...]:
    """Of NEFFs with its number the one of its core, else one of no core, else the first: all are of the same model."""
    wanted = _OF_MODEL.fullmatch(ntff.name)
    assert wanted is not None

    def distance(neff: ListedFile) -> list[int]:
        match = _OF_MODEL.fullmatch(neff.name)
        assert match is not None
        told = [(match[name], wanted[name]) for name in ("core", "instance")]
        return [0 if there == asked else 1 if there is None else 2 for there, asked in told]

    return (min(neffs, key=distance),) if neffs else ()


def _of_capture(ntff: ListedFile, neffs: Sequence[ListedFile]) -> tuple[ListedFile, ...]:
    """The only NEFF beside it, or the one of its name; which of several others it is of, nothing tells."""
    match = _OF_CAPTURE.fullmatch(ntff.name)
    assert match is not None
    beside = [neff for neff in neffs if neff.folder == ntff.folder] or neffs
    named = [neff for neff in beside if neff.name == f"{match['tag']}.neff"]
    return tuple(beside if len(beside) == 1 else named[:1])
