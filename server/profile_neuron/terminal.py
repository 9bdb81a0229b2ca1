"""What the command line prints of runs: annotated source, failures, operator tables, progress."""

from __future__ import annotations

import contextlib
import time
import unicodedata
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from profile_neuron.core import units
from profile_neuron.core.foreign_capture import total_device_ns
from profile_neuron.core.foreign_text import device_text, headline, remark_text, unattributed_text, written_text
from profile_neuron.core.hover import Now, comparison_text
from profile_neuron.core.model import NO_OPERATORS, LineCost
from profile_neuron.core.render import DEVICE_TIME_UNKNOWN, measure_name, row_delta
from profile_neuron.core.text import split_lines
from profile_neuron.core.work_text import executions_text, row_remarks, tiny_executions

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from rich.status import Status

    from profile_neuron.core.foreign import OperatorTotals
    from profile_neuron.core.foreign_capture import ForeignCapture
    from profile_neuron.core.model import (
        DeviceKind,
        Failure,
        Frame,
        FunctionCosts,
        FunctionView,
        LineCosts,
        SharedGroup,
        State,
    )

# Columns before the source: line, time, share, spread, operators, and where results are compared the difference.
_WIDTHS = (6, 10, 7, 8, 6, 9)
# The same with a column for the host beside the device.
_DEVICE_WIDTHS = (6, 10, 7, 8, 10, 6, 9)
_HOT_SHARE = 0.1
_FILE_WIDTH = 240
_COLOURED_LINES = 2000
# Longer lines push their operators out of the column rather than all of them to the right.
_SOURCE_WIDTH = 90
# Of the operators of a line that calls a whole module only the first say something; --json has them all.
_NAMES_LIMIT = 4
# A longer one is for the editor's hover.
_SIGNATURE_WIDTH = 60


class Terminal:
    """Results on one stream, everything that passes by on the other."""

    def __init__(self) -> None:
        self.out = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
        if not self.out.is_terminal:
            # A file has no width to fold long operator names at.
            self.out = Console(highlight=False, markup=False, emoji=False, soft_wrap=True, width=_FILE_WIDTH)
        self.err = Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)

    def error(self, sentence: str) -> None:
        """One sentence about what went wrong."""
        self.err.print(Text.assemble(("profile-neuron: ", "bold red"), _printable(sentence)))

    def user_output(self, title: str, lines: Sequence[str]) -> None:
        """Lines that user code printed, each marked with the function that ran."""
        rows = [Text.assemble((f"{title} │ ", "dim"), _printed(line)) for line in lines]
        self.err.print(Text("\n").join(rows))

    def waiting(self, title: str, holders: Sequence[str]) -> None:
        """A run waits until one of these lets go of its NeuronCores."""
        self.err.print(Text(f"{title}: waiting for a NeuronCore: {_printable(' and '.join(holders))}"))

    def result(
        self,
        costs: LineCosts,
        show_operators: bool,
        asked: Container[tuple[str, int]] = (),
        compared: FunctionView | None = None,
    ) -> None:
        """The profiled function with its lines, then the project functions that took part of its time.

        Those that were asked for by themselves, by path and def line, have a result of their own and are left out.
        compared: the profiled function beside an earlier result.
        """
        sources = {source.path: split_lines(source.text) for source in costs.sources}
        target, *others = costs.functions
        self._function(target, costs, sources.get(target.path, []), None, compared)
        if show_operators:
            self._operators(target)
        for other in others:
            if other.measured_ns and other.lines and (other.path, other.line) not in asked:
                self._print("")
                self._function(other, costs, sources.get(other.path, []), target)
        self._print("")

    def foreign(self, captures: Sequence[ForeignCapture], warnings: Sequence[str], show_operators: bool) -> None:
        """What the user's own profiler captured, one section for each process and session."""
        for capture in captures:
            self._capture(capture, show_operators)
            self._print("")
        total = total_device_ns(captures)
        if total is not None:
            self._print(f"all {len(captures)} together: device {units.duration(total)}")
        for warning in warnings:
            self._print(Text(_printable(f"note: {warning}"), style="dim"))

    def failure(self, title: str, place: str, state: State, failure: Failure) -> None:
        """A run without a result."""
        self._print(Text.assemble((title, "bold"), ("  " + place, "dim")))
        self._reason(state, failure.reason, failure.frames)
        self._print("")

    def _capture(self, capture: ForeignCapture, show_operators: bool) -> None:
        of = [f"pid {capture.pid}"] if capture.pid is not None else []
        of += [f"rank {capture.rank}"] if capture.rank is not None else []
        of += [f"written {written_text(capture, _now())}"] if capture.written_s is not None else []
        self._print(
            Text.assemble((short_path(capture.path), "bold"), (f"  {_printable(' · '.join(of))}".rstrip(), "dim"))
        )
        self._print(headline(capture))
        if capture.functions:
            self._functions(capture)
        for function in capture.functions:
            if function.compiled:
                self._note(f"{function.trace_name}: calls compiled code, whose time is that of the function as a whole")
            for remark in function.remarks:
                self._note(f"{function.trace_name}: {remark_text(remark)}")
        for item in capture.unattributed:
            self._print(_printable(unattributed_text(item)))
        if show_operators and capture.operators:
            self._print("")
            self._totals(capture.operators)
        for warning in capture.warnings:
            self._note(f"note: {warning}")
        self._note(capture.provenance)

    def _functions(self, capture: ForeignCapture) -> None:
        table = _table(("function", "calls", "device", "own", "host", "executions"))
        for function in sorted(capture.functions, key=lambda item: (-(item.device_ns or 0), -item.host_ns)):
            table.add_row(
                Text(_printable(function.trace_name)),
                str(function.calls),
                device_text(capture, function.device_ns),
                device_text(capture, function.own_device_ns),
                units.duration(function.host_ns),
                "–" if function.executions is None else str(function.executions),
            )
        self.out.print(table)
        for function in capture.functions:
            if function.path is not None:
                self._note(f"{function.trace_name} is {function.qualname} of {short_path(function.path)}")

    def _totals(self, operators: Sequence[OperatorTotals]) -> None:
        table = _table(("operator", "calls", "self cpu", "device", "own"))
        for row in operators:
            device = ("–" if ns is None else units.duration(ns) for ns in (row.device_ns, row.own_device_ns))
            table.add_row(Text(_printable(row.name)), str(row.calls), units.duration(row.self_host_ns), *device)
        self.out.print(table)

    def _note(self, text: str) -> None:
        self._print(Text(_printable(text), style="dim"))

    def _function(
        self,
        costs: FunctionCosts,
        result: LineCosts,
        source: Sequence[str],
        caller: FunctionCosts | None,
        compared: FunctionView | None = None,
    ) -> None:
        self._print(
            Text.assemble(
                (_printable(costs.name or costs.qualname), "bold"),
                (f"  {short_path(costs.path)}:{costs.line}", "dim"),
                (_printable(f"  during {caller.name or caller.qualname}") if caller else "", "dim"),
            )
        )
        self._print(_headline(costs, result, caller))
        if compared is not None and compared.comparison is not None:
            self._print(_printable(comparison_text(compared.comparison, _now())))
        if costs.state != "fresh":
            self._reason(costs.state, costs.reason or "", costs.frames)
        if costs.lines or costs.unattributed_ns:
            self._lines(costs, source, result.device_kind, compared)
        remarks = [(line.line, text) for line in costs.lines for _, text in row_remarks(line)]
        for number, text in sorted([*remarks, *tiny_executions((line.line, line) for line in costs.lines)]):
            self._print(Text(_printable(f"line {number}: {text}"), style="dim"))
        for warning in costs.warnings:
            if warning != NO_OPERATORS:
                self._print(Text(_printable(f"note: {warning}"), style="dim"))

    def _lines(
        self, costs: FunctionCosts, source: Sequence[str], device: DeviceKind, compared: FunctionView | None
    ) -> None:
        by_line = {line.line: line for line in costs.lines}
        deltas = _Deltas(compared)
        first, last = costs.line, min(costs.last_line, len(source))
        code = [_printable(line.expandtabs(4)) for line in source[first - 1 : last]]
        # Colours are for a person's screen, and no person reads thousands of lines.
        colours = self.out.is_terminal and len(code) <= _COLOURED_LINES
        shown = _highlight(code) if colours else [Text(line) for line in code]
        width = max((cell_len(line) for number, line in enumerate(code, first) if number in by_line), default=0)
        is_device = costs.measure == "device"
        name = "neuron" if is_device else measure_name(costs, device)
        host, blank = (("host",), ("",)) if is_device else ((), ())
        widths = _DEVICE_WIDTHS if is_device else _WIDTHS
        # A figure that several lines share stands at each of them and counts once.
        shared = {line: group for group in costs.shared for line in group.lines}
        rows = [_row(("line", name, "share", "spread", *host, "ops", *deltas.cell("delta")), Text(""), "dim", widths)]
        for number, text in enumerate(shown, first):
            line = by_line.get(number)
            if line is not None or number in shared:
                found = line or LineCost(number, 0, 0, None, ())
                group = shared.get(number)
                rows.append(_line_row(found, group, costs, text, min(width, _SOURCE_WIDTH), deltas.of(number)))
            else:
                rows.append(_row((str(number), "", "", "", *blank, "", *deltas.of(number)), text, "dim", widths))
        rest = costs.unattributed_ns or 0
        if rest:
            cells = ("", units.duration(rest), units.share(rest, costs.measured_ns), "", *blank, "", *deltas.cell(""))
            rows.append(_row(cells, Text("unattributed", style="italic"), "", widths))
        for time_text, gone in deltas.removed():
            rows.append(_row(("", time_text, "", "", *blank, "", "removed"), Text(gone), "dim", widths))
        self._print(Text("\n").join(rows))

    def _operators(self, costs: FunctionCosts) -> None:
        if not costs.operators:
            return
        table = _table(("operator", "calls", "self cpu", "device", "share"))
        # Of what the lines are of.
        is_device = costs.measure == "device"
        times = [(row.device_ns or 0) if is_device else row.self_host_ns for row in costs.operators]
        for row, time_ns in zip(costs.operators, times, strict=True):
            table.add_row(
                Text(_printable(row.name)),
                units.count(row.calls),
                units.duration(row.self_host_ns),
                "–" if row.device_ns is None else units.duration(row.device_ns),
                units.share(time_ns, sum(times)),
            )
        self._print("")
        self.out.print(table)

    def _reason(self, state: State, reason: str, frames: Sequence[Frame]) -> None:
        title = {"failed": "failed", "noInputs": "no inputs", "cancelled": "cancelled"}.get(state, state)
        style = "yellow" if state == "noInputs" else "red"
        self._print(Text.assemble((f"{title}: ", style), _printable(reason)))
        for frame, group in groupby(frames):
            self._frame(frame, len(list(group)))

    def _frame(self, frame: Frame, times: int) -> None:
        function = f" in {frame.function}" if frame.function else ""
        self._print(Text(f"  {short_path(frame.path)}:{frame.line}{function}", style="dim"))
        if frame.text:
            self._print(Text(f"    {_printable(frame.text)}"))
        if times > 1:
            self._print(Text(f"    … and {times - 1} more times", style="dim"))

    def _print(self, text: Text | str) -> None:
        self.out.print(text, soft_wrap=True)


class Progress:
    """The phase of the run that is on: a moving line on a terminal, words one after the other elsewhere."""

    def __init__(self, console: Console, title: str) -> None:
        self._console = console
        self._title = title
        self._started = time.monotonic()
        self._phase = ""
        # Whether the line that is being written to has no end yet.
        self._open_line = False
        self._status: Status | None = None

    def __enter__(self) -> Progress:
        if self._console.is_terminal:
            self._status = self._console.status(f"{self._title}: starting")
            self._status.start()
        else:
            self._write(f"{self._title}:")
        return self

    def __exit__(self, *error: object) -> None:
        seconds = time.monotonic() - self._started
        if self._status is not None:
            self._status.stop()
        else:
            self._write(f" ({seconds:.1f} s)")
            self._end_line()

    def phase(self, phase: str, done: int, total: int) -> None:
        """The run is in a phase, and has made so many of its calls."""
        if self._status is not None:
            calls = f" {done + 1}/{total}" if total else ""
            seconds = time.monotonic() - self._started
            self._status.update(f"{self._title}: {phase}{calls} · {seconds:.0f} s")
        elif phase != self._phase:
            self._write(f" {phase}" if self._open_line else f"{self._title}: {phase}")
        self._phase = phase

    def interrupt(self) -> None:
        """Something else is about to be printed on the same stream."""
        if self._open_line:
            self._end_line()

    def _write(self, text: str) -> None:
        self._console.print(text, end="")
        self._open_line = True

    def _end_line(self) -> None:
        self._console.print()
        self._open_line = False


class _Deltas:
    """The last column of a function's lines, which is there only where there is something to compare."""

    def __init__(self, compared: FunctionView | None) -> None:
        self._comparison = compared.comparison if compared is not None else None
        self._is_shown = self._comparison is not None and self._comparison.total is not None
        self._by_line = {row.line: row_delta(compared, row) for row in compared.rows} if compared is not None else {}

    def cell(self, text: str) -> tuple[str, ...]:
        return (text,) if self._is_shown else ()

    def of(self, line: int) -> tuple[str, ...]:
        """The cell of a line, of which the first one of a statement has all of it."""
        return self.cell(self._by_line.get(line, ""))

    def removed(self) -> Iterator[tuple[str, str]]:
        """Time and text of each line that is no longer there."""
        for row in self._comparison.removed if self._comparison is not None else ():
            yield units.duration(row.total_ns), _printable(row.text)


def _headline(costs: FunctionCosts, result: LineCosts, caller: FunctionCosts | None) -> Text:
    """Time per profiled call, also of a function that each of these calls enters several times."""
    calls = f"{result.repeats} calls" if result.repeats != 1 else "1 call"
    if not costs.operators:
        return Text(f"{NO_OPERATORS} · {calls}")
    per = f"per call of {_printable(caller.name or caller.qualname)}" if caller else "per call"
    parts = [*_headline_times(costs, result, per), calls]
    if costs.calls is not None and costs.calls != result.repeats:
        parts.append(f"entered {costs.calls} times" if costs.calls != 1 else "entered once")
    if caller is None and 0 < len(result.signature) <= _SIGNATURE_WIDTH:
        parts.append(_printable(result.signature))
    return Text(" · ".join(parts))


def _headline_times(costs: FunctionCosts, result: LineCosts, per: str) -> list[str]:
    spread = units.spread(costs.spread_ns, costs.measured_ns)
    if costs.measure == "device":
        bound = "≥" if costs.is_lower_bound else ""
        parts = [f"neuron {bound}{units.duration(costs.measured_ns)} {per} {spread}".strip()]
        parts += ["may include queueing"] if costs.may_include_queueing else []
        return [*parts, executions_text(costs.executions), f"host {units.duration(costs.host_ns or 0)}"]
    time = f"{measure_name(costs, result.device_kind)} {units.duration(costs.host_ns or 0)} {per} {spread}".strip()
    return [DEVICE_TIME_UNKNOWN, time] if result.device_kind == "neuron" else [time]


def _line_row(
    line: LineCost, group: SharedGroup | None, costs: FunctionCosts, code: Text, width: int, delta: Sequence[str]
) -> Text:
    whole = costs.measured_ns
    calls = sum(item.calls for item in line.operators)
    is_device = costs.measure == "device"
    time, share = units.duration(line.total_ns) if line.total_ns or not is_device else "", ""
    if group is not None and not line.total_ns:
        time, share = f"≈{units.duration(group.ns)}", "shared"
    cells = (
        str(line.line),
        time,
        share or units.share(line.total_ns, whole),
        units.spread(line.spread_ns, line.total_ns),
        *((units.duration(line.host_ns) if line.host_ns else "",) if is_device else ()),
        units.count(calls) if calls else "",
        *delta,
    )
    names = ", ".join(
        item.name if item.calls == 1 else f"{item.name} ×{units.count(item.calls)}"
        for item in line.operators[:_NAMES_LIMIT]
    )
    if len(line.operators) > _NAMES_LIMIT:
        names += f" and {len(line.operators) - _NAMES_LIMIT} more"
    padded = code.copy()
    padded.append(" " * (max(0, width - cell_len(code.plain)) + 2))
    padded.append(names, style="dim")
    style = "bold" if whole and line.total_ns >= _HOT_SHARE * whole else ""
    return _row(cells, padded, style, _DEVICE_WIDTHS if is_device else _WIDTHS)


def _row(cells: Sequence[str], code: Text, style: str, widths: Sequence[int]) -> Text:
    numbers = "".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=False))
    row = Text.assemble((numbers, style), ("  │ ", "dim"), code)
    row.rstrip()
    return row


def _table(headings: Sequence[str]) -> Table:
    """A table of names with numbers behind them."""
    name, *numbers = headings
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column(name, overflow="ellipsis", no_wrap=True)
    for heading in numbers:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _now() -> Now:
    now_s = time.time()
    return Now(now_s, time.localtime(now_s).tm_gmtoff)


def _highlight(lines: Sequence[str]) -> list[Text]:
    syntax = Syntax("", "python", theme="ansi_dark", background_color="default")
    text = syntax.highlight("\n".join(lines))
    found = list(text.split("\n", allow_blank=True))[: len(lines)]
    return found + [Text("")] * (len(lines) - len(found))


def _printed(line: str) -> str:
    """A line of user output as a terminal would have left it: a progress bar's last state, without colours."""
    return _printable(Text.from_ansi(line.rpartition("\r")[2]).plain)


def _printable(text: str) -> str:
    """Without control characters, which a terminal would obey; spaces of every width stay."""
    return "".join(char if char.isprintable() or unicodedata.category(char) == "Zs" else "·" for char in text)


def short_path(path: str) -> str:
    """Relative to the working directory where the file lies below it."""
    with contextlib.suppress(ValueError, OSError):
        path = str(Path(path).relative_to(Path.cwd()))
    return _printable(path)
