"""The user's own program, run in this process as Python itself would run it."""

from __future__ import annotations

import os
import runpy
import sys
import zipfile
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection

# The module that Python itself started with. It goes on using the names in it when the program has ended.
_FIRST_MAIN = sys.modules["__main__"]
_PACKAGE = str(Path(__file__).parent.parent) + os.sep


def run(is_module: bool, target: str, arguments: list[str], ours: Collection[str], folders: Collection[str]) -> None:
    """Run a file, a folder or archive with __main__.py, or a module; ends as the program does.

    ours: names of modules that only we have imported so far. folders: those of PYTHONPATH.
    """
    main = ModuleType("__main__")
    main.__dict__.update(__annotations__={}, __builtins__=__builtins__)
    sys.modules["__main__"] = main
    sys.orig_argv[1:] = [*(["-m"] if is_module else []), target, *arguments]
    try:
        if is_module:
            _prepend(os.getcwd(), ours, folders)  # noqa: PTH109 - exactly what Python puts there
            sys.argv = ["-m", *arguments]
            _as_main(target, True)
        elif os.path.isdir(target) or zipfile.is_zipfile(target):  # noqa: PTH112 - a path as it was given
            _prepend(_whole(target), ours, folders)
            sys.argv = [target, *arguments]
            _as_main("__main__", False)
        else:
            _prepend(os.path.dirname(os.path.realpath(target)), ours, folders)  # noqa: PTH120
            sys.argv = [target, *arguments]
            _run_file(target, main)
    except SystemExit:
        raise
    except BaseException as error:
        _hide_our_frames(error)
        # On to Python itself, which knows what an uncaught error of each kind leads to.
        raise


def _as_main(name: str, changes_arguments: bool) -> None:
    run_module_as_main: Any = runpy._run_module_as_main  # type: ignore[attr-defined]
    run_module_as_main(name, changes_arguments)


def _run_file(target: str, main: ModuleType) -> None:
    path = _whole(target)
    main.__file__ = path
    main.__dict__.update(__loader__=SourceFileLoader("__main__", path), __cached__=None)
    code = compile(Path(path).read_bytes(), path, "exec", dont_inherit=True)
    exec(code, main.__dict__)


def _whole(target: str) -> str:
    """An absolute path that is otherwise as it was given, as Python names what it runs."""
    return os.path.join(os.getcwd(), target.removeprefix("./"))  # noqa: PTH109, PTH118


def _prepend(folder: str, ours: Collection[str], folders: Collection[str]) -> None:
    """Put the program's folder on the path, and forget modules of which the program has others of that name."""
    in_front = [*folders]
    if not getattr(sys.flags, "safe_path", False):
        sys.path.insert(0, folder)
        in_front.append(folder)
    for top in {name.partition(".")[0] for name in ours} - {"profile_neuron"}:
        if any(Path(place, f"{top}.py").is_file() or Path(place, top, "__init__.py").is_file() for place in in_front):
            for name in [name for name in sys.modules if name.partition(".")[0] == top]:
                del sys.modules[name]


def _hide_our_frames(error: BaseException) -> None:
    """Have whatever shows an uncaught error begin with the program's own first line."""
    trace: TracebackType | None = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        trace = trace.tb_next
    show = sys.excepthook

    def excepthook(kind: type[BaseException], value: BaseException, _: TracebackType | None) -> None:
        sys.last_traceback = trace
        show(kind, value.with_traceback(trace), trace)

    sys.excepthook = excepthook
