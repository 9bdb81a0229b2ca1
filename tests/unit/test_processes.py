"""Processes, what they are called and take, and the kernel's counters, from /proc or files like it."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from profile_neuron.agent import processes
from profile_neuron.agent.processes import descendants, is_program, oom_kills, used_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc")


@pytest.fixture
def chain() -> Iterator[list[int]]:
    """A process, and below it one in a session of its own; both wait."""
    script = (
        "import subprocess, sys; child = subprocess.Popen(['sleep', '600'], start_new_session=True); "
        "print(child.pid, flush=True); sys.stdin.read(); child.kill(); child.wait()"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    yield [process.pid, int(process.stdout.readline())]
    process.communicate()


@pytest.mark.parametrize("lists_children", [True, False])
def test_descendants_are_found_in_any_session(
    lists_children: bool, chain: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_lists_children", lambda: lists_children)
    assert set(chain) <= set(descendants(os.getpid()))
    assert descendants(chain[0]) == [chain[1]]
    assert not set(chain) & set(descendants(os.getpid(), without=[chain[0]])), "left out with all of its own"


def test_the_memory_of_a_process_that_is_gone_is_none() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    assert used_bytes([process.pid], 0) == 0
    assert used_bytes([os.getpid()], 10**12) > 1_000_000


PROGRAMS = {
    "a script": ("#!/bin/sh\nread x\n", []),
    "a script of Python": (f"#!{sys.executable}\ninput()\n", []),
    "by an interpreter": ("input()\n", [sys.executable]),
}


@pytest.mark.parametrize("kind", PROGRAMS)
def test_a_program_is_known_however_it_is_started(kind: str, tmp_path: Path) -> None:
    text, interpreter = PROGRAMS[kind]
    program = tmp_path / "neuronx-cc"
    program.write_text(text)
    program.chmod(0o755)
    process = subprocess.Popen([*interpreter, str(program), "compile"], stdin=subprocess.PIPE)
    assert is_program(process.pid, "neuronx-cc")
    process.communicate(b"\n")
    assert not is_program(process.pid, "neuronx-cc")


def test_a_program_that_only_names_another_is_not_that_one(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "neuronx-cc")
    process = subprocess.Popen(["cat", str(tmp_path / "neuronx-cc")])
    try:
        assert not is_program(process.pid, "neuronx-cc")
    finally:
        process.kill()
        process.wait()


COUNTERS = {
    "version 2": ("0::/a/b\n", "cg/a/b/memory.events", "low 0\noom 4\noom_kill 3\n", 3),
    "version 1": ("4:cpu:/a\n7:memory,x:/a\n", "cg/memory/a/memory.oom_control", "under_oom 0\noom_kill 2\n", 2),
    "the whole machine": ("0::/\n", "proc/vmstat", "nr_free 1\noom_kill 7\n", 7),
    "nothing known": ("0::/\n", "proc/other", "oom_kill 7\n", None),
}


@pytest.mark.parametrize("kind", COUNTERS)
def test_the_kernels_count_of_processes_ended_for_memory(kind: str, tmp_path: Path) -> None:
    groups, name, text, expected = COUNTERS[kind]
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "proc" / "self" / "cgroup").write_text(groups)
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(text)
    assert oom_kills(tmp_path / "proc", tmp_path / "cg") == expected
