from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from profile_neuron import folders
from profile_neuron.folders import plain_cache_folder, socket_folder

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What stands in for /tmp; gives our folder in it, which is not there yet."""
    monkeypatch.setattr(folders, "_TEMPORARY", tmp_path)
    return tmp_path / f"profile-neuron-{os.geteuid()}"


def test_a_plain_path_of_the_cache_is_taken(tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert plain_cache_folder("neff") == tmp_path / "cache" / "profile-neuron" / "neff"
    assert not temporary.exists()


@pytest.mark.parametrize("name", ["my cache", "a:b", "a;b"])
def test_a_path_that_the_runtime_would_cut_is_not(
    name: str, tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / name))
    found = plain_cache_folder("neff")
    assert found == temporary / "neff"
    assert [path.stat().st_mode & 0o777 for path in (temporary, found)] == [0o700, 0o700]
    assert plain_cache_folder("neff") == found, "it may be there already"


def test_sockets_lie_where_their_paths_are_short(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / ("long" * 30)))
    assert socket_folder() == temporary / "agents"


@pytest.mark.parametrize("kind", ["link", "file", "open to others"])
def test_a_temporary_folder_that_is_not_ours_alone_is_refused(
    kind: str, tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a:b"))
    if kind == "link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        temporary.symlink_to(tmp_path / "elsewhere")
    elif kind == "file":
        temporary.touch()
    else:
        temporary.mkdir()
        temporary.chmod(0o755)
    with pytest.raises(OSError, match="profile-neuron-"):
        plain_cache_folder("neff")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_temporary_folder_of_another_user_is_refused(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a:b"))
    temporary.mkdir(mode=0o700)
    os.chown(temporary, 12345, 12345)
    with pytest.raises(PermissionError, match="is not a folder of yours alone; remove it"):
        plain_cache_folder("neff")
