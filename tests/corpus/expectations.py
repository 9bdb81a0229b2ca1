"""Expected operators of the corpus, written by hand as comments, and their comparison with a result.

A comment names the top-level operators that one call runs on its line: "#: mul add*2". "@+1" and "@-1" before
a name count it for a line further down or up, where no comment can stand. "raises" says that the call ends
here with an error. In a function that is not decorated, the counts are those of one entry.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from profile_neuron.core.model import FunctionCosts, FunctionSpec, LineCosts

# An operator and the line that it is expected on, or was found on.
Placed = tuple[str, int]

_MARK = "#:"
_RAISES = "raises"
_TOKEN = re.compile(r"@(?P<offset>[+-]\d+)|(?P<name>\w+)(?:\*(?P<count>\d+))?")


@dataclass(frozen=True)
class Expectations:
    """The comments of one file."""

    operators: dict[Placed, int]
    # Lines on which a call ends with an error.
    raises: frozenset[int]

    @property
    def lines(self) -> frozenset[int]:
        """Lines that are expected to have operators."""
        return frozenset(line for _, line in self.operators)

    def within(self, first: int, last: int) -> Counter[Placed]:
        """Operators of one call of the function between two lines."""
        return Counter({key: count for key, count in self.operators.items() if first <= key[1] <= last})


def read(path: Path) -> Expectations:
    """Expectations of a file. Raises ValueError, with the line, for a comment that cannot be read."""
    operators: Counter[Placed] = Counter()
    raises = set()
    for line, text in _comments(path):
        offset = 0
        for word in text.split():
            match = _TOKEN.fullmatch(word)
            if match is None:
                raise ValueError(f"{path.name}:{line}: {word!r} is not an expectation")
            if match["offset"]:
                offset = int(match["offset"])
            elif match["name"] == _RAISES:
                raises.add(line + offset)
            else:
                operators[f"aten::{match['name']}", line + offset] += int(match["count"] or 1)
    return Expectations(dict(operators), frozenset(raises))


def _comments(path: Path) -> Iterator[tuple[int, str]]:
    with path.open("rb") as file:
        source = file.read().decode()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and token.string.startswith(_MARK):
            yield token.start[0], token.string[len(_MARK) :]


class Comparison:
    """Results held against the comments of all files; at the end it tells what no result has covered."""

    def __init__(self, files: dict[Path, Expectations]) -> None:
        self.differences: list[str] = []
        self.functions = 0
        # Of these, how many gave a result to compare.
        self.results = 0
        # Operators expected in one call of each profiled function.
        self.operators = 0
        self._files = {str(path): expected for path, expected in files.items()}
        self._covered: set[tuple[str, int]] = set()

    def fail(self, path: Path, spec: FunctionSpec, reason: str) -> None:
        """A function that gave no result."""
        self._count(str(path), spec.def_line, spec.last_line)
        self.differences.append(f"{path.name}: {spec.qualname}: {reason}")

    def add(self, costs: LineCosts) -> None:
        """The result of one run: the profiled function, and those that it reached."""
        target, *others = costs.functions
        self.results += 1
        self._count(target.path, target.line, target.last_line)
        self._end(target)
        self._operators(target, costs.repeats, costs.repeats)
        for other in others:
            self._operators(other, other.calls or 0, costs.repeats)

    def finish(self) -> list[str]:
        """All differences; an expectation that nothing was compared with is one too."""
        for path, expected in self._files.items():
            for line in sorted(expected.lines):
                if (path, line) not in self._covered:
                    self.differences.append(f"{_name(path)}:{line}: in no result at all")
        return self.differences

    def _count(self, path: str, first: int, last: int) -> None:
        self.functions += 1
        self.operators += sum(self._files[path].within(first, last).values())

    def _end(self, target: FunctionCosts) -> None:
        expected = {line for line in self._files[target.path].raises if target.line <= line <= target.last_line}
        found = {target.frames[0].line} if target.frames else set()
        if expected != found or bool(expected) != (target.state == "failed"):
            self.differences.append(
                f"{_place(target)}: ended as {target.state} at {sorted(found)}, expected at {sorted(expected)} "
                f"({target.reason})"
            )

    def _operators(self, function: FunctionCosts, entries: int, repeats: int) -> None:
        """Compare whole lists, over all calls: each operator with its line, as often as it ran."""
        expected = self._files[function.path].within(function.line, function.last_line)
        wanted = sorted(Counter({key: count * entries for key, count in expected.items()}).elements())
        found = sorted(_found(function, repeats).elements())
        self._covered.update((function.path, line) for _, line in expected)
        if wanted != found:
            self.differences.append(f"{_place(function)}: {_difference(Counter(wanted), Counter(found))}")


def _found(function: FunctionCosts, repeats: int) -> Counter[Placed]:
    # A result gives averages over the calls; over all of them the numbers are whole again.
    return Counter(
        {
            (operator.name, line.line): round(operator.calls * repeats)
            for line in function.lines
            for operator in line.operators
        }
    )


def _difference(wanted: Counter[Placed], found: Counter[Placed]) -> str:
    parts = [_listing(what, extra) for what, extra in (("missing", wanted - found), ("unexpected", found - wanted))]
    return "; ".join(part for part in parts if part)


def _listing(what: str, operators: Counter[Placed]) -> str:
    items = sorted(operators.items(), key=lambda item: (item[0][1], item[0][0]))
    return f"{what} " + ", ".join(f"{name} x{count} on line {line}" for (name, line), count in items) if items else ""


def _place(function: FunctionCosts) -> str:
    return f"{_name(function.path)}:{function.line} {function.qualname}"


def _name(path: str) -> str:
    return path.rpartition("/")[2]
