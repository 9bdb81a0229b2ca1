"""Where a function reads a clock of the host without having waited for the device: what it gets is no device time."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

_CLOCKS = {
    "default_timer", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time", "process_time_ns",
    "time", "time_ns",
}  # fmt: skip
_CLOCK_MODULES = {"time", "timeit"}
# Calls that come back only when the device has done what was started.
_WAITS = {"cpu", "item", "numpy", "synchronize", "tolist"}


def unsynchronised(source: str, first_line: int, last_line: int, started: Container[int]) -> Iterator[tuple[int, str]]:
    """Line and name of each clock that is read after the device was started and before anything waited for it.

    started: lines on which the device is started. The first reading of a function is none, since nothing of it was
    started before; nothing is told of a source that does not parse.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return
    names = _imported(tree)
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and first_line <= node.lineno <= last_line and _name(node.func)
    ]
    events = sorted((call.lineno, call.col_offset, call) for call in calls if _kind(call, names))
    since: int | None = None
    for line, _, call in events:
        if _kind(call, names) == "wait":
            # Nothing before it is still on.
            since = None if since is None else line
            continue
        if since is not None and any(number in started for number in range(since + 1, line)):
            yield line, f"{_name(call.func)}()"
        since = line


def _kind(call: ast.Call, imported: Container[str]) -> str:
    name = _name(call.func)
    module, _, last = name.rpartition(".")
    if last in _WAITS and module:
        return "wait"
    is_clock = last in imported if not module else module in _CLOCK_MODULES and last in _CLOCKS
    return "clock" if is_clock else ""


def _imported(tree: ast.Module) -> set[str]:
    """Names of clocks that the file imports by themselves."""
    return {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in _CLOCK_MODULES
        for alias in node.names
        if alias.name in _CLOCKS
    }


def _name(node: ast.expr) -> str:
    """A dotted name as it is written; of another expression the attribute alone, with a dot before it."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        outer = _name(node.value)
        return f"{outer or '?'}.{node.attr}"
    return ""
