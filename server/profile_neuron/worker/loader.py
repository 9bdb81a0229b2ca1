"""Imports the user's file fresh, and finds the decorated function in it, its instance and its inputs."""

from __future__ import annotations

import gc
import importlib
import importlib.machinery
import importlib.util
import inspect
import linecache
import sys
import types
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profile_neuron import decorator
from profile_neuron.core.model import Failure
from profile_neuron.core.project import module_place
from profile_neuron.worker.failures import RunStopped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from profile_neuron.core.project import ProjectFiles
    from profile_neuron.decorator import Options
    from profile_neuron.wire.messages import RunRequest

# How far a wrapped function is looked for inside the objects that wrap it.
_UNWRAP_DEPTH = 20
_INSIDE_LIMIT = 100


@dataclass(slots=True)
class Mark:
    """One application of the decorator during the import."""

    # Held only for local functions, of which the last one is run. A module's or class's own functions are
    # held by their module; one that is not was replaced by a later definition and must not run.
    decorated: object | None
    reference: weakref.ref[Any] | None
    function: types.FunctionType | None
    options: Options
    line: int
    function_line: int


class Loader:
    """The project's modules in this process; each load executes the saved bytes in a new module."""

    def __init__(self) -> None:
        self._project: ProjectFiles | None = None
        self._finder = _ProjectFinder()
        self._paths: list[str] = []
        # Bytes of each project file as it was executed in this run.
        self.executed: dict[str, bytes] = self._finder.executed
        self.marks: list[Mark] = []

    def load(self, request: RunRequest, source: bytes, project: ProjectFiles) -> types.ModuleType:
        """Execute the file in a new module under its right name, after letting go of the old ones.

        Raises whatever the user's code raises, SystemExit included.
        """
        self.release()
        self._project = project
        self._finder.project = project
        path = Path(request.path)
        place = module_place(path, _exists)
        self._set_path([place.import_root, *request.project_roots])
        sys.argv = [request.path]
        decorator.on_mark = lambda decorated, options, frame: self._mark(request, decorated, options, frame)
        try:
            # The package first, as an import would; it may import the file itself.
            if place.package and place.package != place.name:
                importlib.import_module(place.package)
            name = _module_name(place.name, request.path)
            loaded = sys.modules.get(name)
            if loaded is not None and self.executed.get(getattr(loaded, "__file__", None) or "") == source:
                return loaded
            return self._execute(name, path, source, is_package=path.name == "__init__.py" and bool(place.package))
        finally:
            decorator.on_mark = None

    def release(self) -> None:
        """Let go of the last run's project modules, so that their memory is free before the new ones load."""
        self.marks.clear()
        self.executed.clear()
        if self._project is not None:
            # By name: a variable that still held a module here would keep it from the collector.
            for name in [name for name, module in list(sys.modules.items()) if _belongs_to(module, self._project)]:
                del sys.modules[name]
            importlib.invalidate_caches()
            linecache.clearcache()
            gc.collect()

    def _execute(self, name: str, path: Path, source: bytes, is_package: bool) -> types.ModuleType:
        code = compile(source, str(path), "exec", dont_inherit=True)
        folders = [str(path.parent)] if is_package else None
        loader = _FreshLoader(name, str(path), self.executed)
        spec = importlib.util.spec_from_file_location(name, path, loader=loader, submodule_search_locations=folders)
        if spec is None:
            raise ImportError(f"{path} cannot be imported as {name}")
        module = importlib.util.module_from_spec(spec)
        self.executed[str(path)] = source
        sys.modules[name] = module
        try:
            exec(code, module.__dict__)
        except BaseException:
            sys.modules.pop(name, None)
            raise
        parent, _, child = name.rpartition(".")
        if parent in sys.modules:
            setattr(sys.modules[parent], child, module)
        return module

    def _set_path(self, folders: Sequence[str]) -> None:
        """Put the project's folders in front; they replace those of the last run."""
        kept = [entry for entry in sys.path if entry not in self._paths]
        self._paths = [folder for folder in dict.fromkeys(folders) if folder not in kept]
        sys.path[:] = [*self._paths, *kept]
        if self._finder not in sys.meta_path:
            sys.meta_path.insert(0, self._finder)

    def _mark(self, request: RunRequest, decorated: object, options: Options, frame: types.FrameType) -> None:
        # The decorator may be applied inside of a module that re-exports it.
        caller: types.FrameType | None = frame
        while caller is not None and caller.f_code.co_filename != request.path:
            caller = caller.f_back
        function = innermost_function(decorated)
        line = caller.f_lineno if caller is not None else 0
        function_line = 0
        if function is not None and function.__code__.co_filename == request.path:
            function_line = function.__code__.co_firstlineno
        if not line and not function_line:
            return
        local = function is None or "<locals>" in function.__qualname__
        try:
            reference = None if local else weakref.ref(decorated)
        except TypeError:
            # A property cannot be referred to weakly; its function can.
            reference = weakref.ref(function) if function is not None else None
        mark = Mark(decorated if local else None, reference, function if local else None, options, line, function_line)
        if local:
            # Of several closures of one definition the last counts, and the others need not be kept.
            self.marks = [old for old in self.marks if old.decorated is None or not _same_place(old, mark)]
        self.marks.append(mark)


@dataclass(frozen=True, slots=True)
class Target:
    """What is called, and how."""

    # Gives one call's result; takes the inputs.
    call: Callable[..., Any]
    # The decorated definition itself, whose kind decides how the result is used up.
    function: types.FunctionType | None
    options: Options
    # The object that is called and what it wraps, outermost first.
    wrapped: tuple[object, ...]
    # Whether the function's first parameter is filled in: the instance or the class.
    bound: bool


def find_mark(marks: Sequence[Mark], request: RunRequest) -> Mark:
    """The mark of the requested definition. Raises RunStopped where the import did not leave one."""
    # One definition may be executed several times, as in a loop; the last one is what the module has.
    found = [
        mark
        for mark in marks
        if request.first_line <= mark.line <= request.def_line or mark.function_line == request.first_line
    ]
    if not found:
        raise RunStopped(
            "failed",
            Failure(
                f"not-runnable: importing the file did not execute this definition of {request.qualname}; "
                "only what runs during import can be profiled"
            ),
        )
    mark = found[-1]
    # A class that a later one replaced lives until the collector comes, and its methods with it.
    gc.collect()
    if mark.decorated is None and (mark.reference is None or mark.reference() is None):
        raise RunStopped(
            "failed",
            Failure(f"not-runnable: this definition of {request.qualname} was replaced by a later one"),
        )
    return mark


def find_target(module: types.ModuleType, mark: Mark, request: RunRequest) -> Target:
    """How to call the decorated function as the user's code would: through its module or its class."""
    decorated = mark.decorated if mark.decorated is not None else mark.reference and mark.reference()
    function = _definition(decorated, request) or innermost_function(decorated)
    owner, name, bound = _resolve(module, request.qualname, function)
    if bound is None or function is None or not _contains(bound, function):
        # Reached some other way than by its name, for example through a registry.
        bound, name = decorated, ""
        owner = owner or _owner_of(function)
    if owner is None:
        if _is_plain(bound):
            return Target(_call_of(bound), function, mark.options, _chain(bound), bound=False)
        raise RunStopped(
            "failed",
            Failure(f"not-runnable: the class of {request.qualname} cannot be reached from the module"),
        )
    return _member_target(module, owner, name, bound, function, mark.options, request)


def _member_target(
    module: types.ModuleType,
    owner: type,
    name: str,
    bound: object,
    function: types.FunctionType | None,
    options: Options,
    request: RunRequest,
) -> Target:
    chain = _chain(bound)
    if isinstance(bound, (classmethod, staticmethod)):
        return Target(bound.__get__(None, owner), function, options, chain, isinstance(bound, classmethod))
    instance = _instance(module, owner, options, request)
    if isinstance(bound, property):
        if function is not None and bound.fset is not None and _contains(bound.fset, function):
            return Target(lambda value: bound.__set__(instance, value), function, options, chain, bound=True)
        if function is not None and bound.fdel is not None and _contains(bound.fdel, function):
            return Target(lambda: bound.__delete__(instance), function, options, chain, bound=True)
        return Target(lambda: bound.__get__(instance, owner), function, options, chain, bound=True)
    if hasattr(bound, "attrname") and hasattr(bound, "func"):
        # A cached_property computes once per instance, so its cache is emptied before each call.
        attribute = name or bound.attrname

        def compute() -> object:
            vars(instance).pop(attribute, None)
            return getattr(instance, attribute)

        return Target(compute, function, options, chain, bound=True)
    getter = getattr(bound, "__get__", None)
    return Target(
        getter(instance, owner) if getter is not None else _call_of(bound), function, options, chain, bound=True
    )


def find_inputs(
    module: types.ModuleType, target: Target, request: RunRequest
) -> tuple[Callable[[], object] | None, str]:
    """What builds the inputs, and a word on where it was found; None where none are needed.

    Raises RunStopped with the state noInputs where arguments are needed and nothing builds them.
    """
    inputs = target.options.inputs
    if callable(inputs):
        return inputs, "inputs= of the decorator"
    if inputs is not None:
        name, named = next(iter(inputs.items()))
        return named, f'inputs= "{name}"'
    names = factory_names(request.qualname, "inputs")
    for name in names:
        factory = vars(module).get(name)
        if callable(factory):
            return factory, name
    missing = _required_arguments(target)
    if missing:
        raise RunStopped(
            "noInputs",
            Failure(
                f"{request.qualname} needs {_listing(missing)}; add a function {names[0]}() to the file that "
                "returns them as a tuple, or give the decorator inputs=..."
            ),
        )
    return None, "none needed"


def arguments(value: object) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments from what an inputs function gave."""
    if isinstance(value, tuple):
        return value, {}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return (), value
    return (value,), {}


def check_arguments(
    target: Target, args: tuple[Any, ...], kwargs: dict[str, Any], request: RunRequest, source: str
) -> None:
    """Raises RunStopped where the inputs do not fit the function's parameters."""
    try:
        signature = inspect.signature(target.call)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        given = f"{len(args)} positional" if not kwargs else f"the names {', '.join(kwargs)}"
        raise RunStopped(
            "failed",
            Failure(
                f"the inputs do not fit {request.qualname}{signature}: {source} gave {given} ({error}); "
                "return a tuple with one value per parameter"
            ),
        ) from error


def factory_names(qualname: str, ending: str) -> list[str]:
    """Names under which a factory for a definition is looked up: the whole name, then its last part."""
    parts = [part for part in qualname.split(".") if part != "<locals>"]
    return list(dict.fromkeys([f"{'_'.join(parts)}_{ending}", f"{parts[-1]}_{ending}"]))


def innermost_function(value: object) -> types.FunctionType | None:
    """The function that a decorated object is made around, by the attributes that wrappers leave."""
    for _ in range(_UNWRAP_DEPTH):
        inner = _inner(value)
        if inner is None:
            break
        value = inner
    return value if isinstance(value, types.FunctionType) else None


def _inner(value: object) -> object | None:
    if isinstance(value, property):
        return value.fget or value.fset or value.fdel
    for attribute in ("_torchdynamo_orig_callable", "__wrapped__", "__func__", "func", "fget", "_orig_mod"):
        try:
            inner: object = inspect.getattr_static(value, attribute)
        except AttributeError:
            continue
        if isinstance(inner, (types.MemberDescriptorType, types.GetSetDescriptorType, property)):
            inner = getattr(value, attribute, None)
        if inner is not None and (callable(inner) or hasattr(inner, "__get__")):
            return inner
    return None


def _definition(value: object, request: RunRequest) -> types.FunctionType | None:
    """The requested definition inside an object, also where its wrapper leaves no attribute that leads to it."""
    for item in _inside(value):
        if isinstance(item, types.FunctionType):
            code = item.__code__
            if code.co_firstlineno == request.first_line and code.co_filename == request.path:
                return item
    return None


def _contains(value: object, function: types.FunctionType) -> bool:
    return any(item is function for item in _inside(value))


def _inside(value: object) -> Iterator[object]:
    """An object and what it is made around: wrapper attributes, accessors, closures."""
    pending: list[object] = [value]
    seen: set[int] = set()
    while pending and len(seen) < _INSIDE_LIMIT:
        item = pending.pop(0)
        if id(item) in seen:
            continue
        seen.add(id(item))
        yield item
        if isinstance(item, property):
            pending += [accessor for accessor in (item.fget, item.fset, item.fdel) if accessor is not None]
        elif isinstance(item, types.FunctionType):
            pending += _closed_over(item)
        inner = _inner(item)
        if inner is not None:
            pending.append(inner)


def _closed_over(function: types.FunctionType) -> Iterator[object]:
    for cell in function.__closure__ or ():
        try:
            content = cell.cell_contents
        except ValueError:
            # Not yet filled, as in a function that refers to itself.
            continue
        if callable(content) or isinstance(content, (classmethod, staticmethod)):
            yield content


def _chain(value: object) -> tuple[object, ...]:
    """An object and what it wraps, outermost first."""
    chain = [value]
    while len(chain) < _UNWRAP_DEPTH:
        inner = _inner(chain[-1])
        if inner is None:
            break
        chain.append(inner)
    return tuple(chain)


def _resolve(
    module: types.ModuleType, qualname: str, function: types.FunctionType | None
) -> tuple[type | None, str, object | None]:
    """The class, the attribute's name and the raw attribute that a qualified name leads to."""
    *classes, name = qualname.split(".")
    if "<locals>" in classes:
        return (_owner_of(function) if classes[-1] != "<locals>" else None), name, None
    owner: type | None = None
    space: Any = vars(module)
    for part in classes:
        owner = space.get(part)
        if not isinstance(owner, type):
            return None, name, None
        space = vars(owner)
    if owner is not None:
        # A name with two leading underscores is kept under its mangled form.
        mangled = f"_{owner.__name__.lstrip('_')}{name}"
        if name not in space and mangled in space:
            name = mangled
    return owner, name, space.get(name)


def _owner_of(function: types.FunctionType | None) -> type | None:
    """The class whose body holds a function, for classes that no module attribute leads to."""
    for space in gc.get_referrers(function) if function is not None else ():
        if isinstance(space, dict) and any(value is function for value in space.values()):
            for owner in gc.get_referrers(space):
                if isinstance(owner, type):
                    return owner
    return None


def _is_plain(value: object) -> bool:
    """Whether an object is called without a class; a function local to another function is."""
    function = innermost_function(value)
    if isinstance(value, (property,)) or not callable(_unwrapped_static(value)):
        return False
    if function is None:
        return True
    outer = function.__qualname__.rpartition(".")[0]
    return not outer or outer.endswith("<locals>") or isinstance(value, (staticmethod, classmethod))


def _unwrapped_static(value: object) -> object:
    return value.__func__ if isinstance(value, (staticmethod, classmethod)) else value


def _call_of(value: object) -> Callable[..., Any]:
    found = _unwrapped_static(value)
    assert callable(found)
    return found


def _instance(module: types.ModuleType, owner: type, options: Options, request: RunRequest) -> object:
    if options.instance is not None:
        return options.instance()
    names = factory_names(owner.__qualname__, "instance")
    for name in names:
        factory = vars(module).get(name)
        if callable(factory):
            return factory()
    missing = _required_parameters(owner)
    if missing:
        raise RunStopped(
            "noInputs",
            Failure(
                f"{request.qualname} needs an object to be called on, and {owner.__name__} takes "
                f"{_listing(missing)}; add a function {names[0]}() to the file that builds one, or give the "
                "decorator instance=..."
            ),
        )
    return owner()


def _required_arguments(target: Target) -> list[str]:
    """Names of the arguments that a call must give, seen through a wrapper that passes anything on."""
    try:
        parameters = inspect.signature(target.call).parameters.values()
    except (TypeError, ValueError):
        return []
    passes_on = any(item.kind is item.VAR_POSITIONAL for item in parameters)
    if not passes_on or target.function is None:
        return _required_parameters(target.call)
    own = _required_parameters(target.function)
    return own[1:] if target.bound else own


def _required_parameters(function: Callable[..., Any]) -> list[str]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [
        item.name
        for item in parameters
        if item.default is item.empty and item.kind not in (item.VAR_POSITIONAL, item.VAR_KEYWORD)
    ]


def _listing(names: list[str]) -> str:
    """Arguments x, weight and eps, for a sentence."""
    if len(names) == 1:
        return f"the argument {names[0]}"
    return f"the arguments {', '.join(names[:-1])} and {names[-1]}"


def _module_name(name: str, path: str) -> str:
    """The file's module name, or another one where that belongs to a module that is not this file."""
    top = name.partition(".")[0]
    loaded = sys.modules.get(name)
    taken = loaded is not None and getattr(loaded, "__file__", None) != path
    if taken or top in sys.stdlib_module_names or name == "__main__" or name.startswith("profile_neuron"):
        return f"profiled_{name.replace('.', '_')}"
    return name


def _same_place(one: Mark, other: Mark) -> bool:
    return (one.line, one.function_line) == (other.line, other.function_line)


def _belongs_to(module: types.ModuleType, project: ProjectFiles) -> bool:
    file = getattr(module, "__file__", None)
    if isinstance(file, str):
        return file in project
    # Namespace packages have no file; their path would hide a package that came since.
    try:
        places = [f"{folder}/." for folder in module.__path__]
    except (AttributeError, TypeError, KeyError):
        return False
    return bool(places) and all(place in project for place in places)


def _exists(path: Any) -> bool:
    return Path(path).exists()


class _ProjectFinder:
    """Finds project modules as Python does, but always executes their source and notes its bytes.

    A bytecode file can be older than a source of the same second and size, and writing one would leave a
    file of ours in the user's tree.
    """

    def __init__(self) -> None:
        self.project: ProjectFiles | None = None
        self.executed: dict[str, bytes] = {}

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or not isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            return None
        if self.project is None or spec.origin is None or spec.origin not in self.project:
            return None
        spec.loader = _FreshLoader(name, spec.origin, self.executed)
        spec.cached = None
        return spec


class _FreshLoader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, executed: dict[str, bytes]) -> None:
        super().__init__(name, path)
        self._executed = executed

    def get_code(self, fullname: str) -> types.CodeType:
        path = self.get_filename(fullname)
        source = self.get_data(path)
        self._executed[path] = source
        return compile(source, path, "exec", dont_inherit=True)
