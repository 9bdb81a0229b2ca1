"""How far the times of equal code lie apart, and what of that the comparison of results would have told.

Functions are run many times by the real agent, each in turn with one of which a line does 1.5 times the work. Results
of equal code are then compared as if they were of different code, next to each other and as far apart as they go, by
parts of the rule; and the slower ones are compared with the others.

Run it: python tests/bench/bench_noise.py [--rounds N] [--repeats N]
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import os
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from profile_neuron.core.anchor import anchor
from profile_neuron.core.compare import compare, is_slower, is_told
from profile_neuron.core.discovery import DEFAULT_MODULES
from profile_neuron.core.outline import outline
from profile_neuron.daemon.agent_client import AgentClient
from profile_neuron.daemon.hosts import LocalHost
from profile_neuron.daemon.results import result_of
from profile_neuron.daemon.scheduler import FunctionId
from profile_neuron.wire.messages import Limits, RunDone, RunFailed, RunRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from profile_neuron.core.model import Change, Comparison, Result
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
class Rule:
    """A part of what decides whether a difference is told."""

    name: str
    # By what the deviations between the calls are multiplied; None for the root of their number, as of an average.
    spread: float | None = 1.0
    without_drift: bool = False
    # How many results of each of the two are known.
    known: int = 1


RULES = (
    Rule("3 % and 5 µs alone", spread=0.0, without_drift=True),
    Rule("and twice the spread of the average", spread=None, without_drift=True),
    Rule("and twice the spread", without_drift=True),
    Rule("and three runs of either known", without_drift=True, known=3),
    Rule("and the drift, three runs", known=3),
    Rule("spread and drift, one run of either"),
    Rule("spread of the average and drift", spread=None),
)


def main() -> None:
    """Measure, then print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=100, metavar="N", help="runs of each function (100)")
    parser.add_argument("--repeats", type=int, default=5, metavar="N", help="calls in a run (5)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "noise.py")
        functions = [
            FUNCTION.format(inputs=kind, name=f"{kind}_{times}", times=times)
            for kind in KINDS
            for times in (PLAIN, SLOWER)
        ]
        path.write_text(SOURCE + "".join(functions))
        results = asyncio.run(measure(path, arguments.rounds, arguments.repeats))
    print(f"{arguments.rounds} runs of {arguments.repeats} calls, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}")
    for kind in KINDS:
        print_kind(kind, results[f"{kind}_{PLAIN}"], results[f"{kind}_{SLOWER}"])


async def measure(path: Path, rounds: int, repeats: int) -> dict[str, list[Result]]:
    """Results by function, in the order of the rounds."""
    text = path.read_text()
    found = outline(text)
    results: dict[str, list[Result]] = {function.spec.qualname: [] for function in found.functions}
    client = await AgentClient.start(LocalHost(sys.executable))
    try:
        for number in range(rounds):
            for function in found.functions:
                made = await run(client, path, text, function, f"{number}-{function.spec.qualname}", repeats)
                results[function.spec.qualname].append(made)
    finally:
        await client.close()
    return results


async def run(
    client: AgentClient, path: Path, text: str, function: FunctionOutline, run_id: str, repeats: int
) -> Result:
    """One result. Ends the benchmark where there is none."""
    spec = function.spec
    request = RunRequest(
        run_id=f"bench-{os.getpid()}-{run_id}",
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
    )
    async for message in client.run(request):
        match message:
            case RunDone(costs=costs):
                function_id = FunctionId(str(path), spec.qualname, 0)
                return result_of(function_id, request.run_id, time.time(), "", "", function, outline(text), costs)
            case RunFailed(failure=failure):
                raise SystemExit(f"{spec.qualname} failed: {failure.reason}")
    raise SystemExit("the agent ended a run without its result")


def print_kind(kind: str, plain: Sequence[Result], slower: Sequence[Result]) -> None:
    """What would have been told of one function."""
    totals = sorted(item.costs.host_ns or 0 for item in plain)
    middle = len(totals) // 2
    spreads = sorted((item.costs.spread_ns or 0) / (item.costs.host_ns or 1) for item in plain)
    print(f"\n{kind}: total {totals[0] / 1000:.0f} – {totals[middle] / 1000:.0f} – {totals[-1] / 1000:.0f} µs")
    print(f"  spread of the total between calls: {100 * spreads[middle]:.0f} %, median of the runs")
    print(f"  {'':<38}{'equal, next run':>24}{'equal, far apart':>24}{'1.5 × slower line':>26}")
    print(f"  {'':<38}{'lines  total   none':>24}{'lines  total   none':>24}{'found  other lines':>26}")
    count = len(plain)
    for rule in RULES:
        near = [told(rule, plain, number, plain, number + rule.known) for number in range(count - 2 * rule.known + 1)]
        half = count // 2
        far = [told(rule, plain, number, plain, number + half) for number in range(count - half - rule.known + 1)]
        made = [told(rule, plain, number, slower, number) for number in range(count - rule.known + 1)]
        found = sum(row is not None and is_slower(row) for row in (change_of(item, SLOWER_LINE) for item in made))
        others = [change for item in made for change in changes(item, but=SLOWER_LINE)]
        others_told = sum(map(is_told, others))
        found_text = f"{share(found, len(made))}{share(others_told, len(others)):>10}"
        print(f"  {rule.name:<38}{summary(near):>24}{summary(far):>24}{found_text:>26}")


def told(rule: Rule, before: Sequence[Result], first: int, after: Sequence[Result], second: int) -> Comparison:
    """Two results as they would be compared if they were of different code."""
    kept = rule.known - 1
    baselines = [changed(rule, item) for item in before[first : first + kept + 1]]
    results = [changed(rule, item) for item in after[second : second + kept + 1]]
    baseline, result = baselines[-1], results[-1]
    if rule.without_drift:
        # What other code of the module may have changed is no measure of the machine.
        baseline = replace(baseline, module_code="")
    rows = anchor(result, function_of(result))
    return compare(result, baseline, rows, "previous", results, baselines)


def changed(rule: Rule, result: Result) -> Result:
    """A result with the deviations that a rule looks at."""
    factor = result.repeats**-0.5 if rule.spread is None else rule.spread

    def part(spread_ns: int | None) -> int | None:
        return None if spread_ns is None else round(spread_ns * factor)

    rows = tuple(replace(row, most_spread_ns=part(row.most_spread_ns)) for row in result.rows)
    return replace(result, rows=rows, costs=replace(result.costs, spread_ns=part(result.costs.spread_ns)))


def function_of(result: Result) -> FunctionOutline:
    kind, times = result.qualname.split("_")
    if result.qualname not in _functions:
        text = SOURCE + FUNCTION.format(inputs=kind, name=result.qualname, times=times)
        _functions[result.qualname] = outline(text).functions[0]
    return _functions[result.qualname]


_functions: dict[str, FunctionOutline] = {}


def changes(item: Comparison, but: int | None = None) -> list[Change]:
    return [row.change for row in item.rows if row.change is not None and row.start != but]


def change_of(item: Comparison, start: int) -> Change | None:
    return next((row.change for row in item.rows if row.start == start), None)


def summary(compared: Sequence[Comparison]) -> str:
    """Of lines and of totals how many are told, and of how many comparisons nothing is."""
    lines = [change for item in compared for change in changes(item)]
    totals = [item.total for item in compared if item.total is not None]
    silent = [item for item in compared if not any(map(is_told, [*changes(item), *filter(None, [item.total])]))]
    parts = [share(sum(map(is_told, lines)), len(lines)), share(sum(map(is_told, totals)), len(totals))]
    return f"{parts[0]}{parts[1]:>7}{share(len(silent), len(compared)):>7}"


def share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "–"


if __name__ == "__main__":
    main()
