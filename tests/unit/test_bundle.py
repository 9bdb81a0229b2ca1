"""A bundle as it is gathered and as it is read again, without any process."""

from __future__ import annotations

import asyncio
import json
import zipfile
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from profile_neuron.core import bundle as members
from profile_neuron.core.model import Holder
from profile_neuron.daemon import bundle
from profile_neuron.daemon.tiny_capture import TinyCapture
from profile_neuron.errors import CaptureError
from profile_neuron.report.bundle import read_bundle
from profile_neuron.wire.messages import Detail
from tests.conftest import DATA
from tests.unit.test_doctor import TRAINIUM

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from profile_neuron.wire.messages import Environment

BUNDLES = DATA / "bundles"
# What the stand-in's costs give for the lines of the capture's function.
LINES = {17: 388_167, 18: 400_000, 19: 395_500, 20: 395_000, 21: 388_167, 22: 388_166}


def gathered(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, files: dict[str, bytes], environment: Environment = TRAINIUM
) -> bundle.Bundle:
    """What is gathered of a host with this environment and a run folder with these files."""
    folder = tmp_path / "runs" / "1"
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)

    async def ask(python: str, project: Path, draft: object) -> tuple[Environment, TinyCapture]:
        return environment, TinyCapture(None, "RuntimeError: no core for quentin", "quentin\n", project, folder)

    monkeypatch.setattr(bundle, "_ask", ask)
    made = asyncio.run(bundle.gather("/env/bin/python", lambda environment: str(environment.host)))
    assert not folder.exists(), "the run folder is in the bundle now"
    return made


PLANTED = ("quentin", "vaultbox9", "i-0123456789abcdef0", "topsecret", "10.77.66.55")


def test_nothing_that_tells_of_a_person_is_in_any_file_or_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = tmp_path / "home" / "quentin"
    (home / "topsecret" / ".git").mkdir(parents=True)
    for name, value in {
        "HOME": str(home),
        "USER": "quentin",
        "HOSTNAME": "vaultbox9.corp.example.com",
        "NEURON_RT_ROOT_COMM_ID": "10.77.66.55:4567",
        "NEURON_CC_FLAGS": f"--cache_dir={home}/topsecret/x --dump=/data/topsecret/quentin",
        "NEURON_API_TOKEN": "topsecret",
        "XLA_FLAGS": "--name=Quentin_on_vaultbox9",
        "OTHER": "topsecret",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(home / "topsecret")
    planted = f"{home}/topsecret/a.py on VAULTBOX9 i-0123456789abcdef0 10.77.66.55 by quentin"
    listed = json.dumps([{"pid": 1, "command": "python topsecret.py", "nc_count": 2}])
    environment = replace(
        TRAINIUM,
        executable=f"{home}/venv/bin/python",
        details=(Detail("neuron-explorer --help", planted), Detail("neuron-ls --json-output", listed)),
    )
    assert environment.host is not None
    host = replace(environment.host, holders=(Holder(1, "python topsecret.py", (0,)),))
    trace = {
        "traceEvents": [{"ph": "X", "cat": planted, "name": planted, "args": {planted: planted, "at": "é" + planted}}]
    }
    name = "neuron/i-0123456789abcdef0_pid_7/quentin/framework_mapping_vaultbox9.json"
    files = {
        "trace.json": json.dumps(trace).encode(),
        "broken/trace.json": f'{{"traceEvents": [{{"name": "say "{planted}""'.encode(),
        name: json.dumps({planted: [planted, 10.5]}).encode(),
        "neuron/i-0123456789abcdef0_pid_7/quentin.neff": b"quentin",
    }
    made = gathered(monkeypatch, tmp_path, files, replace(environment, host=host))
    for member, content in made.members.items():
        for word in PLANTED:
            assert word.lower() not in member.lower(), member
            assert word.lower().encode() not in content.lower(), (member, word)
    mapping = made.members["capture/run/neuron/INSTANCE_pid_7/USER/framework_mapping_HOST.json"]
    told = "PROJECT/a.py on HOST INSTANCE IP by USER"
    assert json.loads(mapping) == {told: [told, 10.5]}
    assert json.loads(made.members[members.VARIABLES])["NEURON_CC_FLAGS"] == "--cache_dir=PROJECT/x --dump=PATH"
    assert "OTHER" not in json.loads(made.members[members.VARIABLES])
    assert ("quentin", "USER") in made.replaced, "a person is shown what was replaced"
    assert json.loads(made.members[members.MANIFEST])["driver"] == "2.31.7.0", "a version is no address"


def test_compiled_code_and_traces_of_the_device_are_told_by_name_and_size_only(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    names = ["neuron/a_pid_1/0.neff", "neuron/a_pid_1/0.ntff", "neuron/a_pid_1/ntrace.pb", "explorer/t.parquet"]
    made = gathered(monkeypatch, tmp_path, dict.fromkeys(names, b"secret"))
    assert json.loads(made.members[members.FILES]) == [{"path": name, "size_bytes": 6} for name in sorted(names)]
    assert not [name for name in made.members if name.startswith(members.RUN)]
    assert not [name for name, content in made.members.items() if b"secret" in content]


def test_a_capture_that_failed_is_a_line_and_loses_nothing_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = gathered(monkeypatch, tmp_path, {"trace.json": b"[", "run.json": b"{}"})
    assert made.problems[0] == "capture: RuntimeError: no core for quentin"
    assert made.problems[1].startswith("trace.json: JSONDecodeError: ")
    assert json.loads(made.members[members.MANIFEST])["problems"] == list(made.problems)
    assert {members.DOCTOR, members.ENVIRONMENT, f"{members.RUN}trace.json"} <= set(made.members)


def test_what_is_too_large_is_left_out_and_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    files = {f"{number}.txt": b"x" * 1000 for number in range(5)}
    monkeypatch.setattr(members, "MEMBER_BYTES", 2000)
    monkeypatch.setattr(members, "TOTAL_BYTES", 6000)
    made = gathered(monkeypatch, tmp_path, {**files, "large.txt": b"x" * 2001})
    assert "large.txt has 2001 bytes and was left out" in made.problems
    assert any(problem.startswith("capture/run/4.txt has 1000 bytes") for problem in made.problems)
    assert sum(map(len, made.members.values())) < 8000


def test_files_that_differ_only_in_what_was_replaced_are_both_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = gathered(monkeypatch, tmp_path, {"i-0123456789abcdef0.txt": b"a", "i-0123456789abcdef1.txt": b"b"})
    assert made.members["capture/run/INSTANCE.txt"] == b"a"
    assert made.members["capture/run/INSTANCE-2.txt"] == b"b"


def test_a_file_that_is_there_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "there.zip"
    path.write_text("mine")
    with pytest.raises(FileExistsError):
        bundle.write(path, bundle.Bundle({}, {}, ()))
    assert path.read_text() == "mine"


def test_of_a_trace_categories_and_keys_are_counted_and_the_first_events_kept() -> None:
    events = [{"ph": "X", "cat": "cpu_op", "args": {"External id": 1}} for _ in range(300)]
    events += [
        {"ph": "M", "name": "process_name", "args": {"name": "x"}},
        {"ph": "X", "cat": "cpu_op", "args": {"a": 1}},
    ]
    found = members.trace_summary(json.dumps({"schemaVersion": 1, "traceEvents": [*events, 3]}).encode())
    assert (found["events"], len(found["head"]), found["beside_events"]) == (302, 200, ["schemaVersion", "traceEvents"])
    assert found["categories"] == [
        {"category": "cpu_op", "events": 301, "args": ["External id", "a"]},
        {"category": "phase M", "events": 1, "args": ["name"]},
    ]


@pytest.mark.parametrize("mode", ["kernels", "mapping"])
def test_the_report_of_a_bundle_is_that_of_its_capture(mode: str) -> None:
    found = read_bundle(BUNDLES / f"standin-{mode}.zip")
    assert found.costs is not None, found.reason
    function = found.costs.functions[0]
    assert ({line.line: line.total_ns for line in function.lines}, function.device_ns) == (LINES, 2_355_000)
    assert "torch_neuronx 2.13.3 · neuron_api beta" in found.lines[0]
    with zipfile.ZipFile(BUNDLES / f"standin-{mode}.zip") as archive:
        then = json.loads(archive.read(members.REPORT))["functions"][0]
    assert then["device_ns"] == function.device_ns
    assert {line["line"]: line["total_ns"] for line in then["lines"]} == LINES


def manifest(**fields: Any) -> bytes:
    return json.dumps({"schema": members.SCHEMA, **fields}).encode()


def zipped(path: Path, content: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, item in content.items():
            archive.writestr(name, item)
    return path


BAD: dict[str, tuple[dict[str, bytes], str]] = {
    "another zip": ({"a.txt": b""}, "is no bundle of doctor's"),
    "no JSON": ({members.MANIFEST: b"{"}, "is no bundle of doctor's"),
    "a list": ({members.MANIFEST: b"[]"}, "is no bundle of doctor's"),
    "a later schema": ({members.MANIFEST: manifest(schema=9)}, "it has schema 9, and this version reads 1"),
    "a way out": ({members.MANIFEST: manifest(), "capture/run/../../x": b""}, "which a bundle has not"),
    "an absolute name": ({members.MANIFEST: manifest(), "/tmp/x": b""}, "which a bundle has not"),
    "a large file": ({members.MANIFEST: manifest(), "a": bytes(members.MEMBER_BYTES + 1)}, "a in it is larger than"),
    "large together": (
        {members.MANIFEST: manifest(), **{str(number): bytes(members.MEMBER_BYTES) for number in range(9)}},
        "in it is larger than",
    ),
    "many files": ({str(number): b"" for number in range(501)}, "it has 501 files"),
}


@pytest.mark.parametrize("kind", BAD)
def test_what_is_no_bundle_is_one_sentence_that_names_the_file(kind: str, tmp_path: Path) -> None:
    content, said = BAD[kind]
    path = zipped(tmp_path / "b.zip", content)
    with pytest.raises(CaptureError) as raised:
        read_bundle(path)
    assert said in str(raised.value)
    assert str(raised.value).startswith(str(path))


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda content: content[:-200],
    "no zip": lambda content: b"PK" + bytes(100),
    "damaged data": lambda content: content[:60] + bytes(200) + content[260:],
}


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_file_is_one_sentence(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "b.zip"
    path.write_bytes(DAMAGES[kind]((BUNDLES / "standin-kernels.zip").read_bytes()))
    with pytest.raises(CaptureError, match=r"b\.zip"):
        read_bundle(path)


def test_a_bundle_without_a_result_tells_its_versions_and_why(tmp_path: Path) -> None:
    path = zipped(tmp_path / "b.zip", {members.MANIFEST: manifest(torch="2.13.0", problems=["capture: \x1b busy"])})
    found = read_bundle(path)
    assert found.lines == ("torch 2.13.0", "without capture: · busy")
    assert found.costs is None
    assert found.reason.startswith(f"{path}:capture/run: run.json is missing")
