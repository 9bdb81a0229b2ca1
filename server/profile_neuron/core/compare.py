"""A result beside an earlier one of its function: what took longer, what less, and what of that is noise.

Rows are compared that hold the same statements, found by their digests in order. One that stands alone between two
statements that stayed, in the same block, in place of exactly one other, is taken for that one edited.

What is compared are the fastest calls of both runs. An average tells how busy the machine was as well: each call that
another process interrupts is in it. Of several calls one is seldom interrupted, and never is one too fast. Shown are
averages, which add up; where those say something else than the fastest calls, the texts say so.

A difference counts where it is at least 5 µs, and at least 3 % and the noise of what it was. The noise is the largest
of what is known of it:

- twice the spread of the difference: the root of the summed squares of both spreads. That of a run is five times what
  the median call takes more than the fastest one, divided by the root of the number of calls, which is what was
  measured between runs (server/adr/0011). So more calls let smaller differences be told. Of a row of several lines the
  spreads are added up, which the true one does not exceed. Where a spread is not known, as of a single call or a line
  that not all calls ran, no difference is told.
- how much results of the very same code differ, of today's or of the baseline's, as largest over smallest.
- twice the drift: the median, weighted by time, of the differences of what came before the first edit and calls no
  code of the project, if it has three rows or more. The edit cannot have changed it, so what it moved by is the
  machine's doing. What comes after is no measure: a cast in the first line may make all others twice as fast.

Two results of the same code are not compared at all: whatever they differ by is noise.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

from profile_neuron.core.anchor import match, statements_of, sum_of_known
from profile_neuron.core.model import NO_OPERATORS, Change, Comparison, RemovedRow, RowChange

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from profile_neuron.core.model import BaselineChoice, ModuleDependency, Result, RowCost, ShownRow

LEAST_SHARE = 0.03
LEAST_NS = 5_000
_SPREADS = 2
_DRIFTS = 2
_DRIFT_ROWS = 3
_HEADER = -1


def comparison(
    result: Result, history: Sequence[Result], rows: Iterable[ShownRow], choice: BaselineChoice
) -> Comparison:
    """A result beside the one of its history that the person chose. rows: the result's, in today's text.

    history: results of the function and of what it was called before, newest first.
    """
    if choice == "pinned":
        baseline = next((item for item in history if item.is_pinned), None)
        reason = "no result is pinned"
    else:
        baseline = next((item for item in history if not same_code(item, result)), None)
        reason = "no earlier result of other code"
    if baseline is None:
        return Comparison(choice, None, reason)
    if same_code(baseline, result):
        return Comparison(choice, baseline, "no comparison: the pinned result is of the same code")
    if reason := incomparable(result, baseline):
        return Comparison(choice, baseline, f"no comparison: {reason}")
    alike = [item for item in history if not incomparable(result, item)]
    repeats = ([item for item in alike if same_code(item, of)] for of in (result, baseline))
    return compare(result, baseline, rows, choice, *repeats)


def lineage(own: Iterable[Result], body: str, gone: Mapping[tuple[str, int], Sequence[Result]]) -> list[Result]:
    """Results of a function under its name and under earlier ones, newest first.

    own: under its name, newest first. body: of its statements. gone: under names that are no longer there, of each
    newest first. An earlier name is one of these whose results are all from before those under the later name, and
    some of which had the same statements as one of those.
    """
    found = list(own)
    bodies = {body, *(item.body for item in found)}
    since_s = min((item.finished_s for item in found), default=math.inf)
    left = dict(gone)
    while earlier := [
        name
        for name, items in left.items()
        if items[0].finished_s <= since_s and any(item.body in bodies for item in items)
    ]:
        newest = max(earlier, key=lambda name: left[name][0].finished_s)
        items = left.pop(newest)
        found += items
        bodies |= {item.body for item in items}
        since_s = items[-1].finished_s
    return found


def same_code(one: Result, other: Result) -> bool:
    """Whether two results differ by nothing but the run; under another name the same statements are the same code."""
    is_same_name = (one.qualname, one.occurrence) == (other.qualname, other.occurrence)
    return (
        (one.tree == other.tree if is_same_name else one.body == other.body)
        and one.interface == other.interface
        and one.module_code == other.module_code
        and one.functions == other.functions
        and one.signature == other.signature
        and one.choice == other.choice
        and [_of_module(item) for item in one.modules] == [_of_module(item) for item in other.modules]
    )


def _of_module(module: ModuleDependency) -> tuple[object, ...]:
    return module.path, module.import_code or module.sha256, module.functions


def incomparable(result: Result, baseline: Result) -> str:
    """What else than code differs between two results, so that their times say nothing about it; empty for nothing."""
    if result.device_kind != baseline.device_kind:
        return f"measured on another kind of device, {baseline.device_kind}"
    if result.device_name != baseline.device_name:
        return f"measured on another device, {baseline.device_name}"
    if result.costs.measure != baseline.costs.measure:
        return f"{baseline.costs.measure} time was measured then"
    if result.costs.is_lower_bound or baseline.costs.is_lower_bound:
        return "events of the device are missing in one of the results"
    if result.toolchain.torch != baseline.toolchain.torch:
        return f"measured with torch {baseline.toolchain.torch}"
    if result.toolchain.packages != baseline.toolchain.packages:
        return f"measured with {', '.join(baseline.toolchain.packages) or 'no packages of Neuron'}"
    if result.inputs != baseline.inputs:
        return "measured with other inputs"
    if result.signature != baseline.signature:
        return "measured with inputs of other shapes or types"
    if not result.signature and result.interface != baseline.interface:
        return "signature, decorator or inputs changed"
    if NO_OPERATORS in (*result.costs.warnings, *baseline.costs.warnings):
        return NO_OPERATORS
    return ""


def compare(
    result: Result,
    baseline: Result,
    rows: Iterable[ShownRow],
    choice: BaselineChoice,
    same_as_result: Collection[Result],
    same_as_baseline: Collection[Result],
) -> Comparison:
    """Two results that can be compared; the others are of the same code as either and say how much that varies."""
    places = _Places(result, baseline)
    earlier = _Figures(baseline)
    later_ones, earlier_ones = ([_Figures(item) for item in same] for same in (same_as_result, same_as_baseline))
    drift = _drift(result, earlier, places)

    def change_of(row: ShownRow) -> RowChange | None:
        now = tuple(statements_of(row.cost))
        then = [places.before(index) for index in now]
        before = [index for index in then if index is not None]
        if len(before) < len(then):
            return RowChange(row.cost.start, None)
        figure = earlier.of(before)
        if figure is None:
            return None
        repeats = max(
            _difference(item.fastest_ns(now) for item in later_ones),
            _difference(item.fastest_ns(before) for item in earlier_ones),
        )
        change = _change(figure, _of_rows([row.cost]), repeats, drift)
        was = " ".join(baseline.texts[places.edited[index]] for index in now if index in places.edited)
        return RowChange(row.cost.start, change, was)

    found = [change for row in rows if not row.shared and (change := change_of(row)) is not None]
    repeats = max(_difference(item.costs.fastest_ns for item in same) for same in (same_as_result, same_as_baseline))
    total = _change(_of_whole(baseline), _of_whole(result), repeats, drift)
    in_order = tuple(sorted(found, key=attrgetter("start")))
    return Comparison(choice, baseline, "", total, in_order, tuple(_removed(baseline, places)))


def row_change(compared: Comparison | None, row: ShownRow) -> RowChange | None:
    """What became of a row; None where that cannot be told."""
    if compared is None or row.shared:
        return None
    index = bisect_left(compared.rows, row.cost.start, key=attrgetter("start"))
    found = compared.rows[index : index + 1]
    return found[0] if found and found[0].start == row.cost.start else None


def least_ns(change: Change) -> float | None:
    """From which difference on a change counts; None where that is not known."""
    if change.noise is None or not change.previous_fastest_ns:
        return None
    return max(max(change.noise, LEAST_SHARE) * change.previous_fastest_ns, LEAST_NS)


def is_told(change: Change) -> bool:
    """Whether a change is more than noise."""
    least = least_ns(change)
    return least is not None and abs(difference_ns(change)) >= least


def is_slower(change: Change) -> bool:
    """Whether something takes longer, by more than noise."""
    return is_told(change) and difference_ns(change) > 0


def difference_ns(change: Change) -> int:
    """By how much the fastest call takes longer; 0 where that is not known."""
    if change.fastest_ns is None or change.previous_fastest_ns is None:
        return 0
    return change.fastest_ns - change.previous_fastest_ns


def whole_ns(result: Result) -> int:
    """What the lines of a function and the rest of it add up to."""
    return result.costs.measured_ns


class _Places:
    """Where the statements of a result stood in the baseline."""

    def __init__(self, result: Result, baseline: Result) -> None:
        after = match(baseline.statements, result.statements)
        # By position in the result, to that in the baseline: of those that stayed, and of those that were edited.
        self.kept = {later: earlier for earlier, later in after.items()}
        self.kept[_HEADER] = _HEADER
        self.edited = dict(_edited(result, baseline, self.kept))
        # Of the result, the first statement that did not stay or before which something is gone.
        count = len(result.statements)
        edits = (index for index in range(count) if self.kept.get(index) != self.kept[index - 1] + 1)
        is_cut = self.kept.get(count - 1) != len(baseline.statements) - 1
        self.first_edit = next(edits, max(0, count - is_cut))

    def before(self, index: int) -> int | None:
        return self.kept.get(index, self.edited.get(index))


def _edited(result: Result, baseline: Result, kept: Mapping[int, int]) -> Iterator[tuple[int, int]]:
    """Statements that stand in place of exactly one other, between two that stayed, in the same block."""
    if not (result.blocks and baseline.blocks):
        return
    ends = {**kept, len(result.statements): len(baseline.statements)}
    for index in range(len(result.statements)):
        before, after = ends.get(index - 1), ends.get(index + 1)
        if index in kept or before is None or after is None or after - before != 2:
            continue
        if result.blocks[index] == baseline.blocks[before + 1]:
            yield index, before + 1


def _removed(baseline: Result, places: _Places) -> Iterator[RemovedRow]:
    there = {*places.kept.values(), *places.edited.values()}
    for row in baseline.rows:
        indices = tuple(statements_of(row))
        if there.isdisjoint(indices):
            texts = dict.fromkeys(baseline.texts[index] for index in indices if index < len(baseline.texts))
            yield RemovedRow(" ".join(texts), row.total_ns)


@dataclass(frozen=True, slots=True)
class _Figure:
    """A time of a result: its average, and as in LineCost what is compared."""

    ns: int
    fastest_ns: int | None
    spread_ns: int | None


class _Figures:
    """The times of a result by its statements."""

    def __init__(self, result: Result) -> None:
        self.result = result
        self._rows_of: dict[int, list[RowCost]] = {}
        for row in result.rows:
            for index in statements_of(row):
                self._rows_of.setdefault(index, []).append(row)

    def of(self, indices: Collection[int]) -> _Figure | None:
        """The time of some statements; None where others share in their figure."""
        rows = {id(row): row for index in indices for row in self._rows_of.get(index, ())}
        wanted = set(indices)
        if any(not wanted.issuperset(statements_of(row)) for row in rows.values()):
            return None
        return _of_rows(rows.values())

    def fastest_ns(self, indices: Collection[int]) -> int | None:
        figure = self.of(indices)
        return figure.fastest_ns if figure is not None else None


def _of_rows(rows: Collection[RowCost]) -> _Figure:
    return _Figure(
        sum(row.total_ns for row in rows),
        sum_of_known(row.fastest_ns for row in rows),
        sum_of_known(row.fastest_spread_ns for row in rows),
    )


def _of_whole(result: Result) -> _Figure:
    return _Figure(whole_ns(result), result.costs.fastest_ns, result.costs.fastest_spread_ns)


def _drift(result: Result, earlier: _Figures, places: _Places) -> float:
    """By which part the machine alone made everything slower or faster; 0 where there is too little to tell."""
    baseline = earlier.result
    if result.module_code != baseline.module_code or result.interface != baseline.interface:
        return 0.0
    # In a loop what comes before an edit also comes after it.
    end = places.first_edit
    while 0 < end < len(result.blocks) and not result.blocks[end].startswith("0 "):
        end -= 1
    weighted = []
    for row in result.rows:
        indices = tuple(statements_of(row))
        if row.start >= 0 and row.stop <= end and row.self_ns == row.total_ns and not row.also:
            before_ns = earlier.fastest_ns([places.kept[index] for index in indices])
            if before_ns is not None and before_ns >= LEAST_NS and row.fastest_ns is not None:
                weighted.append(((row.fastest_ns - before_ns) / before_ns, before_ns))
    return abs(_median(sorted(weighted))) if len(weighted) >= _DRIFT_ROWS else 0.0


def _median(weighted: Sequence[tuple[float, int]]) -> float:
    """The value of sorted ones at which half of the weight is reached."""
    rest = sum(weight for _, weight in weighted) / 2
    for value, weight in weighted:
        rest -= weight
        if rest <= 0:
            return value
    raise ValueError("no values")


def _change(before: _Figure, now: _Figure, repeats: float, drift: float) -> Change:
    noise = None
    if before.fastest_ns and before.spread_ns is not None and now.spread_ns is not None:
        spread = math.hypot(before.spread_ns, now.spread_ns) / before.fastest_ns
        noise = max(_SPREADS * spread, repeats, _DRIFTS * drift)
    return Change(before.ns, now.ns, noise, before.fastest_ns, now.fastest_ns)


def _difference(totals: Iterable[int | None]) -> float:
    """By which part the largest of several times of the same code is more than the smallest."""
    known = [total for total in totals if total]
    return max(known) / min(known) - 1 if known else 0.0
