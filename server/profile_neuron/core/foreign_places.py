"""Functions as a trace names them to functions of today's texts."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from profile_neuron.core.discovery import find, parse
from profile_neuron.core.statements import first_line
from profile_neuron.errors import SourceError

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from profile_neuron.core.frames import FunctionName
    from profile_neuron.core.outline import Outline


@dataclass(frozen=True, slots=True)
class Definition:
    """One function of a text, decorated or not."""

    qualname: str
    # Which of several with the same qualified name, from 0.
    occurrence: int
    name: str
    # Of its first decorator, or of def.
    first_line: int


@dataclass(frozen=True, slots=True)
class Place:
    """Where a function of a trace is in the project."""

    path: str
    qualname: str
    occurrence: int


def place_functions(names: Iterable[FunctionName], texts: Mapping[str, str]) -> dict[FunctionName, Place]:
    """The functions that exactly one of the texts has, at the first line and with the name that the trace tells.

    texts: of all files of the project that the names can be of, by path with slashes. One that does not parse may hold
    any function, so what it can be the file of has no place.
    """
    known: dict[str, tuple[Definition, ...] | None] = {path: _definitions_of(text) for path, text in texts.items()}
    found = {}
    for name in names:
        files = [path for path in known if is_file_of(path, name.file)]
        places = [
            Place(path, item.qualname, item.occurrence)
            for path in files
            for item in known[path] or ()
            if (item.name, item.first_line) == (name.name, name.line)
        ]
        if len(places) == 1 and all(known[path] is not None for path in files):
            found[name] = places[0]
    return found


def is_file_of(path: str, file: str) -> bool:
    """Whether a path, with slashes, can be the file that a trace has a shortened name of."""
    return path == file or path.endswith(f"/{file}")


def definitions(outline: Outline) -> tuple[Definition, ...]:
    """All functions of a text that is analysed, in source order."""
    offsets = accumulate((piece.line_count for piece in outline.pieces), initial=0)
    return tuple(_definitions([(piece.body, offset) for piece, offset in zip(outline.pieces, offsets, strict=False)]))


def _definitions_of(text: str) -> tuple[Definition, ...] | None:
    try:
        return tuple(_definitions([(parse(text).body, 0)]))
    except SourceError:
        return None


def _definitions(bodies: Sequence[tuple[Sequence[ast.stmt], int]]) -> Iterator[Definition]:
    counts: Counter[str] = Counter()
    for item in find(bodies, (), ""):
        yield Definition(item.qualname, counts[item.qualname], item.node.name, first_line(item.node) + item.offset)
        counts[item.qualname] += 1
