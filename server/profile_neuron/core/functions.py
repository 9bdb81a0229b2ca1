"""The functions of the sources that ran, and which of them each numbered line belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from profile_neuron.core.discovery import spans
from profile_neuron.errors import CaptureError, SourceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from profile_neuron.core.model import FunctionSpan, LineLog, RunRecord, SourceFile


class Key(NamedTuple):
    """A function by its file and its position among the functions of that file."""

    file: int
    position: int


class Functions:
    """Made once per run; answers from what it worked out then."""

    def __init__(self, log: LineLog, record: RunRecord) -> None:
        self.record = record
        self._log = log
        self._spans = [_spans(source, record.decorator_modules) for source in log.files]
        self._code_spans = [self._span_of_code(index) for index in range(len(log.codes))]
        self.target = self._find_target()
        self.listed = self._list()
        self._of_line: dict[int, tuple[tuple[Key, int], ...]] = {}
        self._of_stack: dict[tuple[int, ...], tuple[tuple[Key, int], ...]] = {}

    def span(self, key: Key) -> FunctionSpan:
        return self._spans[key.file][key.position]

    def path(self, key: Key) -> str:
        return self._log.files[key.file].path

    def entries(self, key: Key) -> int:
        """How often a function was entered, whichever of its code objects that was."""
        span = self.span(key)
        name = span.qualname.rpartition(".")[2]
        return sum(
            code.count
            for code in self._log.codes
            if code.file == key.file and code.first_line == span.first_line and code.name == name
        )

    def of_line(self, number: int) -> tuple[Key, ...]:
        return tuple(key for key, _ in self._place(number))

    def lines_of(self, stack: tuple[int, ...]) -> tuple[tuple[Key, int], ...]:
        """For each listed function in a stack of line numbers its innermost line, innermost function first."""
        found = self._of_stack.get(stack)
        if found is None:
            placed: dict[Key, int] = {}
            for number in reversed(stack):
                for key, line in self._place(number):
                    placed.setdefault(key, line)
            found = self._of_stack[stack] = tuple(placed.items())
        return found

    def _place(self, number: int) -> tuple[tuple[Key, int], ...]:
        """The listed functions whose source holds a numbered line, innermost first, and the line's number."""
        found = self._of_line.get(number)
        if found is None:
            line = self._log.lines[number]
            code = self._log.codes[line.code]
            key = self._code_spans[line.code]
            placed = []
            while key is not None:
                if key in self.listed:
                    # The lines of a function's own decorators stand for its def line.
                    placed.append((key, max(line.line, self.span(key).def_line)))
                parent = self.span(key).parent
                key = Key(code.file, parent) if parent is not None else None
            found = self._of_line[number] = tuple(placed)
        return found

    def _span_of_code(self, index: int) -> Key | None:
        """The function that a code object is, or is inside of."""
        code = self._log.codes[index]
        innermost = None
        for position, span in enumerate(self._spans[code.file]):
            if span.first_line == code.first_line and span.qualname.rpartition(".")[2] == code.name:
                return Key(code.file, position)
            # Outer functions come before inner ones.
            if span.def_line <= code.first_line <= span.last_line:
                innermost = Key(code.file, position)
        return innermost

    def _find_target(self) -> Key:
        for file, source in enumerate(self._log.files):
            if source.path == self.record.path:
                for position, span in enumerate(self._spans[file]):
                    if span.def_line == self.record.def_line:
                        return Key(file, position)
        raise CaptureError(f"{self.record.qualname} is not in the sources of the run folder; profile again")

    def _list(self) -> frozenset[Key]:
        """The functions with costs of their own.

        A function inside of another one counts with it, unless it is decorated or the outer one did not run.
        """
        ran = {key for key in self._code_spans if key is not None}
        listed = {self.target}
        for key in ran:
            chain = [key]
            while (parent := self.span(chain[-1]).parent) is not None:
                chain.append(Key(key.file, parent))
            decorated = [item for item in chain if self.span(item).decorated]
            listed.update(decorated)
            if not decorated:
                listed.add([item for item in chain if item in ran][-1])
        return frozenset(listed)


def _spans(source: SourceFile, modules: Sequence[str]) -> tuple[FunctionSpan, ...]:
    try:
        return spans(source.text, modules, source.package)
    except SourceError:
        return ()
