"""Neovim, with the configuration of the README, as a client that is not ours; real agent, real worker."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

SCRIPT = Path(__file__).with_name("neovim.lua")


def neovim() -> str:
    """The editor of this environment, else that of the machine."""
    folder = Path(sys.executable).parent
    found = shutil.which("nvim", path=str(folder)) or shutil.which("nvim")
    if found is None:
        assert not os.environ.get("CI"), "nvim is missing: install the extra test"
        pytest.skip("nvim is missing: install the extra test")
    return found


def configuration() -> str:
    """The README's block for Neovim."""
    (block,) = re.findall(r"^```lua\n(.*?)^```$", (ROOT / "README.md").read_text(encoding="utf-8"), re.M | re.S)
    return str(block)


@pytest.mark.torch
def test_the_configuration_of_the_readme_shows_times_in_neovim(tmp_path: Path) -> None:
    editor = neovim()
    project = tmp_path / "project"
    project.mkdir()
    (project / "pyproject.toml").touch()
    sample = shutil.copy(ROOT / "samples" / "rms_norm.py", project)
    block = tmp_path / "init.lua"
    block.write_text(configuration(), encoding="utf-8")
    private = {f"XDG_{name}_HOME": str(tmp_path / name.lower()) for name in ("CACHE", "STATE", "CONFIG", "DATA")}
    environment = {
        **os.environ,
        **private,
        # Of this environment, and without a C++ compiler, with which the compiled sample would take its time.
        "PATH": str(Path(sys.executable).parent),
    }
    finished = subprocess.run(
        [editor, "--headless", "--clean", "-l", str(SCRIPT), str(block), str(sample)],
        cwd=project,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=240,
        check=False,
    )
    log = tmp_path / "state" / "nvim" / "lsp.log"
    what_happened = finished.stdout + (log.read_text(encoding="utf-8") if log.exists() else "")
    lines = [line for line in finished.stdout.splitlines() if line.startswith(("ok ", "FAIL ", "end"))]
    assert [line for line in lines if line.startswith("FAIL ")] == [], what_happened
    assert lines[-1:] == ["end"], what_happened
    assert finished.returncode == 0, what_happened
