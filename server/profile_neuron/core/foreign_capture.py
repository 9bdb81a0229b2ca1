"""What the user's own profiler left of one process, as it is shown and as the JSON document has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from profile_neuron.core.document import SCHEMA
from profile_neuron.core.foreign import SOURCE, OperatorTotals, Unattributed
from profile_neuron.core.foreign_text import LINES_UNKNOWN, missing_device, profile_remarks
from profile_neuron.core.plain import from_plain, to_plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from profile_neuron.core.foreign import ForeignProfile
    from profile_neuron.core.foreign_places import Place
    from profile_neuron.core.frames import FunctionName


@dataclass(frozen=True, slots=True)
class ForeignRemark:
    """What keeps the device waiting in a function, in all of its calls."""

    code: str
    operator: str
    calls: int
    host_ns: int
    # Of copies.
    directions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ForeignFunction:
    """One function in all of its calls; numbers as in FunctionTotals."""

    # As the trace names it: the file is shortened, the line the function's first.
    file: str
    line: int
    name: str
    # The one function of the project that it can be, with which of several of its qualified name; None where there is
    # none, or more than one.
    path: str | None
    qualname: str | None
    occurrence: int | None
    calls: int
    host_ns: int
    device_ns: int | None
    own_device_ns: int | None
    executions: int | None
    compiled: bool
    operators: tuple[OperatorTotals, ...]
    remarks: tuple[ForeignRemark, ...]

    @property
    def trace_name(self) -> str:
        """As torch writes it: model.py(3): rms."""
        return f"{self.file}({self.line}): {self.name}"


@dataclass(frozen=True, slots=True)
class ForeignCapture:
    """One trace with the session directory that it lies in, or a session directory without a trace."""

    # Of the trace, else of the session directory.
    path: str
    # What the names of the session directory and of its trace say; None where they say nothing.
    session: str | None
    instance: str | None
    pid: str | None
    rank: str | None
    # When the trace was written, in seconds since the epoch; None without one.
    written_s: float | None
    # missing: there is no trace that can be read.
    status: Literal["complete", "partial", "missing"]
    # Own times of the functions and what is unattributed add up to it; None where it is not known.
    device_ns: int | None
    executions: int | None
    lower_bound: bool
    may_include_queueing: bool
    functions: tuple[ForeignFunction, ...]
    operators: tuple[OperatorTotals, ...]
    unattributed: tuple[Unattributed, ...]
    # What is missing and why, what is damaged, and what else lies there; one sentence each, without its period.
    warnings: tuple[str, ...]
    # Where each kind of number is from.
    provenance: str


@dataclass(frozen=True, slots=True)
class Session:
    """What names tell of the session directory that a trace lies in."""

    path: str
    instance: str
    pid: str
    rank: str | None


@dataclass(frozen=True, slots=True)
class ExplorerTotals:
    """What Neuron Explorer's tables say of a whole process."""

    source: str
    device_ns: int
    executions: int
    warnings: tuple[str, ...]


def capture_of(
    path: str,
    written_s: float,
    profile: ForeignProfile,
    places: Mapping[FunctionName, Place],
    session: Session | None = None,
    explorer: ExplorerTotals | None = None,
    remarks: Iterable[str] = (),
) -> ForeignCapture:
    """A trace as it is shown. places: of the functions that the project has once.

    explorer: counts where the trace has no event of the device. remarks: on the files beside the trace.
    """
    by_explorer = explorer if profile.device_ns is None else None
    device_ns, executions, unattributed = profile.device_ns, profile.executions, profile.unattributed
    if by_explorer is not None:
        device_ns, executions, unattributed = by_explorer.device_ns, by_explorer.executions, _of_explorer(by_explorer)
    warnings = (
        *profile_remarks(profile),
        *(missing_device(profile) if by_explorer is None else by_explorer.warnings),
        *remarks,
    )
    device_source = by_explorer.source if by_explorer is not None else SOURCE
    return ForeignCapture(
        path=path,
        **_told_by_names(session),
        written_s=written_s,
        status=profile.status,
        device_ns=device_ns,
        executions=executions,
        lower_bound=profile.is_lower_bound,
        may_include_queueing=profile.may_include_queueing,
        functions=tuple(_functions(profile, places)),
        operators=profile.operators,
        unattributed=unattributed,
        warnings=warnings,
        provenance="; ".join((
            f"calls, host times and operators: {SOURCE}",
            f"device times: {device_source if device_ns is not None else 'unknown'}",
            LINES_UNKNOWN,
        )),
    )  # fmt: skip


def capture_without_trace(
    path: str, session: Session | None, explorer: ExplorerTotals | None, remarks: Iterable[str] = ()
) -> ForeignCapture:
    """A session directory without a trace, or a trace that cannot be read."""
    known = explorer.source if explorer is not None else "unknown"
    return ForeignCapture(
        path=path,
        **_told_by_names(session),
        written_s=None,
        status="missing",
        device_ns=explorer.device_ns if explorer is not None else None,
        executions=explorer.executions if explorer is not None else None,
        lower_bound=False,
        may_include_queueing=False,
        functions=(),
        operators=(),
        unattributed=_of_explorer(explorer) if explorer is not None else (),
        warnings=(*remarks, *(explorer.warnings if explorer is not None else ())),
        provenance=f"calls, host times and operators: unknown; device times: {known}; {LINES_UNKNOWN}",
    )


def total_device_ns(captures: Iterable[ForeignCapture]) -> int | None:
    """Of several processes and sessions together; None where one is not known, or two may tell of the same.

    A time of the device belongs to one session. Two traces in one session may hold the same executions, and so may two
    traces that lie in none.
    """
    captures = tuple(captures)
    sessions = {capture.session for capture in captures}
    times = [capture.device_ns for capture in captures if capture.device_ns is not None]
    if len(captures) < 2 or None in sessions or len(sessions) < len(captures) or len(times) < len(captures):
        return None
    return sum(times)


def foreign_document(captures: Iterable[ForeignCapture], warnings: Iterable[str] = ()) -> dict[str, Any]:
    """The JSON document; of the device nothing is told but times."""
    captures = tuple(captures)
    return {
        "schema": SCHEMA,
        "device": None,
        "functions": [],
        "foreign": [to_plain(capture) for capture in captures],
        "foreign_device_ns": total_device_ns(captures),
        "warnings": list(warnings),
    }


def captures_in(document: object) -> tuple[ForeignCapture, ...]:
    """The captures of a JSON document. Raises TypeError for what is none."""
    listed = document.get("foreign") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise TypeError("the document has no list of foreign captures")
    return tuple(from_plain(ForeignCapture, item) for item in listed)


def _told_by_names(session: Session | None) -> dict[str, Any]:
    names = ("session", "instance", "pid", "rank")
    if session is None:
        return dict.fromkeys(names)
    return dict(zip(names, (session.path, session.instance, session.pid, session.rank), strict=True))


def _functions(profile: ForeignProfile, places: Mapping[FunctionName, Place]) -> Iterable[ForeignFunction]:
    for item in profile.functions:
        place = places.get(item.function)
        yield ForeignFunction(
            file=item.function.file,
            line=item.function.line,
            name=item.function.name,
            path=place.path if place is not None else None,
            qualname=place.qualname if place is not None else None,
            occurrence=place.occurrence if place is not None else None,
            calls=item.calls,
            host_ns=item.host_ns,
            device_ns=item.device_ns,
            own_device_ns=item.own_device_ns,
            executions=item.executions,
            compiled=item.compiled,
            operators=item.operators,
            remarks=tuple(
                ForeignRemark(remark.kind, remark.operator, int(remark.calls), remark.host_ns, remark.directions)
                for remark in item.remarks
            ),
        )


def _of_explorer(totals: ExplorerTotals) -> tuple[Unattributed, ...]:
    return (Unattributed("explorer", totals.executions, totals.device_ns),)
