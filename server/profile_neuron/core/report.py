"""A function with all of its lines: as a document, and as the parts of one that an editor draws itself."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from profile_neuron.core import units
from profile_neuron.core.compare import whole_ns
from profile_neuron.core.hover import (
    called_with,
    comparison_text,
    escaped,
    name_of,
    operator_names,
    operator_table,
    plain,
    state_text,
    totals_text,
)
from profile_neuron.core.render import is_host_bound, row_delta
from profile_neuron.core.work_text import row_remarks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from profile_neuron.core.hover import Now
    from profile_neuron.core.model import Comparison, FunctionView, Result, ShownRow


@dataclass(frozen=True, slots=True)
class ReportRow:
    """One line of a function, with what was measured of it; empty texts where nothing was."""

    line: int
    source: str
    time: str = ""
    # Of the time of the function; empty also for a figure that several lines share, which counts once.
    share: str = ""
    # The same from 0 to 1, for each of the lines that share a figure.
    part: float = 0.0
    operators: str = ""
    delta: str = ""


@dataclass(frozen=True, slots=True)
class ReportOperator:
    """An operator in all lines of a function: how often, its own time on the host, and where it has one on a device."""

    name: str
    calls: str
    host: str
    device: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """All that there is to know of a function, as plain text."""

    title: str
    # The state, the totals, how it was measured, one sentence each.
    summary: tuple[str, ...]
    is_stale: bool
    # What the times of its lines are of: neuron or cpu.
    measure: str
    rows: tuple[ReportRow, ...]
    # What belongs to no single line, remarks at lines, warnings, one sentence each.
    notes: tuple[str, ...]
    # Those of the whole function, the most costly first.
    operators: tuple[ReportOperator, ...]


def report(view: FunctionView, source: Iterable[tuple[int, str]], now: Now) -> Report:
    """The report of one function. source: its lines of today's text with their numbers."""
    result = view.result
    summary = [state_text(view, now)]
    if view.failure is not None:
        summary.append(escaped(view.failure.reason))
    if result is not None:
        summary += [*called_with(result), totals_text(result)]
        if view.comparison is not None:
            summary.append(escaped(comparison_text(view.comparison, now)))
        summary += [escaped(text) for text in (result.costs.provenance, result.loading) if text]
    is_of_device = view.device_kind == "neuron" if result is None else result.costs.measure == "device"
    return Report(
        title=plain(escaped(name_of(view))),
        summary=tuple(map(plain, summary)),
        is_stale=result is not None and not view.is_current,
        measure="neuron" if is_of_device else "cpu",
        rows=tuple(_rows(view, source)),
        notes=tuple(_notes(view)),
        operators=tuple(_operators(result)) if result is not None else (),
    )


def markdown_report(view: FunctionView, source: Iterable[tuple[int, str]], now: Now) -> str:
    """A Markdown document about one function. source: its lines of today's text with their numbers."""
    result = view.result
    lines = [f"# {escaped(name_of(view))}", "", state_text(view, now), ""]
    if view.failure is not None:
        lines += [escaped(view.failure.reason), ""]
    if result is None:
        return "\n".join(lines)
    rows = list(_rows(view, source))
    # Longer than any in the source, which it would end.
    fence = "`" * max(3, 1 + max((len(run) for row in rows for run in re.findall("`+", row.source)), default=0))
    lines += [line for text in called_with(result) for line in (text, "")]
    lines += [totals_text(result), "", f"{fence}python"]
    is_compared = view.comparison is not None and view.comparison.total is not None
    for row in rows:
        delta = f" {row.delta:>7}" if is_compared else ""
        lines.append(f"{row.line:>5} {row.time:>9} {row.share:>5}{delta} │ {row.source}".rstrip())
    rest = result.costs.unattributed_ns or 0
    if rest:
        gap = f" {'':>7}" if is_compared else ""
        lines.append(f"{'':>5} {units.duration(rest):>9} {units.share(rest, whole_ns(result)):>5}{gap} │ unattributed")
    lines += [fence, ""]
    remarks = [f"- {escaped(text)}" for text in _remarks(view)]
    lines += remarks + ([""] if remarks else [])
    if view.comparison is not None:
        lines += _comparison(view.comparison, now)
    if result.costs.operators:
        lines += [*operator_table(result.costs.operators), ""]
    lines += [f"- note: {escaped(warning)}" for warning in result.costs.warnings]
    lines += [f"- {escaped(text)}" for text in (result.costs.provenance, result.loading) if text]
    lines.append("")
    return "\n".join(lines)


def _rows(view: FunctionView, source: Iterable[tuple[int, str]]) -> Iterator[ReportRow]:
    result = view.result
    rows = {row.line: row for row in view.rows}
    for line, code in source:
        row = rows.get(line)
        if result is None or row is None:
            yield ReportRow(line, code)
            continue
        part_ns, of_ns = row.cost.total_ns, whole_ns(result)
        # A figure that several lines share stands at each of them and counts once.
        share = units.share(part_ns, of_ns) if not row.shared else ""
        part = min(1.0, part_ns / of_ns) if of_ns else 0.0
        operators = plain(operator_names(row.cost))
        yield ReportRow(line, code, _row_time(result, row), share, part, operators, row_delta(view, row))


def _remarks(view: FunctionView) -> Iterator[str]:
    for row in view.rows:
        for _, text in row_remarks(row.cost):
            yield f"line {row.line}: {text}"


def _notes(view: FunctionView) -> Iterator[str]:
    result = view.result
    if result is None:
        return
    rest = result.costs.unattributed_ns or 0
    if rest:
        yield f"{units.duration(rest)} ({units.share(rest, whole_ns(result))}) belong to no line"
    for lines in dict.fromkeys(row.shared for row in view.rows if row.shared):
        yield f"lines {', '.join(map(str, lines))} were measured together, and count once"
    yield from _remarks(view)
    for removed in view.comparison.removed if view.comparison is not None else ():
        yield f"removed since: {removed.text}, {units.duration(removed.total_ns)}"
    yield from result.costs.warnings


def _operators(result: Result) -> Iterator[ReportOperator]:
    for row in result.costs.operators:
        device = "" if row.device_ns is None else units.duration(row.device_ns)
        yield ReportOperator(row.name, units.count(row.calls), units.duration(row.self_host_ns), device)


def _comparison(compared: Comparison, now: Now) -> Iterator[str]:
    """The section of a report about what was before."""
    yield from ("## Comparison", "", escaped(comparison_text(compared, now)), "")
    if compared.removed:
        yield from ("| removed line | time |", "|:--|--:|")
        for row in compared.removed:
            yield f"| {escaped(row.text)} | {units.duration(row.total_ns)} |"
        yield ""


def _row_time(result: Result, row: ShownRow) -> str:
    """Short, for a column: a figure that several lines share, or host time where the device has nothing to do."""
    if is_host_bound(result, row):
        return f"host {units.duration(row.cost.host_ns or 0)}"
    return ("≈" if row.shared else "") + units.duration(row.cost.total_ns)
