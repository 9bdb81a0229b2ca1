"""The imports of the code against the dependency table and invariants 1 to 4 of server/ARCHITECTURE.md."""

from __future__ import annotations

import ast
import dataclasses
import re
import subprocess
import sys
import typing
from typing import TYPE_CHECKING

import pytest

from profile_neuron.core.launch import isolated_command
from profile_neuron.wire import messages
from tests.conftest import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PACKAGE = ROOT / "server" / "profile_neuron"
STANDARD = sys.stdlib_module_names
# Beside these and the standard library a package may import the foundation: itself, errors and __version__.
MAY_IMPORT = {
    "decorator": set(),
    "errors": set(),
    "core": set(),
    "capture": {"core"},
    "report": {"core", "capture", "wire", "pyarrow"},
    "wire": {"core", "msgpack"},
    "worker": {"core", "wire", "decorator", "torch", "torch_neuronx"},
    "agent": {"core", "wire", "folders", "kept_runs"},
    "daemon": {"core", "wire", "folders", "msgpack", "watchdog"},
    "terminal": {"core", "rich"},
    "folders": set(),
    "kept_runs": {"core"},
    "doctor": set(),
    "lsp": {"core", "daemon", "folders", "pygls", "lsprotocol"},
    "cli": {"core", "daemon", "doctor", "folders", "kept_runs", "lsp", "report", "terminal", "wire"},
    "__main__": {"core", "cli"},
    "__init__": {"decorator"},
}
# What a row must not import of the standard library, with the file that may all the same.
NOT_STANDARD = {"report": ({"asyncio"}, ""), "wire": ({"asyncio", "socket"}, ""), "worker": ({"asyncio"}, "runner.py")}
TORCH_FILES = {"worker/neuron.py", "worker/tensors.py", "worker/torch_host.py"}
IMPURE = {
    "asyncio", "io", "logging", "multiprocessing", "os", "pathlib", "random", "select", "shutil", "signal",
    "socket", "subprocess", "sys", "tempfile", "threading", "time",
}  # fmt: skip
POSIX_ONLY = {"fcntl", "grp", "posix", "pwd", "resource", "termios", "tty"}


def files() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def box(path: Path) -> str:
    """The row of the table that a file belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path, top_level_only: bool = False) -> Iterator[tuple[str, int]]:
    """Dotted names that a file imports at run time, also inside functions, with their lines."""
    pending: list[ast.AST] = [ast.parse(path.read_text())]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            module = node.module or ""
            yield module, node.lineno
            yield from ((f"{module}.{alias.name}", node.lineno) for alias in node.names)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            pending += node.orelse
        elif not (top_level_only and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))):
            pending += ast.iter_child_nodes(node)


def targets(path: Path) -> set[str]:
    """Rows of the table and foreign packages that a file imports."""
    found = set()
    for name, _ in imports(path):
        parts = name.split(".")
        if parts[0] == "profile_neuron":
            is_box = len(parts) > 1 and ((PACKAGE / parts[1]).exists() or (PACKAGE / f"{parts[1]}.py").exists())
            found.add(parts[1] if is_box else "profile_neuron")
        elif parts[0] not in STANDARD:
            found.add(parts[0])
    return found


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_file_imports_only_what_the_table_allows(path: Path) -> None:
    allowed = MAY_IMPORT[box(path)] | {box(path), "errors", "profile_neuron"}
    if box(path) in ("decorator", "errors", "folders", "__init__"):
        allowed = MAY_IMPORT[box(path)] | {box(path)} | ({"profile_neuron"} if box(path) == "__init__" else set())
    assert targets(path) <= allowed


def test_every_box_is_in_the_table() -> None:
    assert {box(path) for path in files()} == set(MAY_IMPORT)


def test_the_table_is_the_one_that_people_read() -> None:
    text = (ROOT / "server" / "ARCHITECTURE.md").read_text()
    rows = text[text.index("| package | may import | never |") :].split("\n\n")[0].split("\n")[2:]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    told = {name.removesuffix(".py"): set(may.split(", ")) - {"nothing"} for name, may, _ in cells}
    assert told == MAY_IMPORT


def test_the_tree_that_people_read_names_every_file() -> None:
    text = (ROOT / "server" / "ARCHITECTURE.md").read_text()
    tree = text[text.index("## 5. The tree") : text.index("## 6.")]
    for path in files():
        assert path.name == "__init__.py" or re.search(rf"\b{path.name}\b", tree), path


@pytest.mark.parametrize("row", NOT_STANDARD)
def test_what_the_table_forbids_of_the_standard_library_is_not_imported(row: str) -> None:
    forbidden, exception = NOT_STANDARD[row]
    for path in files():
        if box(path) == row and path.name != exception:
            assert not {name.partition(".")[0] for name, _ in imports(path)} & forbidden, path


def test_the_command_line_imports_its_parts_only_inside_of_its_commands() -> None:
    own = [name for name, _ in imports(PACKAGE / "cli.py", top_level_only=True) if name.startswith("profile_neuron.")]
    assert {name.split(".")[1] for name in own} <= {"core", "errors", "__version__"}


def test_only_the_hosts_of_torch_import_torch() -> None:
    """Invariant 1, in the source."""
    found = {str(path.relative_to(PACKAGE)) for path in files() if targets(path) & {"torch", "torch_neuronx"}}
    assert found == TORCH_FILES
    for name in TORCH_FILES:
        at_import = {item.partition(".")[0] for item, _ in imports(PACKAGE / name, top_level_only=True)}
        assert "torch" not in at_import, "a worker without torch must still be able to say so"


@pytest.mark.parametrize(
    "module",
    [
        "profile_neuron.cli",
        "profile_neuron.daemon.agent_client",
        "profile_neuron.agent.agent",
        "profile_neuron.report.files",
    ],
)
def test_server_agent_and_report_run_without_torch(module: str) -> None:
    """Invariant 1, in a process."""
    script = f"import sys; sys.path.append({str(ROOT / 'server')!r}); import {module}; print('torch' in sys.modules)"
    finished = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True)
    assert finished.stdout == "False\n"


def test_our_programs_start_isolated() -> None:
    """Invariant 1: -I keeps the working directory, PYTHONPATH and the user's site folder off the path."""
    command = isolated_command("python", "some.module", "/own", "argument")
    assert command[:3] == ["python", "-I", "-c"]
    assert command[-2:] == ["/own", "argument"]
    starts = [path for path in files() if re.search(r"create_subprocess|Popen\(|subprocess\.call", path.read_text())]
    found = {str(path.relative_to(PACKAGE)) for path in starts}
    own = {"agent/child.py", "daemon/agent_client.py", "daemon/checkup.py", "daemon/foreign.py", "__main__.py"}
    assert found == own


def test_text_is_split_into_lines_in_one_place() -> None:
    """Invariant 2; lsprotocol and pygls may appear only in lsp/, which does not exist yet."""
    for path in files():
        assert not re.search(r"\.splitlines\(", path.read_text()), path
        assert not targets(path) & {"lsprotocol", "pygls"} or box(path) == "lsp"


@pytest.mark.parametrize(
    "path", [path for path in files() if box(path) in ("core", "capture")], ids=lambda path: path.name
)
def test_core_and_capture_are_pure(path: Path) -> None:
    """Invariant 3: no files, clock, environment, threads or logging."""
    allowed = {"text.py": {"io"}, "project.py": {"pathlib"}}.get(path.name, set())
    found = {name.partition(".")[0] for name, _ in imports(path)} & IMPURE
    assert found <= allowed
    names = {name for name, _ in imports(path)}
    assert not names & {"pathlib.Path", "io.open"}, "only pure paths and buffers"
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    assert not [node for node in calls if isinstance(node.func, ast.Name) and node.func.id in ("open", "print", "exec")]


def test_every_message_is_a_frozen_dataclass_and_nothing_is_pickled() -> None:
    """Invariant 4."""
    kinds = typing.get_args(messages.Message)
    assert kinds
    for kind in kinds:
        assert dataclasses.is_dataclass(kind)
        assert kind.__dataclass_params__.frozen
        assert kind.__module__ == messages.__name__
    for path in files():
        assert not {name.partition(".")[0] for name, _ in imports(path)} & {"pickle", "marshal", "shelve", "dill"}, path


@pytest.mark.parametrize("path", [path for path in files() if box(path) not in ("worker", "agent")], ids=str)
def test_the_servers_side_imports_nothing_that_only_posix_has(path: Path) -> None:
    assert not {name.partition(".")[0] for name, _ in imports(path, top_level_only=True)} & POSIX_ONLY


def test_no_process_is_started_through_a_shell() -> None:
    for path in files():
        text = path.read_text()
        assert "shell=True" not in text, path
        assert "os.system" not in text, path
