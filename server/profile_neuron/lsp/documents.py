"""Documents as the client edits and saves them, and which of its saves a person made."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from lsprotocol import types

from profile_neuron.lsp import from_proto

if TYPE_CHECKING:
    from profile_neuron.daemon.daemon import Daemon

log = logging.getLogger(__name__)


class Documents:
    """Only Python files on disk are the daemon's; other schemes have nothing that could be run."""

    def __init__(self, daemon: Daemon, encoding: str) -> None:
        self._daemon = daemon
        self._encoding = encoding
        # Why the next save comes, by path.
        self._reasons: dict[str | None, types.TextDocumentSaveReason] = {}

    def open(self, params: types.DidOpenTextDocumentParams) -> None:
        """textDocument/didOpen."""
        document = params.text_document
        path = from_proto.path(document.uri)
        if path is not None and (document.language_id == "python" or path.endswith((".py", ".pyw"))):
            self._daemon.opened(path, document.uri, document.text, document.version)

    def change(self, params: types.DidChangeTextDocumentParams) -> None:
        """textDocument/didChange."""
        file = self._daemon.file(from_proto.path(params.text_document.uri) or "")
        if file is None:
            return
        text = from_proto.edited(file.text, params.content_changes, self._encoding)
        self._daemon.changed(file.path, text, params.text_document.version)

    def will_save(self, params: types.WillSaveTextDocumentParams) -> None:
        """textDocument/willSave: alone tells whether a person saved."""
        self._reasons[from_proto.path(params.text_document.uri)] = params.reason

    def save(self, params: types.DidSaveTextDocumentParams) -> None:
        """textDocument/didSave."""
        path = from_proto.path(params.text_document.uri)
        reason = self._reasons.pop(path, types.TextDocumentSaveReason.Manual)
        if path is not None:
            self._daemon.saved(path, reason == types.TextDocumentSaveReason.Manual, params.text)

    def close(self, params: types.DidCloseTextDocumentParams) -> None:
        """textDocument/didClose."""
        path = from_proto.path(params.text_document.uri)
        self._reasons.pop(path, None)
        if path is not None:
            self._daemon.closed(path)

    def rename(self, params: types.RenameFilesParams) -> None:
        """workspace/didRenameFiles."""
        for file in params.files:
            old, new = from_proto.path(file.old_uri), from_proto.path(file.new_uri)
            if old is not None and new is not None:
                self._daemon.renamed(old, new)
