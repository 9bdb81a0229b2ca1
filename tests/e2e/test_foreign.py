"""The command line on what plain scripts with torch's profiler left, on the stand-in device and on the CPU.

Costs are constructed. They show that our side reads what torch exports, and nothing of what TorchNeuron really writes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from profile_neuron.core.host_work import USUAL_CAUSES
from tests.conftest import DATA, case
from tests.standin import environment

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Finished

    Command = Callable[..., Finished]

MODEL = """\
import torch


def scale(x):
    return torch.rsqrt(x)


@torch.no_grad()
def naive(x, weight):
    squared = x * x
    return scale(squared) * weight
"""
TRAIN = """\
import sys

import torch
from model import naive
from torch.profiler import ProfilerActivity, profile
from torch_neuronx.profiling import NeuronConfig, NeuronProfiler

config = NeuronConfig(profile_output_dir=sys.argv[1], correlate_device_time=True)
x = torch.ones(4, 8, device="neuron")
weight = torch.ones(8, device="neuron")
naive(x, weight)
torch.neuron.synchronize()
with profile(
    activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1],
    experimental_config=config,
    on_trace_ready=NeuronProfiler(config).export_trace,
    with_stack=True,
):
    naive(x, weight)
    torch.neuron.synchronize()
"""
COSTS = '{"aten::mul": [100000], "aten::rsqrt": [50000]}'
NAIVE, SCALE = "model.py(8): naive", "model.py(4): scale"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "pro ject"
    folder.mkdir()
    (folder / "model.py").write_text(MODEL)
    (folder / "train.py").write_text(TRAIN)
    return folder


def train(project: Path, mode: str) -> Path:
    """Run the user's script, as the user does."""
    out = project.parent / "output"
    variables = environment(mode, STANDIN_NEURON_COSTS=COSTS)
    subprocess.run(
        [sys.executable, "train.py", str(out)],
        cwd=project,
        env={**os.environ, **variables},
        check=True,
        timeout=120,
        capture_output=True,
    )
    return out


def functions(capture: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {f"{item['file']}({item['line']}): {item['name']}": item for item in capture["functions"]}


def row(text: str, name: str) -> list[str]:
    """The numbers behind a name in a table."""
    (line,) = (line for line in text.split("\n") if line.startswith(f"{name}  "))
    return line.removeprefix(name).split()


@pytest.mark.torch
@pytest.mark.parametrize("mode", ["kernels", "drivers"])
def test_functions_of_a_script_get_the_device_time_that_they_asked_for(
    project: Path, command: Command, mode: str
) -> None:
    out = train(project, mode)
    before = {str(path): path.stat().st_mtime_ns for path in out.rglob("*")}
    finished = command("report", out, "--json", cwd=project)
    assert (finished.code, finished.err) == (0, "")
    (capture,) = finished.document()["foreign"]
    found = functions(capture)
    assert (capture["device_ns"], capture["executions"], capture["lower_bound"]) == (250_000, 3, False)
    assert capture["may_include_queueing"] == (mode == "drivers")
    assert (found[NAIVE]["device_ns"], found[NAIVE]["own_device_ns"], found[NAIVE]["executions"]) == (
        250_000,
        200_000,
        3,
    )
    assert (found[SCALE]["device_ns"], found[SCALE]["calls"], found[SCALE]["executions"]) == (50_000, 1, 1)
    assert found[NAIVE]["host_ns"] > found[SCALE]["host_ns"] > 0
    assert {name: item["path"] for name, item in found.items() if item["path"]} == {
        NAIVE: str(project / "model.py"),
        SCALE: str(project / "model.py"),
    }
    assert {item["name"]: item["own_device_ns"] for item in found[NAIVE]["operators"]} == {"aten::mul": 200_000}
    assert "lines: none, torch names only functions" in capture["provenance"]
    assert {str(path): path.stat().st_mtime_ns for path in out.rglob("*")} == before

    text = command("report", out, "--ops", cwd=project).out
    assert row(text, NAIVE)[:6] == ["1", "250", "µs", "200", "µs", row(text, NAIVE)[5]]
    assert "device 250 µs · 3 executions" in text
    assert f"{SCALE} is scale of model.py" in text
    assert row(text, "aten::rsqrt")[-4:] == ["50.0", "µs", "50.0", "µs"]


@pytest.mark.torch
def test_a_script_whose_profiler_saw_nothing_of_the_device_hears_why(project: Path, command: Command) -> None:
    out = train(project, "nothing")
    finished = command("report", out, cwd=project)
    assert finished.code == 0
    assert f"device time unknown: {', or '.join(USUAL_CAUSES)}" in finished.out
    assert "the folder holds NTFF files, which Neuron Explorer opens" in finished.out
    assert row(finished.out, NAIVE)[:3] == ["1", "–", "–"]
    assert " 0 ns" not in finished.out


@pytest.mark.torch
@pytest.mark.parametrize(("mode", "reason"), [("fusion", "several-operators"), ("mapping", "no-operator")])
def test_device_time_of_no_single_function_still_adds_up(
    project: Path, command: Command, mode: str, reason: str
) -> None:
    (capture,) = command("report", train(project, mode), "--json", cwd=project).document()["foreign"]
    assert capture["device_ns"] == 250_000
    assert [(item["reason"], item["device_ns"]) for item in capture["unattributed"]] == [(reason, 250_000)]
    assert capture["lower_bound"]


def test_a_trace_of_the_cpu_prints_its_functions(command: Command) -> None:
    path = DATA / "traces" / "torch-2.13.0-cpu-with_stack.json"
    finished = command("report", path, cwd=DATA)
    assert finished.code == 0
    assert "device time unknown" in finished.out
    assert "torch has lost the name" in finished.out


def test_several_processes_have_a_section_each(command: Command, tmp_path: Path) -> None:
    for pid in (1, 2):
        folder = tmp_path / f"i-0abc_pid_{pid}" / "1790000000"
        folder.mkdir(parents=True)
        (folder / "trace.json").write_bytes((case("T11") / "trace.json").read_bytes())
    text = command("report", tmp_path, cwd=tmp_path)
    assert text.out.count("device 333 µs · 1 execution") == 2
    assert "m.py(4): f: calls compiled code" in text.out
    assert "all 2 together: device 666 µs" in text.out
    document = command("report", tmp_path, "--json", cwd=tmp_path).document()
    assert (document["schema"], document["functions"], document["foreign_device_ns"]) == (1, [], 666_000)


def test_what_runs_outside_of_functions_is_told_with_its_reason(command: Command) -> None:
    text = command("report", case("T10") / "trace.json").out
    assert "unattributed: 118 µs in 3 events of the device: the trace links it to no operator" in text
    assert row(text, "m.py(1): f")[:3] == ["1", "≥21.0", "µs"]
    text = command("report", case("T13") / "trace.json").out
    assert row(text, "m.py(1): f")[:3] == ["1", "–", "–"]
    assert "a thread asked for it of which the trace has no Python frames" in text


@pytest.mark.parametrize("content", [b"", b"[", b"no trace", b"\x1f\x8b broken"])
def test_what_is_no_trace_is_one_sentence(command: Command, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "trace.json").write_bytes(content)
    finished = command("report", tmp_path / "trace.json")
    assert (finished.code, finished.out, finished.err.count("\n")) == (1, "", 1)
    assert "trace.json cannot be read: " in finished.err
