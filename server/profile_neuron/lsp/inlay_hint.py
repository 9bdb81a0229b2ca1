"""textDocument/inlayHint and inlayHint/resolve: the time of each line, behind it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING

from lsprotocol import types

from profile_neuron.daemon.screen import Screen
from profile_neuron.lsp import from_proto, to_proto
from profile_neuron.lsp.prepared import Prepared

if TYPE_CHECKING:
    from collections.abc import Callable

    from profile_neuron.core.render import Hint
    from profile_neuron.daemon.daemon import Daemon
    from profile_neuron.daemon.files import OpenFile


@dataclass(slots=True)
class _Made:
    """The hints of a file in one state of it; those that were asked for are in the protocol's words already."""

    epoch: int
    text: str
    hints: tuple[Hint, ...]
    answers: dict[int, tuple[types.Position, object]] = field(default_factory=dict)


class InlayHints:
    """Answers from the hints of the whole file, which are made once per text and state."""

    def __init__(
        self, daemon: Daemon, encoding: str, is_markdown: bool, unstructure: Callable[[types.InlayHint], object]
    ) -> None:
        self._daemon = daemon
        self._screen = Screen(daemon)
        self._encoding = encoding
        self._is_markdown = is_markdown
        self._unstructure = unstructure
        # By path.
        self._made: dict[str, _Made] = {}

    async def answer(self, params: types.InlayHintParams) -> Prepared:
        """Hints whose position lies in the half-open range."""
        file = await self._daemon.analysed(from_proto.path(params.text_document.uri) or "")
        if file is None:
            return Prepared()
        made = self._made.get(file.path)
        if made is None or made.epoch != self._daemon.epoch or made.text is not file.text:
            made = self._made[file.path] = _Made(self._daemon.epoch, file.text, self._screen.hints(file))
        first = bisect_left(made.hints, from_proto.line(params.range.start), key=attrgetter("line"))
        last = bisect_right(made.hints, from_proto.line(params.range.end), key=attrgetter("line"))
        # A line has one hint, so only at the ends of the range can one of its lines have it outside.
        while first < last and self._answer(made, first, file)[0] < params.range.start:
            first += 1
        # The end of the document is the one position that no half-open range of it could hold.
        ends = to_proto.end_of_line(len(file.lines), file.client_lines, self._encoding)
        is_whole = params.range.start < params.range.end == ends
        while first < last and self._answer(made, last - 1, file)[0] >= params.range.end and not is_whole:
            last -= 1
        return Prepared(self._answer(made, index, file)[1] for index in range(first, last))

    def _answer(self, made: _Made, index: int, file: OpenFile) -> tuple[types.Position, object]:
        answer = made.answers.get(index)
        if answer is None:
            hint = to_proto.inlay_hint(made.hints[index], file.client_lines, file.uri, file.version, self._encoding)
            answer = made.answers[index] = (hint.position, self._unstructure(hint))
        return answer

    def forget(self, path: str) -> None:
        """A file is closed."""
        self._made.pop(path, None)

    async def resolve(self, hint: types.InlayHint) -> types.InlayHint:
        """The tooltip of a hint, and a click that opens the report."""
        match hint.data:
            case [str(document), int(version), int(line)]:
                file = await self._daemon.analysed(from_proto.path(document) or "")
                # Of an earlier text the line may be that of another statement.
                if file is not None and file.version == version and (text := self._screen.hover(file, line)):
                    hint.tooltip = to_proto.markup(text, self._is_markdown)
                    about = {"uri": document, "line": line - 1}
                    command = types.Command(
                        title="Show report", command=f"{to_proto.COMMAND_PREFIX}showReport", arguments=[about]
                    )
                    hint.label = [types.InlayHintLabelPart(str(hint.label), command=command)]
        return hint
