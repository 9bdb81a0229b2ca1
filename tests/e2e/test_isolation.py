"""Files planted in the project under names that our programs import are executed by nothing but the worker."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.torch

# As pip installs it: a script, whose own folder is first on the path.
COMMAND = str(Path(sys.executable).with_name("profile-neuron"))

PLANTED = ("msgpack.py", "rich.py", "random.py", "json.py", "asyncio.py", "torch_host.py")
# Writes down which process executed it: agent and report are started with -I, the worker as a script.
TRAP = """
import os, sys
with open({log!r}, "a") as file:
    file.write(f"{{__name__}} {{os.getpid()}} {{sys.flags.isolated}} {{' '.join(sys.orig_argv)}}\\n")
PLANTED = True
"""
MODEL = """
import os, sys
import msgpack, rich, random
from profile_neuron import profile_neuron

print("worker", os.getpid())
print("own msgpack", getattr(msgpack, "PLANTED", False))
print("own rich", getattr(rich, "PLANTED", False))

@profile_neuron
def f():
    import torch
    return torch.ones(2)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    log = tmp_path / "executed.txt"
    folder = tmp_path / "project"
    folder.mkdir()
    for name in (*PLANTED, "sitecustomize.py", "usercustomize.py"):
        (folder / name).write_text(TRAP.format(log=str(log)))
    (folder / "model.py").write_text(MODEL)
    return folder


def run(project: Path, **environment: str) -> tuple[str, list[str]]:
    finished = subprocess.run(
        [COMMAND, "run", "model.py"],
        cwd=project,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    log = project.parent / "executed.txt"
    return finished.stderr, log.read_text().split("\n")[:-1] if log.exists() else []


def worker_pid(stderr: str) -> str:
    return next(line.rsplit(" ", 1)[1] for line in stderr.split("\n") if "│ worker" in line)


def test_planted_modules_are_executed_only_by_the_worker(project: Path) -> None:
    stderr, executed = run(project)
    assert {line.split()[1] for line in executed} == {worker_pid(stderr)}
    assert {line.split()[0] for line in executed} >= {"msgpack", "rich"}
    assert "f │ own msgpack True" in stderr.split("\n"), "what we need of the same name does not shadow the user's"
    assert "f │ own rich True" in stderr.split("\n")


def test_a_path_variable_that_names_the_project_reaches_only_the_worker(project: Path) -> None:
    stderr, executed = run(project, PYTHONPATH=str(project))
    by_module = [(line.split()[0], line.split()[1]) for line in executed]
    worker = worker_pid(stderr)
    # The interpreter itself executes sitecustomize from PYTHONPATH before any program begins; the command
    # starts itself again isolated at once, and everything of ours after that never sees the folder.
    assert {module for module, pid in by_module if pid != worker} <= {"sitecustomize", "usercustomize"}
    assert all(line.split()[2] == "0" for line in executed), "no isolated process executed any of them"
    assert "f │ own msgpack True" in stderr.split("\n")


def test_started_as_a_module_in_the_project_folder_it_is_isolated_too(project: Path) -> None:
    finished = subprocess.run(
        [sys.executable, "-m", "profile_neuron", "doctor"], cwd=project, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr
    assert not (project.parent / "executed.txt").exists()


def test_a_report_of_a_run_folder_never_executes_what_lies_beside_it(project: Path) -> None:
    finished = subprocess.run([COMMAND, "report", "."], cwd=project, capture_output=True, text=True, check=False)
    assert finished.returncode == 1
    assert not (project.parent / "executed.txt").exists()
