"""textDocument/hover: all that is known of a line, or on the lines down to def, of a function."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

from profile_neuron.daemon.screen import Screen
from profile_neuron.lsp import from_proto, to_proto

if TYPE_CHECKING:
    from profile_neuron.daemon.daemon import Daemon


async def answer(daemon: Daemon, params: types.HoverParams, is_markdown: bool) -> types.Hover | None:
    """A hover, or None where there is nothing to say."""
    file = await daemon.analysed(from_proto.path(params.text_document.uri) or "")
    if file is None:
        return None
    text = Screen(daemon).hover(file, from_proto.line(params.position))
    return types.Hover(to_proto.markup(text, is_markdown)) if text else None
