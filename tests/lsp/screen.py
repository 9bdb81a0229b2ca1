"""What a person sees of a document in an editor: asked for again whenever the server says that it has changed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, TypeVar

from tests.lsp.client import TIMEOUT_S, TimedOut, offset_of, position_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from tests.lsp.client import Client, Document, Target

T = TypeVar("T")

PREFIX = "profileNeuron.server."


def lenses(client: Client, target: Target) -> list[str]:
    """Titles of the code lenses of a document, in their order."""
    return [lens["command"]["title"] for lens in client.lenses(target)]


def hints(client: Client, target: Target) -> dict[int, str]:
    """Labels of the inlay hints of a document, by line from 1."""
    return {hint["position"]["line"] + 1: hint["label"] for hint in client.hints(target)}


def until(client: Client, look: Callable[[], T], fits: Callable[[T], bool], timeout_s: float = TIMEOUT_S) -> T:
    """The first look that fits; between two looks the server has to say that there is something new."""
    deadline = time.monotonic() + timeout_s
    while True:
        mark = client.mark()
        seen = look()
        if fits(seen):
            return seen
        try:
            client.wait_for("workspace/codeLens/refresh", after=mark, timeout_s=max(0.0, deadline - time.monotonic()))
        except TimedOut as error:
            raise TimedOut(f"what is shown stays {seen!r}; {error}") from None


def until_lens(client: Client, target: Target, title: str, timeout_s: float = TIMEOUT_S) -> list[str]:
    """All titles as soon as one of them begins with this one."""
    return until(
        client, lambda: lenses(client, target), lambda seen: any(one.startswith(title) for one in seen), timeout_s
    )


def until_hints(client: Client, target: Target, expected: dict[int, str], timeout_s: float = TIMEOUT_S) -> None:
    """Wait for exactly these hints."""
    until(client, lambda: hints(client, target), lambda seen: seen == expected, timeout_s)


def act(client: Client, verb: str, *arguments: object) -> Any:
    """The answer to one of the server's commands."""
    return client.request("workspace/executeCommand", {"command": f"{PREFIX}{verb}", "arguments": list(arguments)})


def click(client: Client, target: Target, title: str) -> Any:
    """Click on the first lens with a title; gives the answer to its command."""
    command = next(lens["command"] for lens in client.lenses(target) if lens["command"]["title"] == title)
    return client.request(
        "workspace/executeCommand", {"command": command["command"], "arguments": command.get("arguments")}
    )


def logged(client: Client, after: int = 0) -> list[str]:
    """What the server wrote to the editor's log."""
    return [message.params["message"] for message in client.all("window/logMessage", after)]


def said(client: Client, after: int = 0) -> list[str]:
    """What the server put in front of the person."""
    return [message.params["message"] for message in client.all("window/showMessage", after)]


def diagnostics(client: Client, target: Target) -> list[dict[str, Any]]:
    """The diagnostics of a document that count now."""
    uri = client.uri(target)
    published = [item.params for item in client.all("textDocument/publishDiagnostics") if item.params["uri"] == uri]
    return published[-1]["diagnostics"] if published else []


def settle(client: Client, folder: Path) -> None:
    """Wait until the server is done with all saves so far, of which some may have had no consequence.

    Saves are taken up in their order, and that of a file which does not parse is told in the log.
    """
    witness = folder / "witness.py"
    document = client.open(witness, "def\n")
    mark = client.mark()
    document.save()
    client.wait_for("window/logMessage", lambda params: "invalid syntax" in params["message"], after=mark)
    document.close()
    client.barrier()


def ready(client: Client) -> Client:
    """The same client when its server knows the settings, which it has to ask for first."""
    client.wait_for("workspace/codeLens/refresh")
    return client


def append(document: Document, text: str) -> None:
    """Add to the end of a document."""
    end = position_of(document.text, len(document.text), document.client.position_encoding)
    document.change((end, end), text)


def picture(text: str, found: Iterable[dict[str, Any]], encoding: str) -> str:
    """A text with a caret below the place of each hint, and its label."""
    lines = text.split("\n")
    below: dict[int, str] = {}
    for hint in found:
        line = hint["position"]["line"]
        assert line not in below, f"line {line + 1} has two hints"
        column = offset_of(lines[line], {"line": 0, "character": hint["position"]["character"]}, encoding)
        label = hint["label"] if isinstance(hint["label"], str) else "".join(part["value"] for part in hint["label"])
        below[line] = f"{' ' * column}^ {label}"
    return "\n".join(
        part for number, line in enumerate(lines) for part in (line, below.get(number)) if part is not None
    )


def edit_of(document: Document, edits: Iterable[dict[str, Any]]) -> str:
    """The text of a document with text edits applied, which must not overlap."""
    text = document.text
    encoding = document.client.position_encoding

    def start_of(edit: dict[str, Any]) -> int:
        return offset_of(document.text, edit["range"]["start"], encoding)

    # Of those at one place the first in the list comes first in the text.
    in_order = sorted(edits, key=start_of)
    for edit in reversed(in_order):
        end = offset_of(document.text, edit["range"]["end"], encoding)
        text = text[: start_of(edit)] + edit["newText"] + text[end:]
    return text
