"""Edits that mark a function and import the decorator, as ruff would format what comes out."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from profile_neuron.core.discovery import discover
from profile_neuron.core.marking import LineEdit, import_with_fallback, mark_function
from profile_neuron.core.outline import outline

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

FALLBACK = """\
try:
    from profile_neuron import profile_neuron
except ImportError:

    def profile_neuron(function=None, **options):
        return (lambda marked: marked) if function is None else function
"""
IMPORT = "from profile_neuron import profile_neuron\n"


def edited(text: str, edits: Iterable[LineEdit]) -> str:
    """A text with edits of which each is above the one before."""
    lines = text.split("\n")
    for edit in edits:
        lines[edit.line - 1 : edit.line - 1 + edit.count] = edit.lines
    return "\n".join(lines)


def marked(text: str, line: int, with_fallback: bool = False, modules: tuple[str, ...] = ("profile_neuron",)) -> str:
    """A text with the undecorated function of a line marked."""
    found = outline(text, modules)
    function = found.unmarked(line)
    assert function is not None
    return edited(text, mark_function(found, function, modules[0], with_fallback))


def mended(text: str) -> str | None:
    """A text whose import can do without the package."""
    edit = import_with_fallback(outline(text))
    return None if edit is None else edited(text, [edit])


def is_formatted(text: str, tmp_path: Path) -> bool:
    path = tmp_path / "formatted.py"
    path.write_text(text)
    command = [sys.executable, "-m", "ruff", "format", "--isolated", "--check", "--quiet", str(path)]
    return subprocess.run(command, check=False).returncode == 0


DEF = "def f(x):\n    return x\n"
MARKED = f"@profile_neuron\n{DEF}"
# Text before and after, where the function is the last one.
PLACES = {
    "nothing before": (DEF, f"{IMPORT}\n\n{MARKED}"),
    "imports": (f"import os\nimport torch\n\n\n{DEF}", f"import os\nimport torch\n{IMPORT}\n\n{MARKED}"),
    "docstring": (f'"""A model."""\n\n\n{DEF}', f'"""A model."""\n\n{IMPORT}\n\n{MARKED}'),
    "docstring right above": (f'"""A\nmodel."""\n{DEF}', f'"""A\nmodel."""\n\n{IMPORT}\n\n{MARKED}'),
    "future": (
        f"from __future__ import annotations\n\n\n{DEF}",
        f"from __future__ import annotations\n\n{IMPORT}\n\n{MARKED}",
    ),
    "docstring, future and imports": (
        f'"""A."""\n\nfrom __future__ import annotations\n\nimport torch\n\nX = 1\n\n\n{DEF}',
        f'"""A."""\n\nfrom __future__ import annotations\n\nimport torch\n{IMPORT}\nX = 1\n\n\n{MARKED}',
    ),
    "head of the file": (f"#!/usr/bin/env python3\n# Ours.\n\n{DEF}", f"#!/usr/bin/env python3\n# Ours.\n\n{IMPORT}\n\n{MARKED}"),
    "comment of the first function": (f"# Ours.\n\n# Adds.\n{DEF}", f"# Ours.\n\n{IMPORT}\n\n# Adds.\n{MARKED}"),
    "constant first": (f"X = 1\n\n\n{DEF}", f"{IMPORT}\nX = 1\n\n\n{MARKED}"),
    "import of several lines": (f"from a import (\n    b,\n    c,\n)\n\n\n{DEF}", f"from a import (\n    b,\n    c,\n)\n{IMPORT}\n\n{MARKED}"),
    "imported already": (f"{IMPORT}\n\n{DEF}", f"{IMPORT}\n\n{MARKED}"),
    "imported with a fallback": (f"{FALLBACK}\n\n{DEF}", f"{FALLBACK}\n\n{MARKED}"),
    "another name": (f"{IMPORT[:-1]} as pn\n\n\n{DEF}", f"{IMPORT[:-1]} as pn\n\n\n@pn\n{DEF}"),
    "the module": (f"import profile_neuron\n\n\n{DEF}", f"import profile_neuron\n\n\n@profile_neuron.profile_neuron\n{DEF}"),
}  # fmt: skip


@pytest.mark.parametrize(("before", "after"), PLACES.values(), ids=PLACES)
def test_a_function_is_marked_and_the_decorator_imported_where_it_is_not(
    before: str, after: str, tmp_path: Path
) -> None:
    found = marked(before, before.count("\n") - 1)
    assert found == after
    assert [spec.qualname for spec in discover(found)] == ["f"]
    assert is_formatted(found, tmp_path)


GUARDED = f"if TYPE_CHECKING:\n    {IMPORT}"
PROGRAM = f'if __name__ == "__main__":\n    {IMPORT}'


@pytest.mark.parametrize(
    "text",
    [
        f"import torch\n\n{GUARDED}\n\n{DEF}",
        f"import torch\n\n{GUARDED.replace('TYPE', 'typing.TYPE')}\n\n{DEF}",
        f"import torch\n\n{PROGRAM}\n\n{DEF}",
        f"import torch\n\n\n{DEF}\n\n{IMPORT}",
    ],
)
def test_only_an_import_that_runs_before_the_function_is_one(text: str) -> None:
    line = text.split("\n").index("def f(x):") + 1
    assert marked(text, line) == text.replace("import torch\n", f"import torch\n{IMPORT}").replace(DEF, MARKED)


def test_a_name_for_the_decorator_with_options_is_not_taken_for_it() -> None:
    text = "import profile_neuron as pn\nsmall = pn.profile_neuron(inputs=make)\n\n\ndef g(a): ...\n"
    assert marked(text, 5) == text.replace("def g", "@pn.profile_neuron\ndef g")


FALLBACKS = {
    "nothing before": (DEF, f"{FALLBACK}\n\n{MARKED}"),
    "imports": (f"import torch\n\n\n{DEF}", f"import torch\n\n{FALLBACK}\n\n{MARKED}"),
    "imports above a constant": (f"import torch\n\nX = 1\n\n\n{DEF}", f"import torch\n\n{FALLBACK}\n\nX = 1\n\n\n{MARKED}"),
    "docstring": (f'"""A model."""\n\n\n{DEF}', f'"""A model."""\n\n{FALLBACK}\n\n{MARKED}'),
    "imported already": (f"{IMPORT}\n\n{DEF}", f"{IMPORT}\n\n{MARKED}"),
}  # fmt: skip


@pytest.mark.parametrize(("before", "after"), FALLBACKS.values(), ids=FALLBACKS)
def test_where_the_package_is_missing_the_import_has_a_fallback(before: str, after: str, tmp_path: Path) -> None:
    found = marked(before, before.count("\n") - 1, with_fallback=True)
    assert found == after
    assert [spec.qualname for spec in discover(found)] == ["f"]
    assert is_formatted(found, tmp_path)


def test_the_decorator_becomes_the_innermost_one_with_the_indentation_of_its_function() -> None:
    text = f"{IMPORT}class A:\n\t@staticmethod\n\t@other(\n\t\t1,\n\t)\n\tasync def f(x): ...\n"
    assert marked(text, 3) == text.replace("\tasync", "\t@profile_neuron\n\tasync")


def test_a_last_line_without_an_end_stays_one() -> None:
    assert marked(f"{IMPORT}def f(): ...", 2) == f"{IMPORT}@profile_neuron\ndef f(): ..."


def test_what_shares_a_line_with_an_import_stays_in_one_piece() -> None:
    text = 'import a; TEXT = """\nimport b\n"""\ndef f(): ...\n'
    assert marked(text, 4) == f'import a; TEXT = """\nimport b\n"""\n\n{IMPORT}\n\n@profile_neuron\ndef f(): ...\n'


def test_another_module_that_exports_the_decorator_gets_no_fallback() -> None:
    found = marked(DEF, 1, with_fallback=True, modules=("mine.tools",))
    assert found == f"from mine.tools import profile_neuron\n\n\n{MARKED}"


def test_of_nested_functions_the_innermost_is_meant_and_a_decorated_one_is_none() -> None:
    found = outline(
        f"{IMPORT}@profile_neuron\ndef f():\n    x = 1\n    def g():\n        return x\n    return g\n\ny = 1\n"
    )
    inner = found.unmarked(6)
    assert inner is not None
    assert inner.qualname == "f.<locals>.g"
    assert [found.unmarked(line) for line in (1, 2, 3, 4, 7, 9)] == [None] * 6


MENDED = {
    "alone": (f"{IMPORT}\n\n{MARKED}", f"{FALLBACK}\n\n{MARKED}"),
    "below imports": (f"import torch\n{IMPORT}\n\n{MARKED}", f"import torch\n\n{FALLBACK}\n\n{MARKED}"),
    "above imports": (f"{IMPORT}import torch\n\n\n{MARKED}", f"{FALLBACK}\n\nimport torch\n\n\n{MARKED}"),
    "of the module inside": (
        f"from profile_neuron.decorator import profile_neuron\n\n\n{MARKED}",
        FALLBACK.replace("n import", "n.decorator import") + f"\n\n{MARKED}",
    ),
    "with a comment": (
        f"{IMPORT[:-1]}  # noqa: E402\n\n\n{MARKED}",
        FALLBACK.replace("import profile_neuron\n", "import profile_neuron  # noqa: E402\n") + f"\n\n{MARKED}",
    ),
    "another name": (
        f"{IMPORT[:-1]} as pn\n\n\n@pn\n{DEF}",
        FALLBACK.replace("import profile_neuron\n", "import profile_neuron as pn\n").replace("def profile_neuron", "def pn")
        + f"\n\n@pn\n{DEF}",
    ),
    "several lines": (
        f"from profile_neuron import (\n    profile_neuron,\n)\n\n\n{MARKED}",
        FALLBACK.replace("import profile_neuron\n", "import (\n        profile_neuron,\n    )\n") + f"\n\n{MARKED}",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("before", "after"), MENDED.values(), ids=MENDED)
def test_an_import_gets_a_fallback_and_marks_the_same_functions(before: str, after: str, tmp_path: Path) -> None:
    found = mended(before)
    assert found == after
    assert [spec.qualname for spec in discover(after)] == ["f"]
    assert is_formatted(after, tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        FALLBACK,
        "import profile_neuron\n",
        "import torch\n",
        "from mine import profile_neuron\n",
        "from profile_neuron import profile_neuron, other\n",
        "import torch; from profile_neuron import profile_neuron\n",
        "from profile_neuron import profile_neuron; import torch\n",
        "from .profile_neuron import profile_neuron\n",
    ],
)
def test_no_other_statement_is_changed(text: str) -> None:
    assert mended(text) is None


def test_the_fallback_does_nothing_bare_and_with_options_where_the_package_is_missing() -> None:
    text = f"{FALLBACK}\n\n{MARKED}\n\n@profile_neuron(warmup=1)\ndef g(x):\n    return x + 1\n"
    script = f"import sys\nsys.modules['profile_neuron'] = None\n{text}\nprint(f(1), g(1), f.__name__, g.__name__)"
    finished = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert finished.stdout == "1 2 f g\n"
    assert [spec.qualname for spec in discover(text)] == ["f", "g"]
