"""Whether a text differs from an earlier one in bodies of functions alone, so that only those need replacing.

Every doubt is an Afresh: what is executed anew is never wrong, only slower.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from profile_neuron.core.discovery import TOO_DEEP, Function, find, parse
from profile_neuron.core.outline import bound_names, is_main_guard
from profile_neuron.core.statements import first_line

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

# Decorators that keep the function itself and look at nothing of it but its name, signature and docstring.
_TRANSPARENT = frozenset(
    {
        "builtins.classmethod", "builtins.property", "builtins.staticmethod",
        "torch.compile", "torch.enable_grad", "torch.inference_mode", "torch.no_grad",
    }
)  # fmt: skip
_OF_CLASSES = frozenset(
    {
        "dataclasses.dataclass", "functools.total_ordering",
        "typing.final", "typing.runtime_checkable", "typing_extensions.final", "typing_extensions.runtime_checkable",
    }
)  # fmt: skip
# Options of our decorator that it does not call.
_KEPT = (ast.Name, ast.Lambda, ast.Constant)
_OF_PROPERTIES = frozenset({"getter", "setter", "deleter"})
# Names of what takes text, bytecode or line numbers of functions that it may have got without their names.
_READERS = frozenset(
    {
        "Bytecode", "CodeType", "FunctionType", "__code__", "_getframe", "cfunc", "cloudpickle", "co_code",
        "currentframe", "dill", "dis", "export", "extract_stack", "f_lineno", "findsource", "format_stack",
        "get_instructions", "getframeinfo", "getsource", "getsourcelines", "guvectorize", "inspect", "jit",
        "linecache", "make_fx", "marshal", "njit", "numba", "script", "symbolic_trace", "trace", "trace_module",
        "triton", "vectorize",
    }
)  # fmt: skip
# The same of functions of Python itself, which are attributes of other things too.
_READING_BUILTINS = frozenset({"compile", "eval", "exec", "globals", "locals", "vars"})


class Afresh(Exception):
    """Why a file has to be executed anew; its text goes on from "executed afresh: "."""


@dataclass(frozen=True, slots=True)
class Changed:
    """One function whose body is another one."""

    qualname: str
    # First lines, decorators included, in the old and the new text.
    old_line: int
    new_line: int


@dataclass(frozen=True, slots=True)
class Replacement:
    """How an old text becomes a new one by bodies of functions."""

    # In source order; none where only lines moved.
    changed: tuple[Changed, ...]
    # New lines by old ones, of all code but the changed bodies; without those that went to several lines.
    lines: Mapping[int, int]


def compare(old: str, new: str, modules: Sequence[str], package: str, entered: Collection[int] = ()) -> Replacement:
    """What has to be replaced in a module made from the old text, to be as if it were made from the new one.

    modules, package: as in discovery. entered: first lines, in the old text, of the functions that ran while the
    module was executed. Raises Afresh where that cannot be done, or it cannot be shown that it can, and
    SourceError where a text does not parse.
    """
    try:
        before, after = (_Skeleton(text, modules, package) for text in (old, new))
        _compare_skeletons(before, after)
        pairs = list(zip(before.functions, after.functions, strict=True))
        changed = [(one, other) for one, other in pairs if one.body_dump != other.body_dump]
        for one, other in changed:
            before.check(one, other, entered)
        before.check_readers(entered)
        unchanged = [(one, other) for one, other in pairs if one.body_dump == other.body_dump]
        lines = _moved_lines(before, after, unchanged)
    except RecursionError as error:
        raise Afresh(TOO_DEEP) from error
    except ValueError as error:
        # A number of thousands of digits has no decimal text.
        raise Afresh(f"the code cannot be compared ({error})") from error
    return Replacement(tuple(Changed(one.qualname, one.line, other.line) for one, other in changed), lines)


def check_other_module(text: str, changed: Iterable[str], path: str, entered: Collection[int]) -> None:
    """Raises Afresh where another module of the project may have used what now changed in other ways than calling it.

    changed: qualified names. entered: as in compare, of that module.
    """
    try:
        skeleton = _Skeleton(text, (), "")
        skeleton.check_readers(entered, f" in {path}")
        for qualname in changed:
            name = qualname.rpartition(".")[2]
            if any(_is_mention(node, name) for node in skeleton.own_code()):
                raise Afresh(f"{qualname} changed, which {path} mentions")
    except RecursionError as error:
        raise Afresh(TOO_DEEP) from error


class _Cut:
    """A function at module or class level, whose body was cut out."""

    __slots__ = ("body", "body_dump", "classes", "docstring", "line", "mark", "node", "qualname", "siblings")

    def __init__(
        self, node: Function, classes: tuple[ast.ClassDef, ...], siblings: Sequence[ast.stmt], mark: ast.expr | None
    ) -> None:
        self.node = node
        self.classes = classes
        # The block that it stands in.
        self.siblings = siblings
        self.mark = mark
        self.qualname = ".".join([*(item.name for item in classes), node.name])
        self.line = first_line(node)
        self.docstring = ast.get_docstring(node, clean=False)
        self.body = node.body
        self.body_dump = [ast.dump(item) for item in self.body]
        node.body = []


class _Skeleton:
    """A module without the bodies of its functions."""

    def __init__(self, text: str, modules: Sequence[str], package: str) -> None:
        self.tree = parse(text)
        self._marks = {found.node: found.mark for found in find([(self.tree.body, 0)], modules, package)}
        self.functions: list[_Cut] = []
        self._cut(self.tree.body, ())
        self.items = list(_items(self.tree.body, ""))
        self._origins: dict[str, set[str]] = {}
        self._has_star = False
        self._bind()

    def check(self, function: _Cut, new: _Cut, entered: Collection[int]) -> None:
        """Raises Afresh where something may have used the function's body in another way than calling it."""
        name = function.qualname
        if function.line in entered:
            raise Afresh(f"{name} changed, which ran during the import")
        if getattr(function.node, "type_params", None):
            raise Afresh(f"{name} changed, which has type parameters")
        others = [item for item in function.node.decorator_list if item is not function.mark]
        for item in others:
            if not self._is_transparent(item, function):
                raise Afresh(f"{name} changed, which @{ast.unparse(item)} may have read")
        if others and function.docstring != new.docstring:
            raise Afresh(f"the docstring of {name} changed, which a decorator may have copied")
        for around in function.classes:
            for item in around.decorator_list:
                if self._origin(item) not in _OF_CLASSES:
                    raise Afresh(f"{name} changed, in a class that @{ast.unparse(item)} may have read")
        for node in self.own_code():
            if _is_mention(node, function.node.name):
                raise Afresh(f"{name} changed, which line {getattr(node, 'lineno', 0)} mentions")

    def check_readers(self, entered: Collection[int], where: str = "") -> None:
        """Raises Afresh where the import may have read code by its own means."""
        bodies = (
            node for item in self.functions if item.line in entered for part in item.body for node in ast.walk(part)
        )
        for node in (*self.own_code(), *bodies):
            match node:
                case ast.Name(id=name) if name in _READERS or name in _READING_BUILTINS:
                    raise Afresh(f"{name}{where} may have read the code")
                case ast.Attribute(attr=name) if name in _READERS:
                    raise Afresh(f"{name}{where} may have read the code")
                case ast.ImportFrom(names=names):
                    for alias in names:
                        if alias.name in _READERS:
                            raise Afresh(f"{alias.name}{where} may have read the code")

    def own_code(self) -> Iterator[ast.AST]:
        """The nodes of the skeleton, less those that are known to pass functions on and look at nothing."""
        marks = {id(item.mark) for item in self.functions if item.mark is not None}
        properties = {
            id(item): function.node.name for function in self.functions for item in function.node.decorator_list
        }
        pending: list[ast.AST] = [self.tree]
        while pending:
            node = pending.pop()
            if isinstance(node, ast.stmt) and is_main_guard(node):
                pending += node.orelse  # type: ignore[attr-defined]
                continue
            yield node
            match node:
                case ast.Call(keywords=keywords) if id(node) in marks:
                    # What builds inputs and objects is kept, and called later.
                    pending += (
                        item.value
                        for item in keywords
                        if not isinstance(item.value, (ast.Name, ast.Lambda, ast.Constant))
                    )
                    continue
                case ast.Attribute(value=ast.Name(id=name), attr=attr) if (
                    attr in _OF_PROPERTIES and properties.get(id(node)) == name
                ):
                    continue
                case ast.Call(func=function, args=[ast.Name(), *rest], keywords=keywords) if (
                    self._origin(function) == "torch.compile"
                ):
                    # Compiles when it is called, which the import would have shown.
                    pending += (function, *rest, *keywords)
                    continue
                case ast.Assign(targets=[ast.Name(id="__all__")]):
                    continue
            pending += ast.iter_child_nodes(node)

    def _cut(self, body: Sequence[ast.stmt], classes: tuple[ast.ClassDef, ...]) -> None:
        for node in body:
            if isinstance(node, Function):
                self.functions.append(_Cut(node, classes, body, self._marks.get(node)))
                continue
            inner = (*classes, node) if isinstance(node, ast.ClassDef) else classes
            for part in (node, *getattr(node, "handlers", ()), *getattr(node, "cases", ())):
                for field in ("body", "orelse", "finalbody"):
                    self._cut(getattr(part, field, ()), inner)

    def _bind(self) -> None:
        """Note what each name may be bound to: by an import its dotted name, otherwise nothing that is known."""
        for node in ast.walk(self.tree):
            match node:
                case ast.Import(names=names):
                    for alias in names:
                        top = alias.name.partition(".")[0]
                        self._origins.setdefault(alias.asname or top, set()).add(alias.name if alias.asname else top)
                case ast.ImportFrom(names=names, module=module, level=level):
                    for alias in names:
                        self._has_star |= alias.name == "*"
                        origin = "" if level else f"{module}.{alias.name}"
                        self._origins.setdefault(alias.asname or alias.name, set()).add(origin)
                case ast.stmt():
                    for name in (*bound_names(node), *([node.name] if isinstance(node, Function) else [])):
                        self._origins.setdefault(name, set()).add("")

    def _origin(self, node: ast.expr) -> str:
        """Dotted name of what an expression, or the function that it calls, was imported as; empty if unknown."""
        match node:
            case ast.Call(func=function):
                return self._origin(function)
            case ast.Attribute(value=value, attr=attr):
                origin = self._origin(value)
                return f"{origin}.{attr}" if origin else ""
            case ast.Name(id=name) if self._has_star:
                # It may have bound any name.
                return ""
            case ast.Name(id=name):
                origins = self._origins.get(name, {f"builtins.{name}"})
                return next(iter(origins)) if len(origins) == 1 else ""
        return ""

    def _is_transparent(self, decorator: ast.expr, function: _Cut) -> bool:
        match decorator:
            case ast.Attribute(value=ast.Name(id=name), attr=attr) if attr in _OF_PROPERTIES:
                first = next(
                    (item for item in self.functions if item.siblings is function.siblings and item.node.name == name),
                    None,
                )
                return first is not None and any(
                    self._origin(item) == "builtins.property" for item in first.node.decorator_list
                )
        return self._origin(decorator) in _TRANSPARENT


def _items(body: Iterable[ast.stmt], prefix: str) -> Iterator[tuple[str, str]]:
    """The statements of a module or class: what a person calls each, and its tree. Those of classes follow theirs."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            inner, node.body = node.body, []
            yield f"class {prefix}{node.name}", ast.dump(node)
            yield from _items(inner, f"{prefix}{node.name}.")
            node.body = inner
            yield "", f"end of {prefix}{node.name}"
        else:
            yield _label(node, prefix), ast.dump(node)


def _label(node: ast.stmt, prefix: str) -> str:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return f"the head of {prefix}{name}"
        case ast.Import() | ast.ImportFrom():
            return "the imports"
        case ast.Expr(value=ast.Constant(value=str())):
            return "a text"
    # Those of a comprehension in the value come first.
    target = node.targets[0] if isinstance(node, ast.Assign) else None
    bound = target.id if isinstance(target, ast.Name) else next(bound_names(node), "")
    return f"{prefix}{bound}" if bound else f"line {node.lineno}"


def _compare_skeletons(before: _Skeleton, after: _Skeleton) -> None:
    if [tree for _, tree in before.items] == [tree for _, tree in after.items]:
        return
    old, new = ({tree for _, tree in skeleton.items} for skeleton in (before, after))
    known = {label for label, _ in before.items}
    for label, tree in after.items:
        if label and tree not in old:
            is_change = label in known or label.startswith("line ") or label == "the imports"
            raise Afresh(f"{label.removeprefix('class ')} changed" if is_change else f"{_thing(label)} is new")
    for label, tree in before.items:
        if label and tree not in new:
            raise Afresh("the imports changed" if label == "the imports" else f"{_thing(label)} is gone")
    raise Afresh("the order of the code changed")


def _thing(label: str) -> str:
    return label.removeprefix("class ").removeprefix("the head of ")


def _moved_lines(before: _Skeleton, after: _Skeleton, unchanged: Iterable[tuple[_Cut, _Cut]]) -> dict[int, int]:
    pairs: list[tuple[ast.AST, ast.AST]] = [(before.tree, after.tree)]
    for one, other in unchanged:
        pairs += zip(one.body, other.body, strict=True)
    found: dict[int, set[int]] = {}
    for one_node, other_node in pairs:
        for old, new in zip(ast.walk(one_node), ast.walk(other_node), strict=True):
            if (line := getattr(old, "lineno", None)) is not None:
                found.setdefault(line, set()).add(getattr(new, "lineno", 0))
    return {line: news.pop() for line, news in found.items() if len(news) == 1}


def _is_mention(node: ast.AST, name: str) -> bool:
    match node:
        case ast.Name(id=found) | ast.Attribute(attr=found) | ast.Constant(value=str(found)):
            return found == name
    return False
