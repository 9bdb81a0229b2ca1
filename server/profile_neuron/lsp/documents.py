"""Documents as the client edits and saves them, and which of its saves a person made."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from lsprotocol import types
from pygls.capabilities import get_capability

from profile_neuron.lsp import from_proto

if TYPE_CHECKING:
    from profile_neuron.daemon.daemon import Daemon
    from profile_neuron.lsp.server import Server

log = logging.getLogger(__name__)

# Names the registration.
_WATCH = "profile-neuron-files"


class Documents:
    """Only Python files on disk are the daemon's; other schemes have nothing that could be run."""

    def __init__(self, daemon: Daemon, encoding: str) -> None:
        self._daemon = daemon
        self._encoding = encoding
        # Why the next save comes, by path.
        self._reasons: dict[str | None, types.TextDocumentSaveReason] = {}

    def watch(self, server: Server) -> None:
        """Ask to be told of Python files that the editor sees change, as on file systems that tell us nothing."""
        name = "workspace.did_change_watched_files.dynamic_registration"
        if get_capability(server.client_capabilities, name, False):
            watchers = [types.FileSystemWatcher(glob_pattern="**/*.py")]
            options = types.DidChangeWatchedFilesRegistrationOptions(watchers=watchers)
            registration = types.Registration(_WATCH, types.WORKSPACE_DID_CHANGE_WATCHED_FILES, options)
            server.protocol.send_request(types.CLIENT_REGISTER_CAPABILITY, types.RegistrationParams([registration]))

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

    def written(self, params: types.DidChangeWatchedFilesParams) -> None:
        """workspace/didChangeWatchedFiles: what the editor sees, where our own watching sees nothing."""
        paths = [path for change in params.changes if (path := from_proto.path(change.uri)) is not None]
        self._daemon.changed_on_disk(paths)

    def rename(self, params: types.RenameFilesParams) -> None:
        """workspace/didRenameFiles."""
        for file in params.files:
            old, new = from_proto.path(file.old_uri), from_proto.path(file.new_uri)
            if old is not None and new is not None:
                self._daemon.renamed(old, new)
