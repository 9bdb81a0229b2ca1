"""Fixtures: the command line as a process, one warm agent for many runs, files written for one test."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import secrets
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from profile_neuron.core.discovery import discover
from profile_neuron.core.text import decode
from profile_neuron.daemon.agent_client import AgentClient
from profile_neuron.daemon.hosts import LocalHost
from profile_neuron.wire.messages import Limits, RunDone, RunFailed, RunOutput, RunProgress, RunRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from profile_neuron.core.model import FunctionCosts, FunctionSpec

# The same examples every time, and no verdict on how fast a busy machine is.
settings.register_profile("tests", derandomize=True, deadline=None)
settings.load_profile("tests")

ROOT = Path(__file__).parent.parent
DATA = Path(__file__).parent / "data"
CASES = DATA / "cases"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write what tests/data/golden is compared with anew")
    parser.addoption("--torture-steps", type=int, default=2000, help="how many steps the torture test does")
    parser.addoption(
        "--torture-seed", type=int, default=secrets.randbelow(2**32), help="the order of its steps; it prints the seed"
    )


def case(name: str) -> Path:
    """Folder of a case by the start of its name."""
    (folder,) = CASES.glob(f"{name}-*")
    return folder


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Run folders of the tests stay out of the user's cache."""
    before = os.environ.get("XDG_CACHE_HOME")
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))
    yield
    if before is None:
        del os.environ["XDG_CACHE_HOME"]
    else:
        os.environ["XDG_CACHE_HOME"] = before


@dataclass(frozen=True)
class Finished:
    """A command that ended."""

    code: int
    out: str
    err: str

    def document(self) -> dict[str, Any]:
        """The JSON it printed."""
        parsed: dict[str, Any] = json.loads(self.out)
        return parsed

    def function(self, qualname: str) -> dict[str, Any]:
        """The first function of that name in the JSON it printed."""
        found: dict[str, Any] = next(item for item in self.document()["functions"] if item["qualname"] == qualname)
        return found


@pytest.fixture
def command() -> Callable[..., Finished]:
    """Run profile-neuron with arguments and give its exit code and what it printed."""

    def run(*arguments: object, cwd: Path | None = None, **environment: str) -> Finished:
        finished = subprocess.run(
            [sys.executable, "-m", "profile_neuron", *map(str, arguments)],
            cwd=cwd,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        return Finished(finished.returncode, finished.stdout, finished.stderr)

    return run


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write a dedented source file below the test's folder."""

    def write_file(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip("\n"), encoding="utf-8")
        return path

    return write_file


@dataclass(frozen=True)
class Run:
    """One run by the session's agent: its end, and what came before it."""

    end: RunDone | RunFailed
    phases: tuple[str, ...]
    output: tuple[str, ...]

    @property
    def state(self) -> str:
        return self.end.state if isinstance(self.end, RunFailed) else self.end.costs.functions[0].state

    @property
    def reason(self) -> str | None:
        return self.end.failure.reason if isinstance(self.end, RunFailed) else self.end.costs.functions[0].reason

    @property
    def frames(self) -> list[tuple[str, int]]:
        """Function and line of each frame of the failure."""
        failure = self.end.failure if isinstance(self.end, RunFailed) else self.end.costs.functions[0]
        return [(frame.function, frame.line) for frame in failure.frames]

    @property
    def costs(self) -> FunctionCosts:
        """The profiled function's costs."""
        assert isinstance(self.end, RunDone), self.end
        return self.end.costs.functions[0]

    def function(self, qualname: str) -> FunctionCosts:
        """Costs of one function of the result."""
        assert isinstance(self.end, RunDone), self.end
        return next(item for item in self.end.costs.functions if item.qualname == qualname)

    def operators(self) -> dict[int, dict[str, float]]:
        """Operators of the profiled function: name and calls by line."""
        return operators(self.costs)


def operators(costs: FunctionCosts) -> dict[int, dict[str, float]]:
    """Name and calls of a function's operators, by line; lines without any are left out."""
    return {line.line: {item.name: item.calls for item in line.operators} for line in costs.lines if line.operators}


class Profiler:
    """One agent and its warm worker, for all tests of a session."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._client: AgentClient | None = None

    def run(self, path: Path, qualname: str = "", **changes: Any) -> Run:
        """Profile one function of a file; changes replace fields of the request."""
        return self._loop.run_until_complete(self._run(request(path, qualname, **changes)))

    def run_spec(self, path: Path, spec: FunctionSpec, **changes: Any) -> Run:
        """Profile a definition that the caller has discovered itself."""
        return self._loop.run_until_complete(self._run(request_of(path, spec, **changes)))

    def close(self) -> None:
        if self._client is not None:
            self._loop.run_until_complete(self._client.close())
        self._loop.close()

    async def _run(self, wanted: RunRequest) -> Run:
        if self._client is None:
            self._client = await AgentClient.start(LocalHost(sys.executable))
        phases: list[str] = []
        output: list[str] = []
        async for message in self._client.run(wanted):
            match message:
                case RunProgress(phase=phase):
                    phases.append(phase)
                case RunOutput(text=text):
                    output += text.split("\n")
                case RunDone() | RunFailed():
                    return Run(message, tuple(phases), tuple(output))
        raise AssertionError("a run ends with RunDone or RunFailed")


def request(path: Path, qualname: str = "", **changes: Any) -> RunRequest:
    """A request for one function, by default the only one of a file."""
    modules = changes.get("decorator_modules", ("profile_neuron", "pn_api"))
    specs = discover(decode(path.read_bytes()), modules)
    spec = next(item for item in specs if not qualname or item.qualname == qualname)
    if "def_line" in changes:
        spec = next(item for item in specs if item.def_line == changes["def_line"])
    return request_of(path, spec, **{"decorator_modules": modules, **changes})


def request_of(path: Path, spec: FunctionSpec, **changes: Any) -> RunRequest:
    """A request for one definition; changes replace fields of it."""
    fields: dict[str, Any] = {
        "run_id": secrets.token_hex(8),
        "path": str(path),
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "qualname": spec.qualname,
        "first_line": spec.first_line,
        "def_line": spec.def_line,
        "repeats": None,
        "device": "auto",
        "decorator_modules": ("profile_neuron",),
        "project_roots": (str(path.parent),),
        "cwd": str(path.parent),
        "limits": Limits(60.0, 60.0),
    }
    return RunRequest(**{**fields, **changes})


@pytest.fixture(scope="session")
def profiler() -> Iterator[Profiler]:
    """The session's agent; the support folder, where the cases' decorator comes from, is importable."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(DATA / "support")
    session = Profiler()
    yield session
    session.close()
    if before is None:
        del os.environ["PYTHONPATH"]
    else:
        os.environ["PYTHONPATH"] = before
