"""A text parsed in pieces is what it is when parsed at once, whatever is edited."""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING

import pytest

from profile_neuron.core.discovery import find, parse
from profile_neuron.core.fingerprint import write
from profile_neuron.core.outline import Outline, outline
from profile_neuron.core.pieces import Piece, parse_pieces
from profile_neuron.errors import SourceError
from tests.unit.constructed import IMPORT, program_texts

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterable


def placed(bodies: Iterable[tuple[Iterable[ast.stmt], int]]) -> list[tuple[object, ...]]:
    """Each statement of a module: where it is, and what it says."""
    found = []
    for body, offset in bodies:
        for node in body:
            parts: list[str] = []
            write(node, parts, set())
            place = (node.lineno + offset, node.col_offset, (node.end_lineno or 0) + offset, node.end_col_offset)
            found.append((*place, *parts))
    return found


def with_offsets(pieces: Iterable[Piece]) -> list[tuple[Iterable[ast.stmt], int]]:
    found = []
    offset = 0
    for piece in pieces:
        found.append((piece.body, offset))
        offset += piece.line_count
    return found


def in_pieces(text: str) -> list[tuple[object, ...]] | int | None:
    """The statements of a text, or the line of its error."""
    try:
        return placed(with_offsets(parse_pieces(text, {})))
    except SourceError as error:
        return error.line


def at_once(text: str) -> list[tuple[object, ...]] | int | None:
    try:
        return placed([(parse(text).body, 0)])
    except SourceError as error:
        return error.line


TEXTS = [
    pytest.param("", id="empty"),
    pytest.param("\n", id="one line end"),
    pytest.param("# nothing", id="comment"),
    pytest.param("x = 1", id="no last line end"),
    pytest.param("def f(): pass", id="one definition without a line end"),
    pytest.param("def f():\n    pass\ndef g():\n    pass", id="two definitions without a last line end"),
    pytest.param("import a\n\n\ndef f():\n    pass\n\n\nx = 1\nclass A:\n    pass\n", id="code between definitions"),
    pytest.param("@a\n@b(\n    1,\n)\n# why\n\n@c\ndef f():\n    pass\n@d\nclass A: pass\n", id="decorators"),
    pytest.param("@a\nasync def f():\n    pass\nasync\tdef g(): pass\n", id="async"),
    pytest.param("async \\\ndef f():\n    pass\n", id="async on a line of its own"),
    pytest.param("def \\\nf():\n    pass\nclass \\\nA: pass\n", id="name on a line of its own"),
    pytest.param('x = """\ndef f():\n"""\ndef g(): pass\n', id="def in a text"),
    pytest.param('x = """\ndef f():\nclass A:\n@b\n"""\ndef g(): pass\n', id="three beginnings in a text"),
    pytest.param(
        'x = """\ndef f():\ndef g():\ndef h():\ndef i():\n"""\ndef j(): pass\n', id="many beginnings in a text"
    ),
    pytest.param('def f():\n    """\ndef g():\n    pass\n    """\ndef h(): pass\n', id="def in a docstring"),
    pytest.param(
        'def f():\n    """\ndef g():\n    """\n    def h(): pass\n    return """\ndef i(): """\n', id="two texts"
    ),
    pytest.param("x = '\\\ndef f(): pass'\n", id="def in a continued text"),
    pytest.param("x = (a\n@b)\ndef f(): pass\n", id="matrix product at the margin"),
    pytest.param("x = (a\n@b\n@c)\n@d\ndef f(): pass\ndef g(): pass\n", id="matrix products and a decorator"),
    pytest.param("x = (lambda:\n0)\ndef f(): pass\n", id="lambda at the margin"),
    pytest.param("if a:\n    pass\nelse:\n    pass\ndef f(): pass\n", id="else"),
    pytest.param(
        "if a:\n    def f(): pass\nelif b:\n    pass\nelse:\n    def f(): pass\nx = 1\n", id="definitions in branches"
    ),
    pytest.param("try:\n    def f(): pass\nexcept E:\n    pass\nfinally:\n    pass\nclass A: pass\n", id="try"),
    pytest.param("for a in b:\n    pass\ndef f(): pass\nelse:\n    pass\n", id="else that is an error"),
    pytest.param("if a:\n    pass\ndef f():\n    pass\nelif b:\n    pass\n", id="elif that is an error"),
    pytest.param("def f():\n    pass\n\\\ndef g(): pass\n", id="continued empty line"),
    pytest.param("x = 1 \\\n+ 2\ndef f(): pass\n", id="continued line"),
    pytest.param("x = 1 \\\ndef f(): pass\n", id="continuation into a definition"),
    pytest.param("x = [\ndef f(): pass\n]\n", id="definition in a bracket"),
    pytest.param("class A:\n    pass\n  # odd\ndef f(): pass\n    # odder\n", id="comments at odd columns"),
    pytest.param("def f():\n\tpass\ndef g():\n        pass\n", id="tabs and spaces"),
    pytest.param("def f():\r\n    pass\r\ndef g():\r\n    pass\r\n", id="CRLF"),
    pytest.param("def f():\r    pass\rdef g():\r    pass\r", id="lone CR"),
    pytest.param("def f():\r\n    pass\n\rdef g():\r    'a\r\nb'\n", id="mixed line ends"),
    pytest.param("x = '''\r\ndef f():\r'''\r\ndef g(): pass", id="line ends in a text"),
    pytest.param("x = 1\n\f\ndef f(): pass\n\fdef g(): pass\n\f@a\ndef h(): pass\n", id="form feeds"),
    pytest.param("x = '\x0b\x1c\x85\u2028'\ndef f(): pass\n", id="what only splitlines splits at"),
    pytest.param("\ufeffdef f(): pass\ndef g(): pass\n", id="byte order mark"),
    pytest.param("\ufeff\ufeffdef f(): pass\ndef g(): pass\n", id="two byte order marks"),
    pytest.param("\ufeff", id="nothing but a mark"),
    pytest.param("def f(): pass\n\ufeffdef g(): pass\n", id="mark in the middle"),
    pytest.param("# coding: latin-1\nx = 'é'\ndef f(): pass\n", id="encoding line"),
    pytest.param("x = 1\n    y = 2\ndef f(): pass\n", id="indentation"),
    pytest.param("  x = 1\ndef f(): pass\n", id="indented first line"),
    pytest.param("def f(): pass\ndef g(:\n    pass\ndef h(): pass\n", id="error in the middle"),
    pytest.param("def f():\ndef g(): pass\n", id="no body"),
    pytest.param("def f(): pass\n@a\n", id="decorator without a definition"),
    pytest.param("def f(): pass\n@a\nx = 1\ndef g(): pass\n", id="decorator of a statement"),
    pytest.param("def f(): pass\nx = '''\ndef g(): pass\n", id="text without an end"),
    pytest.param("def f(): pass\nx = 1\0\n", id="null character"),
    pytest.param("def f(): pass\nx = " + "(" * 300 + ")" * 300 + "\ndef g(): pass\n", id="too many brackets"),
    pytest.param("def f(): return 1 if 1 else 2\ndefault = 1\nclasses = 2\n", id="names that begin alike"),
    pytest.param("def f(): pass\n" * 3, id="the same definition three times"),
    pytest.param("def f():\n    x = f'''\ndef {a}\n'''\ndef g(): pass\n", id="def in an f-string"),
    pytest.param("def f(): '\\\n'\nx = '\\\n\\\ndef'\ndef g(): pass\n", id="continuations in texts"),
]


@pytest.mark.parametrize("text", TEXTS)
def test_pieces_hold_what_the_whole_holds(text: str) -> None:
    assert in_pieces(text) == at_once(text)


@pytest.mark.parametrize("text", TEXTS)
def test_the_texts_of_pieces_are_the_whole_text(text: str) -> None:
    try:
        pieces = parse_pieces(text, {})
    except SourceError:
        return
    assert "".join(piece.text for piece in pieces).removeprefix("\ufeff") == re.sub(
        "\r\n?", "\n", text.removeprefix("\ufeff")
    )


def test_an_edit_costs_its_own_piece_only() -> None:
    text = "import a\n\n\ndef f():\n    return 1\n\n\n@b\ndef g():\n    return 2\n\n\ndef h():\n    return 3\n"
    before = parse_pieces(text, {})
    after = parse_pieces(text.replace("2", "22"), {piece.text: piece for piece in before})
    assert [one is other for one, other in zip(before, after, strict=True)] == [True, True, False, True]


def test_what_is_known_of_a_text_is_not_parsed_again_after_lines_were_inserted_before_it() -> None:
    text = "import a\ndef f():\n    return 1\ndef g():\n    return 2\n"
    before = parse_pieces(text, {})
    after = parse_pieces(f"import b\n\n{text}", {piece.text: piece for piece in before})
    assert [piece in before for piece in after] == [False, True, True]


PROGRAMS = program_texts(every=15, most_bytes=40_000)


def test_pieces_of_programs_hold_what_the_programs_hold() -> None:
    count = 0
    for name, text in PROGRAMS:
        assert in_pieces(text) == at_once(text), name
        count += 1
    assert count > 150


def test_functions_of_programs_are_found_at_the_same_places_in_pieces() -> None:
    for name, text in PROGRAMS[::3]:
        try:
            whole = find([(parse(text).body, 0)], ("profile_neuron",), "")
        except SourceError:
            continue
        pieces = find(with_offsets(parse_pieces(text, {})), ("profile_neuron",), "")
        assert [(item.qualname, item.node.lineno + item.offset, item.parent, item.in_class) for item in pieces] == [
            (item.qualname, item.node.lineno, item.parent, item.in_class) for item in whole
        ], name


def all_of(found: Outline) -> list[object]:
    """All that an outline says."""
    said: list[object] = [found.digest, found.module_code, found.lines]
    for function in found.functions:
        statements = tuple(
            (item.line + function.offset, item.header_end + function.offset, item.digest, item.depth, item.block)
            for item in function.statements
        )
        said.append((function.spec, function.occurrence, function.tree, function.body, function.interface))
        said.append((function.mentions, function.parameters, statements, found.dependencies(function)))
    return said


def outlined(text: str, before: Outline | None = None) -> tuple[Outline | None, list[object] | int | None]:
    try:
        found = outline(text, before=before)
    except SourceError as error:
        return None, error.line
    return found, all_of(found)


def edited(lines: list[str], choose: random.Random, foreign: list[str]) -> list[str]:
    """Lines with some taken out, doubled, moved, or put in from elsewhere."""
    start = choose.randrange(len(lines) + 1)
    stop = min(len(lines), start + choose.choice([0, 0, 1, 1, 2, 5]))
    put_in = {
        "delete": [],
        "double": lines[start:stop] * 2,
        "foreign": [choose.choice(foreign) for _ in range(choose.choice([1, 1, 2]))],
        "move": lines[:2],
    }[choose.choice(["delete", "double", "foreign", "foreign", "move"])]
    return [*lines[:start], *put_in, *lines[stop:]]


FOREIGN = [
    "def inserted(x):",
    "    return x",
    "    x = inserted(x)",
    "@profile_neuron",
    "class Inserted:",
    "    def __call__(self): return f",
    '"""',
    "'''",
    "",
    "# def g():",
    "else:",
    "    pass",
    "import inserted",
    "x = (",
    ")",
    "@a",
    "\\",
    "if __name__ == '__main__':",
]


def marked(text: str) -> str:
    """A program of whose functions every second is decorated."""
    count = 0

    def mark(match: re.Match[str]) -> str:
        nonlocal count
        count += 1
        return f"{match[1]}@profile_neuron\n{match[0]}" if count % 2 else match[0]

    return IMPORT + re.sub(r"^([ \t]*)(?:async )?def ", mark, text, flags=re.MULTILINE)


@pytest.mark.parametrize("seed", range(6))
def test_an_outline_of_an_edited_text_is_the_one_that_is_made_afresh(seed: int) -> None:
    choose = random.Random(seed)
    texts = [text for _, text in PROGRAMS if 500 < len(text) < 9000]
    parsed = 0
    for text in choose.sample(texts, 12):
        lines = marked(text.replace("\r\n", "\n")).split("\n")
        before, _ = outlined("\n".join(lines))
        foreign = FOREIGN + choose.sample(lines, min(len(lines), 10))
        for _ in range(6):
            new = edited(lines, choose, foreign)
            text = "\n".join(new)
            _, afresh = outlined(text)
            found, again = outlined(text, before)
            assert again == afresh, text
            if found is not None:
                parsed += 1
                # An editor's text is broken now and then, and goes on from the last one that parsed.
                before, lines = found, new
    assert parsed > 10


def test_an_outline_of_a_function_that_was_doubled_is_the_one_that_is_made_afresh() -> None:
    once = f"{IMPORT}@profile_neuron\ndef f(x):\n    return f(x - 1)\n"
    twice = once + once.removeprefix(IMPORT)
    before = outline(once)
    assert all_of(outline(twice, before=before)) == all_of(outline(twice))
