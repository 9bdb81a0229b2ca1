"""What profile-neuron itself costs: starting a worker, runs and their phases, the line clock.

Medians and ranges over interleaved rounds, so that a change of the machine's load meets all of them alike.

Run it: python tests/bench/bench.py [--rounds N]
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import itertools
import json
import os
import platform
import statistics
import sys
import time
from collections import defaultdict
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from workload import four_per_line, make_inputs, one_per_line

from profile_neuron.core import units
from profile_neuron.core.discovery import DEFAULT_MODULES, discover
from profile_neuron.core.project import ProjectFiles
from profile_neuron.core.text import decode
from profile_neuron.daemon.agent_client import AgentClient
from profile_neuron.daemon.hosts import LocalHost
from profile_neuron.wire.messages import Limits, RunDone, RunFailed, RunProgress, RunRequest
from profile_neuron.worker import torch_host
from profile_neuron.worker.line_clock import default_clock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    Workload = Callable[[Tensor, Tensor], Tensor]

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SAMPLE, QUALNAME = ROOT / "samples" / "rms_norm.py", "naive"

PHASES = ("import", "inputs", "warm-up", "capture", "read", "attribute")
WARM_RUNS = 4

WORKLOADS: dict[str, Workload] = {"one per line": one_per_line, "four per line": four_per_line}
PLAIN, ALONE, CLOCKED = MODES = ("no profiler", "torch.profiler alone", "with the clock")
CLOCK_STEPS = 10
CLOCK_CALLS = 15

# The n-th run of this process.
_run_numbers = itertools.count()


@dataclass(slots=True)
class Samples:
    """All measurements in nanoseconds, in the order they were taken."""

    # By the name of what was measured.
    runs: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    # Per operator, by workload and mode; equal positions were measured next to each other.
    clock: dict[tuple[str, str], list[int]] = field(default_factory=lambda: defaultdict(list))
    # Operators of one call, as the profiler counted them, by workload.
    operators: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunTimes:
    """When a run's messages arrived, by the performance counter; those read in one piece arrive together."""

    asked_ns: int
    # The first arrival of each phase; start only in a new worker.
    entered_ns: dict[str, int]
    done_ns: int


def main() -> None:
    """Measure, then print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="how often to measure everything (5)")
    rounds = max(1, parser.parse_args().rounds)
    # As in the worker: otherwise the profiler's library prints at each use.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    torch = torch_host.torch_version()
    torch_host.warm_profiler()
    load_before = _load()
    samples = Samples()
    for number in range(rounds):
        asyncio.run(measure_runs(samples))
        for step in range(CLOCK_STEPS):
            measure_clock(samples, number * CLOCK_STEPS + step)
    print(f"Python {platform.python_version()}, torch {torch}, sys.{default_clock().name}")
    print(f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs, load {load_before} to {_load()}")
    print(f"interleaved rounds: {rounds}")
    print_runs(samples)
    print_clock(samples)


async def measure_runs(samples: Samples) -> None:
    """One session: a cold run in a new agent and worker, then warm runs in the same."""
    runs = samples.runs
    started_ns = time.perf_counter_ns()
    client = await AgentClient.start(LocalHost(sys.executable))
    try:
        cold = await timed_run(client)
        torch_ns, import_ns, imported_ns = (cold.entered_ns[phase] for phase in ("start", "import", "inputs"))
        runs["agent"].append(cold.asked_ns - started_ns)
        runs["worker"].append(torch_ns - cold.asked_ns)
        runs["torch"].append(import_ns - torch_ns)
        runs["file"].append(imported_ns - import_ns)
        runs["start"].append(imported_ns - started_ns)
        runs["cold"].append(cold.done_ns - started_ns)
        for _ in range(WARM_RUNS):
            warm = await timed_run(client)
            runs["warm"].append(warm.done_ns - warm.asked_ns)
            times_ns = [warm.asked_ns, *(warm.entered_ns[phase] for phase in PHASES), warm.done_ns]
            for phase, (begin_ns, end_ns) in zip(("request", *PHASES), itertools.pairwise(times_ns), strict=True):
                runs[f"phase {phase}"].append(end_ns - begin_ns)
    finally:
        await client.close()


async def timed_run(client: AgentClient) -> RunTimes:
    """Run the sample once. Ends the benchmark where the run has no result."""
    request = sample_request()
    entered_ns: dict[str, int] = {}
    asked_ns = time.perf_counter_ns()
    async for message in client.run(request):
        match message:
            case RunProgress(phase=phase):
                # A phase with several calls is told several times.
                entered_ns.setdefault(phase, time.perf_counter_ns())
            case RunDone():
                return RunTimes(asked_ns, entered_ns, time.perf_counter_ns())
            case RunFailed(failure=failure):
                raise SystemExit(f"{SAMPLE.name}::{QUALNAME} failed: {failure.reason}")
    raise SystemExit("the agent ended a run without its result")


def sample_request() -> RunRequest:
    """The request that the command line would send for the sample."""
    source = SAMPLE.read_bytes()
    spec = next(spec for spec in discover(decode(source), DEFAULT_MODULES, "") if spec.qualname == QUALNAME)
    return RunRequest(
        run_id=f"bench-{os.getpid()}-{next(_run_numbers)}",
        path=str(SAMPLE),
        sha256=hashlib.sha256(source).hexdigest(),
        qualname=spec.qualname,
        first_line=spec.first_line,
        def_line=spec.def_line,
        repeats=None,
        device="cpu",
        decorator_modules=tuple(DEFAULT_MODULES),
        project_roots=(str(ROOT),),
        cwd=str(ROOT),
        limits=Limits(300.0, 120.0),
    )


def measure_clock(samples: Samples, step: int) -> None:
    """Each workload in each mode, one right after the other; another mode begins in every step."""
    begin = step % len(MODES)
    for name, workload in WORKLOADS.items():
        if name not in samples.operators:
            samples.operators[name] = count_operators(workload)
        for mode in MODES[begin:] + MODES[:begin]:
            samples.clock[name, mode].append(round(call_ns(workload, mode) / samples.operators[name]))


def call_ns(workload: Workload, mode: str) -> float:
    """Median nanoseconds of a call, after a warm-up call as every run has it."""
    x, y = make_inputs()
    calls_ns = []
    with ExitStack() as stack:
        clock = None
        if mode != PLAIN:
            stack.enter_context(torch_host.window())
        if mode == CLOCKED:
            project = ProjectFiles((str(HERE),), (), lambda path: Path(path).exists())
            clock = default_clock()(torch_host.range_opener(), project)
            clock.start()
            stack.callback(clock.stop)
        for number in (None, *range(CLOCK_CALLS)):
            with clock.call(number) if clock is not None else nullcontext():
                begin_ns = time.perf_counter_ns()
                workload(x, y)
                calls_ns.append(time.perf_counter_ns() - begin_ns)
    return statistics.median(calls_ns[1:])


def count_operators(workload: Workload) -> int:
    """Operators of one call; the workloads have none inside of another."""
    x, y = make_inputs()
    with torch_host.window() as window:
        workload(x, y)
    table = json.loads(window.operator_table())
    return sum(table["names"][name].startswith("aten::") for name, *_ in table["events"])


def print_runs(samples: Samples) -> None:
    """Start, runs and phases."""
    runs = samples.runs
    _heading("worker start, cold")
    _row("agent, start to hello", runs["agent"])
    _row("worker, request to hello", runs["worker"])
    _row("import of torch, first use of its profiler", runs["torch"])
    _row("import of the file", runs["file"])
    _row("all of it", runs["start"])
    _heading(f"run of {SAMPLE.name}::{QUALNAME}")
    _row("cold, from the agent's start", runs["cold"])
    _row("warm, from the request", runs["warm"])
    _ratio("cold / warm", runs["cold"], runs["warm"])
    _heading("phases of a warm run")
    _row("request, until import", runs["phase request"])
    for phase in PHASES:
        # The worker enters read when it takes the result from the profiler; then the report process starts.
        label = "read, with the start of the report" if phase == "read" else phase
        _row(label, runs[f"phase {phase}"])


def print_clock(samples: Samples) -> None:
    """Time per operator; what the clock adds is the difference between neighbouring measurements."""
    for name in WORKLOADS:
        alone, clocked = samples.clock[name, ALONE], samples.clock[name, CLOCKED]
        _heading(f"per operator, {samples.operators[name]} on 4 × 4, {name}")
        for mode in MODES:
            _row(mode, samples.clock[name, mode])
        _row("the clock adds", [more - less for more, less in zip(clocked, alone, strict=True)])
        _ratio(f"{CLOCKED} / {ALONE}", clocked, alone)


def _heading(title: str) -> None:
    print(f"\n{title:<46}{'median':>9}{'min – max':>22}{'n':>6}")


def _row(label: str, values: Sequence[int]) -> None:
    median = units.duration(round(statistics.median(values)))
    spread = f"{units.duration(min(values))} – {units.duration(max(values))}"
    print(f"  {label:<44}{median:>9}{spread:>22}{len(values):>6}")


def _ratio(label: str, over: Sequence[int], under: Sequence[int]) -> None:
    print(f"  {label:<44}{statistics.median(over) / statistics.median(under):>7.2f} ×")


def _load() -> str:
    """How many processes wanted to run in the last minute, where the system says so."""
    return f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"


if __name__ == "__main__":
    main()
