"""The least that a pygls server can be, as the measure of what ours adds; answers hints that it is told to make."""

from __future__ import annotations

from lsprotocol import types
from pygls.lsp.server import LanguageServer

server = LanguageServer("bare", "1")


@server.feature(types.TEXT_DOCUMENT_INLAY_HINT)
def inlay_hint(params: types.InlayHintParams) -> list[types.InlayHint]:
    """One hint per line of the asked range."""
    return [
        types.InlayHint(
            types.Position(line, 0), "cpu 12.3 µs · 31 % · 1 op", padding_left=True, data=["file:///x", line]
        )
        for line in range(params.range.start.line, params.range.end.line)
    ]


if __name__ == "__main__":
    server.start_io()
