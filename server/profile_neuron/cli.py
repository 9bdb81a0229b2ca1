"""The command line: run, record, report, open, runs, release, doctor, serve."""

from __future__ import annotations

import argparse
import asyncio
import difflib
import hashlib
import json
import os
import secrets
import stat
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profile_neuron import __version__
from profile_neuron.core.discovery import DEFAULT_MODULES, discover
from profile_neuron.core.model import Failure
from profile_neuron.core.project import module_place, project_root
from profile_neuron.core.text import decode
from profile_neuron.errors import AgentError, CaptureError, ProfileNeuronError, SourceError

if TYPE_CHECKING:
    from argparse import _SubParsersAction
    from collections.abc import Sequence

    from profile_neuron.core.model import DeviceKind, FunctionSpec, FunctionView, Holder, LineCosts
    from profile_neuron.daemon.agent_client import AgentClient
    from profile_neuron.daemon.history import History
    from profile_neuron.terminal import Terminal
    from profile_neuron.wire.messages import Environment, RunFailed, RunRequest

EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_CANCELLED = 0, 1, 2, 130

_DEPENDENCIES = ("msgpack", "rich", "pygls", "lsprotocol")
_DISTRIBUTIONS = (*_DEPENDENCIES, "watchdog")

_DEFAULT_MOST = 100


def main() -> None:
    """Parse the arguments, carry out one command and exit with its code."""
    for stream in (sys.stdout, sys.stderr):
        # Paths may hold bytes that are no text; in JSON, too, they come out as valid escapes.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    own = _own_arguments(sys.argv[1:])
    arguments = _parser().parse_args(sys.argv[1 : 1 + own])
    arguments.program = sys.argv[1 + own :]
    try:
        Path.cwd()
    except FileNotFoundError:
        sys.stderr.write("profile-neuron: the working directory is gone; change to one that exists\n")
        sys.exit(EXIT_USAGE)
    try:
        code: int = arguments.command(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = EXIT_CANCELLED
        sys.stderr.write("profile-neuron: cancelled\n")
    except ModuleNotFoundError as error:
        if error.name not in _DEPENDENCIES:
            raise
        sys.stderr.write(
            f"profile-neuron: {error.name} is not installed, which only the decorator can do without; install it "
            f"with: {sys.executable} -m pip install {error.name}\n"
        )
        code = EXIT_USAGE
    except BrokenPipeError:
        # The reader of our output has gone, as head does; there is nobody to tell.
        sys.stderr.close()
        code = EXIT_FAILED
    except OSError as error:
        about = f"{error.filename}: " if error.filename else "the output cannot be written: "
        sys.stderr.write(f"profile-neuron: {about}{error.strerror or error}\n")
        sys.stderr.flush()
        # Not by exit, which would try to write what is left once more.
        os._exit(EXIT_FAILED)
    sys.exit(code)


def _own_arguments(arguments: Sequence[str]) -> int:
    """How many of the arguments are ours; with record the rest is a program with arguments of its own."""
    if arguments[:1] != ["record"]:
        return len(arguments)
    position = 1
    while position < len(arguments) and arguments[position].startswith("-") and arguments[position][:2] != "-m":
        position += 2 if arguments[position] == "--python" else 1
    return min(position, len(arguments))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="profile-neuron",
        description="Runs functions marked @profile_neuron and shows the time of each of their source lines.",
        epilog="examples:\n"
        "  profile-neuron run model.py                    all marked functions of a file\n"
        "  profile-neuron run model.py::Block.forward     one of them\n"
        "  profile-neuron run model.py --json > out.json  for other programs\n"
        "  profile-neuron record train.py --steps 2       run your own program and keep what marked functions get\n"
        "  profile-neuron open RUN                        show what a NeuronCore did in Neuron Explorer\n"
        "  profile-neuron release                         let go of NeuronCores that idle workers of yours hold\n"
        "  profile-neuron doctor                          what is installed, and what to do about it\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"profile-neuron {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_run(commands)
    _add_record(commands)
    _add_report(commands)
    _add_open(commands)
    _add_runs(commands)
    _add_release(commands)
    _add_doctor(commands)
    _add_serve(commands)
    return parser


def _add_run(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    run = commands.add_parser(
        "run",
        help="run marked functions and print their source with the time of each line",
        description="Runs each marked function in a worker process: imports the file, builds its inputs, calls\n"
        "it a few times to warm up, then profiles the next calls. Times are averages per call.",
        epilog="examples:\n"
        "  profile-neuron run samples/rms_norm.py\n"
        "  profile-neuron run samples/rms_norm.py::naive --ops --repeats 20\n"
        "  profile-neuron run a.py b.py::Block.forward --json\n"
        "  profile-neuron run model.py --compare        did the last edit help?\n"
        "  profile-neuron run model.py --keep           then: profile-neuron report FOLDER\n"
        "\n"
        "exit code: 0; 1 if a function failed, has no inputs, or its file does not parse; 2 for wrong usage or\n"
        "nothing to run; 130 after Ctrl-C",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    run.add_argument("targets", nargs="+", metavar="FILE[::QUALNAME]", help="a Python file, or one function of it")
    run.add_argument("--ops", action="store_true", help="also print each function's operator table")
    run.add_argument("--json", action="store_true", help="print one JSON document instead of text")
    run.add_argument(
        "--device",
        choices=("auto", "cpu", "neuron"),
        default="auto",
        help="what is measured: auto is a NeuronCore where torch-neuronx has one, else the CPU (default: auto)",
    )
    run.add_argument(
        "--cores",
        type=_cores,
        default="auto",
        metavar="LIST",
        help="NeuronCores to use, such as 0-3 or 0,2 (default: auto, what NEURON_RT_VISIBLE_CORES or "
        "NEURON_RT_NUM_CORES says, else one that is free)",
    )
    run.add_argument(
        "--profile-mode",
        choices=("runtime", "device"),
        default="runtime",
        help="device also captures what each engine does, for which it reserves about 5 GB of the device's memory "
        "(default: runtime)",
    )
    run.add_argument("--repeats", type=_positive, metavar="N", help="profiled calls, in place of the decorator's")
    run.add_argument(
        "--compare", action="store_true", help="also print what became of each time since the last run of other code"
    )
    run.add_argument(
        "--inputs", default="", metavar="NAME", help="which of the decorator's named inputs (default: the first)"
    )
    run.add_argument("--keep", action="store_true", help="keep the run folders and print where they are")
    run.add_argument(
        "--python",
        default=sys.executable,
        metavar="PATH",
        help="interpreter with your torch (default: this one)",
    )
    run.add_argument(
        "--root",
        action="append",
        type=_folder,
        default=[],
        metavar="DIR",
        help="another folder with project files, importable",
    )
    run.add_argument(
        "--import-timeout",
        type=_seconds,
        default=300.0,
        metavar="S",
        help="limit for importing the file (300)",
    )
    run.add_argument("--timeout", type=_seconds, default=120.0, metavar="S", help="limit for inputs and calls (120)")
    run.add_argument(
        "--compile-timeout",
        type=_seconds,
        default=1800.0,
        metavar="S",
        help="limit for neuronx-cc, whose time counts for no other limit (1800)",
    )
    run.add_argument(
        "--memory-limit",
        type=_size,
        metavar="SIZE",
        help="limit for the memory of a run with all that it starts, such as 8GB (none)",
    )
    run.add_argument(
        "--most",
        type=_positive,
        default=_DEFAULT_MOST,
        metavar="N",
        help=f"refuse to run more functions than this ({_DEFAULT_MOST})",
    )
    run.add_argument(
        "--decorator-module",
        action="append",
        metavar="NAME",
        help="module that exports the decorator, if you re-export it (profile_neuron)",
    )
    run.set_defaults(command=run_command)


def _add_record(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    record = commands.add_parser(
        "record",
        usage="profile-neuron record [-h] [--python PATH] [--data] (SCRIPT | -m MODULE) [ARGUMENT ...]",
        help="run your own program and keep what marked functions are first called with",
        description="Runs your program as python would, and at the first call of each marked function keeps shapes,\n"
        "types, strides, devices and value ranges of its tensors and its plain arguments. run and your editor then\n"
        "build inputs like them, for functions that nothing else gives inputs to.",
        epilog="examples:\n"
        "  profile-neuron record train.py --steps 2\n"
        "  profile-neuron record --data -m package.train\n"
        "\n"
        "exit code: that of your program; 2 for wrong usage. Processes that it starts are not recorded, and of those\n"
        "that torchrun starts only rank 0 is: torchrun --no-python profile-neuron record train.py",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        # A shortened --python could not be told from an option of the program.
        allow_abbrev=False,
    )
    record.add_argument(
        "--python", default=sys.executable, metavar="PATH", help="interpreter with your torch (default: this one)"
    )
    record.add_argument("--data", action="store_true", help="also keep what the tensors hold, readable only by you")
    record.set_defaults(command=record_command)


def _add_report(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    report = commands.add_parser(
        "report",
        help="print the result of a run folder or a bundle, or what your own profiler captured",
        description="Prints the result of a run folder that run --keep left, or of a bundle that doctor wrote; or\n"
        "what your own script captured with torch's profiler: a trace.json, a session directory, or a folder with\n"
        "several of them. Nothing is run, and nothing is written there.",
        epilog="examples:\n"
        "  profile-neuron report ~/.cache/profile-neuron/runs/20261129-101500-1f3c\n"
        "  profile-neuron report output/              sessions of all ranks, one section each\n"
        "  profile-neuron report trace.json.gz --ops\n"
        "\n"
        "exit code: 0; 1 where there is no result, or the function failed\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    report.add_argument(
        "path", type=Path, metavar="PATH", help="a run folder, a bundle, a trace, or a folder with captures"
    )
    report.add_argument("--ops", action="store_true", help="also print the operator table")
    report.add_argument(
        "--root",
        action="append",
        type=_folder,
        default=[],
        metavar="DIR",
        help="folder of your project, to name functions of your own captures in its files (default: the project that "
        "you call this in)",
    )
    report.add_argument("--json", action="store_true", help="print one JSON document instead of text")
    report.set_defaults(command=report_command)


def _add_runs(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    runs = commands.add_parser(
        "runs",
        help="list the run folders that are kept, or remove them",
        description="Lists the folders of runs that are kept, the newest first, and why each is still there. Of those\n"
        "that nothing protects the oldest are removed when there are more than 50, when they are older than 14 days,\n"
        "or when all together are larger than 5 GB.",
        epilog="examples:\n"
        "  profile-neuron runs\n"
        "  profile-neuron runs --clean    remove all but those of runs that are on\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    runs.add_argument("--json", action="store_true", help="print one JSON document instead of text")
    runs.add_argument("--clean", action="store_true", help="remove them, but none of a run that is on")
    runs.add_argument("--yes", action="store_true", help="do not ask before anything is removed")
    runs.set_defaults(command=runs_command)


def _add_open(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    opening = commands.add_parser(
        "open",
        help="show the capture of a NeuronCore in Neuron Explorer",
        description="Has neuron-explorer process a capture, once, and prints where its viewer shows it. A viewer that\n"
        "is up already is used; else one is started, which ends with this command.",
        epilog="examples:\n"
        "  profile-neuron open 20261129-101500-1f3c         a run that run --keep or an editor left\n"
        "  profile-neuron open out/i-0123_pid_42/20261129   a session directory of your own\n"
        "\n"
        "From another machine both ports have to be forwarded: ssh -L 3001:localhost:3001 -L 3002:localhost:3002 HOST\n"
        "exit code: 0 where a viewer is used that was up; 1 if the capture cannot be shown; 2 for wrong usage; 130\n"
        "after Ctrl-C, which ends the viewer that was started",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    opening.add_argument("folder", metavar="RUN", help="the id of a run, or the folder of a run or of a session")
    opening.add_argument("--ui-port", type=_port, default=3001, metavar="N", help="where it serves its pages (3001)")
    opening.add_argument("--api-port", type=_port, default=3002, metavar="N", help="where it serves its data (3002)")
    opening.set_defaults(command=open_command)


def _add_release(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    release = commands.add_parser(
        "release",
        help="let go of the NeuronCores that idle workers of yours hold",
        description="Ends the idle workers of all your editors that hold NeuronCores; the next run starts a new one.\n"
        "A worker that is in a run is not ended, and neither is any other program.",
        epilog="example:\n  profile-neuron release\n\nexit code: 0; 1 if something is still held",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    release.set_defaults(command=release_command)


def _add_doctor(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    doctor = commands.add_parser(
        "doctor",
        help="show what is installed and what to do about what is not",
        description="Asks the interpreter that would run your code what it has. Nothing of yours is run.\n"
        "With --bundle it also captures a small function of its own, and writes what a bug report needs into a file:\n"
        "versions, help texts of tools, the capture's tables. Names of you, your host and your folders are replaced,\n"
        "and what goes in is shown before it is written. Nothing is sent anywhere.",
        epilog="examples:\n"
        "  profile-neuron doctor --python .venv/bin/python\n"
        "  profile-neuron doctor --bundle report.zip    then: profile-neuron report report.zip\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    doctor.add_argument(
        "--python", default=sys.executable, metavar="PATH", help="interpreter to ask (default: this one)"
    )
    doctor.add_argument("--bundle", type=Path, metavar="FILE", help="write what a bug report needs to a new zip file")
    doctor.add_argument("--yes", action="store_true", help="do not ask before the bundle is written")
    doctor.set_defaults(command=doctor_command)


def _add_serve(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    serve = commands.add_parser(
        "serve",
        help="be the language server of an editor, which starts this by itself",
        description="Speaks the Language Server Protocol on stdin and stdout; everything else goes to stderr.",
    )
    # Many clients add it to whatever they start.
    serve.add_argument("--stdio", action="store_true", help=argparse.SUPPRESS)
    serve.set_defaults(command=serve_command)


@dataclass(frozen=True, slots=True)
class _Asked:
    """One function to run, with what the request needs to know of its file."""

    path: Path
    sha256: str
    spec: FunctionSpec
    # The file as it is to be run, and its package.
    text: str
    package: str

    @property
    def place(self) -> str:
        from profile_neuron.terminal import short_path

        return f"{short_path(str(self.path))}:{self.spec.def_line}"


class _TargetError(ProfileNeuronError):
    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def run_command(arguments: argparse.Namespace) -> int:
    """profile-neuron run: exit code 0, 1 if a function failed or had no inputs, 2 if nothing can be run."""
    from profile_neuron.terminal import Terminal

    terminal = Terminal()
    asked: list[_Asked] = []
    problems: list[_TargetError] = []
    for target in arguments.targets:
        try:
            asked += _resolve(target, tuple(arguments.decorator_module or DEFAULT_MODULES))
        except _TargetError as error:
            problems.append(error)
    asked = list(dict.fromkeys(asked))
    if not problems and len(asked) > arguments.most:
        example = f"{arguments.targets[0].partition('::')[0]}::{asked[0].spec.qualname}"
        problems.append(
            _TargetError(
                f"{len(asked)} functions are marked, and more than {arguments.most} are not run at once; name the "
                f"ones you want, for example {example}, or raise --most",
                EXIT_USAGE,
            )
        )
    if problems:
        for problem in problems:
            terminal.error(str(problem))
        return max(problem.exit_code for problem in problems)
    try:
        return asyncio.run(_run_all(arguments, asked, terminal))
    except ProfileNeuronError as error:
        terminal.error(str(error))
        return EXIT_FAILED


def record_command(arguments: argparse.Namespace) -> int:
    """profile-neuron record: becomes the user's program, whose exit code counts; 2 where there is none."""
    from profile_neuron.daemon.hosts import packages_folder
    from profile_neuron.daemon.recordings import recordings_folder
    from profile_neuron.terminal import Terminal

    kind, given = "file", list(arguments.program)
    if given and given[0].startswith("-m"):
        # Python takes -m MODULE and -mMODULE.
        kind, given = "-m", [*filter(None, [given[0][2:]]), *given[1:]]
    problem = ""
    if not given:
        problem = "name the program to run, for example: profile-neuron record train.py"
    elif kind == "file" and not os.path.exists(given[0]):  # noqa: PTH110 - a path as it was given
        problem = f"{given[0]}: no such file"
    if problem:
        Terminal().error(problem)
        return EXIT_USAGE
    own_path = packages_folder()
    program = own_path / "profile_neuron" / "worker" / "record.py"
    options = [str(own_path), str(recordings_folder()), "1" if arguments.data else "0", kind]
    sys.stdout.flush()
    try:
        os.execvp(arguments.python, [arguments.python, str(program), *options, *given])
    except OSError as error:
        Terminal().error(f"{arguments.python} cannot be started: {error.strerror}; name your interpreter with --python")
        return EXIT_USAGE


def report_command(arguments: argparse.Namespace) -> int:
    """profile-neuron report: exit code 0, 1 where the folder has no result or the function failed."""
    from zipfile import is_zipfile

    from profile_neuron.report.files import report
    from profile_neuron.report.foreign_files import is_run_folder

    if is_zipfile(arguments.path):
        return _report_bundle(arguments)
    try:
        if not is_run_folder(arguments.path):
            return _report_foreign(arguments)
        costs = report(arguments.path)
    except CaptureError as error:
        _report_error(arguments, str(error))
        return EXIT_FAILED
    if arguments.json:
        _print_document([_Outcome(None, costs, None, "")], "cpu")
    else:
        _terminal().result(costs, arguments.ops)
    return EXIT_OK if costs.functions[0].state == "fresh" else EXIT_FAILED


def _terminal() -> Terminal:
    # Not imported for JSON: an editor that brings this package along has no rich, and reads reports as JSON.
    from profile_neuron.terminal import Terminal

    return Terminal()


def _report_error(arguments: argparse.Namespace, sentence: str) -> None:
    if arguments.json:
        sys.stderr.write(f"profile-neuron: {sentence}\n")
    else:
        _terminal().error(sentence)


def _report_bundle(arguments: argparse.Namespace) -> int:
    """The result of the capture in a bundle, below the versions that it was made with."""
    from profile_neuron.report.bundle import read_bundle

    try:
        found = read_bundle(arguments.path)
    except CaptureError as error:
        _report_error(arguments, str(error))
        return EXIT_FAILED
    if arguments.json:
        _print_document([_Outcome(None, found.costs, None, "")], "cpu")
        return EXIT_OK if found.costs is not None else EXIT_FAILED
    terminal = _terminal()
    for line in found.lines:
        terminal.out.print(line)
    if found.costs is None:
        terminal.error(found.reason)
        return EXIT_FAILED
    terminal.result(found.costs, arguments.ops)
    return EXIT_OK if found.costs.functions[0].state == "fresh" else EXIT_FAILED


def runs_command(arguments: argparse.Namespace) -> int:
    """profile-neuron runs: exit code 0, 1 where the folders were not to be removed after all."""
    from profile_neuron.folders import cache_folder
    from profile_neuron.kept_runs import clean, kept_runs, listing, plain
    from profile_neuron.terminal import Terminal

    terminal = Terminal()
    entries = kept_runs(cache_folder("runs"), time.time())
    if arguments.clean:
        if entries and not arguments.yes and not _is_agreed(f"Remove {len(entries)} run folders?"):
            return EXIT_FAILED
        entries = clean(entries)
    if arguments.json:
        json.dump({"schema": 1, "runs": [plain(entry) for entry in entries]}, sys.stdout, indent=1, ensure_ascii=False)
        sys.stdout.write("\n")
        return EXIT_OK
    for row in listing(entries):
        terminal.out.print(row)
    if arguments.clean:
        terminal.out.print(f"{len(entries)} run folders removed")
    elif not entries:
        terminal.out.print("no run folders are kept")
    return EXIT_OK


def _is_agreed(question: str) -> bool:
    """Whether a person says yes; where none is there to be asked, the command's words were enough."""
    if not sys.stdin.isatty():
        return True
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def open_command(arguments: argparse.Namespace) -> int:
    """profile-neuron open: exit code 0, 1 where the capture cannot be shown, 2 where there is none."""
    from profile_neuron.daemon.opening import capture_folder
    from profile_neuron.terminal import Terminal

    terminal = Terminal()
    try:
        folder = capture_folder(arguments.folder)
    except CaptureError as error:
        terminal.error(str(error))
        return EXIT_USAGE
    try:
        return asyncio.run(_open(folder, arguments, terminal))
    except ProfileNeuronError as error:
        terminal.error(str(error))
        return EXIT_FAILED


def _report_foreign(arguments: argparse.Namespace) -> int:
    """What the user's own profiler captured; exit code 1 where nothing of it was measured."""
    from profile_neuron.core.foreign_capture import foreign_document
    from profile_neuron.report.foreign_files import can_be_used, foreign_report

    here = project_root(Path.cwd() / "file", os.path.exists)
    path = Path(os.path.abspath(arguments.path))  # noqa: PTH100 - a link stays what it is called
    found = foreign_report(path, [Path(root) for root in arguments.root] or [Path(here)])
    if arguments.json:
        _print_json({**foreign_document(found.captures, found.warnings), "artifacts": found.artifacts})
    else:
        _terminal().foreign(found.captures, found.warnings, arguments.ops)
    return EXIT_OK if can_be_used(found.captures) else EXIT_FAILED


def release_command(arguments: argparse.Namespace) -> int:
    """profile-neuron release: exit code 0, 1 where a run still holds NeuronCores."""
    from profile_neuron.daemon.release import release
    from profile_neuron.terminal import Terminal

    outcome = asyncio.run(release())
    Terminal().out.print("\n".join(outcome.sentences))
    return EXIT_FAILED if outcome.is_still_held else EXIT_OK


def doctor_command(arguments: argparse.Namespace) -> int:
    """profile-neuron doctor: exit code 0, 1 where functions cannot be run, or no bundle was written."""
    from profile_neuron.doctor import BROKEN, diagnose

    if arguments.bundle is not None:
        return _write_bundle(arguments, _terminal())
    print(_own_versions())
    try:
        environment = asyncio.run(_environment(arguments.python))
    except ProfileNeuronError as error:
        print(f"✗ interpreter  {arguments.python}: {error}")
        return EXIT_FAILED
    print(_remarks_text(environment))
    return EXIT_FAILED if any(remark.mark == BROKEN for remark in diagnose(environment)) else EXIT_OK


def _own_versions() -> str:
    own = f"profile-neuron {__version__}, command line on Python {sys.version.split()[0]} ({sys.executable})"
    return f"{own}\nwith {', '.join(f'{name} {_version(name)}' for name in _DISTRIBUTIONS)}"


def _remarks_text(environment: Environment) -> str:
    """What the doctor says, a line for each remark and one for what to do about it."""
    from profile_neuron.doctor import diagnose

    remarks = diagnose(environment)
    width = 1 + max(len(remark.subject) for remark in remarks)
    lines = []
    for remark in remarks:
        lines.append(f"{remark.mark} {remark.subject:<{width}}{remark.finding}")
        lines += [f"{'':<{width + 2}}→ {remark.advice}"] if remark.advice else []
    return "\n".join(lines)


def _write_bundle(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Gather a bundle, show what is in it, and write it unless a person says no."""
    from profile_neuron.core import units
    from profile_neuron.daemon import bundle

    path: Path = arguments.bundle
    problem = ""
    if os.path.lexists(path):
        problem = f"{path} is there already; name a new file"
    elif not path.parent.is_dir():
        problem = f"{path.parent} is not a folder; name a file in one"
    if problem:
        terminal.error(problem)
        return EXIT_USAGE
    terminal.err.print("asking the interpreter, the tools and the device, which may take minutes ...")
    made = asyncio.run(
        bundle.gather(arguments.python, lambda environment: f"{_own_versions()}\n{_remarks_text(environment)}\n")
    )
    terminal.out.print(f"{path} is to hold:")
    for name, content in made.members.items():
        terminal.out.print(f"  {units.size(len(content)):>9}  {name}")
    if made.replaced:
        terminal.out.print("with these replaced in every file and name:")
    for (found, becomes), count in sorted(made.replaced.items(), key=lambda item: item[0][::-1]):
        terminal.out.print(f"  {becomes}  for {found} ({count})")
    for sentence in made.problems:
        terminal.out.print(f"without {sentence}")
    if not (arguments.yes or _is_agreed(f"Write {path}?")):
        return EXIT_FAILED
    try:
        bundle.write(path, made)
    except FileExistsError:
        terminal.error(f"{path} is there already; name a new file")
        return EXIT_USAGE
    terminal.out.print(f"{path} is written, for you alone to read; attach it to your report")
    return EXIT_OK


def serve_command(arguments: argparse.Namespace) -> int:
    """profile-neuron serve: exit code 0 after shutdown and exit, else 1."""
    import gc
    import io

    if sys.stdin.isatty():
        sys.stderr.write(
            "profile-neuron: serve is for an editor, which starts it by itself; to profile here, use run\n"
        )
        return EXIT_USAGE
    # The protocol's types are hundreds of thousands of objects that stay, and the collector would visit all of them
    # several times while they are being made. serve lets it work again.
    gc.disable()
    from profile_neuron.lsp.server import leave, serve
    from profile_neuron.wire.stdio import take_over

    # What anything prints must not get between the messages.
    reader, writer = take_over()
    code = serve(io.BufferedReader(reader), io.BufferedWriter(writer))
    leave(code)
    return code


@dataclass(frozen=True, slots=True)
class _Outcome:
    """How one asked function ended."""

    asked: _Asked | None
    costs: LineCosts | None
    failed: RunFailed | None
    run_folder: str
    # The result beside an earlier one; None where there is no result, or nobody asked for it.
    compared: FunctionView | None = None


def _resolve(target: str, modules: tuple[str, ...]) -> list[_Asked]:
    """The functions that a FILE[::QUALNAME] means. Raises _TargetError with one sentence."""
    name, _, qualname = target.rpartition("::")
    if not name or os.path.lexists(target):
        name, qualname = target, ""
    path = Path(os.path.abspath(name))  # noqa: PTH100 - a folder that is reached by .. has another package
    try:
        # Not by exists, which in some versions of Python hides what is wrong and in others raises it.
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise _TargetError(f"{name or path} is a folder; name a Python file in it", EXIT_USAGE)
        if not stat.S_ISREG(mode):
            raise _TargetError(f"{name} is not a regular file; name a Python file", EXIT_USAGE)
        source = path.read_bytes()
    except FileNotFoundError as error:
        raise _TargetError(f"{name}: no such file", EXIT_USAGE) from error
    except OSError as error:
        raise _TargetError(f"{name} cannot be read: {error.strerror}", EXIT_USAGE) from error
    package = module_place(path, os.path.exists).package
    try:
        text = decode(source)
        specs = discover(text, modules, package)
    except SourceError as error:
        raise _TargetError(f"{name} does not parse: {error}", EXIT_FAILED) from error
    if not specs:
        raise _TargetError(
            f"{name} has no function marked @profile_neuron; put the decorator on one "
            f"(from {modules[0]} import profile_neuron)",
            EXIT_USAGE,
        )
    if qualname:
        found = tuple(spec for spec in specs if spec.qualname == qualname)
        if not found:
            close = difflib.get_close_matches(qualname, [spec.qualname for spec in specs], n=1, cutoff=0.5)
            known = f"did you mean {name}::{close[0]}?" if close else f"it has {_listing(specs)}"
            raise _TargetError(f"{name} has no function {qualname} marked @profile_neuron; {known}", EXIT_USAGE)
        specs = found
    digest = hashlib.sha256(source).hexdigest()
    return [_Asked(path, digest, spec, text, package) for spec in specs]


def _listing(specs: Sequence[FunctionSpec]) -> str:
    names = list(dict.fromkeys(spec.qualname for spec in specs))
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


async def _run_all(arguments: argparse.Namespace, asked: Sequence[_Asked], terminal: Terminal) -> int:
    from profile_neuron.daemon.agent_client import AgentClient
    from profile_neuron.daemon.history import History
    from profile_neuron.daemon.hosts import LocalHost
    from profile_neuron.wire.messages import RunFailed

    history = History(terminal.error)
    host = LocalHost(arguments.python)
    client = await AgentClient.start(host)
    outcomes = []
    places = {(str(item.path), item.spec.def_line) for item in asked}
    try:
        for item in asked:
            try:
                outcome = await _run_one(client, item, arguments, terminal, history)
            except AgentError as error:
                # What was measured before stays, and the rest is run by a new agent.
                outcome = _Outcome(item, None, RunFailed("", "failed", Failure(str(error))), "")
                await client.close()
                client = await AgentClient.start(host)
            outcomes.append(outcome)
            if not arguments.json:
                _show(outcome, places, arguments, terminal)
    finally:
        await client.close()
        await history.close()
    if arguments.json:
        _print_document(outcomes, "neuron" if arguments.device == "neuron" else "cpu")
    good = all(outcome.costs is not None and outcome.costs.functions[0].state == "fresh" for outcome in outcomes)
    return EXIT_OK if good else EXIT_FAILED


async def _run_one(
    client: AgentClient, asked: _Asked, arguments: argparse.Namespace, terminal: Terminal, history: History
) -> _Outcome:
    from profile_neuron.terminal import Progress
    from profile_neuron.wire.messages import RunDone, RunFailed, RunOutput, RunProgress, RunWaiting

    request = _request(asked, arguments)
    outcome = None
    with Progress(terminal.err, asked.spec.qualname) as progress:
        async for message in client.run(request):
            match message:
                case RunProgress(phase=phase, done=done, total=total):
                    progress.phase(phase, done, total)
                case RunOutput(text=text):
                    progress.interrupt()
                    terminal.user_output(asked.spec.qualname, text.split("\n"))
                case RunWaiting(holders=holders):
                    progress.interrupt()
                    terminal.waiting(asked.spec.qualname, [_held(holder) for holder in holders])
                case RunDone(costs=costs, run_folder=run_folder):
                    outcome = _Outcome(asked, costs, None, run_folder)
                case RunFailed():
                    outcome = _Outcome(asked, None, message, "")
    assert outcome is not None, "a run always ends with its result or its failure"
    if outcome.costs is not None and outcome.costs.functions[0].state == "fresh":
        compared = await history.add(request, asked.text, asked.package, outcome.costs)
        if arguments.compare:
            return replace(outcome, compared=compared)
    return outcome


def _request(asked: _Asked, arguments: argparse.Namespace) -> RunRequest:
    from profile_neuron.daemon.recordings import recording_of
    from profile_neuron.wire.messages import Limits, RunRequest

    root = project_root(asked.path, os.path.exists)
    here = Path.cwd()
    # As if the file was run with python: here, unless that is somewhere unrelated to it.
    related = asked.path.is_relative_to(here) or here.is_relative_to(root)
    return RunRequest(
        run_id=f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(4)}",
        path=str(asked.path),
        sha256=asked.sha256,
        qualname=asked.spec.qualname,
        first_line=asked.spec.first_line,
        def_line=asked.spec.def_line,
        repeats=arguments.repeats,
        device=arguments.device,
        decorator_modules=tuple(arguments.decorator_module or DEFAULT_MODULES),
        project_roots=(str(root), *arguments.root),
        cwd=str(here if related else root),
        limits=Limits(arguments.import_timeout, arguments.timeout, arguments.compile_timeout, arguments.memory_limit),
        keep=arguments.keep,
        input_set=arguments.inputs,
        recorded_inputs=recording_of(str(asked.path), asked.spec.qualname),
        cores=arguments.cores,
        profile_mode=arguments.profile_mode,
    )


async def _open(folder: Path, arguments: argparse.Namespace, terminal: Terminal) -> int:
    from profile_neuron.daemon.agent_client import AgentClient
    from profile_neuron.daemon.hosts import LocalHost
    from profile_neuron.daemon.opening import title_of, without_viewer
    from profile_neuron.wire.messages import Opened, OpenRequest

    request = OpenRequest("open", str(folder), title_of(folder), arguments.ui_port, arguments.api_port)
    client = await AgentClient.start(LocalHost(sys.executable))
    try:
        answer = await client.open(request)
        if not isinstance(answer, Opened):
            reason = answer.reason
            terminal.error(without_viewer(str(folder), reason).problem if answer.is_missing else reason)
            return EXIT_FAILED
        terminal.out.print(answer.url)
        if not answer.is_ours:
            return EXIT_OK
        terminal.err.print("the viewer was started for this and ends with Ctrl-C")
        terminal.error(await client.viewer_end())
        return EXIT_FAILED
    finally:
        await client.close()


def _show(outcome: _Outcome, places: set[tuple[str, int]], arguments: argparse.Namespace, terminal: Terminal) -> None:
    if outcome.costs is not None:
        terminal.result(outcome.costs, arguments.ops, places, outcome.compared)
    elif outcome.failed is not None and outcome.asked is not None:
        failed = outcome.failed
        terminal.failure(outcome.asked.spec.qualname, outcome.asked.place, failed.state, failed.failure)
    if outcome.run_folder:
        terminal.out.print(f"run folder: {outcome.run_folder}\n")


def _print_document(outcomes: Sequence[_Outcome], asked_kind: DeviceKind) -> None:
    from profile_neuron.core import document

    functions: list[dict[str, Any]] = []
    # Where no run had a result, what was asked for.
    device_kind, device_name = asked_kind, str(asked_kind)
    for outcome in outcomes:
        if outcome.costs is not None:
            if device_kind == "cpu":
                device_kind, device_name = outcome.costs.device_kind, outcome.costs.device_name
            functions += document.run_functions(outcome.costs, outcome.run_folder, outcome.compared)
        elif outcome.failed is not None and outcome.asked is not None:
            asked, failed = outcome.asked, outcome.failed
            functions.append(document.failed_function(str(asked.path), asked.spec, failed.state, failed.failure))
    _print_json(document.document(device_kind, device_name, functions))


def _print_json(content: dict[str, Any]) -> None:
    json.dump(content, sys.stdout, indent=1, ensure_ascii=False)
    sys.stdout.write("\n")


async def _environment(python: str) -> Environment:
    from profile_neuron.daemon.agent_client import AgentClient
    from profile_neuron.daemon.hosts import LocalHost

    client = await AgentClient.start(LocalHost(python))
    try:
        return await client.environment()
    finally:
        await client.close()


def _version(distribution: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(distribution)
    except PackageNotFoundError:
        return "(not installed)"


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number above 0")
    return int(text)


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text} is not a port from 1 to 65535")
    return int(text)


def _folder(text: str) -> str:
    if not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"{text} is not a folder")
    return os.path.abspath(text)  # noqa: PTH100 - as for the file itself


def _size(text: str) -> int:
    from profile_neuron.daemon.settings import memory_bytes

    value = memory_bytes(text)
    if value is None:
        raise argparse.ArgumentTypeError(f"{text} is not a size of at least 100MB such as 8GB")
    return value


def _cores(text: str) -> str:
    from profile_neuron.daemon.settings import cores

    if cores(text) is None:
        raise argparse.ArgumentTypeError(f"{text} is not auto and no list of NeuronCores such as 0-3 or 0,2")
    return text


def _held(holder: Holder) -> str:
    """Who holds NeuronCores, and how many where that is known."""
    command = f" ({holder.command})" if holder.command else ""
    return f"pid {holder.pid}{command} holds {len(holder.cores) or 'cores'}"


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds above 0")
    return value


if __name__ == "__main__":
    main()
