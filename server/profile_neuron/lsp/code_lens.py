"""textDocument/codeLens: the state of each function, above it, with what can be done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profile_neuron.daemon.screen import Screen
from profile_neuron.lsp import from_proto, to_proto

if TYPE_CHECKING:
    from lsprotocol import types

    from profile_neuron.daemon.daemon import Daemon


async def answer(daemon: Daemon, params: types.CodeLensParams) -> list[types.CodeLens]:
    """All lenses of a file."""
    file = await daemon.analysed(from_proto.path(params.text_document.uri) or "")
    if file is None:
        return []
    return [to_proto.code_lens(lens, file.uri) for lens in Screen(daemon).lenses(file)]
