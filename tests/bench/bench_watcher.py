"""What watching files costs: 500 files written at once, the same files named again, and time in which nothing happens.

Processor time is that of all threads of this process; the files are written by another one.

Run it: python tests/bench/bench_watcher.py [--rounds N]
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from profile_neuron.daemon.watcher import Watcher

MAKE = next(Path(__file__).parent.parent.glob("data/cases/R10-*/make_tree.py"))
FILES = 500
OPEN = ("m001", "m002", "m003")
NAMED_AGAIN = 1000
IDLE_S = 10


async def measure(rounds: int) -> None:
    """Measure all of it and print it."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        write(root, 0)
        files = sorted(map(str, root.glob("repo/*/*.py")))
        opened = [path for path in files if Path(path).stem in OPEN]
        numbers = itertools.count(1)
        told: asyncio.Queue[frozenset[str]] = asyncio.Queue()
        began_s, used_s = time.perf_counter(), time.process_time()
        watcher = Watcher(told.put_nowait, print)
        watcher.know(opened[0], "another content, so that it is told of once all files are watched")
        watcher.watch(opened, files)
        await told.get()
        print(
            f"start with {FILES} files in 20 folders: {since(used_s)}, {(time.perf_counter() - began_s) * 1e3:.0f} ms"
        )

        for label, watched in (("all are of interest", files), ("3 are", opened)):
            watcher.watch(opened, watched)
            await asyncio.sleep(2)
            costs = [await cost_of_a_checkout(root, next(numbers), told) for _ in range(rounds)]
            print(f"{FILES} files written, {label}: {spread(costs)} of processor time, {rounds} rounds")

        watcher.watch(opened, files)
        used_s = time.process_time()
        for _ in range(NAMED_AGAIN):
            watcher.watch(opened, files)
        print(f"the same {FILES} files named {NAMED_AGAIN} times: {since(used_s)}")

        await asyncio.sleep(2)
        used_s = time.process_time()
        await asyncio.sleep(IDLE_S)
        print(f"{IDLE_S} s in which nothing happens: {since(used_s)}")
        used_s, began_s = time.process_time(), time.perf_counter()
        await watcher.close()
        print(f"end: {since(used_s)}, {(time.perf_counter() - began_s) * 1e3:.0f} ms")


async def cost_of_a_checkout(root: Path, number: int, told: asyncio.Queue[frozenset[str]]) -> float:
    """Milliseconds of processor time until the changes are told, and until no more come."""
    used_s = time.process_time()
    await asyncio.to_thread(write, root, number)
    await told.get()
    await asyncio.sleep(1)
    while not told.empty():
        told.get_nowait()
    return (time.process_time() - used_s) * 1e3


def write(root: Path, number: int) -> None:
    """Write all files; those with an odd number get another content than the time before."""
    subprocess.run([sys.executable, str(MAKE), "ab"[number % 2]], cwd=root, check=True)


def since(used_s: float) -> str:
    return f"{(time.process_time() - used_s) * 1e3:.1f} ms of processor time"


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):.0f} ms ({min(values):.0f} to {max(values):.0f})"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=5, help="checkouts of each kind (5)")
    asyncio.run(measure(parser.parse_args().rounds))
