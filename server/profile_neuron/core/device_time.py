"""Executions of a device to the lines that asked for them, over operators or over the framework's sequence numbers.

An execution stands where its operators stand. Where a source names no operator but the framework's sequence number at
which the execution was submitted, it stands on the lines that ran from the last mark before that number on: the line
clock raises the number of its thread at every change of line, so that no two lines have one in common.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from profile_neuron.core.placing import Operator

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from profile_neuron.core.model import DeviceTrace, Execution, SequenceMark, Submission


class PlacedExecution(NamedTuple):
    """An execution of one of the profiled calls."""

    execution: Execution
    call: int
    # Where what asked for it stands; several for one that several operators share.
    places: tuple[Operator, ...]


@dataclass(slots=True)
class Unplaced:
    """Executions that nothing is known of: they may be of any call, the warm-up ones included."""

    count: int = 0
    ns: int = 0


class SequenceMarks:
    """The line clock's marks, by thread and number."""

    def __init__(self, marks: Iterable[SequenceMark], threads: Mapping[int, int]) -> None:
        """threads: native ids by torch's own numbers of them."""
        self._threads = threads
        self._marks: dict[int, list[SequenceMark]] = defaultdict(list)
        for mark in marks:
            self._marks[mark.thread].append(mark)
        self._numbers = {thread: [mark.sequence_nr for mark in found] for thread, found in self._marks.items()}

    def find(self, submission: Submission) -> SequenceMark | None:
        """The mark at which an operator was submitted; None for a thread or a time without any."""
        # A native id is far larger than torch's numbers, which count from 1.
        thread = self._threads.get(submission.thread, submission.thread)
        marks = self._marks.get(thread)
        if not marks:
            return None
        index = bisect_right(self._numbers[thread], submission.sequence_nr) - 1
        return marks[index] if index >= 0 else None


def place_executions(
    device: DeviceTrace, by_id: Mapping[int, Operator], marks: SequenceMarks, unplaced: Unplaced
) -> Iterator[PlacedExecution]:
    """The executions of the profiled calls; notes those in unplaced of which nothing is known.

    by_id: operators of the profiled calls, by External id.
    """
    known = {event.external_id for event in device.events}
    for execution in device.executions:
        if execution.submissions:
            found = [marks.find(submission) for submission in execution.submissions]
            places = [_on_lines(execution, mark) for mark in found if mark is not None and mark.call is not None]
            is_known = None not in found
        else:
            places = [by_id[operator] for operator in execution.operators if operator in by_id]
            is_known = bool(execution.operators) and known.issuperset(execution.operators)
        if places:
            yield PlacedExecution(execution, places[0].call, tuple(dict.fromkeys(places)))
        elif not is_known:
            unplaced.count += 1
            unplaced.ns += execution.device_ns


def _on_lines(execution: Execution, mark: SequenceMark) -> Operator:
    """What stands for the operator, which a sequence number does not name."""
    assert mark.call is not None
    return Operator(
        name=execution.name,
        call=mark.call,
        self_ns=0,
        lines=mark.lines,
        listed=False,
        backward=False,
        compiled=False,
        other_thread=False,
        counted=False,
        outermost=None,
    )
