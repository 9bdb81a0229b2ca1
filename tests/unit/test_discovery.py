from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from profile_neuron.core.discovery import anchors, discover, spans
from profile_neuron.core.text import decode, split_lines, utf16_column, utf16_length
from profile_neuron.errors import SourceError
from tests.conftest import CASES, case

if TYPE_CHECKING:
    from pathlib import Path

CASES_WITH_FUNCTIONS = ["S01", "S02", "S03", "S04", "S05", "S06", "S08", "S09", "S10", "S11", "S13", "S14"]


def expected_files() -> list[tuple[str, str]]:
    found = []
    for name in CASES_WITH_FUNCTIONS:
        expected = json.loads((case(name) / "expected.json").read_text())
        found += [(name, file) for file in expected.get("files", {"input.py": None})]
    return found


def expected_functions(name: str, file: str) -> list[dict[str, Any]]:
    expected = json.loads((case(name) / "expected.json").read_text())
    functions: list[dict[str, Any]] = expected.get("files", {}).get(file, expected)["functions"]
    return functions


@pytest.mark.parametrize(("name", "file"), expected_files())
def test_functions_of_a_case_are_found_at_their_places(name: str, file: str) -> None:
    text = decode((case(name) / file).read_bytes())
    lines = split_lines(text)
    found = [
        {
            "qualname": spec.qualname,
            "kind": spec.kind,
            "decoratorLine": spec.decorator_line - 1,
            "defLine": spec.def_line - 1,
            "nameRange": {
                "start": {
                    "line": spec.def_line - 1,
                    "character": utf16_column(lines[spec.def_line - 1], spec.name_column),
                },
                "end": {
                    "line": spec.def_line - 1,
                    "character": utf16_column(lines[spec.def_line - 1], spec.name_end_column),
                },
            },
            "lastLine": spec.last_line - 1,
            "traceFirstLine": spec.first_line,
        }
        for spec in discover(text, ("pn_api",))
    ]
    assert found == expected_functions(name, file)


def test_text_of_an_editor_without_the_byte_order_mark_gives_the_same_functions() -> None:
    content = (case("S06") / "bom.py").read_bytes()
    assert discover(content.decode("utf-8-sig"), ("pn_api",)) == discover(content.decode("utf-8"), ("pn_api",))


def test_columns_at_the_end_of_a_def_line_count_utf16_units() -> None:
    expected = json.loads((case("S10") / "expected.json").read_text())["endOfDefLineUtf16"]
    lines = split_lines(decode((case("S10") / "input.py").read_bytes()))
    assert {number: utf16_length(lines[int(number)]) for number in expected} == expected


def test_form_feeds_and_vertical_tabs_do_not_end_lines() -> None:
    expected = json.loads((case("S11") / "expected.json").read_text())
    text = decode((case("S11") / "input.py").read_bytes())
    assert len(split_lines(text)) == expected["lspLineCount"]


def test_a_function_at_the_end_of_a_file_without_newline_ends_on_its_last_line() -> None:
    expected = json.loads((case("S14") / "expected.json").read_text())["hintAtEndOfLine"]["crlf.py"]
    text = decode((case("S14") / "crlf.py").read_bytes())
    (spec,) = discover(text, ("pn_api",))
    place = anchors(text, spec)[-1]
    assert (place.line - 1, utf16_length(split_lines(text)[place.line - 1])) == (
        expected["line"],
        expected["character"],
    )


def test_a_statement_over_several_lines_has_one_anchor_and_a_shared_line_a_combined_one() -> None:
    """The case's file has the return on lines 13 and 14 counted from 0; its expectation says 12 and 13.

    The expectation contradicts its own last line of the function, 14, so the file decides.
    """
    text = decode((case("S05") / "input.py").read_bytes())
    (spec,) = discover(text, ("pn_api",))
    found = [(item.line - 1, item.last_line - 1, item.statements) for item in anchors(text, spec)]
    assert found == [(4, 4, 3), (5, 12, 1), (13, 14, 1)]


def test_headers_of_compound_statements_and_nested_definitions_have_their_own_anchors() -> None:
    text = (
        "from profile_neuron import profile_neuron\n"
        "@profile_neuron\n"
        "def f(x):\n"
        "    for i in range(\n"
        "        3,\n"
        "    ):\n"
        "        x = x + i\n"
        "    with x as y:\n"
        "        pass\n"
        "    @other\n"
        "    def g():\n"
        "        return x\n"
        "    try:\n"
        "        y = g()\n"
        "    except ValueError:\n"
        "        y = 0\n"
        "    match y:\n"
        "        case 1:\n"
        "            return 1\n"
        "    return y\n"
    )
    (spec,) = discover(text)
    found = [(item.line, item.last_line) for item in anchors(text, spec)]
    assert found == [
        (4, 6), (7, 7), (8, 8), (9, 9), (11, 11), (12, 12), (13, 13), (14, 14), (16, 16), (17, 17), (19, 19), (20, 20),
    ]  # fmt: skip


SPELLINGS = {
    "from import": ("from profile_neuron import profile_neuron", "profile_neuron"),
    "from import as": ("from profile_neuron import profile_neuron as pn", "pn"),
    "options": ("from profile_neuron import profile_neuron", "profile_neuron(warmup=1)"),
    "module": ("import profile_neuron", "profile_neuron.profile_neuron"),
    "module as": ("import profile_neuron as p", "p.profile_neuron()"),
    "submodule": ("from profile_neuron.decorator import profile_neuron", "profile_neuron"),
    "dotted submodule": ("import profile_neuron.decorator", "profile_neuron.decorator.profile_neuron"),
    "star": ("from profile_neuron import *", "profile_neuron"),
    "assigned": ("from profile_neuron import profile_neuron\nmark = profile_neuron", "mark"),
    "assigned with options": ("from profile_neuron import profile_neuron\nm = profile_neuron(repeats=2)", "m"),
    "tuple assignment": ("from profile_neuron import profile_neuron\na, m = 1, profile_neuron", "m"),
    "partial": (
        "from functools import partial\nfrom profile_neuron import profile_neuron\nm = partial(profile_neuron, warmup=1)",
        "m()",
    ),
    "conditional": ("from profile_neuron import profile_neuron\nON = 1", "(profile_neuron if ON else (lambda f: f))"),
    "parentheses": ("from profile_neuron import profile_neuron", "(profile_neuron)"),
    "type checking": (
        "if TYPE_CHECKING:\n    from profile_neuron import profile_neuron\nelse:\n    profile_neuron = lambda f: f",
        "profile_neuron",
    ),
    "with block": ("with a:\n    from profile_neuron import profile_neuron", "profile_neuron"),
    "fallback": (
        "try:\n    from profile_neuron import profile_neuron\nexcept ImportError:\n    profile_neuron = None",
        "profile_neuron",
    ),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_spelling_of_the_decorator_is_found(spelling: str) -> None:
    imports, mark = SPELLINGS[spelling]
    (spec,) = discover(f"{imports}\n@{mark}\ndef f(x): pass\n")
    assert spec.qualname == "f"


LOOK_ALIKES = {
    "never imported": ("def profile_neuron(f): return f", "profile_neuron"),
    "from elsewhere": ("from other import profile_neuron", "profile_neuron"),
    "rebound": ("from profile_neuron import profile_neuron\nprofile_neuron = print", "profile_neuron"),
    "rebound by import": (
        "from profile_neuron import profile_neuron\nfrom other import profile_neuron",
        "profile_neuron",
    ),
    "rebound by loop": ("from profile_neuron import profile_neuron\nfor profile_neuron in (): pass", "profile_neuron"),
    "deleted": ("from profile_neuron import profile_neuron\ndel profile_neuron", "profile_neuron"),
    "the module itself": ("import profile_neuron", "profile_neuron"),
    "another attribute": ("import profile_neuron", "profile_neuron.other"),
    "same name elsewhere": ("import profile_neuron\nimport x", "x.profile_neuron"),
    "result of marking": ("from profile_neuron import profile_neuron\ng = profile_neuron(print)", "g"),
    "relative": ("from . import profile_neuron", "profile_neuron"),
}


@pytest.mark.parametrize("look_alike", LOOK_ALIKES)
def test_no_look_alike_is_found(look_alike: str) -> None:
    imports, mark = LOOK_ALIKES[look_alike]
    assert discover(f"{imports}\n@{mark}\ndef f(x): pass\n") == ()


def test_a_name_bound_in_a_class_is_not_seen_in_its_methods_bodies() -> None:
    text = (
        "class A:\n"
        "    from profile_neuron import profile_neuron\n"
        "    @profile_neuron\n"
        "    def seen(self):\n"
        "        @profile_neuron\n"
        "        def unseen(): pass\n"
    )
    assert [spec.qualname for spec in discover(text)] == ["A.seen"]


def test_a_function_body_sees_a_name_that_the_module_binds_later() -> None:
    text = (
        "def make():\n"
        "    @profile_neuron\n"
        "    def inner(): pass\n"
        "    return inner\n"
        "from profile_neuron import profile_neuron\n"
    )
    assert [spec.qualname for spec in discover(text)] == ["make.<locals>.inner"]


def test_a_parameter_of_that_name_is_not_the_decorator() -> None:
    text = (
        "from profile_neuron import profile_neuron\n"
        "def make(profile_neuron):\n"
        "    @profile_neuron\n"
        "    def inner(): pass\n"
    )
    assert discover(text) == ()


@pytest.mark.parametrize(
    ("line", "package"),
    [
        ("from .marks import profile_neuron", "app.nn"),
        ("from ..nn.marks import profile_neuron", "app.other"),
        ("from . import marks", "app.nn"),
    ],
)
def test_a_relative_import_is_resolved_by_the_package_of_the_file(line: str, package: str) -> None:
    mark = "marks.profile_neuron" if line.endswith("marks") else "profile_neuron"
    text = f"{line}\n@{mark}\ndef f(): pass\n"
    assert [spec.qualname for spec in discover(text, ("app.nn.marks",), package)] == ["f"]
    assert discover(text, ("app.nn.marks",), "elsewhere") == ()


@pytest.mark.parametrize(
    ("text", "line", "sentence"),
    [
        ("def f(:\n", 1, "line 1: "),
        ("x = 1\n\nif x\n", 3, "line 3: expected ':'"),
        ("x = '\0'\n", None, "null bytes"),
        ("x = " + "a." * 50000 + "b", None, "too deep|complex|nested"),
        ("x = " + "(" * 2000 + ")" * 2000, 1, "line 1: too many nested parentheses"),
    ],
)
def test_a_text_that_does_not_parse_is_an_error_with_its_line(text: str, line: int | None, sentence: str) -> None:
    with pytest.raises(SourceError, match=sentence) as caught:
        discover(text)
    if line is not None:
        assert caught.value.line == line


def test_a_text_that_breaks_while_it_is_typed_names_its_line_until_it_is_mended() -> None:
    expected = json.loads((case("S12") / "expected.json").read_text())["afterMessage"]
    text, found = "", []
    for line in (case("S12") / "messages.jsonl").read_text().split("\n")[:-1]:
        message = json.loads(line)
        if message["method"] == "textDocument/didOpen":
            text = message["params"]["textDocument"]["text"]
        elif message["method"] == "textDocument/didChange":
            (change,) = message["params"]["contentChanges"]
            lines = split_lines(text)
            start, end = change["range"]["start"], change["range"]["end"]
            before = [*lines[: start["line"]], lines[start["line"]][: start["character"]]]
            after = [lines[end["line"]][end["character"] :], *lines[end["line"] + 1 :]]
            text = "\n".join(before) + change["text"] + "\n".join(after)
        else:
            continue
        try:
            found.append(len(discover(text, ("pn_api",))))
        except SourceError as error:
            found.append(error)
    opened, broken, mended = found
    assert (opened, mended) == (expected["2"]["lenses"], expected["8"]["lenses"])
    assert isinstance(broken, SourceError)
    assert broken.line == expected["5"]["reasonMentionsLine"]


def test_functions_that_are_not_decorated_have_spans_too() -> None:
    text = (
        "from profile_neuron import profile_neuron\n"
        "act = lambda x: x\n"
        "class A:\n"
        "    @staticmethod\n"
        "    def g():\n"
        "        def h(): pass\n"
        "        return h\n"
        "@profile_neuron(inputs=lambda: 1)\n"
        "def f(x):\n"
        "    return x\n"
    )
    found = [
        (item.qualname, item.first_line, item.def_line, item.last_line, item.decorated, item.parent)
        for item in spans(text)
    ]
    assert sorted(found) == sorted(
        [
            ("A.g", 4, 5, 7, False, None),
            ("A.g.<locals>.h", 6, 6, 6, False, 0),
            ("f", 8, 9, 10, True, None),
            ("<lambda>", 2, 2, 2, False, None),
            ("<lambda>", 8, 8, 8, False, None),
        ]
    )


def test_five_thousand_functions_are_found_where_they_are(tmp_path: Path) -> None:
    expected = json.loads((case("S15") / "expected.json").read_text())
    script = CASES / case("S15").name / "make_input.py"
    subprocess.run([sys.executable, str(script), "5000"], cwd=tmp_path, check=True)
    found = discover((tmp_path / "big.py").read_text(), ("pn_api",))
    assert len(found) == expected["functionsFound"]
    first, step = expected["firstDefLine"], expected["lineStep"]
    assert [spec.def_line - 1 for spec in found] == [first + step * index for index in range(5000)]


INPUT_SETS = {
    "named": ('@profile_neuron(inputs={"b8": a, "b1": b})', ("b8", "b1")),
    "with other options": ('@profile_neuron(warmup=1, inputs={"größe": lambda: 1})', ("größe",)),
    "the same name twice": ('@profile_neuron(inputs={"a": x, "a": y})', ("a",)),
    "bare": ("@profile_neuron", ()),
    "a function": ("@profile_neuron(inputs=make)", ()),
    "a variable": ("@profile_neuron(inputs=SETS)", ()),
    "a computed key": ('@profile_neuron(inputs={"a": x, f"{b}": y})', ()),
    "an unpacked dict": ('@profile_neuron(inputs={"a": x, **more})', ()),
    "a key that is no text": ("@profile_neuron(inputs={1: x})", ()),
    "unpacked options": ("@profile_neuron(**options)", ()),
}


@pytest.mark.parametrize("kind", INPUT_SETS)
def test_names_of_inputs_are_read_where_the_decorator_writes_them_out(kind: str) -> None:
    mark, names = INPUT_SETS[kind]
    (spec,) = discover(f"from profile_neuron import profile_neuron\n{mark}\ndef f(x): ...\n")
    assert spec.input_sets == names
