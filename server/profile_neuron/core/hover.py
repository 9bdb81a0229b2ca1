"""What there is to know of a line or a function, as the text of a hover."""

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
    measure_name,
    operator_count,
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
    parts.append(f"{units.share(cost.total_ns, whole)} of {escaped(name_of(view))}" if whole and cost.total_ns else "")
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
        lines.append(operator_names(cost))
    lines += [escaped(text) for _, text in row_remarks(cost)]
    if view.comparison is not None and not row.shared:
        lines += map(escaped, _row_comparison(view.comparison, row, now))
    lines.append(state_text(view, now))
    if result.device_kind == "neuron":
        # Which of several sources a device time is from decides how far it can be trusted.
        source = result.costs.provenance.partition(",")[0]
        lines.append(escaped(f"{source}, {QUEUEING}" if result.costs.may_include_queueing else source))
    return "\n\n".join(lines)


def function_hover(view: FunctionView, now: Now) -> str:
    """Markdown about a function: state, totals, the operators that took most, and where the numbers come from."""
    lines = [state_text(view, now)]
    if view.failure is not None and view.state in ("failed", "noInputs"):
        lines.append(escaped(view.failure.reason))
    result = view.result
    if result is not None:
        lines += called_with(result)
        lines.append(totals_text(result))
        if view.comparison is not None:
            lines.append(escaped(comparison_text(view.comparison, now)))
        top = result.costs.operators[:_TOP_OPERATORS]
        if top:
            lines.append("\n".join(operator_table(top)))
        lines += [f"note: {escaped(warning)}" for warning in result.costs.warnings[:3]]
        lines += [escaped(text) for text in (result.costs.provenance, result.loading) if text]
    return "\n\n".join(lines)


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


def state_text(view: FunctionView, now: Now) -> str:
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
    return " · ".join(escaped(part) for part in parts)


def called_with(result: Result) -> list[str]:
    return [f"called with {escaped(result.signature)}"] if result.signature else []


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


def totals_text(result: Result) -> str:
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


def operator_table(rows: Iterable[OperatorRow]) -> Iterator[str]:
    yield "| operator | calls | self | device |"
    yield "|:--|--:|--:|--:|"
    for row in rows:
        device = "–" if row.device_ns is None else units.duration(row.device_ns)
        name = escaped(row.name)
        yield f"| {name} | {units.count(row.calls)} | {units.duration(row.self_host_ns)} | {device} |"


def operator_names(cost: RowCost) -> str:
    names = [
        item.name if item.calls == 1 else f"{item.name} ×{units.count(item.calls)}"
        for item in cost.operators[:_TOP_OPERATORS]
    ]
    more = len(cost.operators) - _TOP_OPERATORS
    return escaped(", ".join(names)) + (f" and {more} more" if more > 0 else "")


def name_of(view: FunctionView) -> str:
    name = view.result.costs.name if view.result is not None else None
    return name or view.spec.qualname


def _time(result: Result, ns: int) -> str:
    bound = "≥" if result.costs.is_lower_bound else ""
    return f"{measure_name(result.costs, result.device_kind)} {bound}{units.duration(ns)}"


def escaped(text: str) -> str:
    """Names of operators, files and tensors are text and not markup."""
    return _MARKDOWN.sub(r"\\\1", " ".join(text.split()))
