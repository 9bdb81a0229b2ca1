"""How far the times of equal code lie apart, and what of that the comparison of results would have told.

Functions are run many times by the real agent, each in turn with one of which a line does 1.5 times the work. Then
runs of equal code are compared as if that line had been edited, next to each other and as far apart as they go, and the
slower ones with the others; by several rules, and by fewer calls than there were. The times of all calls can be kept in
a file, so that another rule is tried on the same ones.

Run it: python tests/bench/bench_noise.py [--rounds N] [--repeats N] [--calls FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import math
import os
import shutil
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from profile_neuron.capture.line_log import read_line_log, read_record
from profile_neuron.capture.operator_table import read_operator_table
from profile_neuron.core import run_folder
from profile_neuron.core.anchor import anchor, row_costs
from profile_neuron.core.attribution import attribute, fastest, fastest_spread
from profile_neuron.core.compare import compare, is_slower, is_told
from profile_neuron.core.discovery import DEFAULT_MODULES
from profile_neuron.core.model import Result
from profile_neuron.core.outline import outline
from profile_neuron.core.placing import Calls
from profile_neuron.core.plain import from_plain, to_plain
from profile_neuron.daemon.agent_client import AgentClient
from profile_neuron.daemon.hosts import LocalHost
from profile_neuron.daemon.results import result_of
from profile_neuron.daemon.scheduler import FunctionId
from profile_neuron.wire.messages import Limits, RunDone, RunFailed, RunRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from profile_neuron.core.model import Comparison, LineCosts
    from profile_neuron.core.outline import FunctionOutline

# One line multiplies several times, in the slower functions 1.5 times as often.
SOURCE = """\
import torch
from profile_neuron import profile_neuron

torch.set_num_threads(1)

def tensors(rows, columns):
    torch.manual_seed(0)
    return torch.randn(rows, columns), torch.randn(columns, columns)

def small():
    return tensors(96, 64)

def large():
    return tensors(256, 512)
"""
FUNCTION = """
@profile_neuron(inputs={inputs})
def {name}(x, w):
    a = x @ w
    b = torch.softmax(a, -1)
    c = b * x + a
    d = torch.tanh(c)
    e = torch.stack([d @ w for _ in range({times})])
    f = e.sum(0)
    g = d + f.mean()
    return torch.layer_norm(g, g.shape[-1:])
"""
SLOWER_LINE = 4
KINDS = ("small", "large")
PLAIN, SLOWER = 4, 6


@dataclass(frozen=True, slots=True)
class Run:
    """One run with what each of its calls took."""

    result: Result
    # By the start of a row.
    row_ns: dict[int, list[int]]
    total_ns: list[int]


@dataclass(frozen=True, slots=True)
class Rule:
    """What of several calls is compared, and how far that may be from what another run gives."""

    name: str
    time_ns: Callable[[Sequence[int]], float | None]
    spread_ns: Callable[[Sequence[int]], float | None]


def gap_to_next(values: Sequence[int]) -> float:
    first, second, *_ = sorted(values)
    return second - first


def absolute_deviation(values: Sequence[int]) -> float:
    middle = statistics.median(values)
    return 1.4826 * statistics.median(abs(value - middle) for value in values)


RULES = (
    Rule("average, deviation", statistics.mean, statistics.stdev),
    Rule("average, deviation by root of n", statistics.mean, lambda v: statistics.stdev(v) / math.sqrt(len(v))),
    Rule("median, absolute deviation", statistics.median, absolute_deviation),
    Rule("fastest, gap to the next", min, gap_to_next),
    Rule("fastest, as it is", fastest, fastest_spread),
)


def main() -> None:
    """Measure, then print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=60, metavar="N", help="runs of each function (60)")
    parser.add_argument("--repeats", type=int, default=50, metavar="N", help="calls in a run (50)")
    parser.add_argument("--calls", type=Path, metavar="FILE", help="where the times are kept, and read if it exists")
    arguments = parser.parse_args()
    if arguments.calls is not None and arguments.calls.exists():
        runs = [read(line) for line in arguments.calls.read_text().splitlines()]
    else:
        runs = asyncio.run(measure(arguments.rounds, arguments.repeats))
        print(f"{len(runs)} runs, {os.cpu_count()} CPUs, load {os.getloadavg()[1]:.1f} in the last 5 minutes")
        if arguments.calls is not None:
            arguments.calls.write_text("".join(f"{written(item)}\n" for item in runs))
    calls = len(runs[0].total_ns)
    for kind in KINDS:
        plain, slower = ([run for run in runs if run.result.qualname == f"{kind}_{times}"] for times in (PLAIN, SLOWER))
        for count in sorted({min(5, calls), min(25, calls), calls}):
            print_kind(kind, count, plain, slower)


def written(run: Run) -> str:
    """A run as a line of the file."""
    return json.dumps({"result": to_plain(run.result), "row_ns": run.row_ns, "total_ns": run.total_ns})


def read(line: str) -> Run:
    """A run from a line of the file."""
    plain = json.loads(line)
    row_ns = {int(start): values for start, values in plain["row_ns"].items()}
    return Run(from_plain(Result, plain["result"]), row_ns, plain["total_ns"])


async def measure(rounds: int, repeats: int) -> list[Run]:
    """Runs of each function in turn."""
    runs = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "noise.py")
        names = [(kind, times) for kind in KINDS for times in (PLAIN, SLOWER)]
        path.write_text(
            SOURCE + "".join(FUNCTION.format(inputs=kind, name=f"{kind}_{times}", times=times) for kind, times in names)
        )
        client = await AgentClient.start(LocalHost(sys.executable))
        try:
            for number in range(rounds):
                for function in outline(path.read_text()).functions:
                    runs.append(await run(client, path, function, f"bench-{os.getpid()}-{number}", repeats))
        finally:
            await client.close()
    return runs


async def run(client: AgentClient, path: Path, function: FunctionOutline, run_id: str, repeats: int) -> Run:
    """One run. Ends the benchmark where it gives no result."""
    text = path.read_text()
    spec = function.spec
    request = RunRequest(
        run_id=f"{run_id}-{spec.qualname}",
        path=str(path),
        sha256=hashlib.sha256(text.encode()).hexdigest(),
        qualname=spec.qualname,
        first_line=spec.first_line,
        def_line=spec.def_line,
        repeats=repeats,
        device="cpu",
        decorator_modules=tuple(DEFAULT_MODULES),
        project_roots=(str(path.parent),),
        cwd=str(path.parent),
        limits=Limits(300.0, 120.0),
        keep=True,
    )
    async for message in client.run(request):
        match message:
            case RunDone(costs=costs, run_folder=kept):
                function_id = FunctionId(str(path), spec.qualname, 0)
                made = result_of(function_id, run_id, time.time(), "", function, outline(text), costs, ())
                of_calls = list(each_call(Path(kept)))
                shutil.rmtree(kept)
                by_start = [
                    {row.start: row.total_ns for row in row_costs(call.functions[0], function)} for call in of_calls
                ]
                return Run(
                    made,
                    {row.start: [call.get(row.start, 0) for call in by_start] for row in made.rows},
                    [call.functions[0].host_ns or 0 for call in of_calls],
                )
            case RunFailed(failure=failure):
                raise SystemExit(f"{spec.qualname} failed: {failure.reason}")
    raise SystemExit("the agent ended a run without its result")


def each_call(folder: Path) -> Iterator[LineCosts]:
    """What each call would have given alone."""
    record = read_record((folder / run_folder.RECORD).read_bytes())
    log = read_line_log((folder / run_folder.LINES).read_bytes())
    trace = read_operator_table((folder / run_folder.OPERATORS).read_bytes()).trace
    calls = Calls(trace.events)
    for number in range(len(calls)):
        events = tuple(event for event in trace.events if calls.at(event.start_ns) == number)
        yield attribute(record, replace(trace, events=events), log)


def print_kind(kind: str, count: int, plain: Sequence[Run], slower: Sequence[Run]) -> None:
    """What would have been told of one function by the first calls of its runs."""
    fastest_ns = sorted(min(run.total_ns[:count]) for run in plain)
    spreads = [statistics.stdev(run.total_ns[:count]) / statistics.mean(run.total_ns[:count]) for run in plain]
    print(
        f"\n{kind}, {count} calls: fastest {fastest_ns[0] / 1000:.0f} to {fastest_ns[-1] / 1000:.0f} µs, "
        f"deviation between calls {100 * statistics.median(spreads):.0f} %"
    )
    print(f"  {'':<34}{'without drift':^40}{'with drift':^40}")
    print(f"  {'':<34}{2 * '   equal lines   total   found  others':}")
    half = len(plain) // 2
    for rule in RULES:
        cells = ""
        for has_drift in (False, True):
            equal = [
                told(rule, count, same[number], same[(number + step) % len(same)], has_drift)
                for same in (plain, slower)
                for number in range(len(same))
                for step in (1, half)
            ]
            edited = [told(rule, count, before, now, has_drift) for before, now in zip(plain, slower, strict=True)]
            lines = [is_told(row.change) for item in equal for row in item.rows if row.change is not None]
            totals = [item.total is not None and is_told(item.total) for item in equal]
            found = [
                row.start == SLOWER_LINE and is_slower(row.change)
                for item in edited
                for row in item.rows
                if row.start == SLOWER_LINE and row.change is not None
            ]
            others = [
                is_told(row.change)
                for item in edited
                for row in item.rows
                if row.start != SLOWER_LINE and row.change is not None
            ]
            cells += f"{share(lines):>14}{share(totals):>8}{share(found):>8}{share(others):>8}  "
        print(f"  {rule.name:<34}{cells}".rstrip())


def told(rule: Rule, count: int, before: Run, now: Run, has_drift: bool) -> Comparison:
    """Two runs as they would be compared after an edit of the one line."""
    result, baseline = (by_rule(rule, count, run) for run in (now, before))
    statements = (*baseline.statements[:SLOWER_LINE], "another", *baseline.statements[SLOWER_LINE + 1 :])
    # What other code of the module may have changed is no measure of the machine.
    module_code = baseline.module_code if has_drift else ""
    baseline = replace(baseline, statements=statements, module_code=module_code)
    return compare(result, baseline, anchor(result, function_of(result)), "previous", [result], [baseline])


def by_rule(rule: Rule, count: int, run: Run) -> Result:
    """The result of the first calls of a run, with what a rule makes of them."""

    def figures(values: Sequence[int]) -> dict[str, int | None]:
        time_ns, spread_ns = rule.time_ns(values[:count]), rule.spread_ns(values[:count])
        return {
            "fastest_ns": None if time_ns is None else round(time_ns),
            "fastest_spread_ns": None if spread_ns is None else round(spread_ns),
        }

    rows = tuple(replace(row, **figures(run.row_ns[row.start])) for row in run.result.rows)
    return replace(run.result, rows=rows, costs=replace(run.result.costs, **figures(run.total_ns)))


def function_of(result: Result) -> FunctionOutline:
    kind, times = result.qualname.split("_")
    if result.qualname not in _functions:
        text = SOURCE + FUNCTION.format(inputs=kind, name=result.qualname, times=times)
        _functions[result.qualname] = outline(text).functions[0]
    return _functions[result.qualname]


_functions: dict[str, FunctionOutline] = {}


def share(told: Sequence[bool]) -> str:
    return f"{100 * sum(told) / len(told):.1f} %"


if __name__ == "__main__":
    main()
