"""The statements of a function, with the lines that are theirs and digests to find them again by."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from profile_neuron.core.fingerprint import digest, is_idle, write

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

# Fields of a compound statement that hold statements, or what holds statements, of their own.
BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement; of a compound one what stands before its blocks, which hold statements of their own."""

    # Where it begins, which for a definition is def or class and not its decorators.
    line: int
    # The last line of what is its own.
    header_end: int
    # From the first decorator to the end of the last block.
    first_line: int
    last_line: int
    # Of the syntax tree of what is its own.
    digest: str
    # How deep it is nested, and in which block of the statement around it.
    depth: int
    block: str


@dataclass(frozen=True, slots=True)
class Row:
    """Statements that share a line and so a hint: a range of positions in the list of statements."""

    line: int
    start: int
    stop: int

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.start, self.stop))

    def __len__(self) -> int:
        return self.stop - self.start


def statements(body: Iterable[ast.stmt]) -> tuple[Statement, ...]:
    """All statements of a function's body, outer before inner, in source order; bare texts are left out."""
    return tuple(_statements(body, 0, "body"))


def rows(found: Sequence[Statement]) -> tuple[Row, ...]:
    """The statements grouped by the line that a hint for them stands on.

    A statement that begins on the last line of the one before it cannot be told from that one by line.
    """
    grouped: list[Row] = []
    end = 0
    for index, statement in enumerate(found):
        if grouped and statement.line <= end:
            grouped[-1] = Row(grouped[-1].line, grouped[-1].start, index + 1)
        else:
            grouped.append(Row(statement.line, index, index + 1))
        end = max(end, statement.header_end)
    return tuple(grouped)


def by_line(found: Sequence[Statement]) -> dict[int, int]:
    """Position of the innermost statement that each line belongs to."""
    # Inner statements come after the ones around them.
    return {
        line: index
        for index, statement in enumerate(found)
        for line in range(statement.first_line, statement.last_line + 1)
    }


def _statements(body: Iterable[ast.stmt], depth: int, block: str) -> Iterator[Statement]:
    # Without recursion: a long chain of elif is as deep as it is long.
    pending = [(node, depth, block) for node in reversed([*body])]
    while pending:
        node, depth, block = pending.pop()
        if is_idle(node):
            continue
        inner = list(inner_blocks(node))
        last = node.end_lineno or node.lineno
        header_end = last
        starts = [first_line(statement) for _, statements in inner for statement in statements]
        if starts:
            # Never behind the beginning of a block, which may stand on the header's own last line.
            header_end = min(_header_end(node), max(node.lineno, min(starts)))
        parts: list[str] = []
        write(node, parts, set(), BLOCKS)
        for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
            write(part, parts, set(), ("body",))
        yield Statement(node.lineno, header_end, first_line(node), last, digest(parts), depth, block)
        for name, statements in reversed(inner):
            pending += [(statement, depth + 1, name) for statement in reversed(statements)]


def inner_blocks(node: ast.stmt) -> Iterator[tuple[str, list[ast.stmt]]]:
    """The blocks of a compound statement in the order of the source."""
    # The body of a lambda is an expression, but that of a statement is always a list of statements.
    if block := getattr(node, "body", None):
        yield "body", block
    # The rest of a handler or a case counts to the header.
    for number, part in enumerate([*getattr(node, "handlers", ()), *getattr(node, "cases", ())]):
        yield f"part {number}", part.body
    for name in ("orelse", "finalbody"):
        if block := getattr(node, name, None):
            yield name, block


def first_line(node: ast.stmt) -> int:
    """Line of the first decorator, or of the statement itself."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min((item.lineno for item in decorators), default=node.lineno)


def _header_end(node: ast.stmt) -> int:
    """Last line of the header's own expressions; comments and blank lines before the body are not header."""
    ends = [node.lineno]
    for name, value in ast.iter_fields(node):
        if name not in (*BLOCKS, "decorator_list"):
            for item in value if isinstance(value, list) else [value]:
                if isinstance(item, ast.AST):
                    ends += [getattr(part, "end_lineno", None) or 0 for part in ast.walk(item)]
    return max(ends)
