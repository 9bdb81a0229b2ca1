"""Edits of a text that mark a function with the decorator, and that import it."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from profile_neuron.core.discovery import DECORATOR, DEFAULT_MODULES, Function
from profile_neuron.core.statements import first_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from profile_neuron.core.discovery import Found
    from profile_neuron.core.outline import Outline

# The modules that an installed package of ours exports the decorator from.
_OWN_MODULES = (*DEFAULT_MODULES, *(f"{name}.decorator" for name in DEFAULT_MODULES))
# Between what stands at the margin, where one of the two is or holds a definition.
_BLANKS = 2


@dataclass(frozen=True, slots=True)
class LineEdit:
    """Whole lines that take the place of others."""

    # Where they begin.
    line: int
    # How many lines go; with none the new ones come before the line.
    count: int
    lines: tuple[str, ...]


def mark_function(found: Outline, function: Found, module: str, with_fallback: bool) -> tuple[LineEdit, ...]:
    """Mark a function, and import the decorator from a module where the text does not have it; from below to above.

    The decorator becomes the innermost one: there it always gets the function itself, and what the others make of
    that is what is called. with_fallback: the import must not fail where the package is not installed.
    """
    def_line = function.node.lineno + function.offset
    spelling = found.spelling_at(def_line)
    mark = LineEdit(def_line, 0, (f"{_indent(found.lines[def_line - 1])}@{spelling or DECORATOR}",))
    if spelling:
        return (mark,)
    statement = (f"from {module} import {DECORATOR}",)
    has_fallback = with_fallback and module in _OWN_MODULES
    return mark, _import(found, _with_fallback(statement, DECORATOR, _unit(found.lines)) if has_fallback else statement)


def import_with_fallback(found: Outline) -> LineEdit | None:
    """Let the import of the decorator at module level do without the package; None where none can be changed.

    Changed is a statement that imports nothing else, has its lines for itself and stands in no other one.
    """
    statement = next(((node, offset) for node, offset in found.body if _is_import_of_ours(node, offset, found)), None)
    if statement is None:
        return None
    (node, offset), lines = statement, found.lines
    first, last = node.lineno + offset, (node.end_lineno or node.lineno) + offset
    alias = node.names[0] if isinstance(node, ast.ImportFrom) else ast.alias(DECORATOR)
    text = _with_fallback(lines[first - 1 : last], alias.asname or alias.name, _unit(lines))
    # A comment above is about the import.
    is_close = first > 1 and lines[first - 2].strip() and not lines[first - 2].startswith("#")
    return LineEdit(first, last - first + 1, (*[""] * bool(is_close), *text, *_blanks_behind(lines, last, _BLANKS)))


def _is_import_of_ours(node: ast.stmt, offset: int, found: Outline) -> bool:
    if not isinstance(node, ast.ImportFrom) or node.level or node.module not in _OWN_MODULES:
        return False
    last = (node.end_lineno or node.lineno) + offset
    rest = found.lines[last - 1].encode("utf-8", "surrogatepass")[node.end_col_offset or 0 :].strip()
    is_alone = node.col_offset == 0 and (not rest or rest.startswith(b"#"))
    return is_alone and [alias.name for alias in node.names] == [DECORATOR]


def _with_fallback(statement: Sequence[str], name: str, unit: str) -> tuple[str, ...]:
    """An import of the decorator under a name, and what stands in for it, bare and with options."""
    return (
        "try:",
        *(f"{unit}{line}" for line in statement),
        "except ImportError:",
        "",
        f"{unit}def {name}(function=None, **options):",
        f"{unit}{unit}return (lambda marked: marked) if function is None else function",
    )


def _import(found: Outline, statement: tuple[str, ...]) -> LineEdit:
    """Put an import behind the ones that a module begins with, else behind its docstring, else before its code."""
    lines, body = found.lines, found.body
    is_block = len(statement) > 1
    count = _count_of_beginning(body)
    if not count:
        node, offset = body[0]
        place = _above_comments(lines, first_line(node) + offset)
        return LineEdit(place, 0, (*statement, *[""] * (_BLANKS if is_block or _is_definition(node) else 1)))
    last_node, offset = body[count - 1]
    last = (last_node.end_lineno or last_node.lineno) + offset
    is_below_imports = isinstance(last_node, (ast.Import, ast.ImportFrom)) and not _is_of_future(last_node)
    wanted = 0 if is_below_imports else 1
    if is_block or (not is_below_imports and count < len(body) and _is_definition(body[count][0])):
        wanted = _BLANKS
    above = [] if is_below_imports and not is_block else [""]
    return LineEdit(last + 1, 0, (*above, *statement, *_blanks_behind(lines, last, wanted)))


def _count_of_beginning(body: Sequence[tuple[ast.stmt, int]]) -> int:
    """How many statements the docstring and the imports behind it are, with what shares a line with the last."""
    count = 0
    for index, (node, _) in enumerate(body):
        is_docstring = index == 0 and _is_text(node)
        if not is_docstring and not isinstance(node, (ast.Import, ast.ImportFrom)):
            break
        count = index + 1
    while 0 < count < len(body) and _first(body[count]) <= _last(body[count - 1]):
        count += 1
    return count


def _first(statement: tuple[ast.stmt, int]) -> int:
    return statement[0].lineno + statement[1]


def _last(statement: tuple[ast.stmt, int]) -> int:
    return (statement[0].end_lineno or statement[0].lineno) + statement[1]


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _is_of_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _is_definition(node: ast.stmt) -> bool:
    return isinstance(node, (Function, ast.ClassDef))


def _above_comments(lines: Sequence[str], line: int) -> int:
    """The line above the comments right before a line, unless they are the head of the file."""
    place = line
    while place > 1 and lines[place - 2].startswith("#"):
        place -= 1
    return line if place == 1 else place


def _blanks_behind(lines: Sequence[str], line: int, wanted: int) -> list[str]:
    """The blank lines that are missing between a line and the code behind it; none at the end of a text."""
    count = 0
    while line + count < len(lines) and not lines[line + count].strip():
        count += 1
    return [""] * max(0, wanted - count) if line + count < len(lines) else []


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _unit(lines: Sequence[str]) -> str:
    """What the text indents by."""
    return "\t" if any(line.startswith("\t") for line in lines) else "    "
