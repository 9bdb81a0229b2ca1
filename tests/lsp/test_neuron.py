"""An editor's conversation about a function on the stand-in device: busy, run, hints with device time."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.conftest import ROOT
from tests.lsp.screen import act, diagnostics, hints, lenses, settle, until
from tests.lsp.test_live import COLD_S, SETTINGS, start, until_fresh
from tests.standin import environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.lsp.client import Client, Document

__all__ = ["start"]

pytestmark = pytest.mark.torch

# Takes a core as the runtime of another process does, says so, and holds it until its stdin closes.
HOLD = """\
import fcntl, os, sys
file = open(sys.argv[1], "a+")
fcntl.flock(file, fcntl.LOCK_EX)
file.truncate(0)
file.write(str(os.getpid()))
file.flush()
print("held", flush=True)
sys.stdin.read()
"""
HINTS = {
    40: "388 µs · 16 % · 1 op",
    41: "400 µs · 17 % · 1 op",
    42: "396 µs · 17 % · 1 op",
    43: "395 µs · 17 % · 1 op",
    44: "388 µs · 16 % · 1 op",
    45: "388 µs · 16 % · 1 op",
}


@pytest.fixture
def cores(tmp_path: Path) -> Path:
    found = tmp_path / "cores"
    found.mkdir()
    return found


@pytest.fixture
def holder(cores: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that holds the only core."""
    command = [sys.executable, "-c", HOLD, str(cores / "core0")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield process
        process.kill()


@pytest.fixture
def serve(start: Callable[..., Client], cores: Path, tmp_path: Path) -> Callable[..., Client]:
    def served(mode: str = "kernels", **settings: object) -> Client:
        variables = environment(mode, cores=cores, STANDIN_NEURON_CORE_COUNT="1", STANDIN_NEURON_LS="cores")
        return start([tmp_path / "ws"], settings={**SETTINGS, "run": {"env": variables}, **settings})

    return served


def sample(client: Client) -> Document:
    path = client.roots[0] / "rms_norm.py"
    shutil.copy(ROOT / "samples" / "rms_norm.py", path)
    return client.open(path)


def hover(client: Client, document: Document, line: int) -> str:
    """What a hover says of a line, from 1, as text."""
    found = client.hover(document.uri, line - 1, 6)
    assert found is not None
    text: str = found["contents"]["value"]
    return text.replace("\\", "")


def naive(seen: dict[int, str]) -> dict[int, str]:
    """Hints of the first function alone."""
    return {line: text for line, text in seen.items() if line < 48}


def test_a_save_waits_for_the_core_and_then_shows_device_time_at_each_line(
    serve: Callable[..., Client], holder: subprocess.Popen[bytes]
) -> None:
    client = serve()
    document = sample(client)
    act(client, "profileFunction", {"uri": document.uri, "qualname": "naive"})
    busy = f"Device busy (pid {holder.pid}, 1 core), waiting"
    until(client, lambda: lenses(client, document.uri), lambda seen: busy in seen, COLD_S)
    settle(client, client.roots[0])
    assert busy in lenses(client, document.uri)
    assert holder.poll() is None, "nobody is ended for it"

    assert holder.stdin is not None
    holder.stdin.close()
    assert holder.wait(10) == 0
    until(client, lambda: lenses(client, document.uri)[0], lambda title: title == "2.36 ms device", COLD_S)
    assert naive(hints(client, document.uri)) == HINTS
    told = {(item["range"]["start"]["line"] + 1, item["code"]) for item in diagnostics(client, document.uri)}
    assert told == {(40, "tiny-executions"), (42, "transfer")}
    # 3 and 4 are Information and Hint.
    assert {item["severity"] for item in diagnostics(client, document.uri)} == {4}
    told_of_line = hover(client, document, 42)
    assert "**device 396 µs**" in told_of_line
    assert "aten::add copies from the host to the device" in told_of_line
    assert "Neuron time of executions from the profiler in the worker" in told_of_line


def test_a_function_that_was_never_run_is_offered_for_neuron_once_a_device_is_known(
    serve: Callable[..., Client],
) -> None:
    client = serve()
    document = sample(client)
    act(client, "profileFunction", {"uri": document.uri, "qualname": "fused"})
    until(client, lambda: lenses(client, document.uri), lambda seen: "403 µs device" in seen, COLD_S)
    assert lenses(client, document.uri) == [
        "Profile on Neuron",
        "403 µs device",
        "Open in Neuron Explorer",
        "Re-profile",
        "Profile on Neuron",
    ]


def test_lines_that_run_as_one_execution_show_one_figure_that_they_share(serve: Callable[..., Client]) -> None:
    client = serve("fusion")
    document = sample(client)
    act(client, "profileFunction", {"uri": document.uri, "qualname": "naive"})
    until(client, lambda: lenses(client, document.uri)[0], lambda title: title == "2.36 ms device", COLD_S)
    assert naive(hints(client, document.uri)) == dict.fromkeys(HINTS, "≈2.36 ms · 100 % · shared")
    assert "measured together for lines 40, 41, 42, 43, 44, 45, counted once" in hover(client, document, 43)
    assert diagnostics(client, document.uri) == []


def test_unknown_device_time_is_said_and_the_hosts_is_marked(serve: Callable[..., Client]) -> None:
    client = serve("nothing")
    document = sample(client)
    act(client, "profileFunction", {"uri": document.uri, "qualname": "naive"})
    until(client, lambda: lenses(client, document.uri)[0], lambda title: title == "device time unknown", COLD_S)
    shown = naive(hints(client, document.uri))
    assert set(shown) == set(HINTS)
    assert all(text.startswith("host ") for text in shown.values())


def test_an_edit_marks_device_time_as_one_of_before(serve: Callable[..., Client]) -> None:
    client = serve()
    document = sample(client)
    act(client, "profileFunction", {"uri": document.uri, "qualname": "naive"})
    until(client, lambda: lenses(client, document.uri)[0], lambda title: title == "2.36 ms device", COLD_S)
    rest = "\n    normalised = x * scale\n    return normalised * weight\n\n\n@profile_neuron(inputs=make_inputs)\ndef fused"
    document.replace(f"torch.rsqrt(shifted){rest}", f"torch.rsqrt(shifted + 0){rest}")
    assert lenses(client, document.uri)[0].startswith("2.36 ms (edited since, ")
    assert naive(hints(client, document.uri)) == {
        line: f"~{text.partition(' ·')[0]}" for line, text in HINTS.items() if line != 43
    }
    document.save()
    until_fresh(client, document.uri, 3)
    # One more execution and its copy: 2 750 500.
    assert lenses(client, document.uri)[0] == "2.75 ms device · ▲17 % vs previous"
    assert naive(hints(client, document.uri))[43] == "791 µs · 29 % · 2 ops ▲100 %"
