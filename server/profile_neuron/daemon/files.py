"""Open files: their text, what is known of their functions, and what there is to show of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from profile_neuron.core.anchor import anchor, match
from profile_neuron.core.compare import comparison, lineage
from profile_neuron.core.fingerprint import digest
from profile_neuron.core.keys import changes, text_key
from profile_neuron.core.model import FunctionView
from profile_neuron.core.modules import module_changes
from profile_neuron.core.outline import outline
from profile_neuron.core.text import split_lines
from profile_neuron.daemon.scheduler import FunctionId
from profile_neuron.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from profile_neuron.core.model import (
        Activity,
        BaselineChoice,
        Comparison,
        DeviceKind,
        Failure,
        Result,
        ShownRow,
        ShownState,
    )
    from profile_neuron.core.modules import Module
    from profile_neuron.core.outline import FunctionOutline, Outline
    from profile_neuron.daemon.disk import Problem

_AROUND = "code outside of functions"
_INPUTS_CHANGED = "signature, decorator or inputs changed"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the last run of a function ended, where that is no result of today's code."""

    state: ShownState
    failure: Failure
    # Of the text and the inputs, and what the run was made with; empty where that was not known.
    key: str
    circumstances: str
    # The text that was run, by which its lines are found again.
    lines: Sequence[str]
    # Hashes of the other modules that it may be due to, by path.
    modules: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class OpenFile:
    """One file that an editor shows."""

    path: str
    # As the client spelled it when it opened the file.
    uri: str
    # The workspace folder that it belongs to.
    root: str
    # Its dotted package, by which relative imports of the decorator are resolved.
    package: str
    text: str
    version: int
    # What the editor last wrote to disk.
    saved_text: str
    # The last text that parsed, and why today's does not, if so.
    outline: Outline | None = None
    error: SourceError | None = None
    # At opening, or of the last save that could start runs; None as long as the text at opening is not analysed.
    baseline: Outline | None = None
    opened_text: str = ""
    outcomes: dict[FunctionId, Outcome] = field(default_factory=dict)
    # Functions whose run did not come about because their file was saved again.
    refused: set[FunctionId] = field(default_factory=set)
    # The project modules that results and outcomes depend on, as they are on disk, by path.
    modules: dict[str, Module] = field(default_factory=dict)
    circumstances: str = ""
    # What a run would measure, as far as that is known.
    device_kind: DeviceKind = "cpu"
    # Whether the interpreter of its folder can import the decorator by itself, as far as that is known.
    has_decorator: bool | None = None
    # Which inputs are chosen for functions, where it is not the first.
    choices: Mapping[FunctionId, str] = field(default_factory=dict)
    # Why no run could be made of the last save.
    save_problem: Problem | None = None
    _results: tuple[Result, ...] = ()
    _results_by_function: dict[tuple[str, int], list[Result]] = field(default_factory=dict)
    _lines: list[str] | None = None
    _analysed: str | None = None
    _views: tuple[int, str, tuple[FunctionView, ...]] | None = None
    _gone: tuple[Outline, dict[tuple[str, int], list[Result]]] | None = None

    def replace_text(self, text: str, version: int) -> None:
        """Take over an edit."""
        self.text, self.version = text, version
        self._lines = None

    @property
    def results(self) -> tuple[Result, ...]:
        """What is known from runs of this file, newest first."""
        return self._results

    @results.setter
    def results(self, results: tuple[Result, ...]) -> None:
        self._results = results
        self._results_by_function = {}
        self._gone = None
        for result in results:
            self._results_by_function.setdefault((result.qualname, result.occurrence), []).append(result)

    @property
    def lines(self) -> list[str]:
        """Today's text in lines."""
        if self._lines is None:
            self._lines = split_lines(self.text)
        return self._lines

    @property
    def client_lines(self) -> list[str]:
        """The same as a client counts columns in them: with the mark at the start, where its text has one."""
        if self.text.startswith("\ufeff"):
            return [f"\ufeff{self.lines[0]}", *self.lines[1:]]
        return self.lines

    @property
    def is_analysed(self) -> bool:
        return self._analysed == self.text

    def analyse(self, modules: Sequence[str]) -> None:
        """Bring the outline up to today's text; costs what was edited."""
        if not self.is_analysed:
            self.take_analysis(self.text, *analysis(self.text, modules, self.package, self.outline))

    def take_analysis(self, text: str, found: Outline | None, error: SourceError | None) -> None:
        """Take over an analysis that was made elsewhere, unless the text has moved on."""
        if text != self.text:
            return
        if found is not None:
            self.outline = found
            if self.baseline is None and text == self.opened_text:
                self.baseline = found
            if self.save_problem is not None and self.save_problem.line is not None:
                # It was about text that did not parse.
                self.save_problem = None
        self.error = error
        self._analysed = text

    def forget_analysis(self) -> None:
        """What decides which functions are decorated has changed."""
        self._analysed, self.outline, self.baseline = None, None, None

    def forget_interpreter(self) -> None:
        """Another one may be used from now on: what was wrong with the last one says nothing any more."""
        of_code = {name: item for name, item in self.outcomes.items() if not item.failure.is_of_interpreter}
        self.outcomes = of_code

    def views(
        self,
        epoch: int,
        activity: Callable[[FunctionId], Activity | None],
        state: ShownState | None,
        choice: BaselineChoice = "previous",
    ) -> tuple[FunctionView, ...]:
        """What there is to show of each function, in today's lines; kept for as long as text and epoch stay.

        state: one that all functions have where they have no run on, such as untrusted; None for their own.
        choice: of the results that theirs are compared with.
        """
        if self._views is None or self._views[0] != epoch or self._views[1] is not self.text:
            self._views = (epoch, self.text, _views(self, activity, state, choice))
        return self._views[2]

    def id_of(self, function: FunctionOutline) -> FunctionId:
        return FunctionId(self.path, function.spec.qualname, function.occurrence)

    def best_result(self, function: FunctionOutline, found: Outline) -> tuple[Result | None, tuple[str, ...]]:
        """The result to show of a function, and what of it is not of today's code; a fresh one if there is one."""
        results = self._results_of(function, found)
        for result in results:
            # Of many results few are of this tree, and the rest of what they depend on is costlier to compare.
            if result.tree == function.tree and not self._changes(result, found, function):
                return result, ()
        return (results[0], self._changes(results[0], found, function)) if results else (None, ())

    def results_of(self, function: FunctionOutline) -> list[Result]:
        """Results of a function under its name, newest first."""
        return self._results_by_function.get((function.spec.qualname, function.occurrence), [])

    def history(self, function: FunctionOutline, found: Outline) -> list[Result]:
        """Results of a function under its name and the ones that it had before, newest first."""
        return lineage(self.results_of(function), function.body, self._gone_results(found))

    def todays_result(self, function_id: FunctionId) -> Result | None:
        """The result of a function that is shown as fresh; None where there is none."""
        function = self.outline.function(function_id.qualname, function_id.occurrence) if self.outline else None
        if self.outline is None or function is None or self.error is not None:
            return None
        result, remarks = self.best_result(function, self.outline)
        return None if remarks else result

    def pin(self, function_id: FunctionId, pinned: Result | None) -> tuple[Result, ...]:
        """Pin a result of a function, or with None no one; gives those that are no longer pinned.

        Of all that a function is compared with one is pinned, also where it has another name now.
        """
        function = self.outline.function(function_id.qualname, function_id.occurrence) if self.outline else None
        if self.outline is None or function is None:
            return ()
        unpinned = tuple(item for item in self.history(function, self.outline) if item.is_pinned and item is not pinned)
        changed = {id(item): replace(item, is_pinned=False) for item in unpinned}
        if pinned is not None:
            changed[id(pinned)] = replace(pinned, is_pinned=True)
        self.results = tuple(changed.get(id(item), item) for item in self.results)
        return unpinned

    def comparison(
        self,
        result: Result,
        rows: tuple[ShownRow, ...],
        function: FunctionOutline,
        found: Outline,
        choice: BaselineChoice,
    ) -> Comparison:
        """A result of today's code beside the chosen one; worked out once per text, history and choice."""
        # One slot per function, as for its rows.
        slot: dict[tuple[object, ...], Comparison] = function.keep("comparison", dict)
        gone = [item for items in self._gone_results(found).values() for item in items]
        key = (result.run_id, choice, *((item.run_id, item.is_pinned) for item in (*self.results_of(function), *gone)))
        if key not in slot:
            slot.clear()
            slot[key] = comparison(result, self.history(function, found), rows, choice)
        return slot[key]

    def _gone_results(self, found: Outline) -> dict[tuple[str, int], list[Result]]:
        """Results of functions that are not in a text any more, worked out once per text."""
        if self._gone is None or self._gone[0] is not found:
            results = self._results_by_function.items()
            self._gone = (found, {name: items for name, items in results if found.function(*name) is None})
        return self._gone[1]

    def _changes(self, result: Result, found: Outline, function: FunctionOutline) -> tuple[str, ...]:
        choice = self.choices.get(self.id_of(function), "")
        return changes(result, found, function, self.circumstances, choice, self.modules)

    def is_fresh(self, function: FunctionOutline, found: Outline) -> bool:
        """Whether there is a result of the very code that a text has of a function."""
        return any(not self._changes(result, found, function) for result in self.results_of(function))

    def run_key(self, function: FunctionOutline, found: Outline) -> str:
        """Of the code and the inputs that a run of a function would be of, as far as the text tells."""
        return digest([text_key(found, function), self.choices.get(self.id_of(function), "")])

    def stands(self, outcome: Outcome, function: FunctionOutline, found: Outline) -> bool:
        """Whether a run would be of the same code as the one that ended this way."""
        return (
            outcome.key == self.run_key(function, found)
            and (not outcome.circumstances or outcome.circumstances == self.circumstances)
            and all(path in self.modules and self.modules[path].sha256 == sha256 for path, sha256 in outcome.modules)
        )

    def depends_on(self, function: FunctionOutline, modules: Collection[str]) -> bool:
        """Whether the last run of a function executed code that changed since in one of these modules."""
        outcome = self.outcomes.get(self.id_of(function))
        if outcome is not None and any(path in modules for path, _ in outcome.modules):
            return True
        newest = self.results_of(function)[:1]
        return any(
            module_changes([item for item in result.modules if item.path in modules], self.modules) for result in newest
        )

    def _results_of(self, function: FunctionOutline, found: Outline) -> list[Result]:
        # One that was renamed keeps its history: the same statements, under a name that is no longer there.
        return self.results_of(function) or [
            result
            for name, results in self._results_by_function.items()
            if found.function(*name) is None
            for result in results
            if result.body == function.body
        ]


def analysis(
    text: str, modules: Sequence[str], package: str, before: Outline | None
) -> tuple[Outline | None, SourceError | None]:
    """The outline of a text, or why there is none; needs nothing but its arguments, so any thread can make it."""
    try:
        return outline(text, modules, package, before), None
    except SourceError as error:
        return None, error


def _views(
    file: OpenFile,
    activity: Callable[[FunctionId], Activity | None],
    state: ShownState | None,
    choice: BaselineChoice,
) -> tuple[FunctionView, ...]:
    if file.outline is None:
        return ()
    found = tuple(_view(file, file.outline, function, activity, state, choice) for function in file.outline.functions)
    if file.error is not None:
        places = match(file.outline.lines, file.lines)
        edited = [f"{name} changed" for name in _edited_units(file.outline, places)]
        found = tuple(view for view in (_moved(view, places, edited) for view in found) if view is not None)
    return tuple(_with_failure_line(file, view) for view in found)


def _view(
    file: OpenFile,
    found: Outline,
    function: FunctionOutline,
    activity: Callable[[FunctionId], Activity | None],
    state: ShownState | None,
    choice: BaselineChoice,
) -> FunctionView:
    function_id = file.id_of(function)
    result, remarks = file.best_result(function, found) if file.results else (None, ())
    inputs_changed = _INPUTS_CHANGED in remarks
    outcome = file.outcomes.get(function_id)
    own: ShownState = "none" if result is None else "stale" if remarks else "fresh"
    if (
        outcome is not None
        and own == "fresh"
        and (outcome.state == "cancelled" or not file.stands(outcome, function, found))
    ):
        # The numbers are of this very code, and what was cancelled or failed took nothing from them.
        outcome = None
    is_current = result is not None and not remarks and outcome is None
    on = activity(function_id)
    if on is not None:
        running: ShownState = "busy" if on.phase == "busy" else "running"
        shown = "queued" if on.ahead is not None else running
    else:
        shown = state or (outcome.state if outcome is not None else own)
    rows = anchor(result, function) if result is not None and not inputs_changed else ()
    return FunctionView(
        spec=function.spec,
        occurrence=function.occurrence,
        state=shown,
        result=result,
        is_current=is_current,
        reasons=remarks or (() if outcome is None else (_AFTER[outcome.state],)),
        inputs_changed=inputs_changed,
        rows=rows,
        activity=on,
        failure=outcome.failure if outcome is not None else None,
        comparison=file.comparison(result, rows, function, found, choice) if result and is_current else None,
        device_kind=file.device_kind,
    )


# What the marked numbers of an earlier run stand before.
_AFTER: Mapping[str, str] = {
    "failed": "before the last run, which failed",
    "cancelled": "before the last run, which was cancelled",
    "noInputs": "before the last run, which had no inputs",
    "busy": "before the last run, for which no NeuronCore was free",
}


def _with_failure_line(file: OpenFile, view: FunctionView) -> FunctionView:
    """A view with the line of its failure in today's text; without one where that line is another now."""
    outcome = file.outcomes.get(FunctionId(file.path, view.spec.qualname, view.occurrence))
    if view.failure is None or outcome is None:
        return view
    line = next((frame.line for frame in reversed(view.failure.frames) if frame.path == file.path), None)
    if line is None:
        return replace(view, failure_line=view.spec.def_line)
    place = match(outcome.lines, file.lines).get(line - 1)
    return replace(view, failure_line=None if place is None else place + 1)


def _moved_lines(places: Mapping[int, int], first: int, last: int) -> list[int | None]:
    found = [places.get(line - 1) for line in range(first, last + 1)]
    return [None if place is None else place + 1 for place in found]


def _edited_units(found: Outline, places: Mapping[int, int]) -> list[str]:
    """Names of functions of which lines are others now, and what stands for the code around them."""
    units = list(found.unit_lines())
    inside = {line for _, first, last in units for line in range(first, last + 1)}
    edited = [name for name, first, last in units if _is_edited(_moved_lines(places, first, last))]
    # Only lines that are gone: one that is being added has not been run by anything yet.
    lost = (line for line in range(len(found.lines)) if line not in places and line + 1 not in inside)
    if any((text := found.lines[line].strip()) and not text.startswith("#") for line in lost):
        edited.append(_AROUND)
    return edited


def _is_edited(lines: Sequence[int | None]) -> bool:
    """Whether lines that followed each other lost one, or got one between them."""
    return None in lines or any(line != place for place, line in enumerate(lines, lines[0] or 0))


def _moved(view: FunctionView, places: Mapping[int, int], edited: Sequence[str]) -> FunctionView | None:
    """A view in a text that does not parse, by the lines that stayed; None where the function is not there.

    edited: remarks about functions of the file, and about the code around them, of which lines are others now.
    """

    def moved(line: int) -> int | None:
        place = places.get(line - 1)
        return None if place is None else place + 1

    spec = view.spec
    decorator, def_line = moved(spec.decorator_line), moved(spec.def_line)
    if decorator is None or def_line is None:
        return None
    inside = _moved_lines(places, spec.first_line, spec.last_line)
    reached = {f"{item.name} changed" for item in view.result.functions} if view.result is not None else set()
    reasons = ["edited since"] if _is_edited(inside) else []
    reasons += [remark for remark in edited if remark in reached or remark == f"{_AROUND} changed"]
    is_edited = bool(reasons)
    state: ShownState = "stale" if is_edited and view.state == "fresh" else view.state
    return replace(
        view,
        spec=replace(
            spec,
            decorator_line=decorator,
            first_line=inside[0] or decorator,
            def_line=def_line,
            last_line=max(line for line in inside if line is not None),
        ),
        state=state,
        is_current=view.is_current and not is_edited,
        reasons=view.reasons or tuple(reasons),
        rows=tuple(moved_row for row in view.rows if (moved_row := _moved_row(row, moved)) is not None),
        comparison=None if is_edited else view.comparison,
    )


def _moved_row(row: ShownRow, moved: Callable[[int], int | None]) -> ShownRow | None:
    line, shared = moved(row.line), tuple(moved(other) for other in row.shared)
    if line is None or None in shared:
        return None
    return replace(row, line=line, shared=tuple(other for other in shared if other is not None))
