"""A bundle for a bug report and the folders of kept runs, as a user of the command line meets them."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.standin import environment

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Finished

    Command = Callable[..., Finished]

pytestmark = pytest.mark.torch

MARKED = "import torch\nfrom profile_neuron import profile_neuron\n@profile_neuron\ndef f(): return torch.ones(2) + 1\n"


@pytest.fixture
def cache(tmp_path: Path) -> dict[str, str]:
    """A cache of the test's own, in a home with a telling name."""
    home = tmp_path / "home" / "someuser"
    (home / "topsecret" / ".git").mkdir(parents=True)
    return {
        "HOME": str(home),
        "XDG_CACHE_HOME": str(home / ".cache"),
        "USER": "someuser",
        "LOGNAME": "someuser",
        "HOSTNAME": "vaultbox9",
        "NEURON_CC_FLAGS": f"--dump={home}/topsecret on vaultbox9 i-0123456789abcdef0",
    }


def runs(cache: dict[str, str]) -> Path:
    return Path(cache["XDG_CACHE_HOME"]) / "profile-neuron" / "runs"


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_a_bundle_of_the_cpu_is_shown_written_once_and_read_again(
    command: Command, cache: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "report.zip"
    project = Path(cache["HOME"]) / "topsecret"
    done = command("doctor", "--bundle", path, "--yes", cwd=project, **cache)
    assert done.code == 0, done.err
    found = members(path)
    for name, content in found.items():
        assert f"  {name}\n" in done.out, "what goes in is shown"
        for word in (b"someuser", b"topsecret", b"vaultbox9", b"i-0123456789abcdef0"):
            assert word not in content.lower(), (name, word)
            assert word.decode() not in name.lower()
    assert f"  PROJECT  for {project} (1)\n" in done.out
    assert path.stat().st_mode & 0o777 == 0o600
    assert json.loads(found["variables.json"]) == {"NEURON_CC_FLAGS": "--dump=PROJECT on HOST INSTANCE"}
    assert json.loads(found["bundle.json"])["problems"] == []
    then = json.loads(found["capture/report.json"])["functions"][0]
    now = command("report", path, "--json", **cache).function("tiny")
    assert (now["host_ns"], now["lines"], now["path"]) == (then["host_ns"], then["lines"], "CAPTURE/tiny.py")
    text = command("report", path, **cache)
    assert text.code == 0
    assert text.out.startswith("made 20")
    assert "squared = x * x" in text.out
    assert list(runs(cache).iterdir()) == [], "its own run folder is gone"
    again = command("doctor", "--bundle", path, "--yes", cwd=project, **cache)
    assert (again.code, again.out, again.err) == (2, "", f"profile-neuron: {path} is there already; name a new file\n")


def test_a_bundle_of_a_neuroncore_has_what_its_profiler_and_tools_tell(
    command: Command, cache: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "report.zip"
    done = command("doctor", "--bundle", path, "--yes", **{**cache, **environment("mapping")})
    assert done.code == 0, done.err
    found = members(path)
    profiling = found["details/torch_neuronx.profiling.txt"].decode()
    assert "NeuronConfig(modes: " in profiling
    assert "DEVICE, RUNTIME, CPU_UTIL, HOST_MEMORY" in profiling
    assert "synchronize(" in found["details/torch.neuron.txt"].decode()
    assert b"--ingest-only" in found["details/neuron-explorer view --help.txt"]
    assert json.loads(found["details/neuron-ls --json-output.txt"])[0]["nc_count"] == 2
    assert any("framework_mapping_" in name for name in found)
    listed = [item["path"] for item in json.loads(found["capture/files.json"])]
    assert any(name.endswith(".neff") for name in listed)
    assert not any(name.endswith(".neff") for name in found)
    (trace,) = json.loads(found["capture/traces.json"]).values()
    assert {"cpu_op", "privateuse1_runtime"} <= {item["category"] for item in trace["categories"]}
    report = command("report", path, "--json", **cache)
    assert (report.document()["device"]["kind"], report.function("tiny")["device_ns"]) == ("neuron", 2_355_000)


def test_an_interpreter_that_cannot_be_started_leaves_a_bundle_that_says_so(
    command: Command, cache: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "report.zip"
    done = command("doctor", "--bundle", path, "--yes", "--python", tmp_path / "nowhere", **cache)
    assert done.code == 0, done.err
    (problem,) = json.loads(members(path)["bundle.json"])["problems"]
    assert problem.startswith("the interpreter was not asked: ")
    report = command("report", path, **cache)
    assert report.code == 1
    assert "the interpreter was not asked" in report.out
    assert report.err.count("\n") == 1


def test_a_bundle_in_no_folder_is_refused_before_anything_is_asked(command: Command, tmp_path: Path) -> None:
    done = command("doctor", "--bundle", tmp_path / "no" / "b.zip")
    said = f"profile-neuron: {tmp_path / 'no'} is not a folder; name a file in one\n"
    assert (done.code, done.out, done.err) == (2, "", said)


def test_kept_runs_are_listed_and_cleaned(command: Command, cache: dict[str, str], tmp_path: Path) -> None:
    model = tmp_path / "model.py"
    model.write_text(MARKED)
    assert command("runs", **cache).out == "no run folders are kept\n"
    folder = command("run", model, "--keep", "--json", **cache).function("f")["run_folder"]
    (entry,) = command("runs", "--json", **cache).document()["runs"]
    assert (entry["folder"], entry["path"], entry["qualname"]) == (folder, str(model), "f")
    assert entry["reason"] == "younger than a day"
    assert entry["size_bytes"] > 1000
    listed = command("runs", **cache)
    assert listed.code == 0
    assert listed.out.split("\n")[1].startswith(Path(folder).name)
    cleaned = command("runs", "--clean", "--yes", **cache)
    assert cleaned.code == 0
    assert cleaned.out.endswith("1 run folders removed\n")
    assert list(runs(cache).iterdir()) == []


def test_where_nobody_can_be_asked_nothing_is_asked(cache: dict[str, str]) -> None:
    (runs(cache) / "20261129-101500-1f3c").mkdir(mode=0o700, parents=True)
    (runs(cache) / "20261129-101500-1f3c" / "run.json").write_text("{}")
    done = subprocess.run(
        [sys.executable, "-m", "profile_neuron", "runs", "--clean"],
        env={**os.environ, **cache},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("1 run folders removed\n")
    assert list(runs(cache).iterdir()) == []


@pytest.mark.parametrize(("answer", "code", "left"), [("n", 1, 1), ("", 1, 1), ("y", 0, 0)])
def test_a_person_is_asked_before_anything_is_removed(
    answer: str, code: int, left: int, cache: dict[str, str], tmp_path: Path
) -> None:
    (runs(cache) / "20261129-101500-1f3c").mkdir(mode=0o700, parents=True)
    (runs(cache) / "20261129-101500-1f3c" / "run.json").write_text("{}")
    terminal, of_program = pty.openpty()
    with os.fdopen(terminal, "r+b", buffering=0) as screen:
        process = subprocess.Popen(
            [sys.executable, "-m", "profile_neuron", "runs", "--clean"],
            env={**os.environ, **cache},
            stdin=of_program,
            stdout=subprocess.DEVNULL,
            stderr=of_program,
        )
        os.close(of_program)
        said = b""
        while not said.endswith(b"[y/N] "):
            said += screen.read(100)
        screen.write(f"{answer}\n".encode())
        assert process.wait(timeout=60) == code
    assert said == b"Remove 1 run folders? [y/N] "
    assert len(list(runs(cache).iterdir())) == left
