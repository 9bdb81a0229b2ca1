"""A module's syntax tree in pieces that are parsed one by one, so that an edit costs only its own piece."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from profile_neuron.core.discovery import parse
from profile_neuron.errors import SourceError

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator, Mapping, Sequence

# Where a definition at module level may begin, decorators included.
_BEGINNING = re.compile(r"^(?:@|(?:async[ \t]+)?def[ \t]|class[ \t])", re.MULTILINE)
# How many pieces a cut that was none is mended with before the whole text is parsed at once.
_MENDED = 3


class Piece:
    """Some whole statements of a module; lines of its nodes count from its own first line."""

    __slots__ = ("body", "known", "line_count", "text")

    def __init__(self, text: str, body: Sequence[ast.stmt]) -> None:
        self.text = text
        self.line_count = text.count("\n")
        self.body = body
        # What was worked out for one of its nodes; goes when the piece goes.
        self.known: dict[object, object] = {}


def parse_pieces(text: str, known: Mapping[str, Piece]) -> tuple[Piece, ...]:
    """Pieces that make up a text, those with a known text taken from known.

    A cut is right if what stands before it parses by itself, because then neither a string nor a bracket is
    open there, and what follows parses too, because then it is no else of it. Raises SourceError, as parse does.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    # Each is used once: a copied function is another function.
    unused = dict(known)
    pieces = []
    parts = list(_cut(text))
    position = 0
    while position < len(parts):
        for count in range(1, _MENDED + 1):
            part = "".join(parts[position : position + count])
            piece = unused.pop(part, None) or _parse(part)
            if piece is not None:
                pieces.append(piece)
                position += count
                break
        else:
            # An error, or text at the margin that only looks like code. Either way all of it has to be seen.
            return (Piece(text, parse(text).body),)
    return tuple(pieces)


def _parse(text: str) -> Piece | None:
    try:
        return Piece(text, parse(text).body)
    except SourceError:
        return None


def _cut(text: str) -> Iterator[str]:
    start = 0
    decorated = False
    for match in _BEGINNING.finditer(text):
        is_decorator = match.group() == "@"
        if not decorated:
            if match.start() > start:
                yield text[start : match.start()]
            start = match.start()
        # What a decorator is put on belongs to it.
        decorated = is_decorator
    yield text[start:]
