"""The stand-in device itself: values, costs, what the profiler tells in each mode, fallback, cores, files.

Each test runs a script in a process of its own, which prints one JSON object as its last line.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from profile_neuron.capture.artifacts import judge_artifacts
from profile_neuron.report.listing import list_files
from tests.conftest import ROOT, case
from tests.standin import FOLDER, environment

pytestmark = pytest.mark.torch

RUN_S = 120
# Three calls before, so that the costs of mul begin anew, and all that is queued is done.
WARM = """
    import inspect, json, os, sys
    from pathlib import Path
    sys.path[:0] = [{samples!r}, {server!r}]
    import torch, torch_neuronx, rms_norm
    from torch.profiler import ProfilerActivity, profile, schedule
    from torch_neuronx import profiling

    BOTH = [ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]
    x, weight = rms_norm.make_inputs()

    def warm(function):
        with torch.no_grad():
            for _ in range(3):
                function(x, weight)
            torch_neuronx.synchronize()

    def session():
        (folder,) = Path("out").glob(f"*_pid_{{os.getpid()}}/*")
        return folder

    def device_ns(prof, kinds=("kernel", "gpu_memcpy")):
        # Device time by the name of the operator that it is linked to.
        events = prof.profiler.kineto_results.events()
        operators = {{event.correlation_id(): event.name() for event in events if event.activity_type() == "cpu_op"}}
        return [
            [operators.get(event.linked_correlation_id()), event.duration_ns()]
            for event in events if event.activity_type() in kinds
        ]
""".format(samples=str(ROOT / "samples"), server=str(ROOT / "server"))
CONFIG = """
    options = dict(profile_output_dir="out", capture_enabled_for_nc="0")
    if "correlate_device_time" in inspect.signature(profiling.NeuronConfig).parameters:
        options["correlate_device_time"] = True
    config = profiling.NeuronConfig(**options)
"""
NAIVE = [
    ["aten::mul", 388167],
    ["aten::mean", 400000],
    ["aten::copy_", 5000],
    ["aten::add", 390500],
    ["aten::rsqrt", 395000],
    ["aten::mul", 388167],
    ["aten::mul", 388166],
]


@pytest.fixture
def run(tmp_path: Path) -> Any:
    """Run pieces of a script in a process that sees the device; gives the process as it ended."""

    def started(*pieces: str, mode: str = "kernels", code: int = 0, **more: Any) -> subprocess.CompletedProcess[str]:
        cache = {"TORCH_NEURONX_NEFF_CACHE_DIR": str(tmp_path / "neff_cache")}
        finished = subprocess.run(
            [sys.executable, "-c", "\n".join(map(textwrap.dedent, pieces))],
            env={**os.environ, **environment(mode, **{**cache, **more})},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=RUN_S,
            check=False,
        )
        assert finished.returncode == code, finished.stderr
        return finished

    return started


def printed(finished: subprocess.CompletedProcess[str]) -> Any:
    return json.loads(finished.stdout.splitlines()[-1])


def test_operators_compute_what_the_cpu_computes(run: Any) -> None:
    found = printed(run((FOLDER / "probes.py").read_text()))
    assert found["different"] == {}
    assert found["count"] == 49


def test_the_llama_block_computes_what_the_cpu_computes(run: Any) -> None:
    found = printed(
        run(
            f"""
            import json, sys, types
            sys.path.insert(0, {str(ROOT / "server")!r})
            import torch
            SOURCE = open({str(ROOT / "samples" / "llama_block.py")!r}).read()
            CHOSEN = 'torch.float32 if DEVICE.type == "cpu" else torch.bfloat16'
            assert CHOSEN in SOURCE

            def block(dtype, device):
                module = sys.modules["block"] = types.ModuleType("block")
                available, torch.accelerator.is_available = torch.accelerator.is_available, lambda: device == "neuron"
                exec(SOURCE.replace(CHOSEN, f"torch.{{dtype}}"), vars(module))
                torch.accelerator.is_available = available
                assert module.DEVICE.type == device
                return module

            def computed(module, name, trains):
                x, cache = module.DecoderBlock_forward_inputs()
                target = getattr(module, f"{{name}}_instance")()
                arguments = (x, cache) if name in ("DecoderBlock", "Attention") else (x,)
                with torch.set_grad_enabled(trains):
                    if not trains:
                        return target(*arguments).cpu()
                    target(*arguments).square().mean().backward()
                    return torch.cat([item.grad.flatten().cpu() for item in target.parameters()])

            found = {{}}
            for dtype in ("float32", "bfloat16"):
                there, here = block(dtype, "neuron"), block(dtype, "cpu")
                for name in ("DecoderBlock", "Attention", "SwiGLU", "RMSNorm"):
                    for trains in (False, True):
                        value, expected = computed(there, name, trains), computed(here, name, trains)
                        torch.testing.assert_close(value, expected, msg=f"{{dtype}} {{name}} {{trains}}")
                        found[f"{{dtype}} {{name}} {{trains}}"] = bool(expected.abs().sum() > 0)
            print(json.dumps(found))
            """
        )
    )
    assert len(found) == 16
    assert all(found.values()), "nothing was computed"


def test_kernels_are_linked_to_operators_and_reach_the_table(run: Any) -> None:
    found = printed(
        run(
            WARM,
            """
            found = {}
            for name in ("naive", "fused", "compiled"):
                function = getattr(rms_norm, name)
                warm(function)
                with torch.no_grad(), profile(activities=BOTH) as prof:
                    function(x, weight)
                    torch.neuron.synchronize()
                table = {row.key: row.self_device_time_total for row in prof.key_averages() if row.device_type.name == "CPU"}
                found[name] = [device_ns(prof), {key: us for key, us in table.items() if us}]
            print(json.dumps(found))
            """,
        )
    )
    per_operator = {"aten::mean": 400.0, "aten::copy_": 5.0, "aten::add": 390.5, "aten::rsqrt": 395.0}
    assert found["naive"] == [NAIVE, pytest.approx({"aten::mul": 1164.5, **per_operator})]
    assert found["fused"] == [[["aten::_fused_rms_norm", 403300]], pytest.approx({"aten::_fused_rms_norm": 403.3})]
    ((region, cost_ns),) = found["compiled"][0]
    assert (region.split(":")[0], cost_ns) == ("Torch-Compiled Region", 375500)


def test_a_compiled_region_is_one_execution_for_each_graph(run: Any) -> None:
    found = printed(
        run(
            WARM,
            """
            def broken(x):
                x = x * 2 + 1
                torch._dynamo.graph_break()
                return (x * 3).sum()

            def whole(x):
                return (x * 2 + 1).sum()

            x = x.float().requires_grad_()
            found = {}
            for function in (broken, whole):
                compiled = torch.compile(function, backend="neuron")
                for _ in range(2):
                    compiled(x).backward()
                torch.neuron.synchronize()
                with profile(activities=BOTH) as prof:
                    compiled(x).backward()
                    torch.neuron.synchronize()
                found[function.__name__] = [operator for operator, ns in device_ns(prof) if ns == 375500]
            print(json.dumps(found))
            """,
        )
    )
    assert len(found["broken"]) == 4
    assert found["whole"] == ["CompiledFunction", "CompiledFunctionBackward"]


def test_what_is_not_waited_for_is_lost(run: Any) -> None:
    found = printed(
        run(
            WARM,
            """
            warm(rms_norm.naive)
            found = []
            for wait in (lambda y: None, lambda y: torch.neuron.synchronize(), lambda y: y.cpu(), lambda y: y[0, 0].item()):
                with torch.no_grad(), profile(activities=BOTH) as prof:
                    wait(rms_norm.naive(x, weight))
                found.append(sum(ns for operator, ns in device_ns(prof) if operator not in ("aten::copy_", "aten::_local_scalar_dense")))
                torch.neuron.synchronize()
            print(json.dumps(found))
            """,
        )
    )
    assert found == [0, 2350000, 2350000, 2350000]


MODES = {
    # Kinds of the events in the process with how many there are, and kinds of those that only the file has.
    "kernels": ({"privateuse1_runtime": 7, "kernel": 6, "gpu_memcpy": 1}, {}),
    "drivers": ({"privateuse1_runtime": 7, "privateuse1_driver": 7}, {}),
    "mapping": ({"privateuse1_runtime": 7}, {"privateuse1_driver": 7}),
    "nothing": ({}, {}),
    "fusion": ({"privateuse1_runtime": 6, "kernel": 1}, {}),
    "pcores": ({"privateuse1_runtime": 7, "kernel": 12, "gpu_memcpy": 1}, {}),
    "uncorrelated": ({"privateuse1_runtime": 7, "privateuse1_driver": 7}, {}),
}


@pytest.mark.parametrize("mode", MODES)
def test_each_mode_tells_of_the_same_executions(run: Any, tmp_path: Path, mode: str) -> None:
    found = printed(
        run(
            WARM,
            CONFIG,
            """
            warm(rms_norm.naive)
            export = profiling.NeuronProfiler(config).export_trace
            with torch.no_grad(), profile(activities=BOTH, experimental_config=config, on_trace_ready=export) as prof:
                rms_norm.naive(x, weight)
                torch.neuron.synchronize()
            events = prof.profiler.kineto_results.events()
            names = {event.correlation_id(): event.name() for event in events if event.activity_type() == "cpu_op"}
            rows = [
                [event.activity_type(), names.get(event.linked_correlation_id()), event.correlation_id(),
                 event.start_ns(), event.duration_ns()]
                for event in events if event.activity_type() != "cpu_op"
            ]
            print(json.dumps({"rows": rows, "folder": str(session())}))
            """,
            mode=mode,
        )
    )
    rows, folder = found["rows"], tmp_path / found["folder"]
    in_process, only_in_file = MODES[mode]
    kinds = [kind for kind, *_ in rows]
    assert {kind: kinds.count(kind) for kind in kinds} == in_process

    trace = json.loads((folder / "trace.json").read_text())
    assert "stand-in" in trace["constructed"]
    in_file = [
        event for event in trace["traceEvents"] if event.get("cat") in ("privateuse1_driver", "kernel", "gpu_memcpy")
    ]
    on_device = [row for row in rows if row[0] != "privateuse1_runtime"]
    assert len(in_file) == len(on_device) + sum(only_in_file.values())
    if mode in ("kernels", "drivers"):
        assert [[operator, ns] for _, operator, _, _, ns in on_device] == NAIVE
        dispatched = {number: operator for kind, operator, number, *_ in rows if kind == "privateuse1_runtime"}
        assert dispatched == {number: operator for _, operator, number, *_ in on_device}
    if mode == "mapping":
        assert [set(event["args"]) for event in in_file] == [{"nrt_sequence_id"}] * 7
        assert [round(event["dur"] * 1000) for event in in_file] == [ns for _, ns in NAIVE]
        assert mapped(folder) == {event["args"]["nrt_sequence_id"]: 1 for event in in_file}
    if mode == "fusion":
        ((_, operator, number, _, ns),) = on_device
        assert (operator, ns, mapped(folder)) == ("aten::mul", 2355000, {number: 6})
    if mode == "pcores":
        first, second = (row for row in on_device if row[1] == "aten::mean")
        assert second[1:3] == first[1:3]
        assert (second[3] - first[3], first[4] - second[4]) == (2000, 4000)
    if mode == "uncorrelated":
        assert {operator for _, operator, *_ in on_device} == {None}
        by_number = {number: operator for kind, operator, number, *_ in rows if kind == "privateuse1_runtime"}
        assert [[by_number[number], ns] for _, _, number, _, ns in on_device] == NAIVE
    assert bool(list(folder.glob("framework_mapping_*.json"))) == (mode in ("mapping", "fusion"))


def mapped(folder: Path) -> dict[int, int]:
    """How many framework operators belong to each execution, by its sequence number."""
    (path,) = folder.glob("framework_mapping_*.json")
    data = json.loads(path.read_text())["data"]
    assert {key for row in data for op in row["framework_op_exec_ids"] for key in op} == {
        "seq_nr",
        "th_id",
        "stream_id",
    }
    return {row["nrta_seq_id"]: len(row["framework_op_exec_ids"]) for row in data}


def test_the_build_of_april_tells_only_in_its_mapping(run: Any) -> None:
    found = printed(
        run(
            WARM,
            """
            from torch._C._profiler import _ExperimentalConfig
            warm(rms_norm.naive)
            with torch.no_grad(), profiling.NeuronProfiler(neuron_output_dir="first") as prof:
                torch._C._functions.UndefinedGrad()
                x * x
                torch._C._functions.UndefinedGrad()
                x * x
                torch.neuron.synchronize()
            options = "profile_output_dir:second;max_events_per_nc:100000;capture_enabled_for_nc:0"
            with profile(activities=BOTH, experimental_config=_ExperimentalConfig(custom_profiler_config=options)) as plain:
                x * x
                torch.neuron.synchronize()
            (second,) = Path("second").glob("*/*")
            print(json.dumps({
                "names": [hasattr(profiling, name) for name in ("NeuronProfiler", "NeuronConfig", "ProfileMode")],
                "mapping": json.loads(next(Path(prof.get_nrt_output_directory()).glob("framework_mapping_*")).read_text()),
                "second": sorted(path.suffix for path in second.iterdir()),
                "kinds": sorted({event.activity_type() for event in plain.profiler.kineto_results.events()}),
            }))
            """,
            mode="april",
        )
    )
    assert found["names"] == [True, False, False]
    assert found["kinds"] == ["cpu_op"]
    # The mapping, and what the stand-in of neuron-explorer makes its tables of.
    assert found["second"] == [".json", ".json", ".neff", ".ntff", ".pb", ".pb", ".pb"]
    first, second = (row["framework_op_exec_ids"] for row in found["mapping"]["data"])
    assert second[0]["seq_nr"] == first[0]["seq_nr"] + 1
    assert second[0]["th_id"] == first[0]["th_id"]


def test_the_package_of_the_time_before_has_no_device(run: Any) -> None:
    found = printed(
        run(
            """
            import importlib.metadata, importlib.util, json
            import torch, torch_neuronx
            from torch_neuronx.experimental import profiler
            print(json.dumps([
                importlib.metadata.version("torch-neuronx"), torch.accelerator.is_available(), hasattr(torch, "neuron"),
                importlib.util.find_spec("torch_neuronx.profiling") is None, hasattr(profiler, "profile"),
            ]))
            """,
            mode="xla",
        )
    )
    assert found == ["2.9.0", False, False, True, True]


def test_a_schedule_leaves_a_session_directory(run: Any, tmp_path: Path) -> None:
    name = printed(
        run(
            WARM,
            """
            config = profiling.NeuronConfig(
                modes=list(profiling.ProfileMode), profile_output_dir="out", capture_enabled_for_nc="0,1"
            )
            export = profiling.NeuronProfiler(config).export_trace
            plan = schedule(wait=2, warmup=1, active=1)
            with profile(activities=BOTH, schedule=plan, experimental_config=config, on_trace_ready=export) as prof:
                for _ in range(4):
                    rms_norm.naive(x, weight)
                    torch.neuron.synchronize()
                    prof.step()
            print(json.dumps(str(session())))
            """,
        )
    )
    folder = tmp_path / name
    files = {path.name: path.stat().st_size for path in folder.iterdir()}
    neffs = [name for name in files if name.endswith(".neff")]
    others = {"cpu_util.pb", "host_mem.pb", "ntrace.pb", "trace_info.pb", "trace.json"}
    devices = {"profile_nc_0_session_0.ntff", "profile_nc_1_session_0.ntff"}
    assert set(files) == {*neffs, *others, *devices}
    assert files["profile_nc_0_session_0.ntff"] > files["profile_nc_1_session_0.ntff"] == 0
    assert folder.parent.name.startswith("i-0standin0000000_pid_")
    # Two of the three multiplications are of different shapes from the first one.
    assert len(neffs) == 6
    assert {(folder / name).read_bytes() for name in neffs} <= {
        path.read_bytes() for path in tmp_path.glob("neff_cache/*/*/*.neff")
    }
    assert all("constructed" in (folder / name).read_text() for name in (*neffs, "ntrace.pb"))
    (one, *_) = tmp_path.glob("neff_cache/*/*/*.neff")
    assert (len(one.stem), one.stem[:2], one.stem[2:4]) == (32, one.parent.parent.name, one.parent.name)
    (judged,) = judge_artifacts("out", list_files(tmp_path / "out").files).sessions
    assert (judged.path, judged.status, judged.remarks) == (str(Path(name).relative_to("out")), "ok", ())
    (pair,) = judged.pairing.pairs
    assert (pair.ntff.name, {neff.name for neff in pair.neffs}) == ("profile_nc_0_session_0.ntff", set(neffs))
    assert (judged.pairing.used_cores, judged.pairing.idle_cores) == ((0,), (1,))


def test_what_a_config_refuses(run: Any) -> None:
    finished = run(
        """
        import inspect, json
        from torch_neuronx import profiling

        def refusal(**options):
            try:
                profiling.NeuronConfig(**options)
            except Exception as error:
                return type(error).__name__

        names = list(inspect.signature(profiling.NeuronConfig).parameters)
        print(json.dumps([
            names, refusal(), refusal(other=1), refusal(modes=["DEVISE"]), refusal(capture_enabled_for_nc=[0, 1]),
            refusal(profile_output_dir="a:b"),
        ]))
        """,
    )
    assert printed(finished) == [
        [
            "modes",
            "max_events_per_nc",
            "capture_enabled_for_nc",
            "profile_output_dir",
            "neff_cache_dir",
            "precache_node_info",
            "correlate_device_time",
        ],
        None,
        "TypeError",
        "ValueError",
        "TypeError",
        None,
    ]
    assert "Warning: ignored profile_output_dir, since 'a:b' holds a colon" in finished.stderr


def test_what_the_runtime_says_of_its_limits(run: Any, tmp_path: Path) -> None:
    script = """
        def captured(**options):
            config = profiling.NeuronConfig(profile_output_dir="out", correlate_device_time=True, **options)
            try:
                with profile(activities=BOTH, experimental_config=config) as prof:
                    x * x + x
                    torch.neuron.synchronize()
            except RuntimeError as error:
                return str(error)
            return device_ns(prof)

        print(json.dumps([captured(), captured(modes=["RUNTIME"]), captured(modes=["RUNTIME"], max_events_per_nc=1)]))
    """
    inspected = tmp_path / "inspected"
    more = {"STANDIN_NEURON_OOM": "1", "STANDIN_NEURON_DROPPED": "4", "STANDIN_NEURON_COSTS": '{"aten::mul": [7000]}'}
    own = {"NEURON_RT_INSPECT_ENABLE": "1", "NEURON_RT_INSPECT_OUTPUT_DIR": str(inspected)}
    finished = run(WARM, script, **more, **own)
    refused, both, last = printed(finished)
    assert "RESOURCE_EXHAUSTED: failed to allocate" in refused
    assert both == [["aten::mul", 7000], ["aten::add", 390500]]
    assert last == [["aten::add", 390500]]
    warnings = [line for line in finished.stderr.splitlines() if line.startswith("Warning: ")]
    assert warnings[1:] == ["Warning: 4 trace events were dropped", "Warning: 5 trace events were dropped"]
    assert (inspected / "wrong.txt").exists()


FALLBACK = """
    import json
    import torch, torch_neuronx
    from torch.profiler import ProfilerActivity, profile
    x = torch.randn(4, 512, device="neuron")
    torch_neuronx.clear_op_tracking()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as prof:
        for _ in range(2):
            x.cummin(1)
        x.relu()
        torch_neuronx.synchronize()
    events = [event for event in prof.profiler.kineto_results.events()]
    copies = [event.name() for event in events if event.activity_type() == "gpu_memcpy"]
    kernels = [event.name() for event in events if event.activity_type() == "kernel"]
    print(json.dumps([copies, kernels, torch_neuronx.get_fallback_ops(), torch_neuronx.get_executed_ops()]))
"""


def test_an_operator_without_a_kernel_runs_on_the_cpu(run: Any) -> None:
    finished = run(FALLBACK)
    copies, kernels, fallen_back, executed = printed(finished)
    assert copies == ["nrt_tensor_read", "nrt_tensor_write", "nrt_tensor_write"] * 2
    assert kernels == ["aten::relu.default"]
    assert (fallen_back, executed) == (["aten::cummin"], ["aten::relu"])
    assert finished.stderr.count("Operator 'aten::cummin' fell back to CPU") == 1


def test_which_operators_have_no_kernel_is_told_by_the_environment(run: Any) -> None:
    script = """
        import torch, torch_neuronx
        torch.randn(4, 512, device="neuron").relu()
        print(torch_neuronx.get_fallback_ops())
    """
    fallback = {"STANDIN_NEURON_FALLBACK": "aten::relu"}
    assert run(script, **fallback).stdout == "['aten::relu']\n"
    refused = run(script, code=1, TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION="1", **fallback)
    assert "NotImplementedError: Operator 'aten::relu' is not supported" in refused.stderr


def test_a_core_belongs_to_one_process_until_it_ends(run: Any, tmp_path: Path) -> None:
    cores = tmp_path / "cores"
    cores.mkdir()
    found = printed(
        run(
            """
            import json, os, subprocess, sys
            import torch

            def asked(*options, told=""):
                environment = {**os.environ, "STANDIN_NEURON_LS": told}
                return subprocess.run(["neuron-ls", *options], env=environment, capture_output=True, text=True)

            def other(**variables):
                script = "import torch; torch.ones(2, device='neuron'); print(torch.neuron.device_count())"
                environment = {**os.environ, **variables}
                return subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)

            counted = [torch.accelerator.device_count(), torch.neuron.is_initialized(), asked("-j").stdout]
            torch.ones(2, device="neuron")
            devices = json.loads(asked("--json-output", told="cores").stdout)
            newer = asked("--output-format", "json", told="new")
            free, taken = other(NEURON_RT_VISIBLE_CORES="1"), other()
            print(json.dumps({
                "counted": counted, "started": torch.neuron.is_initialized(), "pid": os.getpid(),
                "devices": devices, "newer": json.loads(newer.stdout), "older": asked("-j", told="new").returncode,
                "free": free.stdout, "taken": taken.stderr, "code": taken.returncode,
            }))
            """,
            cores=cores,
            NEURON_RT_VISIBLE_CORES="0",
        )
    )
    count, was_started, before = found["counted"]
    assert (count, was_started, json.loads(before)[0]["neuron_processes"]) == (1, False, [])
    assert found["started"]
    (device,) = found["devices"]
    (process,) = device["neuron_processes"]
    assert (process["pid"], process["neuroncore_ids"], device["neuroncore_ids"]) == (found["pid"], [0], [0, 1])
    ((newer,),) = found["newer"].values()
    assert set(newer["neuron_processes"][0]) == {"pid", "command", "neuron_runtime_version"}
    assert found["older"] == 2
    assert found["free"] == "1\n"
    expected = (case("N01") / "stderr.txt").read_text().splitlines()[0].split("ERROR")[1]
    assert f"ERROR{expected}" in found["taken"]
    assert "RuntimeError: the Neuron runtime could not be started" in found["taken"]
    assert found["code"] == 1
