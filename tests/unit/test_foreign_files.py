"""What the user's own profiler left on disk: traces, sessions, folders of them; nothing there may change."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from typing import TYPE_CHECKING

import pytest

from profile_neuron.core.foreign_capture import captures_in, foreign_document, total_device_ns
from profile_neuron.errors import CaptureError
from profile_neuron.report import foreign_files
from profile_neuron.report.foreign_files import ForeignReport, can_be_used, foreign_report
from tests.conftest import DATA, case

if TYPE_CHECKING:
    from pathlib import Path

    from profile_neuron.core.foreign_capture import ForeignCapture

T01 = (case("T01") / "trace.json").read_bytes()
SESSION = "i-0abc_pid_4242/1790000000"
FILES = ("neff_111_vnc_0.neff", "profile_nc_0_session_0.ntff", "ntrace.pb", "trace_info.pb")


def session(root: Path, name: str = SESSION, content: bytes | None = T01, trace: str = "trace.json") -> Path:
    """A session directory, with a trace unless that is None."""
    folder = root / name
    folder.mkdir(parents=True)
    for file in FILES:
        (folder / file).write_bytes(b"constructed")
    if content is not None:
        (folder / trace).write_bytes(content)
    return folder


def report(path: Path, *roots: Path) -> ForeignReport:
    return foreign_report(path, roots)


def only(path: Path, *roots: Path) -> ForeignCapture:
    (found,) = report(path, *roots).captures
    return found


def snapshot(root: Path) -> dict[str, tuple[int, int]]:
    paths = [root, *root.rglob("*")]
    return {str(path): (path.lstat().st_size, path.lstat().st_mtime_ns) for path in paths}


def test_a_trace_may_have_any_name_and_be_packed(tmp_path: Path) -> None:
    path = tmp_path / "my 'own' \"run\"\n.gz"
    path.write_bytes(gzip.compress(T01))
    found = only(path)
    assert (found.path, found.session, found.pid) == (str(path), None, None)
    assert found.device_ns == 99_750
    assert {item.trace_name: (item.device_ns, item.own_device_ns) for item in found.functions} == {
        "model.py(3): rms": (99_750, 19_750),
        "model.py(13): helper": (80_000, 80_000),
        "model.py(30): <module>": (99_750, 0),
    }


@pytest.mark.parametrize("below", ["", "i-0abc_pid_4242", SESSION, f"{SESSION}/trace.json"])
def test_a_session_is_the_same_from_wherever_it_is_named(tmp_path: Path, below: str) -> None:
    folder = session(tmp_path)
    found = only(tmp_path / below)
    assert (found.path, found.session, found.instance) == (str(folder / "trace.json"), str(folder), "i-0abc")
    assert (found.pid, found.rank, found.device_ns) == ("4242", None, 99_750)
    assert "the folder holds NTFF files, which Neuron Explorer opens" in found.warnings


def test_ranks_have_a_section_each_and_a_total_that_adds_up(tmp_path: Path) -> None:
    for rank in range(3):
        session(tmp_path, f"i-0abc_pid_{100 + rank}/1", trace=f"neuron_framework_trace_rank_{rank}.json")
    found = report(tmp_path).captures
    assert [(item.pid, item.rank, item.device_ns) for item in found] == [
        ("100", "0", 99_750), ("101", "1", 99_750), ("102", "2", 99_750),
    ]  # fmt: skip
    assert total_device_ns(found) == 3 * 99_750


def test_there_is_no_total_where_two_may_tell_of_the_same_or_one_is_not_known(tmp_path: Path) -> None:
    folder = session(tmp_path / "twice")
    shutil.copy(folder / "trace.json", folder / "neuron_framework_trace_rank_0.json")
    assert total_device_ns(report(tmp_path / "twice").captures) is None
    session(tmp_path / "one")
    session(tmp_path / "one", "i-0abc_pid_2/1", content=None)
    assert total_device_ns(report(tmp_path / "one").captures) is None
    for name in ("a.trace.json", "b.pt.trace.json"):
        (tmp_path / name).write_bytes(T01)
    loose = [item for item in report(tmp_path).captures if item.session is None]
    assert len(loose) == 2
    assert total_device_ns(loose) is None


def test_a_process_in_session_mode_and_one_without_a_trace_are_both_told() -> None:
    first, second = report(case("N02") / "out").captures
    assert (first.pid, first.status, second.pid, second.status) == ("4100", "complete", "4101", "missing")
    assert "the trace holds no operator; profile with ProfilerActivity.CPU, too" in first.warnings
    missing = (
        f"the framework trace is missing in {case('N02') / 'out' / 'i-0123456789abcdef0_pid_4101' / '1790000009'}, "
    )
    assert any(text.startswith(missing) for text in second.warnings)
    assert "captured on NeuronCore 0: 1 NTFF with 2 NEFF" in first.warnings
    for found in (first, second):
        assert found.device_ns is None
        assert "the folder holds NTFF files, which Neuron Explorer opens" in found.warnings


def test_a_trace_without_the_device_says_why_and_never_zero() -> None:
    found = only(case("T09") / "trace.json")
    (function,) = found.functions
    assert (found.device_ns, found.executions, function.device_ns, function.executions) == (None, None, None, None)
    assert function.host_ns == 200_000
    assert any(text.startswith("device time unknown: nothing was synchronised") for text in found.warnings)
    assert any("torch.neuron.synchronize()" in text for text in found.warnings)
    assert "device times: unknown" in found.provenance
    beside = only(case("T09") / "out")
    assert "the folder holds NTFF files, which Neuron Explorer opens" in beside.warnings
    assert not can_be_used([beside])


def test_cores_and_files_of_a_capture_are_told() -> None:
    found = report(case("N03") / "out")
    used, unused = found.captures
    told = "captured on NeuronCore 0, and nothing on NeuronCores 1, 2 and 3, which is usual: 1 NTFF with 1 NEFF"
    assert used.warnings[0] == told
    assert not any(text.startswith("captured on") for text in unused.warnings)
    assert found.artifacts is not None
    assert [item["used_cores"] for item in found.artifacts["sessions"]] == [[0], []]
    assert report(case("T09") / "trace.json").artifacts is None


def test_an_unfinished_session_says_so() -> None:
    found = only(case("N08") / "out2")
    assert any(text.startswith("ntrace.pb.tmp in ") and " is not complete; wait " in text for text in found.warnings)
    assert not can_be_used([found])


def test_empty_ntff_files_say_that_nothing_ran(tmp_path: Path) -> None:
    folder = session(tmp_path, content=None)
    (folder / FILES[1]).write_bytes(b"")
    assert any(text.startswith("nothing ran on the device while ") for text in only(tmp_path).warnings)


@pytest.mark.parametrize("name", ["T01", "T09", "T10", "T11", "T13"])
def test_own_times_and_what_is_unattributed_add_up(name: str) -> None:
    found = only(case(name) / "trace.json")
    if found.device_ns is not None:
        own = sum(item.own_device_ns or 0 for item in found.functions)
        assert own + sum(item.device_ns for item in found.unattributed) == found.device_ns
    assert captures_in(json.loads(json.dumps(foreign_document([found])))) == (found,)


def test_a_compiled_region_is_one_unit_of_its_function() -> None:
    (function,) = only(case("T11") / "trace.json").functions
    assert (function.device_ns, function.executions, function.compiled) == (333_000, 1, True)


@pytest.mark.parametrize("name", sorted(path.name for path in (DATA / "traces").glob("*.json")))
def test_traces_of_the_cpu_know_nothing_of_a_device(name: str) -> None:
    found = only(DATA / "traces" / name)
    assert found.device_ns is None
    assert all(item.device_ns is None for item in found.functions)
    has_stacks = "no_stack" not in name and "annotation" not in name
    assert bool(found.functions) == has_stacks
    assert any("with_stack=True" in text for text in found.warnings) != has_stacks


def test_a_function_is_named_in_the_one_file_that_has_it(tmp_path: Path) -> None:
    project = tmp_path / "pro ject"
    shutil.copytree(case("T01"), project / "a")
    found = {item.name: item for item in only(project / "a" / "trace.json", project).functions}
    assert (found["rms"].path, found["rms"].qualname) == (str(project / "a" / "model.py"), "rms")
    assert found["<module>"].path is None
    shutil.copytree(case("T01"), project / "b")
    assert all(item.path is None for item in only(project / "a" / "trace.json", project).functions), "ambiguous"
    (project / "b" / "model.py").write_text("# moved\n" + (project / "b" / "model.py").read_text())
    assert {item.path for item in only(project / "a" / "trace.json", project).functions} == {found["rms"].path, None}


def test_two_files_with_one_shortened_name_have_no_number(tmp_path: Path) -> None:
    root = tmp_path / "project"
    shutil.copytree(case("T02"), root)
    for path in root.rglob("*.py"):
        # The trace tells of the second line.
        path.write_text(f"#\n{path.read_text()}")
    (function,) = only(root / "trace.json", root).functions
    assert (function.path, function.device_ns) == (None, 33_000)
    (function,) = only(root / "trace.json", root / "rootA").functions
    assert function.path == str(root / "rootA" / "pkg" / "model.py")


def test_a_damaged_trace_tells_what_is_left_and_an_empty_one_is_an_error(tmp_path: Path) -> None:
    folder = session(tmp_path, content=T01[:1500])
    found = only(tmp_path)
    assert found.status == "partial"
    assert found.lower_bound
    (folder / "trace.json").write_bytes(b"")
    found = only(tmp_path)
    assert (found.status, found.functions) == ("missing", ())
    assert found.warnings[0].startswith("trace.json cannot be read: ")
    (tmp_path / "loose.json").write_bytes(b"[")
    with pytest.raises(CaptureError, match=r"loose\.json: loose\.json cannot be read"):
        report(tmp_path / "loose.json")


def test_a_mapping_that_names_several_operators_keeps_the_total(tmp_path: Path) -> None:
    content = json.loads(T01)
    for item in content["traceEvents"]:
        if item["cat"] == "privateuse1_driver":
            item["args"]["nrt_sequence_id"] = 17 if item["name"] == "nrt_op_mul" else 99
    folder = session(tmp_path, content=json.dumps(content).encode())
    # Both under the number at which the framework stood, as without gradients.
    operators = [{"seq_nr": 3, "th_id": 1, "stream_id": 0}] * 2
    mapping = {"version": 1, "data": [{"nrta_seq_id": 17, "framework_op_exec_ids": operators}]}
    (folder / "framework_mapping_1.json").write_text(json.dumps(mapping))
    found = only(tmp_path)
    assert found.device_ns == 99_750
    assert [(item.reason, item.device_ns) for item in found.unattributed] == [("several-operators", 7_250)]
    assert sum(item.own_device_ns or 0 for item in found.functions) == 92_500
    assert found.lower_bound


def test_tables_of_neuron_explorer_beside_the_session_tell_the_total(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet")
    folder = session(tmp_path, content=(case("T09") / "trace.json").read_bytes())
    tables = folder / "explorer" / "profiles" / "global" / "one@latest"
    tables.mkdir(parents=True)
    names = ("id", "name", "start_ts", "end_ts", "trace_event_source", "process_id", "nc_idx", "flow_id")
    rows = [
        (1, "nc_exec_running", 100, 400, "neuron_hw", 4242, 0, ["1"]),
        (2, "nc_exec_running", 500, 600, "neuron_hw", 4242, 0, ["2"]),
        (3, "nc_exec_running", 0, 900, "neuron_hw", 9999, 0, ["3"]),
    ]
    table = pyarrow.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows])
    pyarrow.parquet.write_table(table, tables / "SystemProfileEvents.parquet")
    found = only(tmp_path)
    assert (found.device_ns, found.executions) == (400, 2)
    assert [(item.reason, item.device_ns) for item in found.unattributed] == [("explorer", 400)]
    assert found.functions[0].device_ns is None, "the tables name no functions"
    assert "device times: system profile of Neuron Explorer" in found.provenance
    assert not any("device time unknown" in text for text in found.warnings)


def test_nothing_in_the_folder_is_touched(tmp_path: Path) -> None:
    session(tmp_path / "out")
    session(tmp_path / "out", "i-0abc_pid_1/1", content=T01[:700])
    before = snapshot(tmp_path)
    report(tmp_path / "out", tmp_path)
    assert snapshot(tmp_path) == before


def test_links_lead_nowhere(tmp_path: Path) -> None:
    outside = session(tmp_path / "outside")
    folder = session(tmp_path / "out", content=None)
    (folder / "trace.json").symlink_to(outside / "trace.json")
    (tmp_path / "out" / "i-0abc_pid_7").symlink_to(outside.parent, target_is_directory=True)
    (tmp_path / "out" / "i-0abc_pid_8").symlink_to(tmp_path / "out", target_is_directory=True)
    found = only(tmp_path / "out")
    assert (found.pid, found.status) == ("4242", "missing")
    os.mkfifo(folder / "neuron_framework_trace_rank_0.json")
    assert only(tmp_path / "out").status == "missing", "a pipe is not waited for"


def test_odd_names_are_names(tmp_path: Path) -> None:
    odd = "out \"put\"\n'1' ; $(x)/i 0_pid_5/2 3\n4"
    folder = session(tmp_path, odd)
    found = only(tmp_path)
    assert (found.path, found.pid) == (str(folder / "trace.json"), "5")


def test_run_folders_of_ours_are_left_out(tmp_path: Path) -> None:
    session(tmp_path / "run" / "neuron")
    for name in ("run.json", "lines.json", "trace.json"):
        (tmp_path / "run" / name).write_bytes(T01)
    with pytest.raises(CaptureError, match=r"run\.json is missing"):
        report(tmp_path)


def test_of_many_files_a_bounded_number_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign_files, "_MOST_FILES", 50)
    monkeypatch.setattr(foreign_files, "_MOST_TRACES", 20)
    (tmp_path / "a").mkdir()
    for number in range(60):
        (tmp_path / "a" / f"{number:03}.trace.json").write_bytes(T01)
    found = report(tmp_path)
    assert len(found.captures) == 20
    assert [text.partition(f"{tmp_path} ")[2] for text in found.warnings] == [
        "holds more than 50 files, and no more are looked at; name a folder below",
        "holds 50 captures, of which the first 20 by name are told",
    ]


def test_a_project_that_is_too_large_names_no_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign_files, "_MOST_PROJECT_FILES", 1)
    shutil.copytree(case("T01"), tmp_path / "project")
    (tmp_path / "project" / "other.py").write_text("")
    found = report(tmp_path / "project", tmp_path / "project")
    assert {item.path for item in found.captures[0].functions} == {None}
    assert "no function is looked up" in found.warnings[0]


def test_ten_thousand_files_beside_a_session_do_not_hide_it(tmp_path: Path) -> None:
    folder = session(tmp_path)
    for number in range(10_000 - len(FILES) - 1):
        (folder / f"{number}.neff").touch()
    found = report(tmp_path)
    assert found.warnings == ()
    assert found.captures[0].device_ns == 99_750
