"""An editor's end of the protocol: a server process, raw messages in an order the test controls, and documents."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote, urlsplit

TIMEOUT_S = 20.0
# An answer that says: not yet; the test gives it later with Client.answer.
LATER: Any = object()
EVERYTHING = {"start": {"line": 0, "character": 0}, "end": {"line": 2**31 - 1, "character": 0}}
SERVER = (sys.executable, "-m", "profile_neuron", "serve")

CAPABILITIES: dict[str, Any] = {
    "workspace": {
        "configuration": True,
        "workspaceFolders": True,
        "applyEdit": True,
        "didChangeConfiguration": {"dynamicRegistration": True},
        "didChangeWatchedFiles": {"dynamicRegistration": True},
        "inlayHint": {"refreshSupport": True},
        "codeLens": {"refreshSupport": True},
        "diagnostics": {"refreshSupport": True},
    },
    "window": {"workDoneProgress": True, "showDocument": {"support": True}, "showMessage": {}},
    "textDocument": {
        "synchronization": {"willSave": True, "didSave": True},
        "hover": {"contentFormat": ["markdown", "plaintext"]},
        "codeLens": {},
        "inlayHint": {"resolveSupport": {"properties": ["tooltip", "label.tooltip", "label.command"]}},
        "publishDiagnostics": {"relatedInformation": True, "versionSupport": True},
    },
}

# The whole of profileNeuron, or per root, or per scopeUri.
Settings = Mapping[str, Any] | Mapping[Path, Mapping[str, Any]] | Callable[[str | None], Mapping[str, Any]]
# Line and column, from 0, in the negotiated encoding.
Position = tuple[int, int]
Target = str | Path


class LspError(Exception):
    """The server answered a request with an error."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.data = data


class TimedOut(AssertionError):
    """What a test waits for did not come."""


class ServerEnded(AssertionError):
    """The server ended, or left the protocol, while a test waited for something."""


@dataclass(frozen=True, slots=True)
class Received:
    """A notification, or a request of the server."""

    method: str
    params: Any
    # None for a notification.
    id: int | str | None
    # When it arrived, by the monotonic clock.
    at_s: float


@dataclass(frozen=True, slots=True)
class Response:
    """The server's answer to one request."""

    result: Any
    error: LspError | None
    at_s: float

    def value(self) -> Any:
        """The result. Raises the LspError where there is none."""
        if self.error is not None:
            raise self.error
        return self.result


@dataclass(slots=True)
class Buffer:
    """An open document as the editor has it."""

    text: str
    version: int


class Client:
    """One server and the conversation with it; a context manager that ends the server."""

    def __init__(self, process: subprocess.Popen[bytes], roots: list[Path], settings: Settings) -> None:
        self.process = process
        self.roots = roots
        self.settings = settings
        # Notifications and requests of the server, in the order of their arrival.
        self.received: list[Received] = []
        self.buffers: dict[str, Buffer] = {}
        self.capabilities: dict[str, Any] = {}
        self.position_encoding = "utf-16"
        # What was no correct message of the protocol.
        self.faults: list[str] = []
        self.answers: dict[str, Callable[[Any], Any]] = {
            "workspace/configuration": self._configuration,
            "workspace/workspaceFolders": lambda params: self._folders(),
            "workspace/applyEdit": lambda params: {"applied": True},
            "window/showDocument": lambda params: {"success": True},
            **dict.fromkeys(_ANSWERED_WITH_NULL, lambda params: None),
        }
        self._responses: dict[int, Response] = {}
        self._asked: dict[int, str] = {}
        self._changed = threading.Condition()
        self._closed = False
        self._stderr: list[str] = []
        self._outgoing: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._threads = [
            threading.Thread(target=self._write, args=[process.stdin], name="server's stdin"),
            threading.Thread(target=self._read, args=[process.stdout], name="server's stdout"),
            threading.Thread(target=self._read_stderr, args=[process.stderr], name="server's stderr"),
        ]
        for thread in self._threads:
            thread.start()

    @classmethod
    def start(
        cls,
        roots: list[Path],
        *,
        settings: Settings | None = None,
        capabilities: dict[str, Any] | None = None,
        initialization_options: dict[str, Any] | None = None,
        position_encodings: list[str] | None = None,
        answers: Mapping[str, Callable[[Any], Any]] | None = None,
        env: Mapping[str, str] | None = None,
        command: list[str] | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> Client:
        """Start a server in its first root and initialize it.

        capabilities default to all that we know, initialization_options to a trusted workspace; params replace
        what the initialize request says. answers: per method what to say to the server's requests, from their
        params; it may raise LspError, or give LATER and be given later.
        """
        process = subprocess.Popen(
            command or list(SERVER),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=roots[0] if roots else None,
            env={**os.environ, **(env or {})},
            start_new_session=True,
        )
        client = cls(process, roots, settings or {})
        client.answers.update(answers or {})
        offered = dict(CAPABILITIES if capabilities is None else capabilities)
        if position_encodings is not None:
            offered["general"] = {"positionEncodings": position_encodings}
        asked: dict[str, Any] = {
            "processId": os.getpid(),
            "clientInfo": {"name": "test"},
            "rootUri": roots[0].as_uri() if roots else None,
            "workspaceFolders": client._folders(),
            "capabilities": offered,
            "initializationOptions": {"trusted": True} if initialization_options is None else initialization_options,
            **(params or {}),
        }
        try:
            client.capabilities = client.request("initialize", asked)["capabilities"]
            client.position_encoding = client.capabilities.get("positionEncoding") or "utf-16"
            client.notify("initialized", {})
        except BaseException:
            client.kill()
            raise
        return client

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    @property
    def stderr(self) -> str:
        """All that the server has written to its log."""
        return "".join(self._stderr)

    # Sending.

    def request(self, method: str, params: Any = None, timeout_s: float = TIMEOUT_S) -> Any:
        """Ask and wait for the result. Raises LspError."""
        return self.wait_response(self.send_request(method, params), timeout_s)

    def send_request(self, method: str, params: Any = None) -> int:
        """Ask without waiting; gives the id for wait_response."""
        with self._changed:
            number = len(self._asked) + 1
            self._asked[number] = method
        self._send({"id": number, **call(method, params)})
        return number

    def wait_response(self, number: int, timeout_s: float = TIMEOUT_S) -> Any:
        """The result of a request that was sent. Raises LspError."""
        return self.response(number, timeout_s).value()

    def response(self, number: int, timeout_s: float = TIMEOUT_S) -> Response:
        """The answer to a request that was sent, be it an error."""
        found: Response = self._wait(
            lambda: self._responses.get(number), f"the answer {number} to {self._asked[number]}", timeout_s
        )
        return found

    def notify(self, method: str, params: Any = None) -> None:
        """Send a notification; those about documents change the buffers too."""
        self._follow(method, params)
        self._send(call(method, params))

    def answer(self, request: Received, result: Any = None, error: LspError | None = None) -> None:
        """Answer a request of the server that was left for LATER."""
        self._send_answer(request.id, result, error)

    def configure(self, settings: Settings) -> None:
        """Change the settings and tell the server to ask for them again."""
        self.settings = settings
        self.notify("workspace/didChangeConfiguration", {"settings": None})

    # Receiving.

    def mark(self) -> int:
        """The present end of what was received, to be given as after."""
        with self._changed:
            return len(self.received)

    def all(self, method: str, after: int = 0) -> list[Received]:
        """What was received of one method."""
        with self._changed:
            return [message for message in self.received[after:] if message.method == method]

    def count(self, method: str, after: int = 0) -> int:
        """How many messages of one method were received."""
        return len(self.all(method, after))

    def wait_for(
        self,
        method: str,
        predicate: Callable[[Any], bool] = lambda params: True,
        after: int = 0,
        timeout_s: float = TIMEOUT_S,
    ) -> Any:
        """Params of the first message of a method that fits, which may have come already."""

        def find() -> Received | None:
            return next((message for message in self.all(method, after) if predicate(message.params)), None)

        return self._wait(find, method, timeout_s).params

    def barrier(self) -> None:
        """Wait until the server has taken up all that was sent before."""
        with contextlib.suppress(LspError):
            self.hover("untitled:barrier", 0, 0)

    # Documents.

    def open(self, target: Target, text: str | None = None, language: str = "python") -> Document:
        """Open a document: a file as it is on disk, or with another text, which a new file gets first."""
        document = Document(self, self.uri(target))
        path = document.path
        if path is not None and text is not None and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())
        if text is None:
            assert path is not None, f"{document.uri} needs a text"
            text = path.read_bytes().decode()
        document.open(text, language)
        return document

    def hints(self, target: Target, span: tuple[Position, Position] | None = None) -> list[dict[str, Any]]:
        """Raw inlay hints of a range, by default of everything."""
        asked = EVERYTHING if span is None else lsp_range(*span)
        params = {"textDocument": {"uri": self.uri(target)}, "range": asked}
        return self.request("textDocument/inlayHint", params) or []

    def lenses(self, target: Target) -> list[dict[str, Any]]:
        """Raw code lenses."""
        return self.request("textDocument/codeLens", {"textDocument": {"uri": self.uri(target)}}) or []

    def hover(self, target: Target, line: int, character: int) -> dict[str, Any] | None:
        """The raw hover at a position."""
        position = {"line": line, "character": character}
        found: dict[str, Any] | None = self.request(
            "textDocument/hover", {"textDocument": {"uri": self.uri(target)}, "position": position}
        )
        return found

    def uri(self, target: Target) -> str:
        """A path as a URI; a URI as it is."""
        return target.as_uri() if isinstance(target, Path) else target

    # Ending.

    def shutdown(self, timeout_s: float = TIMEOUT_S) -> None:
        """Ask the server to get ready for its end."""
        self.request("shutdown", timeout_s=timeout_s)

    def exit(self, timeout_s: float = TIMEOUT_S) -> int:
        """Tell the server to end; gives its exit code."""
        self.notify("exit")
        return self.wait_exit(timeout_s)

    def wait_exit(self, timeout_s: float = TIMEOUT_S) -> int:
        """The exit code of a server that ends by itself."""
        try:
            code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise TimedOut(f"the server did not end within {timeout_s:g} s{self._situation()}") from None
        self._join()
        return code

    def close_input(self) -> None:
        """Close the server's input after all that was sent, as an editor that crashes does."""
        self._outgoing.put(None)

    def kill(self) -> None:
        """End the server's process group at once, as an out-of-memory killer does."""
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self._join()

    def stop(self) -> None:
        """End the server if it still runs: politely, and otherwise by force with a TimedOut."""
        try:
            if self.process.poll() is None and not self._closed:
                with contextlib.suppress(LspError):
                    self.shutdown()
                self.exit()
        finally:
            self.kill()

    def _join(self) -> None:
        self._outgoing.put(None)
        for thread in self._threads:
            thread.join(TIMEOUT_S)
            # Something that the server started holds the pipe.
            assert not thread.is_alive(), f"the {thread.name} stays open after its end"

    def _wait(self, find: Callable[[], Any], what: str, timeout_s: float) -> Any:
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while not (found := find()):
                rest = deadline - time.monotonic()
                if self._closed:
                    raise ServerEnded(f"the server's messages ended before {what} came{self._situation()}")
                if rest <= 0:
                    raise TimedOut(f"{what} did not come within {timeout_s:g} s{self._situation()}")
                self._changed.wait(rest)
            return found

    def _situation(self) -> str:
        methods = ", ".join(message.method for message in self.received[-20:]) or "nothing"
        return f"\nreceived at last: {methods}\nfaults: {self.faults}\nstderr of the server:\n{self.stderr[-4000:]}"

    def _send(self, message: dict[str, Any]) -> None:
        # A thread of its own writes, so that a server that does not read cannot stop the test or the reader.
        self._outgoing.put(frame({"jsonrpc": "2.0", **message}))

    def _send_answer(self, number: int | str | None, result: Any, error: LspError | None) -> None:
        if error is None:
            self._send({"id": number, "result": result})
        else:
            self._send({"id": number, "error": {"code": error.code, "message": error.message, "data": error.data}})

    def _write(self, stream: IO[bytes]) -> None:
        with contextlib.suppress(BrokenPipeError):
            while (content := self._outgoing.get()) is not None:
                stream.write(content)
                stream.flush()
        with contextlib.suppress(BrokenPipeError):
            stream.close()

    def _read(self, stream: IO[bytes]) -> None:
        with stream:
            try:
                while (message := read_message(stream)) is not None:
                    self._take(message)
            except ValueError as error:
                self.faults.append(f"{error}; what came after it was not read")
            with self._changed:
                self._closed = True
                self._changed.notify_all()
            # After a fault: the server is not to block on a full pipe.
            while stream.read(1 << 16):
                pass

    def _read_stderr(self, stream: IO[bytes]) -> None:
        with stream:
            for line in stream:
                self._stderr.append(line.decode("utf-8", "replace"))

    def _take(self, message: dict[str, Any]) -> None:
        now_s = time.monotonic()
        method, number = message.get("method"), message.get("id")
        with self._changed:
            if method is not None:
                self.received.append(Received(method, message.get("params"), number, now_s))
            elif number not in self._asked or number in self._responses:
                self.faults.append(f"an answer to no request: {message}")
            else:
                error = message.get("error")
                raised = LspError(error["code"], error["message"], error.get("data")) if error else None
                self._responses[number] = Response(message.get("result"), raised, now_s)
            self._changed.notify_all()
        if method is not None and number is not None:
            self._answer(method, message.get("params"), number)

    def _answer(self, method: str, params: Any, number: int | str) -> None:
        try:
            if method not in self.answers:
                raise LspError(-32601, f"the test has no answer to {method}")
            result = self.answers[method](params)
        except LspError as error:
            self._send_answer(number, None, error)
            return
        if result is not LATER:
            self._send_answer(number, result, None)

    def _configuration(self, params: Any) -> list[Any]:
        return [self._section(item.get("section"), item.get("scopeUri")) for item in params["items"]]

    def _section(self, section: str | None, scope: str | None) -> Any:
        """The part of the settings that a section such as profileNeuron.hints names; None where it is not ours."""
        parts = (section or "").split(".")
        if parts[0] != "profileNeuron":
            return None
        found: Any = settings_of(self.settings, scope)
        for part in parts[1:]:
            found = found.get(part) if isinstance(found, Mapping) else None
        return found

    def _folders(self) -> list[dict[str, str]]:
        return [{"uri": root.as_uri(), "name": root.name} for root in self.roots]

    def _follow(self, method: str, params: Any) -> None:
        """Keep the buffers as the notifications make them."""
        if method == "textDocument/didOpen":
            opened = params["textDocument"]
            self.buffers[opened["uri"]] = Buffer(opened["text"], opened["version"])
        elif method == "textDocument/didChange":
            buffer = self.buffers.get(params["textDocument"]["uri"])
            if buffer is None:
                return
            buffer.version = params["textDocument"]["version"]
            for change in params["contentChanges"]:
                buffer.text = applied(buffer.text, change, self.position_encoding)
        elif method == "textDocument/didClose":
            self.buffers.pop(params["textDocument"]["uri"], None)


_ANSWERED_WITH_NULL = (
    "client/registerCapability",
    "client/unregisterCapability",
    "window/showMessageRequest",
    "window/workDoneProgress/create",
    "workspace/codeLens/refresh",
    "workspace/diagnostic/refresh",
    "workspace/inlayHint/refresh",
)


@dataclass(slots=True)
class Document:
    """One document as a person edits it."""

    client: Client
    uri: str
    path: Path | None = field(init=False)

    def __post_init__(self) -> None:
        self.path = path_of(self.uri)

    @property
    def text(self) -> str:
        """What the editor shows."""
        return self.client.buffers[self.uri].text

    @property
    def version(self) -> int:
        """The version that the server was told last."""
        return self.client.buffers[self.uri].version

    def open(self, text: str, language: str = "python") -> None:
        """Tell the server that this is open, with a first version."""
        opened = {"uri": self.uri, "languageId": language, "version": 1, "text": text}
        self.client.notify("textDocument/didOpen", {"textDocument": opened})

    def change(self, span: tuple[Position, Position], text: str) -> None:
        """Replace a range."""
        self._change({"range": lsp_range(*span), "text": text})

    def replace(self, old: str, new: str) -> None:
        """Replace the only place that holds a text, by its range."""
        assert self.text.count(old) == 1, f"{old!r} is not there exactly once"
        start = self.text.index(old)
        encoding = self.client.position_encoding
        span = (position_of(self.text, start, encoding), position_of(self.text, start + len(old), encoding))
        self.change(span, new)

    def replace_all(self, text: str) -> None:
        """Give the document another text, without a range."""
        self._change({"text": text})

    def save(self, reason: int | None = 1) -> None:
        """Write the file as an editor does: willSave if the server wants it, the bytes, didSave.

        reason: 1 by hand, 2 after a delay, 3 when the focus went; None leaves willSave out.
        """
        assert self.path is not None, f"{self.uri} is no file"
        sync = self.client.capabilities.get("textDocumentSync")
        sync = sync if isinstance(sync, dict) else {}
        if reason is not None and sync.get("willSave"):
            self.client.notify("textDocument/willSave", {"textDocument": {"uri": self.uri}, "reason": reason})
        self.path.write_bytes(self.text.encode())
        saved: dict[str, Any] = {"textDocument": {"uri": self.uri}}
        if isinstance(sync.get("save"), dict) and sync["save"].get("includeText"):
            saved["text"] = self.text
        self.client.notify("textDocument/didSave", saved)

    def close(self) -> None:
        """Tell the server that this is no longer open."""
        self.client.notify("textDocument/didClose", {"textDocument": {"uri": self.uri}})

    def _change(self, change: dict[str, Any]) -> None:
        changed = {"uri": self.uri, "version": self.version + 1}
        self.client.notify("textDocument/didChange", {"textDocument": changed, "contentChanges": [change]})


def settings_of(settings: Settings, scope: str | None) -> Mapping[str, Any]:
    """The settings that count for a scopeUri; those of the innermost root where they are given per root."""
    if callable(settings):
        return settings(scope)
    if not any(isinstance(key, Path) for key in settings):
        return settings  # type: ignore[return-value]
    path = path_of(scope or "")
    roots = [root for root in settings if path is not None and path.is_relative_to(root)]
    return settings[max(roots, key=lambda root: len(str(root)))] if roots else {}  # type: ignore[index]


def path_of(uri: str) -> Path | None:
    """The file of a URI; None for one that names no file."""
    parts = urlsplit(uri)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


def lsp_range(start: Position, end: Position) -> dict[str, Any]:
    """A range of the protocol."""
    return {
        "start": {"line": start[0], "character": start[1]},
        "end": {"line": end[0], "character": end[1]},
    }


_LINE_END = re.compile("\r\n|\n|\r")
_UNIT_BYTES = {"utf-8": 1, "utf-16": 2, "utf-32": 4}


def applied(text: str, change: Mapping[str, Any], encoding: str) -> str:
    """The text after one content change."""
    if "range" not in change:
        return str(change["text"])
    start = offset_of(text, change["range"]["start"], encoding)
    end = offset_of(text, change["range"]["end"], encoding)
    return f"{text[:start]}{change['text']}{text[end:]}"


def offset_of(text: str, position: Mapping[str, int], encoding: str) -> int:
    """Index into a text of a position; what lies beyond a line or the text is its end."""
    starts = [0, *(match.end() for match in _LINE_END.finditer(text))]
    if position["line"] >= len(starts):
        return len(text)
    index = starts[position["line"]]
    ends = _LINE_END.search(text, index)
    end = ends.start() if ends is not None else len(text)
    units = 0
    while index < end and units < position["character"]:
        units += units_of(text[index], encoding)
        index += 1
    return index


def position_of(text: str, offset: int, encoding: str) -> Position:
    """Line and column of an index into a text."""
    before = list(_LINE_END.finditer(text, 0, offset))
    start = before[-1].end() if before else 0
    return len(before), units_of(text[start:offset], encoding)


def units_of(text: str, encoding: str) -> int:
    """Length of a text in the units of a position encoding."""
    name = encoding if encoding == "utf-8" else f"{encoding}-le"
    return len(text.encode(name, "surrogatepass")) // _UNIT_BYTES[encoding]


def call(method: str, params: Any) -> dict[str, Any]:
    """Method and params of a message; null params are left out, as the protocol has it."""
    return {"method": method} if params is None else {"method": method, "params": params}


def frame(message: Mapping[str, Any]) -> bytes:
    """A message with its header."""
    body = json.dumps(message, ensure_ascii=False).encode("utf-8", "surrogatepass")
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def read_message(stream: IO[bytes]) -> dict[str, Any] | None:
    """The next message; None at the end. Raises ValueError for what is no message."""
    size = -1
    while (line := stream.readline()) != b"\r\n":
        if not line:
            return None
        name, colon, value = line.partition(b":")
        if not colon or name.lower() not in (b"content-length", b"content-type"):
            raise ValueError(f"not a header: {line!r}")
        if name.lower() == b"content-length":
            size = int(value)
    if size < 0:
        raise ValueError("a header without a length")
    message = json.loads(stream.read(size))
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        raise ValueError(f"not a message: {message!r:.200}")
    return message
