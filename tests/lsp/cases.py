"""Plays the messages.jsonl of a case: every message in its order, and what the server did after each."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.lsp.client import path_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lsp.client import Client, Received, Response

Message = dict[str, Any]
# A message of the case and what has been played so far, that message included.
Hook = Callable[[Message, "Played"], None]


@dataclass
class Played:
    """A case as it went."""

    client: Client
    # The folder that stands for file:///ws/<case>.
    root: Path
    # The answers, by the ids that the case gives its requests.
    answers: dict[int, Response] = field(default_factory=dict)
    # Where client.received ended when each message of the case was about to be played.
    marks: list[int] = field(default_factory=list)

    def answer(self, number: int) -> Any:
        """The result of one request. Raises LspError."""
        return self.answers[number].value()

    def after(self, number: int) -> list[Received]:
        """What the server sent between a message of the case, numbered from 1, and the next one."""
        end = self.marks[number] if number < len(self.marks) else None
        return self.client.received[self.marks[number - 1] : end]

    def uri(self, name: str) -> str:
        """URI of a file of the case."""
        return (self.root / name).as_uri()


def play(
    case: Path,
    start: Callable[..., Client],
    root: Path,
    *,
    actions: Mapping[str, Hook] | None = None,
    fill: Mapping[str, Callable[[Played], str]] | None = None,
    each: Hook | None = None,
    pipeline: bool = False,
    **options: Any,
) -> Played:
    """Play the messages of a case folder, whose other files are copied to root first.

    start: makes the client from a list of roots and options, as the fixture serve does; a case with an initialize
    of its own gives it the capabilities. actions: what to do for each action of the editor. fill: what stands for
    a text in angle brackets; one that names a file of the case stands for its content. each: called after each
    message. pipeline: send without waiting for answers; otherwise each message is taken up before the next one.
    """
    copy_files(case, root)
    messages = read_messages(case, root)
    if messages[0].get("method") == "initialize":
        options = {"capabilities": messages[0]["params"]["capabilities"], **options}
    played = Played(start([root], **options), root)
    pending: dict[int, int] = {}
    for message in messages:
        message = _filled(message, case, played, fill or {})
        played.marks.append(played.client.mark())
        if message["from"] == "editor":
            assert actions is not None, f"an action for {message['action']!r} is missing"
            actions[message["action"]](message, played)
        elif message["method"] == "initialize":
            # The client has just sent it.
            pass
        elif "id" in message:
            pending[message["id"]] = played.client.send_request(message["method"], message["params"])
            if not pipeline:
                played.answers[message["id"]] = played.client.response(pending.pop(message["id"]))
        else:
            _notify(message, played.client)
            if not pipeline and message["method"] != "exit":
                played.client.barrier()
        if each is not None:
            each(message, played)
    for number, sent in pending.items():
        played.answers[number] = played.client.response(sent)
    return played


def copy_files(case: Path, root: Path) -> None:
    """Copy the sources of a case to the folder that stands for its own."""
    ignored = shutil.ignore_patterns("*.jsonl", "expected.*")
    shutil.copytree(case, root, ignore=ignored, dirs_exist_ok=True)


def read_messages(case: Path, root: Path, name: str = "messages.jsonl") -> list[Message]:
    """The messages of a case, with root in place of file:///ws/<case>."""
    text = (case / name).read_text(encoding="utf-8")
    placed = text.replace(f"file:///ws/{case.name.partition('-')[0].lower()}", root.as_uri())
    return [json.loads(line) for line in placed.split("\n") if line]


def _notify(message: Message, client: Client) -> None:
    """Send a notification; the disk holds what an editor would have written by then."""
    method, params = message["method"], message.get("params") or {}
    if method in ("textDocument/didOpen", "textDocument/didSave"):
        path = path_of(params["textDocument"]["uri"])
        if method == "textDocument/didOpen" and path is not None and not path.exists():
            path.write_bytes(params["textDocument"]["text"].encode())
        buffer = client.buffers.get(params["textDocument"]["uri"])
        if method == "textDocument/didSave" and path is not None and buffer is not None:
            path.write_bytes(buffer.text.encode())
    client.notify(method, message.get("params"))


def _filled(value: Any, case: Path, played: Played, fill: Mapping[str, Callable[[Played], str]]) -> Any:
    """A part of a message with what stands for its texts in angle brackets."""
    if isinstance(value, dict):
        return {key: _filled(item, case, played, fill) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, case, played, fill) for item in value]
    if not (isinstance(value, str) and value.startswith("<") and value.endswith(">")):
        return value
    if value in fill:
        return fill[value](played)
    return (case / value[1:-1]).read_bytes().decode()
