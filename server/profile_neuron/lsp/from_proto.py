"""The protocol's types to ours: URIs to paths, positions to lines and offsets."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from lsprotocol import types

if TYPE_CHECKING:
    from collections.abc import Sequence

_DRIVE = re.compile(r"/[A-Za-z]:")
_LINE_END = re.compile("\r\n|\n|\r")
# A code unit of the encoding in bytes, and the encoding's name for Python.
_UNITS: dict[str, tuple[int, str]] = {"utf-8": (1, "utf-8"), "utf-16": (2, "utf-16-le"), "utf-32": (4, "utf-32-le")}


def path(uri: str) -> str | None:
    """The path that a file URI names, in one spelling of all; None for any other scheme."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    if parts.scheme.lower() != "file":
        return None
    # Bytes of a name that are no text stay what they are.
    named = unquote(parts.path, errors="surrogateescape")
    if _DRIVE.match(named):
        named = named[1].lower() + named[2:]
        return os.path.normpath(named) if os.name == "nt" else re.sub(r"/+", "/", named)
    if parts.netloc and parts.netloc.lower() != "localhost":
        named = f"//{unquote(parts.netloc)}{named}"
    return os.path.normpath(named) if named else None


def line(position: types.Position) -> int:
    """The number of a line, from 1."""
    return position.line + 1


def edited(text: str, changes: Sequence[types.TextDocumentContentChangeEvent], encoding: str) -> str:
    """A text after the changes of one notification, each of which counts in what the ones before it left."""
    starts: list[int] = []
    for change in changes:
        if isinstance(change, types.TextDocumentContentChangeWholeDocument):
            text, starts = change.text, []
            continue
        if len(starts) <= change.range.end.line:
            # Editors send many changes from the last one backwards, so that the lines before stay where they are.
            starts = [0, *(match.end() for match in _LINE_END.finditer(text))]
        start = _offset(text, starts, change.range.start, encoding)
        end = _offset(text, starts, change.range.end, encoding)
        text = text[:start] + change.text + text[max(start, end) :]
        # What is put at the beginning of a line may become one line end with that of the line before.
        line = change.range.start.line
        del starts[line + (line < len(starts) and start > starts[line]) :]
    return text


def _offset(text: str, starts: Sequence[int], position: types.Position, encoding: str) -> int:
    """Where a position is in a text; one behind the end of a line is at its end, as editors have it."""
    if position.line >= len(starts):
        return len(text)
    start = starts[position.line]
    match = _LINE_END.search(text, start)
    end = match.start() if match is not None else len(text)
    return start + _column(text[start:end], position.character, encoding)


def _column(text: str, character: int, encoding: str) -> int:
    if text.isascii():
        return min(character, len(text))
    size, name = _UNITS[encoding]
    before = text.encode(name, "surrogatepass")[: character * size]
    # A position inside of a character is taken to be before it.
    return len(before.decode(name, "surrogatepass" if size > 1 else "ignore")) if size != 2 else _utf16(before)


def _utf16(before: bytes) -> int:
    text = before.decode("utf-16-le", "surrogatepass")
    return len(text) - ("\ud800" <= text[-1:] <= "\udbff")


def folders(params: types.InitializeParams) -> list[str]:
    """The workspace folders that a client begins with, as paths."""
    uris = [folder.uri for folder in params.workspace_folders or ()]
    if not uris and params.root_uri:
        uris = [params.root_uri]
    found = paths(uris)
    return found or ([os.path.normpath(params.root_path)] if params.root_path else [])


def paths(uris: Sequence[str]) -> list[str]:
    """Paths of those URIs that name files."""
    return [found for uri in uris if (found := path(uri)) is not None]
