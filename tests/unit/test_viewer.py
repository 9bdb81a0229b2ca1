"""Captures opened in the stand-in for Neuron Explorer, as a process with ports of its own; constructed like that."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.request import urlopen

import pytest

from profile_neuron.agent import device, viewer
from profile_neuron.agent.child import Child
from profile_neuron.agent.viewer import Viewer
from profile_neuron.core import run_folder
from profile_neuron.wire.messages import Opened, OpenFailed, OpenRequest
from tests.conftest import ROOT
from tests.unit.test_child import ended

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

BIN = ROOT / "tests" / "standin" / "bin"
RUN_ID = "20261129-101500-1f3c5a7b"
NAME = f"Block.forward-{RUN_ID}"


def free_ports() -> tuple[int, int]:
    """Two ports that nobody has; held at once, so that they differ."""
    with socket.socket() as one, socket.socket() as two:
        one.bind(("127.0.0.1", 0))
        two.bind(("127.0.0.1", 0))
        return one.getsockname()[1], two.getsockname()[1]


@pytest.fixture
def ports() -> tuple[int, int]:
    return free_ports()


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The folder of a run with a session in it."""
    folder = tmp_path / RUN_ID
    session = folder / run_folder.NEURON / "i-0abc_pid_42" / "20261129101500"
    session.mkdir(parents=True)
    for name in ("ntrace.pb", "trace_info.pb"):
        (session / name).write_text("constructed")
    (folder / run_folder.RECORD).write_text("{}")
    return folder


@pytest.fixture(autouse=True)
def _standin(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ports: tuple[int, int]) -> None:
    monkeypatch.setenv("PATH", f"{BIN}:{os.path.dirname(sys.executable)}:{os.environ['PATH']}")  # noqa: PTH120
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("STANDIN_EXPLORER_PORTS", "{},{}".format(*ports))
    monkeypatch.setenv("STANDIN_EXPLORER_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("STANDIN_EXPLORER_LOG", str(tmp_path / "log"))


@pytest.fixture
def request_for(run: Path, ports: tuple[int, int]) -> Callable[..., OpenRequest]:
    return lambda folder=run, title="Block.forward": OpenRequest("1", str(folder), title, *ports)


def ingested(tmp_path: Path) -> list[list[str]]:
    """The arguments of each ingest so far."""
    log = tmp_path / "log"
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def with_viewer(work: Callable[[Viewer], Awaitable[None]], come_up_s: float = 60.0) -> list[str]:
    """Do something with a viewer, and see that nothing is left of it; gives what it said of its end."""
    gone: list[str] = []

    async def all_of_it() -> None:
        made = Viewer(gone.append, come_up_s)
        try:
            await work(made)
        finally:
            pids = list(Child.running)
            await made.close()
        assert all(ended(pid) for pid in pids)

    asyncio.run(all_of_it())
    return gone


def opened(*requests: OpenRequest, come_up_s: float = 60.0) -> list[Opened | OpenFailed]:
    """The answers to requests, one after the other."""
    answers: list[Opened | OpenFailed] = []

    async def work(made: Viewer) -> None:
        for request in requests:
            answers.append(await made.open(request))

    with_viewer(work, come_up_s)
    return answers


def refused(request: OpenRequest, come_up_s: float = 60.0) -> str:
    (answer,) = opened(request, come_up_s=come_up_s)
    assert isinstance(answer, OpenFailed), answer
    assert not answer.is_missing
    return answer.reason


class Foreign(BaseHTTPRequestHandler):
    """A program that is not Neuron Explorer."""

    def do_GET(self) -> None:
        self.send_error(404)

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


@contextlib.contextmanager
def serving(port: int) -> Iterator[None]:
    with ThreadingHTTPServer(("127.0.0.1", port), Foreign) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield
        server.shutdown()
        thread.join()


def test_a_capture_is_processed_once_and_shown_by_one_viewer_however_often_it_is_opened(
    run: Path, tmp_path: Path, ports: tuple[int, int], request_for: Callable[..., OpenRequest]
) -> None:
    pids: list[set[int]] = []

    async def work(made: Viewer) -> None:
        for _ in range(2):
            assert await made.open(request_for()) == Opened("1", f"http://localhost:{ports[0]}/profile/{NAME}", True)
            pids.append(set(Child.running))
        with urlopen(f"http://localhost:{ports[0]}/profile/{NAME}") as page:
            assert page.read() == f"Neuron Explorer: {NAME}".encode()

    assert with_viewer(work) == []
    assert len(pids[0]) == 1
    assert pids[0] == pids[1]
    session = run / "neuron" / "i-0abc_pid_42" / "20261129101500"
    assert ingested(tmp_path) == [["view", "-d", str(session), "--ingest-only", "--display-name", NAME]]
    assert [path.name for path in (tmp_path / "data" / "profiles" / "global").iterdir()] == [f"{NAME}@latest"]


def test_a_viewer_that_is_up_is_used_and_not_ended(
    run: Path, tmp_path: Path, request_for: Callable[..., OpenRequest]
) -> None:
    async def work(first: Viewer) -> None:
        assert isinstance(await first.open(request_for()), Opened)
        second = Viewer(lambda _: None)
        answer = await second.open(request_for())
        assert isinstance(answer, Opened)
        assert not answer.is_ours
        await second.close()
        assert await viewer.Ports(*map(int, os.environ["STANDIN_EXPLORER_PORTS"].split(","))).state() == "ready"

    with_viewer(work)
    assert len(ingested(tmp_path)) == 1


def test_a_session_with_device_files_only_is_named_file_by_file(
    tmp_path: Path, request_for: Callable[..., OpenRequest]
) -> None:
    session = tmp_path / "out" / "i-0abc_pid_42" / "20261129"
    (session / "ab").mkdir(parents=True)
    for name in ("neff_1_vnc_0.neff", "ab/neff_2.neff", "profile_nc_0_session_0.ntff"):
        (session / name).write_text("constructed")
    (session / "profile_nc_1_session_0.ntff").touch()
    for _ in range(2):
        (answer,) = opened(request_for(folder=tmp_path / "out"))
        assert isinstance(answer, Opened)
        assert answer.url.endswith("/profile/i-0abc_pid_42-20261129")
    neffs = [argument for name in ("ab/neff_2.neff", "neff_1_vnc_0.neff") for argument in ("-n", str(session / name))]
    what = [*neffs, "-s", str(session / "profile_nc_0_session_0.ntff")]
    assert ingested(tmp_path) == [["view", *what, "--ingest-only", "--display-name", "i-0abc_pid_42-20261129"]]
    assert not (session / run_folder.OPENED).exists(), "nothing is written into a folder of the user's"


def test_a_trace_of_one_executable_goes_with_that_one_alone(
    tmp_path: Path, request_for: Callable[..., OpenRequest]
) -> None:
    session = tmp_path / "out" / "i-0abc_pid_42"
    session.mkdir(parents=True)
    for name in ("neff_17.neff", "neff_18.neff", "18_instid_0_vnc_0.ntff"):
        (session / name).write_text("constructed")
    opened(request_for(folder=session))
    (arguments,) = ingested(tmp_path)
    assert [arguments[index + 1] for index, word in enumerate(arguments) if word == "-n"] == [
        str(session / "neff_18.neff")
    ]


def test_a_name_has_nothing_that_an_address_or_a_command_line_would_take_for_its_own(
    tmp_path: Path, request_for: Callable[..., OpenRequest]
) -> None:
    (answer,) = opened(request_for(title="--f.<locals>.größe ../x"))
    assert isinstance(answer, Opened)
    assert answer.url.endswith(f"/profile/f.-locals-.gr-e-..-x-{RUN_ID}")


def test_without_the_program_it_is_missing(
    monkeypatch: pytest.MonkeyPatch, request_for: Callable[..., OpenRequest]
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert opened(request_for()) == [
        OpenFailed(
            "1",
            "Neuron Explorer is not installed; install the package aws-neuronx-tools, which has neuron-explorer",
            is_missing=True,
        )
    ]
    # Where its package puts it, which is not on every PATH.
    monkeypatch.setattr(device, "_FOLDER", BIN)
    monkeypatch.setenv("PATH", f"{os.path.dirname(sys.executable)}:/usr/bin:/bin")  # noqa: PTH120
    (answer,) = opened(request_for())
    assert isinstance(answer, Opened)


PROGRAM = BIN / "neuron-explorer"
# By mode: what is said, with the session, the program and the ports.
REFUSED = {
    "old": "{program} has no option --display-name, so it is too old; update the package aws-neuronx-tools",
    "unknown-flag": "{program} takes an option of its own help for an error (ERROR unknown flag: --display-name); "
    "update the package aws-neuronx-tools",
    "broken": "{program} view -d {session} failed with exit code 1 (ERROR processing ended with "
    "ERROR_PROCESS_INCOMPLETE); run it by hand to see more",
    "empty": "{program} found nothing in {session} (ERROR no profile found in {session}); profile it again",
    "fail": "{program} found nothing in {session} (ERROR No metadata found for system profile: 20261129101500); "
    "profile it again",
    "busy": "{program} view --port {ui} found one of its ports taken (ERROR listen tcp :{api}: bind: address already "
    "in use); end what uses it and open again",
    "one-port": "port {ui} answers, but port {api}, where the pages of Neuron Explorer get their data, does not; both "
    "are needed: end what uses port {ui} and open again, or where they are forwarded do it for both with ssh -L "
    "{ui}:localhost:{ui} -L {api}:localhost:{api} HOST",
    "http500": f"the viewer at port {{ui}} fails at the profile {NAME}-2 with HTTP 500, as one of another version than "
    "made it does, also after the capture was processed anew; end that viewer and open again",
    "stuck": f"Neuron Explorer still processes {NAME} (PROCESSING), for which 10 to 15 minutes are usual and more than "
    "30 mean that it is stuck; open it again later",
    "down": "the viewer of Neuron Explorer did not come up at ports {ui} and {api}; run neuron-explorer view by hand "
    "to see why",
}


@pytest.mark.parametrize("mode", REFUSED)
def test_what_goes_wrong_is_one_sentence_with_what_to_do(
    run: Path,
    ports: tuple[int, int],
    monkeypatch: pytest.MonkeyPatch,
    request_for: Callable[..., OpenRequest],
    mode: str,
) -> None:
    monkeypatch.setenv("STANDIN_EXPLORER", mode)
    session = run / "neuron" / "i-0abc_pid_42" / "20261129101500"
    # As long as a viewer that comes up may take on a busy machine, or hardly at all.
    come_up_s = {"down": 0.5, "one-port": 15.0}.get(mode, 60.0)
    said = REFUSED[mode].format(program=PROGRAM, session=session, ui=ports[0], api=ports[1])
    assert refused(request_for(), come_up_s) == said


def test_what_takes_longer_than_half_an_hour_is_ended_as_stuck(
    run: Path, monkeypatch: pytest.MonkeyPatch, request_for: Callable[..., OpenRequest]
) -> None:
    monkeypatch.setenv("STANDIN_EXPLORER", "slow")
    monkeypatch.setattr(viewer, "_INGEST_S", 3.0)
    assert refused(request_for()) == (
        f"{PROGRAM} took longer than 0.05 minutes for {run}/neuron/i-0abc_pid_42/20261129101500 and was ended; 10 to 15 "
        "are usual for a large capture, so it was stuck: profile fewer calls"
    )


def test_a_profile_that_is_processed_for_long_is_stuck(
    run: Path, monkeypatch: pytest.MonkeyPatch, request_for: Callable[..., OpenRequest]
) -> None:
    opened(request_for())
    record = run / run_folder.OPENED
    record.write_text(json.dumps({**json.loads(record.read_text()), "ingested_s": 0}))
    monkeypatch.setenv("STANDIN_EXPLORER", "stuck")
    assert "minutes (PROCESSING), so it is stuck; end its viewer and open again" in refused(request_for())


def test_a_profile_of_another_version_is_made_anew_under_another_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request_for: Callable[..., OpenRequest]
) -> None:
    monkeypatch.setenv("STANDIN_EXPLORER", "http500")
    first, second = opened(request_for(), request_for())
    assert isinstance(first, OpenFailed)
    # The stand-in shows a profile of that name.
    assert isinstance(second, Opened)
    assert second.url.endswith(f"/profile/{NAME}-3")
    assert [arguments[-1] for arguments in ingested(tmp_path)] == [NAME, f"{NAME}-2", f"{NAME}-3"]


def test_a_profile_that_somebody_removed_is_made_anew(tmp_path: Path, request_for: Callable[..., OpenRequest]) -> None:
    opened(request_for())
    (tmp_path / "data" / "profiles" / "global" / f"{NAME}@latest").rmdir()
    (answer,) = opened(request_for())
    assert isinstance(answer, Opened)
    assert answer.url.endswith(f"/profile/{NAME}-2")


def test_a_viewer_of_another_data_folder_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ports: tuple[int, int], request_for: Callable[..., OpenRequest]
) -> None:
    async def work(first: Viewer) -> None:
        assert isinstance(await first.open(request_for()), Opened)
        monkeypatch.setenv("STANDIN_EXPLORER_DATA", str(tmp_path / "elsewhere"))
        monkeypatch.setattr(viewer, "_known_profile", lambda _: None)
        answer = await Viewer(lambda _: None).open(request_for(title="other"))
        assert isinstance(answer, OpenFailed)
        assert answer.reason == (
            f"the viewer at port {ports[0]} does not know the profile other-{RUN_ID}-2, so it shows another data "
            "folder; end it and open again"
        )

    with_viewer(work)


def test_another_program_at_a_port_is_neither_used_nor_ended_and_nothing_is_processed(
    tmp_path: Path, ports: tuple[int, int], request_for: Callable[..., OpenRequest]
) -> None:
    with serving(ports[1]):
        assert refused(request_for()) == (
            f"something else than Neuron Explorer answers at port {ports[1]}; end it and open again"
        )
    with serving(ports[0]):
        assert refused(request_for()).startswith(f"port {ports[0]} answers, but port {ports[1]}, where ")
    with socket.socket() as mute:
        # The one before has left connections that are not quite over yet.
        mute.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Takes connections and says nothing sensible.
        mute.bind(("127.0.0.1", ports[1]))
        mute.listen()
        threading.Thread(target=lambda: mute.accept()[0].close(), daemon=True).start()
        assert refused(request_for()).startswith("something else than Neuron Explorer answers at port ")
    assert ingested(tmp_path) == []


def test_a_folder_without_a_session_is_said_and_nothing_is_started(
    tmp_path: Path, request_for: Callable[..., OpenRequest]
) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / "empty.ntff").touch()
    assert refused(request_for(folder=folder)) == (
        f"{folder} holds no session of the Neuron profiler; profile on a NeuronCore again"
    )
    assert ingested(tmp_path) == []


def test_a_viewer_that_somebody_ends_is_told_and_the_next_opening_starts_another(
    request_for: Callable[..., OpenRequest],
) -> None:
    async def work(made: Viewer) -> None:
        assert isinstance(await made.open(request_for()), Opened)
        (pid,) = Child.running
        os.kill(pid, 15)
        assert made._process is not None
        await asyncio.wait([made._process])
        answer = await made.open(request_for())
        assert isinstance(answer, Opened)
        assert answer.is_ours

    (told,) = with_viewer(work)
    assert told.startswith("the viewer of Neuron Explorer ended with signal 15 (SIGTERM)")
