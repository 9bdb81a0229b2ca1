"""Whether an edit helped, asked on the command line, with the real worker."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

import pytest

from profile_neuron.core.model import NO_OPERATORS
from profile_neuron.core.render import row_delta
from profile_neuron.core.text import decode
from profile_neuron.daemon.history import History
from profile_neuron.wire.messages import RunDone
from tests.conftest import request

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Finished, Profiler

pytestmark = pytest.mark.torch

# How often a measurement is made anew that a busy machine has spoiled.
TRIES = 12
# In so many calls most lines have one that nothing interrupts.
CALLS = 100
SOURCE = """\
import torch
from profile_neuron import profile_neuron

torch.set_num_threads(1)

def work_inputs():
    torch.manual_seed(0)
    return torch.randn(128, 128), torch.randn(128, 128) / 12

@profile_neuron
def work(x, w):
    a = x @ w @ w @ w @ w
    b = torch.relu(a)
    for _ in range(20): b = b @ w
    c = b.sum(0)
    return c * 2
"""
LINE = SOURCE.split("\n").index("    for _ in range(20): b = b @ w") + 1


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "project" / "model.py"
    file.parent.mkdir()
    file.write_text(SOURCE)
    return file


def test_a_line_that_does_half_as_much_again_is_told_at_that_line(
    command: Callable[..., Finished], path: Path, tmp_path: Path
) -> None:
    seen = []
    for number in range(TRIES):
        cache = {"XDG_CACHE_HOME": str(tmp_path / f"cache {number}")}
        path.write_text(SOURCE)
        first = command("run", path, "--compare", "--json", "--repeats", CALLS, **cache).function("work")["comparison"]
        assert (first["reason"], first["previous_ns"], first["lines"]) == ("no earlier result of other code", None, [])
        path.write_text(SOURCE.replace("range(20)", "range(30)"))
        compared = command("run", path, "--compare", "--json", "--repeats", CALLS, **cache).function("work")[
            "comparison"
        ]
        assert (compared["with"], compared["reason"], compared["removed"]) == ("previous", None, [])
        verdicts = {line["line"]: line["verdict"] for line in compared["lines"]}
        assert set(verdicts) == set(range(LINE - 2, LINE + 3))
        seen.append({line: verdict for line, verdict in verdicts.items() if verdict is not None})
        if seen[-1] == {LINE: "slower"}:
            return
    pytest.fail(f"line {LINE} should have been slower and no other one: {seen}")


def test_the_text_has_a_sentence_and_a_column(command: Callable[..., Finished], path: Path, tmp_path: Path) -> None:
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    first = command("run", path, "--compare", **cache)
    assert (first.code, "no earlier result of other code\n" in first.out, "delta" in first.out) == (0, True, False)
    again = command("run", path, "--compare", **cache)
    assert "no earlier result of other code\n" in again.out, "what differs between runs of the same code is noise"
    path.write_text(SOURCE.replace("    c = b.sum(0)\n", "    d = b.exp()\n    e = d.sum()\n    c = b.mean(0)\n"))
    text = command("run", path, "--compare", **cache).out
    assert re.search(r"^previous [\d.]+ [mµ]s at \d\d:\d\d:\d\d, (within noise|▲|▼)", text, re.MULTILINE)
    rows = [line for line in text.split("\n") if "│" in line]
    assert rows[0].split("│")[0].endswith("delta  ")
    assert [row.split("│ ")[1].split("  aten")[0].strip() for row in rows if " new " in row] == [
        "d = b.exp()",
        "e = d.sum()",
        "c = b.mean(0)",
    ]
    assert [row.split("│ ")[1] for row in rows if " removed " in row] == ["c = b.sum(0)"]
    assert "previous" not in command("run", path, **cache).out, "nobody asked"


def test_a_run_that_nobody_wanted_compared_is_compared_with_later(
    command: Callable[..., Finished], path: Path, tmp_path: Path
) -> None:
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    before = command("run", path, "--json", **cache).function("work")
    assert "comparison" not in before
    path.write_text(SOURCE.replace("range(20)", "range(2)"))
    after = command("run", path, "--json", "--compare", **cache).function("work")
    assert after["comparison"]["previous_ns"] == before["host_ns"]


def test_a_store_that_cannot_be_used_costs_a_line_and_not_the_run(
    command: Callable[..., Finished], path: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "cache" / "profile-neuron"
    folder.mkdir(parents=True)
    (folder / "results").write_text("no folder")
    path.write_text(
        SOURCE + SOURCE.split("\n\n")[-1].replace("work", "more").replace("_neuron\n", "_neuron(inputs=work_inputs)\n")
    )
    finished = command("run", path, "--compare", XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert finished.code == 0
    assert finished.out.count("no earlier result of other code") == 2
    (said,) = [line for line in finished.err.split("\n") if line.startswith("profile-neuron:")]
    assert "the folder for results cannot be used" in said
    assert "Traceback" not in finished.err


def test_the_same_function_run_a_hundred_times_shows_no_delta(profiler: Profiler, path: Path) -> None:
    history = History(lambda text: pytest.fail(text))

    async def compare_with_the_others(done: RunDone, number: int) -> str:
        wanted = request(path, "work", run_id=f"{number}")
        view = await history.add(wanted, decode(path.read_bytes()), "", done.costs)
        assert view.comparison is not None
        assert NO_OPERATORS not in done.costs.functions[0].warnings
        return "".join([*(row_delta(view, row) for row in view.rows), str(view.comparison.total or "")])

    shown = []
    for number in range(100):
        end = profiler.run(path, "work", repeats=2).end
        assert isinstance(end, RunDone)
        shown.append(asyncio.run(compare_with_the_others(end, number)))
    asyncio.run(history.close())
    assert shown == [""] * 100
