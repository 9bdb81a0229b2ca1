"""Which named inputs the user chose for each function, kept in files."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from profile_neuron.daemon.input_sets import InputSets

ROOT, FILE = "/p", "/p/model.py"


def test_a_choice_is_remembered_by_another_server_and_is_of_one_function(tmp_path: Path) -> None:
    InputSets(tmp_path).choose(ROOT, FILE, "f", "b8")
    other = InputSets(tmp_path)
    assert other.chosen(ROOT, FILE, "f") == "b8"
    assert other.chosen(ROOT, FILE, "g") == ""
    assert other.chosen("/q", FILE, "f") == ""
    assert InputSets(tmp_path / "not there").chosen(ROOT, FILE, "f") == ""


def test_two_servers_see_each_others_choices_and_lose_none(tmp_path: Path) -> None:
    one, other = InputSets(tmp_path), InputSets(tmp_path)
    one.choose(ROOT, FILE, "f", "b8")
    other.choose(ROOT, FILE, "g", "b1")
    assert (one.chosen(ROOT, FILE, "g"), other.chosen(ROOT, FILE, "f")) == ("b1", "b8")
    other.choose(ROOT, FILE, "f", "größe")
    assert one.chosen(ROOT, FILE, "f") == "größe"


def test_the_files_are_the_users_alone_and_none_is_left_unfinished(tmp_path: Path) -> None:
    InputSets(tmp_path).choose(ROOT, "/p/\udcff.py", "f", "b8")
    (file,) = tmp_path.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert InputSets(tmp_path).chosen(ROOT, "/p/\udcff.py", "f") == "b8"


@pytest.mark.parametrize(
    "content", [b"", b"null", b"[" * 100_000, b'{"name": "b8"}', b'{"function": ["/p", "/p/model.py", "f"], "name": 1}']
)
def test_a_damaged_file_counts_as_no_choice(content: bytes, tmp_path: Path) -> None:
    sets = InputSets(tmp_path)
    sets.choose(ROOT, FILE, "f", "b8")
    (file,) = tmp_path.iterdir()
    file.write_bytes(content)
    assert sets.chosen(ROOT, FILE, "f") == ""


def test_the_copied_file_of_another_function_counts_as_no_choice(tmp_path: Path) -> None:
    sets = InputSets(tmp_path)
    sets.choose(ROOT, FILE, "f", "b8")
    (file,) = tmp_path.iterdir()
    sets.choose(ROOT, FILE, "g", "b1")
    (copied,) = set(tmp_path.iterdir()) - {file}
    copied.write_bytes(file.read_bytes())
    assert sets.chosen(ROOT, FILE, "g") == ""


def test_a_choice_that_cannot_be_kept_holds_as_long_as_the_server() -> None:
    sets = InputSets(Path(os.devnull))
    with pytest.raises(OSError, match="null"):
        sets.choose(ROOT, FILE, "f", "b8")
    assert sets.chosen(ROOT, FILE, "f") == "b8"
