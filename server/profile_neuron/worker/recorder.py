"""Notes what each marked function is first called with, in a program of the user's.

Calls are seen by sys.setprofile, which leaves every object as it is: a wrapper in a function's place would be
another one for whoever asks what it is, and a compiled function's frame is seen as well. Python offers nothing
cheaper before 3.12. It is switched off as soon as every marked function was seen.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
import tempfile
import threading
import time
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profile_neuron import decorator
from profile_neuron.core.recording import (
    VERSION,
    Argument,
    CannotRecordError,
    ClassName,
    Instance,
    Recording,
    encode,
    file_name,
    interface,
    problem,
    to_bytes,
)
from profile_neuron.worker import tensors
from profile_neuron.worker.failures import describe as describe_error
from profile_neuron.worker.signature import describe, signature_text
from profile_neuron.worker.wrapping import definition, innermost_function

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

# File and first line of a function's code, which compiled code keeps.
_Place = tuple[str, int]

_MEBIBYTE = 1 << 20


@dataclass(slots=True)
class _Watched:
    """One marked function."""

    place: _Place
    path: str
    qualname: str
    name: str
    interface: str
    parameters: str
    # The path from where the program was started, and the qualified name.
    title: str
    # What is said of it at the end; empty until it was called.
    remark: str = ""


class Recorder:
    """From start on, every function that is marked is watched until it was called once."""

    def __init__(self, folder: str, keeps_data: bool) -> None:
        self._folder = Path(folder)
        self._keeps_data = keeps_data
        self._watched: dict[_Place, _Watched] = {}
        # Not seen yet, and the names of all, which are quicker to compare.
        self._waiting: set[_Place] = set()
        self._names: frozenset[str] = frozenset({"__init__"})
        # What was marked and cannot be watched.
        self._unseen: list[str] = []
        # By the id of an object, as long as that lives: what its __init__ got.
        self._made: dict[int, tuple[weakref.ref[Any], tuple[Argument, ...]]] = {}
        self._has_marked: dict[type, bool] = {}
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._here = f"{os.path.realpath(os.curdir)}{os.sep}"

    def start(self) -> None:
        """Watch what is marked from now on."""
        decorator.on_mark = self._mark
        os.register_at_fork(after_in_child=self._stop)

    def remarks(self) -> list[str]:
        """One line for each marked function: what was recorded, or why not."""
        if os.getpid() != self._pid:
            return []
        lines = [item.remark or f"not called: {item.title}" for item in self._watched.values()] + self._unseen
        return lines or ["nothing recorded: no function marked @profile_neuron was defined in this process"]

    def _stop(self) -> None:
        """Watch nothing any more, in this thread."""
        decorator.on_mark = None
        self._waiting.clear()
        self._switch_off()

    def _mark(self, decorated: object, options: object, frame: FrameType) -> None:
        function = innermost_function(decorated)
        if function is None:
            caller = frame.f_code.co_filename
            self._unseen.append(f"not recorded: line {frame.f_lineno} of {caller} marks no function written in Python")
            return
        try:
            described = interface(function)
        except (ValueError, TypeError) as error:
            self._unseen.append(f"not recorded: {function.__qualname__} does not tell its parameters ({error})")
            return
        place = _place(function.__code__)
        with self._lock:
            if place in self._watched:
                # The same definition once more, as in a loop; its first call counts.
                return
            path = os.path.realpath(place[0])
            name = function.__code__.co_name
            title = f"{path.removeprefix(self._here)}::{function.__qualname__}"
            self._watched[place] = _Watched(place, path, function.__qualname__, name, *described, title)
            self._waiting.add(place)
            self._names |= {name}
            self._has_marked.clear()
        self._switch_on()

    def _switch_on(self) -> None:
        # A profiler of the program's own is left alone; what is called under it is not seen.
        if sys.getprofile() is None:
            sys.setprofile(self._called)
        if threading.getprofile() is None:
            threading.setprofile(self._called)

    def _switch_off(self) -> None:
        # A bound method is another object each time, and equal.
        if sys.getprofile() == self._called:
            sys.setprofile(None)
        if threading.getprofile() == self._called:
            threading.setprofile(None)

    def _called(self, frame: FrameType, event: str, argument: object) -> None:
        """Sees every call of the program, so the first two lines are all that most of them cost."""
        if event != "call" or frame.f_code.co_name not in self._names:
            return
        if not self._waiting:
            self._switch_off()
            return
        place = _place(frame.f_code)
        if place in self._waiting:
            with self._lock:
                if place not in self._waiting:
                    return
                self._waiting.discard(place)
            watched = self._watched[place]
            try:
                watched.remark = tensors.without_compiler(self._record)(watched, frame)
            except Exception as error:  # noqa: BLE001 - whatever it is, the program goes on
                watched.remark = f"not recorded: {watched.title}: {describe_error(error)}"
            if not self._waiting:
                self._switch_off()
        elif frame.f_code.co_name == "__init__":
            try:
                tensors.without_compiler(self._note_init)(frame)
            except Exception:  # noqa: BLE001 - the instance is then one of which nothing was seen
                return

    def _record(self, watched: _Watched, frame: FrameType) -> str:
        positional, rest, keyword = _arguments_of(frame)
        values = _Values(watched.path)
        owner = positional[0][1] if positional else None
        is_method = bool(positional) and self._is_of(watched, owner)
        arguments = [values.argument(name, "positional", value) for name, value in positional]
        if is_method:
            # Not asked for its value: it is made in another way.
            arguments[0] = Argument(positional[0][0], "positional", "", f"an object of class {type(owner).__name__}")
        arguments += [values.argument(f"args[{number}]", "rest", value) for number, value in enumerate(rest)]
        arguments += [values.argument(name, "keyword", value) for name, value in keyword]
        given = arguments[1:] if is_method else arguments
        instance = self._instance(owner, watched.path) if is_method and not isinstance(owner, type) else None
        recording = Recording(
            version=VERSION,
            path=watched.path,
            qualname=watched.qualname,
            recorded_s=time.time(),
            interface=watched.interface,
            parameters=watched.parameters,
            arguments=tuple(arguments),
            tensors=tuple(values.facts),
            instance=instance,
        )
        why_not = problem(given, watched.qualname)
        size = ""
        if self._keeps_data and values.tensors and not why_not:
            recording, size = self._with_data(recording, values.tensors)
        self._write(recording)
        if why_not:
            return f"not recorded: {watched.title}: {why_not}; give the decorator inputs="
        names = [name for name, _ in positional][is_method:]
        inputs = [value for _, value in positional][is_method:]
        text = signature_text(names, [*inputs, *rest], dict(keyword)) or "no arguments"
        return f"recorded {watched.title}: {text}{_instance_text(instance)}{size}"

    def _write(self, recording: Recording) -> None:
        path = self._folder / file_name(recording.path, recording.qualname)
        descriptor, unfinished = tempfile.mkstemp(prefix="unfinished-", dir=self._folder)
        with open(descriptor, "wb") as file:
            file.write(to_bytes(recording))
        Path(unfinished).replace(path)
        for old in self._folder.glob(f"{path.stem}.*.pt"):
            # What an earlier recording held.
            if old.name != recording.data:
                old.unlink(missing_ok=True)

    def _with_data(self, recording: Recording, held: list[Any]) -> tuple[Recording, str]:
        """A recording with the file that its tensors were written to, and the size of that for a person."""
        from dataclasses import replace

        stem = Path(file_name(recording.path, recording.qualname)).stem
        descriptor, path = tempfile.mkstemp(prefix=f"{stem}.", suffix=".pt", dir=self._folder)
        os.close(descriptor)
        try:
            tensors.save_contents(held, path)
        except BaseException:
            Path(path).unlink()
            raise
        size = Path(path).stat().st_size
        shown = f"{size / _MEBIBYTE:.1f} MiB" if size >= _MEBIBYTE else f"{size} bytes"
        return replace(recording, data=Path(path).name), f"; data {shown}"

    def _is_of(self, watched: _Watched, owner: object) -> bool:
        """Whether a function's first argument is the object or the class that it is a method of."""
        kind = owner if isinstance(owner, type) else type(owner)
        for base in kind.__mro__:
            # A name with two leading underscores is kept under its mangled form.
            names = (watched.name, f"_{base.__name__.lstrip('_')}{watched.name}")
            member = next((vars(base)[name] for name in names if name in vars(base)), None)
            if member is not None and not isinstance(member, staticmethod) and definition(member, *watched.place):
                return True
        return False

    def _note_init(self, frame: FrameType) -> None:
        """Note what an object is made with, if it has a marked method."""
        positional, rest, keyword = _arguments_of(frame)
        if not positional:
            return
        made = positional[0][1]
        kind = type(made)
        if kind not in self._has_marked:
            self._has_marked[kind] = any(self._is_of(item, made) for item in self._watched.values())
        own = innermost_function(kind.__init__)
        if not self._has_marked[kind] or own is None or _place(own.__code__) != _place(frame.f_code):
            # Not marked, or the __init__ of a base class, which the one of its own class calls.
            return
        values = _Values(os.path.realpath(own.__code__.co_filename), takes_tensors=False)
        arguments = [values.argument(name, "positional", value) for name, value in positional[1:]]
        arguments += [values.argument(f"args[{number}]", "rest", value) for number, value in enumerate(rest)]
        arguments += [values.argument(name, "keyword", value) for name, value in keyword]
        number = id(made)
        self._made[number] = (weakref.ref(made, lambda _: self._made.pop(number, None)), tuple(arguments))

    def _instance(self, instance: Any, path: str) -> Instance:
        """How an object was made, or why that cannot be done again."""
        kind = type(instance)
        arguments: tuple[Argument, ...] = ()
        why_not = ""
        try:
            name = _class_name(kind, path)
        except CannotRecordError as error:
            name, why_not = ClassName("", kind.__qualname__), f"the object is {error}"
        known = self._made.get(id(instance))
        if known is not None and known[0]() is instance:
            arguments = known[1]
            why_not = why_not or problem(arguments, f"{kind.__qualname__}.__init__")
        elif vars(object)["__init__"] is not inspect.getattr_static(kind, "__init__") and not why_not:
            why_not = f"how the {kind.__qualname__} was made was not seen"
        if vars(object)["__new__"] is not inspect.getattr_static(kind, "__new__") and not why_not:
            why_not = f"{kind.__qualname__} has a __new__ of its own"
        module = tensors.module_facts(instance)
        if module is None:
            return Instance(name, arguments, why_not)
        return Instance(name, arguments, why_not, True, *module)


class _Values:
    """The values of one call: each tensor once, however often it was given."""

    def __init__(self, path: str, takes_tensors: bool = True) -> None:
        self.facts: list[Any] = []
        # Held, so that no other object gets the id of one.
        self.tensors: list[Any] = []
        self._path = path
        self._takes_tensors = takes_tensors
        self._numbers: dict[int, int] = {}

    def argument(self, name: str, kind: Any, value: object) -> Argument:
        try:
            plain = encode(value, self._tensor_number, lambda kind: _class_name(kind, self._path))
        except CannotRecordError as error:
            return Argument(name, kind, "", str(error))
        return Argument(name, kind, json.dumps(plain))

    def _tensor_number(self, value: object) -> int | None:
        if not tensors.is_tensor(value):
            return None
        if not self._takes_tensors:
            raise CannotRecordError("a tensor")
        if id(value) not in self._numbers:
            facts = tensors.tensor_facts(value)
            self._numbers[id(value)] = len(self.facts)
            self.facts.append(facts)
            self.tensors.append(value)
        return self._numbers[id(value)]


def _place(code: CodeType) -> _Place:
    return code.co_filename, code.co_firstlineno


def _arguments_of(frame: FrameType) -> tuple[list[tuple[str, Any]], tuple[Any, ...], list[tuple[str, Any]]]:
    """What a function that is being entered got: by position, the rest of these, and by name."""
    code, values = frame.f_code, frame.f_locals
    names = code.co_varnames
    end = code.co_argcount + code.co_kwonlyargcount
    positional = [(name, values[name]) for name in names[: code.co_argcount]]
    keyword = [(name, values[name]) for name in names[code.co_argcount : end]]
    rest: tuple[Any, ...] = ()
    if code.co_flags & inspect.CO_VARARGS:
        rest, end = values[names[end]], end + 1
    if code.co_flags & inspect.CO_VARKEYWORDS:
        keyword += values[names[end]].items()
    return positional, rest, keyword


def _class_name(kind: type, path: str) -> ClassName:
    """The name by which a class can be imported, in the file of a function. Raises CannotRecordError."""
    module = sys.modules.get(kind.__module__)
    found: Any = module
    for part in kind.__qualname__.split("."):
        found = getattr(found, "__dict__", {}).get(part)
    if found is not kind:
        raise CannotRecordError(f"of class {kind.__qualname__}, which no name of a module leads to")
    file = getattr(module, "__file__", None)
    if isinstance(file, str) and os.path.realpath(file) == path:
        return ClassName("", kind.__qualname__)
    if kind.__module__ == "__main__":
        raise CannotRecordError(f"of class {kind.__qualname__}, which the program itself defines")
    return ClassName(kind.__module__, kind.__qualname__)


def _instance_text(instance: Instance | None) -> str:
    if instance is None:
        return ""
    if instance.problem:
        return f"; without the object, since {instance.problem}: give the decorator instance="
    given = [
        describe(json.loads(item.value)) if item.kind == "rest" else f"{item.name}={describe(json.loads(item.value))}"
        for item in instance.arguments
    ]
    shown = f"{instance.class_name.qualname}({', '.join(given)})"
    return f"; instance {shown if len(shown) <= 100 else f'{shown[:100]}…'}"


def begin(folder: str, keeps_data: bool) -> Callable[[], None]:
    """Start to record into a folder; gives what prints the remarks to stderr when the program has ended."""
    recorder = Recorder(folder, keeps_data)
    recorder.start()

    def finish() -> None:
        lines = recorder.remarks()
        if lines and sys.stderr is not None:
            sys.stderr.write("".join(f"profile-neuron: {line}\n" for line in lines))

    return finish
