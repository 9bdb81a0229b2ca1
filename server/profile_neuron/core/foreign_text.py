"""What there is to say of the user's own profiles, in sentences and in the short texts of an editor."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from profile_neuron.core import units
from profile_neuron.core.executions import QUEUEING
from profile_neuron.core.render import DEVICE_TIME_UNKNOWN, Lens
from profile_neuron.core.work_text import executions_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from profile_neuron.core.foreign import ForeignProfile, OperatorTotals, Reason, Unattributed
    from profile_neuron.core.foreign_capture import ForeignCapture, ForeignFunction, ForeignRemark
    from profile_neuron.core.hover import Now

LINES_UNKNOWN = "lines: none, torch names only functions"

_REASONS: Mapping[Reason, str] = {
    "no-operator": "the trace links it to no operator",
    "several-operators": "it ran for several operators at once and cannot be divided between their functions",
    "other-thread": "a thread asked for it of which the trace has no Python frames",
    "outside": "it was asked for outside of all functions that are listed",
    "name-lost": "a function asked for it whose name torch has lost, since it is not of printable ASCII",
    "no-stacks": "the trace has no Python frames; profile with with_stack=True",
    "explorer": "the tables of Neuron Explorer name no functions",
}


def reason_text(reason: Reason) -> str:
    """Why time of the device belongs to no function."""
    return _REASONS[reason]


def unattributed_text(item: Unattributed) -> str:
    """What belongs to no function, for one reason."""
    events = f"{item.executions} event{'' if item.executions == 1 else 's'} of the device"
    return f"unattributed: {units.duration(item.device_ns)} in {events}: {reason_text(item.reason)}"


def profile_remarks(profile: ForeignProfile) -> Iterator[str]:
    """What of a trace is damaged or to be taken with care."""
    yield from profile.warnings
    if not profile.operators:
        yield "the trace holds no operator; profile with ProfilerActivity.CPU, too"
    elif not profile.functions:
        yield "the trace has no frame of a function of yours; profile with with_stack=True"
    if profile.may_include_queueing:
        yield QUEUEING
    if profile.lost_names:
        frames = f"{profile.lost_names} frame{'' if profile.lost_names == 1 else 's'}"
        yield f"torch has lost the names of {frames}, since they are not of printable ASCII"


def missing_device(profile: ForeignProfile) -> Iterator[str]:
    """Why nothing is known of the device; empty where something is."""
    if profile.device_ns is None:
        yield f"{DEVICE_TIME_UNKNOWN}: {', or '.join(profile.causes)}"
    if profile.lacks_synchronize:
        yield (
            "the device was asked for work of which the trace has no event; call torch.neuron.synchronize() inside of "
            "the profiled part, before its last prof.step()"
        )


def headline(capture: ForeignCapture) -> str:
    """The totals of a capture."""
    if capture.device_ns is None:
        return DEVICE_TIME_UNKNOWN
    parts = [f"device {units.duration(capture.device_ns)}", executions_text(capture.executions)]
    return " · ".join(part for part in parts if part)


def remark_text(remark: ForeignRemark) -> str:
    """What keeps the device waiting in a function."""
    times = "" if remark.calls == 1 else f" {remark.calls} times"
    host = units.duration(remark.host_ns)
    match remark.code:
        case "cpu-fallback":
            return f"{remark.operator} ran on the CPU instead of the device{times}, {host} with its copies"
        case "host-sync":
            return f"{remark.operator} waited{times} for the device, {host}"
    way = " and ".join(sorted(remark.directions)) if "unknown" not in remark.directions else "between host and device"
    return f"{remark.operator} copied {way}{times}, {host} on the host"


def device_text(capture: ForeignCapture, device_ns: int | None) -> str:
    """Time of the device of a function or a part of it; a dash where it is not known."""
    if device_ns is None or (device_ns == 0 and capture.lower_bound):
        return "–"
    return f"{'≥' if capture.lower_bound else ''}{units.duration(device_ns)}"


def written_text(capture: ForeignCapture, now: Now) -> str:
    """When a trace was written: 14:02, with the date where that is not today's."""
    zone = timezone(timedelta(seconds=now.utc_offset_s))
    then, today = (datetime.fromtimestamp(seconds, zone) for seconds in (capture.written_s or 0.0, now.s))
    return f"{then:%H:%M}" if then.date() == today.date() else f"{then:%Y-%m-%d %H:%M}"


def foreign_lens(
    capture: ForeignCapture, function: ForeignFunction, line: int, is_stale: bool, now: Now
) -> Lens | None:
    """The total of a function above its first line in today's text; None where the device did nothing for it.

    Other threads may have asked for work of such a function, so there is no number to show.
    """
    if function.device_ns == 0 or function.qualname is None:
        return None
    if function.device_ns is None:
        text = f"{DEVICE_TIME_UNKNOWN}, host {units.duration(function.host_ns)}"
    else:
        text = f"{device_text(capture, function.device_ns)} device"
    title = f"{'~' if is_stale else ''}{text} · from your profile, {written_text(capture, now)}"
    return Lens(line, title, "showReport", function.qualname, function.occurrence or 0, is_foreign=True)


def function_report(found: Sequence[tuple[ForeignCapture, ForeignFunction]], is_stale: bool, now: Now) -> str:
    """A document about one function in captures of the user's, newest first; empty where there are none."""
    if not found:
        return ""
    lines = [f"# {found[0][1].name}, from your own profiles", ""]
    if is_stale:
        lines += ["The file was changed after it was profiled.", ""]
    for capture, function in found:
        lines += [f"## {written_text(capture, now)}", "", _code(capture.path), ""]
        lines += [f"- {text}" for text in _function_texts(capture, function)]
        lines += ["", *_table(function.operators), ""] if function.operators else [""]
    return "\n".join(lines)


def _function_texts(capture: ForeignCapture, function: ForeignFunction) -> Iterable[str]:
    yield f"in the trace: {_code(function.trace_name)}"
    calls = f"{function.calls} call{'' if function.calls == 1 else 's'}"
    executions = executions_text(function.executions)
    device = DEVICE_TIME_UNKNOWN
    if function.device_ns is not None:
        own = device_text(capture, function.own_device_ns)
        device = f"device {device_text(capture, function.device_ns)}, of which {own} its own"
    yield " · ".join(part for part in (device, executions, f"host {units.duration(function.host_ns)}", calls) if part)
    if function.compiled:
        yield "it called compiled code, whose time is that of the function as a whole"
    yield from (_plain(remark_text(remark)) for remark in function.remarks)
    yield from (_plain(unattributed_text(item)) for item in capture.unattributed)
    yield from map(_plain, capture.warnings)
    yield _plain(capture.provenance)


def _table(rows: Iterable[OperatorTotals]) -> Iterator[str]:
    yield "| operator | calls | self | device |"
    yield "|:--|--:|--:|--:|"
    for row in rows:
        device = "–" if row.own_device_ns is None else units.duration(row.own_device_ns)
        yield f"| {_code(row.name)} | {row.calls} | {units.duration(row.self_host_ns)} | {device} |"


def _code(text: str) -> str:
    """A name as Markdown shows it unchanged, on one line."""
    return f"`{_plain(text).replace('`', chr(39)).replace('|', '¦')}`"


def _plain(text: str) -> str:
    return " ".join(text.split())
