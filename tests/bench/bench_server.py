"""What the language server costs, against the least that a pygls server can be: start, memory, answers, saves.

Medians over interleaved rounds, so that a change of the machine's load meets both alike.

Run it: python tests/bench/bench_server.py [--rounds N]
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT))

from tests.fakes.control import FakeAgents  # noqa: E402
from tests.lsp.client import Client  # noqa: E402
from tests.lsp.conftest import with_fake  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

BARE = [sys.executable, "-I", str(HERE / "bare_server.py")]
OURS = [str(Path(sys.executable).parent / "profile-neuron"), "serve"]

FUNCTIONS, STATEMENTS = 20, 50
HINTS = FUNCTIONS * STATEMENTS
ANSWERS = 200
WARM_SAVES = 9
GATHER_MS = 300


def main() -> None:
    """Measure all of it and print it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=9, help="starts of each server (9)")
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["XDG_CACHE_HOME"], os.environ["XDG_STATE_HOME"] = str(folder / "cache"), str(folder / "state")
        starts(folder, rounds)
        answers(folder)
        saves(folder)


def starts(folder: Path, rounds: int) -> None:
    """Time from starting a process to the answer of initialize, and its memory then."""
    times: dict[str, list[float]] = {"bare pygls": [], "profile-neuron": []}
    memory: dict[str, list[float]] = {"bare pygls": [], "profile-neuron": []}
    for _ in range(rounds):
        for name, command in (("bare pygls", BARE), ("profile-neuron", OURS)):
            began = time.perf_counter()
            client = Client.start([folder], command=command)
            times[name].append((time.perf_counter() - began) * 1e3)
            memory[name].append(resident_mb(client.process.pid))
            client.kill()
    print(f"start to the answer of initialize, {rounds} interleaved rounds")
    for name, values in times.items():
        print(f"  {name:<16}{spread(values, 'ms')}")
    more = statistics.median(b - a for a, b in zip(times["bare pygls"], times["profile-neuron"], strict=True))
    print(f"  more             {more:.0f} ms (aim: at most 60)")
    print("memory after it")
    for name, values in memory.items():
        print(f"  {name:<16}{spread(values, 'MB')}")
    ratio = statistics.median(memory["profile-neuron"]) / statistics.median(memory["bare pygls"])
    print(f"  ratio            {ratio:.2f} (aim: at most 1.4)")


def answers(folder: Path) -> None:
    """Hint requests on a file with a thousand hints, beside a bare server that answers as many."""
    (folder / "agents").mkdir()
    fake = FakeAgents(folder / "agents")
    root = folder / "hints"
    root.mkdir()
    limits = {"hints": {"maxPerFunction": STATEMENTS, "minShare": 0}, "run": {"maxPerSave": FUNCTIONS}}
    client = Client.start([root], settings=with_fake(fake, limits), env=dict(fake.env), command=OURS)
    bare = Client.start([root], command=BARE)
    document = client.open(root / "model.py", source())
    document.save()
    fake.wait_for_event("ended", lambda _: fake.count("ended") == FUNCTIONS)
    while len(client.hints(document.uri)) < HINTS:
        client.wait_for("workspace/inlayHint/refresh", after=client.mark())
    lines = document.text.count("\n")
    middle = lines // 2
    print(f"inlay hints of a file of {lines} lines with {HINTS} hints, {ANSWERS} answers each, seen by the client")
    print(f"  60 lines         {latency(lambda: ask(client, document.uri, middle, middle + 60))} (aim: p99 under 2)")
    ours = sample(lambda: ask(client, document.uri, 0, lines + 1))
    theirs = sample(lambda: ask(bare, document.uri, 0, HINTS))
    print(f"  whole file       {percentiles(ours)} (aim: median under 8)")
    print(f"  bare, as many    {percentiles(theirs)}")
    print(f"  60 after an edit {latency(lambda: edit_and_ask(client, document, middle, middle + 60))}")
    anew = sample(lambda: edit_and_ask(client, document, 0, lines + ANSWERS))
    share = 1 - statistics.median(ours) / statistics.median(anew)
    print(f"  all after one    {percentiles(anew)}; {100 * share:.0f} % of it is making and converting them anew")
    print(f"memory then: {resident_mb(client.process.pid):.0f} MB, bare {resident_mb(bare.process.pid):.0f} MB")
    for one in (client, bare):
        one.kill()
    fake.close()


def saves(folder: Path) -> None:
    """From a save to the answer with the new hints, with the real agent and worker."""
    root = folder / "saves"
    root.mkdir()
    shutil.copy(ROOT / "samples" / "rms_norm.py", root / "model.py")
    client = Client.start([root], settings={"interpreter": sys.executable}, command=OURS)
    document = client.open(root / "model.py", (root / "model.py").read_text())
    keep_only_naive(document)
    seconds, calls = [], []
    for number in range(WARM_SAVES + 1):
        document.replace_all(document.text.replace("EPSILON = ", f"EPSILON = {number}e-9 + "))
        mark = client.mark()
        began = time.perf_counter()
        document.save()
        client.wait_for("window/logMessage", lambda params: params["message"].startswith("naive: cpu"), after=mark)
        while not any(hint["label"].startswith("cpu") for hint in client.hints(document.uri)):
            client.wait_for("workspace/inlayHint/refresh", after=client.mark())
        if number:
            seconds.append((time.perf_counter() - began) * 1e3)
            calls.append(8 * wall_ms(client, document.uri))
    beyond = [value - GATHER_MS - call for value, call in zip(seconds, calls, strict=True)]
    print(f"warm save to hints, {WARM_SAVES} saves of one function with the real worker")
    print(f"  all of it        {spread(seconds, 'ms')}")
    print(f"  beyond 300 ms of gathering and 8 calls: {spread(beyond, 'ms')} (aim: at most 150)")
    client.shutdown()
    client.exit()
    client.kill()


def keep_only_naive(document: Any) -> None:
    head, _, _ = document.text.partition("@profile_neuron(inputs=make_inputs)\ndef fused")
    document.replace_all(head)


def wall_ms(client: Client, uri: str) -> float:
    """The time of one call as the lens has it; with Python's own time it is some more."""
    title = client.lenses(uri)[0]["command"]["title"]
    _, number, unit = title.split()[:3]
    return float(number) * {"µs": 1e-3, "ms": 1.0}[unit]


def source() -> str:
    """Functions of assignments, all of which get a hint from the fake agent."""
    functions = []
    for number in range(FUNCTIONS):
        body = "\n".join(f"    x = x + {number * STATEMENTS + row}" for row in range(STATEMENTS))
        padding = "\n".join(f"# {row}" for row in range(200))
        functions.append(f"@profile_neuron\ndef f{number}(x=1):\n{body}\n\n{padding}\n\n")
    return "from profile_neuron import profile_neuron\n\n\n" + "\n".join(functions)


def ask(client: Client, uri: str, first: int, last: int) -> Any:
    """The hints of some lines."""
    span = {"start": {"line": first, "character": 0}, "end": {"line": last, "character": 0}}
    return client.request("textDocument/inlayHint", {"textDocument": {"uri": uri}, "range": span})


def edit_and_ask(client: Client, document: Any, first: int, last: int) -> Any:
    """A comment more at the top, which moves everything, then the hints of some lines."""
    document.change(((0, 0), (0, 0)), "#\n")
    return ask(client, document.uri, first, last)


def sample(call: Callable[[], Any]) -> list[float]:
    """Milliseconds of many calls, the first few left out."""
    for _ in range(5):
        call()
    values = []
    for _ in range(ANSWERS):
        began = time.perf_counter()
        call()
        values.append((time.perf_counter() - began) * 1e3)
    return values


def latency(call: Callable[[], Any]) -> str:
    return percentiles(sample(call))


def percentiles(values: list[float]) -> str:
    """Median, 95th and 99th percentile."""
    cuts = statistics.quantiles(values, n=100)
    return f"median {statistics.median(values):.2f} ms, p95 {cuts[94]:.2f}, p99 {cuts[98]:.2f}"


def spread(values: list[float], unit: str) -> str:
    return f"{statistics.median(values):.0f} {unit} ({min(values):.0f} to {max(values):.0f})"


def resident_mb(pid: int) -> float:
    """Resident memory of a process, as Linux counts it."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) / 1024 for line in status.split("\n") if line.startswith("VmRSS"))


if __name__ == "__main__":
    main()
