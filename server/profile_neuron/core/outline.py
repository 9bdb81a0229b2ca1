"""What a file's text holds: its decorated functions, and what each of them depends on within the file."""

from __future__ import annotations

import ast
from collections import Counter
from functools import cached_property, partial
from itertools import accumulate
from typing import TYPE_CHECKING, TypeVar, cast

from profile_neuron.core.discovery import DEFAULT_MODULES, TOO_DEEP, Found, Function, find, spec_of, spelling
from profile_neuron.core.fingerprint import digest, is_idle, write
from profile_neuron.core.model import Dependency
from profile_neuron.core.pieces import Piece, parse_pieces
from profile_neuron.core.statements import BLOCKS, Statement, first_line, inner_blocks, statements
from profile_neuron.core.text import split_lines
from profile_neuron.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from profile_neuron.core.model import FunctionSpec


T = TypeVar("T")


def outline(
    text: str, modules: Sequence[str] = DEFAULT_MODULES, package: str = "", before: Outline | None = None
) -> Outline:
    """The outline of a text. before: that of an earlier text, of which all pieces that stayed are used again.

    Raises SourceError, with the line, where the text does not parse.
    """
    pieces = parse_pieces(text, {} if before is None else {piece.text: piece for piece in before.pieces})
    try:
        for piece in pieces:
            _module_code(piece)
    except RecursionError as error:
        raise SourceError(TOO_DEEP) from error
    return Outline(text, pieces, modules, package)


class Outline:
    """The functions of a text that parses; what is costly is worked out when it is asked for."""

    def __init__(self, text: str, pieces: tuple[Piece, ...], modules: Sequence[str], package: str) -> None:
        self.text = text
        self.lines = split_lines(text)
        self.pieces = pieces
        self._modules, self._package = modules, package
        self._units = _Units(pieces)
        offsets = _offsets(pieces)
        found = find([(piece.body, offset) for piece, offset in zip(pieces, offsets, strict=True)], modules, package)
        self._found = found
        piece_at = dict(zip(offsets, pieces, strict=True))
        counts: Counter[str] = Counter()
        functions = []
        for item in found:
            if item.mark is not None:
                spec = spec_of(item, item.mark, self.lines)
                functions.append(
                    FunctionOutline(
                        self._units, spec, counts[spec.qualname], item, piece_at[item.offset], _outer(item, found)
                    )
                )
                counts[spec.qualname] += 1
        # In source order.
        self.functions: tuple[FunctionOutline, ...] = tuple(functions)
        self._by_name = {(function.spec.qualname, function.occurrence): function for function in functions}

    def function(self, qualname: str, occurrence: int) -> FunctionOutline | None:
        """A decorated function by its qualified name, and which of several with that name it is."""
        return self._by_name.get((qualname, occurrence))

    def unmarked(self, line: int) -> Found | None:
        """The innermost function that a line is in, decorators included, if it is not a decorated one."""
        inside = (item for item in reversed(self._found) if _holds(item, line))
        innermost = next(inside, None)
        return innermost if innermost is not None and innermost.mark is None else None

    @property
    def body(self) -> list[tuple[ast.stmt, int]]:
        """The module's statements, each with the number of lines before it, which its positions leave out."""
        offsets = _offsets(self.pieces)
        return [(node, offset) for piece, offset in zip(self.pieces, offsets, strict=True) for node in piece.body]

    def spelling_at(self, line: int) -> str:
        """How code at a line writes the decorator, by what the module imports above it; empty where it does not."""
        bodies = [
            ([node for node in piece.body if first_line(node) + offset <= line and _is_always_run(node)], offset)
            for piece, offset in zip(self.pieces, _offsets(self.pieces), strict=True)
        ]
        return spelling(bodies, self._modules, self._package)

    @cached_property
    def digest(self) -> str:
        """Of all code of the file."""
        return digest(item for piece in self.pieces for item in _known(piece, "code", partial(_code, piece)))

    @cached_property
    def module_code(self) -> str:
        """Digest of the code outside of functions that an import runs."""
        codes = [_module_code(piece) for piece in self.pieces]
        bound = {name for code in codes for name in code.bound}
        # Where a name is bound to something else as well, it counts which of the two comes last.
        return digest(
            item
            for code in codes
            for item in code.items
            if not item.startswith(_DEFINITION) or item.removeprefix(_DEFINITION) in bound
        )

    def dependencies(self, function: FunctionOutline, reached: Iterable[str] = ()) -> tuple[Dependency, ...]:
        """Functions of the file that a function may depend on, itself left out, sorted by name.

        These are all that it, the module's own code, or one of them mentions by name, and those that a run
        reached, by their qualified names. More than are needed is harmless; one too few would not be.
        """
        names = {*(function.mentions & self._units.names), *self._units.module_names}
        reached_names = {name.split(".<locals>")[0] for name in reached}
        waiting = [unit for unit in self._units.all if not reached_names.isdisjoint((unit.qualname, unit.name))]
        found: dict[str, _Unit] = {}
        seen: set[str] = set()
        while names or waiting:
            if waiting:
                unit = waiting.pop()
                if unit.name not in found:
                    found[unit.name] = unit
                    names |= (unit.facts.names & self._units.names) - seen
            else:
                name = names.pop()
                seen.add(name)
                waiting += self._units.by_name.get(name, ())
                waiting += self._units.special_by_class.get(name, ())
        found = {name: unit for name, unit in found.items() if unit.node is not function.unit}
        return tuple(Dependency(name, unit.facts.digest) for name, unit in sorted(found.items()))

    @property
    def definitions(self) -> list[str]:
        """Digests of what an import executes of the functions: their decorators and the defaults of parameters."""
        found = (
            _known(unit.piece, ("definition", unit.node), partial(_definition, unit.node)) for unit in self._units.all
        )
        return [item for item in found if item]

    def units(self) -> Iterator[tuple[str, str, int, int]]:
        """Name, digest, first and last line of each function that is in no other one."""
        digests = {unit.name: unit.facts.digest for unit in self._units.all}
        return ((name, digests[name], first, last) for name, first, last in self.unit_lines())

    def unit_names(self, lines: Iterable[int]) -> set[str]:
        """Names of the functions, in no other one, that these lines are in."""
        wanted = set(lines)
        return (
            {name for name, first, last in self.unit_lines() if any(first <= line <= last for line in wanted)}
            if wanted
            else set()
        )

    def unit_lines(self) -> Iterator[tuple[str, int, int]]:
        """Name, first and last line of each function that is in no other one."""
        offset = 0
        lines = {}
        for piece in self.pieces:
            lines[id(piece)] = offset
            offset += piece.line_count
        for unit in self._units.all:
            start = lines[id(unit.piece)]
            yield unit.name, first_line(unit.node) + start, (unit.node.end_lineno or unit.node.lineno) + start


class FunctionOutline:
    """One decorated function in a text."""

    def __init__(
        self, units: _Units, spec: FunctionSpec, occurrence: int, found: Found, piece: Piece, outer: Found
    ) -> None:
        self.spec = spec
        # Which of several with the same qualified name, from 0.
        self.occurrence = occurrence
        # The function at module or class level that it is, or is in.
        self.unit = outer.node
        self._units = units
        self._found = found
        self._piece = piece

    @property
    def offset(self) -> int:
        """Lines of the text before the piece that the lines of statements count from."""
        return self._found.offset

    @property
    def parameters(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Names of its parameters without default: those with a position, self of a method included, and others."""
        given = self._found.node.args
        positional = [*given.posonlyargs, *given.args]
        needed = positional[: len(positional) - len(given.defaults)]
        keyword = [name for name, value in zip(given.kwonlyargs, given.kw_defaults, strict=True) if value is None]
        return tuple(argument.arg for argument in needed), tuple(argument.arg for argument in keyword)

    @property
    def statements(self) -> tuple[Statement, ...]:
        """Its statements; their lines count from offset."""
        return self.keep("statements", lambda: statements(self._found.node.body))

    @property
    def tree(self) -> str:
        """Digest of all of it and of the function around it, whose variables it may use."""
        return self._unit_facts.digest

    @property
    def body(self) -> str:
        """Digest of its statements, which a new name leaves unchanged."""
        return self.keep("body", lambda: digest(_nested(self.statements)))

    @property
    def interface(self) -> str:
        """Digest of its signature, its decorators, and the functions that give its inputs."""
        node = self._found.node
        own, names = self.keep("interface", lambda: _interface(node))
        return digest([own, *self._units.digests_of({*names, *self._inputs_names()})])

    @property
    def mentions(self) -> set[str]:
        """Names by which it may reach other functions of the file."""
        qualname = self.spec.qualname.split(".")
        return {*self._unit_facts.names, *self._inputs_names(), *qualname[:-1]}

    def keep(self, key: object, make: Callable[[], T]) -> T:
        """What make gives, worked out once for as long as the text of the function stays."""
        return _known(self._piece, (key, self._found.node), make)

    def same_tree(self, other: FunctionOutline) -> bool:
        """Whether two texts hold the same function, without working out digests where the piece is the same."""
        return self._found.node is other._found.node or self.tree == other.tree

    def _inputs_names(self) -> set[str]:
        """Names by which a worker looks for what the decorator does not give."""
        parts = self.spec.qualname.replace(".<locals>", "").split(".")
        names = {f"{'_'.join(parts)}_inputs", f"{parts[-1]}_inputs"}
        if owner := parts[:-1]:
            names |= {f"{'_'.join(owner)}_instance", f"{owner[-1]}_instance"}
        return names

    @property
    def _unit_facts(self) -> _Facts:
        return _facts(self._piece, self.unit)


class _Facts:
    """What a tree says and mentions."""

    __slots__ = ("digest", "names")

    def __init__(self, node: ast.AST) -> None:
        parts: list[str] = []
        names: set[str] = set()
        write(node, parts, names)
        self.digest = digest(parts)
        self.names = frozenset(names)


class _Units:
    """Functions of a text that are in no other function.

    Apart from the outline, which is then in no cycle: it goes with the edit that replaces it, and not when the
    collector comes.
    """

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._pieces = pieces

    @cached_property
    def by_name(self) -> dict[str, list[_Unit]]:
        """Functions that are in no other function, by the last part of their name."""
        units: dict[str, list[_Unit]] = {}
        counts: Counter[str] = Counter()
        for piece in self._pieces:
            for qualname, node in _module_code(piece).functions:
                name = qualname if not counts[qualname] else f"{qualname} ({counts[qualname] + 1})"
                counts[qualname] += 1
                units.setdefault(node.name, []).append(_Unit(name, qualname, node, piece))
        return units

    @cached_property
    def special_by_class(self) -> dict[str, list[_Unit]]:
        """Special methods, which are called without being named, by the name of their class."""
        found: dict[str, list[_Unit]] = {}
        for name, units in self.by_name.items():
            if name.startswith("__") and name.endswith("__"):
                for unit in units:
                    if "." in unit.qualname:
                        found.setdefault(unit.qualname.split(".")[-2], []).append(unit)
        return found

    @cached_property
    def names(self) -> frozenset[str]:
        """Names by which code may reach a function of the file."""
        return frozenset(self.by_name.keys() | self.special_by_class.keys())

    @cached_property
    def module_names(self) -> frozenset[str]:
        """Those of them that the module's own code mentions."""
        return self.names.intersection(name for piece in self._pieces for name in _module_code(piece).names)

    def digests_of(self, names: Iterable[str]) -> list[str]:
        """Digests of the functions that have one of these names, in the order of the names."""
        return [unit.facts.digest for name in sorted(names) for unit in self.by_name.get(name, ())]

    @cached_property
    def all(self) -> list[_Unit]:
        return [unit for units in self.by_name.values() for unit in units]


class _Unit:
    __slots__ = ("name", "node", "piece", "qualname")

    def __init__(self, name: str, qualname: str, node: Function, piece: Piece) -> None:
        self.name = name
        self.qualname = qualname
        self.node = node
        self.piece = piece

    @property
    def facts(self) -> _Facts:
        return _facts(self.piece, self.node)


# What stands for a function among the items of the code around it.
_DEFINITION = "def "


class _ModuleCode:
    """The code of a piece that is in no function, and the functions that it leaves out."""

    __slots__ = ("bound", "functions", "items", "names")

    def __init__(self, piece: Piece) -> None:
        # Digests of statements, with where blocks begin and end, and the places of functions.
        self.items: list[str] = []
        self.names: set[str] = set()
        # Names that are bound to something else than a function.
        self.bound: set[str] = set()
        self.functions: list[tuple[str, Function]] = []
        self._add(piece.body, "")

    def _add(self, body: Iterable[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, Function):
                self.functions.append((f"{prefix}{node.name}", node))
                self.items.append(f"{_DEFINITION}{node.name}")
            elif is_main_guard(node):
                self._add(cast("ast.If", node).orelse, prefix)
            elif not is_idle(node):
                self._add_code(node, prefix)

    def _add_code(self, node: ast.stmt, prefix: str) -> None:
        parts: list[str] = []
        write(node, parts, self.names, BLOCKS)
        blocks = inner_blocks(node)
        for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
            write(part, parts, self.names, ("body",))
        self.items.append(digest(parts))
        self.bound.update(bound_names(node))
        inner = f"{prefix}{node.name}." if isinstance(node, ast.ClassDef) else prefix
        for name, block in blocks:
            self.items.append(f"{name} {{")
            self._add(block, inner)
            self.items.append("}")


def bound_names(node: ast.stmt) -> Iterator[str]:
    """Names that a statement binds, its blocks left out."""
    if isinstance(node, ast.ClassDef):
        yield node.name
    pending: list[ast.AST] = [node]
    while pending:
        item = pending.pop()
        match item:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                yield name
            case ast.alias(name=name, asname=other):
                yield other or name.partition(".")[0]
        pending += (child for child in ast.iter_child_nodes(item) if not isinstance(child, ast.stmt))


def _known(piece: Piece, key: object, make: Callable[[], T]) -> T:
    found = piece.known.get(key)
    if found is None:
        found = piece.known[key] = make()
    return cast("T", found)


def _facts(piece: Piece, node: Function) -> _Facts:
    return _known(piece, node, lambda: _Facts(node))


def _interface(node: Function) -> tuple[str, frozenset[str]]:
    parts: list[str] = []
    names: set[str] = set()
    write(node, parts, names, ("body", "name", "returns"))
    return digest(parts), frozenset(names)


def _definition(node: Function) -> str:
    """Digest of the expressions of a definition that its own execution evaluates; empty where there are none.

    Annotations are left out unless there is a decorator that could look at them.
    """
    given = node.args
    parts: list[str] = []
    write([*node.decorator_list, *given.defaults, *given.kw_defaults], parts, set())
    if node.decorator_list:
        write(node, parts, set(), ("body", "name"))
    elif not given.defaults and not any(given.kw_defaults):
        return ""
    return digest([node.name, *parts])


def _module_code(piece: Piece) -> _ModuleCode:
    return _known(piece, "module code", lambda: _ModuleCode(piece))


def _code(piece: Piece) -> list[str]:
    """Digests of the statements of a piece, which say nothing of where one piece ends and another begins."""
    found = []
    for node in piece.body:
        if not is_idle(node):
            parts: list[str] = []
            write(node, parts, set())
            found.append(digest(parts))
    return found


def _offsets(pieces: Iterable[Piece]) -> list[int]:
    return list(accumulate((piece.line_count for piece in pieces), initial=0))[:-1]


def _outer(item: Found, found: Sequence[Found]) -> Found:
    while item.parent is not None:
        item = found[item.parent]
    return item


def _holds(item: Found, line: int) -> bool:
    node = item.node
    return first_line(node) <= line - item.offset <= (node.end_lineno or node.lineno)


def _is_always_run(node: ast.stmt) -> bool:
    """Whether an import of the module runs a statement, and not only a type checker or a program."""
    if isinstance(node, ast.If) and "TYPE_CHECKING" in (getattr(node.test, "id", ""), getattr(node.test, "attr", "")):
        return False
    return not is_main_guard(node)


def is_main_guard(node: ast.stmt) -> bool:
    """Whether a statement runs only where the file is the program, which it never is in a worker."""
    match node:
        case ast.If(
            test=ast.Compare(left=ast.Name(id="__name__"), ops=[ast.Eq()], comparators=[ast.Constant(value="__main__")])
        ):
            return True
    return False


def _nested(found: Iterable[Statement]) -> Iterator[str]:
    for statement in found:
        yield f"{statement.depth} {statement.block} {statement.digest}"
