"""What is kept of each interpreter, and when it no longer counts."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from profile_neuron.daemon.toolchains import Toolchains
from tests.unit.constructed import TOOLCHAIN

if TYPE_CHECKING:
    from profile_neuron.core.model import Toolchain


@pytest.fixture
def python(tmp_path: Path) -> str:
    """An interpreter, which is never started."""
    file = tmp_path / "venv" / "bin" / "python"
    file.parent.mkdir(parents=True)
    file.write_text("")
    return str(file)


@pytest.fixture
def toolchain(tmp_path: Path) -> Toolchain:
    packages = tmp_path / "venv" / "lib"
    packages.mkdir(parents=True)
    return replace(TOOLCHAIN, site_packages=str(packages))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "kept"
    made.mkdir()
    return made


def later(path: str | Path) -> None:
    """Give a file or folder another time of change."""
    before = os.stat(path).st_mtime_ns  # noqa: PTH116 - either kind
    os.utime(path, ns=(before + 10**9, before + 10**9))


def test_nothing_is_known_of_an_interpreter_that_never_ran(folder: Path, python: str) -> None:
    assert Toolchains(folder).known(python) is None
    assert Toolchains(folder / "absent").known(python) is None
    assert Toolchains(folder).known("/no/such/python") is None


def test_what_a_run_said_is_known_after_a_restart(folder: Path, python: str, toolchain: Toolchain) -> None:
    Toolchains(folder).learn(python, toolchain)
    assert Toolchains(folder).known(python) == toolchain
    assert [path.name.count(".") for path in folder.iterdir()] == [0]


def test_what_a_later_run_said_counts(folder: Path, python: str, toolchain: Toolchain) -> None:
    known = Toolchains(folder)
    known.learn(python, toolchain)
    known.learn(python, replace(toolchain, torch="2.14.0"))
    assert known.known(python) == replace(toolchain, torch="2.14.0")


def test_interpreters_are_told_apart_by_their_path_as_given(folder: Path, python: str, toolchain: Toolchain) -> None:
    link = Path(python).with_name("python3")
    link.symlink_to(python)
    known = Toolchains(folder)
    known.learn(python, toolchain)
    assert known.known(str(link)) is None
    known.learn(str(link), replace(toolchain, torch="2.14.0"))
    assert known.known(python) == toolchain


@pytest.mark.parametrize("what", ["interpreter", "packages"])
def test_another_interpreter_or_other_packages_make_it_unknown(
    folder: Path, python: str, toolchain: Toolchain, what: str
) -> None:
    known = Toolchains(folder)
    known.learn(python, toolchain)
    later(python if what == "interpreter" else toolchain.site_packages)
    assert known.known(python) is None
    known.learn(python, toolchain)
    assert known.known(python) == toolchain


@pytest.mark.parametrize("what", ["interpreter", "packages"])
def test_what_is_gone_is_unknown(folder: Path, python: str, toolchain: Toolchain, what: str) -> None:
    known = Toolchains(folder)
    known.learn(python, toolchain)
    Path(python).unlink() if what == "interpreter" else Path(toolchain.site_packages).rmdir()
    assert known.known(python) is None


def test_without_a_folder_of_packages_that_of_the_interpreter_counts(
    folder: Path, python: str, toolchain: Toolchain
) -> None:
    known = Toolchains(folder)
    known.learn(python, replace(toolchain, site_packages=""))
    assert known.known(python) == replace(toolchain, site_packages="")
    later(Path(python).parent)
    assert known.known(python) is None


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"{", id="cut off"),
        pytest.param(b"\xff\xfe", id="bytes"),
        pytest.param(b"null", id="null"),
        pytest.param(b"[]", id="list"),
        pytest.param(b'{"python": 1, "stamp": [1, 2], "toolchain": {}}', id="fields missing"),
        pytest.param(b'{"toolchain": {"python": 3}}', id="wrong type"),
        pytest.param(b"[" * 100_000, id="deep"),
    ],
)
def test_a_damaged_file_is_as_none(folder: Path, python: str, toolchain: Toolchain, content: bytes) -> None:
    known = Toolchains(folder)
    known.learn(python, toolchain)
    (file,) = folder.iterdir()
    file.write_bytes(content)
    assert known.known(python) is None
    known.learn(python, toolchain)
    assert known.known(python) == toolchain


def test_paths_that_are_no_unicode_are_kept(folder: Path, tmp_path: Path, toolchain: Toolchain) -> None:
    python = str(tmp_path / os.fsdecode(b"python-\xff"))
    try:
        Path(python).write_text("")
    except OSError:
        pytest.skip("the file system takes only Unicode")
    known = Toolchains(folder)
    known.learn(python, replace(toolchain, executable=python))
    assert known.known(python) == replace(toolchain, executable=python)


def test_what_cannot_be_kept_is_known_until_the_end(tmp_path: Path, python: str, toolchain: Toolchain) -> None:
    known = Toolchains(tmp_path / "absent")
    known.learn(python, toolchain)
    assert known.known(python) == toolchain
    assert Toolchains(tmp_path / "absent").known(python) is None


def test_what_can_be_kept_again_counts_more_than_what_could_not(
    tmp_path: Path, python: str, toolchain: Toolchain
) -> None:
    known = Toolchains(tmp_path / "absent")
    known.learn(python, toolchain)
    (tmp_path / "absent").mkdir()
    known.learn(python, replace(toolchain, torch="2.14.0"))
    assert known.known(python) == replace(toolchain, torch="2.14.0")
