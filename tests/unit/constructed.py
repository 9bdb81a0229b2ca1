"""Results and views made from a text, without a run; texts of real programs; a reformatter that keeps the code."""

from __future__ import annotations

import io
import random
import re
import sysconfig
import tokenize
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profile_neuron.core.anchor import anchor
from profile_neuron.core.compare import whole_ns
from profile_neuron.core.model import (
    Change,
    Comparison,
    Failure,
    Frame,
    FunctionCosts,
    FunctionSpec,
    FunctionView,
    LineCost,
    LineCosts,
    ModuleDependency,
    OperatorCalls,
    RemovedRow,
    Result,
    RowChange,
    RowCost,
    ShownRow,
    Toolchain,
)
from profile_neuron.core.outline import Outline, outline
from profile_neuron.core.statements import rows
from profile_neuron.daemon.results import result_of
from profile_neuron.daemon.scheduler import FunctionId

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from profile_neuron.core.model import BaselineChoice

ROOT = Path(__file__).parent.parent.parent
PATH = "/p/m.py"
IMPORT = "from profile_neuron import profile_neuron\n"
TOOLCHAIN = Toolchain("3.11.7", "/p/.venv/bin/python", "/p/lib", "2.13.0", "cpu", "cpu (x)", "settrace")
MADE_WITH = "circumstances"

MS = 1_000_000


def costs_of(
    ns_by_line: Mapping[int, int], qualname: str = "f", reached: Iterable[str] = (), **changes: Any
) -> LineCosts:
    """Costs of a function whose lines take these times, and of functions that it reached, in the same file."""
    lines = tuple(
        LineCost(line, ns, ns, 0, (OperatorCalls("aten::add", 1.0),), ns, 0) for line, ns in sorted(ns_by_line.items())
    )
    target = FunctionCosts(
        path=PATH,
        qualname=qualname,
        name=None,
        line=1,
        last_line=1,
        decorated=True,
        state="fresh",
        reason=None,
        frames=(),
        calls=5,
        device_ns=None,
        host_ns=sum(ns_by_line.values()),
        unattributed_ns=0,
        spread_ns=None,
        lines=lines,
        shared=(),
        operators=(),
        warnings=(),
        provenance="made up",
        fastest_ns=sum(ns_by_line.values()),
    )
    target = replace(target, **changes)
    others = tuple(replace(target, qualname=name, decorated=False) for name in reached)
    return LineCosts("cpu", "cpu (x)", TOOLCHAIN, "none needed", 3, 5, (target, *others), (), ())


def result(
    text: str,
    qualname: str = "f",
    occurrence: int = 0,
    ns_by_line: Mapping[int, int] | None = None,
    reached: Iterable[str] = (),
    finished_s: float = 1000.0,
    modules: tuple[ModuleDependency, ...] = (),
    **changes: Any,
) -> Result:
    """The result of a run of a function as it is in a text; by default each row takes a ms times its line."""
    found = outline(text)
    function = found.function(qualname, occurrence)
    assert function is not None
    if ns_by_line is None:
        ns_by_line = {
            row.line + function.offset: (row.line + function.offset) * MS for row in rows(function.statements)
        }
    made = result_of(
        FunctionId(PATH, qualname, occurrence),
        f"run {finished_s}",
        finished_s,
        MADE_WITH,
        function,
        found,
        costs_of(ns_by_line, qualname, reached),
        modules,
    )
    return replace(made, **changes)


def shown(made: Result, text: str | Outline, qualname: str = "f", occurrence: int = 0) -> tuple[ShownRow, ...]:
    """The rows of a result in another text."""
    found = outline(text) if isinstance(text, str) else text
    function = found.function(qualname, occurrence)
    assert function is not None
    return anchor(made, function)


SPEC = FunctionSpec("f", "function", 2, 2, 3, 9, 4, 5)


def row(line: int, ns: int, calls: float = 1.0, shared: tuple[int, ...] = (), self_ns: int | None = None) -> ShownRow:
    """A row with one operator; none for no calls."""
    operators = (OperatorCalls("aten::add", calls),) if calls else ()
    return ShownRow(line, RowCost(0, 1, ns if self_ns is None else self_ns, ns, None, operators), shared)


def view(
    ns: int | None = None,
    rows: Sequence[ShownRow] = (),
    state: str = "fresh",
    device: str = "cpu",
    finished_s: float = 1000.0,
    costs: Mapping[str, Any] | None = None,
    **changes: Any,
) -> FunctionView:
    """A view of a function that takes ns, or that has no result for None."""
    made = None
    if ns is not None:
        base = result(f"{IMPORT}@profile_neuron\ndef f(x):\n    return x\n", finished_s=finished_s)
        times: dict[str, Any] = {"host_ns": ns, "device_ns": ns if device == "neuron" else None}
        times["measure"] = "device" if device == "neuron" else "host"
        made = replace(
            base,
            device_kind="neuron" if device == "neuron" else "cpu",
            costs=replace(base.costs, **{**times, **(costs or {})}),
        )
    base_view = FunctionView(
        spec=SPEC,
        occurrence=0,
        state="fresh",
        result=made,
        is_current=state == "fresh",
        reasons=(),
        inputs_changed=False,
        rows=tuple(rows),
    )
    return replace(base_view, **{"state": state, **changes})


def beside(
    shown: FunctionView,
    previous_ns: int | None,
    rows: Mapping[int, tuple[int, float | None] | None] | None = None,
    choice: BaselineChoice = "previous",
    noise: float | None = 0.021,
    was: Mapping[int, str] | None = None,
    removed: Sequence[RemovedRow] = (),
    finished_s: float = 900.0,
) -> FunctionView:
    """A view compared with a result that took previous_ns, or for None with none.

    rows: by the line of a row its time then and its noise, or None for a new one. Its rows get starts of their own.
    """
    assert shown.result is not None
    at = {row.line: index for index, row in enumerate(shown.rows)}
    numbered = tuple(replace(row, cost=replace(row.cost, start=at[row.line])) for row in shown.rows)
    if previous_ns is None:
        return replace(shown, comparison=Comparison(choice, None, "no earlier result of other code"))
    changes = []
    for line, then in (rows or {}).items():
        change = even_change(then[0], shown.rows[at[line]].cost.total_ns, then[1]) if isinstance(then, tuple) else None
        changes.append(RowChange(at[line], change, (was or {}).get(line, "")))
    compared = Comparison(
        choice,
        replace(shown.result, finished_s=finished_s),
        "",
        even_change(previous_ns, whole_ns(shown.result), noise),
        tuple(sorted(changes, key=lambda item: item.start)),
        tuple(removed),
    )
    return replace(shown, rows=numbered, comparison=compared)


def even_change(previous_ns: int, ns: int, noise: float | None) -> Change:
    """A change between runs whose calls all took the same time."""
    return Change(previous_ns, ns, noise, previous_ns, ns)


def failure(reason: str, *lines: int, path: str = PATH) -> Failure:
    return Failure(reason, tuple(Frame(path, line, "f", "x") for line in lines))


def program_texts(every: int, most_bytes: int = 60_000) -> list[tuple[str, str]]:
    """Names and texts of some files of the standard library and of all of this repository; the same ones always."""
    library = Path(sysconfig.get_paths()["stdlib"])
    files = [path for path in sorted(library.rglob("*.py")) if "site-packages" not in path.parts]
    own = [path for folder in ("server", "tests", "samples") for path in sorted((ROOT / folder).rglob("*.py"))]
    found = []
    for path in [*files[::every], *own]:
        source = path.read_bytes()
        if len(source) <= most_bytes:
            found.append((str(path), source.decode("utf-8", "replace")))
    return found


def reformatted(text: str, seed: int = 0) -> str:
    """The same tokens with other line breaks, comments and blank lines between them."""
    choose = random.Random(seed)
    # Not splitlines, which also splits at form feeds.
    lines = re.split(r"(?<=\n)", text)
    insertions: list[tuple[int, int, str]] = []
    depth = 0
    in_text = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        name = tokenize.tok_name[token.type]
        row, column = token.end
        if name.startswith(("FSTRING_START", "TSTRING_START")):
            in_text += 1
        elif name.startswith(("FSTRING_END", "TSTRING_END")):
            in_text -= 1
        elif in_text:
            continue
        elif token.type == tokenize.OP:
            depth += (token.string in "([{") - (token.string in ")]}")
            if depth and token.string in "([{,+-*/" and choose.random() < 0.5:
                insertions.append((row, column, choose.choice([" # ( comment\n", "\n", "\n\n   ", "  "])))
            elif choose.random() < 0.3 and token.string == "=":
                insertions.append((row, column, "   "))
        elif token.type == tokenize.NEWLINE and lines[row - 1].endswith("\n"):
            insertions.append(
                (row, len(lines[row - 1]), choose.choice(["", "\n", "        # a comment\n", "# def g():\n"]))
            )
    for row, column, addition in sorted(insertions, reverse=True):
        line = lines[row - 1]
        lines[row - 1] = line[:column] + addition + line[column:]
    return "".join(lines)
