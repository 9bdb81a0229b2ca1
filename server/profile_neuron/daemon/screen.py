"""What an editor's requests are answered with, from what the daemon has in memory."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from profile_neuron.core.anchor import match
from profile_neuron.core.findings import Finding, findings, unparsable
from profile_neuron.core.foreign_text import foreign_lens, function_report
from profile_neuron.core.heat import heat
from profile_neuron.core.hover import Now, function_hover, line_hover
from profile_neuron.core.render import HintSettings, hints, lenses
from profile_neuron.core.report import markdown_report, report
from profile_neuron.daemon.scheduler import FunctionId

if TYPE_CHECKING:
    from collections.abc import Iterator

    from profile_neuron.core.heat import Heat
    from profile_neuron.core.model import FunctionView
    from profile_neuron.core.render import Hint, Lens
    from profile_neuron.core.report import Report
    from profile_neuron.daemon.daemon import Daemon
    from profile_neuron.daemon.files import OpenFile


class Screen:
    """Every method is about an open file that is analysed."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon

    def hints(self, file: OpenFile) -> tuple[Hint, ...]:
        """Inlay hints of an analysed file, sorted by line."""
        settings = self._daemon.settings_of(file.root)
        if self._daemon.is_hidden or not settings.hints_enable:
            return ()
        wanted = HintSettings(
            settings.hints_min_share,
            settings.hints_min_time_ns,
            settings.hints_max_per_function,
            settings.hints_stale == "mark",
            settings.hints_delta,
        )
        return hints(self._daemon.views(file), wanted)

    def heat(self, file: OpenFile) -> tuple[Heat, ...]:
        """How warm the lines of an analysed file are; of any number, since they take no room beside the text."""
        settings = self._daemon.settings_of(file.root)
        if self._daemon.is_hidden:
            return ()
        wanted = HintSettings(
            settings.hints_min_share, settings.hints_min_time_ns, len(file.lines), settings.hints_stale == "mark"
        )
        return heat(self._daemon.views(file), wanted)

    def lenses(self, file: OpenFile) -> tuple[Lens, ...]:
        """Code lenses of an analysed file, sorted by line."""
        settings = self._daemon.settings_of(file.root)
        if self._daemon.is_hidden or not settings.code_lens_enable:
            return ()
        own = lenses(self._daemon.views(file), time.time())
        if settings.explorer_mode == "none":
            own = tuple(lens for lens in own if lens.verb != "openInExplorer")
        return tuple(sorted((*own, *self._foreign_lenses(file)), key=lambda lens: lens.line))

    def findings(self, file: OpenFile) -> tuple[Finding, ...]:
        """Remarks at lines of an analysed file."""
        settings = self._daemon.settings_of(file.root)
        if not settings.diagnostics_enable or not settings.enable:
            return ()
        severities = dict(settings.diagnostics_severity)
        found = findings(file.path, self._daemon.views(file), severities)
        if file.save_problem is not None:
            found += unparsable(file.save_problem.line, file.save_problem.text, severities)
        return found

    def hover(self, file: OpenFile, line: int) -> str:
        """Markdown about a line of an analysed file; empty where there is nothing to say."""
        inner = [view for view in self._daemon.views(file) if view.spec.first_line <= line <= view.spec.last_line]
        for view in reversed(inner):
            if view.spec.first_line <= line <= view.spec.def_line:
                return function_hover(view, now())
            for row in view.rows:
                if row.line == line:
                    return line_hover(view, row, now())
        return ""

    def report(self, file: OpenFile, function: FunctionId) -> Report | None:
        """The report of a function of an analysed file, from its decorator to its end; None where it is not there."""
        for view in self._daemon.views(file):
            if _id(file, view) == function:
                return report(view, _numbered(file, view.spec.first_line, view.spec.last_line), now())
        return None

    def markdown_report(self, file: OpenFile, function: FunctionId) -> str:
        """A Markdown document about a function of an analysed file; empty where it is not there."""
        for view in self._daemon.views(file):
            if _id(file, view) == function:
                return markdown_report(view, _numbered(file, view.spec.def_line, view.spec.last_line), now())
        return ""

    def foreign_report(self, file: OpenFile, function: FunctionId) -> str:
        """A document about a function in profiles of the user's own; empty where there are none."""
        foreign = self._daemon.foreign
        if foreign is None:
            return ""
        found = [
            (capture, item)
            for place, capture, item in foreign.functions(file)
            if (place.qualname, place.occurrence) == function[1:]
        ]
        return function_report(found, bool(found) and foreign.is_stale(file, found[0][0]), now())

    def _foreign_lenses(self, file: OpenFile) -> Iterator[Lens]:
        """Of each function the newest profile, where the text has the function by now."""
        foreign = self._daemon.foreign
        if foreign is None or not self._daemon.settings_of(file.root).enable or file.outline is None:
            return
        found = list(foreign.functions(file))
        lines = match(file.outline.lines, file.lines) if found else {}
        seen = set()
        for place, capture, function in found:
            line0 = lines.get(place.first_line - 1)
            if place in seen or line0 is None:
                continue
            seen.add(place)
            lens = foreign_lens(capture, function, line0 + 1, foreign.is_stale(file, capture), now())
            if lens is not None:
                yield lens

    def log_of(self, function: FunctionId) -> str:
        """What a function printed in its last run, and how that ended."""
        lines = list(self._daemon.output_of(function))
        file = self._daemon.file(function.path)
        outcome = file.outcomes.get(function) if file is not None else None
        if outcome is not None:
            lines += [f"{outcome.state}: {outcome.failure.reason}"]
            lines += [f"  {frame.path}:{frame.line} {frame.function}: {frame.text}" for frame in outcome.failure.frames]
        return "\n".join(lines or ["nothing was printed"]) + "\n"

    def has(self, file: OpenFile, function: FunctionId) -> bool:
        """Whether a file has a function."""
        return any(_id(file, view) == function for view in self._daemon.views(file))

    def functions_at(self, file: OpenFile, line: int) -> tuple[FunctionId, ...]:
        """The innermost decorated function of an analysed file that a line is in, if any."""
        inner = [view for view in self._daemon.views(file) if view.spec.first_line <= line <= view.spec.last_line]
        return tuple(_id(file, view) for view in inner[-1:])


def _id(file: OpenFile, view: FunctionView) -> FunctionId:
    return FunctionId(file.path, view.spec.qualname, view.occurrence)


def _numbered(file: OpenFile, first: int, last: int) -> Iterator[tuple[int, str]]:
    yield from enumerate(file.lines[first - 1 : last], first)


def now() -> Now:
    """The time at which a person of this machine looks."""
    now_s = time.time()
    return Now(now_s, time.localtime(now_s).tm_gmtoff)
