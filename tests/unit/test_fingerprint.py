"""Digests of trees: what they leave out, and that they leave out nothing else."""

from __future__ import annotations

import ast
import copy
import random
import re
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profile_neuron.core.discovery import parse
from profile_neuron.core.fingerprint import digest, is_idle, write
from profile_neuron.errors import SourceError
from tests.unit.constructed import program_texts, reformatted

if TYPE_CHECKING:
    from collections.abc import Iterable


def said(nodes: Iterable[ast.stmt]) -> tuple[str, ...]:
    """What write says of the statements that do something."""
    parts: list[str] = []
    for node in nodes:
        if not is_idle(node):
            write(node, parts, set())
    return tuple(parts)


def fingerprint(text: str) -> str:
    return digest(said(parse(text).body))


class _Plain(ast.NodeTransformer):
    """Takes out of a tree what does not count: bare texts and the kind of a text."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        for name, value in ast.iter_fields(node):
            if isinstance(value, list):
                setattr(node, name, [item for item in value if not is_idle(item)])
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        node.kind = None
        return node


def plain_dump(node: ast.AST) -> str:
    return ast.dump(_Plain().visit(copy.deepcopy(node)))


FUNCTION = "def f(x):\n    y = x + 1\n    return g(y, 'a')\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(FUNCTION, FUNCTION.replace("    y", "    # why\n\n    y"), id="comment and blank line"),
        pytest.param(FUNCTION, FUNCTION.replace("    y", "    'doc'\n    y"), id="docstring"),
        pytest.param(FUNCTION, FUNCTION.replace("    y", "    '''doc\n\n  more'''\n    y"), id="long docstring"),
        pytest.param(FUNCTION, FUNCTION.replace("'a'", '"a"'), id="quotes"),
        pytest.param(FUNCTION, FUNCTION.replace("'a'", '"""a"""'), id="three quotes"),
        pytest.param(FUNCTION, FUNCTION.replace("'a'", "u'a'"), id="u prefix"),
        pytest.param(FUNCTION, FUNCTION.replace("'a'", r"'\x61'"), id="escape of the same letter"),
        pytest.param(FUNCTION, FUNCTION.replace("'a'", "'' 'a'"), id="adjacent texts"),
        pytest.param(FUNCTION, FUNCTION.replace("x + 1", "(x + 1)"), id="parentheses"),
        pytest.param(FUNCTION, FUNCTION.replace("x + 1", "((x) + (1))"), id="more parentheses"),
        pytest.param(FUNCTION, FUNCTION.replace("x + 1", "x \\\n  + 1"), id="continued line"),
        pytest.param(FUNCTION, FUNCTION.replace("(y, 'a')", "(\n y,  # c\n 'a',\n)"), id="line breaks and last comma"),
        pytest.param(FUNCTION, FUNCTION.replace("    ", "\t"), id="tabs"),
        pytest.param(FUNCTION, FUNCTION.replace("\n", "\r\n"), id="CRLF"),
        pytest.param(FUNCTION, FUNCTION.replace("\n", "\r"), id="lone CR"),
        pytest.param(FUNCTION, "\ufeff" + FUNCTION, id="byte order mark"),
        pytest.param(FUNCTION, "\f\n" + FUNCTION, id="form feed"),
        pytest.param(FUNCTION, FUNCTION.rstrip("\n"), id="no last line end"),
        pytest.param(FUNCTION, FUNCTION.replace("\n    return", "; return"), id="two statements on a line"),
        pytest.param("x = 1_000", "x = 1000", id="digits grouped"),
        pytest.param("x = 0xff", "x = 255", id="hexadecimal"),
        pytest.param("x = 1e3", "x = 1000.0", id="exponent"),
        pytest.param("if a: b", "if a:\n    b", id="one-line if"),
        pytest.param("if a:\n    b\nelse:\n    if c:\n        d", "if a:\n    b\nelif c:\n    d", id="elif"),
        pytest.param("x[(1, 2)]", "x[1, 2]", id="tuple as index"),
        pytest.param("for (a, b) in c: pass", "for a, b in c: pass", id="tuple as target"),
        pytest.param("def f():\n    'doc'\n    pass", "def f(): pass", id="docstring before pass"),
        pytest.param("class A:\n    'doc'\n    x = 1\n    'of x'", "class A:\n    x = 1", id="docstring of attribute"),
        pytest.param("a <> b".replace("<>", "!="), "a!=b", id="spaces"),
        pytest.param("x = ﬁ", "x = fi", id="name that the compiler normalises"),
    ],
)
def test_formatting_comments_and_docstrings_leave_a_digest_unchanged(before: str, after: str) -> None:
    assert fingerprint(before) == fingerprint(after)


NEWER = [
    ("def f[T](x): pass", "def f[U](x): pass", "type parameter"),
    ("def f[T](x): pass", "def f(x): pass", "no type parameter"),
    ("def f[T: int](x): pass", "def f[T: str](x): pass", "bound of a type parameter"),
    ("def f[*T](x): pass", "def f[**T](x): pass", "kind of a type parameter"),
    ("type A = int", "type A = str", "type alias"),
    ("class A[T]: pass", "class A[T, U]: pass", "type parameters of a class"),
]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("x = 1", "x = 2", id="number"),
        pytest.param("x = 1", "x = 1.0", id="whole and float"),
        pytest.param("x = 1", "x = True", id="whole and bool"),
        pytest.param("x = 1", "x = '1'", id="whole and text"),
        pytest.param("x = 0x1", "x = '0x1'", id="whole and its text"),
        pytest.param("x = 1.0", "x = 1j", id="float and complex"),
        pytest.param("x = 0.0", "x = -0.0", id="sign of zero"),
        pytest.param("x = None", "x = 'None'", id="None and its text"),
        pytest.param("x = None", "x = ...", id="None and ellipsis"),
        pytest.param("x = Ellipsis", "x = ...", id="ellipsis and its name"),
        pytest.param("x = 'a'", "x = b'a'", id="text and bytes"),
        pytest.param("x = 'a'", "x = a", id="text and name"),
        pytest.param("x = 'a' 'b'", "x = 'a', 'b'", id="adjacent and tuple"),
        pytest.param("x = 'a\\\nb'", "x = 'a\\nb'", id="continued text"),
        pytest.param(r"x = '\ud800'", r"x = '\ud801'", id="surrogates"),
        pytest.param("x = f'{a}'", "x = f'{a!r}'", id="conversion"),
        pytest.param("x = f'{a}'", "x = f'{b}'", id="name in a text"),
        pytest.param("x = f'{a:3}'", "x = f'{a:4}'", id="format"),
        pytest.param("x = f'{a}'", "x = 'a'", id="f-string and text"),
        pytest.param("x = f''", "x = ''", id="empty f-string"),
        pytest.param("f''", "''", id="bare f-string and bare text"),
        pytest.param("x = (yield)", "x = (yield None)", id="yield None"),
        pytest.param("x = a, b", "x = [a, b]", id="tuple and list"),
        pytest.param("x = {a: b}", "x = {a, b}", id="dict and set"),
        pytest.param("x = {**a}", "x = {None: a}", id="unpacked dict"),
        pytest.param("f(*a)", "f(a)", id="star"),
        pytest.param("f(**a)", "f(a=a)", id="double star"),
        pytest.param("f(a=1, b=2)", "f(b=2, a=1)", id="order of keywords"),
        pytest.param("a + b + c", "a + (b + c)", id="grouping"),
        pytest.param("a < b < c", "(a < b) < c", id="chain"),
        pytest.param("a and b and c", "(a and b) and c", id="grouping of and"),
        pytest.param("not a in b", "a not in b", id="not in"),
        pytest.param("x = lambda: 0", "x = lambda a: 0", id="parameter of a lambda"),
        pytest.param("(x := 1)", "x = 1", id="walrus"),
        pytest.param("x: int", "x: int = 1", id="annotation only"),
        pytest.param("x: int = 1", "(x): int = 1", id="annotated in parentheses, which is not stored"),
        pytest.param("x += 1", "x -= 1", id="operator"),
        pytest.param("x[1:2]", "x[1:2:3]", id="step"),
        pytest.param("del a, b", "del (a, b)", id="deleting a tuple"),
        pytest.param("import a", "import a as a", id="import as"),
        pytest.param("import a.b", "import a as b", id="dotted import"),
        pytest.param("from . import a", "from .. import a", id="level"),
        pytest.param("from . import a", "from a import a", id="relative"),
        pytest.param("global a", "nonlocal a", id="global"),
        pytest.param("raise a", "raise a from None", id="cause"),
        pytest.param("assert a", "assert a, b", id="message"),
        pytest.param("def f(a, /, b): pass", "def f(a, b): pass", id="positional only"),
        pytest.param("def f(a, *, b): pass", "def f(a, b): pass", id="keyword only"),
        pytest.param("def f(a, *, b=1): pass", "def f(a, *, b): pass", id="default of keyword only"),
        pytest.param("def f(a, *, b=1, c): pass", "def f(a, *, b, c=1): pass", id="which has a default"),
        pytest.param("def f(*a): pass", "def f(**a): pass", id="star parameter"),
        pytest.param("def f(a, b=1): pass", "def f(a=1, b=1): pass", id="another default"),
        pytest.param("def f(): pass", "async def f(): pass", id="async"),
        pytest.param("def f() -> a: pass", "def f(): pass", id="returns"),
        pytest.param("@a\ndef f(): pass", "def f(): pass", id="decorator"),
        pytest.param("@a\n@b\ndef f(): pass", "@b\n@a\ndef f(): pass", id="order of decorators"),
        pytest.param("@a\ndef f(): pass", "@a()\ndef f(): pass", id="called decorator"),
        pytest.param("class A(B): pass", "class A(metaclass=B): pass", id="metaclass"),
        pytest.param("[a for a in b]", "(a for a in b)", id="kind of comprehension"),
        pytest.param("[a for a in b if c if d]", "[a for a in b if c and d]", id="two conditions"),
        pytest.param("async def f(): [a async for a in b]", "async def f(): [a for a in b]", id="async for inside"),
        pytest.param("try: a\nexcept: b", "try: a\nexcept E: b", id="which exception"),
        pytest.param("try: a\nexcept E: b", "try: a\nexcept E as e: b", id="name of an exception"),
        pytest.param("try: a\nfinally: b", "try: a\nexcept: b", id="finally"),
        pytest.param("try: a\nexcept E: b\nelse: c", "try: a\nexcept E: b\nfinally: c", id="else and finally"),
        pytest.param("while a: b\nelse: c", "while a: b\nc", id="else of a loop"),
        pytest.param("for a in b: c", "for a in b: c; d", id="one more statement"),
        pytest.param("if a:\n    b\nc", "if a:\n    b\n    c", id="indentation"),
        pytest.param("with a, b: c", "with (a, b) as d: c", id="two managers"),
        pytest.param("with a, b: c", "with a:\n with b: c", id="nested with"),
        pytest.param("match a:\n case b: c", "match a:\n case b.c: c", id="capture and value"),
        pytest.param("match a:\n case 1: c", "match a:\n case 1 if d: c", id="guard"),
        pytest.param("match a:\n case [b, *_]: c", "match a:\n case [b, _]: c", id="star in a pattern"),
        pytest.param("match a:\n case {'b': 1}: c", "match a:\n case {'b': 1, **d}: c", id="rest of a mapping"),
        pytest.param("match a:\n case B(1): c", "match a:\n case B(x=1): c", id="class pattern"),
        pytest.param("match a:\n case B(x=1, y=2): c", "match a:\n case B(y=1, x=2): c", id="keywords of a pattern"),
        pytest.param("match a:\n case None: c", "match a:\n case True: c", id="singletons"),
        pytest.param("match a:\n case 1 | 2: c", "match a:\n case (1, 2): c", id="alternatives"),
        pytest.param("b''", "pass", id="bare bytes"),
        pytest.param("def f():\n    return\n    x", "def f():\n    return x", id="value of return"),
        *(
            [pytest.param("try: a\nexcept* E: b", "try: a\nexcept E: b", id="except star")]
            if sys.version_info >= (3, 11)
            else []
        ),
        *(
            [pytest.param(before, after, id=name) for before, after, name in NEWER]
            if sys.version_info >= (3, 12)
            else []
        ),
    ],
)
def test_another_tree_has_another_digest(before: str, after: str) -> None:
    assert plain_dump(parse(before)) != plain_dump(parse(after))
    assert fingerprint(before) != fingerprint(after)


def test_a_number_of_thousands_of_digits_counts_as_any_other() -> None:
    # Its decimal text is refused by Python, even in ast.dump.
    digits = "f" * 6000
    assert fingerprint(f"x = 0x{digits}") == fingerprint(f"x = (0X{digits.upper()})")
    assert fingerprint(f"x = 0x{digits}") != fingerprint(f"x = 0x{digits[1:]}e")


def test_names_are_those_that_are_read_and_written_and_those_of_attributes() -> None:
    names: set[str] = set()
    write(parse("a.b = c(d=e)['f']").body[0], [], names)
    assert names == {"a", "b", "c", "e"}


def test_left_out_fields_are_those_of_the_node_itself_only() -> None:
    (node,) = parse("def f():\n    def g():\n        x\n").body
    whole: list[str] = []
    write(node, whole, set())
    without_name: list[str] = []
    write(node, without_name, set(), ("name",))
    without_body: list[str] = []
    write(node, without_body, set(), ("body",))
    assert "'f'" in whole
    assert "'f'" not in without_name
    assert "'g'" in without_name
    assert "'g'" not in without_body


@pytest.mark.parametrize("terms", [1000, 2500])
def test_a_long_expression_is_no_problem_wherever_it_parses(terms: int) -> None:
    text = "x = " + " + ".join(f"a{number}" for number in range(terms))
    assert fingerprint(text) == fingerprint(text.replace(" + ", "+"))
    assert fingerprint(text) != fingerprint(text.replace(f"a{terms - 1}", "b"))


def test_an_expression_of_5000_terms_is_no_problem_for_the_digest_itself() -> None:
    def tree(last: str) -> ast.stmt:
        value: ast.expr = ast.Name("a", ast.Load())
        for number in range(5000):
            value = ast.BinOp(value, ast.Add(), ast.Name(f"a{number}" if number < 4999 else last, ast.Load()))
        return ast.Expr(value)

    assert said([tree("b")]) == said([tree("b")])
    assert said([tree("b")]) != said([tree("c")])


def test_an_expression_too_deep_to_be_parsed_is_a_source_error() -> None:
    with pytest.raises(SourceError, match=r"too deeply|too complex|too many nested"):
        parse("x = " + "(" * 3000 + "1" + ")" * 3000)


@given(st.lists(st.text(), max_size=5), st.lists(st.text(), max_size=5))
def test_a_digest_tells_lists_of_texts_apart(one: list[str], other: list[str]) -> None:
    assert (digest(one) == digest(other)) == (one == other)


def test_a_digest_knows_where_one_text_ends() -> None:
    assert len({digest(parts) for parts in (["ab"], ["a", "b"], ["", "ab"], ["ab", ""], ["1:a"], [])}) == 6


PROGRAMS = program_texts(every=80, most_bytes=25_000)[::2]


def test_reformatted_programs_have_the_digests_of_the_programs() -> None:
    checked = 0
    for name, text in PROGRAMS:
        try:
            tree = parse(text)
        except SourceError:
            continue
        expected = said(tree.body)
        assert said(parse(ast.unparse(tree)).body) == expected, name
        assert said(parse(reformatted(re.sub("\r\n?", "\n", text))).body) == expected, name
        checked += 1
    assert checked > 60


def test_statements_of_programs_have_equal_digests_only_if_their_trees_are_equal() -> None:
    by_tree: dict[str, str] = {}
    trees: dict[str, str] = {}
    for name, text in PROGRAMS:
        try:
            tree = parse(text)
        except SourceError:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.stmt) and not is_idle(node):
                dump, found = plain_dump(node), digest(said([node]))
                assert by_tree.setdefault(dump, found) == found, name
                assert trees.setdefault(found, dump) == dump, name
    assert len(trees) > 5000


def test_any_small_change_of_a_tree_changes_the_digest_and_nothing_else_does() -> None:
    choose = random.Random(1)
    changed = unchanged = 0
    for _, text in PROGRAMS[:80]:
        try:
            body = [node for node in parse(text).body if not isinstance(node, ast.ClassDef) and not is_idle(node)]
        except SourceError:
            continue
        for node in choose.sample(body, min(8, len(body))):
            before, dump = said([node]), plain_dump(node)
            other = copy.deepcopy(node)
            _mutate(other, choose)
            try:
                is_same = plain_dump(other) == dump
            except (TypeError, AttributeError):
                continue
            assert (said([other]) == before) == is_same, ast.dump(other)
            changed += not is_same
            unchanged += is_same
    assert changed > 250


def _mutate(node: ast.AST, choose: random.Random) -> None:
    """Change one field of one node below."""
    inner = choose.choice(list(ast.walk(node)))
    fields = [name for name in inner._fields if name != "kind"]
    if not fields:
        return
    name = choose.choice(fields)
    value = getattr(inner, name, None)
    if isinstance(value, list):
        if value and choose.random() < 0.5:
            value.pop(choose.randrange(len(value)))
        elif len(value) > 1:
            value.reverse()
        elif value:
            value.append(copy.deepcopy(value[0]))
    elif isinstance(value, str):
        setattr(inner, name, value + "_")
    elif isinstance(value, bool) or value is None:
        if isinstance(inner, ast.Constant):
            setattr(inner, name, not value)
    elif isinstance(value, (int, float)):
        setattr(inner, name, value + 1)
    elif isinstance(value, ast.expr):
        setattr(inner, name, ast.Name("mutated", ast.Load()))
    elif isinstance(value, ast.operator):
        setattr(inner, name, ast.Pow())
