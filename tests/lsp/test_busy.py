"""Two servers that want the one NeuronCore there is: a stand-in, of which a command named neuron-ls tells.

Constructed: a lock on a file is the core, and the process that holds it is who neuron-ls names, in the form that its
documentation gives.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from tests.lsp.screen import act, click, hints, lenses, logged, said, settle, until
from tests.lsp.test_live import COLD_S, SETTINGS, dedented, runs, start, until_fresh

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.lsp.client import Client

__all__ = ["start"]

pytestmark = pytest.mark.torch

# Who holds the lock, if anybody does. As of SDK 2.31: one entry for each device.
NEURON_LS = """\
#!{python}
import fcntl, json, sys
if sys.argv[1:] != ["--json-output"]:
    sys.exit("neuron-ls: unknown arguments")
with open({core!r}, "a+") as core:
    try:
        fcntl.flock(core, fcntl.LOCK_SH | fcntl.LOCK_NB)
        processes = []
    except BlockingIOError:
        core.seek(0)
        processes = [{{"pid": int(core.read()), "command": "python", "neuroncore_ids": [0]}}]
print(json.dumps([{{"neuron_device": 0, "nc_count": 1, "neuroncore_ids": [0], "neuron_processes": processes}}]))
"""
# Takes the core when it is imported and holds it as long as the process lives, as a runtime does.
MODEL = """
    import fcntl, os, sys, types
    import torch
    from pn_api import profile_neuron

    held = getattr(torch, "held_core", None)
    if held is None:
        held = open({core!r}, "a+")
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("NRT:nrt_allocate_neuron_cores NeuronCore(s) not available - Requested:1 Available:0", file=sys.stderr)
            raise RuntimeError("the stand-in runtime could not be started")
        held.truncate(0)
        held.write(str(os.getpid()))
        held.flush()
        # In a module that stays, since the project's are let go of.
        torch.held_core = held
        # Where a worker looks whether it holds cores.
        torch.neuron = types.SimpleNamespace(is_initialized=lambda: True)

    @profile_neuron
    def f():
        return torch.ones(64) + {number}
"""


@pytest.fixture
def core(tmp_path: Path) -> Path:
    """The core, and in the folder bin beside it the command that tells who has it."""
    found = tmp_path / "core"
    command = tmp_path / "bin" / "neuron-ls"
    command.parent.mkdir()
    command.write_text(NEURON_LS.format(python=sys.executable, core=str(found)))
    command.chmod(0o755)
    return found


@pytest.fixture
def serve_core(start: Callable[..., Client], core: Path, tmp_path: Path) -> Callable[..., Client]:
    def served(name: str, **settings: object) -> Client:
        path = f"{core.parent / 'bin'}{os.pathsep}{os.environ['PATH']}"
        return start([tmp_path / name], settings={**SETTINGS, "run": {"env": {"PATH": path}}, **settings})

    return served


def model(client: Client, core: Path, number: int = 1) -> Path:
    path = client.roots[0] / "model.py"
    path.write_text(dedented(MODEL.format(core=str(core), number=number)))
    client.open(path)
    return path


def holder(core: Path) -> int:
    return int(core.read_text())


def test_a_run_waits_for_the_core_of_another_server_and_nobody_is_killed(
    serve_core: Callable[..., Client], core: Path
) -> None:
    first, second = serve_core("first"), serve_core("second")
    path = model(first, core)
    act(first, "profileFile", {"uri": path.as_uri()})
    until_fresh(first, path)
    pid = holder(core)
    # The holder itself runs on.
    act(first, "profileFile", {"uri": path.as_uri()})
    until(first, lambda: len(runs(first)), lambda count: count == 2, COLD_S)
    until_fresh(first, path)

    waiting = model(second, core)
    act(second, "profileFile", {"uri": waiting.as_uri()})
    busy = [f"Device busy (pid {pid}, 1 core), waiting", "Cancel"]
    until(second, lambda: lenses(second, waiting), lambda seen: seen == busy, COLD_S)
    settle(second, waiting.parent)
    assert lenses(second, waiting) == busy
    assert runs(second) == [], "it is not counted as failed"
    assert holder(core) == pid
    os.kill(pid, 0)

    first.stop()
    until_fresh(second, waiting)
    assert holder(core) != pid
    assert list(hints(second, waiting))


def test_a_run_that_waits_for_the_core_is_cancelled_at_once(serve_core: Callable[..., Client], core: Path) -> None:
    first, second = serve_core("first"), serve_core("second")
    path = model(first, core)
    act(first, "profileFile", {"uri": path.as_uri()})
    until_fresh(first, path)
    waiting = model(second, core)
    act(second, "profileFile", {"uri": waiting.as_uri()})
    until(second, lambda: lenses(second, waiting)[0], lambda title: title.startswith("Device busy"), COLD_S)
    click(second, waiting, "Cancel")
    until(second, lambda: lenses(second, waiting), lambda seen: seen == ["Cancelled", "Profile again"], 2.0)
    os.kill(holder(core), 0)


def test_by_setting_a_busy_core_is_not_waited_for(serve_core: Callable[..., Client], core: Path) -> None:
    first, second = serve_core("first"), serve_core("second", device={"whenBusy": "skip"})
    path = model(first, core)
    act(first, "profileFile", {"uri": path.as_uri()})
    until_fresh(first, path)
    waiting = model(second, core)
    act(second, "profileFile", {"uri": waiting.as_uri()})
    until(second, lambda: lenses(second, waiting), lambda seen: seen == ["Device busy", "Retry"], COLD_S)
    assert f"pid {holder(core)}" in runs(second)[-1]
    first.stop()
    click(second, waiting, "Retry")
    until_fresh(second, waiting)


def test_while_the_core_is_busy_a_newer_text_takes_the_place_of_the_one_that_waits(
    serve_core: Callable[..., Client], core: Path
) -> None:
    first, second = serve_core("first"), serve_core("second")
    path = model(first, core)
    act(first, "profileFile", {"uri": path.as_uri()})
    until_fresh(first, path)
    waiting = second.open(model(second, core))
    waiting.save()
    until(second, lambda: lenses(second, waiting.uri)[0], lambda title: title.startswith("Device busy"), COLD_S)
    waiting.replace("+ 1", "+ 2")
    waiting.save()
    until(second, lambda: runs(second), lambda seen: len(seen) == 1, COLD_S)
    assert runs(second)[0].startswith("f: ended, since there is a newer text")
    until(second, lambda: lenses(second, waiting.uri)[0], lambda title: title.startswith("Device busy"), COLD_S)
    first.stop()
    until_fresh(second, waiting.uri)
    assert len(runs(second)) == 2


def test_by_command_an_idle_worker_lets_go_and_who_waits_goes_on(serve_core: Callable[..., Client], core: Path) -> None:
    first, second = serve_core("first"), serve_core("second")
    path = model(first, core)
    mark = first.mark()
    act(first, "release")
    assert said(first, mark) == ["nothing is held"]
    act(first, "profileFile", {"uri": path.as_uri()})
    until_fresh(first, path)
    pid = holder(core)
    waiting = model(second, core)
    act(second, "profileFile", {"uri": waiting.as_uri()})
    until(second, lambda: lenses(second, waiting)[0], lambda title: title.startswith("Device busy"), COLD_S)
    mark = first.mark()
    act(first, "release")
    assert said(first, mark) == [f"released core 0 (worker {pid})"]
    assert f"released core 0 (worker {pid})" in logged(first, mark)
    until_fresh(second, waiting)
    # The workers of other servers are not this one's.
    mark = first.mark()
    act(first, "release")
    assert said(first, mark) == ["nothing is held"]
    os.kill(holder(core), 0)


def test_by_setting_an_idle_worker_lets_go_soon_and_who_waits_goes_on(
    serve_core: Callable[..., Client], core: Path
) -> None:
    first, second = serve_core("first", device={"idleRelease": "1s"}), serve_core("second")
    path = model(first, core)
    act(first, "profileFile", {"uri": path.as_uri()})
    until_fresh(first, path)
    waiting = model(second, core)
    act(second, "profileFile", {"uri": waiting.as_uri()})
    until_fresh(second, waiting)
    assert list(hints(first, path)), "its result stays"
