"""A bundle for a bug report: gathered with a time limit for each part, and without names of anybody's.

A part that fails is a line in the bundle, and never loses the rest.
"""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import json
import os
import platform
import re
import socket
import sys
import time
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import profile_neuron
from profile_neuron import __version__
from profile_neuron.core import bundle, document
from profile_neuron.core.plain import to_plain
from profile_neuron.core.project import project_root
from profile_neuron.core.redaction import Redaction
from profile_neuron.daemon import tiny_capture
from profile_neuron.daemon.agent_client import AgentClient
from profile_neuron.daemon.hosts import LocalHost
from profile_neuron.errors import ProfileNeuronError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from profile_neuron.daemon.tiny_capture import TinyCapture
    from profile_neuron.wire.messages import Detail, Environment

_ENVIRONMENT_S = 300.0
_CAPTURE_S = 1800.0
_VARIABLE = re.compile(r"(?:NEURON|XLA|NKI|TORCH)[A-Z0-9_]*")
_SECRET = re.compile(r"TOKEN|SECRET|PASSWORD|CREDENTIAL|KEY")
_TEXTS = (".json", ".txt")
_TRACE = re.compile(r"(?:.*/)?(?:trace|neuron_framework_trace_rank_\d+)\.json")


@dataclass(frozen=True, slots=True)
class Bundle:
    """What is to be written: each member by its name, and what was replaced by what how often."""

    members: dict[str, bytes]
    replaced: dict[tuple[str, str], int]
    # What could not be had, one sentence each.
    problems: tuple[str, ...]


async def gather(python: str, doctor: Callable[[Environment], str]) -> Bundle:
    """Ask an interpreter and its host, capture a function of ours there, and take out what nobody else should read.

    doctor: what the doctor says of an environment.
    """
    draft = _Draft()
    with tiny_capture.tiny_project() as project:
        environment, taken = await _ask(python, project, draft)
        try:
            if environment is not None:
                draft.add_environment(environment, doctor)
            draft.add_json(bundle.VARIABLES, _variables())
            if taken is not None:
                draft.add_capture(taken)
            return draft.redacted(_redaction(python, environment, project, taken), _versions(environment, taken))
        finally:
            if taken is not None:
                tiny_capture.forget(taken)


def write(path: Path, made: Bundle) -> None:
    """Write a new file that only the user can read. Raises OSError, FileExistsError for one that is there."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(descriptor, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in made.members.items():
                archive.writestr(name, content)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


async def _ask(python: str, project: Path, draft: _Draft) -> tuple[Environment | None, TinyCapture | None]:
    environment = taken = None
    try:
        client = await AgentClient.start(LocalHost(python))
    except ProfileNeuronError as error:
        draft.problems.append(f"the interpreter was not asked: {error}")
        return None, None
    try:
        with draft.part("environment"):
            environment = await asyncio.wait_for(client.environment(details=True), _ENVIRONMENT_S)
        with draft.part("capture"):
            taken = await asyncio.wait_for(tiny_capture.capture(client, project), _CAPTURE_S)
    finally:
        await client.close()
    return environment, taken


class _Draft:
    """The members as they are before anything is replaced in them."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self._members: dict[str, str] = {}

    @contextlib.contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Something that may fail, which costs that part alone."""
        try:
            yield
        except asyncio.TimeoutError:
            self.problems.append(f"{name}: took too long and was given up")
        except Exception as error:  # noqa: BLE001 - the rim of a part; a host may be broken in any way
            self.problems.append(f"{name}: {type(error).__name__}: {error}")

    def add_json(self, name: str, plain: Any) -> None:
        self._members[name] = json.dumps(plain, indent=1)

    def add_environment(self, environment: Environment, doctor: Callable[[Environment], str]) -> None:
        """Command lines of processes are not only the user's own."""
        host = environment.host
        if host is not None:
            host = replace(host, holders=tuple(replace(holder, command="") for holder in host.holders))
        told = replace(environment, host=host, details=())
        with self.part("doctor"):
            self._members[bundle.DOCTOR] = doctor(told)
        self.add_json(bundle.ENVIRONMENT, to_plain(told))
        for detail in environment.details:
            with self.part(detail.subject):
                self._members[f"{bundle.DETAILS}{detail.subject}.txt"] = _detail(detail)

    def add_capture(self, taken: TinyCapture) -> None:
        self._members[bundle.OUTPUT] = taken.output
        if taken.costs is not None:
            kind, name = taken.costs.device_kind, taken.costs.device_name
            self.add_json(bundle.REPORT, document.document(kind, name, document.run_functions(taken.costs)))
        else:
            self.problems.append(f"capture: {taken.reason or 'no result'}")
        with self.part("files of the capture"):
            sizes = tiny_capture.files(taken.run_folder)
            self.add_json(bundle.FILES, [{"path": path, "size_bytes": size} for path, size in sizes.items()])
            traces = {}
            for path, size_bytes in sizes.items():
                if not path.endswith(_TEXTS):
                    continue
                if size_bytes > bundle.MEMBER_BYTES:
                    self.problems.append(f"{path} has {size_bytes} bytes and was left out")
                    continue
                content = (taken.run_folder / path).read_bytes()
                self._members[f"{bundle.RUN}{path}"] = content.decode("utf-8", "replace")
                if _TRACE.fullmatch(path):
                    with self.part(path):
                        traces[path] = bundle.trace_summary(content)
            self.add_json(bundle.TRACES, traces)

    def redacted(self, redaction: Redaction, versions: Mapping[str, Any]) -> Bundle:
        """The bundle, within its sizes."""
        members: dict[str, bytes] = {}
        total = 0
        for name, text in self._members.items():
            content = (redaction.json if name.endswith(".json") else redaction.text)(text).encode(
                "utf-8", "backslashreplace"
            )
            if len(content) > bundle.MEMBER_BYTES or total + len(content) > bundle.TOTAL_BYTES:
                self.problems.append(f"{name} has {len(content)} bytes and was left out")
            elif len(members) >= bundle.MOST_MEMBERS - 1:
                self.problems.append(f"{name} was left out, as there are too many files")
            else:
                members[_unused(redaction.text(name), members)] = content
                total += len(content)
        manifest = redaction.json(json.dumps({"schema": bundle.SCHEMA, **versions, "problems": self.problems}))
        # By what they became, since what they were is nobody's business.
        counts: dict[str, int] = {}
        for (_, becomes), count in redaction.counts.items():
            counts[becomes] = counts.get(becomes, 0) + count
        whole = json.dumps({**json.loads(manifest), "replaced": counts}, indent=1).encode()
        return Bundle({bundle.MANIFEST: whole, **members}, dict(redaction.counts), tuple(self.problems))


def _unused(name: str, members: Mapping[str, bytes]) -> str:
    """A name that another file does not have, where two differed only in what was replaced."""
    stem, dot, suffix = name.rpartition(".")
    names = (name, *(f"{stem}-{number}{dot}{suffix}" for number in range(2, bundle.MOST_MEMBERS + 2)))
    return next(found for found in names if found not in members)


def _detail(detail: Detail) -> str:
    """The text of a detail; of what neuron-ls tells of processes their command lines are left out."""
    text = detail.text
    with contextlib.suppress(ValueError, RecursionError):
        text = json.dumps(_without_commands(json.loads(text)), indent=1)
    return f"{text}\n({detail.ending})\n" if detail.ending else text


def _without_commands(plain: Any) -> Any:
    if isinstance(plain, dict):
        return {key: "..." if key == "command" else _without_commands(value) for key, value in plain.items()}
    return [_without_commands(item) for item in plain] if isinstance(plain, list) else plain


def _variables() -> dict[str, str]:
    named = {name: value for name, value in sorted(os.environ.items()) if _VARIABLE.fullmatch(name)}
    return {name: "(left out)" if _SECRET.search(name) else value for name, value in named.items()}


def _versions(environment: Environment | None, taken: TinyCapture | None) -> dict[str, Any]:
    """What ran, for the manifest; None where nothing is known."""
    host = environment.host if environment is not None else None
    toolchain = taken.costs.toolchain if taken is not None and taken.costs is not None else None
    return {
        "made": time.strftime("%Y-%m-%d"),
        "profile_neuron": __version__,
        "command_line_python": sys.version.split()[0],
        "platform": environment.platform if environment is not None else platform.platform(),
        "python": environment.python if environment is not None else None,
        "torch": environment.torch if environment is not None else None,
        "torch_neuronx": environment.torch_neuronx if environment is not None else None,
        "neuron_api": environment.neuron_api if environment is not None else None,
        "packages": list(toolchain.packages) if toolchain is not None else [],
        "driver": host.driver if host is not None else None,
        "tools": {tool.name: tool.version for tool in host.tools} if host is not None else {},
        "device": toolchain.device_name if toolchain is not None else None,
    }


def _redaction(python: str, environment: Environment | None, project: Path, taken: TinyCapture | None) -> Redaction:
    versions = json.dumps({name: text for name, text in _versions(environment, taken).items() if name != "platform"})
    return Redaction(_paths(python, environment, project, taken), _users(), _hosts(), (versions,))


def _paths(python: str, environment: Environment | None, project: Path, taken: TinyCapture | None) -> dict[str, str]:
    """Absolute paths with what each becomes, as they are spelt and as they really are; the most telling last."""
    found: dict[Path, str] = {}
    interpreters = {python, sys.executable, environment.executable if environment is not None else ""}
    for interpreter in (name for name in interpreters if os.sep in name):
        found[Path(os.path.abspath(interpreter)).parent.parent] = "ENVIRONMENT"  # noqa: PTH100 - links stay
    found[Path(profile_neuron.__file__ or "").resolve().parent.parent] = "PACKAGES"
    here = Path.cwd()
    found[Path(project_root(here / "file", os.path.exists))] = "PROJECT"
    found[here] = "PROJECT"
    found[Path.home()] = "~"
    found[project] = "CAPTURE"
    if taken is not None:
        found[taken.run_folder] = "RUN"
    public = {"/", "/usr", "/usr/local", "/opt"}
    return {
        spelt: becomes
        for path, becomes in found.items()
        for spelt in (str(path), os.path.realpath(path))
        if spelt not in public
    }


def _users() -> set[str]:
    names = {os.environ.get(name, "") for name in ("USER", "LOGNAME", "USERNAME", "SUDO_USER")}
    names.add(Path.home().name)
    with contextlib.suppress(OSError, KeyError, ImportError):
        names.add(getpass.getuser())
    if os.name == "posix":
        # Only there; the full name of the user is in front of a comma.
        import pwd

        with contextlib.suppress(KeyError):
            entry = pwd.getpwuid(os.geteuid())
            names |= {entry.pw_name, entry.pw_gecos.partition(",")[0]}
    return names - {""}


def _hosts() -> set[str]:
    names = {socket.gethostname(), platform.node(), *(os.environ.get(name, "") for name in ("HOSTNAME", "HOST"))}
    return {part for name in names for part in (name, name.partition(".")[0])} - {""}
