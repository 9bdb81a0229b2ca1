"""Session directories by the names and sizes of files; all trees are constructed after the guides of Neuron Explorer."""

from __future__ import annotations

import json

import pytest

from profile_neuron.capture.session_dir import ListedFile, SessionDirectory, find_session_directories
from profile_neuron.report.listing import list_files
from tests.conftest import case

SYSTEM = ("ntrace.pb", "trace_info.pb")


def sessions(*paths: str) -> list[SessionDirectory]:
    return list(find_session_directories(ListedFile(path, 17) for path in paths))


def of_case(name: str, root: str = "out") -> tuple[list[SessionDirectory], dict]:
    folder = case(name)
    return list(find_session_directories(list_files(folder / root).files)), json.loads(
        (folder / "expected.json").read_text()
    )


def names(files: object) -> list[str]:
    return [file.path.rpartition("/")[2] for file in files]  # type: ignore[attr-defined]


def test_a_session_of_torchs_profiler_has_a_directory_below_its_process() -> None:
    base = "out/i-0abc_pid_4242/20261026_101500"
    (found,) = sessions(
        f"{base}/neff_456_vnc_0.neff",
        f"{base}/neff_123_vnc_0.neff",
        f"{base}/profile_nc_0_session_0.ntff",
        f"{base}/ntrace.pb",
        f"{base}/trace_info.pb",
        f"{base}/trace.json",
        f"{base}/framework_mapping_1790000000.json",
        f"{base}/cpu_util.pb",
    )
    assert (found.path, found.instance, found.pid, found.rank) == (base, "i-0abc", "4242", None)
    assert names(found.neffs) == ["neff_123_vnc_0.neff", "neff_456_vnc_0.neff"]
    assert names(found.ntffs) == ["profile_nc_0_session_0.ntff"]
    assert names(found.framework_traces) == ["trace.json"]
    assert names(found.framework_mappings) == ["framework_mapping_1790000000.json"]
    assert found.has_system_profile


def test_an_older_session_lies_in_the_directory_of_its_process_itself() -> None:
    base = "out/i-0abc_pid_4243"
    (found,) = sessions(*(f"{base}/{name}" for name in ("neff_123.neff", "123_instid_0_vnc_0.ntff", *SYSTEM)))
    assert found.path == base
    assert names(found.ntffs) == ["123_instid_0_vnc_0.ntff"]


@pytest.mark.parametrize("level", ["", "/20261026_101500"])
def test_a_neff_may_lie_deeper_by_its_path_in_the_cache(level: str) -> None:
    base = f"out/i-0abc_pid_4242{level}"
    (found,) = sessions(f"{base}/ab/cd/0123456789abcdef.neff", *(f"{base}/{name}" for name in SYSTEM))
    assert found.path == base
    assert [file.path for file in found.neffs] == [f"{base}/ab/cd/0123456789abcdef.neff"]


def test_processes_and_their_sessions_are_kept_apart() -> None:
    found = sessions(
        "i_pid_1/a/ntrace.pb", "i_pid_1/b/ntrace.pb", "deep/er/host.example_pid_10/a/ntrace.pb", "neffs/graph_789.neff"
    )
    assert [(item.path, item.instance, item.pid) for item in found] == [
        ("deep/er/host.example_pid_10/a", "host.example", "10"),
        ("i_pid_1/a", "i", "1"),
        ("i_pid_1/b", "i", "1"),
    ]


def test_a_rank_is_known_by_the_name_of_its_framework_trace() -> None:
    (found,) = sessions("i_pid_1/a/neuron_framework_trace_rank_12.json", "i_pid_1/a/ntrace.pb")
    assert found.rank == "12"
    assert names(found.framework_traces) == ["neuron_framework_trace_rank_12.json"]


def test_what_lies_beside_the_sessions_of_a_process_is_of_none_of_them() -> None:
    found = sessions("i_pid_1/trace.json", "i_pid_1/a/ntrace.pb", "i_pid_1/b/ntrace.pb")
    assert [(item.path, names(item.framework_traces)) for item in found] == [
        ("i_pid_1", ["trace.json"]),
        ("i_pid_1/a", []),
        ("i_pid_1/b", []),
    ]


@pytest.mark.parametrize(
    "path", ["", "/", "i_pid_1", "_pid_1/ntrace.pb", "i_pid_/ntrace.pb", "i_pid_1x/ntrace.pb", "a/b/c"]
)
def test_what_is_in_no_directory_of_a_process_is_left_out(path: str) -> None:
    assert sessions(path) == []


def test_half_a_system_profile_is_none() -> None:
    (found,) = find_session_directories(
        [ListedFile("i_pid_1/a/ntrace.pb", 17), ListedFile("i_pid_1/a/trace_info.pb", 0)]
    )
    assert names(found.system_files) == list(SYSTEM)
    assert not found.has_system_profile


def test_empty_ntff_files_keep_their_size() -> None:
    found, expected = of_case("N03")
    assert [int(item.pid) for item in found] == [process["pid"] for process in expected["processes"]]
    some, none = ([file.size_bytes > 0 for file in item.ntffs] for item in found)
    assert some == [True, False, False, False]
    assert none == [False]
    assert all(item.has_system_profile for item in found)


@pytest.mark.parametrize("root", ["out", "out2"])
def test_an_output_directory_without_a_profile_has_none(root: str) -> None:
    found, _ = of_case("N08", root)
    assert not any(item.has_system_profile for item in found)
    assert [item.path for item in found] == (["i-0123456789abcdef0_pid_1/1"] if root == "out2" else [])


def test_numbers_stay_text_however_long() -> None:
    found, expected = of_case("N09")
    assert [int(item.pid) for item in found] == [4400, 4401]
    for item, process in zip(found, expected["processes"], strict=True):
        assert set(names(item.neffs)) == {name for pair in process["pairs"] for name in pair["neffs"]}
        assert set(names(item.ntffs)) == {pair["ntff"] for pair in process["pairs"]}
    assert sessions("i_pid_007/a/ntrace.pb")[0].pid == "007"


def test_the_order_of_the_list_does_not_matter() -> None:
    files = list_files(case("N09") / "out").files
    assert find_session_directories(files) == find_session_directories(reversed(files))
