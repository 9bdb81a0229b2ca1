"""The command line as its users call it: what it prints, what it exits with."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import CASES, ROOT, Finished, case
from tests.fakes.control import FakeAgents

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.torch

RMS_NORM = ROOT / "samples" / "rms_norm.py"
MARKED = "import torch\nfrom profile_neuron import profile_neuron\n"


def sums_hold(document: dict) -> None:
    for item in document["functions"]:
        if item["host_ns"] is None:
            continue
        parts = sum(line["total_ns"] for line in item["lines"]) + sum(group["ns"] for group in item["shared"])
        assert parts + item["unattributed_ns"] == item["host_ns"], item["qualname"]
        assert all(0 <= line["self_ns"] <= line["total_ns"] for line in item["lines"])


@pytest.fixture(scope="module")
def rms_norm(tmp_path_factory: pytest.TempPathFactory) -> tuple[Finished, Finished]:
    """The first sample as text and as JSON, run once for all tests here."""
    texts = []
    for option in ("--ops", "--json"):
        finished = subprocess.run(
            [sys.executable, "-m", "profile_neuron", "run", "samples/rms_norm.py", option, "--keep"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
        texts.append(Finished(finished.returncode, finished.stdout, finished.stderr))
    return texts[0], texts[1]


def test_each_line_of_the_naive_sample_has_its_operator_and_no_other(rms_norm: tuple[Finished, Finished]) -> None:
    text, document = rms_norm
    assert (text.code, document.code) == (0, 0)
    naive = document.function("naive")
    assert naive["path"] == str(RMS_NORM)
    source = RMS_NORM.read_text().split("\n")
    found = {
        source[line["line"] - 1].strip(): [(item["name"], item["calls"]) for item in line["operators"]]
        for line in naive["lines"]
    }
    assert found == {
        "squared = x * x": [("aten::mul", 1)],
        "mean = squared.mean(-1, keepdim=True)": [("aten::mean", 1)],
        "shifted = mean + EPSILON": [("aten::add", 1)],
        "scale = torch.rsqrt(shifted)": [("aten::rsqrt", 1)],
        "normalised = x * scale": [("aten::mul", 1)],
        "return normalised * weight": [("aten::mul", 1)],
    }
    sums_hold(document.document())


def test_the_fused_and_the_compiled_sample_are_one_operator_each(rms_norm: tuple[Finished, Finished]) -> None:
    document = rms_norm[1]
    (fused,) = document.function("fused")["lines"]
    assert [item["name"] for item in fused["operators"]] == ["aten::rms_norm"]
    compiled = document.function("compiled")
    (line,) = compiled["lines"]
    assert (line["line"], line["operators"]) == (compiled["line"], [{"name": "Torch-Compiled Region", "calls": 1}])


def test_the_document_follows_its_contract(rms_norm: tuple[Finished, Finished]) -> None:
    document = rms_norm[1].document()
    assert document["schema"] == 1
    assert document["device"]["kind"] == "cpu"
    assert [(item["qualname"], item["decorated"], item["state"], item["calls"]) for item in document["functions"]] == [
        ("naive", True, "fresh", 5),
        ("fused", True, "fresh", 5),
        ("compiled", True, "fresh", 5),
    ]
    for item in document["functions"]:
        assert item["device_ns"] is None, "nothing was measured on a device"
        assert isinstance(item["host_ns"], int)
        assert "torch" in item["provenance"]


def test_the_text_shows_source_time_share_operators_and_spread(rms_norm: tuple[Finished, Finished]) -> None:
    out = rms_norm[0].out
    row = next(line for line in out.split("\n") if "mean = squared.mean" in line)
    numbers, source = row.split("│")
    assert source.split("  ")[-1] == "aten::mean"
    for part in ("µs", "%", "±"):
        assert part in numbers
    assert "neuron" not in out.lower().replace("profile_neuron", "").replace("profile-neuron", "")
    assert "cpu " in out


def test_no_text_puts_the_word_neuron_beside_a_figure_of_the_cpu(rms_norm: tuple[Finished, Finished]) -> None:
    for finished in rms_norm:
        said = (finished.out + finished.err).lower().replace("profile-neuron", "").replace("profile_neuron", "")
        assert "neuron" not in said
    for item in rms_norm[1].document()["functions"]:
        assert item["provenance"].startswith("cpu time of operators")
        assert "inputs: inputs= of the decorator, 3 warm-up and 5 profiled calls" in item["provenance"]


def test_the_operator_table_lists_what_ran_in_the_function(rms_norm: tuple[Finished, Finished]) -> None:
    rows = [line.split() for line in rms_norm[0].out.split("\n") if line.startswith("aten::rsqrt ")]
    assert [row[1] for row in rows] == ["1", "1"], "in naive and in fused"


def test_a_kept_run_folder_gives_the_same_result_again(
    rms_norm: tuple[Finished, Finished], command: Callable[..., Finished]
) -> None:
    naive = rms_norm[1].function("naive")
    folder = naive["run_folder"]
    assert Path(folder).stat().st_mode & 0o077 == 0, "private to the user"
    again = command("report", folder, "--json").function("naive")
    assert {**again, "run_folder": folder} == naive
    text = command("report", folder)
    assert text.code == 0
    assert "mean = squared.mean(-1, keepdim=True)" in text.out


def test_the_exported_trace_is_the_fallback_and_gives_the_same_operators(
    rms_norm: tuple[Finished, Finished], command: Callable[..., Finished], tmp_path: Path
) -> None:
    import shutil

    naive = rms_norm[1].function("naive")
    folder = tmp_path / "run"
    shutil.copytree(naive["run_folder"], folder)
    (folder / "operators.json").unlink()
    again = command("report", folder, "--json").function("naive")
    assert [(line["line"], line["operators"]) for line in again["lines"]] == [
        (line["line"], line["operators"]) for line in naive["lines"]
    ]
    assert again["host_ns"] == naive["host_ns"], "to the nanosecond"
    assert any("read the exported trace instead" in warning for warning in again["warnings"])
    (folder / "trace.json").write_text('{"traceEvents": [{"name": "say "hi""}')
    broken = command("report", folder)
    assert broken.code == 1
    assert broken.err.count("\n") == 1
    assert "the trace is cut short before the end of its first event" in broken.err


def test_the_decoder_block_runs_and_its_helpers_time_is_on_both_lines(command: Callable[..., Finished]) -> None:
    finished = command("run", "samples/llama_block.py", "--json", "--repeats", "8", cwd=ROOT)
    assert finished.code == 0, finished.err
    document = finished.document()
    sums_hold(document)
    attention = finished.function("Attention.forward")
    source = (ROOT / "samples" / "llama_block.py").read_text().split("\n")
    own = [item for item in document["functions"] if item.get("during", "").endswith("Attention.forward")]
    for helper, share in (("apply_rotary", 1), ("rotary_tables", 1), ("causal_mask", None), ("KVCache.append", 1)):
        (listed,) = [item for item in own if item["qualname"] == helper]
        assert not listed["decorated"]
        assert listed["lines"], helper
        name = helper.rpartition(".")[2]
        calling = [line for line in attention["lines"] if f"{name}(" in source[line["line"] - 1]]
        assert calling, helper
        total = sum(line["total_ns"] for line in calling)
        if share == 1:
            assert abs(total - listed["host_ns"]) <= len(calling), "all that the line does is call it"
        else:
            assert total > listed["host_ns"]
    # Nine calls under the clock and two before, 32 positions each, into storage for 64 that doubles.
    (reserve,) = [item for item in own if item["qualname"] == "KVCache.reserve"]
    assert reserve["calls"] >= 1
    assert all(item["state"] == "fresh" for item in document["functions"])


BAD_TARGETS = {
    "missing": ("no_such.py", 2, "no_such.py: no such file"),
    "name too long": ("x" * 300, 2, f"{'x' * 300} cannot be read: File name too long"),
    "directory": (".", 2, ". is a folder; name a Python file in it"),
    "empty": ("empty.py", 2, "empty.py has no function marked @profile_neuron"),
    "undecorated": ("plain.py", 2, "plain.py has no function marked @profile_neuron"),
    "no such function": (
        "good.py::ff",
        2,
        "good.py has no function ff marked @profile_neuron; did you mean good.py::f?",
    ),
    "syntax": ("syntax.py", 1, "syntax.py does not parse: line 2: "),
    "encoding": ("latin.py", 1, "latin.py does not parse: line 1 holds bytes that are not utf-8"),
}


@pytest.mark.parametrize("kind", BAD_TARGETS)
def test_bad_input_is_one_sentence_and_nothing_runs(
    kind: str, command: Callable[..., Finished], tmp_path: Path
) -> None:
    target, code, sentence = BAD_TARGETS[kind]
    (tmp_path / "empty.py").write_text("")
    (tmp_path / "plain.py").write_text("def f(): ...\n")
    (tmp_path / "good.py").write_text(f"{MARKED}@profile_neuron\ndef f(): print('ran')\n")
    (tmp_path / "syntax.py").write_text("x = 1\nif x\n")
    (tmp_path / "latin.py").write_bytes(b"x = '\xe9'\n")
    finished = command("run", target, cwd=tmp_path)
    assert (finished.code, finished.out) == (code, "")
    assert finished.err.startswith(f"profile-neuron: {sentence}")
    assert finished.err.count("\n") == 1
    mixed = command("run", "good.py", target, cwd=tmp_path)
    assert mixed.code == code
    assert "ran" not in mixed.out + mixed.err


BAD_CODE = {
    "fails on import": ("x = 1 / 0\n@profile_neuron\ndef f(): ...\n", "failed", "ZeroDivisionError: division by zero", 3),
    "raises": ("@profile_neuron\ndef f():\n    raise KeyError('k')\n", "failed", "KeyError: 'k'", 5),
    "wrong number of inputs": (
        "@profile_neuron(inputs=lambda: (1, 2))\ndef f(x): ...\n", "failed", "the inputs do not fit f(x): ", 3,
    ),
    "inputs raises": ("def f_inputs():\n    1 / 0\n@profile_neuron\ndef f(x): ...\n", "failed", "ZeroDivisionError", 4),
    "no inputs": ("@profile_neuron\ndef f(x): ...\n", "noInputs", "f needs the argument x; add a function f_inputs()", None),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD_CODE)
def test_faults_of_user_code_are_a_sentence_and_the_users_line(
    kind: str, command: Callable[..., Finished], tmp_path: Path
) -> None:
    text, state, reason, line = BAD_CODE[kind]
    path = tmp_path / "model.py"
    path.write_text(MARKED + text)
    finished = command("run", path, "--json")
    assert finished.code == 1
    function = finished.function("f")
    assert function["state"] == state
    assert function["reason"].startswith(reason)
    assert [frame["line"] for frame in function["frames"]][-1:] == ([line] if line else [])
    assert "Traceback" not in finished.err
    text_run = command("run", path)
    assert text_run.code == 1
    assert "Traceback" not in text_run.out + text_run.err
    assert reason in text_run.out


def test_an_interpreter_without_torch_is_one_sentence_with_what_to_do(
    command: Callable[..., Finished], tmp_path: Path
) -> None:
    import venv

    venv.create(tmp_path / "bare", with_pip=False, symlinks=True)
    python = tmp_path / "bare" / "bin" / "python"
    path = tmp_path / "model.py"
    path.write_text("from profile_neuron import profile_neuron\n@profile_neuron\ndef f(): ...\n")
    finished = command("run", path, "--python", python, "--json")
    assert finished.code == 1
    function = finished.function("f")
    assert function["state"] == "failed"
    assert function["reason"] == (
        f"not-runnable: {python} has no torch; install it with: {python} -m pip install torch==2.13.0"
    )
    doctor = command("doctor", "--python", python)
    assert doctor.code == 1
    assert "✗ torch         not installed" in doctor.out
    assert f"→ {python} -m pip install torch==2.13.0" in doctor.out


def test_an_interpreter_that_does_not_exist_is_one_sentence(command: Callable[..., Finished], tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text(f"{MARKED}@profile_neuron\ndef f(): ...\n")
    finished = command("run", path, "--python", tmp_path / "nowhere")
    assert finished.code == 1
    assert (
        finished.err
        == f"profile-neuron: {tmp_path / 'nowhere'} cannot be started (No such file or directory); name another interpreter\n"
    )


def test_a_file_of_five_thousand_functions_is_refused_as_a_whole_and_run_by_name(
    command: Callable[..., Finished], tmp_path: Path
) -> None:
    subprocess.run([sys.executable, str(case("S15") / "make_input.py"), "5000"], cwd=tmp_path, check=True)
    api = {"PYTHONPATH": str(CASES.parent / "support")}
    whole = command("run", "big.py", "--decorator-module", "pn_api", cwd=tmp_path, **api)
    assert whole.code == 2
    assert whole.err.count("\n") == 1
    assert "5000 functions are marked" in whole.err
    assert "big.py::f00000" in whole.err
    one = command("run", "big.py::f04999", "--decorator-module", "pn_api", "--json", cwd=tmp_path, **api)
    assert one.code == 1
    assert one.function("f04999")["state"] == "noInputs"


def test_the_doctor_lists_what_is_installed(command: Callable[..., Finished]) -> None:
    finished = command("doctor")
    assert finished.code == 0
    assert re.search(
        r"^with msgpack \d.*, rich \d.*, pygls \d.*, lsprotocol \d.*, watchdog \d", finished.out, re.MULTILINE
    )
    for subject in ("interpreter", "line clock", "torch", "device", "torch-neuronx", "msgpack"):
        assert any(line[2:].startswith(subject) for line in finished.out.split("\n")), subject
    assert "cpu (" in finished.out


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("run",),
        ("run", "x.py", "--repeats", "0"),
        ("run", "x.py", "--timeout", "-1"),
        ("run", "x.py", "--device", "gpu"),
        ("run", "x.py", "--cores", "3-0"),
        ("run", "x.py", "--profile-mode", "all"),
        ("release", "4711"),
        ("frobnicate",),
    ],
)
def test_wrong_usage_exits_with_two(arguments: tuple[str, ...], command: Callable[..., Finished]) -> None:
    finished = command(*arguments)
    assert finished.code == 2
    assert finished.err.startswith("usage: profile-neuron")


@pytest.mark.parametrize("subject", ["", "run", "record", "report", "runs", "release", "doctor"])
def test_help_teaches_by_example(subject: str, command: Callable[..., Finished]) -> None:
    finished = command(*filter(None, [subject]), "--help")
    assert finished.code == 0
    assert "example" in finished.out
    assert "  profile-neuron " in finished.out


ASKED: dict[str, tuple[tuple[str, ...], tuple[str, str, str]]] = {
    "nothing": ((), ("auto", "auto", "runtime")),
    "the CPU": (("--device", "cpu"), ("cpu", "auto", "runtime")),
    "a NeuronCore": (
        ("--device", "neuron", "--cores", "0,2-3", "--profile-mode", "device"),
        ("neuron", "0,2-3", "device"),
    ),
}


@pytest.mark.parametrize("kind", ASKED)
def test_device_cores_and_mode_are_what_the_agent_is_asked_for(
    kind: str, command: Callable[..., Finished], tmp_path: Path
) -> None:
    options, expected = ASKED[kind]
    path = tmp_path / "model.py"
    path.write_text(f"{MARKED}@profile_neuron\ndef f(): pass  # fake: noinputs\n")
    fake = FakeAgents(tmp_path)
    finished = command("run", path, "--json", "--python", fake.interpreter, *options, **fake.env)
    fake.close()
    (run,) = fake.runs
    assert (run["device"], run["cores"], run["profile_mode"]) == expected
    assert finished.document()["device"]["kind"] == ("neuron" if kind == "a NeuronCore" else "cpu")


def test_where_nobody_holds_anything_nothing_is_released(command: Callable[..., Finished], tmp_path: Path) -> None:
    finished = command("release", XDG_CACHE_HOME=str(tmp_path))
    assert (finished.code, finished.out, finished.err) == (0, "nothing is held\n", "")


def test_a_report_of_a_folder_that_is_none_is_one_sentence(command: Callable[..., Finished], tmp_path: Path) -> None:
    for folder, sentence in ((tmp_path, "run.json is missing"), (tmp_path / "no", "is not a folder")):
        finished = command("report", folder)
        assert (finished.code, finished.out, finished.err.count("\n")) == (1, "", 1)
        assert sentence in finished.err


def test_user_output_is_marked_and_keeps_out_of_the_document(command: Callable[..., Finished], tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text(f"{MARKED}@profile_neuron(repeats=1, warmup=0)\ndef f(): print('{{\"schema\": 9}}')\n")
    finished = command("run", path, "--json")
    assert finished.document()["schema"] == 1
    assert 'f │ {"schema": 9}' in finished.err.split("\n")


def test_repeats_and_names_of_the_call_are_used(command: Callable[..., Finished], tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text(f"{MARKED}@profile_neuron(repeats=2, name='my name')\ndef f(): return torch.ones(2)\n")
    assert command("run", path, "--json").function("f")["calls"] == 2
    finished = command("run", path, "--repeats", "7", "--json")
    assert finished.function("f")["calls"] == 7
    assert finished.function("f")["name"] == "my name"
    assert command("run", path).out.startswith("my name  ")


def test_interrupting_it_ends_every_process_it_started(tmp_path: Path) -> None:
    path = tmp_path / "slow.py"
    source = (case("P13") / "slow.py").read_text().replace("pn_api", "profile_neuron")
    path.write_text(
        source.replace("    child =", "    print('pid', __import__('os').getpid(), flush=True)\n    child =")
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "profile_neuron", "run", str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    worker = next(int(line.rsplit(" ", 1)[1]) for line in process.stderr if "│ pid" in line)
    assert processes_of_group(worker)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err.endswith("profile-neuron: cancelled\n")
    assert processes_of_group(worker) == []


def processes_of_group(group: int) -> list[int]:
    """Processes of a group that are still there, from the process table."""
    listed = subprocess.run(["ps", "-eo", "pid=,pgid=,stat="], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in listed.split("\n") if line]
    return [int(pid) for pid, pgid, state in rows if int(pgid) == group and not state.startswith("Z")]


def test_the_operator_table_is_the_one_that_torch_itself_shows() -> None:
    """Calls and self times per operator as key_averages gives them for the same window."""
    import torch

    from profile_neuron.capture.operator_table import read_operator_table
    from profile_neuron.core.attribution import attribute
    from profile_neuron.core.model import CodeEntries, LineLog, RunLine, RunRecord, SourceFile, Toolchain
    from profile_neuron.worker import torch_host

    open_range = torch_host.range_opener()
    x = torch.ones(16, 16)
    with torch_host.window() as window, open_range("pn.call:0"), open_range("pn.line:0"):
        y = x @ x + 1.0
        torch.nn.functional.layer_norm(y, (16,)).sum().item()
    table = window._profile.key_averages()
    expected = {row.key: (row.count, row.self_cpu_time_total) for row in table if not row.key.startswith("pn.")}
    source = "from profile_neuron import profile_neuron\n@profile_neuron\ndef f():\n    pass\n"
    log = LineLog((SourceFile("/m.py", source),), (CodeEntries(0, 2, "f", 1),), (RunLine(0, 4),), ())
    record = RunRecord(
        "r", "/m.py", "f", None, 3, 2, ("profile_neuron",), False, False, 0, 1, "",
        Toolchain("", "", "", "", "cpu", "", "settrace"), (), None, (),
    )  # fmt: skip
    (costs,) = attribute(record, read_operator_table(window.operator_table()).trace, log).functions
    assert {row.name: row.calls for row in costs.operators} == {name: calls for name, (calls, _) in expected.items()}
    for row in costs.operators:
        assert row.self_host_ns == pytest.approx(1000 * expected[row.name][1], abs=1), row.name
    assert json.dumps(sorted(expected)), "torch listed something"


def test_a_path_through_the_parent_folder_is_the_same_file(
    write: Callable[..., Path], command: Callable[..., Finished]
) -> None:
    write("pkg/__init__.py", "")
    write("pkg/names.py", "X = 1\n")
    path = write("pkg/model.py", f"from .names import X\n{MARKED}@profile_neuron\ndef f(): ...\n")
    (path.parent / "sub").mkdir()
    finished = command("run", "../model.py", "--json", cwd=path.parent / "sub")
    assert finished.code == 0, finished.out
    assert finished.function("f")["path"] == str(path)


def test_names_that_look_like_something_else_are_still_files(tmp_path: Path, command: Callable[..., Finished]) -> None:
    source = f"{MARKED}@profile_neuron\ndef f(): ...\n"
    for name in ("a::b.py", "with space.py", "[red]x.py", b"bad\xff.py".decode("utf-8", "surrogateescape")):
        (tmp_path / name).write_text(source)
        finished = command("run", name, "--json", cwd=tmp_path)
        assert finished.code == 0, (name, finished.err)
        assert finished.function("f")["state"] == "fresh"
        assert command("run", f"{name}::f", cwd=tmp_path).code == 0


ODD_TARGETS = {
    "pipe": (("run", "pipe.py"), "pipe.py is not a regular file; name a Python file"),
    "empty name": (("run", ""), "is a folder; name a Python file in it"),
    "root": (("run", "x.py", "--root", "nowhere"), "nowhere is not a folder"),
    "digits": (("run", "x.py", "--repeats", "²"), "² is not a whole number above 0"),
}


@pytest.mark.parametrize("kind", ODD_TARGETS)
def test_odd_arguments_are_a_sentence_too(kind: str, tmp_path: Path, command: Callable[..., Finished]) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    arguments, sentence = ODD_TARGETS[kind]
    finished = command(*arguments, cwd=tmp_path)
    assert finished.code == 2
    assert sentence in finished.err
    assert "Traceback" not in finished.err


def test_output_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text(f"{MARKED}@profile_neuron\ndef f(): ...\n")
    for options in ((), ("--json",)):
        with open("/dev/full", "w") as full:
            finished = subprocess.run(
                [sys.executable, "-m", "profile_neuron", "run", str(path), *options],
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                timeout=120,
                check=False,
            )
        assert finished.returncode == 1
        assert finished.stderr.endswith("profile-neuron: the output cannot be written: No space left on device\n")
        assert "Traceback" not in finished.stderr


def test_a_working_directory_that_is_gone_is_one_sentence(tmp_path: Path) -> None:
    script = f"mkdir {tmp_path}/gone && cd {tmp_path}/gone && rmdir {tmp_path}/gone && exec {sys.executable} -I -m profile_neuron doctor"
    finished = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert finished.returncode == 2
    assert finished.stderr == "profile-neuron: the working directory is gone; change to one that exists\n"


def test_a_flood_of_output_is_cut_for_the_reader(tmp_path: Path, command: Callable[..., Finished]) -> None:
    path = tmp_path / "model.py"
    path.write_text(f"{MARKED}@profile_neuron(warmup=0, repeats=1)\ndef f():\n    for i in range(30_000): print(i)\n")
    finished = command("run", path)
    assert finished.code == 0
    assert finished.err.count("f │ ") == 2_001
    assert re.search(r"f │ … and 28000 more lines, in /\S+\.log\n", finished.err)


@pytest.mark.skipif(sys.platform != "linux", reason="memory is found in /proc")
def test_the_memory_of_a_run_can_be_limited(tmp_path: Path, command: Callable[..., Finished]) -> None:
    path = tmp_path / "model.py"
    path.write_text(f"{MARKED}@profile_neuron\ndef f():\n    x = bytearray(1) * 900_000_000\n    while True: pass\n")
    finished = command("run", path, "--memory-limit", "800MB")
    assert finished.code == 1
    assert "failed: out of memory: the run used more than 800.0 MB (run.memoryLimit), at model.py:" in finished.out
    finished = command("run", path, "--memory-limit", "800")
    assert finished.code == 2
    assert "argument --memory-limit: 800 is not a size of at least 100MB such as 8GB" in finished.err


def test_a_run_that_waits_for_a_core_says_for_whom(tmp_path: Path, command: Callable[..., Finished]) -> None:
    path = tmp_path / "model.py"
    path.write_text(f"{MARKED}@profile_neuron\ndef f(): ...\n")
    program = tmp_path / "neuron-ls"
    held = [
        {"nc_count": 2, "neuron_processes": [{"pid": 4123, "command": "python train.py", "neuroncore_ids": [0, 1]}]}
    ]
    free = [{"nc_count": 2, "neuron_processes": []}]
    # Held when it is asked first.
    program.write_text(
        f"#!/bin/sh\nif mkdir {tmp_path}/asked 2>/dev/null; then echo '{json.dumps(held)}'; else echo '{json.dumps(free)}'; fi\n"
    )
    program.chmod(0o755)
    finished = command("run", path, PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert finished.code == 0, finished.err
    assert "f: waiting for a NeuronCore: pid 4123 (python train.py) holds 2\n" in finished.err


def test_without_its_dependencies_the_command_says_which_one_is_missing(tmp_path: Path) -> None:
    """As after pip install --no-deps: -S leaves site-packages out."""
    path = tmp_path / "model.py"
    path.write_text("from profile_neuron import profile_neuron\n@profile_neuron\ndef f(): ...\n")
    script = f"import sys; sys.path.append({str(ROOT / 'server')!r}); from profile_neuron import cli; cli.main()"
    missing = {("run", str(path)): "rich", ("doctor",): "msgpack", ("report", str(tmp_path)): "rich"}
    for arguments, name in missing.items():
        finished = subprocess.run(
            [sys.executable, "-I", "-S", "-c", script, *arguments], capture_output=True, text=True, check=False
        )
        assert finished.returncode == 2
        assert finished.stdout == "" or arguments == ("doctor",), "the doctor tells the versions first"
        assert finished.stderr.startswith(f"profile-neuron: {name} is not installed, which only the decorator")


@pytest.mark.skipif(os.name != "posix", reason="a pseudo terminal")
def test_serve_in_a_terminal_says_that_an_editor_starts_it() -> None:
    terminal, end = os.openpty()
    try:
        finished = subprocess.run(
            [sys.executable, "-m", "profile_neuron", "serve"],
            stdin=end,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        os.close(terminal)
        os.close(end)
    assert (finished.returncode, finished.stdout) == (2, "")
    assert finished.stderr == (
        "profile-neuron: serve is for an editor, which starts it by itself; to profile here, use run\n"
    )
