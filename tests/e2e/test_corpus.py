"""Every operator of the corpus is on its hand-written line: with torch, and with plain functions on each Python."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from profile_neuron.daemon.agent_client import AgentClient
from profile_neuron.daemon.hosts import LocalHost
from profile_neuron.wire.messages import Environment, RunDone, RunFailed

CORPUS = Path(__file__).resolve().parents[1] / "corpus"
# The harness is also run by interpreters that have nothing but the standard library, so it is no package.
sys.path.insert(0, str(CORPUS))

import plan  # noqa: E402
from expectations import Comparison  # noqa: E402
from faults import FAULTS  # noqa: E402

Say = Callable[[str], None]

_LEAST_FUNCTIONS = 40
_LEAST_OPERATORS = 200
# The versions of Python that have a clock; 3.99 stands for no limit.
_VERSIONS = {"settrace": ((3, 10), (3, 11)), "monitoring": ((3, 12), (3, 99))}


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Say:
    """Prints also where the test passes: which interpreters were used is part of the result."""

    def say(text: str) -> None:
        with capsys.disabled():
            sys.stdout.write(f"\n{text} ")

    return say


@pytest.mark.torch
def test_operators_of_torch_are_on_their_lines(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, say: Say) -> None:
    monkeypatch.setenv("PYTHONPATH", str(CORPUS))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    comparison, environment, unbalanced = asyncio.run(_run_with_torch())
    used = f"torch {environment.torch} on Python {environment.python}, sys.{environment.clock}"
    say(f"{sys.executable}: {used}: {comparison.functions} functions, {comparison.operators} operators")
    assert comparison.finish() == []
    assert unbalanced == []
    assert comparison.results == comparison.functions >= _LEAST_FUNCTIONS
    assert comparison.operators >= _LEAST_OPERATORS


async def _run_with_torch() -> tuple[Comparison, Environment, list[str]]:
    """The comparison, what ran, and the functions whose times do not add up."""
    comparison, unbalanced = Comparison(plan.expectations()), []
    client = await AgentClient.start(LocalHost(sys.executable))
    try:
        environment = await client.environment()
        for path, spec in plan.functions():
            async for message in client.run(plan.request(path, spec)):
                if isinstance(message, RunFailed):
                    comparison.fail(path, spec, message.failure.reason)
                elif isinstance(message, RunDone):
                    comparison.add(message.costs)
                    unbalanced += _unbalanced(message)
    finally:
        await client.close()
    return comparison, environment, unbalanced


def _unbalanced(done: RunDone) -> list[str]:
    return [
        function.qualname
        for function in done.costs.functions
        if sum(line.total_ns for line in function.lines)
        + sum(group.ns for group in function.shared)
        + (function.unattributed_ns or 0)
        != function.host_ns
    ]


@pytest.mark.parametrize("clock", ["settrace", "monitoring"])
def test_plain_operators_are_on_their_lines_on_every_python(clock: str, say: Say) -> None:
    for python in _pythons(clock):
        document = _run_plain(python, say)
        assert document["differences"] == []
        assert document["clock"] == clock
        assert document["results"] == document["functions"] >= _LEAST_FUNCTIONS
        assert document["operators"] >= _LEAST_OPERATORS


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("clock", ["settrace", "monitoring"])
def test_a_faulty_clock_is_noticed(clock: str, fault: str, say: Say) -> None:
    document = _run_plain(_pythons(clock)[0], say, "--fault", fault)
    assert document["clock"] == clock
    # A function without a result would be noticed too, but that is not what the fault is about.
    assert document["results"] == document["functions"]
    assert document["differences"] != []


def _run_plain(python: str, say: Say, *options: str) -> dict[str, Any]:
    command = [python, "-W", "error", str(CORPUS / "run_plain.py"), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    say(
        f"{python}: Python {document['python']}, {' '.join(['sys.' + document['clock'], *options])}: "
        f"{document['functions']} functions, {document['operators']} operators, "
        f"{len(document['differences'])} differences"
    )
    return document


def _pythons(clock: str) -> list[str]:
    """Every CPython of this machine that has a clock, each once; this interpreter comes first."""
    first, last = _VERSIONS[clock]
    found = [path for path, version in _found_pythons().items() if first <= version <= last]
    if not found:
        wanted = "3.10 or 3.11" if clock == "settrace" else "3.12 or newer"
        reason = f"no CPython {wanted} is on this machine; install one with pyenv, for example pyenv install 3.13"
        # A clock that goes untested must not look like success where the answer counts for everybody.
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found


@cache
def _found_pythons() -> dict[str, tuple[int, int]]:
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    candidates = [Path(sys.executable), *sorted(pyenv.glob("versions/*/bin/python3"))]
    for folder in (Path("/usr/bin"), Path("/usr/local/bin")):
        candidates += sorted(folder.glob("python3.1[0-9]"))
    found: dict[Path, tuple[str, tuple[int, int]]] = {}
    for candidate in candidates:
        # An environment's python is a link to the one that it was made from.
        if candidate.resolve() not in found and (version := _cpython_version(candidate)) is not None:
            found[candidate.resolve()] = (str(candidate), version)
    return dict(found.values())


def _cpython_version(python: Path) -> tuple[int, int] | None:
    ask = "import sys; print(sys.implementation.name, *sys.version_info[:2])"
    try:
        said = subprocess.run([str(python), "-I", "-c", ask], capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    name, major, minor = said.stdout.split()
    return (int(major), int(minor)) if name == "cpython" else None
