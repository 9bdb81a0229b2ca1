"""profile-neuron open on the stand-in for Neuron Explorer, whose pages are constructed, with ports of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from tests.conftest import ROOT
from tests.standin import environment
from tests.unit.test_viewer import free_ports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.conftest import Finished

    Command = Callable[..., Finished]

pytestmark = pytest.mark.torch


@pytest.fixture
def ports() -> tuple[int, int]:
    return free_ports()


@pytest.fixture
def variables(tmp_path: Path, ports: tuple[int, int]) -> dict[str, str]:
    return environment(
        XDG_CACHE_HOME=str(tmp_path / "cache"),
        STANDIN_EXPLORER_PORTS="{},{}".format(*ports),
        STANDIN_EXPLORER_DATA=str(tmp_path / "data"),
        STANDIN_EXPLORER_LOG=str(tmp_path / "log"),
    )


@pytest.fixture
def options(ports: tuple[int, int]) -> tuple[str, ...]:
    return ("--ui-port", str(ports[0]), "--api-port", str(ports[1]))


@pytest.fixture
def run(command: Command, tmp_path: Path, variables: dict[str, str]) -> Path:
    """The folder of a run that was kept."""
    path = shutil.copy(ROOT / "samples" / "rms_norm.py", tmp_path)
    done = command("run", f"{path}::naive", "--json", "--keep", **variables)
    assert done.code == 0, done.err
    return Path(done.function("naive")["run_folder"])


@pytest.fixture
def shown(
    run: Path, variables: dict[str, str], options: tuple[str, ...]
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command while its viewer is up, and the address that it printed."""
    with subprocess.Popen(
        [sys.executable, "-m", "profile_neuron", "open", run.name, *options],
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
        process.kill()


def test_a_run_is_shown_until_ctrl_c_and_then_nothing_is_left(
    run: Path,
    shown: tuple[subprocess.Popen[str], str],
    command: Command,
    tmp_path: Path,
    variables: dict[str, str],
    options: tuple[str, ...],
    ports: tuple[int, int],
) -> None:
    process, address = shown
    assert address == f"http://localhost:{ports[0]}/profile/naive-{run.name}"
    with urlopen(address) as page:
        assert page.read().decode() == f"Neuron Explorer: naive-{run.name}"
    # Another one uses the viewer that is up, and ends at once.
    again = command("open", run, *options, **variables)
    assert (again.code, again.out.strip(), again.err) == (0, address, "")
    assert len((tmp_path / "log").read_text().splitlines()) == 1, "it was processed once"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the viewer was started for this and ends with Ctrl-C" in said
    with pytest.raises(URLError):
        urlopen(address)


def test_what_cannot_be_opened_is_one_sentence(
    command: Command, tmp_path: Path, variables: dict[str, str], options: tuple[str, ...]
) -> None:
    missing = command("open", "20260101-000000-abcd", **variables)
    runs = tmp_path / "cache" / "profile-neuron" / "runs"
    assert (missing.code, missing.err) == (
        2,
        f"profile-neuron: 20260101-000000-abcd is no folder and no run in {runs}; name the folder of a run or of a "
        "session\n",
    )
    empty = tmp_path / "empty"
    empty.mkdir()
    nothing = command("open", empty, *options, **variables)
    assert (nothing.code, nothing.err) == (
        1,
        f"profile-neuron: {empty} holds no session of the Neuron profiler; profile on a NeuronCore again\n",
    )
    without = command("open", empty, *options, **{**variables, "PATH": os.environ["PATH"]})
    assert (without.code, without.err) == (
        1,
        "profile-neuron: Neuron Explorer is not installed; install the package aws-neuronx-tools, which has "
        f"neuron-explorer; the capture is in {empty}\n",
    )
    wrong = command("open", empty, "--ui-port", "0", **variables)
    assert wrong.code == 2
    assert "0 is not a port from 1 to 65535" in wrong.err
