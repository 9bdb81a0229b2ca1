"""An interpreter that cannot be used is told of once, with what to do about it, and then shown where it matters."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.interpreters import bare_interpreter
from tests.lsp.screen import diagnostics, said, until, until_lens

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.fakes.control import FakeAgents
    from tests.lsp.client import Client
    from tests.lsp.conftest import Serve

SOURCE = """\
from profile_neuron import profile_neuron

@profile_neuron
def f():
    return 1
"""
# The first run starts an agent and a worker.
COLD_S = 60.0


def script(folder: Path, text: str) -> Path:
    """An executable in place of an interpreter."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def of_version(folder: Path, version: tuple[int, int, int]) -> Path:
    """An interpreter that takes itself to be of another version, for what it is given with -c."""
    pretend = f"import sys; sys.version_info = {version}; exec(sys.argv.pop(1))"
    return script(folder, f'shift 2; exec {sys.executable} -I -c "{pretend}" "$@"')


def missing(folder: Path) -> Path:
    return folder / "nowhere"


def a_folder(folder: Path) -> Path:
    return folder


def no_python(folder: Path) -> Path:
    return script(folder, "exit 1")


def too_old(folder: Path) -> Path:
    return of_version(folder, (3, 9, 18))


def without_torch(folder: Path) -> Path:
    return bare_interpreter(folder / "bare", with_torch=False)


SENTENCES: dict[Callable[[Path], Path], str] = {
    missing: "{} cannot be started (No such file or directory); name another interpreter",
    a_folder: "{} cannot be started (Permission denied); name another interpreter",
    no_python: "{} cannot be used (it ended with exit code 1); name another interpreter",
    too_old: "{} cannot be used (Python 3.9 is too old; profile-neuron needs 3.10 or newer); name another interpreter",
    without_torch: "{0} has no torch; install it with: {0} -m pip install torch==2.13.0",
}


@pytest.mark.parametrize("make", SENTENCES, ids=lambda make: make.__name__)
def test_is_one_message_and_then_only_a_remark(make: Callable[[Path], Path], serve: Serve, tmp_path: Path) -> None:
    python = make(tmp_path)
    sentence = SENTENCES[make].format(python)
    root = tmp_path / "ws"
    client = serve([root], settings={"interpreter": str(python)})
    path = root / "model.py"
    document = client.open(path, SOURCE)
    document.save()
    until_lens(client, path, "Profile failed", COLD_S)
    assert said(client) == [sentence]
    until(client, lambda: diagnostics(client, path), lambda seen: len(seen) == 1)
    assert sentence in diagnostics(client, path)[0]["message"]
    fail_again(client, path)
    assert said(client) == [sentence], "it has been said"


def fail_again(client: Client, path: Path) -> None:
    """Save other code, and see it fail."""
    mark = client.mark()
    other = client.open(path.with_name("other.py"), SOURCE)
    other.save()
    client.wait_for("window/logMessage", lambda params: params["message"].startswith("f: failed"), mark, COLD_S)


def test_is_told_of_anew_when_it_was_good_meanwhile(serve: Serve, tmp_path: Path, fake: FakeAgents) -> None:
    python, root = tmp_path / "changing", tmp_path / "ws"
    client = serve([root], settings={"interpreter": str(python)})
    path = root / "model.py"
    document = client.open(path, SOURCE)
    document.save()
    until_lens(client, path, "Profile failed")
    python.symlink_to(fake.interpreter)
    document.replace_all(SOURCE.replace("1", "2"))
    document.save()
    until_lens(client, path, "Re-profile")
    python.unlink()
    document.replace_all(SOURCE.replace("1", "3"))
    document.save()
    until_lens(client, path, "Profile failed")
    assert said(client) == [SENTENCES[missing].format(python)] * 2


def test_what_was_wrong_with_it_is_no_longer_said_once_another_is_chosen(serve: Serve, tmp_path: Path) -> None:
    root = tmp_path / "ws"
    client = serve([root], settings={"interpreter": str(tmp_path / "nowhere")})
    path = root / "model.py"
    client.open(path, SOURCE).save()
    until_lens(client, path, "Profile failed")
    client.configure({"interpreter": sys.executable})
    until_lens(client, path, "Profile on the CPU")
    assert diagnostics(client, path) == []
