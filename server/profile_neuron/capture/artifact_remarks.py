"""What people are told of the files of a capture: one sentence for each thing, with what to do.

Source of the advice: the troubleshooting page of Neuron Explorer, SDK 2.33. It is normal that a core is idle or that a
NEFF did not run, so neither is a remark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from profile_neuron.capture.session_dir import SYSTEM_FILES, shown_path
from profile_neuron.core.units import size

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from profile_neuron.capture.artifacts import SessionArtifacts
    from profile_neuron.capture.session_dir import ListedFile

# Neuron Explorer fails or hangs above it.
_LARGE_BYTES = 5_000_000_000


def of_session(folder: str, session: SessionArtifacts) -> Iterator[str]:
    """What matters most first. folder: that the paths are relative to."""
    place = _place(folder, session.path)
    yield from _on_device(place, session)
    for ntff in (pair.ntff for pair in session.pairing.pairs if pair.ntff.size_bytes > _LARGE_BYTES):
        yield (
            f"{shown_path(ntff.name)} in {place} has {size(ntff.size_bytes)}, and above {size(_LARGE_BYTES)} Neuron "
            "Explorer may fail or hang; profile fewer calls or fewer NeuronCores"
        )
    if session.unfinished:
        yield (
            f"{_named(session.unfinished)} in {place} is not complete; wait until its process has ended, or profile "
            "again if it was killed"
        )
    yield from _on_host(place, session)


def no_session(folder: str) -> str:
    """There is no capture in the whole folder."""
    return (
        f"{shown_path(folder)} holds no profile of a NeuronCore; see that profile_output_dir of NeuronConfig names it, "
        "and that the profiler ends before the process does"
    )


def stray_traces(folder: str, files: Sequence[ListedFile]) -> Iterator[str]:
    """Framework traces that lie in no session's directory."""
    for file in files:
        yield (
            f"{_place(folder, file.path)} lies in no session's directory, so Neuron Explorer does not find it; move it "
            "into the directory of its process's session"
        )


def older(folder: str, files: Sequence[ListedFile]) -> str:
    """Files that are there from before the run."""
    return (
        f"{_named(files)} in {shown_path(folder)} is from before this run and does not count; give every run an output "
        "directory of its own"
    )


def _on_device(place: str, session: SessionArtifacts) -> Iterator[str]:
    pairing = session.pairing
    alone = pairing.ntffs_without_neff
    if session.reason == "other-neffs":
        yield (
            f"the NEFFs in {place} have other numbers than {_named(alone)}, so they are of other compilations; profile "
            "again, with all in one session"
        )
    elif session.reason == "unknown-neff":
        yield (
            f"the names in {place} do not tell which NEFF {_named(alone)} was captured of; name both to "
            "neuron-explorer view, with -n and -s"
        )
    elif alone:
        yield (
            f"the NEFF of {_named(alone)} is missing in {place}; set neff_cache_dir of NeuronConfig or "
            "TORCH_NEURONX_NEFF_CACHE_DIR before the run, or copy it from the cache, /tmp/neff_cache by default"
        )
    if session.reason == "all-ntff-empty":
        yield (
            f"nothing ran on the device while {place} was captured: all of its NTFFs are empty; call at least 3 times "
            "before the profiled calls, call torch.neuron.synchronize() before the profiler ends, and see that "
            "ProfileMode.DEVICE is on"
        )
    elif session.reason == "system-only":
        yield (
            f"{place} holds a system profile only, which tells when NEFFs ran and nothing of their insides; add "
            "ProfileMode.DEVICE to the modes for times inside of compiled code"
        )
    elif session.reason == "no-ntff":
        what = "a capture" if session.status == "empty" else "the device"
        yield (
            f"{place} holds no profile of {what}; profile with ProfileMode.DEVICE and ProfileMode.RUNTIME, and end the "
            "profiler before the process ends"
        )


def _on_host(place: str, session: SessionArtifacts) -> Iterator[str]:
    missing = session.missing_system_files
    if len(missing) == 1:
        yield (
            f"{missing[0]} is missing in {place}, so its system profile cannot be read; wait until its process has "
            "ended, or profile again"
        )
    if session.pairing.mode not in ("session", "model"):
        return
    if missing == SYSTEM_FILES:
        yield (
            f"{place} holds no system profile; add ProfileMode.RUNTIME to the modes to see the host beside the device"
        )
    if not session.framework_traces:
        usable = ", while its device data is still usable" if session.pairing.pairs else ""
        yield (
            f"the framework trace is missing in {place}{usable}; give NeuronProfiler(config).export_trace as "
            "on_trace_ready to have operators by name"
        )


def _place(folder: str, path: str) -> str:
    return shown_path(f"{folder.rstrip('/')}/{path}" if path else folder)


def _named(files: Sequence[ListedFile]) -> str:
    first = shown_path(files[0].name)
    return first if len(files) == 1 else f"{first} (one of {len(files)})"
