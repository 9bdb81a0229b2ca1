"""What there is to know of a line or a function, as the text of a hover and as a report."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from profile_neuron.core import units
from profile_neuron.core.compare import is_told, least_ns, row_change, whole_ns
from profile_neuron.core.executions import QUEUEING
from profile_neuron.core.model import NO_OPERATORS
from profile_neuron.core.render import (
    DEVICE_TIME_UNKNOWN,
    age,
    basis_text,
    delta_text,
    is_host_bound,
    measure_name,
    operator_count,
    row_delta,
    total_text,
)
from profile_neuron.core.work_text import executions_text, row_remarks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from profile_neuron.core.model import Change, Comparison, FunctionView, OperatorRow, Result, RowCost, ShownRow

_TOP_OPERATORS = 5
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()<>#+\-!|~&])")


@dataclass(frozen=True, slots=True)
class Now:
    """The time at which a person looks, and how far their clock is ahead of UTC."""

    s: float
    utc_offset_s: int = 0


def line_hover(view: FunctionView, row: ShownRow, now: Now) -> str:
    """Markdown about one row: its time, what of it is its own, and what ran."""
    result = view.result
    assert result is not None
    cost = row.cost
    whole = whole_ns(result)
    parts = [f"**{_time(result, cost.total_ns)}**"]
    parts.append(f"{units.share(cost.total_ns, whole)} of {_escaped(_name(view))}" if whole and cost.total_ns else "")
    parts += [units.spread(cost.spread_ns, cost.total_ns), operator_count(row), executions_text(cost.executions)]
    if result.costs.measure == "device" and cost.host_ns:
        parts.append(f"host {units.duration(cost.host_ns)}")
    lines = [" · ".join(part for part in parts if part)]
    called = cost.total_ns - cost.self_ns
    if called:
        lines.append(f"this line {units.duration(cost.self_ns)}, called functions {units.duration(called)}")
    if row.shared:
        others = ", ".join(str(line) for line in row.shared)
        lines.append(f"measured together for lines {others}, counted once")
    if cost.operators:
        lines.append(_names(cost))
    lines += [_escaped(text) for _, text in row_remarks(cost)]
    if view.comparison is not None and not row.shared:
        lines += map(_escaped, _row_comparison(view.comparison, row, now))
    lines.append(_state(view, now))
    if result.device_kind == "neuron":
        # Which of several sources a device time is from decides how far it can be trusted.
        source = result.costs.provenance.partition(",")[0]
        lines.append(_escaped(f"{source}, {QUEUEING}" if result.costs.may_include_queueing else source))
    return "\n\n".join(lines)


def function_hover(view: FunctionView, now: Now) -> str:
    """Markdown about a function: state, totals, the operators that took most, and where the numbers come from."""
    lines = [_state(view, now)]
    if view.failure is not None and view.state in ("failed", "noInputs"):
        lines.append(_escaped(view.failure.reason))
    result = view.result
    if result is not None:
        lines += _called_with(result)
        lines.append(_totals(result))
        if view.comparison is not None:
            lines.append(_escaped(comparison_text(view.comparison, now)))
        top = result.costs.operators[:_TOP_OPERATORS]
        if top:
            lines.append("\n".join(_table(top)))
        lines += [f"note: {_escaped(warning)}" for warning in result.costs.warnings[:3]]
        lines += [_escaped(text) for text in (result.costs.provenance, result.loading) if text]
    return "\n\n".join(lines)


def report(view: FunctionView, source: Iterable[tuple[int, str]], now: Now) -> str:
    """A Markdown document about one function. source: its lines of today's text with their numbers."""
    result = view.result
    lines = [f"# {_escaped(_name(view))}", "", _state(view, now), ""]
    if view.failure is not None:
        lines += [_escaped(view.failure.reason), ""]
    if result is None:
        return "\n".join(lines)
    text = list(source)
    # Longer than any in the source, which it would end.
    fence = "`" * max(3, 1 + max((len(run) for _, line in text for run in re.findall("`+", line)), default=0))
    lines += [line for text in _called_with(result) for line in (text, "")]
    lines += [_totals(result), "", f"{fence}python"]
    rows = {row.line: row for row in view.rows}
    is_compared = view.comparison is not None and view.comparison.total is not None
    for number, code in text:
        row = rows.get(number)
        # A figure that several lines share stands at each of them and counts once.
        time_text = _row_time(result, row) if row else ""
        share = units.share(row.cost.total_ns, whole_ns(result)) if row and not row.shared else ""
        delta = f" {row_delta(view, row) if row else '':>7}" if is_compared else ""
        lines.append(f"{number:>5} {time_text:>9} {share:>5}{delta} │ {code}".rstrip())
    rest = result.costs.unattributed_ns or 0
    if rest:
        gap = f" {'':>7}" if is_compared else ""
        lines.append(f"{'':>5} {units.duration(rest):>9} {units.share(rest, whole_ns(result)):>5}{gap} │ unattributed")
    lines += [fence, ""]
    remarks = [(row.line, text) for row in view.rows for _, text in row_remarks(row.cost)]
    lines += [f"- line {line}: {_escaped(text)}" for line, text in remarks] + ([""] if remarks else [])
    if view.comparison is not None:
        lines += _comparison(view.comparison, now)
    if result.costs.operators:
        lines += [*_table(result.costs.operators), ""]
    lines += [f"- note: {_escaped(warning)}" for warning in result.costs.warnings]
    lines += [f"- {_escaped(text)}" for text in (result.costs.provenance, result.loading) if text]
    lines.append("")
    return "\n".join(lines)


def comparison_text(compared: Comparison, now: Now) -> str:
    """One sentence about a function beside its baseline, or why there is nothing to say."""
    if compared.total is None or compared.baseline is None:
        return compared.reason
    return _change_text(compared, compared.total, now)


def moment(time_s: float, now: Now) -> str:
    """When something was: at 14:02:11, with the date where that is not today's."""
    zone = timezone(timedelta(seconds=now.utc_offset_s))
    then, today = (datetime.fromtimestamp(seconds, zone) for seconds in (time_s, now.s))
    day = "" if then.date() == today.date() else f"on {then:%Y-%m-%d} "
    return f"{day}at {then:%H:%M:%S}"


def plain(markdown: str) -> str:
    """The same text for a client that shows no Markdown."""
    return re.sub(r"\\(.)", r"\1", markdown.replace("**", ""))


def _state(view: FunctionView, now: Now) -> str:
    result = view.result
    if result is None:
        return view.state
    at = datetime.fromtimestamp(result.finished_s, timezone(timedelta(seconds=now.utc_offset_s)))
    parts = [view.state, f"{at:%H:%M:%S}"]
    if not view.is_current:
        parts += [age(now.s - result.finished_s), *view.reasons]
    parts += [result.device_name, f"inputs: {result.inputs}"]
    runs = f"{result.repeats} run{'' if result.repeats == 1 else 's'}"
    parts.append(f"{runs} {units.spread(result.costs.spread_ns, whole_ns(result))}".strip())
    return " · ".join(_escaped(part) for part in parts)


def _called_with(result: Result) -> list[str]:
    return [f"called with {_escaped(result.signature)}"] if result.signature else []


def _row_comparison(compared: Comparison, row: ShownRow, now: Now) -> list[str]:
    found = row_change(compared, row)
    if compared.total is None or compared.baseline is None:
        return [compared.reason]
    if found is None:
        return []
    if found.change is None:
        return [f"new since the {compared.choice} result {moment(compared.baseline.finished_s, now)}"]
    return [_change_text(compared, found.change, now), *([f"was: {found.was}"] if found.was else [])]


def _change_text(compared: Comparison, change: Change, now: Now) -> str:
    assert compared.baseline is not None
    when = moment(compared.baseline.finished_s, now)
    before = change.previous_ns
    if not before:
        return f"{compared.choice} ran no operator {when}"
    text = f"{compared.choice} {units.duration(before)} {when}"
    least = least_ns(change)
    if change.noise is None or least is None:
        return f"{text}, noise unknown without several calls that all ran it"
    fastest_ns = change.previous_fastest_ns or 0
    if not is_told(change):
        return f"{text}, within noise {units.spread(round(least), fastest_ns)}{basis_text(change)}"
    noise = units.spread(round(change.noise * fastest_ns), fastest_ns)
    return f"{text}, {delta_text(change)}{basis_text(change)} (noise {noise})"


def _comparison(compared: Comparison, now: Now) -> Iterator[str]:
    """The section of a report about what was before."""
    yield from ("## Comparison", "", _escaped(comparison_text(compared, now)), "")
    if compared.removed:
        yield from ("| removed line | time |", "|:--|--:|")
        for row in compared.removed:
            yield f"| {_escaped(row.text)} | {units.duration(row.total_ns)} |"
        yield ""


def _totals(result: Result) -> str:
    total = total_text(result)
    costs = result.costs
    if total == NO_OPERATORS:
        parts = [total]
    elif total == DEVICE_TIME_UNKNOWN:
        parts = [f"**{total}**", f"host {units.duration(costs.host_ns or 0)} per call"]
    elif costs.measure == "device":
        parts = [f"**{total} device** per call", executions_text(costs.executions)]
        parts.append(f"host {units.duration(costs.host_ns or 0)}")
    else:
        parts = [f"**{total}** per call"]
    rest = result.costs.unattributed_ns or 0
    if rest:
        parts.append(f"{units.duration(rest)} unattributed")
    if result.costs.calls is not None and result.costs.calls != result.repeats:
        parts.append(f"entered {result.costs.calls} times in {result.repeats} calls")
    return " · ".join(part for part in parts if part)


def _row_time(result: Result, row: ShownRow) -> str:
    """Short, for a column: a figure that several lines share, or host time where the device has nothing to do."""
    if is_host_bound(result, row):
        return f"host {units.duration(row.cost.host_ns or 0)}"
    return ("≈" if row.shared else "") + units.duration(row.cost.total_ns)


def _table(rows: Iterable[OperatorRow]) -> Iterator[str]:
    yield "| operator | calls | self | device |"
    yield "|:--|--:|--:|--:|"
    for row in rows:
        device = "–" if row.device_ns is None else units.duration(row.device_ns)
        name = _escaped(row.name)
        yield f"| {name} | {units.count(row.calls)} | {units.duration(row.self_host_ns)} | {device} |"


def _names(cost: RowCost) -> str:
    names = [
        item.name if item.calls == 1 else f"{item.name} ×{units.count(item.calls)}"
        for item in cost.operators[:_TOP_OPERATORS]
    ]
    more = len(cost.operators) - _TOP_OPERATORS
    return _escaped(", ".join(names)) + (f" and {more} more" if more > 0 else "")


def _name(view: FunctionView) -> str:
    name = view.result.costs.name if view.result is not None else None
    return name or view.spec.qualname


def _time(result: Result, ns: int) -> str:
    bound = "≥" if result.costs.is_lower_bound else ""
    return f"{measure_name(result.costs, result.device_kind)} {bound}{units.duration(ns)}"


def _escaped(text: str) -> str:
    """Names of operators, files and tensors are text and not markup."""
    return _MARKDOWN.sub(r"\\\1", " ".join(text.split()))
