"""Sums over the operators and executions of all calls, per project function, which are checked to add up."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from profile_neuron.core.host_work import without_overload
from profile_neuron.core.model import COMPILED_REGION
from profile_neuron.errors import CaptureError

if TYPE_CHECKING:
    from profile_neuron.core.device_time import PlacedExecution
    from profile_neuron.core.functions import Functions, Key
    from profile_neuron.core.host_work import WorkRemark
    from profile_neuron.core.model import RemarkKind
    from profile_neuron.core.placing import Operator

    _Remarks = dict[tuple[RemarkKind, str], list[WorkRemark]]

BACKWARD_REASON = "the backward pass, whose operators have no line yet"
FRAMELESS_REASON = "operators of code that runs without Python frames, such as TorchScript"
TASK_REASON = "work in tasks that no line of the function runs in"
THREAD_REASON = "work in threads that no line of the function runs in"


@dataclass(slots=True)
class Times:
    """Sums of one function over all calls, in whole nanoseconds, of one measure."""

    line_ns: Counter[int] = field(default_factory=Counter)
    self_ns: Counter[int] = field(default_factory=Counter)
    line_call_ns: dict[int, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    call_ns: Counter[int] = field(default_factory=Counter)
    unattributed_ns: Counter[str] = field(default_factory=Counter)
    shared_ns: Counter[tuple[int, ...]] = field(default_factory=Counter)
    table_ns: Counter[str] = field(default_factory=Counter)
    # How often the device was started, for a line alone, for a group, and in all.
    line_starts: Counter[int] = field(default_factory=Counter)
    shared_starts: Counter[tuple[int, ...]] = field(default_factory=Counter)
    starts: int = 0

    @property
    def is_used(self) -> bool:
        return bool(self.call_ns)

    @property
    def adds_up(self) -> bool:
        """Whether lines, groups and the rest are what the calls took, and the operators as well."""
        parts = sum(self.line_ns.values()) + sum(self.shared_ns.values()) + sum(self.unattributed_ns.values())
        return parts == sum(self.call_ns.values()) == sum(self.table_ns.values())

    def add(self, line: int, is_self: bool, call: int, ns: int) -> None:
        """Give time of a call to a line."""
        self.line_ns[line] += ns
        self.line_call_ns[line][call] += ns
        if is_self:
            self.self_ns[line] += ns


@dataclass(slots=True)
class Tally:
    """Sums of one function over all calls."""

    host: Times = field(default_factory=Times)
    device: Times = field(default_factory=Times)
    listed: dict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    table_calls: Counter[str] = field(default_factory=Counter)
    # By line, then by kind and operator.
    remarks: dict[int, _Remarks] = field(default_factory=lambda: defaultdict(dict))
    # Calls that read a clock too early, by line.
    clocks: dict[int, str] = field(default_factory=dict)


class Tallies:
    """Takes in operators and executions one by one, and gives each to the functions whose code it is of."""

    def __init__(self, functions: Functions) -> None:
        self._functions = functions
        self._by_key = {key: Tally() for key in functions.listed}
        # What came to lines, with no deeper project frame.
        self._host_ns = self._device_ns = 0

    def of(self, key: Key) -> Tally:
        """The sums of a listed function."""
        return self._by_key[key]

    def add(self, operator: Operator) -> None:
        """Give an operator's time to each function in whose source it runs."""
        placed = self._places_of(operator)
        target = self._functions.target
        if not any(key == target for key, _ in placed) and (reason := self._unplaced_reason(operator)):
            tally = self._by_key[target]
            tally.host.unattributed_ns[reason] += operator.self_ns
            _count(operator, tally)
        for position, (key, line) in enumerate(placed):
            tally = self._by_key[key]
            _count(operator, tally)
            if operator.backward:
                tally.host.unattributed_ns[BACKWARD_REASON] += operator.self_ns
                continue
            # The first is the function of the innermost frame.
            tally.host.add(line, position == 0, operator.call, operator.self_ns)
            if operator.listed:
                name = COMPILED_REGION if operator.name.startswith(COMPILED_REGION) else operator.name
                tally.listed[line][name] += 1
        if placed and not operator.backward:
            self._host_ns += operator.self_ns

    def add_execution(self, placed: PlacedExecution) -> None:
        """Give an execution's time to the functions whose code asked for it: to a line, to a group, or to the rest."""
        ns, is_start = placed.execution.device_ns, placed.execution.direction is None
        stacks = [self._places_of(place) for place in placed.places]
        lines: dict[Key, set[int]] = defaultdict(set)
        for key, line in (item for stack in stacks for item in stack):
            lines[key].add(line)
        reason = next(filter(None, map(self._unplaced_reason, placed.places)), "")
        if reason and self._functions.target not in lines:
            lines[self._functions.target] = set()
        # Of an execution on one line, the innermost function is the same for all of its operators.
        owners = {stack[0][0] for stack in stacks if stack}
        for key, found in lines.items():
            tally = self._by_key[key]
            times = tally.device
            _count_execution(placed, tally)
            times.starts += is_start
            if not found or reason == BACKWARD_REASON:
                times.unattributed_ns[reason] += ns
            elif len(found) == 1 and all(any(item == key for item, _ in stack) for stack in stacks):
                (line,) = found
                is_self = owners == {key}
                times.add(line, is_self, placed.call, ns)
                times.line_starts[line] += is_start
                self._device_ns += ns if is_self else 0
            else:
                group = tuple(sorted(found))
                times.shared_ns[group] += ns
                times.shared_starts[group] += is_start

    def add_remark(self, remark: WorkRemark) -> None:
        """Note an operator that kept the device waiting at its lines."""
        for key, line in () if remark.place.backward else self._places_of(remark.place):
            self._by_key[key].remarks[line].setdefault((remark.kind, remark.operator), []).append(remark)

    def check(self) -> None:
        """Time is conserved, per function and over all of them. Raises CaptureError where it is not."""
        host = {key: tally.host for key, tally in self._by_key.items()}
        device = {key: tally.device for key, tally in self._by_key.items()}
        for times, came_to_lines_ns in ((host, self._host_ns), (device, self._device_ns)):
            wrong = [self._functions.span(key).qualname for key, found in times.items() if not found.adds_up]
            if sum(sum(found.self_ns.values()) for found in times.values()) != came_to_lines_ns:
                wrong.append("all functions together")
            if wrong:
                raise CaptureError(
                    f"the times of {wrong[0]} do not add up; this is a fault of profile-neuron, please report it "
                    "together with the run folder"
                )

    def _places_of(self, operator: Operator) -> tuple[tuple[Key, int], ...]:
        """For each listed function that an operator runs in its line there, innermost function first."""
        placed = self._functions.lines_of(operator.lines)
        target, record = self._functions.target, self._functions.record
        is_target_compiled = operator.compiled and record.compiled
        if is_target_compiled and not (operator.backward or operator.other_thread) and target not in dict(placed):
            # The function itself is compiled: none of its lines runs, so its def line stands for them.
            return (*placed, (target, record.def_line))
        return placed

    def _unplaced_reason(self, operator: Operator) -> str:
        """Why an operator of the function has no line of it; empty for one that is not the function's."""
        functions = self._functions
        if operator.backward:
            return BACKWARD_REASON
        if operator.other_thread:
            return THREAD_REASON
        if operator.lines and functions.record.is_async:
            return TASK_REASON
        # TorchScript and the like run a function without ever entering it.
        entered = functions.entries(functions.target) or functions.record.compiled
        return "" if entered or operator.lines else FRAMELESS_REASON


def _count(operator: Operator, tally: Tally) -> None:
    tally.host.call_ns[operator.call] += operator.self_ns
    tally.table_calls[operator.name] += operator.counted
    tally.host.table_ns[operator.name] += operator.self_ns


def _count_execution(placed: PlacedExecution, tally: Tally) -> None:
    ns = placed.execution.device_ns
    tally.device.call_ns[placed.call] += ns
    # Of several, none alone has the time.
    names = dict.fromkeys(_table_name(place, tally) for place in placed.places)
    tally.device.table_ns[" + ".join(names)] += ns


def _table_name(place: Operator, tally: Tally) -> str:
    """The operator in the host's table, which a source of its own may call otherwise."""
    name = without_overload(place.name)
    return name if name in tally.table_calls or place.outermost is None else place.outermost.name
