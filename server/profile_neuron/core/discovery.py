"""Decorated functions of a file, found in its syntax tree; no user code is imported."""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from profile_neuron.core.model import Anchor, FunctionKind, FunctionSpan, FunctionSpec
from profile_neuron.core.statements import first_line, rows, statements
from profile_neuron.core.text import split_lines
from profile_neuron.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

DECORATOR = "profile_neuron"
DEFAULT_MODULES = ("profile_neuron",)

TOO_DEEP = "the code is nested too deeply to be parsed"

Function = ast.FunctionDef | ast.AsyncFunctionDef


def discover(text: str, modules: Sequence[str] = DEFAULT_MODULES, package: str = "") -> tuple[FunctionSpec, ...]:
    """Functions that carry the decorator, in source order.

    modules: names of the modules that export it. package: the dotted package of the file, by which relative
    imports are resolved. Raises SourceError, with the line, where the text does not parse.
    """
    functions = find([(parse(text).body, 0)], modules, package)
    lines = split_lines(text)
    return tuple(spec_of(function, function.mark, lines) for function in functions if function.mark is not None)


def spans(text: str, modules: Sequence[str] = DEFAULT_MODULES, package: str = "") -> tuple[FunctionSpan, ...]:
    """All functions of a file, decorated or not, outer before inner; lambdas only outside of a function."""
    tree = parse(text)
    found = find([(tree.body, 0)], modules, package)
    return tuple(
        FunctionSpan(
            qualname=function.qualname,
            first_line=first_line(function.node),
            def_line=function.node.lineno,
            last_line=function.node.end_lineno or function.node.lineno,
            decorated=function.mark is not None,
            parent=function.parent,
        )
        for function in found
    ) + tuple(_outer_lambdas(tree))


def anchors(text: str, spec: FunctionSpec) -> tuple[Anchor, ...]:
    """Where hints of a function may stand: one per statement, on its first line, or per line with several.

    A compound statement counts with its header; a nested definition with its own statements.
    """
    for node in ast.walk(parse(text)):
        if isinstance(node, Function) and node.lineno == spec.def_line:
            found = statements(node.body)
            return tuple(
                Anchor(row.line, max(found[index].header_end for index in row), len(row)) for row in rows(found)
            )
    return ()


def parse(text: str) -> ast.Module:
    """Syntax tree of a text, or SourceError with a sentence and the line."""
    try:
        with warnings.catch_warnings():
            # Invalid escapes and the like are for the user's own interpreter to report.
            warnings.simplefilter("ignore")
            return ast.parse(text.removeprefix("\ufeff"))
    except SyntaxError as error:
        at = f"line {error.lineno}: " if error.lineno else ""
        raise SourceError(f"{at}{error.msg}", error.lineno) from error
    except RecursionError as error:
        raise SourceError(TOO_DEEP) from error
    except (ValueError, MemoryError) as error:
        raise SourceError(f"the file cannot be parsed: {str(error) or 'it is too complex'}") from error


def find(bodies: Iterable[tuple[Sequence[ast.stmt], int]], modules: Sequence[str], package: str) -> list[Found]:
    """Every function of a module, decorated or not, in source order, outer before inner.

    bodies: the module's statements in pieces, each with the number of lines before it, which the positions of
    its nodes leave out. Raises SourceError where the code is nested too deeply.
    """
    try:
        return _Functions(bodies, _Decorators(modules, package)).found
    except RecursionError as error:
        raise SourceError(TOO_DEEP) from error


def spelling(bodies: Iterable[tuple[Sequence[ast.stmt], int]], modules: Sequence[str], package: str) -> str:
    """How a module writes the decorator by what it has imported; empty where it has not."""
    decorators = _Decorators(modules, package)
    names = _Functions(bodies, decorators).module.names
    own = [name for name, values in names.items() if _IS_DECORATOR in values]
    if DECORATOR in own:
        return DECORATOR
    members = (
        f"{name}.{DECORATOR}"
        for name, values in names.items()
        if any(_IS_DECORATOR in decorators.member(module, DECORATOR) for module in values)
    )
    # Another name may stand for the decorator with options, which are of other functions.
    return next(members, own[0] if own else "")


def spec_of(function: Found, mark: ast.expr, lines: Sequence[str]) -> FunctionSpec:
    """The spec of a function that mark decorates, in the lines of the whole text."""
    node, offset = function.node, function.offset
    column, end_column = _name_columns(node, lines[node.lineno + offset - 1])
    return FunctionSpec(
        qualname=function.qualname,
        kind=_kind(function),
        decorator_line=mark.lineno + offset,
        first_line=first_line(node) + offset,
        def_line=node.lineno + offset,
        last_line=(node.end_lineno or node.lineno) + offset,
        name_column=column,
        name_end_column=end_column,
        input_sets=_input_sets(mark),
    )


@dataclass(slots=True)
class _Scope:
    """Names of one module, class or function body and what they may be bound to."""

    prefix: str
    outer: _Scope | None = None
    is_class: bool = False
    # Index of the enclosing function among the found ones.
    function: int | None = None
    names: dict[str, frozenset[str]] = field(default_factory=dict)

    def lookup(self, name: str) -> frozenset[str]:
        if name in self.names:
            return self.names[name]
        outer = self.outer
        # Names of a class body are not seen from the functions inside it.
        while outer is not None and outer.is_class:
            outer = outer.outer
        return outer.lookup(name) if outer is not None else frozenset()


# What a name may be bound to: the decorator itself, or a module, by its dotted name.
_IS_DECORATOR = "@"


class _Decorators:
    """Which expressions are the decorator, by the imports that lead to it."""

    def __init__(self, modules: Sequence[str], package: str) -> None:
        # The decorator also lives in a module of its own, and people spell that out.
        own = (f"{name}.decorator" for name in modules if name == DEFAULT_MODULES[0])
        self.modules = frozenset((*modules, *own))
        self.package = package

    def evaluate(self, node: ast.expr, scope: _Scope) -> frozenset[str]:
        match node:
            case ast.Name(id=name):
                return scope.lookup(name)
            case ast.Attribute(value=value, attr=attr):
                found: set[str] = set()
                for module in self.evaluate(value, scope) - {_IS_DECORATOR}:
                    found |= self.member(module, attr)
                return frozenset(found)
            case ast.Call(func=func, args=args):
                if _IS_DECORATOR in self.evaluate(func, scope):
                    # Called with a function it gives that function back; called with options, a decorator.
                    return frozenset() if args else frozenset({_IS_DECORATOR})
                if args and _last_name(func) == "partial":
                    return self.evaluate(args[0], scope) & {_IS_DECORATOR}
                return frozenset()
            case ast.IfExp(body=first, orelse=second):
                return self.evaluate(first, scope) | self.evaluate(second, scope)
            case ast.BoolOp(values=values):
                return frozenset().union(*(self.evaluate(value, scope) for value in values))
            case ast.NamedExpr(value=value):
                return self.evaluate(value, scope)
        return frozenset()

    def member(self, module: str, name: str) -> frozenset[str]:
        """What module.name is: the decorator, a module on the way to one that exports it, or neither."""
        if name == DECORATOR and module in self.modules:
            # In "import profile_neuron.decorator" the package's own name is also the function's.
            return frozenset({_IS_DECORATOR})
        return self.module(f"{module}.{name}")

    def module(self, dotted: str) -> frozenset[str]:
        leads = any(known == dotted or known.startswith(f"{dotted}.") for known in self.modules)
        return frozenset({dotted}) if leads else frozenset()

    def absolute(self, node: ast.ImportFrom) -> str:
        """Dotted name of the module that a from-import names; empty where it cannot be known."""
        if not node.level:
            return node.module or ""
        parts = self.package.split(".") if self.package else []
        if node.level > len(parts):
            return ""
        base = parts[: len(parts) - node.level + 1]
        return ".".join([*base, node.module] if node.module else base)


@dataclass(slots=True)
class Found:
    """One function, decorated or not."""

    node: Function
    # Lines before the piece of the text that the node's own lines count from.
    offset: int
    qualname: str
    # Index of the enclosing function among the found ones.
    parent: int | None
    in_class: bool
    # The decorator expression that is ours.
    mark: ast.expr | None


class _Functions:
    """Every function of a module in source order, each with the decorator expression that marks it."""

    def __init__(self, bodies: Iterable[tuple[Sequence[ast.stmt], int]], decorators: _Decorators) -> None:
        self.found: list[Found] = []
        self._decorators = decorators
        self._offset = 0
        # Its names are what they are at the end.
        self.module = _Scope("")
        pending: list[tuple[Function, _Scope]] = []
        for body, self._offset in bodies:
            self._run(body, self.module, pending)
        # A function's body runs later than the code around it and sees the names as they are then.
        while pending:
            node, scope = pending.pop()
            assert scope.function is not None
            self._offset = self.found[scope.function].offset
            self._run(node.body, scope, pending)
        self._sort()

    def _run(self, body: Iterable[ast.stmt], scope: _Scope, pending: list[tuple[Function, _Scope]]) -> None:
        for node in body:
            match node:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    self._function(node, scope, pending)
                case ast.ClassDef(name=name, body=inner):
                    self._run(inner, _Scope(f"{scope.prefix}{name}.", scope, True, scope.function), pending)
                    scope.names[name] = frozenset()
                case ast.Import(names=names):
                    for alias in names:
                        bound = alias.asname or alias.name.partition(".")[0]
                        scope.names[bound] = self._decorators.module(alias.name if alias.asname else bound)
                case ast.ImportFrom(names=names):
                    self._import_from(node, names, scope)
                case ast.If(body=first, orelse=second) | ast.While(body=first, orelse=second):
                    self._branches([[*first], [*second]], scope, pending)
                case (
                    ast.For(target=target, body=first, orelse=second)
                    | ast.AsyncFor(target=target, body=first, orelse=second)
                ):
                    _forget(target, scope)
                    self._branches([[*first], [*second]], scope, pending)
                case ast.With(items=items, body=inner) | ast.AsyncWith(items=items, body=inner):
                    for item in items:
                        if item.optional_vars is not None:
                            _forget(item.optional_vars, scope)
                    self._run(inner, scope, pending)
                case ast.Match(cases=cases):
                    self._branches([*(case.body for case in cases), []], scope, pending)
                case ast.Assign(targets=targets, value=value):
                    for target in targets:
                        self._assign(target, value, scope)
                case ast.AnnAssign(target=target, value=ast.expr() as value):
                    self._assign(target, value, scope)
                case ast.AugAssign(target=target) | ast.Delete(targets=[target]):
                    _forget(target, scope)
                case _ if isinstance(node, _TRIES):
                    self._try(node, scope, pending)

    def _function(self, node: Function, scope: _Scope, pending: list[tuple[Function, _Scope]]) -> None:
        mark = next(
            (item for item in node.decorator_list if _IS_DECORATOR in self._decorators.evaluate(item, scope)),
            None,
        )
        qualname = f"{scope.prefix}{node.name}"
        self.found.append(Found(node, self._offset, qualname, scope.function, scope.is_class, mark))
        inner = _Scope(f"{qualname}.<locals>.", scope, function=len(self.found) - 1)
        arguments = node.args
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            inner.names[argument.arg] = frozenset()
        if _holds_functions(node):
            pending.append((node, inner))
        scope.names[node.name] = frozenset()

    def _import_from(self, node: ast.ImportFrom, names: Iterable[ast.alias], scope: _Scope) -> None:
        module = self._decorators.absolute(node)
        for alias in names:
            if alias.name != "*":
                scope.names[alias.asname or alias.name] = self._decorators.member(module, alias.name)
            elif module in self._decorators.modules:
                scope.names[DECORATOR] = frozenset({_IS_DECORATOR})

    def _assign(self, target: ast.expr, value: ast.expr, scope: _Scope) -> None:
        match target, value:
            case ast.Name(id=name), _:
                scope.names[name] = self._decorators.evaluate(value, scope)
            case (
                (ast.Tuple(elts=left) | ast.List(elts=left)),
                (ast.Tuple(elts=right) | ast.List(elts=right)),
            ) if len(left) == len(right):
                for one, other in zip(left, right, strict=True):
                    self._assign(one, other, scope)
            case _:
                _forget(target, scope)

    def _branches(
        self, bodies: Iterable[list[ast.stmt]], scope: _Scope, pending: list[tuple[Function, _Scope]]
    ) -> None:
        """Run each body from the same start; a name may afterwards be what any of them made it."""
        before = dict(scope.names)
        merged: dict[str, frozenset[str]] = {}
        for body in bodies:
            scope.names = dict(before)
            self._run(body, scope, pending)
            for name, values in scope.names.items():
                merged[name] = merged.get(name, frozenset()) | values
        scope.names = merged

    def _try(self, node: ast.Try, scope: _Scope, pending: list[tuple[Function, _Scope]]) -> None:
        # A handler starts from what the body had done so far, which its own bindings then replace:
        # the usual fallback definition must not hide the import that it stands in for.
        self._run(node.body, scope, pending)
        self._branches([[*node.orelse], *(handler.body for handler in node.handlers)], scope, pending)
        self._run(node.finalbody, scope, pending)

    def _sort(self) -> None:
        """Put functions in source order, outer before inner, and their parents' positions with them."""
        order = sorted(range(len(self.found)), key=lambda index: _position(self.found[index]))
        place = {index: position for position, index in enumerate(order)}
        self.found = [self.found[index] for index in order]
        for function in self.found:
            if function.parent is not None:
                function.parent = place[function.parent]


# except* has a node of its own from Python 3.11 on.
_TRIES = (ast.Try, ast.TryStar) if hasattr(ast, "TryStar") else (ast.Try,)


def _holds_functions(node: Function) -> bool:
    """Whether there are functions inside of a function; kept with the node, which outlives many edits."""
    known: bool | None = getattr(node, "_holds_functions", None)
    if known is None:
        pending: list[ast.AST] = [*node.body]
        known = False
        while pending and not known:
            inner = pending.pop()
            known = isinstance(inner, Function)
            # Functions are statements, and expressions hold no statements.
            pending += (item for item in ast.iter_child_nodes(inner) if not isinstance(item, ast.expr))
        setattr(node, "_holds_functions", known)  # noqa: B010 - the class does not declare it
    return known


def _position(function: Found) -> tuple[int, int]:
    return (function.node.lineno + function.offset, function.node.col_offset)


def _forget(target: ast.expr, scope: _Scope) -> None:
    for node in ast.walk(target):
        if isinstance(node, ast.Name):
            scope.names[node.id] = frozenset()


def _last_name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def _kind(function: Found) -> FunctionKind:
    if isinstance(function.node, ast.AsyncFunctionDef):
        return "async method" if function.in_class else "async function"
    return "method" if function.in_class else "function"


def _input_sets(mark: ast.expr) -> tuple[str, ...]:
    """Names of inputs={...} in a decorator; none where one of them is not written out."""
    keywords = mark.keywords if isinstance(mark, ast.Call) else []
    given = next((item.value for item in keywords if item.arg == "inputs"), None)
    keys = given.keys if isinstance(given, ast.Dict) else []
    names = [key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
    return tuple(dict.fromkeys(names)) if len(names) == len(keys) else ()


def _name_columns(node: Function, text: str) -> tuple[int, int]:
    """Where the name stands on the line of def, in UTF-8 bytes; the tree knows only where def does."""
    line = text.encode("utf-8", "surrogatepass")
    start = node.col_offset
    for keyword in (b"async", b"def"):
        if line.startswith(keyword, start):
            start += len(keyword)
            while line[start : start + 1] in (b" ", b"\t", b"\f"):
                start += 1
    # The compiler normalises identifiers, so the text may be longer or shorter than node.name.
    name = re.match(r"\w*", line[start:].decode("utf-8", "replace"))
    return start, start + len(name.group().encode()) if name else start


def _outer_lambdas(tree: ast.Module) -> Iterator[FunctionSpan]:
    """Lambdas that no function's body contains; those in its decorators and defaults run outside of it."""
    pending: list[tuple[ast.AST, str]] = [(tree, "")]
    while pending:
        node, prefix = pending.pop()
        if isinstance(node, ast.Lambda):
            last = node.end_lineno or node.lineno
            yield FunctionSpan(f"{prefix}<lambda>", node.lineno, node.lineno, last, False, None)
            continue
        if isinstance(node, ast.ClassDef):
            prefix = f"{prefix}{node.name}."
        if isinstance(node, Function):
            pending += [(child, prefix) for child in (*node.decorator_list, node.args)]
        else:
            pending += [(child, prefix) for child in ast.iter_child_nodes(node)]
