"""What the user can set, with every default, and how a client's values become it."""

from __future__ import annotations

import copy
import difflib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal, get_args

from profile_neuron.core.core_list import parse_cores
from profile_neuron.core.findings import DEFAULT_SEVERITIES

if TYPE_CHECKING:
    from fractions import Fraction

SECTION = "profileNeuron"

RunOnSave = Literal["off", "manual", "always"]
StaleHints = Literal["mark", "hide"]
OnEdit = Literal["finish", "cancel"]
WhenBusy = Literal["wait", "skip"]
ProfileMode = Literal["runtime", "device"]
Baseline = Literal["previous", "pinned"]
ExplorerMode = Literal["auto", "extension", "browser", "none"]

DIAGNOSTIC_CODES = tuple(DEFAULT_SEVERITIES)
DIAGNOSTIC_SEVERITIES = ("hint", "information", "warning", "off")


@dataclass(frozen=True, slots=True)
class Settings:
    """Values that are known to be good; equal where they mean the same."""

    # Whether functions are profiled and results shown at all.
    enable: bool = True
    # Which saves profile the functions of a file: none, those by hand, or also those by the editor itself.
    run_on_save: RunOnSave = "manual"
    # The Python that runs your code; empty to have it found.
    interpreter: str = ""
    # Seconds that inputs and calls of a run may take.
    run_timeout_s: float = 120.0
    # Seconds that importing your code may take.
    run_import_timeout_s: float = 300.0
    # Seconds that a compiler of Neuron may take.
    run_compile_timeout_s: float = 1800.0
    # Bytes of memory that a run may use, with all that it starts; None for no limit.
    run_memory_limit_bytes: int | None = None
    # How many calls come before the profiled ones, and how many are profiled, where the decorator does not say.
    run_warmup: int = 3
    run_repeats: int = 5
    # What becomes of a run when its function is edited: it goes on to its end, or is ended.
    run_on_edit_during_run: OnEdit = "finish"
    # What becomes of a run when other processes hold the NeuronCores that it may use.
    device_when_busy: WhenBusy = "wait"
    # The NeuronCores that a run may use, as the runtime spells them; auto for one that is free.
    device_cores: str = "auto"
    # Seconds after its last run in which a worker keeps the NeuronCores that it took.
    device_idle_release_s: float = 60.0
    # What is captured on a NeuronCore: when its executions run, or beside that what its engines do.
    profile_mode: ProfileMode = "runtime"
    # How many functions one save may profile.
    run_max_per_save: int = 20
    # Where your code runs: workspace, file (the folder of the file), or a folder, absolute or below the workspace.
    run_cwd: str = "workspace"
    # Environment variables that your code gets beside those of the editor, sorted by name.
    run_env: tuple[tuple[str, str], ...] = ()
    # Folders that count as your project; empty to have them found.
    project_roots: tuple[str, ...] = ()
    # Folders in which your own programs leave profiles; absolute, below the workspace, or with ~ for the home folder.
    watch_folders: tuple[str, ...] = ()
    # Modules that the decorator may be imported from.
    decorator_modules: tuple[str, ...] = ("profile_neuron",)
    # Whether times are shown at the end of lines.
    hints_enable: bool = True
    # Percent of its function's time from which on a line gets a hint.
    hints_min_share: float = 1.0
    # Time from which on a line gets a hint, in nanoseconds.
    hints_min_time_ns: int = 1000
    # How many hints one function gets, the slowest lines first.
    hints_max_per_function: int = 30
    # Whether times of code that was edited since are marked or hidden.
    hints_stale: StaleHints = "mark"
    # Whether what became of a time since the baseline is shown behind it.
    hints_delta: bool = True
    # Which earlier result a time is compared with: the last one of other code, or the one that was pinned.
    baseline: Baseline = "previous"
    # Whether a summary is shown above a decorated function.
    code_lens_enable: bool = True
    # Whether remarks about lines are shown as diagnostics.
    diagnostics_enable: bool = True
    # Severity by diagnostic code, off to leave it out, sorted by code; codes that are absent keep their own.
    diagnostics_severity: tuple[tuple[str, str], ...] = ()
    # Whether captures of a NeuronCore are opened in Neuron Explorer; auto and extension are for a client with an
    # extension of it, elsewhere they mean browser.
    explorer_mode: ExplorerMode = "auto"
    # Where its viewer serves its pages, and where its data; both are needed.
    explorer_ui_port: int = 3001
    explorer_api_port: int = 3002
    # Where results are kept; empty for the cache folder of the user, ~ is the home folder.
    store_directory: str = ""
    # Bytes that the kept results may take before old ones are removed.
    store_max_bytes: int = 2_000_000_000

    @property
    def of_runs(self) -> tuple[str, ...]:
        """What decides what a run measures, beside interpreter and folders."""
        calls = (f"warm-up {self.run_warmup}", f"repeats {self.run_repeats}")
        # Left out where they are as ever, as they were before there was a choice, so that earlier results still count.
        cores = (f"cores {self.device_cores}",) if self.device_cores != "auto" else ()
        mode = (f"mode {self.profile_mode}",) if self.profile_mode != "runtime" else ()
        return (*calls, *cores, *mode, *(f"{name}={value}" for name, value in self.run_env))


@dataclass(frozen=True, slots=True)
class BadSetting:
    """A value that cannot be used, or a name that is not known."""

    # The client's full name; one that we do not know is shortened where it is long.
    name: str
    # One sentence: what was given, what is wanted, and what is used instead.
    reason: str


def parse(raw: object, trusted: bool = True) -> tuple[Settings, tuple[BadSetting, ...]]:
    """Settings from what a client sent for the section, and what of it could not be used.

    raw: a map, nested or with dots in its names or both; the last of two values for one name counts, and null is no
    value. Not trusted: what is restricted keeps its default, without a remark.
    """
    if raw is None:
        return Settings(), ()
    if not isinstance(raw, Mapping):
        return Settings(), (_not_a_map("", raw, "settings such as hints.enable"),)
    given: dict[str, object] = {}
    bad = _flatten(raw, "", given)
    values: dict[str, Any] = {}
    for row in _ROWS:
        if row.name not in given or (row.name in RESTRICTED and not trusted):
            continue
        value, refused = row.parse(given[row.name])
        if value is not None:
            values[row.field] = None if row.none_is == value else value
        instead = "leaving it out" if value is not None else f"using {_spelled(row.default)}"
        name = f"{SECTION}.{row.name}"
        bad += [BadSetting(name, f"{name} {what}; give {row.wanted}; {instead}") for what in refused]
    return Settings(**values), tuple(bad)


def defaults() -> dict[str, Any]:
    """The client's names with their defaults as a client spells them, in the order of the table."""
    return {row.name: copy.deepcopy(row.default) for row in _ROWS}


def _flatten(raw: Mapping[Any, object], prefix: str, given: dict[str, object]) -> list[BadSetting]:
    """Collect values under dotted names, descending only into what is part of a name that we know."""
    bad = []
    for key, value in raw.items():
        name = f"{prefix}{key}"
        if value is None or _is_foreign(name):
            continue
        if name in CLIENT_NAMES:
            given[name] = value
        elif name not in _GROUPS:
            bad.append(_unknown(name))
        elif isinstance(value, Mapping):
            bad += _flatten(value, f"{name}.", given)
        elif own := [known for known in CLIENT_NAMES if known.startswith(f"{name}.")]:
            bad.append(_not_a_map(f".{name}", value, f"settings such as {own[0]}"))
    return bad


def _is_foreign(name: str) -> bool:
    return any(name == foreign or name.startswith(f"{foreign}.") for foreign in _FOREIGN)


def _unknown(name: str) -> BadSetting:
    shown = name if re.fullmatch(r"[\w.-]{1,40}", name) else _shown(name)
    close = difflib.get_close_matches(name, CLIENT_NAMES, n=1)
    question = f"; did you mean {close[0]}?" if close else ""
    return BadSetting(f"{SECTION}.{shown}", f"{SECTION} has no setting {shown}{question}")


def _not_a_map(name: str, value: object, content: str) -> BadSetting:
    full = f"{SECTION}{name}"
    return BadSetting(full, f"{full} is {_shown(value)}; give a map of {content}; using the defaults")


def _shown(value: object) -> str:
    """A value as the user wrote it, in JSON, on one line and not long."""
    try:
        text = json.dumps(value, ensure_ascii=False)
        # Lone surrogates, which no message can carry, are among what is not printable.
        if not text.isprintable():
            text = json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        # Not JSON, too long a number, or too deeply nested.
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= 40 else f"{text[:39]}…"


def _spelled(default: object) -> str:
    return default if isinstance(default, str) and default else json.dumps(default)


# A value, or None where the default is to be used, and for each thing that was refused what it is.
_Parser = Callable[[object], tuple[Any, tuple[str, ...]]]


def _one(convert: Callable[[object], object]) -> _Parser:
    """A setting that is good or bad as a whole; convert answers None for a bad value."""

    def parse_one(value: object) -> tuple[Any, tuple[str, ...]]:
        converted = convert(value)
        return converted, () if converted is not None else (f"is {_shown(value)}",)

    return parse_one


def _list(convert: Callable[[object], str | None], least: int) -> _Parser:
    """A setting whose bad items are left out while good ones remain."""

    def parse_list(value: object) -> tuple[Any, tuple[str, ...]]:
        if not isinstance(value, (list, tuple)):
            return None, (f"is {_shown(value)}",)
        converted = [(item, convert(item)) for item in value]
        kept = tuple(good for _, good in converted if good is not None)
        if len(kept) < least or (value and not kept):
            return None, (f"is {_shown(value)}",)
        return kept, tuple(f"has {_shown(item)}" for item, good in converted if good is None)

    return parse_list


def _map(is_good: Callable[[str, object], bool], show: Callable[[object], str], null_is_default: bool) -> _Parser:
    """A setting with keys of the user's own, of which bad ones are left out."""

    def parse_map(value: object) -> tuple[Any, tuple[str, ...]]:
        if not isinstance(value, Mapping):
            return None, (f"is {show(value)}",)
        kept = []
        refused = []
        for key, item in value.items():
            if item is None and null_is_default:
                continue
            if isinstance(key, str) and is_good(key, item):
                kept.append((key, item))
            else:
                refused.append(f"has {show(item)} for {_shown(key)}")
        return tuple(sorted(kept)), tuple(refused)

    return parse_map


def _boolean(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _choice(*words: str) -> Callable[[object], str | None]:
    return lambda value: value if isinstance(value, str) and value in words else None


def _text(value: object) -> str | None:
    """Text that a path, an argument or a variable of the environment can be."""
    if not isinstance(value, str) or "\0" in value:
        return None
    # A lone surrogate can neither be sent to the agent nor given to a process.
    return None if any("\ud800" <= char <= "\udfff" for char in value) else value


def _some_text(value: object) -> str | None:
    return _text(value) or None


def _number(value: object) -> int | float | None:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _whole(least: int, most: int) -> Callable[[object], int | None]:
    """Whole numbers of a range; 20.0 is one, since some clients send every number as a float."""

    def convert(value: object) -> int | None:
        number = _number(value)
        return int(number) if number is not None and least <= number <= most and number == int(number) else None

    return convert


def _percent(value: object) -> float | None:
    number = _number(value)
    return float(number) if number is not None and 0 <= number <= 100 else None


# The digits are bounded because Python refuses to read integers of thousands of them.
_QUANTITY = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?)\s*([a-zμ]+)")
# Folding case also makes one letter of the micro sign and the Greek mu.
_TIME_UNITS_NS = {"ns": 1, "us": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9}
_SIZE_UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
_MOST_SECONDS = 10**9
_LEAST_STORE_BYTES = 10**6
# A worker with torch alone takes about 300 MB.
_LEAST_MEMORY_BYTES = 10**8
_MOST_STORE_BYTES = 10**18
_MOST_COUNT = 10**6
_MOST_PORT = 65535


def _quantity(value: object, units: dict[str, int]) -> Fraction | None:
    """A number with a unit, in the unit that counts as one; exact, as 0.29 is not as a float."""
    match = _QUANTITY.fullmatch(value.strip().casefold()) if isinstance(value, str) else None
    if match is None or match[2] not in units:
        return None
    from fractions import Fraction  # brings decimal along, and few ever need it

    return Fraction(match[1]) * units[match[2]]


def _seconds(value: object) -> float | None:
    number: int | float | Fraction | None = _number(value)
    if number is None and (time_ns := _quantity(value, _TIME_UNITS_NS)) is not None:
        number = time_ns / 10**9
    if number is None or not 0 < number < _MOST_SECONDS:
        return None
    seconds = float(number)
    # Just below the limit the nearest float is the limit.
    return seconds if seconds < _MOST_SECONDS else None


def _seconds_or_none(value: object) -> float | None:
    """Seconds of which there may be none."""
    return 0.0 if _nanoseconds(value) == 0 else _seconds(value)


def _nanoseconds(value: object) -> int | None:
    if _number(value) == 0 or (isinstance(value, str) and value.strip() == "0"):
        return 0
    time_ns = _quantity(value, _TIME_UNITS_NS)
    return round(time_ns) if time_ns is not None and time_ns < _MOST_SECONDS * 10**9 else None


def _size(value: object) -> int | None:
    size = _quantity(value, _SIZE_UNITS)
    return _whole(_LEAST_STORE_BYTES, _MOST_STORE_BYTES)(value if size is None else round(size))


def _memory(value: object) -> int | None:
    """A limit in bytes; 0, which no run could keep, is what stands for none."""
    if isinstance(value, str) and not value.strip():
        return 0
    size = _quantity(value, _SIZE_UNITS)
    return _whole(_LEAST_MEMORY_BYTES, _MOST_STORE_BYTES)(value if size is None else round(size))


def memory_bytes(text: str) -> int | None:
    """Bytes of a memory limit as the settings spell it, such as 8GB; None for what is none."""
    return _memory(text) or None


def cores(value: object) -> str | None:
    """NeuronCores as the settings spell them: auto, or a list such as 0,2-3; None for what is neither."""
    is_good = isinstance(value, str) and (value == "auto" or parse_cores(value) is not None)
    return _text(value) if is_good else None


def _run_folder(value: object) -> str | None:
    text = _some_text(value)
    if text is None:
        return None
    path = PurePath(text)
    if path.is_absolute():
        return text
    # Of Windows: a drive without a folder, or a folder without a drive.
    if path.anchor:
        return None
    depth = 0
    for part in path.parts:
        depth += -1 if part == ".." else 1
        if depth < 0:
            return None
    return text


def _store_folder(value: object) -> str | None:
    text = _text(value)
    return text if text is not None and (text.startswith("~") or not text or PurePath(text).is_absolute()) else None


def _module(value: object) -> str | None:
    is_name = isinstance(value, str) and all(part.isidentifier() for part in value.split("."))
    return _text(value) if is_name else None


def _is_variable(name: str, value: object) -> bool:
    return bool(_text(name)) and "=" not in name and _text(value) is not None


def _is_severity(code: str, value: object) -> bool:
    return code in DIAGNOSTIC_CODES and isinstance(value, str) and value in DIAGNOSTIC_SEVERITIES


def _kind(value: object) -> str:
    """What a value is without the value, since an environment holds secrets and messages end up in logs."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, str):
        return "a text"
    return "a map" if isinstance(value, Mapping) else "a list"


@dataclass(frozen=True, slots=True)
class _Row:
    # The client's name, below the section.
    name: str
    # The field of Settings.
    field: str
    # As a client spells it.
    default: Any
    # What follows the word give when the value is bad.
    wanted: str
    parse: _Parser
    # What of the good values stands for none.
    none_is: object = None


_SWITCH = "true or false"
_SECONDS = 'a number of seconds above 0, or a time such as "2min"'
_ROWS = (
    _Row("enable", "enable", True, _SWITCH, _one(_boolean)),
    _Row("runOnSave", "run_on_save", "manual", '"off", "manual" or "always"', _one(_choice(*get_args(RunOnSave)))),
    _Row("interpreter", "interpreter", "", "the path of a Python, or an empty text to have it found", _one(_text)),
    _Row("run.timeout", "run_timeout_s", 120, _SECONDS, _one(_seconds)),
    _Row("run.importTimeout", "run_import_timeout_s", 300, _SECONDS, _one(_seconds)),
    _Row("run.compileTimeout", "run_compile_timeout_s", 1800, _SECONDS, _one(_seconds)),
    _Row(
        "run.memoryLimit",
        "run_memory_limit_bytes",
        "",
        'a size of at least 100MB such as "8GB", or an empty text for no limit',
        _one(_memory),
        none_is=0,
    ),
    _Row("run.warmup", "run_warmup", 3, "a whole number from 0 to 1000000", _one(_whole(0, _MOST_COUNT))),
    _Row("run.repeats", "run_repeats", 5, "a whole number from 1 to 1000000", _one(_whole(1, _MOST_COUNT))),
    _Row(
        "run.onEditDuringRun",
        "run_on_edit_during_run",
        "finish",
        '"finish" or "cancel"',
        _one(_choice(*get_args(OnEdit))),
    ),
    _Row("device.whenBusy", "device_when_busy", "wait", '"wait" or "skip"', _one(_choice(*get_args(WhenBusy)))),
    _Row(
        "device.cores", "device_cores", "auto", '"auto", or a list of NeuronCores such as "0-3" or "0,2"', _one(cores)
    ),
    _Row(
        "device.idleRelease",
        "device_idle_release_s",
        60,
        'a number of seconds from 0, or a time such as "2min"',
        _one(_seconds_or_none),
    ),
    _Row("profile.mode", "profile_mode", "runtime", '"runtime" or "device"', _one(_choice(*get_args(ProfileMode)))),
    _Row("run.maxPerSave", "run_max_per_save", 20, "a whole number from 1 to 1000000", _one(_whole(1, _MOST_COUNT))),
    _Row(
        "run.cwd",
        "run_cwd",
        "workspace",
        '"workspace", "file", or a folder that is absolute or below the workspace folder',
        _one(_run_folder),
    ),
    _Row(
        "run.env",
        "run_env",
        {},
        'a map of variables to texts such as {"NAME": "text"}',
        _map(_is_variable, _kind, null_is_default=False),
    ),
    _Row("projectRoots", "project_roots", [], "a list of folders", _list(_some_text, least=0)),
    _Row("watchFolders", "watch_folders", [], "a list of folders", _list(_some_text, least=0)),
    _Row(
        "decorator.modules",
        "decorator_modules",
        ["profile_neuron"],
        'a list of at least one module name such as ["profile_neuron"]',
        _list(_module, least=1),
    ),
    _Row("hints.enable", "hints_enable", True, _SWITCH, _one(_boolean)),
    _Row("hints.minShare", "hints_min_share", 1, "a percentage from 0 to 100", _one(_percent)),
    _Row("hints.minTime", "hints_min_time_ns", "1us", 'a time such as "1us"', _one(_nanoseconds)),
    _Row(
        "hints.maxPerFunction",
        "hints_max_per_function",
        30,
        "a whole number from 0 to 1000000",
        _one(_whole(0, _MOST_COUNT)),
    ),
    _Row("hints.stale", "hints_stale", "mark", '"mark" or "hide"', _one(_choice(*get_args(StaleHints)))),
    _Row("hints.delta", "hints_delta", True, _SWITCH, _one(_boolean)),
    _Row("baseline", "baseline", "previous", '"previous" or "pinned"', _one(_choice(*get_args(Baseline)))),
    _Row("codeLens.enable", "code_lens_enable", True, _SWITCH, _one(_boolean)),
    _Row("diagnostics.enable", "diagnostics_enable", True, _SWITCH, _one(_boolean)),
    _Row(
        "diagnostics.severity",
        "diagnostics_severity",
        {},
        f"a map of {', '.join(DIAGNOSTIC_CODES)} to {', '.join(DIAGNOSTIC_SEVERITIES)}",
        _map(_is_severity, _shown, null_is_default=True),
    ),
    _Row(
        "explorer.mode",
        "explorer_mode",
        "auto",
        '"auto", "extension", "browser" or "none"',
        _one(_choice(*get_args(ExplorerMode))),
    ),
    _Row("explorer.uiPort", "explorer_ui_port", 3001, "a port from 1 to 65535", _one(_whole(1, _MOST_PORT))),
    _Row("explorer.apiPort", "explorer_api_port", 3002, "a port from 1 to 65535", _one(_whole(1, _MOST_PORT))),
    _Row(
        "store.directory",
        "store_directory",
        "",
        "an absolute folder, one that begins with ~, or an empty text",
        _one(_store_folder),
    ),
    _Row("store.maxSize", "store_max_bytes", "2GB", 'a size of at least 1MB such as "2GB", or bytes', _one(_size)),
)

CLIENT_NAMES: tuple[str, ...] = tuple(row.name for row in _ROWS)
# Settings that name a program, an environment or other folders, which one that is not trusted must not choose.
RESTRICTED: frozenset[str] = frozenset({"interpreter", "run.env", "watchFolders"})
# Settings of the machine, which a workspace cannot set.
MACHINE: frozenset[str] = frozenset({"store.directory", "store.maxSize", "explorer.uiPort", "explorer.apiPort"})
# Names that the extension reads itself, and names of versions to come, so that no one is told that they are wrong.
_FOREIGN = frozenset(
    {
        "trace.server", "heat.gutter", "host", "pathMap",
    }
)  # fmt: skip
# What may stand before a dot in a name.
_GROUPS = frozenset(name.rpartition(".")[0] for name in (*CLIENT_NAMES, *_FOREIGN)) - {""}
