"""New code in living functions, by the compiler of this interpreter."""

from __future__ import annotations

import inspect
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from profile_neuron.core.replacement import Afresh, compare
from profile_neuron.worker.replacing import pair_codes, put_in_place

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

OLD = '''\
def before():
    return "old"


def changed(x):
    """Says old."""
    return [x + 1 for _ in range(2)]


def maker(n):
    def made(x):
        return x + n
    return made


class Block:
    def method(self):
        return "old"

    def stayed(self):
        return super().__repr__()


add = maker(3)
pair = [lambda: "one", lambda: "two"]
'''
NEW = (
    OLD.replace('return "old"', 'return "new"')
    .replace("Says old", "Says new")
    .replace("x + 1", "x + 2")
    .replace("class Block", "# moved\n\n\nclass Block")
)


class Living:
    """A module whose file is replaced."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = str(path)
        self.text = text
        path.write_text(text)
        self.code = compile(text, self.path, "exec", dont_inherit=True)
        self.space: dict[str, Any] = {"__name__": "module"}
        exec(self.code, self.space)

    def become(self, text: str) -> None:
        replacement = compare(self.text, text, (), "")
        new = compile(text, self.path, "exec", dont_inherit=True)
        put_in_place(pair_codes(self.code, new, replacement), replacement, self.path)


@pytest.fixture
def living(tmp_path: Path) -> Callable[[str], Living]:
    return lambda text: Living(tmp_path / "module.py", text)


def test_the_same_objects_do_what_the_new_text_says(living: Callable[[str], Living]) -> None:
    module = living(OLD)
    kept = dict(module.space)
    block = module.space["Block"]()
    module.become(NEW)
    space = module.space
    assert all(space[name] is value for name, value in kept.items())
    assert (space["before"](), space["changed"](1), block.method(), space["add"](1)) == ("new", [3, 3], "new", 4)
    assert [item() for item in space["pair"]] == ["one", "two"]
    assert (space["changed"].__doc__, space["before"].__doc__) == ("Says new.", None)


def test_all_code_is_on_the_lines_of_the_new_text(living: Callable[[str], Living], tmp_path: Path) -> None:
    module = living(OLD)
    module.become(NEW)
    fresh: dict[str, Any] = {"__name__": "module"}
    exec(compile(NEW, module.path, "exec"), fresh)

    def lines(space: dict[str, Any]) -> list[tuple[int, list[Any]]]:
        block = space["Block"]
        functions = [space["before"], space["changed"], space["maker"], space["add"], block.method, block.stayed]
        return [(item.__code__.co_firstlineno, list(item.__code__.co_lines())) for item in [*functions, *space["pair"]]]

    assert lines(module.space) == lines(fresh)
    if sys.version_info >= (3, 13):
        assert module.space["Block"].__firstlineno__ == fresh["Block"].__firstlineno__ == 19


AFRESH = {
    "another closure": (
        "def stayed(self):\n        return super().__repr__()",
        "def stayed(self):\n        return 1",
        "cannot be compared",
    ),
    "a generator": (
        'return "old"\n\n\ndef changed',
        'yield "old"\n\n\ndef changed',
        "the code of before cannot be compared",
    ),
}


@pytest.mark.parametrize("kind", AFRESH)
def test_what_another_function_object_would_be_is_refused(kind: str, living: Callable[[str], Living]) -> None:
    before, after, reason = AFRESH[kind]
    module = living(OLD)
    assert before in OLD
    with pytest.raises(Afresh, match=reason):
        module.become(OLD.replace(before, after))
    assert module.space["before"]() == "old"


def test_code_that_has_begun_is_not_taken_away(living: Callable[[str], Living]) -> None:
    text = "def numbers():\n    yield 1\ndef start():\n    return numbers()\n"
    module = living(text)
    begun = module.space["start"]()
    with pytest.raises(Afresh, match="numbers has begun and not ended"):
        module.become(text.replace("yield 1", "yield 2"))
    begun.close()
    del begun
    module.become(text.replace("yield 1", "yield 2"))
    assert list(module.space["numbers"]()) == [2]


def test_a_thread_in_the_code_is_not_disturbed(living: Callable[[str], Living]) -> None:
    text = "def wait(begun, go_on):\n    begun.set()\n    go_on.wait()\n    return 1\n"
    module = living(text)
    begun, go_on = threading.Event(), threading.Event()
    thread = threading.Thread(target=module.space["wait"], args=(begun, go_on))
    thread.start()
    begun.wait()
    try:
        with pytest.raises(Afresh, match="a thread is still in wait"):
            module.become(text.replace("return 1", "return 2"))
    finally:
        go_on.set()
        thread.join()


def test_code_of_the_file_that_is_of_no_import_is_noticed(living: Callable[[str], Living]) -> None:
    module = living("def f():\n    return 1\n")
    other: dict[str, Any] = {}
    exec(compile("def g(): ...\n", module.path, "exec"), other)
    with pytest.raises(Afresh, match="g of an earlier run is still there"):
        module.become("def f():\n    return 2\n")


def test_a_docstring_that_the_module_made_itself_is_not_written_over(living: Callable[[str], Living]) -> None:
    text = 'def f():\n    "Old."\n    return 1\ndef document(name):\n    globals_of[name].__doc__ = "Made."\n'
    module = living(text)
    module.space["f"].__doc__ = "Made."
    with pytest.raises(Afresh, match="the docstring of f was replaced"):
        module.become(text.replace("Old", "New"))
    assert module.space["f"].__doc__ == "Made."
    module.become(text.replace("return 1", "return 2"))
    assert (module.space["f"].__doc__, module.space["f"]()) == ("Made.", 2)


def test_source_is_shown_as_it_is_now(living: Callable[[str], Living], tmp_path: Path) -> None:
    module = living(OLD)
    module.become(NEW)
    (tmp_path / "module.py").write_text(NEW)
    assert inspect.getsource(module.space["add"]) == "    def made(x):\n        return x + n\n"
    assert inspect.getsource(module.space["changed"]).endswith("return [x + 2 for _ in range(2)]\n")
