"""The lines of a result in today's text."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any, TypeVar

from profile_neuron.core.model import OperatorCalls, RowCost, ShownRow
from profile_neuron.core.statements import by_line, rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from profile_neuron.core.model import FunctionCosts, Result
    from profile_neuron.core.outline import FunctionOutline
    from profile_neuron.core.statements import Row

_Number = TypeVar("_Number", int, float)

_HEADER = -1
# Of two texts that differ by more than this the middle is not compared line by line.
_COMPARED = 2000


def row_costs(costs: FunctionCosts, function: FunctionOutline) -> tuple[RowCost, ...]:
    """Costs per physical line to costs per row of statements, in the text that was run.

    A line that is in no statement, such as that of def, counts to the header.
    """
    found = function.statements
    row_of = {index: row for row in rows(found) for index in row}
    owner = by_line(found)
    # By start and stop of the row, and for what several rows share by those of the others.
    by_row: dict[tuple[Any, ...], list[RowCost]] = {}

    def row_at(line: int) -> tuple[int, int]:
        index = owner.get(line - function.offset)
        return (_HEADER, 0) if index is None else (row_of[index].start, row_of[index].stop)

    for line in costs.lines:
        start, stop = row_at(line.line)
        by_row.setdefault((start, stop), []).append(
            RowCost(
                start,
                stop,
                line.self_ns,
                line.total_ns,
                line.spread_ns,
                line.operators,
                line.fastest_ns,
                line.fastest_spread_ns,
                line.host_ns,
                line.executions,
                line.remarks,
            )
        )
    for group in costs.shared:
        (start, stop), *also = sorted({row_at(line) for line in group.lines})
        by_row.setdefault((start, stop, *also), []).append(
            RowCost(start, stop, 0, group.ns, None, (), executions=group.executions, also=tuple(also))
        )
    return tuple(_sum(parts) for _, parts in sorted(by_row.items()))


def statements_of(cost: RowCost) -> Iterator[int]:
    """Positions of all statements that a figure is of; -1 for the line of def."""
    for start, stop in ((cost.start, cost.stop), *cost.also):
        yield from range(start, stop)


def anchor(result: Result, function: FunctionOutline) -> tuple[ShownRow, ...]:
    """The rows of a result in a later text of its function, sorted by line.

    A row is left out if one of its statements is another now. Rows that came together on a line are summed;
    one that was parted stands on all of its lines, as a figure that they share.
    """
    # One slot per function, since of its results one is shown.
    slot: dict[str, tuple[ShownRow, ...]] = function.keep("rows", dict)
    if result.run_id not in slot:
        slot.clear()
        slot[result.run_id] = _anchor(result, function)
    shown = slot[result.run_id]
    return tuple(_moved(row, function.offset) for row in shown) if function.offset else shown


def _anchor(result: Result, function: FunctionOutline) -> tuple[ShownRow, ...]:
    """The rows with lines that count from the function's offset, which an edit elsewhere leaves as they are."""
    found = function.statements
    def_line = function.spec.def_line - function.offset
    row_of: dict[int, Row | None] = {index: row for row in rows(found) for index in row}
    place = match(result.statements, [statement.digest for statement in found])
    place[_HEADER], row_of[_HEADER] = _HEADER, None
    groups: list[tuple[set[int], list[RowCost]]] = []
    # Lines of which a part is another now, or of whose figure a part is gone.
    spoiled = {row.line for row in rows(found) if not set(place.values()).issuperset(row)}
    for cost in result.rows:
        indices = [place.get(index) for index in statements_of(cost)]
        there = [row_of[index] for index in indices if index is not None]
        lines = {def_line if row is None else row.line for row in there}
        if None in indices:
            spoiled |= lines
            continue
        # What shares a line with this one has one figure together with it.
        costs = [cost]
        for group in [group for group in groups if not group[0].isdisjoint(lines)]:
            groups.remove(group)
            lines |= group[0]
            costs = group[1] + costs
        groups.append((lines, costs))
    return tuple(sorted(_shown(groups, spoiled), key=lambda row: row.line))


def _shown(groups: Iterable[tuple[set[int], list[RowCost]]], spoiled: set[int]) -> Iterator[ShownRow]:
    for lines, costs in groups:
        if lines.isdisjoint(spoiled):
            total = _sum(costs)
            shared = tuple(sorted(lines)) if len(lines) > 1 else ()
            yield from (ShownRow(line, total, shared) for line in lines)


def _moved(row: ShownRow, offset: int) -> ShownRow:
    return ShownRow(row.line + offset, row.cost, tuple(line + offset for line in row.shared))


def match(before: Sequence[str], after: Sequence[str]) -> dict[int, int]:
    """Positions of equal items of two lists that keep their order."""
    if list(before) == list(after):
        return {index: index for index in range(len(before))}
    start = 0
    while start < min(len(before), len(after)) and before[start] == after[start]:
        start += 1
    end = 0
    while end < min(len(before), len(after)) - start and before[-1 - end] == after[-1 - end]:
        end += 1
    pairs = {index: index for index in range(start)}
    pairs |= {len(before) - 1 - index: len(after) - 1 - index for index in range(end)}
    first, second = before[start : len(before) - end], after[start : len(after) - end]
    if len(first) <= _COMPARED and len(second) <= _COMPARED:
        for block in SequenceMatcher(None, first, second, autojunk=False).get_matching_blocks():
            pairs |= {start + block.a + step: start + block.b + step for step in range(block.size)}
    return pairs


def sum_of_known(values: Iterable[_Number | None]) -> _Number | None:
    """The sum of values; None where one of them is not known."""
    found = list(values)
    known = [value for value in found if value is not None]
    return sum(known) if len(known) == len(found) else None


def _sum(parts: Sequence[RowCost]) -> RowCost:
    """The costs of rows that follow each other together, or several costs of one row."""
    if len(parts) == 1:
        return parts[0]
    return RowCost(
        min(part.start for part in parts),
        max(part.stop for part in parts),
        sum(part.self_ns for part in parts),
        sum(part.total_ns for part in parts),
        None,
        _operators(operator for part in parts for operator in part.operators),
        sum_of_known(part.fastest_ns for part in parts),
        sum_of_known(part.fastest_spread_ns for part in parts),
        sum_of_known(part.host_ns for part in parts if not part.also),
        sum_of_known(part.executions for part in parts),
        tuple(remark for part in parts for remark in part.remarks),
        tuple(dict.fromkeys(row for part in parts for row in part.also)),
    )


def _operators(operators: Iterable[OperatorCalls]) -> tuple[OperatorCalls, ...]:
    calls: dict[str, float] = {}
    for operator in operators:
        calls[operator.name] = calls.get(operator.name, 0.0) + operator.calls
    return tuple(OperatorCalls(name, count) for name, count in calls.items())
