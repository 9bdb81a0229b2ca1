"""What the user allowed, kept in files: which of them count, and which never do."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from profile_neuron.daemon.trust import TrustRecord
from profile_neuron.folders import cache_folder, state_folder

if TYPE_CHECKING:
    from pathlib import Path

ROOT = "/home/someone/project"
only_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")


def kept_file(folder: Path) -> Path:
    """The one file of a record with one answer."""
    TrustRecord(folder).keep(ROOT, True)
    (file,) = folder.iterdir()
    return file


@pytest.mark.parametrize("trusted", [True, False])
def test_an_answer_is_remembered_by_another_server(tmp_path: Path, trusted: bool) -> None:
    TrustRecord(tmp_path).keep(ROOT, trusted)
    assert TrustRecord(tmp_path).answer(ROOT) is trusted


def test_a_root_that_was_never_asked_about_has_no_answer(tmp_path: Path) -> None:
    record = TrustRecord(tmp_path)
    record.keep(ROOT, True)
    assert record.answer(f"{ROOT}/inner") is None
    assert record.answer(f"{ROOT}/") is None
    assert TrustRecord(tmp_path / "not there").answer(ROOT) is None


def test_a_later_answer_takes_the_place_of_an_earlier_one_also_for_a_running_server(tmp_path: Path) -> None:
    running = TrustRecord(tmp_path)
    running.keep(ROOT, True)
    assert running.answer(ROOT) is True
    TrustRecord(tmp_path).keep(ROOT, False)
    assert running.answer(ROOT) is False
    assert len(list(tmp_path.iterdir())) == 1


def test_roots_do_not_share_a_file(tmp_path: Path) -> None:
    record = TrustRecord(tmp_path)
    record.keep("/a", True)
    record.keep("/b", False)
    assert (record.answer("/a"), record.answer("/b")) == (True, False)
    assert all(len(file.name) == 32 and int(file.name, 16) for file in tmp_path.iterdir())


def test_only_the_user_can_read_an_answer(tmp_path: Path) -> None:
    assert stat.S_IMODE(kept_file(tmp_path).stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "text",
    [
        "",
        "true",
        "[]",
        "null",
        '{"root": "/home/someone/project", "trusted": tr',
        '{"root": "/home/someone/project"}',
        '{"root": "/home/someone/project", "trusted": 1}',
        '{"root": "/home/someone/project", "trusted": "true"}',
        '{"root": "/home/someone/project", "trusted": null}',
        '{"root": "/home/someone", "trusted": true}',
        '{"root": ["/home/someone/project"], "trusted": true}',
        '{"trusted": true}',
        b"\xff\xfe\x00",
        "[" * 200_000,
    ],
    ids=lambda text: repr(text[:60]),
)
def test_a_damaged_file_is_no_answer_and_can_be_answered_anew(tmp_path: Path, text: str | bytes) -> None:
    kept_file(tmp_path).write_bytes(text if isinstance(text, bytes) else text.encode())
    record = TrustRecord(tmp_path)
    assert record.answer(ROOT) is None
    record.keep(ROOT, True)
    assert record.answer(ROOT) is True


def test_the_file_of_another_root_under_the_name_of_this_one_is_no_answer(tmp_path: Path) -> None:
    file = kept_file(tmp_path)
    TrustRecord(tmp_path).keep("/other", True)
    (other,) = set(tmp_path.iterdir()) - {file}
    other.replace(file)
    assert TrustRecord(tmp_path).answer(ROOT) is None


@only_root
def test_a_file_of_another_user_is_no_answer(tmp_path: Path) -> None:
    os.chown(kept_file(tmp_path), 12345, 12345)
    assert TrustRecord(tmp_path).answer(ROOT) is None


def test_what_is_no_plain_file_is_no_answer(tmp_path: Path) -> None:
    file = kept_file(tmp_path)
    copy = tmp_path / "copy"
    file.rename(copy)
    file.symlink_to(copy)
    assert TrustRecord(tmp_path).answer(ROOT) is None
    file.unlink()
    os.mkfifo(file)
    assert TrustRecord(tmp_path).answer(ROOT) is None, "and nothing waits for a writer"
    file.unlink()
    file.mkdir()
    assert TrustRecord(tmp_path).answer(ROOT) is None


@pytest.mark.parametrize(
    "root", ["/p/gr\u00f6\u00dfe \U0001f40d", "/p/\udcff\udc80", "/p/\ud800", "/p/a\0b", ""], ids=ascii
)
def test_any_path_can_be_asked_about(tmp_path: Path, root: str) -> None:
    record = TrustRecord(tmp_path)
    assert record.answer(root) is None
    record.keep(root, True)
    assert record.answer(root) is True


def test_an_answer_that_cannot_be_kept_raises_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="not there"):
        TrustRecord(tmp_path / "not there").keep(ROOT, True)
    file = kept_file(tmp_path)
    file.unlink()
    file.mkdir()
    with pytest.raises(OSError, match=file.name):
        TrustRecord(tmp_path).keep(ROOT, True)
    assert list(tmp_path.iterdir()) == [file]


def test_two_servers_that_answer_at_once_lose_nothing(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from profile_neuron.daemon.trust import TrustRecord\n"
        "record = TrustRecord(Path(sys.argv[1])); print(flush=True); sys.stdin.readline()\n"
        "for n in range(100):\n"
        "    record.keep(f'/{sys.argv[2]}/{n}', n % 2 == 0); record.keep('/both', True)\n"
        "    assert record.answer('/both') is True\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    servers = [
        subprocess.Popen([*command, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for name in "ab"
    ]
    for server in servers:
        assert server.stdout is not None
        assert server.stdout.readline() == "\n"
    for server in servers:
        server.communicate("\n")
    assert [server.returncode for server in servers] == [0, 0]
    record = TrustRecord(tmp_path)
    assert [record.answer(f"/{name}/{n}") for name in "ab" for n in range(100)] == [True, False] * 100
    assert len(list(tmp_path.iterdir())) == 201
    assert all(json.loads(file.read_text())["root"] for file in tmp_path.iterdir())


def test_the_state_folder_is_private_and_apart_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = state_folder("trust")
    assert folder == tmp_path / "state" / "profile-neuron" / "trust"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert state_folder("trust") == folder, "made once"
    assert cache_folder("trust") == tmp_path / "cache" / "profile-neuron" / "trust"


@pytest.mark.parametrize(("platform", "place"), [("linux", ".local/state"), ("darwin", "Library/Application Support")])
@pytest.mark.parametrize("given", [None, "", "relative"])
def test_the_state_folder_is_in_the_home_where_nothing_absolute_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str, place: str, given: str | None
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", platform)
    if given is None:
        monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    else:
        monkeypatch.setenv("XDG_STATE_HOME", given)
    assert state_folder("trust") == tmp_path / place / "profile-neuron" / "trust"


@only_root
def test_a_state_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    os.chown(state_folder("trust"), 12345, 12345)
    with pytest.raises(PermissionError, match="belongs to another user"):
        state_folder("trust")
