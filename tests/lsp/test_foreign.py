"""An editor's conversation while the user's own programs leave profiles in folders that the server watches."""

from __future__ import annotations

import json
import os
import shutil
import time
from typing import TYPE_CHECKING

import pytest

from tests.conftest import case
from tests.lsp.client import path_of
from tests.lsp.conftest import with_fake
from tests.lsp.screen import act, click, hints, lenses, ready, until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fakes.control import FakeAgents
    from tests.lsp.client import Client
    from tests.lsp.conftest import Serve

# A process is started for each trace.
READ_S = 60.0
SESSION = "i-0abc_pid_4242/1790000000"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace with the file that the trace of T01 is of, written before it."""
    folder = tmp_path / "ws"
    folder.mkdir()
    shutil.copy(case("T01") / "model.py", folder / "model.py")
    os.utime(folder / "model.py", (1e9, 1e9))
    return folder


@pytest.fixture
def watched(tmp_path: Path) -> Path:
    folder = tmp_path / "out put's"
    folder.mkdir()
    return folder


@pytest.fixture
def client(serve: Serve, root: Path, watched: Path) -> Client:
    return ready(serve([root], settings={"watchFolders": [str(watched)]}))


def trace_of(name: str) -> bytes:
    return (case(name) / "trace.json").read_bytes()


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    paths = [folder, *folder.rglob("*")]
    return {str(path): (path.lstat().st_size, path.lstat().st_mtime_ns) for path in paths}


def foreign(client: Client, path: Path) -> dict[int, str]:
    """The lenses of the user's own profiles by line from 1."""
    return {
        lens["range"]["start"]["line"] + 1: lens["command"]["title"]
        for lens in client.lenses(path)
        if "from your profile" in lens["command"]["title"]
    }


def until_foreign(client: Client, path: Path, expected: dict[int, str]) -> None:
    until(client, lambda: foreign(client, path), lambda seen: without_time(seen) == expected, READ_S)


def without_time(seen: dict[int, str]) -> dict[int, str]:
    return {line: title.rpartition(" · ")[0] for line, title in seen.items()}


def test_a_session_is_shown_above_its_functions_once_it_is_finished(client: Client, root: Path, watched: Path) -> None:
    path = root / "model.py"
    client.open(path)
    folder = watched / SESSION
    folder.mkdir(parents=True)
    (folder / "trace.json").write_bytes(trace_of("T01"))
    (folder / "ntrace.pb.tmp").write_bytes(b"constructed")
    # Another one that is complete shows that the unfinished one was looked at as well.
    other = root / "other.py"
    other.write_text("def f(x):\n    return x\n")
    os.utime(other, (1e9, 1e9))
    client.open(other)
    (watched / "my.trace.json").write_bytes(
        trace_of("T13").replace(b"m.py(1)", b"other.py(1)").replace(b"5200", b"4100")
    )
    until_foreign(client, other, {1: "6.00 µs device"})
    assert foreign(client, path) == {}

    (folder / "ntrace.pb.tmp").rename(folder / "ntrace.pb")
    before = snapshot(watched)
    until_foreign(client, path, {3: "99.8 µs device", 13: "80.0 µs device"})
    title = foreign(client, path)[3]
    written = time.localtime((folder / "trace.json").stat().st_mtime)
    assert title == f"99.8 µs device · from your profile, {time.strftime('%H:%M', written)}"
    assert hints(client, path) == {}, "torch names no lines"
    click(client, path, title)
    report = path_of(client.wait_for("window/showDocument")["uri"])
    assert report is not None
    text = report.read_text()
    assert "device 99.8 µs, of which 19.8 µs its own · 3 executions · host 800 µs · 1 call" in text
    assert str(folder / "trace.json") in text
    assert snapshot(watched) == before, "nothing there is touched"


def test_what_lay_there_before_the_server_counts_and_an_edit_marks_it(serve: Serve, root: Path, watched: Path) -> None:
    (watched / "trace.json").write_bytes(trace_of("T01"))
    os.utime(watched / "trace.json", (1.5e9, 1.5e9))
    client = ready(serve([root], settings={"watchFolders": [str(watched)]}))
    path = root / "model.py"
    document = client.open(path)
    until_foreign(client, path, {3: "99.8 µs device", 13: "80.0 µs device"})
    day = time.strftime("%Y-%m-%d %H:%M", time.localtime(1.5e9))
    assert foreign(client, path)[3] == f"99.8 µs device · from your profile, {day}"
    document.replace_all("# one line more\n" + document.text)
    assert without_time(foreign(client, path)) == {4: "~99.8 µs device", 14: "~80.0 µs device"}
    document.save(reason=None)
    until_foreign(client, path, {4: "~99.8 µs device", 14: "~80.0 µs device"})


def test_a_trace_that_is_cut_is_shown_after_it_stayed_so(client: Client, root: Path, watched: Path) -> None:
    content = trace_of("T01")
    whole = json.loads(content)
    cut = content[: content.rindex(b'{"ph"')]
    assert len(whole["traceEvents"]) == 12
    (watched / "trace.json").write_bytes(cut)
    path = root / "model.py"
    client.open(path)
    # The execution that helper asked for is cut off, so nothing is known of helper.
    until_foreign(client, path, {3: "≥19.8 µs device"})
    (watched / "trace.json").write_bytes(content)
    until_foreign(client, path, {3: "99.8 µs device", 13: "80.0 µs device"})


def test_a_name_that_two_files_have_shows_nothing(serve: Serve, tmp_path: Path, watched: Path) -> None:
    root = tmp_path / "ws"
    shutil.copytree(case("T02"), root)
    client = ready(serve([root], settings={"watchFolders": [str(watched)]}))
    paths = [root / name / "pkg" / "model.py" for name in ("rootA", "rootB")]
    for path in paths:
        # The trace tells of the second line.
        path.write_text(f"#\n{path.read_text()}")
        client.open(path)
    witness = root / "m.py"
    witness.write_text("def f(x):\n    return x\n")
    client.open(witness)
    (watched / "a.trace.json").write_bytes(trace_of("T02"))
    (watched / "b.trace.json").write_bytes(trace_of("T10"))
    # So that it is read after the other one.
    os.utime(watched / "b.trace.json", (1.5e9, 1.5e9))
    until(client, lambda: foreign(client, witness), lambda seen: len(seen) == 1, READ_S)
    assert [foreign(client, path) for path in paths] == [{}, {}]


def test_device_time_that_is_not_known_is_said(client: Client, root: Path, watched: Path) -> None:
    path = root / "m.py"
    path.write_text("def f(x):\n    return x\n")
    os.utime(path, (1e9, 1e9))
    (watched / "trace.json").write_bytes(trace_of("T09"))
    client.open(path)
    until_foreign(client, path, {1: "device time unknown, host 200 µs"})


def test_folders_are_watched_for_trusted_workspaces_only(serve: Serve, tmp_path: Path) -> None:
    roots = [tmp_path / "asked", tmp_path / "trusted"]
    settings = {}
    for root in roots:
        shutil.copytree(case("T01"), root)
        (root / "model.py").rename(root / f"{root.name}.py")
        (tmp_path / f"{root.name}-out").mkdir()
        content = trace_of("T01").replace(b"model.py", f"{root.name}.py".encode())
        (tmp_path / f"{root.name}-out" / "trace.json").write_bytes(content)
        settings[root] = {"watchFolders": [str(tmp_path / f"{root.name}-out")]}
    # So that the other one would be read before.
    os.utime(tmp_path / "trusted-out" / "trace.json", (1.5e9, 1.5e9))
    # Of a client that knows nothing of trust, folders are trusted one by one.
    client = ready(serve(roots, settings=settings, initialization_options={}))
    first, second = (root / f"{root.name}.py" for root in roots)
    client.open(first)
    client.open(second)
    act(client, "profileFunction", {"uri": second.as_uri(), "qualname": "rms"})
    until(client, lambda: foreign(client, second), lambda seen: len(seen) == 2, READ_S)
    assert foreign(client, first) == {}
    act(client, "profileFunction", {"uri": first.as_uri(), "qualname": "rms"})
    until(client, lambda: foreign(client, first), lambda seen: len(seen) == 2, READ_S)


def test_a_setting_that_is_taken_back_shows_nothing_any_more(
    client: Client, fake: FakeAgents, root: Path, watched: Path
) -> None:
    (watched / "trace.json").write_bytes(trace_of("T01"))
    path = root / "model.py"
    client.open(path)
    until_foreign(client, path, {3: "99.8 µs device", 13: "80.0 µs device"})
    own = lenses(client, path)
    client.configure(with_fake(fake, {"watchFolders": []}))
    until_foreign(client, path, {})
    assert [title for title in own if "from your profile" not in title] == lenses(client, path)
