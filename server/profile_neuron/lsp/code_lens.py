"""textDocument/codeLens: the state of each function, above it, with what can be done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profile_neuron.daemon.screen import Screen
from profile_neuron.lsp import from_proto, to_proto
from profile_neuron.lsp.prepared import Prepared

if TYPE_CHECKING:
    from collections.abc import Callable

    from lsprotocol import types

    from profile_neuron.core.render import Lens
    from profile_neuron.daemon.daemon import Daemon


class CodeLenses:
    """Answers with the lenses of the whole file; those that did not change are not made again."""

    def __init__(self, daemon: Daemon, unstructure: Callable[[types.CodeLens], object]) -> None:
        self._daemon = daemon
        self._screen = Screen(daemon)
        self._unstructure = unstructure
        # By path: what was answered last.
        self._made: dict[str, tuple[tuple[Lens, ...], Prepared]] = {}

    def forget(self, path: str) -> None:
        """A file is closed."""
        self._made.pop(path, None)

    async def answer(self, params: types.CodeLensParams) -> Prepared:
        """All lenses of a file."""
        file = await self._daemon.analysed(from_proto.path(params.text_document.uri) or "")
        if file is None:
            return Prepared()
        lenses = self._screen.lenses(file)
        made = self._made.get(file.path)
        if made is None or made[0] != lenses:
            answer = Prepared(self._unstructure(to_proto.code_lens(lens, file.uri)) for lens in lenses)
            made = self._made[file.path] = (lenses, answer)
        return made[1]
