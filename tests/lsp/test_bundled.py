"""The server as an editor's extension brings it along: started from a folder, in a Python with nothing of ours."""

from __future__ import annotations

import copy
import shutil
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import pytest

from profile_neuron.core.launch import bundled_command
from tests.interpreters import bare_interpreter, bundle
from tests.lsp.client import CAPABILITIES, Client, Document, lsp_range
from tests.lsp.screen import edit_of, hints, lenses, logged, ready, until, until_lens

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Start = Callable[..., Client]

# The first run starts an agent, and a worker with torch.
COLD_S = 90.0
MODEL = """\
import torch
from profile_neuron import profile_neuron


@profile_neuron
def f():
    x = torch.ones(64)
    return x + 1
"""
SETTINGS = {"hints": {"minShare": 0, "minTime": "1ns"}}
# Python executes these at its start, or ours would import them.
PLANTED = ("sitecustomize", "usercustomize", "msgpack", "pygls", "lsprotocol", "watchdog", "attr", "json", "asyncio")


@pytest.fixture(scope="module")
def libs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle, in a folder whose name editors really use."""
    return bundle(tmp_path_factory.mktemp("extension") / "bundled libs")


@pytest.fixture(scope="module")
def torch_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The user's interpreter: it has torch and nothing of ours."""
    return bare_interpreter(tmp_path_factory.mktemp("user") / "env", with_torch=True)


@pytest.fixture
def start(libs: Path, tmp_path: Path) -> Iterator[Start]:
    """Start servers from the bundle, each with a home of its own."""
    clients: list[Client] = []

    def started(
        python: Path | str, root: Path, settings: dict[str, Any], actions: bool = False, **environment: str
    ) -> Client:
        root.mkdir(exist_ok=True)
        folders = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "XDG_STATE_HOME": str(tmp_path / "state")}
        command = bundled_command(str(python), str(libs), "serve")
        offered = copy.deepcopy(CAPABILITIES)
        if actions:
            offered["textDocument"]["codeAction"] = {"codeActionLiteralSupport": {"codeActionKind": {"valueSet": []}}}
        client = Client.start(
            [root], settings=settings, env={**folders, **environment}, command=command, capabilities=offered
        )
        clients.append(client)
        return ready(client)

    yield started
    try:
        for client in clients:
            client.stop()
    finally:
        for client in clients:
            client.kill()
    for client in clients:
        assert client.faults == []
        assert "Traceback" not in client.stderr, client.stderr


def plant(folder: Path, log: Path) -> None:
    """Files that write down who executes them."""
    folder.mkdir(parents=True, exist_ok=True)
    trap = f"import sys\nwith open({str(log)!r}, 'a') as file:\n    file.write(__file__ + ' ' + ' '.join(sys.orig_argv) + '\\n')\n"
    for name in PLANTED:
        (folder / f"{name}.py").write_text(trap)


def until_profiled(client: Client, path: Path) -> None:
    """A save, and what is seen after it."""
    document = client.open(path, MODEL)
    assert lenses(client, path) == ["Profile on the CPU"]
    document.save()
    until_lens(client, path, "cpu ", COLD_S)
    shown = until(client, lambda: hints(client, path), lambda seen: sorted(seen) == [7, 8])
    assert all(label.startswith("cpu ") and label.endswith(" · 1 op") for label in shown.values()), shown


@pytest.mark.torch
def test_profiles_with_torch_in_an_interpreter_that_has_nothing_of_ours(
    start: Start, torch_python: Path, tmp_path: Path
) -> None:
    server_python = bare_interpreter(tmp_path / "server", with_torch=False)
    executed = tmp_path / "executed.txt"
    (site,) = (tmp_path / "server" / "lib").glob("python*/site-packages")
    plant(site, executed)
    (site / "planted.pth").write_text("import sitecustomize\n")
    client = start(server_python, tmp_path / "ws", {**SETTINGS, "interpreter": str(torch_python)})
    until_profiled(client, tmp_path / "ws" / "model.py")
    assert not executed.exists(), executed.read_text()
    own = subprocess.run(
        [
            torch_python,
            "-c",
            "import importlib.util as u; print(u.find_spec('profile_neuron'), u.find_spec('msgpack'))",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert own.stdout == "None None\n", "what ran was the bundle's"


@pytest.mark.torch
def test_an_import_that_the_users_own_programs_could_not_do_gets_a_fallback_that_is_profiled_too(
    start: Start, torch_python: Path, tmp_path: Path
) -> None:
    client = start(sys.executable, tmp_path / "ws", {**SETTINGS, "interpreter": str(torch_python)}, actions=True)
    path = tmp_path / "ws" / "model.py"
    until_profiled(client, path)
    (edits,) = until(client, lambda: fallbacks(client, path), lambda seen: seen != [])
    document = Document(client, path.as_uri())
    document.replace_all(edit_of(document, edits))
    document.save()
    until(client, lambda: hints(client, path), lambda seen: sorted(seen) == [13, 14] and "~" not in str(seen), COLD_S)
    assert fallbacks(client, path) == []
    own = subprocess.run([torch_python, path], capture_output=True, text=True, check=False)
    assert (own.returncode, own.stderr) == (0, ""), "without us it runs all the same"


def fallbacks(client: Client, path: Path) -> list[list[dict[str, Any]]]:
    """The edits that are offered at the import of the decorator, or where that is after one."""
    uri = path.as_uri()
    found = []
    for line in range(6):
        params = {
            "textDocument": {"uri": uri},
            "range": lsp_range((line, 0), (line, 0)),
            "context": {"diagnostics": []},
        }
        for action in client.request("textDocument/codeAction", params):
            if action["kind"] == "quickfix":
                found.append(action["edit"]["changes"][uri])
    return found[:1]


@pytest.mark.torch
def test_profiles_where_the_server_runs_in_another_version_of_python(
    start: Start, torch_python: Path, tmp_path: Path
) -> None:
    others = [f"python3.{minor}" for minor in range(10, 15) if minor != sys.version_info.minor]
    found = next((path for name in others if (path := runnable(name))), None)
    if found is None:
        pytest.skip("there is no Python of another version on the PATH")
    client = start(found, tmp_path / "ws", {**SETTINGS, "interpreter": str(torch_python)})
    until_profiled(client, tmp_path / "ws" / "model.py")
    assert logged(client)[-1].startswith("f: ")


def runnable(name: str) -> str | None:
    """The path of a Python that can execute the bundle, which is of the dependencies of this one's version."""
    path = shutil.which(name)
    if path is None:
        return None
    # Before 3.11 exceptiongroup is needed, and that is installed only there.
    script = "import sys; sys.exit(sys.version_info < (3, 11))"
    return path if subprocess.run([path, "-I", "-S", "-c", script], check=False).returncode == 0 else None


def test_executes_nothing_of_the_folder_it_is_started_in_nor_of_the_environment(start: Start, tmp_path: Path) -> None:
    root, executed = tmp_path / "ws", tmp_path / "executed.txt"
    plant(root, executed)
    server_python = bare_interpreter(tmp_path / "server", with_torch=False)
    client = start(
        server_python,
        root,
        {"interpreter": "/nowhere/python"},
        PYTHONPATH=str(root),
        PYTHONSTARTUP=str(root / "usercustomize.py"),
        PYTHONHOME=str(root),
        PYTHONUSERBASE=str(root),
    )
    path = root / "model.py"
    client.open(path, MODEL).save()
    # Whatever a run imports of ours has been imported by now.
    until_lens(client, path, "Profile failed")
    assert not executed.exists(), executed.read_text()


def test_the_doctor_and_reports_for_programs_do_without_rich(libs: Path, tmp_path: Path) -> None:
    python = bare_interpreter(tmp_path / "server", with_torch=False)
    doctor = subprocess.run(
        bundled_command(str(python), str(libs), "doctor"), capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert "✗ torch         not installed" in doctor.stdout.split("\n")
    report = subprocess.run(
        bundled_command(str(python), str(libs), "report", str(tmp_path / "no.json"), "--json"),
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert report.returncode == 1
    assert report.stderr.startswith("profile-neuron: ")
    assert "rich" not in report.stderr


def test_is_said_where_python_is_too_old(libs: Path, tmp_path: Path) -> None:
    script = textwrap.dedent(f"""
        import runpy, sys
        sys.version_info = (3, 9, 18)
        sys.argv = ["main", "serve"]
        runpy.run_path({str(libs / "profile_neuron" / "__main__.py")!r}, run_name="__main__")
    """)
    said = subprocess.run([sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=False)
    assert (said.returncode, said.stderr) == (1, "Python 3.9 is too old; profile-neuron needs 3.10 or newer\n")
