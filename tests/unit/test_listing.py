"""Listings of real folders: large ones, odd names, links, and folders that change meanwhile."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest

from profile_neuron.capture.session_dir import ListedFile
from profile_neuron.report.listing import Listing, list_files

if TYPE_CHECKING:
    from pathlib import Path


def paths(root: Path, **options: int) -> list[str]:
    return [file.path for file in list_files(root, **options).files]


def test_files_are_told_with_size_and_time_and_without_folders(tmp_path: Path) -> None:
    (tmp_path / "a" / "empty").mkdir(parents=True)
    (tmp_path / "a" / "b.ntff").write_bytes(b"12345")
    (tmp_path / "top").touch()
    os.utime(tmp_path / "a" / "b.ntff", ns=(0, 1_790_000_000_123_456_789))
    found = list_files(tmp_path)
    assert found.files == (
        ListedFile("a/b.ntff", 5, 1_790_000_000_123_456_789),
        ListedFile("top", 0, (tmp_path / "top").stat().st_mtime_ns),
    )
    assert found.gaps == ()


def test_a_folder_that_does_not_exist_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "none", tmp_path / "file"):
        assert list_files(path) == Listing(files=())


def test_no_link_is_followed_and_nothing_special_is_told(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    (outside / "sub").mkdir(parents=True)
    (outside / "sub" / "secret").write_text("not ours")
    (root / "sub").mkdir(parents=True)
    (root / "sub" / "own").touch()
    (root / "to_folder").symlink_to(outside)
    (root / "to_file").symlink_to(outside / "sub" / "secret")
    (root / "to_itself").symlink_to(root)
    (root / "to_nothing").symlink_to("nowhere")
    os.mkfifo(root / "pipe")
    assert paths(root) == ["sub/own"]


def test_a_link_to_the_folder_itself_is_what_a_person_named(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "own").touch()
    (tmp_path / "link").symlink_to("root")
    assert paths(tmp_path / "link") == ["own"]


def test_odd_names_come_through_as_they_are(tmp_path: Path) -> None:
    names = [b"a b", b'it\'s "so"', b"two\nlines", b"not \xff text", "é∀".encode(), b"back\\slash", b" "]
    for name in names:
        folder = os.path.join(os.fsencode(tmp_path), name)  # noqa: PTH118 - of bytes
        os.mkdir(folder)  # noqa: PTH102
        with open(os.path.join(folder, name), "wb"):  # noqa: PTH118
            pass
    assert {os.fsencode(path) for path in paths(tmp_path)} == {name + b"/" + name for name in names}


def test_ten_thousand_files_are_listed_whole(tmp_path: Path) -> None:
    expected = []
    for number in range(100):
        folder = tmp_path / f"i_pid_{number}" / "1"
        folder.mkdir(parents=True)
        for core in range(100):
            (folder / f"profile_nc_{core}_session_0.ntff").touch()
            expected.append(f"i_pid_{number}/1/profile_nc_{core}_session_0.ntff")
    found = list_files(tmp_path)
    assert [file.path for file in found.files] == sorted(expected)
    assert found.gaps == ()


def test_of_too_many_entries_the_nearer_ones_are_told_with_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    for number in range(10):
        (tmp_path / "deep" / "er" / str(number)).touch()
    (tmp_path / "near").touch()
    found = list_files(tmp_path, most=5)
    # The entries deep, near, er, and two of the files.
    assert len(found.files) == 3
    assert found.files[-1].path == "near"
    assert found.gaps == (
        f"{tmp_path} holds more than 5 files and folders, of which the rest was not looked at; give every run an output "
        "directory of its own",
    )
    whole = list_files(tmp_path, most=13)
    assert (len(whole.files), whole.gaps) == (11, ())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every folder")
def test_a_folder_that_may_not_be_read_is_a_gap_for_this_user(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0)
    assert list_files(tmp_path).gaps == (
        f"{tmp_path}/closed/ cannot be read (Permission denied); see that you may read all of it",
    )


def test_a_folder_that_cannot_be_read_is_a_gap_and_the_rest_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bro\nken").mkdir()
    (tmp_path / "fine" / "broken").mkdir(parents=True)
    (tmp_path / "near").touch()
    scandir = os.scandir

    def failing(path: str) -> object:
        if "bro" in path:
            raise OSError(5, "Input/output error")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", failing)
    found = list_files(tmp_path)
    assert [file.path for file in found.files] == ["near"]
    assert found.gaps == (
        f"'{tmp_path}/bro\\nken/' cannot be read (Input/output error), nor can 1 more; see that you may read all of it",
    )


def test_a_file_that_vanishes_between_its_name_and_its_size_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "folder/c"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    scandir = os.scandir

    class Vanishing:
        """Entries of a folder out of which all is removed once it was opened."""

        def __init__(self, path: str) -> None:
            self.entries = list(scandir(path))
            (tmp_path / "b").unlink(missing_ok=True)
            (tmp_path / "folder" / "c").unlink(missing_ok=True)
            if "folder" in path:
                (tmp_path / "folder").rmdir()

        def __enter__(self) -> list[os.DirEntry[str]]:
            return self.entries

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(os, "scandir", Vanishing)
    found = list_files(tmp_path)
    assert ([file.path for file in found.files], found.gaps) == (["a"], ())


def test_a_folder_that_is_being_written_can_be_listed(tmp_path: Path) -> None:
    stable = [f"stable/{number}.neff" for number in range(50)]
    (tmp_path / "stable").mkdir()
    for path in stable:
        (tmp_path / path).touch()
    is_over, has_begun = threading.Event(), threading.Event()

    def write() -> None:
        round_number = 0
        while not is_over.is_set():
            folder = tmp_path / f"i_pid_{round_number % 7}"
            folder.mkdir()
            for number in range(5):
                temporary = folder / f"{number}.neff.tmp"
                temporary.write_bytes(b"12345")
                temporary.rename(folder / f"{number}.neff")
            for path in folder.iterdir():
                path.unlink()
            folder.rmdir()
            has_begun.set()
            round_number += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert has_begun.wait(60)
        for _ in range(200):
            found = list_files(tmp_path)
            assert found.gaps == ()
            assert {file.path for file in found.files if file.path.startswith("stable/")} == set(stable)
            assert all(file.size_bytes in (0, 5) for file in found.files)
    finally:
        is_over.set()
        writer.join(60)
    assert not writer.is_alive()
