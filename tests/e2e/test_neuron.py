"""The command line on the stand-in device, whose costs are constructed: the whole path, from device="neuron" to lines.

They show that our side works in each form in which the documentation says that device times may come, and nothing of
what TorchNeuron really writes.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.conftest import ROOT
from tests.standin import environment

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Finished

    Command = Callable[..., Finished]
    Write = Callable[..., Path]

pytestmark = pytest.mark.torch

SAMPLES = ROOT / "samples"
# In order, in ns; the scalar's copy of 5 000 is in the time of the addition.
NAIVE = {40: 388_167, 41: 400_000, 42: 395_500, 43: 395_000, 44: 388_167, 45: 388_166}
TOTAL = 2_355_000


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """The sample in a project of its own, of which the stand-in is no part."""
    return Path(shutil.copy(SAMPLES / "rms_norm.py", tmp_path))


def lines(function: dict[str, Any]) -> dict[int, int]:
    return {line["line"]: line["total_ns"] for line in function["lines"] if line["total_ns"]}


def remarks(function: dict[str, Any]) -> list[tuple[int, str, str]]:
    return [(line["line"], item["code"], item["operator"]) for line in function["lines"] for item in line["remarks"]]


def checked(function: dict[str, Any]) -> dict[str, Any]:
    """A function whose lines, groups and rest add up to its device time."""
    parts = sum(line["total_ns"] for line in function["lines"]) + sum(group["ns"] for group in function["shared"])
    assert parts + function["unattributed_ns"] == function["device_ns"], function["qualname"]
    return function


SOURCES = {
    "kernels": "profiler in the worker",
    "pcores": "profiler in the worker",
    "drivers": "profiler in the worker",
    "uncorrelated": "profiler in the worker",
    "mapping": "exported trace",
}


@pytest.mark.parametrize("mode", SOURCES)
def test_each_way_in_which_times_may_come_gives_the_same_lines(command: Command, sample: Path, mode: str) -> None:
    done = command("run", sample, "--json", **environment(mode))
    assert done.code == 0, done.err
    assert done.document()["device"] == {"kind": "neuron", "name": "NeuronCore"}
    naive = checked(done.function("naive"))
    assert (lines(naive), naive["device_ns"], naive["executions"], naive["shared"]) == (NAIVE, TOTAL, 6, [])
    assert (naive["measure"], naive["lower_bound"]) == ("device", False)
    assert naive["may_include_queueing"] == (mode in ("drivers", "uncorrelated", "mapping"))
    assert f"executions from the {SOURCES[mode]}" in naive["provenance"]
    fused, compiled = checked(done.function("fused")), checked(done.function("compiled"))
    assert (lines(fused), fused["executions"]) == ({50: 403_300}, 1)
    assert (lines(compiled), compiled["executions"]) == ({55: 375_500}, 1)


def test_the_operator_table_has_what_the_lines_have(command: Command, sample: Path) -> None:
    naive = command("run", f"{sample}::naive", "--json", **environment()).function("naive")
    device = {row["name"]: (row["calls"], row["device_ns"]) for row in naive["operators"]}
    assert device["aten::mul"] == (3, 1_164_500)
    assert device["aten::mean"] == (1, 400_000)
    # What is inside of the addition has its copy.
    assert (device["aten::add"], device["aten::copy_"]) == ((1, 390_500), (1, 5_000))
    assert sum(ns for _, ns in device.values()) == TOTAL


def test_the_text_says_neuron_and_what_would_help(command: Command, sample: Path) -> None:
    done = command("run", f"{sample}::naive", "--ops", **environment())
    assert done.code == 0, done.err
    first, second = done.out.splitlines()[:2]
    assert first.startswith("naive  ")
    assert second.startswith("neuron 2.36 ms per call ±0.0 % · 6 executions · host ")
    assert "    42    396 µs   17 %" in done.out
    assert "1.16 ms   49 %" in done.out
    assert (
        "line 40: this looks like an RMSNorm, in 6 executions (mul, mean, add, rsqrt, mul, mul) of 2.36 ms together; "
        "torch.rms_norm starts the device once"
    ) in done.out
    assert "line 42: aten::add copies from the host to the device, " in done.out


def test_operators_that_run_as_one_execution_are_one_group_that_counts_once(command: Command, sample: Path) -> None:
    done = command("run", f"{sample}::naive", "--json", **environment("fusion"))
    naive = checked(done.function("naive"))
    assert (lines(naive), naive["shared"]) == ({}, [{"lines": [*NAIVE], "ns": TOTAL, "executions": 1}])
    assert (naive["device_ns"], naive["executions"]) == (TOTAL, 1)
    text = command("run", f"{sample}::naive", **environment("fusion")).out
    for number in NAIVE:
        assert f"    {number}  ≈2.36 ms shared" in text


def test_without_events_and_mapping_device_time_is_unknown_and_never_zero(command: Command, sample: Path) -> None:
    done = command("run", f"{sample}::naive", "--json", **environment("nothing"))
    assert done.code == 0, done.err
    naive = done.function("naive")
    assert done.document()["device"]["kind"] == "neuron"
    assert (naive["device_ns"], naive["measure"], naive["executions"]) == (None, "host", None)
    assert naive["host_ns"] > 0
    assert [row["device_ns"] for row in naive["operators"]] == [None] * len(naive["operators"])
    assert any(warning.startswith("device time unknown: ") for warning in naive["warnings"])
    text = command("run", f"{sample}::naive", **environment("nothing")).out
    assert text.splitlines()[1].startswith("device time unknown · host ")
    assert "0 ns" not in text


def test_the_api_of_april_has_its_times_from_neuron_explorers_tables(command: Command, sample: Path) -> None:
    done = command("run", f"{sample}::naive", f"{sample}::fused", "--json", **environment("april"))
    naive = checked(done.function("naive"))
    assert (lines(naive), naive["device_ns"], naive["executions"]) == (NAIVE, TOTAL, 6)
    assert "executions from the system profile of Neuron Explorer" in naive["provenance"]
    assert lines(done.function("fused")) == {50: 403_300}


def test_the_api_of_april_without_the_tools_says_what_to_install(command: Command, sample: Path) -> None:
    done = command("run", f"{sample}::naive", "--json", **{**environment("april"), "PATH": os.environ["PATH"]})
    naive = done.function("naive")
    assert naive["device_ns"] is None
    assert any(warning.startswith("device time unknown: ") for warning in naive["warnings"])
    why = "Neuron Explorer is not installed; install the package aws-neuronx-tools, which has neuron-explorer"
    assert why in naive["warnings"]


def test_the_xla_package_is_recognised_and_the_cpu_is_measured(command: Command, sample: Path) -> None:
    done = command("run", f"{sample}::naive", "--json", **environment("xla"))
    naive = done.function("naive")
    assert (done.document()["device"]["kind"], naive["device_ns"], naive["measure"]) == ("cpu", None, "host")
    why = "torch-neuronx 2.9.0 is the XLA package of Trn1 and Inf2, without a device neuron"
    assert f"measured on the CPU: {why}" in naive["warnings"]
    asked = command("run", f"{sample}::naive", "--device", "neuron", **environment("xla"))
    assert asked.code == 1
    assert f"failed: no-device: {why}; TorchNeuron" in asked.out


def test_a_host_without_a_device_says_so_where_one_is_asked_for(command: Command, sample: Path) -> None:
    done = command("run", f"{sample}::naive", "--device", "neuron")
    assert done.code == 1
    assert "failed: no-device: torch-neuronx is not installed; --device cpu measures the CPU" in done.out


def test_a_model_has_lines_that_add_up(command: Command, tmp_path: Path) -> None:
    done = command("run", shutil.copy(SAMPLES / "llama_block.py", tmp_path), "--json", **environment())
    assert done.code == 0, done.err
    functions = done.document()["functions"]
    assert {item["qualname"] for item in functions} >= {"RMSNorm.forward", "Attention.forward", "DecoderBlock.forward"}
    for item in functions:
        assert item["measure"] == "device", item["qualname"]
        assert (checked(item)["device_ns"] > 0) == any(row["device_ns"] for row in item["operators"]), item["qualname"]


def of_functions(done: Finished) -> dict[tuple[str, str], object]:
    """Times of each function of a run, which no two sources may tell otherwise."""
    return {
        (item["qualname"], item.get("during", "")): (
            item["device_ns"],
            item["unattributed_ns"],
            item["executions"],
            lines(item),
            item["shared"],
            item["lower_bound"],
        )
        for item in done.document()["functions"]
    }


def test_all_sources_agree_on_every_line_of_a_model(command: Command, tmp_path: Path) -> None:
    path = shutil.copy(SAMPLES / "llama_block.py", tmp_path)
    found = of_functions(command("run", path, "--json", **environment()))
    assert len(found) > 15
    for mode in ("mapping", "drivers", "uncorrelated", "april", "pcores"):
        assert of_functions(command("run", path, "--json", **environment(mode))) == found, mode


FUNCTION = """
    import time
    import torch
    from profile_neuron import profile_neuron

    def make_inputs():
        return (torch.arange(64.0).reshape(8, 8).to("neuron"),)

    @profile_neuron(inputs=make_inputs)
    def f(x):
        {body}
"""


@pytest.fixture
def run_body(command: Command, write: Write) -> Callable[..., dict[str, Any]]:
    """Run a function with these lines, which begin at 10."""

    def run(*body: str, mode: str = "kernels", options: tuple[str, ...] = (), **more: str) -> dict[str, Any]:
        path = write("model.py", FUNCTION.replace("{body}", "\n        ".join(body)))
        done = command("run", path, "--json", *options, **environment(mode, **more))
        assert done.code == 0, done.out + done.err
        return checked(done.function("f")) if done.function("f")["device_ns"] is not None else done.function("f")

    return run


def test_an_operator_without_a_kernel_is_a_fallback_at_its_line(run_body: Callable[..., dict[str, Any]]) -> None:
    f = run_body("y = x + x", "z = torch.cummin(y, 0).values", "return z * y")
    assert remarks(f) == [(11, "cpu-fallback", "aten::cummin")]
    (line,) = [line for line in f["lines"] if line["line"] == 11]
    # Its copies take the device's time, and nothing was executed there.
    assert (line["executions"], line["remarks"][0]["calls"]) == (0, 1)
    assert line["remarks"][0]["host_ns"] >= line["host_ns"] > 0
    assert line["total_ns"] > 0


def test_a_number_that_is_read_and_a_tensor_that_is_copied_are_remarks_at_their_lines(
    run_body: Callable[..., dict[str, Any]],
) -> None:
    f = run_body("n = x.sum().item()", "y = x.cpu()", "z = y.to('neuron')", "return z + x")
    found = remarks(f)
    assert (10, "host-sync", "aten::item") in found
    assert {(line, code) for line, code, _ in found} == {(10, "host-sync"), (11, "transfer"), (12, "transfer")}
    ways = {line["line"]: line["remarks"][0]["directions"] for line in f["lines"] if line["remarks"]}
    assert (ways[11], ways[12]) == (["from device"], ["to device"])


def test_printing_a_tensor_of_the_device_is_told(run_body: Callable[..., dict[str, Any]]) -> None:
    f = run_body("y = x + x", "print(y)", "return y")
    assert {code for line, code, _ in remarks(f) if line == 11} & {"host-sync", "transfer"}


def test_a_clock_that_is_read_too_early_is_told(run_body: Callable[..., dict[str, Any]]) -> None:
    f = run_body("a = time.perf_counter()", "y = x @ x", "print(time.perf_counter() - a)", "return y")
    assert (12, "missing-synchronize", "time.perf_counter()") in remarks(f)
    f = run_body(
        "a = time.perf_counter()", "y = x @ x", "torch.neuron.synchronize()", "time.perf_counter()", "return y"
    )
    assert "missing-synchronize" not in {code for _, code, _ in remarks(f)}


def test_a_backward_pass_is_unattributed_with_the_reason(run_body: Callable[..., dict[str, Any]]) -> None:
    f = run_body("x = x.detach().requires_grad_()", "y = (x * x).sum()", "y.backward()", "return x.grad")
    assert f["unattributed_ns"] > 0
    assert any("backward" in warning for warning in f["warnings"])
    assert lines(f)[11] > 0


def test_a_mapping_knows_nothing_of_a_backward_pass_which_makes_a_lower_bound(
    run_body: Callable[..., dict[str, Any]],
) -> None:
    f = run_body(
        "x = x.detach().requires_grad_()", "y = (x * x).sum()", "y.backward()", "return x.grad", mode="mapping"
    )
    assert f["lower_bound"] is True
    assert (f["unattributed_ns"], lines(f)[11] > 0) == (0, True)
    assert any("linked to no operator" in warning for warning in f["warnings"])


def test_what_a_thread_starts_and_the_profiler_does_not_record_makes_a_lower_bound(
    run_body: Callable[..., dict[str, Any]],
) -> None:
    body = ("import threading", "t = threading.Thread(target=lambda: x @ x)", "t.start()", "t.join()", "return x + x")
    f = run_body(*body)
    assert (f["lower_bound"], set(lines(f))) == (True, {14})
    # That of April records all threads, and the line of the lambda is known.
    f = run_body(*body, mode="april")
    assert (f["lower_bound"], set(lines(f))) == (False, {11, 14})


def test_dropped_events_make_lower_bounds_that_are_marked(command: Command, sample: Path) -> None:
    variables = environment(STANDIN_NEURON_DROPPED="123")
    done = command("run", f"{sample}::naive", "--json", **variables)
    naive = done.function("naive")
    assert naive["lower_bound"] is True
    assert any(warning.startswith("123 events of the device were dropped") for warning in naive["warnings"])
    assert "neuron ≥2.36 ms per call" in command("run", f"{sample}::naive", **variables).out


def test_a_device_without_memory_for_its_profiler_says_what_to_set(command: Command, sample: Path) -> None:
    variables = environment(STANDIN_NEURON_OOM="1")
    done = command("run", f"{sample}::naive", "--profile-mode", "device", **variables)
    assert done.code == 1
    assert "failed: out-of-memory: " in done.out
    assert "--profile-mode runtime" in done.out
    assert command("run", f"{sample}::naive", **variables).code == 0


@pytest.mark.parametrize("cache", ["cache", "a cache; with: odd names"])
def test_the_profilers_files_end_up_in_the_run_folder(
    command: Command, sample: Path, tmp_path: Path, cache: str
) -> None:
    variables = environment(XDG_CACHE_HOME=str(tmp_path / cache))
    options = ("--json", "--keep", "--profile-mode", "device")
    naive = command("run", f"{sample}::naive", *options, **variables).function("naive")
    assert lines(naive) == NAIVE
    folder = tmp_path / cache / "profile-neuron" / "runs"
    (session,) = [path for path in folder.glob("*/neuron/*_pid_*/*") if path.is_dir()]
    names = {path.name for path in session.iterdir()}
    assert {"ntrace.pb", "trace_info.pb", "trace.json", "profile_nc_0_session_0.ntff"} <= names
    assert any(name.endswith(".neff") for name in names)
    again = command("report", naive["run_folder"], "--json", **variables)
    assert lines(again.function("naive")) == NAIVE


def test_variables_that_start_another_capture_are_kept_from_the_worker(
    command: Command, sample: Path, tmp_path: Path
) -> None:
    output = tmp_path / "output"
    variables = environment(NEURON_RT_INSPECT_ENABLE="1", NEURON_RT_INSPECT_OUTPUT_DIR=str(output))
    naive = command("run", f"{sample}::naive", "--json", **variables).function("naive")
    assert lines(naive) == NAIVE
    assert not output.exists()
    assert any("NEURON_RT_INSPECT_ENABLE" in warning for warning in naive["warnings"])


def test_compiled_code_lies_in_a_cache_of_its_own(command: Command, sample: Path, tmp_path: Path) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "cache"
    variables = environment(TORCH_NEURONX_NEFF_CACHE_DIR=str(theirs), XDG_CACHE_HOME=str(ours))
    assert command("run", f"{sample}::naive", **variables).code == 0
    assert not theirs.exists()
    assert len(list((ours / "profile-neuron").glob("**/*.neff"))) >= 6


def test_the_core_is_free_when_the_command_has_ended(command: Command, sample: Path, tmp_path: Path) -> None:
    cores = tmp_path / "cores"
    cores.mkdir()
    assert command("run", f"{sample}::naive", **environment(cores=cores)).code == 0
    assert (cores / "core0").exists()
    with (cores / "core0").open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_what_is_not_of_the_device_is_measured_on_the_cpu(command: Command, write: Write) -> None:
    path = write(
        "model.py",
        """
        import torch
        from profile_neuron import profile_neuron

        @profile_neuron
        def f():
            return torch.ones(64) + 1
        """,
    )
    done = command("run", path, "--json", **environment())
    f = done.function("f")
    assert (done.document()["device"]["kind"], f["measure"], f["device_ns"]) == ("cpu", "host", None)
    assert "nothing of it ran on a NeuronCore; times are of the CPU" in f["warnings"]


def test_measuring_the_cpu_takes_no_core(command: Command, tmp_path: Path) -> None:
    cores = tmp_path / "cores"
    cores.mkdir()
    held = []
    for number in range(2):
        file = (cores / f"core{number}").open("a+")
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(str(os.getpid()))
        file.flush()
        held.append(file)
    path = tmp_path / "model.py"
    path.write_text(
        "import torch\nfrom profile_neuron import profile_neuron\n"
        "@profile_neuron\ndef f():\n    return torch.ones(64) + 1\n"
    )
    done = command("run", path, "--device", "cpu", "--json", **environment(cores=cores))
    assert done.code == 0, done.err
    assert done.function("f")["state"] == "fresh"
    for file in held:
        file.close()
