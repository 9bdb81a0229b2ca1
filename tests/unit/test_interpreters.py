"""Which Python runs the user's code."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from profile_neuron.daemon.interpreters import Interpreter, interpreter

if TYPE_CHECKING:
    from pathlib import Path


def none(_: Path) -> bool:
    return False


@pytest.fixture(autouse=True)
def _home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        pytest.param("/usr/bin/python3", "/usr/bin/python3", id="absolute"),
        pytest.param("envs/a/bin/python", "/p/envs/a/bin/python", id="relative to the folder"),
        pytest.param("./python", "/p/./python", id="in the folder"),
        pytest.param("../env/bin/python", "/p/../env/bin/python", id="beside the folder, links kept"),
        pytest.param("~/env/bin/python", "/home/me/env/bin/python", id="home"),
        pytest.param("${workspaceFolder}/env/bin/python", "/p/env/bin/python", id="workspace folder"),
        pytest.param("env with space/bin/python", "/p/env with space/bin/python", id="space"),
    ],
)
def test_a_setting_that_is_a_path_counts_from_the_folder(setting: str, expected: str) -> None:
    assert interpreter("/p", setting, none).path == expected


def test_a_bare_name_is_found_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "python9"
    python.write_text("")
    python.chmod(0o755)
    monkeypatch.setenv("PATH", f"/nowhere{os.pathsep}{tmp_path}")
    assert interpreter("/p", "python9", none).path == str(python)
    # Where it is not found, whoever starts it says so.
    assert interpreter("/p", "python8", none).path == "python8"


@pytest.mark.parametrize(
    ("present", "expected"),
    [
        ({"/p/.venv/bin/python"}, "/p/.venv/bin/python"),
        ({"/p/.venv/Scripts/python.exe"}, "/p/.venv/Scripts/python.exe"),
        ({"/p/.venv/bin/python", "/p/.venv/Scripts/python.exe"}, "/p/.venv/bin/python"),
        ({"/p/venv/bin/python"}, sys.executable),
        (set(), sys.executable),
    ],
)
def test_without_a_setting_it_is_that_of_the_environment_in_the_folder_else_our_own(
    present: set[str], expected: str
) -> None:
    assert interpreter("/p", "", lambda path: str(path) in present).path == expected


def test_a_setting_counts_more_than_an_environment_in_the_folder() -> None:
    assert interpreter("/p", "/usr/bin/python3", lambda _: True).path == "/usr/bin/python3"


def test_a_link_to_an_interpreter_that_is_gone_is_none(tmp_path: Path) -> None:
    link = tmp_path / ".venv" / "bin" / "python"
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / "gone")
    assert interpreter(str(tmp_path), "").path == sys.executable
    (tmp_path / "gone").write_text("")
    # Kept as a link: the target would not know its environment.
    assert interpreter(str(tmp_path), "").path == str(link)


OTHERS = {"active": "/active/python", "fallback": "/usr/bin/python3"}


@pytest.mark.parametrize(
    ("setting", "present", "others", "expected", "source"),
    [
        ("/s/python", True, OTHERS, "/s/python", "the setting profileNeuron.interpreter"),
        ("", True, OTHERS, "/active/python", "the Python extension"),
        ("", True, {"fallback": "/usr/bin/python3"}, "/p/.venv/bin/python", "the folder's .venv"),
        ("", False, {"fallback": "/usr/bin/python3"}, "/usr/bin/python3", "python3 on the PATH"),
        ("", False, {}, sys.executable, "the Python that this server runs in"),
    ],
)
def test_what_names_one_more_exactly_counts_first_and_says_so(
    setting: str, present: bool, others: dict[str, str], expected: str, source: str
) -> None:
    assert interpreter("/p", setting, lambda _: present, **others) == Interpreter(expected, source)


def test_one_that_cannot_be_started_says_why(tmp_path: Path) -> None:
    python = tmp_path / "python"
    what_to_do = "choose a Python with the setting profileNeuron.interpreter"
    assert Interpreter(str(python), "").problem == f"{python} is not there; {what_to_do}"
    python.mkdir()
    assert Interpreter(str(python), "").problem == f"{python} is not there; {what_to_do}"
    python.rmdir()
    python.write_text("")
    python.chmod(0o644)
    assert Interpreter(str(python), "").problem == f"{python} cannot be executed; {what_to_do}"
    python.chmod(0o755)
    assert Interpreter(str(python), "").problem == ""
