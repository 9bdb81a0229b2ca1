"""An editor's conversation while the user's own programs leave profiles in folders that the server watches."""

from __future__ import annotations

import json
import os
import shutil
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.conftest import case
from tests.lsp.client import TimedOut
from tests.lsp.screen import click, hints, lenses, ready, until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lsp.client import Client
    from tests.lsp.conftest import Serve

# A process is started for each trace.
READ_S = 60.0
SESSION = "i-0abc_pid_4242/1790000000"
DECORATED = "Profile on the CPU"


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


def test_a_session_is_shown_above_its_functions_once_it_is_finished(
    client: Client, root: Path, watched: Path
) -> None:
    document = client.open(root / "model.py")
    folder = watched / SESSION
    folder.mkdir(parents=True)
    (folder / "trace.json").write_bytes(trace_of("T01"))
    (folder / "ntrace.pb.tmp").write_bytes(b"constructed")
    # Another one that is complete shows that the unfinished one was looked at as well.
    other = root / "other.py"
    other.write_text("def f(x):\n    return x\n")
    os.utime(other, (1e9, 1e9))
    client.open(other)
    (watched / "my.trace.json").write_bytes(trace_of("T13").replace(b"m.py(1)", b"other.py(1)").replace(b"5200", b"4100"))
    until_foreign(client, other, {1: "6.00 µs device"})
    assert foreign(client, document.path) == {}

    (folder / "ntrace.pb.tmp").rename(folder / "ntrace.pb")
    before = snapshot(watched)
    until_foreign(client, document.path, {3: "99.8 µs device", 13: "80.0 µs device"})
    title = foreign(client, document.path)[3]
    assert title == f"99.8 µs device · from your profile, {time.strftime('%H:%M', time.localtime((folder / 'trace.json').stat().st_mtime))}"
    assert hints(client, document.path) == {}, "torch names no lines"
    click(client, document.path, title)
    shown = client.wait_for("window/showDocument")
    from urllib.parse import unquote, urlsplit

    text = open(unquote(urlsplit(shown["uri"]).path)).read()
    assert "device 99.8 µs, of which 19.8 µs its own · 3 executions · host 800 µs · 1 call" in text
    assert str(folder / "trace.json") in text
    assert snapshot(watched) == before, "nothing there is touched"


def test_what_lay_there_before_the_server_counts_and_an_edit_marks_it(
    serve: Serve, root: Path, watched: Path
) -> None:
    (watched / "trace.json").write_bytes(trace_of("T01"))
    os.utime(watched / "trace.json", (1.5e9, 1.5e9))
    client = ready(serve([root], settings={"watchFolders": [str(watched)]}))
    document = client.open(root / "model.py")
    until_foreign(client, document.path, {3: "99.8 µs device", 13: "80.0 µs device"})
    assert foreign(client, document.path)[3].endswith(" · from your profile, 2017-07-14 02:40") or "2017-07-1" in str(
        foreign(client, document.path)
    )
    document.replace_all("# one line more\n" + document.text)
    assert without_time(foreign(client, document.path)) == {4: "~99.8 µs device", 14: "~80.0 µs device"}
    document.save(reason=None)
    until_foreign(client, document.path, {4: "~99.8 µs device", 14: "~80.0 µs device"})


def test_a_trace_that_is_cut_is_shown_after_it_stayed_so(client: Client, root: Path, watched: Path) -> None:
    content = trace_of("T01")
    whole = json.loads(content)
    cut = content[: content.rindex(b'{"ph"')]
    assert len(whole["traceEvents"]) == 12
    (watched / "trace.json").write_bytes(cut)
    document = client.open(root / "model.py")
    # The call of helper lacks its execution, so it is known of nothing.
    until_foreign(client, document.path, {3: "≥19.8 µs device"})
    (watched / "trace.json").write_bytes(content)
    until_foreign(client, document.path, {3: "99.8 µs device", 13: "80.0 µs device"})


def test_a_name_that_two_files_have_shows_nothing(serve: Serve, tmp_path: Path, watched: Path) -> None:
    root = tmp_path / "ws"
    shutil.copytree(case("T02"), root)
    client = ready(serve([root], settings={"watchFolders": [str(watched)]}))
    paths = [root / name / "pkg" / "model.py" for name in ("rootA", "rootB")]
    for path in paths:
        client.open(path)
    witness = root / "m.py"
    witness.write_text("def f(x):\n    return x\n")
    client.open(witness)
    (watched / "a.trace.json").write_bytes(trace_of("T02"))
    (watched / "b.trace.json").write_bytes(trace_of("T10"))
    until(client, lambda: foreign(client, witness), lambda seen: len(seen) == 1, READ_S)
    assert [foreign(client, path) for path in paths] == [{}, {}]


def test_device_time_that_is_not_known_is_said(client: Client, root: Path, watched: Path) -> None:
    path = root / "m.py"
    path.write_text("def f(x):\n    return x\n")
    os.utime(path, (1e9, 1e9))
    (watched / "trace.json").write_bytes(trace_of("T09"))
    client.open(path)
    until_foreign(client, path, {1: "device time unknown, host 200 µs"})


def test_folders_are_watched_in_trusted_workspaces_only(serve: Serve, root: Path, watched: Path) -> None:
    (watched / "trace.json").write_bytes(trace_of("T01"))
    options: dict[str, Any] = {"trusted": False}
    client = ready(serve([root], settings={"watchFolders": [str(watched)]}, initialization_options=options))
    document = client.open(root / "model.py")
    with pytest.raises(TimedOut):
        until(client, lambda: foreign(client, document.path), bool, timeout_s=4.0)
    client.notify("profileNeuron/trust", {"trusted": True})
    until_foreign(client, document.path, {3: "99.8 µs device", 13: "80.0 µs device"})


def test_a_setting_that_is_taken_back_shows_nothing_any_more(client: Client, root: Path, watched: Path) -> None:
    (watched / "trace.json").write_bytes(trace_of("T01"))
    document = client.open(root / "model.py")
    until_foreign(client, document.path, {3: "99.8 µs device", 13: "80.0 µs device"})
    own = lenses(client, document.path)
    client.configure({"watchFolders": []})
    until_foreign(client, document.path, {})
    assert [title for title in own if "from your profile" not in title] == lenses(client, document.path)
