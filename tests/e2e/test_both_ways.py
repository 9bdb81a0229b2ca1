"""Random modules and random edits: a module that lives on equals the one that executing the file afresh makes."""

from __future__ import annotations

import dataclasses
import functools
import gc
import hashlib
import inspect
import os
import random
import sys
import types
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from profile_neuron.core.project import ProjectFiles
from profile_neuron.wire.messages import Limits, RunRequest
from profile_neuron.worker import living as living_module
from profile_neuron.worker.loader import Loader
from profile_neuron.worker.state import ProcessState
from profile_neuron.worker.torch_host import warm_profiler

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from profile_neuron.worker.loader import Loaded

pytestmark = pytest.mark.torch

HEAD = """\
import dataclasses, functools, random, torch
from profile_neuron import profile_neuron
def kept(f):
    return f
def wrapping(f):
    @functools.wraps(f)
    def wrapper(*args): return f(*args)
    return wrapper
"""
DECORATORS = (
    "",
    "@profile_neuron",
    "@profile_neuron(warmup=1)",
    "@torch.no_grad()",
    "@kept",
    "@wrapping",
    "@functools.lru_cache",
)
MEMBERS = ("", "@staticmethod", "@classmethod", "@property", "@torch.no_grad()", "@kept")


@dataclasses.dataclass(frozen=True)
class Item:
    """One thing at module level, by what an edit can change of it."""

    kind: str
    # Of the function that it uses, or of nothing.
    other: int
    number: int = 0
    decorator: int = 0
    default: int = 0
    shape: int = 0
    docstring: int = 0
    space: int = 0

    def text(self, index: int) -> str:
        space = "\n# a remark" * self.space
        return f"{space}\n{getattr(self, f'_{self.kind}')(index)}\n"

    def _function(self, index: int) -> str:
        lines = [DECORATORS[self.decorator % len(DECORATORS)], f"def f{index}(x={self.default}):", *self._body()]
        return "\n".join(line for line in lines if line)

    def _body(self, indent: str = "    ") -> list[str]:
        number, other = self.number, self.other
        shapes = (
            [f"return (x, {number})"],
            [f"return f{other}(x) if x < {number} else x"],
            ["def inner(y):", f"    return [y, x, {number}]", "return inner(2)"],
            [f"return [y + {number} for y in range(3) if y != x]"],
            ["global COUNT", f"COUNT = {number}", "return COUNT"],
            [f"yield {number}", "yield x"],
            ["try:", f"    return x / {number % 2}", "finally:", f"    x = {number}"],
            [f"return lambda: (x, {number})"],
            [f"return random.random() + {number}"],
            [f"return torch.ones(2) * {number}"],
            ["return __class__"] if indent != "    " else ["return __name__"],
            [f"STORE.append({number})", "return len(STORE)"],
        )
        text = [f'"""Says {self.docstring}."""'] if self.docstring else []
        return [indent + line for line in [*text, *shapes[self.shape % len(shapes)]]]

    def _klass(self, index: int) -> str:
        head = ["@dataclasses.dataclass"] if self.docstring % 2 else []
        member = MEMBERS[self.decorator % len(MEMBERS)]
        parameters = {"@staticmethod": "x=1", "@property": "self, x=1"}.get(member, f"self, x={self.default}")
        return "\n".join(
            [
                *head,
                f"class A{index}:",
                f"    field: int = {self.default}",
                *([f"    {member}"] if member else []),
                f"    def method({parameters}):",
                *self._body("        "),
                "    def other(self): return self.field",
            ]
        )

    def _constant(self, index: int) -> str:
        return f"C{index} = {self.number}"

    def _tensor(self, index: int) -> str:
        return f"T{index} = torch.arange({self.number % 4})"

    def _called(self, index: int) -> str:
        if self.shape % 2:
            return f"V{index} = lambda: f{self.other}({self.default})"
        return f"try:\n    V{index} = f{self.other}({self.default})\nexcept Exception:\n    V{index} = None"

    def _chain(self, index: int) -> str:
        return (
            f"def c{index}():\n    return f{self.other}()\n"
            f"try:\n    V{index} = c{index}()\nexcept Exception:\n    V{index} = None"
        )

    def _registry(self, index: int) -> str:
        return f"R{index} = [name for name in dir() if name == 'f{self.other}'] + [{self.number}]"

    def _maker(self, index: int) -> str:
        return (
            f"def m{index}(n):\n    def made(x):\n        return x + n\n    return made\n"
            f"M{index} = m{index}({self.number})"
        )

    def _imports(self, index: int) -> str:
        return ("import math", "import math as m, cmath", "from math import pi")[self.number % 3]


EXAMPLES = 100
KINDS = (
    "function",
    "function",
    "function",
    "klass",
    "klass",
    "constant",
    "tensor",
    "called",
    "chain",
    "chain",
    "registry",
    "maker",
    "imports",
)
# Fields of which a change is one of a body come most often.
FIELDS = (
    "number",
    "number",
    "number",
    "number",
    "shape",
    "shape",
    "space",
    "space",
    "docstring",
    "decorator",
    "default",
)


def some_item(choose: random.Random) -> Item:
    return Item(
        kind=choose.choice(KINDS),
        other=choose.randrange(3),
        number=choose.randrange(10),
        decorator=choose.choice((0, 0, 1, 1, 2, 3, 4, 5, 6)),
        default=choose.randrange(3),
        # Calls of other functions come more often than the other shapes.
        shape=choose.choice((1, 1, 1, *range(12))),
        docstring=choose.choice((0, 0, 1, 2)),
        space=choose.randrange(2),
    )


def some_changes(choose: random.Random, module: list[Item]) -> list[tuple[int, str, int]]:
    """Where to change which field to what; three in four begin with the body of a function."""
    changes = [(choose.randrange(7), choose.choice((*FIELDS, "swap", "drop")), choose.randrange(12)) for _ in range(2)]
    bodies = [index for index, item in enumerate(module) if item.kind in ("function", "klass")]
    if bodies and choose.randrange(4):
        place = choose.choice(bodies)
        number = (module[place].number + 1 + choose.randrange(8)) % 10
        change = (place, "number", number) if choose.randrange(4) else (place, "docstring", number)
        changes = [change, *changes[1:]]
    return changes[: choose.choice((1, 1, 2))]


def edited(module: list[Item], changes: list[tuple[int, str, int]]) -> list[Item]:
    new = list(module)
    for position, field, value in changes:
        place = position % len(new)
        if field == "swap":
            new[place], new[place - 1] = new[place - 1], new[place]
        elif field == "drop":
            new = new[:place] + new[place + 1 :] or new
        else:
            new[place] = dataclasses.replace(new[place], **{field: value % 2 if field == "space" else value})
    return new


def text_of(module: list[Item]) -> str:
    return f"{HEAD}COUNT, STORE = 0, []\n" + "".join(item.text(index) for index, item in enumerate(module))


class Ways:
    """One loader, which executes a file in a process that stays."""

    class _Streams:
        def are_replaced(self) -> bool:
            return False

    def __init__(self, folder: Path) -> None:
        self._path = folder / "module.py"
        self._project = ProjectFiles((str(folder),), (), lambda path: False)
        self.loader = Loader(self._Streams())  # type: ignore[arg-type]
        self._state = ProcessState()

    def load(self, text: str, afresh: bool = False) -> Loaded:
        """As a run does it: the file's module, living or executed afresh."""
        source = text.encode()
        self._path.write_bytes(source)
        request = RunRequest(
            "run", str(self._path), hashlib.sha256(source).hexdigest(), "", 1, 1, None, "cpu",
            ("profile_neuron",), (str(self._path.parent),), str(self._path.parent), Limits(1.0, 1.0),
        )  # fmt: skip
        if afresh:
            self.loader._living = None
        self.loader.reach.start(self._project)
        try:
            return self.loader.load(request, source, self._project)
        finally:
            self.loader.reach.stop()
            self._state.apply()


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ways]:
    path, arguments, finders, variables = list(sys.path), sys.argv, list(sys.meta_path), set(os.environ)
    # As the worker does, so that collections need not visit all of torch.
    warm_profiler()
    gc.collect()
    gc.freeze()
    with pytest.MonkeyPatch.context() as patch:
        # The timer of the test runner's time limit is always on.
        patch.setattr(living_module, "left_running", lambda: "")
        yield Ways(tmp_path_factory.mktemp("project"))
    gc.unfreeze()
    sys.path[:], sys.argv, sys.meta_path[:] = path, arguments, finders
    # torch's compiler names its cache there, for every process that a later test starts.
    for name in os.environ.keys() - variables:
        del os.environ[name]


def normal(item: Any, seen: dict[int, int]) -> Any:
    """A value in a form that is equal for equal modules, whichever way they were made."""
    if isinstance(item, (int, float, str, bytes, type(None), range)):
        return repr(item)
    if id(item) in seen:
        return ("seen", seen[id(item)])
    seen[id(item)] = len(seen)
    inner = functools.partial(normal, seen=seen)
    if isinstance(item, types.CodeType):
        constants = [normal(value, {}) for value in item.co_consts]
        return (
            item.co_name,
            item.co_code,
            constants,
            item.co_names,
            item.co_freevars,
            list(item.co_lines()),
            item.co_flags,
        )
    if isinstance(item, types.FunctionType):
        cells = [inner(cell.cell_contents) for cell in item.__closure__ or ()]
        values = (
            item.__code__,
            item.__defaults__,
            item.__kwdefaults__,
            item.__doc__,
            item.__annotations__,
            item.__dict__,
        )
        return ("function", item.__qualname__, cells, *map(inner, values))
    if isinstance(item, (list, tuple, set)):
        return (type(item).__name__, *map(inner, item))
    if isinstance(item, dict):
        return ("dict", *((inner(key), inner(value)) for key, value in item.items()))
    if isinstance(item, type) and item.__module__ == "module":
        return (
            "class",
            item.__qualname__,
            *((key, inner(value)) for key, value in vars(item).items() if key != "__weakref__"),
        )
    if isinstance(item, (staticmethod, classmethod)):
        return (type(item).__name__, inner(item.__func__))
    if isinstance(item, property):
        return ("property", item.__doc__, *map(inner, (item.fget, item.fset, item.fdel)))
    if isinstance(item, functools._lru_cache_wrapper):
        return ("cache", tuple(item.cache_info()), inner(item.__wrapped__))
    if type(item).__name__ == "Tensor":
        return ("tensor", item.tolist())
    return type(item).__qualname__


def globals_of(module: types.ModuleType) -> Any:
    return normal({key: value for key, value in vars(module).items() if not key.startswith("__")}, {})


def results_of(module: types.ModuleType) -> list[Any]:
    """What all functions and methods of a module give, or where they fail."""
    found = []
    calls = [(name, value, ()) for name, value in list(vars(module).items()) if name[0] in "fM" and callable(value)]
    for name, owner in list(vars(module).items()):
        if isinstance(owner, type) and owner.__module__ == "module":
            calls.append((name, lambda owner=owner: getattr(owner(), "method"), ()))  # noqa: B009
            calls.append((f"{name}.method", lambda owner=owner: owner().method(), ()))
    for name, call, arguments in calls:
        try:
            value = call(*arguments)
            if isinstance(value, types.GeneratorType):
                value = list(value)
            if isinstance(value, types.FunctionType):
                value = value() if value.__name__ == "<lambda>" else value
            found.append((name, normal(value, {}) if not isinstance(value, types.MethodType) else value.__name__))
        except Exception as error:  # noqa: BLE001 - whatever the random code raises
            trace, lines = error.__traceback__, []
            while trace is not None:
                lines.append(trace.tb_lineno if trace.tb_frame.f_code.co_filename.endswith("module.py") else 0)
                trace = trace.tb_next
            found.append((name, type(error).__name__, str(error), lines))
    return found


def sources_of(module: types.ModuleType) -> list[str]:
    values = [value for value in vars(module).values() if isinstance(value, (types.FunctionType, type))]
    return [inspect.getsource(value) for value in values if value.__module__ == "module"]


def view_of(loaded: Loaded) -> dict[str, Any]:
    """All that a run could see of a module, before and after it used it."""
    random.seed(1)
    return {
        "globals": globals_of(loaded.module),
        "marks": [(mark.line, mark.function_line) for mark in loaded.marks._marks],
        "entered": sorted((code.co_name, code.co_firstlineno) for code in loaded.entered or ()),
        "sources": sources_of(loaded.module),
        "results": results_of(loaded.module),
        "globals after it": globals_of(loaded.module),
    }


@pytest.mark.parametrize("seed", range(4))
def test_a_living_module_equals_one_executed_afresh(seed: int, ways: Ways) -> None:
    """Not by hypothesis, which keeps every module that it sees."""
    choose = random.Random(seed)
    tally: Counter[str] = Counter()
    for _ in range(EXAMPLES):
        module = [some_item(choose) for _ in range(choose.randrange(1, 8))]
        old, new = text_of(module), text_of(edited(module, some_changes(choose, module)))
        tally[check_both_ways(ways, old, new, uses=choose.random() < 0.3)] += 1
    assert tally["replaced"] >= EXAMPLES // 8, tally
    assert tally["nothing was executed again"] >= 2, tally
    assert tally["executed afresh"] >= EXAMPLES // 5, tally


def check_both_ways(ways: Ways, old: str, new: str, uses: bool) -> str:
    """Whether a module of the new text is the same in both ways, if it lived on; says how it came to be."""
    first = ways.load(old, afresh=True)
    if uses:
        results_of(first.module)
    found = ways.load(new)
    is_living = found.module is first.module
    assert is_living == (not found.how.startswith("executed afresh")), found.how
    if is_living:
        how, living = found.how, view_of(found)
        del found, first
        afresh = view_of(ways.load(new, afresh=True))
        for part, value in afresh.items():
            assert living[part] == value, (part, old, new)
        return "replaced" if "replaced" in how else how
    return "executed afresh"
