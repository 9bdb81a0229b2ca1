"""On a real Trainium host: what the profiler gives there, held against torch's own table, and recorded to be sent back.

Nobody who wrote this had such a host. What a run captures is put into neuron-capture.zip in the working directory,
whether the test passes or not: the run folder of a sample, the doctor's words, and the table. Nothing of it is sent
anywhere; attach it to a report of how the test ended.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.neuron

CAPTURE = "neuron-capture.zip"
# Profiles the sample with torch alone, as the guide of the SDK does, and prints its table as JSON.
TABLE = """\
import json, sys
sys.path[:0] = [{root!r}, {samples!r}]
import torch, torch_neuronx
from torch_neuronx.profiling import NeuronConfig, NeuronProfiler, ProfileMode
from profile_neuron.worker.neuron import accepted_arguments
from tests.device.torch_table import device_us
import rms_norm
x, weight = rms_norm.make_inputs()
for _ in range(3):
    rms_norm.naive(x, weight)
torch.neuron.synchronize()
wanted = {{"modes": [ProfileMode.RUNTIME], "profile_output_dir": {output!r}, "correlate_device_time": True}}
config = NeuronConfig(**accepted_arguments(NeuronConfig, wanted))
kinds = torch.profiler.ProfilerActivity
with torch.profiler.profile(activities=[kinds.CPU, kinds.PrivateUse1], experimental_config=config) as profile:
    rms_norm.naive(x, weight)
    torch.neuron.synchronize()
rows = {{row.key: (row.count, device_us(row)) for row in profile.key_averages()}}
print(json.dumps(rows))
"""


def missing() -> str:
    """Why there is nothing to test here; empty on a host with a device and TorchNeuron."""
    if not any(Path("/dev").glob("neuron[0-9]*")):
        return "no Neuron device on this host (/dev/neuron*)"
    command = [sys.executable, "-c", "import torch, torch_neuronx.profiling; print(torch.neuron.device_count())"]
    found = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if found.returncode:
        return f"{sys.executable} has no TorchNeuron ({found.stderr.strip().rpartition(chr(10))[2]})"
    return "" if found.stdout.strip() not in ("", "0") else "TorchNeuron finds no device"


@pytest.fixture(scope="module")
def host() -> None:
    if reason := missing():
        pytest.skip(reason)


def profile_neuron(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "profile_neuron", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=3600, check=False)


@pytest.fixture(scope="module")
def capture(host: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The sample's first function as our command line measures it, recorded with what surrounds it."""
    sample = Path(shutil.copy(ROOT / "samples" / "rms_norm.py", tmp_path_factory.mktemp("sample")))
    done = profile_neuron("run", f"{sample}::naive", "--json", "--keep", "--device", "neuron")
    doctor = profile_neuron("doctor")
    output = tmp_path_factory.mktemp("table")
    script = TABLE.format(root=str(ROOT), samples=str(sample.parent), output=str(output))
    table = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=3600, check=False)
    with zipfile.ZipFile(CAPTURE, "w", zipfile.ZIP_DEFLATED) as recorded:
        for name, finished in (("run", done), ("doctor", doctor), ("table", table)):
            recorded.writestr(f"{name}.txt", f"exit code {finished.returncode}\n{finished.stdout}\n{finished.stderr}")
        found = json.loads(done.stdout)["functions"][0] if done.stdout.startswith("{") else {}
        folder = Path(found.get("run_folder", os.devnull))
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                recorded.write(path, f"folder/{path.relative_to(folder)}")
    sys.stderr.write(f"\nrecorded in {Path(CAPTURE).resolve()}\n")
    assert done.returncode == 0, done.stdout + done.stderr
    return {"function": found, "table": table, "sample": sample}


def test_lines_have_device_time_that_adds_up(capture: dict[str, Any]) -> None:
    function = capture["function"]
    assert function["measure"] == "device", function["warnings"]
    parts = sum(line["total_ns"] for line in function["lines"]) + sum(group["ns"] for group in function["shared"])
    assert parts + function["unattributed_ns"] == function["device_ns"] > 0


def test_the_total_is_about_what_torch_says(capture: dict[str, Any]) -> None:
    table = capture["table"]
    assert table.returncode == 0, table.stderr
    times = [time_us for _, time_us in json.loads(table.stdout.strip().rpartition("\n")[2]).values()]
    assert None not in times
    # Of two runs, so only the order of magnitude can be held against each other.
    assert 0.5 < sum(times) * 1000 / capture["function"]["device_ns"] < 2


def test_the_cores_are_free_when_the_command_has_ended(capture: dict[str, Any]) -> None:
    assert "nothing is held" in profile_neuron("release").stdout
