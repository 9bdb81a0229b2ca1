"""The viewer of Neuron Explorer: one that answers at its ports, or one that is started, and what it says of a profile.

A viewer of the user's is used by talking to its ports and is never ended.
Source: the guides of Neuron Explorer, SDK 2.31 to 2.33. The paths of its data's port are not documented.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import http.client
import json
import logging
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from profile_neuron.agent import explorer
from profile_neuron.agent.child import cause_of_death, run_program
from profile_neuron.agent.device import tool_path
from profile_neuron.core import run_folder
from profile_neuron.errors import CaptureError, HostError, ProfileNeuronError
from profile_neuron.folders import cache_folder
from profile_neuron.wire.messages import Opened, OpenFailed

if TYPE_CHECKING:
    from collections.abc import Callable

    from profile_neuron.agent.child import Finished
    from profile_neuron.agent.explorer import Session
    from profile_neuron.wire.messages import OpenRequest

log = logging.getLogger(__name__)

# Above this a profile counts as stuck.
_INGEST_S = 1800.0
_COME_UP_S = 60.0
_LOOK_PAUSE_S = 0.25
_ANSWER_S = 5.0
_ANSWER_BYTES = 1 << 22
_OUTPUT_BYTES = 1 << 16
_USUAL_UI_PORT = 3001
# By literal address, so that a name cannot lead to another machine.
_LOOPBACK = ("127.0.0.1", "::1")
_NOT_THERE, _MISMATCH = 404, 500
_UNFINISHED = ("UPLOADED", "PROCESSING")


class Viewer:
    """Opens captures, one after the other; the viewer that it starts for them ends with it."""

    def __init__(self, ended: Callable[[str], None], come_up_s: float = _COME_UP_S) -> None:
        """ended: gets why a viewer is gone that had come up."""
        self._ended = ended
        self._come_up_s = come_up_s
        self._lock = asyncio.Lock()
        # Of our own viewer, if there is one.
        self._process: asyncio.Task[Finished] | None = None

    async def open(self, request: OpenRequest) -> Opened | OpenFailed:
        """Have a capture shown."""
        program = tool_path(explorer.PROGRAM)
        if program is None:
            return OpenFailed(request.open_id, explorer.MISSING, is_missing=True)
        async with self._lock:
            try:
                url = await self._open(program, request)
            except (ProfileNeuronError, OSError) as error:
                return OpenFailed(request.open_id, str(error))
            return Opened(request.open_id, url, self._process is not None and not self._process.done())

    async def close(self) -> None:
        """End the viewer that was started here."""
        process, self._process = self._process, None
        if process is not None:
            process.cancel()
            await asyncio.wait([process])

    async def _open(self, program: str, request: OpenRequest) -> str:
        folder, ports = Path(request.folder), Ports(request.ui_port, request.api_port)
        session = await asyncio.to_thread(explorer.find_session, folder)
        if session is None:
            raise CaptureError(f"{folder} holds no session of the Neuron profiler; profile on a NeuronCore again")
        state = await ports.state()
        if state not in ("ready", "free"):
            raise HostError(ports.trouble(state))
        help_text = await explorer.viewer_options(program)
        profile = _known_profile(folder)
        if profile is None:
            profile = await _ingest(program, help_text, request, session, 1)
        await self._serve(program, help_text, ports)
        if await ports.page(profile.name) in (_NOT_THERE, _MISMATCH):
            # Another version of it may have processed the capture, or somebody removed the profile.
            profile = await _ingest(program, help_text, request, session, profile.number + 1)
            status = await ports.page(profile.name)
            if status in (_NOT_THERE, _MISMATCH):
                raise HostError(ports.refusal(profile.name, status))
        unfinished = await ports.unfinished(profile.name)
        if unfinished:
            raise HostError(_wait_text(profile, unfinished))
        return ports.url(profile.name)

    async def _serve(self, program: str, help_text: bytes, ports: Ports) -> None:
        """Wait for a viewer at the ports, and start one where there is none. Raises HostError where none comes up."""
        if await ports.state() == "ready":
            return
        await self.close()
        command = [program, "view"]
        if ports.ui != _USUAL_UI_PORT and explorer.has_option(help_text, "port"):
            command += ["--port", str(ports.ui)]
        process = self._process = asyncio.create_task(run_program(command, None, _OUTPUT_BYTES), name="viewer")
        loop = asyncio.get_running_loop()
        end_s = loop.time() + self._come_up_s
        while (state := await ports.state()) != "ready":
            await asyncio.wait([process], timeout=_LOOK_PAUSE_S)
            if process.done():
                break
            if loop.time() > end_s:
                await self.close()
                raise HostError(ports.trouble(state))
        if process.done() and await ports.state() != "ready":
            self._process = None
            raise HostError(_end_text(" ".join(command), await process))
        process.add_done_callback(self._gone)

    def _gone(self, process: asyncio.Task[Finished]) -> None:
        if not process.cancelled() and process is self._process and process.exception() is None:
            self._ended(_end_text("the viewer of Neuron Explorer", process.result()))


State = Literal["ready", "free", "ui only", "api only", "other"]


@dataclass(frozen=True, slots=True)
class Ports:
    """Where a viewer serves its pages and its data, which its pages ask for."""

    ui: int
    api: int

    def url(self, name: str) -> str:
        """The page of a profile."""
        return f"http://localhost:{self.ui}/profile/{name}"

    async def state(self) -> State:
        """Who answers at the ports; other is somebody else."""
        api, ui = await asyncio.gather(_get(self.api, "/api/v1/health"), _get(self.ui, "/"))
        if api is None:
            return "free" if ui is None else "ui only"
        if not _is_good(api.status):
            return "other"
        return "api only" if ui is None else "ready"

    async def page(self, name: str) -> int:
        """The status of a profile's page; 0 where nothing sensible answers."""
        answer = await _get(self.ui, f"/profile/{name}")
        return answer.status if answer is not None else 0

    async def unfinished(self, name: str) -> str:
        """The state of a profile that is still being processed; empty where it is not, or is not told."""
        headers = {"x-user-id": "profile-neuron"}
        answer = await _get(self.api, "/api/v1/profiles/search?userName=&uploader=", headers)
        try:
            rows = json.loads(answer.body)["data"] if answer is not None and _is_good(answer.status) else []
            states = [row["status"] for row in rows if row["profile_name"] == name]
        except (ValueError, LookupError, TypeError, RecursionError):
            return ""
        return next((state for state in _UNFINISHED if state in states), "")

    def trouble(self, state: State) -> str:
        """Why no viewer can be used at these ports, and what to do."""
        both = f"ssh -L {self.ui}:localhost:{self.ui} -L {self.api}:localhost:{self.api} HOST"
        match state:
            case "other":
                return f"something else than Neuron Explorer answers at port {self.api}; end it and open again"
            case "ui only":
                return (
                    f"port {self.ui} answers, but port {self.api}, where the pages of Neuron Explorer get their data, "
                    f"does not; both are needed: end what uses port {self.ui} and open again, or where they are "
                    f"forwarded do it for both with {both}"
                )
            case "api only":
                return (
                    f"Neuron Explorer answers at port {self.api}, but its pages at port {self.ui} do not; both are "
                    f"needed: end it and open again, or where they are forwarded do it for both with {both}"
                )
        return (
            f"the viewer of Neuron Explorer did not come up at ports {self.ui} and {self.api}; "
            f"run {explorer.PROGRAM} view by hand to see why"
        )

    def refusal(self, name: str, status: int) -> str:
        """Why a viewer does not show a profile that was just made."""
        if status == _NOT_THERE:
            return (
                f"the viewer at port {self.ui} does not know the profile {name}, so it shows another data folder; end "
                "it and open again"
            )
        return (
            f"the viewer at port {self.ui} fails at the profile {name} with HTTP {status}, as one of another version "
            "than made it does, also after the capture was processed anew; end that viewer and open again"
        )


@dataclass(frozen=True, slots=True)
class _Answer:
    # 0 where what answers speaks no HTTP.
    status: int
    body: bytes


@dataclass(frozen=True, slots=True)
class _Profile:
    """What a capture was made into among the profiles of Neuron Explorer."""

    name: str
    # How often it was processed.
    number: int
    # Seconds since 1970.
    ingested_s: float


async def _ingest(program: str, help_text: bytes, request: OpenRequest, session: Session, number: int) -> _Profile:
    """Process a capture, and remember it. Raises ProfileNeuronError or OSError where that fails."""
    folder = Path(request.folder)
    is_run = (folder / run_folder.RECORD).is_file()
    title, part = (request.title, folder.name) if is_run else (session.path.parent.name, session.path.name)
    name = explorer.profile_name(title, part) + (f"-{number}" if number > 1 else "")
    await explorer.ingest(program, help_text, session, name, _INGEST_S)
    profile = _Profile(name, number, time.time())
    _record(folder).write_text(json.dumps({"schema": run_folder.SCHEMA, **asdict(profile)}), encoding="utf-8")
    return profile


def _known_profile(folder: Path) -> _Profile | None:
    """What a capture was processed as before; None where it was not."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        plain = json.loads(_record(folder).read_text(encoding="utf-8"))
        return _Profile(str(plain["name"]), int(plain["number"]), float(plain["ingested_s"]))
    return None


def _record(folder: Path) -> Path:
    """Where it is remembered: in a run folder, and for captures of the user's own in our cache."""
    if (folder / run_folder.RECORD).is_file():
        return folder / run_folder.OPENED
    digest = hashlib.sha256(str(folder).encode("utf-8", "surrogateescape")).hexdigest()[:32]
    return cache_folder("opened") / f"{digest}.json"


def _wait_text(profile: _Profile, state: str) -> str:
    minutes = (time.time() - profile.ingested_s) / 60
    if minutes > _INGEST_S / 60:
        return (
            f"Neuron Explorer has been processing {profile.name} for {minutes:.0f} minutes ({state}), so it is stuck; "
            "end its viewer and open again, or profile fewer calls"
        )
    return (
        f"Neuron Explorer still processes {profile.name} ({state}), for which 10 to 15 minutes are usual and more than "
        "30 mean that it is stuck; open it again later"
    )


def _end_text(what: str, end: Finished) -> str:
    last = end.printed.decode("utf-8", "replace").rstrip().rpartition("\n")[2].strip()
    how = cause_of_death(end.code) if end.code is not None else "its time limit"
    if "in use" in last:
        return f"{what} found one of its ports taken ({last}); end what uses it and open again"
    return f"{what} ended with {how} ({last or 'it said nothing'}); open again, or run it by hand to see more"


def _is_good(status: int) -> bool:
    return 200 <= status < 300


async def _get(port: int, path: str, headers: dict[str, str] | None = None) -> _Answer | None:
    return await asyncio.to_thread(_answer, port, path, headers or {})


def _answer(port: int, path: str, headers: dict[str, str]) -> _Answer | None:
    """What a program of this machine answers; None where none listens."""
    for host in _LOOPBACK:
        connection = http.client.HTTPConnection(host, port, timeout=_ANSWER_S)
        try:
            connection.connect()
        except OSError:
            continue
        try:
            connection.request("GET", path, headers={"Host": f"localhost:{port}", **headers})
            response = connection.getresponse()
            return _Answer(response.status, response.read(_ANSWER_BYTES))
        except (OSError, http.client.HTTPException):
            return _Answer(0, b"")
        finally:
            connection.close()
    return None
