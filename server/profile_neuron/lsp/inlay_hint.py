"""textDocument/inlayHint and inlayHint/resolve: the time of each line, behind it."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from lsprotocol import types

from profile_neuron.daemon.screen import Screen
from profile_neuron.lsp import from_proto, to_proto

if TYPE_CHECKING:
    from profile_neuron.daemon.daemon import Daemon


class InlayHints:
    """Answers from the hints of the whole file, which are made once per text and state."""

    def __init__(self, daemon: Daemon, encoding: str, is_markdown: bool) -> None:
        self._daemon = daemon
        self._screen = Screen(daemon)
        self._encoding = encoding
        self._is_markdown = is_markdown
        # By path: for which state and text, the hints, and their positions for the search.
        self._made: dict[str, tuple[int, str, list[types.InlayHint], list[tuple[int, int]]]] = {}

    async def answer(self, params: types.InlayHintParams) -> list[types.InlayHint]:
        """Hints whose position lies in the half-open range."""
        file = await self._daemon.analysed(from_proto.path(params.text_document.uri) or "")
        if file is None:
            return []
        made = self._made.get(file.path)
        if made is None or made[0] != self._daemon.epoch or made[1] is not file.text:
            found = [
                to_proto.inlay_hint(hint, file.lines, file.uri, self._encoding) for hint in self._screen.hints(file)
            ]
            positions = [(hint.position.line, hint.position.character) for hint in found]
            made = self._made[file.path] = (self._daemon.epoch, file.text, found, positions)
        _, _, hints, positions = made
        start, end = params.range.start, params.range.end
        first = bisect_left(positions, (start.line, start.character))
        return hints[first : bisect_left(positions, (end.line, end.character))]

    async def resolve(self, hint: types.InlayHint) -> types.InlayHint:
        """The tooltip of a hint, and a click that opens the report."""
        match hint.data:
            case [str(document), int(line)]:
                file = await self._daemon.analysed(from_proto.path(document) or "")
                if file is not None and (text := self._screen.hover(file, line)):
                    hint.tooltip = to_proto.markup(text, self._is_markdown)
                    about = {"uri": document, "line": line - 1}
                    command = types.Command(
                        title="Show report", command=f"{to_proto.COMMAND_PREFIX}showReport", arguments=[about]
                    )
                    hint.label = [types.InlayHintLabelPart(str(hint.label), command=command)]
        return hint
