"""What is usable of a capture's files: layouts of the guides of Neuron Explorer, all constructed, and the cases."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profile_neuron.capture.artifact_document import artifact_document
from profile_neuron.capture.artifacts import Artifacts, SessionArtifacts, judge_artifacts
from profile_neuron.capture.session_dir import ListedFile
from profile_neuron.report.listing import list_files
from tests.conftest import case

if TYPE_CHECKING:
    from collections.abc import Iterable

SYSTEM = ("ntrace.pb", "trace_info.pb")
RUN = 1_790_000_000_000_000_000


def judged(*paths: str, empty: Iterable[str] = ()) -> Artifacts:
    files = [ListedFile(path, 17) for path in paths] + [ListedFile(path, 0) for path in empty]
    return judge_artifacts("out", files)


def one(*names: str, empty: Iterable[str] = ()) -> SessionArtifacts:
    """The session whose directory holds these."""
    base = "i-0abc_pid_42/1"
    (session,) = judged(*(f"{base}/{name}" for name in names), empty=[f"{base}/{name}" for name in empty]).sessions
    return session


def of_case(name: str, root: str = "out") -> tuple[Artifacts, dict[str, Any]]:
    folder = case(name)
    listing = list_files(folder / root)
    found = judge_artifacts(root, listing.files, gaps=listing.gaps)
    return found, json.loads((folder / "expected.json").read_text())


def names(files: Iterable[ListedFile]) -> list[str]:
    return [file.name for file in files]


def pairs(session: SessionArtifacts) -> list[dict[str, Any]]:
    return [{"ntff": pair.ntff.name, "neffs": names(pair.neffs)} for pair in session.pairing.pairs]


def in_words_of_the_case(session: SessionArtifacts) -> dict[str, Any]:
    pairing = session.pairing
    ntffs = [*(pair.ntff for pair in pairing.pairs), *pairing.ntffs_without_neff, *pairing.empty_ntffs]
    neffs = {*(neff for pair in pairing.pairs for neff in pair.neffs), *pairing.neffs_without_ntff}
    return {
        "pid": int(session.pid),
        "mode": pairing.mode,
        "status": session.status,
        "reason": session.reason,
        "neffs": len(neffs),
        "ntffs": len(ntffs),
        "pairs": pairs(session),
        "neffsWithoutNtff": names(pairing.neffs_without_ntff),
        "usedCores": list(pairing.used_cores),
        "idleCores": list(pairing.idle_cores),
    }


@pytest.mark.parametrize("name", ["N02", "N03", "N09"])
def test_the_processes_of_a_case_are_judged_as_it_says(name: str) -> None:
    found, expected = of_case(name)
    assert len(found.sessions) == len(expected["processes"])
    for session, process in zip(found.sessions, expected["processes"], strict=True):
        told = in_words_of_the_case(session)
        assert {key: told[key] for key in process if key != "note"} == {
            key: value for key, value in process.items() if key != "note"
        }
    assert found.others == found.older == found.shared_neffs == ()


def test_n02_a_missing_framework_trace_leaves_device_data_usable() -> None:
    found, expected = of_case("N02")
    with_trace, without = found.sessions
    assert expected["trace.json"]["4100"] == "present"
    assert names(with_trace.framework_traces) == ["trace.json"]
    assert with_trace.remarks == ()
    assert without.framework_traces == ()
    assert without.remarks == (
        "the framework trace is missing in out/i-0123456789abcdef0_pid_4101/1790000009, while its device data is still "
        "usable; give NeuronProfiler(config).export_trace as on_trace_ready to have operators by name",
    )
    assert found.status == "ok"


def test_n03_an_empty_ntff_is_read_by_nobody_and_said_only_where_all_are() -> None:
    found, _ = of_case("N03")
    some, none = found.sessions
    assert not any(pair.ntff.size_bytes == 0 for pair in some.pairing.pairs)
    assert names(some.pairing.empty_ntffs) == [f"profile_nc_{core}_session_0.ntff" for core in (1, 2, 3)]
    assert not any("empty" in remark for remark in some.remarks)
    assert none.remarks[0] == (
        "nothing ran on the device while out/i-0123456789abcdef0_pid_4300/1 was captured: all of its NTFFs are empty; "
        "call at least 3 times before the profiled calls, call torch.neuron.synchronize() before the profiler ends, and "
        "see that ProfileMode.DEVICE is on"
    )
    assert (found.status, found.reason) == ("partial", "some-sessions")


@pytest.mark.parametrize("root", ["out", "out2"])
def test_n08_an_output_directory_without_a_profile_is_named(root: str) -> None:
    found, expected = of_case("N08", root)
    assert found.status == expected["roots"][root]["status"]
    untouched = expected["roots"][root].get("untouched", [".keep"])
    assert names(found.others) == untouched
    remarks = [*found.remarks, *(remark for session in found.sessions for remark in session.remarks)]
    assert (
        remarks
        == {
            "out": [
                "out holds no profile of a NeuronCore; see that profile_output_dir of NeuronConfig names it, and that the "
                "profiler ends before the process does"
            ],
            "out2": [
                "ntrace.pb.tmp in out2/i-0123456789abcdef0_pid_1/1 is not complete; wait until its process has ended, or "
                "profile again if it was killed"
            ],
        }[root]
    )


def test_n08_what_is_older_than_the_run_does_not_count() -> None:
    base = "i_pid_1/1"
    old = [ListedFile(f"{base}/{name}", 17, RUN - 1) for name in ("neff_1.neff", "1_vnc_0.ntff", *SYSTEM)]
    new = [ListedFile(f"i_pid_2/1/{name}", 17, RUN) for name in ("neff_2.neff", "2_vnc_0.ntff", *SYSTEM, "trace.json")]
    unknown = ListedFile("i_pid_2/1/cpu_util.pb", 17)
    found = judge_artifacts("out", [*old, *new, unknown], since_ns=RUN)
    assert [session.pid for session in found.sessions] == ["2"]
    assert names(found.sessions[0].resource_files) == ["cpu_util.pb"]
    assert set(found.older) == set(old)
    assert found.remarks == (
        "1_vnc_0.ntff (one of 4) in out is from before this run and does not count; give every run an output directory "
        "of its own",
    )
    assert [session.pid for session in judge_artifacts("out", [*old, *new]).sessions] == ["1", "2"]
    assert judge_artifacts("out", old, since_ns=RUN).status == "no-device-events"


def test_n09_numbers_stay_text_also_through_json() -> None:
    found, expected = of_case("N09")
    read = json.loads(json.dumps(artifact_document(found)), parse_int=float)
    for session, process in zip(read["sessions"], expected["processes"], strict=True):
        base = session["path"]
        assert session["pid"] == str(process["pid"])
        assert session["pairs"] == [
            {"ntff": f"{base}/{pair['ntff']}", "neffs": [f"{base}/{neff}" for neff in pair["neffs"]]}
            for pair in process["pairs"]
        ]
    assert len({neff for pair in read["sessions"][1]["pairs"] for neff in pair["neffs"]}) == 2


HEX = "0123456789abcdef0123456789abcdef"
SESSION_FILES = ("profile_nc_0_session_0.ntff", *SYSTEM, "trace.json")
LAYOUTS = {
    # Layout: the files, and per session its path, mode and pairs, all by paths below the session's.
    "A session": (
        [f"i-0abc_pid_4242/20261026_101500/{name}" for name in ("neff_123_vnc_0.neff", "neff_456_vnc_0.neff", *SESSION_FILES)],
        [("i-0abc_pid_4242/20261026_101500", "session", {"profile_nc_0_session_0.ntff": ["neff_123_vnc_0.neff", "neff_456_vnc_0.neff"]})],
    ),
    "A off EC2, two ranks": (
        [f"host.example_pid_{pid}/x/{name}" for pid in (7, 10) for name in ("neff_1_vnc_0.neff", *SESSION_FILES)],
        [(f"host.example_pid_{pid}/x", "session", {"profile_nc_0_session_0.ntff": ["neff_1_vnc_0.neff"]}) for pid in (10, 7)],
    ),
    "A two sessions of a process": (
        [f"i_pid_7/{level}/{name}" for level in ("1", "2") for name in ("neff_1_vnc_0.neff", *SESSION_FILES)],
        [(f"i_pid_7/{level}", "session", {"profile_nc_0_session_0.ntff": ["neff_1_vnc_0.neff"]}) for level in ("1", "2")],
    ),
    "B model": (
        [f"i-0abc_pid_4243/{name}" for name in ("123_instid_0_vnc_0.ntff", "123_instid_0_vnc_1.ntff", "neff_123.neff", *SYSTEM)],
        [("i-0abc_pid_4243", "model", {"123_instid_0_vnc_0.ntff": ["neff_123.neff"], "123_instid_0_vnc_1.ntff": ["neff_123.neff"]})],
    ),
    "B with a timestamp": (
        [f"i_pid_1/20261026/{name}" for name in ("123_instid_0_vnc_0.ntff", "neff_123.neff", *SYSTEM)],
        [("i_pid_1/20261026", "model", {"123_instid_0_vnc_0.ntff": ["neff_123.neff"]})],
    ),
    "B without and with a timestamp": (
        [f"i_pid_1{level}/{name}" for level in ("", "/2026") for name in ("123_vnc_0.ntff", "neff_123.neff", *SYSTEM)],
        [(f"i_pid_1{level}", "model", {"123_vnc_0.ntff": ["neff_123.neff"]}) for level in ("", "/2026")],
    ),
    "B' variant": (
        [f"i_pid_1/{name}" for name in ("neff_123_vnc_0.neff", "123_vnc_0.ntff", *SYSTEM)],
        [("i_pid_1", "model", {"123_vnc_0.ntff": ["neff_123_vnc_0.neff"]})],
    ),
    "B' with a timestamp": (
        [f"i_pid_1/t/{name}" for name in ("neff_123_vnc_0.neff", "123_vnc_0.ntff", *SYSTEM)],
        [("i_pid_1/t", "model", {"123_vnc_0.ntff": ["neff_123_vnc_0.neff"]})],
    ),
    "C serving": (
        ["neffs/graph_789.neff", *(f"i-0abc_pid_4244/1/{name}" for name in SESSION_FILES)],
        [("i-0abc_pid_4244/1", "session", {"profile_nc_0_session_0.ntff": ["neffs/graph_789.neff"]})],
    ),
    "C in model mode": (
        ["x/neffs/graph_789.neff", "x/i_pid_1/789_vnc_0.ntff", *(f"x/i_pid_1/{name}" for name in SYSTEM)],
        [("x/i_pid_1", "model", {"789_vnc_0.ntff": ["x/neffs/graph_789.neff"]})],
    ),
    "D capture": (
        ["file.neff", "profile.ntff"],
        [("", "capture", {"profile.ntff": ["file.neff"]})],
    ),
    "D second execution": (
        ["a/file.neff", "a/profile_exec_2.ntff"],
        [("a", "capture", {"profile_exec_2.ntff": ["file.neff"]})],
    ),
    "D ranks": (
        ["a/file.neff", "a/profile_rank_0.ntff", "a/profile_rank_10.ntff"],
        [("a", "capture", {"profile_rank_0.ntff": ["file.neff"], "profile_rank_10.ntff": ["file.neff"]})],
    ),
    "D tag, rank and execution": (
        ["a/tag.neff", "a/other.neff", "a/tag_rank_0_exec_2.ntff"],
        [("a", "capture", {"tag_rank_0_exec_2.ntff": ["tag.neff"]})],
    ),
    "E cache folders": (
        [f"i_pid_1/t/ab/cd/{HEX}.neff", f"i_pid_1/t/ab/ef/{HEX}.neff", *(f"i_pid_1/t/{name}" for name in SESSION_FILES)],
        [("i_pid_1/t", "session", {"profile_nc_0_session_0.ntff": [f"ab/cd/{HEX}.neff", f"ab/ef/{HEX}.neff"]})],
    ),
    "a session that was copied": (
        [f"copy/{name}" for name in (f"ab/cd/{HEX}.neff", *SESSION_FILES)],
        [("copy", "session", {"profile_nc_0_session_0.ntff": [f"ab/cd/{HEX}.neff"]})],
    ),
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_is_paired(layout: str) -> None:
    paths, expected = LAYOUTS[layout]
    found = judged(*paths)
    assert [(session.path, session.pairing.mode) for session in found.sessions] == [item[:2] for item in expected]
    for session, (path, _, told) in zip(found.sessions, expected, strict=True):
        prefix = f"{path}/" if path else ""
        own = {ntff: [neff if "neffs/" in neff else prefix + neff for neff in neffs] for ntff, neffs in told.items()}
        assert {pair.ntff.name: [neff.path for neff in pair.neffs] for pair in session.pairing.pairs} == own
        assert (session.status, session.reason) == ("ok", "")
    assert (found.status, found.remarks) == ("ok", ())


@pytest.mark.parametrize(
    ("whole", "empty", "status", "reason", "remark"),
    [
        (
            ["profile_nc_0_session_0.ntff", *SYSTEM], [], "partial", "no-neff",
            "the NEFF of profile_nc_0_session_0.ntff is missing in out/i-0abc_pid_42/1; set neff_cache_dir of NeuronConfig "
            "or TORCH_NEURONX_NEFF_CACHE_DIR before the run, or copy it from the cache, /tmp/neff_cache by default",
        ),
        (
            ["1_vnc_0.ntff", "2_vnc_0.ntff", "3_vnc_0.ntff", "neff_1.neff", *SYSTEM], [], "partial", "no-neff",
            "the NEFF of 2_vnc_0.ntff (one of 2) is missing in out/i-0abc_pid_42/1; set neff_cache_dir of NeuronConfig "
            "or TORCH_NEURONX_NEFF_CACHE_DIR before the run, or copy it from the cache, /tmp/neff_cache by default",
        ),
        (
            ["1_vnc_0.ntff", "neff_2.neff", *SYSTEM], [], "artifact-mismatch", "other-neffs",
            "the NEFFs in out/i-0abc_pid_42/1 have other numbers than 1_vnc_0.ntff, so they are of other compilations; "
            "profile again, with all in one session",
        ),
        (
            ["1_vnc_0.ntff", f"ab/cd/{HEX}.neff", *SYSTEM], [], "partial", "unknown-neff",
            "the names in out/i-0abc_pid_42/1 do not tell which NEFF 1_vnc_0.ntff was captured of; name both to "
            "neuron-explorer view, with -n and -s",
        ),
        (
            ["profile.ntff", "a.neff", "b.neff"], [], "partial", "unknown-neff",
            "the names in out/i-0abc_pid_42/1 do not tell which NEFF profile.ntff was captured of; name both to "
            "neuron-explorer view, with -n and -s",
        ),
        (
            ["1_vnc_0.ntff", *SYSTEM], ["neff_1.neff"], "partial", "no-neff",
            "neff_1.neff in out/i-0abc_pid_42/1 is not complete; wait until its process has ended, or profile again if it "
            "was killed",
        ),
        (
            ["1_vnc_0.ntff", "neff_1.neff", "ntrace.pb"], [], "partial", "system-file-missing",
            "trace_info.pb is missing in out/i-0abc_pid_42/1, so its system profile cannot be read; wait until its "
            "process has ended, or profile again",
        ),
        (
            ["1_vnc_0.ntff", "neff_1.neff", "trace_info.pb"], ["ntrace.pb"], "partial", "system-file-missing",
            "ntrace.pb is missing in out/i-0abc_pid_42/1, so its system profile cannot be read; wait until its process "
            "has ended, or profile again",
        ),
        (
            ["1_vnc_0.ntff", "neff_1.neff"], [], "ok", "",
            "out/i-0abc_pid_42/1 holds no system profile; add ProfileMode.RUNTIME to the modes to see the host beside the "
            "device",
        ),
        (
            ["1_vnc_0.ntff", "neff_1.neff", *SYSTEM, "2_vnc_0.ntff.tmp.8f3a"], [], "partial", "unfinished",
            "2_vnc_0.ntff.tmp.8f3a in out/i-0abc_pid_42/1 is not complete; wait until its process has ended, or profile "
            "again if it was killed",
        ),
        (
            [*SYSTEM, "trace.json", "neff_1.neff"], [], "partial", "system-only",
            "out/i-0abc_pid_42/1 holds a system profile only, which tells when NEFFs ran and nothing of their insides; add "
            "ProfileMode.DEVICE to the modes for times inside of compiled code",
        ),
        (
            ["trace.json"], [], "no-device-events", "no-ntff",
            "out/i-0abc_pid_42/1 holds no profile of the device; profile with ProfileMode.DEVICE and ProfileMode.RUNTIME, "
            "and end the profiler before the process ends",
        ),
        (
            ["notes.txt"], [], "empty", "no-ntff",
            "out/i-0abc_pid_42/1 holds no profile of a capture; profile with ProfileMode.DEVICE and ProfileMode.RUNTIME, "
            "and end the profiler before the process ends",
        ),
    ],
)  # fmt: skip
def test_what_is_missing_is_said_with_what_to_do(
    whole: list[str], empty: list[str], status: str, reason: str, remark: str
) -> None:
    session = one(*whole, empty=empty)
    assert (session.status, session.reason) == (status, reason)
    assert remark in session.remarks


def test_neffs_of_a_server_with_other_numbers_are_a_mismatch_too() -> None:
    found = judged("neffs/graph_2.neff", "i_pid_1/1_vnc_0.ntff", *(f"i_pid_1/{name}" for name in SYSTEM))
    assert (found.status, found.reason) == ("artifact-mismatch", "other-neffs")


def test_what_lies_beside_the_sessions_of_a_process_is_of_none_of_them() -> None:
    beside = ["cpu_util.pb", "framework_mapping_1.json", "notes.txt", "trace.json"]
    session = [f"i_pid_1/1/{name}" for name in ("neff_1_vnc_0.neff", *SESSION_FILES)]
    found = judged(*session, *(f"i_pid_1/{name}" for name in beside))
    assert [item.path for item in found.sessions] == ["i_pid_1/1"]
    assert names(found.others) == beside
    assert (found.status, found.remarks) == ("ok", ())


def test_a_capture_that_is_being_written_in_the_directory_of_its_process_is_one_session() -> None:
    found = judged("i_pid_1/ntrace.pb.tmp", f"i_pid_1/ab/cd/{HEX}.neff")
    assert [(item.path, item.status, item.reason) for item in found.sessions] == [
        ("i_pid_1", "no-device-events", "unfinished")
    ]


def test_a_folder_of_no_session_has_no_device_events_and_one_of_some_is_partial() -> None:
    good = [f"i_pid_1/1/{name}" for name in ("neff_1_vnc_0.neff", *SESSION_FILES)]
    assert judged().status == judged("notes.txt").status == judged("i_pid_1/1/notes.txt").status == "no-device-events"
    assert judged(*good).status == judged(*good, "i_pid_2/1/notes.txt").status == "ok"
    assert judged(*good, "i_pid_2/1/trace.json").status == "partial"
    mismatch = ["i_pid_3/1/1_vnc_0.ntff", "i_pid_3/1/neff_2.neff"]
    assert judged("i_pid_2/1/trace.json", *mismatch).status == "artifact-mismatch"


def test_what_was_not_listed_may_change_everything() -> None:
    for files in ([], [ListedFile("i_pid_1/1/trace.json", 17)]):
        found = judge_artifacts("out", files, gaps=("out holds more than 2 files",))
        assert (found.status, found.reason) == ("partial", "not-all-seen")
        assert found.remarks[0] == "out holds more than 2 files"


@pytest.mark.parametrize("stray", ["trace.json", "i_pid_1/neuron_framework_trace_rank_0.json"])
def test_a_framework_trace_beside_the_sessions_is_to_be_moved(stray: str) -> None:
    session = [f"i_pid_1/1/{name}" for name in ("neff_1_vnc_0.neff", "profile_nc_0_session_0.ntff", *SYSTEM)]
    found = judged(*session, stray)
    assert [item.path for item in found.sessions] == ["i_pid_1/1"]
    assert found.remarks == (
        f"out/{stray} lies in no session's directory, so Neuron Explorer does not find it; move it into the directory of "
        "its process's session",
    )
    assert names(found.others) == [stray.rpartition("/")[2]]
    assert judged(*session, "i_pid_1/1/trace.json", stray).remarks == ()


def test_an_ntff_that_neuron_explorer_may_not_read_is_said() -> None:
    files = [ListedFile("profile.ntff", 5_100_000_000), ListedFile("a.neff", 17)]
    (session,) = judge_artifacts("out", files).sessions
    assert session.remarks == (
        "profile.ntff in out has 5.1 GB, and above 5.0 GB Neuron Explorer may fail or hang; profile fewer calls or fewer "
        "NeuronCores",
    )


def test_a_name_that_cannot_be_printed_is_one_line_and_valid_json() -> None:
    name = "not \udcff text\nand two lines.ntff"
    found = judged(f"i_pid_1/1/{name}")
    assert (
        found.sessions[0].remarks[0].startswith(r"the NEFF of 'not \udcff text\nand two lines.ntff' is missing in out/")
    )
    assert json.loads(json.dumps(artifact_document(found)))["files"][0]["path"] == f"i_pid_1/1/{name}"


def test_the_document_has_every_file_with_its_size_and_null_for_what_is_not_known() -> None:
    found = judged("a/file.neff", "a/profile.ntff", "notes.txt", "neffs/graph_1.neff")
    assert artifact_document(found) == {
        "status": "ok",
        "reason": None,
        "files": [
            {"path": path, "size_bytes": 17} for path in ("a/file.neff", "a/profile.ntff", "neffs/graph_1.neff", "notes.txt")
        ],
        "sessions": [
            {
                "path": "a",
                "instance": None,
                "pid": None,
                "rank": None,
                "mode": "capture",
                "status": "ok",
                "reason": None,
                "pairs": [{"ntff": "a/profile.ntff", "neffs": ["a/file.neff"]}],
                "neffs_without_ntff": [],
                "ntffs_without_neff": [],
                "empty_ntffs": [],
                "used_cores": [],
                "idle_cores": [],
                "framework_traces": [],
                "framework_mappings": [],
                "system_files": [],
                "missing_system_files": ["ntrace.pb", "trace_info.pb"],
                "resource_files": [],
                "unfinished": [],
                "others": [],
                "remarks": [],
            }
        ],
        "shared_neffs": ["neffs/graph_1.neff"],
        "older": [],
        "others": ["notes.txt"],
        "remarks": [],
    }  # fmt: skip


FOLDERS = [
    "",
    "a",
    "neffs",
    "i_pid_1",
    "i_pid_1/1",
    "i_pid_1/2",
    "i_pid_1/1/ab/cd",
    "x/i-0_pid_2",
    "x/i-0_pid_2/t",
    "x/neffs",
]
NAMES = [
    "neff_1.neff", "neff_1_vnc_0.neff", "neff_2_vnc_1.neff", "graph_1.neff", f"{HEX}.neff", "model.neff",
    "1_vnc_0.ntff", "1_instid_0_vnc_1.ntff", "2_vnc_1.ntff", "3.ntff", "profile_nc_0_session_0.ntff",
    "profile_nc_1_session_0.ntff", "profile.ntff", "model_exec_2.ntff", *SYSTEM, "cpu_util.pb", "trace.json",
    "neuron_framework_trace_rank_3.json", "framework_mapping_1.json", "ntrace.pb.tmp", ".tmp.1", "notes.txt", "",
]  # fmt: skip
FILES = st.lists(
    st.builds(
        lambda folder, name, size, modified: ListedFile(f"{folder}/{name}" if folder else name, size, modified),
        st.sampled_from(FOLDERS),
        st.sampled_from(NAMES),
        st.sampled_from([0, 17]),
        st.sampled_from([None, RUN - 1, RUN]),
    ),
    unique_by=lambda file: file.path,
    max_size=40,
)  # fmt: skip


def fields(found: Artifacts) -> Counter[str]:
    """How many fields each file is in; the NEFFs of pairs count once for a session, and where they are shared."""
    paths = [file.path for file in (*found.shared_neffs, *found.older, *found.others)]
    shared = set(found.shared_neffs)
    for item in found.sessions:
        pairing = item.pairing
        paths += {neff.path for pair in pairing.pairs for neff in pair.neffs if neff not in shared}
        paths += [
            file.path
            for file in (
                *(pair.ntff for pair in pairing.pairs), *pairing.neffs_without_ntff, *pairing.ntffs_without_neff,
                *pairing.empty_ntffs, *item.framework_traces, *item.framework_mappings, *item.system_files,
                *item.resource_files, *item.unfinished, *item.others,
            )
        ]  # fmt: skip
    return Counter(paths)


@given(FILES, st.randoms(use_true_random=False))
def test_every_file_is_in_one_place_whatever_their_order(files: list[ListedFile], random: Any) -> None:
    found = judge_artifacts("out", files, since_ns=RUN)
    assert fields(found) == Counter(file.path for file in files)
    shuffled = random.sample(files, len(files))
    assert judge_artifacts("out", shuffled, since_ns=RUN) == found


@given(FILES)
def test_no_ntff_is_in_two_pairs_and_a_model_has_one_neff_of_its_number(files: list[ListedFile]) -> None:
    found = judge_artifacts("out", files)
    pairs_of_all = [pair for item in found.sessions for pair in item.pairing.pairs]
    assert len({pair.ntff for pair in pairs_of_all}) == len(pairs_of_all)
    for pair in pairs_of_all:
        assert pair.ntff.size_bytes > 0
        assert all(neff.size_bytes for neff in pair.neffs)
        number = pair.ntff.name.partition("_")[0].partition(".")[0]
        if number.isdecimal():
            (neff,) = pair.neffs
            assert number in neff.name.removesuffix(".neff").split("_")
