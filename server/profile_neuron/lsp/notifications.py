"""What passes between the server and our extension beside the protocol of language servers.

The same shapes are in client-vscode/src/protocol.ts; a test compares the two. Lines count from 0.
Nothing of it is sent to a client that has not said, in capabilities.experimental.profileNeuron, that it takes it.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

TRUST = "profileNeuron/trust"
INTERPRETERS = "profileNeuron/interpreters"
HEAT = "profileNeuron/heat"
STATUS = "profileNeuron/status"
SHOW_REPORT = "profileNeuron/showReport"
REPORT = "profileNeuron/report"
OPEN_CAPTURE = "profileNeuron/openCapture"
OPEN_PAGE = "profileNeuron/openPage"


@dataclass(frozen=True, slots=True)
class ClientCapabilities:
    """What the client can do beside showing hints and lenses."""

    heat: bool = False
    status: bool = False
    report: bool = False
    open_capture: bool = False
    open_page: bool = False


@dataclass(frozen=True, slots=True)
class InitializationOptions:
    """Of which another client than our extension may leave out any."""

    # None where the client has no notion of trust.
    trusted: bool | None = None
    # The Python that runs code where neither a setting nor a folder names one; empty for none.
    fallback_interpreter: str = ""


@dataclass(frozen=True, slots=True)
class FunctionParams:
    """A function: its file, its qualified name, and which definition of that name it is, from 0."""

    uri: str
    qualname: str
    occurrence: int


@dataclass(frozen=True, slots=True)
class TrustParams:
    """To the server: whether code of the workspace may be run from now on."""

    trusted: bool


@dataclass(frozen=True, slots=True)
class ActiveInterpreter:
    """The interpreter that a person chose elsewhere in the editor."""

    # A workspace folder.
    uri: str
    path: str


@dataclass(frozen=True, slots=True)
class InterpretersParams:
    """To the server: which interpreters a person has chosen; replaces what was said before."""

    active: tuple[ActiveInterpreter, ...]


@dataclass(frozen=True, slots=True)
class HeatLine:
    """How warm a line is."""

    line: int
    # From 1, the least, to 5.
    level: int
    # The code was edited since it was measured.
    is_stale: bool


@dataclass(frozen=True, slots=True)
class HeatParams:
    """To the client: how warm the lines of a file are; replaces what was said of the file before."""

    uri: str
    # The version of the text that the lines are of.
    version: int
    lines: tuple[HeatLine, ...]


@dataclass(frozen=True, slots=True)
class InterpreterInUse:
    """The Python that runs the code of a folder."""

    # A workspace folder; empty for files outside of all.
    uri: str
    path: str
    # Where it comes from, in words.
    source: str
    # What is wrong with it and what to do, one sentence; empty for nothing that is known.
    problem: str


@dataclass(frozen=True, slots=True)
class StatusParams:
    """To the client: what the status item says."""

    # Without an icon.
    text: str
    # Something is on that the person can wait for.
    is_busy: bool
    # Whole sentences, one per line; empty for nothing more to say.
    detail: str
    interpreters: tuple[InterpreterInUse, ...]


@dataclass(frozen=True, slots=True)
class ReportRow:
    """A line of a function."""

    line: int
    source: str
    # As in a hint; empty where nothing was measured.
    time: str
    share: str
    # From 0 to 1, for a bar; 0 where there is no time.
    part: float
    operators: str
    delta: str


@dataclass(frozen=True, slots=True)
class ReportOperator:
    """An operator in all lines of a function."""

    name: str
    calls: str
    # Its own time on the host.
    host: str
    # Empty where it had none on a device.
    device: str


@dataclass(frozen=True, slots=True)
class Report:
    """The answer to the client's question for a function as it is now."""

    title: str
    # One sentence each: the state, the totals, how it was measured.
    summary: tuple[str, ...]
    is_stale: bool
    # What the time of a line is of: neuron or cpu.
    measure: str
    rows: tuple[ReportRow, ...]
    # Time that is of no single line, remarks at lines, warnings: one sentence each.
    notes: tuple[str, ...]
    # Those of the whole function, the most costly first.
    operators: tuple[ReportOperator, ...]


@dataclass(frozen=True, slots=True)
class OpenCaptureParams:
    """To the client, a request: show a capture by a means of its own, before a viewer reads it."""

    name: str
    folder: str
    mode: str


@dataclass(frozen=True, slots=True)
class OpenPageParams:
    """To the client, a request: show the page of a viewer that runs where the server runs."""

    url: str
    # The page asks this port for its data, by the name localhost.
    api_port: int


@dataclass(frozen=True, slots=True)
class OpenResult:
    """The client's answer to both."""

    is_shown: bool = False
    # Why not, and what to do, one sentence; empty where there is nothing to say.
    problem: str = ""


def wire_name(field: str) -> str:
    """The name of a field as the client spells it: isStale for is_stale."""
    first, *others = field.split("_")
    return first + "".join(other.capitalize() for other in others)


def to_json(value: Any) -> Any:
    """One of these shapes as JSON has it."""
    if dataclasses.is_dataclass(value):
        return {wire_name(item.name): to_json(getattr(value, item.name)) for item in dataclasses.fields(value)}
    return [to_json(item) for item in value] if isinstance(value, tuple) else value


def capabilities(experimental: object) -> ClientCapabilities:
    """What a client says that it can do; whatever is not said in so many words it cannot."""
    given = experimental.get("profileNeuron") if isinstance(experimental, dict) else None
    if not isinstance(given, dict):
        return ClientCapabilities()
    names = (item.name for item in dataclasses.fields(ClientCapabilities))
    return ClientCapabilities(**{name: given.get(wire_name(name)) is True for name in names})


def initialization_options(given: object) -> InitializationOptions:
    """What a client begins with."""
    options = given if isinstance(given, dict) else {}
    trusted, fallback = options.get("trusted"), options.get("fallbackInterpreter")
    return InitializationOptions(
        trusted if isinstance(trusted, bool) else None, fallback if isinstance(fallback, str) else ""
    )


def trust(params: Any) -> TrustParams | None:
    """The client's word on trust; None for what is none."""
    trusted = getattr(params, "trusted", None)
    return TrustParams(trusted) if isinstance(trusted, bool) else None


def interpreters(params: Any) -> InterpretersParams | None:
    """The interpreters that a client names; None where it names none in the way that was agreed."""
    active = getattr(params, "active", None)
    if not isinstance(active, list):
        return None
    pairs = [(getattr(item, "uri", None), getattr(item, "path", None)) for item in active]
    return InterpretersParams(
        tuple(ActiveInterpreter(uri, path) for uri, path in pairs if isinstance(uri, str) and isinstance(path, str))
    )


def function(params: Any) -> FunctionParams | None:
    """The function that a question is about; None for what is none."""
    uri, qualname = getattr(params, "uri", None), getattr(params, "qualname", None)
    occurrence = getattr(params, "occurrence", 0)
    if isinstance(uri, str) and isinstance(qualname, str) and isinstance(occurrence, int):
        return FunctionParams(uri, qualname, occurrence)
    return None


def open_result(answer: Any) -> OpenResult:
    """The client's answer to a wish to open something; what is no answer did not show it."""
    problem = getattr(answer, "problem", "")
    return OpenResult(getattr(answer, "isShown", None) is True, problem if isinstance(problem, str) else "")
