"""Where recorded inputs are looked for, and what of them a result depends on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profile_neuron.core.recording import file_name
from profile_neuron.daemon.recordings import recording_digest, recording_of, recordings_folder

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_recording_is_found_by_whatever_path_leads_to_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    path = tmp_path / "real" / "model.py"
    assert recording_of(str(path), "f") == ""
    kept = recordings_folder() / file_name(str(path), "f")
    kept.write_text("{}")
    assert recording_of(str(path), "f") == recording_of(str(tmp_path / "link/model.py"), "f") == str(kept)
    assert recording_of(str(path), "g") == ""


def test_the_digest_changes_with_what_was_recorded(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    assert recording_digest("") == recording_digest(str(file)) == ""
    file.write_text("{}")
    before = recording_digest(str(file))
    file.write_text("[]")
    assert "" != before != recording_digest(str(file))


def test_without_a_state_folder_nothing_was_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert recording_of(str(tmp_path / "model.py"), "f") == ""
