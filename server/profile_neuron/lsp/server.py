"""The pygls server: which method of the protocol is whose, and the daemon's view of the editor."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import TYPE_CHECKING, Any, BinaryIO

from lsprotocol import types
from pygls.capabilities import get_capability
from pygls.io_ import StdinAsyncReader, StdoutWriter, run_async
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol, lsp_method

from profile_neuron import __version__
from profile_neuron.daemon.daemon import Daemon
from profile_neuron.lsp import code_action, from_proto, hover, notifications, report, trust
from profile_neuron.lsp.code_lens import CodeLenses
from profile_neuron.lsp.commands import Commands
from profile_neuron.lsp.configuration import Configuration
from profile_neuron.lsp.diagnostics import Diagnostics
from profile_neuron.lsp.documents import Documents
from profile_neuron.lsp.heat import LineHeat
from profile_neuron.lsp.inlay_hint import InlayHints
from profile_neuron.lsp.prepared import Prepared, converter
from profile_neuron.lsp.progress import RunProgress
from profile_neuron.lsp.refresh import Refresh
from profile_neuron.lsp.status import StatusItem

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from profile_neuron.daemon.editor import RunNews

log = logging.getLogger(__name__)

_PYTHON_FILES = types.FileOperationRegistrationOptions(
    [types.FileOperationFilter(types.FileOperationPattern("**/*.py"), scheme="file")]
)


_NOT_INITIALIZED, _INVALID_REQUEST = -32002, -32600


class Protocol(LanguageServerProtocol):
    """Leaves texts to lsp/documents.py: pygls would also split lines at form feeds and U+2028, as str does."""

    _server: Server

    @lsp_method(types.TEXT_DOCUMENT_DID_OPEN)
    def lsp_text_document__did_open(self, params: types.DidOpenTextDocumentParams) -> None:
        self._server.documents.open(params)

    @lsp_method(types.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(self, params: types.DidChangeTextDocumentParams) -> None:
        self._server.documents.change(params)
        self._server.refresh.edited()

    @lsp_method(types.TEXT_DOCUMENT_DID_CLOSE)
    def lsp_text_document__did_close(self, params: types.DidCloseTextDocumentParams) -> None:
        self._server.documents.close(params)
        path = from_proto.path(params.text_document.uri) or ""
        self._server.hints.forget(path)
        self._server.lenses.forget(path)
        self._server.heat.forget(path)
        self._server.refresh.edited()

    @lsp_method(types.WINDOW_WORK_DONE_PROGRESS_CANCEL)
    def lsp_work_done_progress_cancel(self, params: types.WorkDoneProgressCancelParams) -> None:
        # Tokens are run ids; one of a run that is over is no mistake.
        self._server.daemon.cancel_run(str(params.token))

    def _handle_request(self, msg_id: Any, method_name: str, params: Any) -> None:
        """As the protocol has it, initialize comes first and once."""
        is_begun = hasattr(self._server, "daemon")
        if method_name == types.INITIALIZE and is_begun:
            error = types.ResponseError(_INVALID_REQUEST, "the server is initialized already")
            self._send_response(msg_id, None, error)
        elif method_name not in (types.INITIALIZE, types.SHUTDOWN) and not is_begun:
            self._send_response(msg_id, None, types.ResponseError(_NOT_INITIALIZED, "send initialize first"))
        else:
            super()._handle_request(msg_id, method_name, params)

    def _handle_notification(self, method_name: str, params: Any) -> None:
        """Before initialize only exit means something."""
        if method_name == types.EXIT or hasattr(self._server, "daemon"):
            super()._handle_notification(method_name, params)


class Server(LanguageServer):
    """One client on one pair of streams; its parts are made when the client has said what it can do."""

    documents: Documents
    hints: InlayHints
    lenses: CodeLenses
    heat: LineHeat
    configuration: Configuration
    refresh: Refresh
    run_progress: RunProgress
    daemon: Daemon

    def __init__(self) -> None:
        super().__init__(
            "profile-neuron",
            __version__,
            types.TextDocumentSyncKind.Incremental,
            protocol_cls=Protocol,
            converter_factory=converter,
        )
        self.editor = LspEditor(self)
        self.encoding = "utf-16"
        # What the client can do that is not in the protocol.
        self.extension = notifications.ClientCapabilities()
        self.is_markdown = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._end: asyncio.Future[None] | None = None

    def begin(self, params: types.InitializeParams) -> None:
        """Take up a client, as initialize describes it."""
        encoding = self.protocol.workspace.position_encoding or "utf-16"
        self.encoding = encoding.value if isinstance(encoding, types.PositionEncodingKind) else encoding
        formats = get_capability(params.capabilities, "text_document.hover.content_format", [])
        self.extension = notifications.capabilities(params.capabilities.experimental)
        self.is_markdown = types.MarkupKind.Markdown in (formats or [])
        given: Any = params.initialization_options if isinstance(params.initialization_options, dict) else {}
        options = notifications.initialization_options(given)
        self.daemon = Daemon(self.editor, options.fallback_interpreter)
        self.documents = Documents(self.daemon, self.encoding)
        unstructure = self.protocol._converter.unstructure
        self.hints = InlayHints(self.daemon, self.encoding, self.is_markdown, unstructure)
        self.lenses = CodeLenses(self.daemon, unstructure)
        self.heat = LineHeat(self, self.daemon)
        published = [Diagnostics(self, self.daemon, self.encoding).publish]
        if self.extension.heat:
            published.append(self.heat.publish)
        if self.extension.status:
            published.append(StatusItem(self, self.daemon).publish)
        self.refresh = Refresh(self, published)
        self.run_progress = RunProgress(self)
        self.daemon.set_roots(from_proto.folders(params))
        self.daemon.set_trust(options.trusted)
        self.configuration = Configuration(self, self.daemon, given.get("settings"))
        for name, handler in Commands(self, self.daemon).table().items():
            self._add_command(name, handler)

    def start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run a task that this object owns."""

        async def owned() -> None:
            try:
                await work
            except asyncio.CancelledError:
                raise
            except Exception:
                log.exception("%s", name)

        task = asyncio.create_task(owned(), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def end(self) -> None:
        """End the daemon and all that it started."""
        if hasattr(self, "daemon"):
            self.refresh.close()
            if self._end is None:
                self._end = asyncio.ensure_future(self.daemon.close())
            # Whoever comes later, as exit does after shutdown, waits for the same end.
            await asyncio.shield(self._end)

    def report_server_error(self, error: Exception, source: Any) -> None:
        """A fault of ours is for the log; a person can do nothing about it in a pop-up."""
        log.error("%s: %s", getattr(source, "__name__", source), error)

    def _add_command(self, name: str, handler: Any) -> None:
        # Not annotated: pygls takes a first parameter whose class the server is of for the server itself, and on
        # Python 3.10 fails where that is no class.
        async def command(*arguments):  # type: ignore[no-untyped-def]
            return await handler(list(arguments))

        self.command(name)(command)


class LspEditor:
    """The daemon's editor in the words of the protocol."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def repaint(self, urgent: bool) -> None:
        if hasattr(self._server, "refresh"):
            self._server.refresh.request(urgent)

    def run_started(self, news: RunNews) -> None:
        self._server.run_progress.started(news)

    def run_progressed(self, news: RunNews) -> None:
        self._server.run_progress.progressed(news)

    def run_ended(self, news: RunNews, summary: str) -> None:
        self._server.run_progress.ended(news, summary)

    def ask_trust(self, root: str, names: Sequence[str]) -> None:
        trust.ask(self._server, self._server.daemon, root, names)

    def log(self, text: str) -> None:
        self._server.window_log_message(types.LogMessageParams(types.MessageType.Info, text))

    def warn(self, text: str) -> None:
        self._server.window_show_message(types.ShowMessageParams(types.MessageType.Warning, text))


def make_server() -> Server:
    """A server with every method that it answers."""
    server = Server()

    @server.feature(types.INITIALIZE)
    def initialize(params: types.InitializeParams) -> None:
        server.begin(params)

    @server.feature(types.INITIALIZED)
    def initialized(_: types.InitializedParams) -> None:
        server.refresh.open()
        server.refresh.publish()
        server.configuration.start()
        server.documents.watch(server)

    @server.feature(types.SHUTDOWN)
    def shutdown(*_: Any) -> None:
        # Not waited for: the answer must not take as long as the end of user code may.
        server.start(server.end(), "end")

    @server.feature(types.EXIT)
    async def left(*_: Any) -> None:
        await server.end()

    @server.feature(types.TEXT_DOCUMENT_WILL_SAVE)
    def will_save(params: types.WillSaveTextDocumentParams) -> None:
        server.documents.will_save(params)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE, types.SaveOptions(include_text=False))
    def did_save(params: types.DidSaveTextDocumentParams) -> None:
        server.documents.save(params)

    @server.feature(types.TEXT_DOCUMENT_INLAY_HINT, types.InlayHintOptions(resolve_provider=True))
    async def inlay_hint(params: types.InlayHintParams) -> Prepared:
        return await server.hints.answer(params)

    @server.feature(types.INLAY_HINT_RESOLVE)
    async def resolve(hint: types.InlayHint) -> types.InlayHint:
        return await server.hints.resolve(hint)

    @server.feature(types.TEXT_DOCUMENT_CODE_LENS, types.CodeLensOptions(resolve_provider=False))
    async def lenses(params: types.CodeLensParams) -> Prepared:
        return await server.lenses.answer(params)

    @server.feature(types.TEXT_DOCUMENT_CODE_ACTION, code_action.OPTIONS)
    async def actions(params: types.CodeActionParams) -> list[types.CodeAction]:
        return await code_action.answer(server, server.daemon, params)

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    async def hovered(params: types.HoverParams) -> types.Hover | None:
        return await hover.answer(server.daemon, params, server.is_markdown)

    @server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    def configured(params: types.DidChangeConfigurationParams) -> None:
        server.configuration.changed(params)

    @server.feature(types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
    def folders(params: types.DidChangeWorkspaceFoldersParams) -> None:
        removed = set(from_proto.paths([folder.uri for folder in params.event.removed]))
        added = from_proto.paths([folder.uri for folder in params.event.added])
        server.daemon.set_roots([root for root in server.daemon.roots if root not in removed] + added)
        server.configuration.pull()

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def written(params: types.DidChangeWatchedFilesParams) -> None:
        server.documents.written(params)

    @server.feature(types.WORKSPACE_DID_RENAME_FILES, _PYTHON_FILES)
    def renamed(params: types.RenameFilesParams) -> None:
        server.documents.rename(params)

    @server.feature(notifications.REPORT)
    async def reported(params: Any) -> Any:
        return await report.answer(server.daemon, params)

    @server.feature(notifications.INTERPRETERS)
    def chosen(params: Any) -> None:
        word = notifications.interpreters(params)
        if word is not None:
            # Of no workspace folder for what is outside of all.
            server.daemon.set_interpreters({from_proto.path(item.uri) or "": item.path for item in word.active})

    @server.feature(notifications.TRUST)
    def trusted(params: Any) -> None:
        trust.notified(server.daemon, params)

    return server


def serve(reader: BinaryIO, writer: BinaryIO) -> int:
    """Answer one client until it says exit or its stream ends; gives the exit code."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("pygls").setLevel(logging.WARNING)
    server = make_server()
    # Trees and views are many small objects that stay, which need not be visited with every hundred new ones.
    gc.set_threshold(100_000, 50, 1000)
    gc.enable()
    server.protocol.set_writer(StdoutWriter(writer))
    stop = Event()
    # A thread of its own: one that waits for the client's next byte must not keep this process alive.
    readers = ThreadPoolExecutor(1, thread_name_prefix="client")

    async def run() -> None:
        try:
            await run_async(stop, StdinAsyncReader(reader, readers), server.protocol, log, server.report_server_error)
        finally:
            await server.end()

    try:
        with contextlib.suppress(SystemExit, BrokenPipeError, KeyboardInterrupt):
            asyncio.run(run())
    except Exception:
        # The rim of the process: it must end although a thread still waits for the client's next byte.
        log.exception("the server")
    logging.shutdown()
    return 0 if server.protocol._shutdown else 1


def leave(code: int) -> None:
    """End this process although the thread that reads from the client may still be waiting."""
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(code)
