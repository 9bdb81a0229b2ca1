"""The data that flows from source text to costs per line; lines are 1-based, times are nanoseconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FunctionKind = Literal["function", "async function", "method", "async method"]

# Of the states a person sees, those that the end of a run can give.
State = Literal["fresh", "failed", "cancelled", "noInputs", "busy"]

DeviceKind = Literal["cpu", "neuron"]

# Whose clock the times of lines are of: operators on the host, or executions on the device.
Measure = Literal["host", "device"]

# Which way a copy goes between host and device, if it leaves the device at all.
Direction = Literal["to device", "from device", "on device", "unknown"]

# What an operator does that keeps the device waiting, or a clock that is read too early.
RemarkKind = Literal["cpu-fallback", "host-sync", "transfer", "missing-synchronize"]

# What an eager operator and a compiled call have in common is that both are dispatched as one thing.
COMPILED_REGION = "Torch-Compiled Region"

# The warning of a run in which nothing was measured, which views show in place of a time.
NO_OPERATORS = "no operators ran"


@dataclass(frozen=True, slots=True)
class FunctionSpec:
    """One decorated function as text."""

    qualname: str
    kind: FunctionKind
    # The line of our decorator, of the first decorator of any kind, of def, and of the end.
    decorator_line: int
    first_line: int
    def_line: int
    last_line: int
    # Columns of the name on the line of def, in UTF-8 bytes as the ast module counts.
    name_column: int
    name_end_column: int
    # Names of the inputs that the decorator gives; empty where it gives no named ones, or the text does not tell.
    input_sets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Dependency:
    """A function of the same file that a function may depend on, as it was."""

    # Its qualified name, with a number where the file has several of that name.
    name: str
    digest: str


@dataclass(frozen=True, slots=True)
class Anchor:
    """A place for one hint: the first line of a statement, or of several that share it."""

    line: int
    last_line: int
    statements: int


@dataclass(frozen=True, slots=True)
class FunctionSpan:
    """One function of a file, decorated or not, with the lines of its source."""

    qualname: str
    first_line: int
    def_line: int
    last_line: int
    decorated: bool
    # Index of the enclosing function in the list this span is in; None at module or class level.
    parent: int | None


@dataclass(frozen=True, slots=True)
class Event:
    """One operator, or one of our own ranges, on one thread of the host."""

    name: str
    # Native thread id.
    thread: int
    start_ns: int
    end_ns: int
    # Rises with the start within a thread; orders events whose stamps are equal.
    order: int
    # By which events of the device name an operator; None where the source gives none.
    external_id: int | None = None


@dataclass(frozen=True, slots=True)
class DeviceEvent:
    """What one event of the device says, on a clock of its own: an execution or a part of one, or a copy."""

    name: str
    role: Literal["kernel", "copy", "driver"]
    start_ns: int
    duration_ns: int
    # External id of the operator that it is linked to; None without a link, as with the next two.
    external_id: int | None
    # Equal for what belongs to one dispatch.
    correlation: int | None
    # The runtime's number of the execution.
    sequence: int | None


@dataclass(frozen=True, slots=True)
class Submission:
    """An operator as the runtime knows it: the framework's sequence number on one of its threads."""

    # Numbers of torch's own, or native thread ids.
    thread: int
    sequence_nr: int


@dataclass(frozen=True, slots=True)
class Execution:
    """One execution on the device, or one copy, with what asked for it; with nothing where that is not known."""

    name: str
    # None for what is no copy.
    direction: Direction | None
    device_ns: int
    # External ids.
    operators: tuple[int, ...]
    submissions: tuple[Submission, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceTrace:
    """What ran on the device, as one source tells it."""

    executions: tuple[Execution, ...]
    # The host's events that the executions name, as the same source tells them.
    events: tuple[Event, ...]
    # For the provenance of the numbers.
    source: str
    # Times are of driver events, which may wait for the ones before.
    may_include_queueing: bool = False
    warnings: tuple[str, ...] = ()
    # Events are known to be missing.
    is_incomplete: bool = False


@dataclass(frozen=True, slots=True)
class Trace:
    """The events of the profiled calls, from whichever source."""

    events: tuple[Event, ...]
    # Which file the events were read from, for the provenance of the numbers.
    source: str
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PythonFrame:
    """One execution of a Python function, as torch's profiler notes it: model.py(3): rms."""

    name: str
    # As in Event.
    thread: int
    start_ns: int
    # Later than it was where the profiler missed the return.
    end_ns: int
    # Number of the frame; None where the source gives none.
    number: int | None
    # Number of the frame that called it; None for the first of a thread too.
    parent: int | None


@dataclass(frozen=True, slots=True)
class FrameworkTrace:
    """All that an exported trace says, whoever recorded it, as far as it can be read."""

    operators: tuple[Event, ...]
    # Ranges of the user's and of the profiler's.
    annotations: tuple[Event, ...]
    # What device events name where no operator with a time does, of no length: operators whose end is not known, and
    # dispatches outside of all operators, which have External ids below zero.
    places: tuple[Event, ...]
    frames: tuple[PythonFrame, ...]
    # With the External id of the operator or place that asked for them; None where none is known.
    device_events: tuple[DeviceEvent, ...]
    # How often the device was asked for something, whatever came of it.
    dispatches: int
    # partial where something is missing, damaged or without a time; the warnings say what.
    status: Literal["complete", "partial"]
    # One sentence for each kind of fault, without its period.
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A project file as it was executed."""

    path: str
    text: str
    # Its dotted package, by which its relative imports are resolved; empty outside of packages.
    package: str = ""


@dataclass(frozen=True, slots=True)
class ExecutedFile:
    """A project file of which code was executed, by the hash of the bytes."""

    path: str
    sha256: str
    # First lines of the functions in it that were entered in any part of the run, import and inputs included.
    # A decorated function's first line is that of its first decorator. Sorted.
    reached: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ModuleDependency:
    """A project module that a run imported, and what of it the run depends on."""

    path: str
    sha256: str
    # Digest of what an import of it executes; empty where that is not known, and then the bytes decide.
    import_code: str
    # The functions that the run reached.
    functions: tuple[Dependency, ...]


@dataclass(frozen=True, slots=True)
class CodeEntries:
    """One code object that ran, and how often it was entered during the profiled calls."""

    # Index into LineLog.files.
    file: int
    # First line of the code object, which for a function is that of its first decorator.
    first_line: int
    name: str
    # Recursion included, resumptions not.
    count: int


@dataclass(frozen=True, slots=True)
class RunLine:
    """A line that ran; its position in LineLog.lines is the number in the name of its ranges."""

    # Index into LineLog.codes.
    code: int
    line: int


@dataclass(frozen=True, slots=True)
class SequenceMark:
    """From a sequence number of the framework on, until the next mark of its thread, a stack of lines ran."""

    # Native thread id.
    thread: int
    sequence_nr: int
    # None outside of the profiled calls.
    call: int | None
    # Positions in LineLog.lines, outermost first.
    lines: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LineLog:
    """What the numbers in our range names mean."""

    files: tuple[SourceFile, ...]
    codes: tuple[CodeEntries, ...]
    lines: tuple[RunLine, ...]
    # Native ids of the threads that ran before the first profiled call; what they do is not the function's.
    earlier_threads: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Frame:
    """One line of a traceback in the user's project."""

    path: str
    line: int
    function: str
    # The text of that line without indentation; empty where it cannot be read.
    text: str


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a run has no result, or only a part of one."""

    # One sentence; begins with a code such as not-runnable: where there is one.
    reason: str
    # Outermost first; empty where no line of the project is to blame.
    frames: tuple[Frame, ...] = ()
    # The interpreter cannot be used as it is, whatever function is to run.
    is_of_interpreter: bool = False

    @property
    def is_compiler(self) -> bool:
        """Whether the compiler refused the code, which it will do again."""
        return self.reason.startswith("compile-failed:")


@dataclass(frozen=True, slots=True)
class Toolchain:
    """What ran: versions and the device."""

    python: str
    executable: str
    # The folder that packages are installed in, purelib of sysconfig; empty where unknown.
    site_packages: str
    torch: str
    device_kind: DeviceKind
    device_name: str
    # settrace or monitoring.
    clock: str
    # Names and versions of the Neuron packages that are installed, sorted.
    packages: tuple[str, ...] = ()
    # Whether the user's own programs can import the decorator there; None where unknown.
    has_decorator: bool | None = None


@dataclass(frozen=True, slots=True)
class DeviceCapture:
    """What the worker knows of a capture on a NeuronCore beside the trace."""

    # What torch-neuronx has for profiling: beta, april or none, as in worker/neuron.py.
    api: str
    # runtime, or device as well.
    mode: str
    # Of the worker, by which the profiler names its folders.
    pid: int
    # Names of operators that ran on the CPU instead in the calls, as torch-neuronx tells them, with a namespace or not;
    # None where it does not tell.
    fallback_operators: tuple[str, ...] | None = None
    # What is not as it should be, one sentence each without its period.
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What the worker notes beside the trace: which function ran, how, and how it ended."""

    run_id: str
    path: str
    qualname: str
    # Shown in place of the qualified name; the decorator's name= option.
    name: str | None
    def_line: int
    first_line: int
    # Names of the modules that export the decorator.
    decorator_modules: tuple[str, ...]
    # The function itself went through torch.compile, so its region has no line of its own.
    compiled: bool
    # A coroutine or async generator, whose tasks may run beside it on its own thread.
    is_async: bool
    warmup: int
    repeats: int
    # Where the inputs came from, for the reader.
    inputs: str
    toolchain: Toolchain
    # The project modules that the run imported, the profiled file left out; sorted by path.
    modules: tuple[ExecutedFile, ...]
    failure: Failure | None
    warnings: tuple[str, ...]
    # As in ExecutedFile, of the profiled file.
    reached: tuple[int, ...] = ()
    # How the worker came to the module, for the reader.
    loading: str = ""
    # Shapes, types and devices of the inputs, for the reader and to tell two runs apart.
    signature: str = ""
    # None where nothing but the CPU was measured.
    device: DeviceCapture | None = None
    # Of what was measured, which is not always what there is; empty for that of the toolchain.
    device_name: str = ""


@dataclass(frozen=True, slots=True)
class AgentNotes:
    """What the agent knows of a run that the worker cannot."""

    # About the environment of the worker, one sentence each without its period.
    remarks: tuple[str, ...] = ()
    # As the runtime printed.
    dropped_events: int = 0
    # Names of operators that ran on the CPU instead in this or an earlier run of the worker, as torch-neuronx printed:
    # it does so once.
    fallback_operators: tuple[str, ...] = ()


NO_NOTES = AgentNotes()


@dataclass(frozen=True, slots=True)
class OperatorCalls:
    """How often an operator ran, as an average over the profiled calls."""

    name: str
    calls: float


@dataclass(frozen=True, slots=True)
class OperatorRemark:
    """An operator that keeps the device waiting, as an average over the profiled calls."""

    kind: RemarkKind
    # Or the call that reads the clock.
    operator: str
    calls: float
    # From the start of the operator to its end on the host.
    host_ns: int
    # Which ways it copies.
    directions: tuple[Direction, ...] = ()


@dataclass(frozen=True, slots=True)
class LineCost:
    """Time of one line, as an average over the profiled calls, of what FunctionCosts.measure says."""

    line: int
    # The part with no deeper project frame, and all of it.
    self_ns: int
    total_ns: int
    # Standard deviation of total_ns between the calls; None for a single call.
    spread_ns: int | None
    operators: tuple[OperatorCalls, ...]
    # Time of the fastest call, and by how much that of another run may differ; None without several calls that all
    # took time here.
    fastest_ns: int | None = None
    fastest_spread_ns: int | None = None
    # Beside device time: that of its operators on the host, and how often the device was started for it alone.
    host_ns: int | None = None
    executions: float | None = None
    remarks: tuple[OperatorRemark, ...] = ()


@dataclass(frozen=True, slots=True)
class SharedGroup:
    """Time that belongs to several lines together, or to some and code elsewhere, and is counted once."""

    lines: tuple[int, ...]
    ns: int
    # How often the device was started for it, as an average over the profiled calls.
    executions: float | None = None


@dataclass(frozen=True, slots=True)
class OperatorRow:
    """One row of the operator table, as torch's key_averages would show it, averaged over the calls."""

    name: str
    calls: float
    self_host_ns: int
    # None where nothing was measured on a device.
    device_ns: int | None


@dataclass(frozen=True, slots=True)
class FunctionCosts:
    """Costs of one function; the totals of its lines, its shared groups and the rest add up."""

    path: str
    qualname: str
    # What the decorator's name= option says; None without it.
    name: str | None
    line: int
    last_line: int
    decorated: bool
    state: State
    reason: str | None
    frames: tuple[Frame, ...]
    # Entries during all profiled calls; None where it did not run.
    calls: int | None
    device_ns: int | None
    host_ns: int | None
    unattributed_ns: int | None
    spread_ns: int | None
    lines: tuple[LineCost, ...]
    shared: tuple[SharedGroup, ...]
    operators: tuple[OperatorRow, ...]
    warnings: tuple[str, ...]
    provenance: str
    # As in LineCost.
    fastest_ns: int | None = None
    fastest_spread_ns: int | None = None
    # Whose time the lines, the groups and the rest are of.
    measure: Measure = "host"
    # Something that was measured is missing, so that device times are at least what they say.
    is_lower_bound: bool = False
    # Device times may include what an execution waited for the ones before.
    may_include_queueing: bool = False
    executions: float | None = None

    @property
    def measured_ns(self) -> int:
        """What the lines, the groups and the rest add up to."""
        return (self.device_ns if self.measure == "device" else self.host_ns) or 0


@dataclass(frozen=True, slots=True)
class LineCosts:
    """The result of one run: the profiled function first, then the project functions that it reached."""

    device_kind: DeviceKind
    device_name: str
    toolchain: Toolchain
    # Where the inputs came from, for the reader.
    inputs: str
    warmup: int
    # Profiled calls that are in the trace.
    repeats: int
    functions: tuple[FunctionCosts, ...]
    # Source text by path, of every file that has a function here, as it was executed.
    sources: tuple[SourceFile, ...]
    # The project modules that the run imported, the profiled file left out; sorted by path.
    modules: tuple[ExecutedFile, ...]
    # As in RunRecord.
    reached: tuple[int, ...] = ()
    loading: str = ""
    signature: str = ""


@dataclass(frozen=True, slots=True)
class RowCost:
    """Costs of the statements of a function that share a line and so a hint."""

    # Positions in Result.statements; -1 to 0 is the line of def.
    start: int
    stop: int
    self_ns: int
    total_ns: int
    # None also where the row has several lines, whose deviations do not add up.
    spread_ns: int | None
    operators: tuple[OperatorCalls, ...]
    # As in LineCost, those of its lines added up: no call was faster, and the spread is no more. None where one is not
    # known.
    fastest_ns: int | None = None
    fastest_spread_ns: int | None = None
    # As in LineCost.
    host_ns: int | None = None
    executions: float | None = None
    remarks: tuple[OperatorRemark, ...] = ()
    # Start and stop of further rows that the time is of together.
    also: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """What one run of a function gave, with what it takes to know it again and to find its lines in a later text."""

    path: str
    qualname: str
    # Which of several definitions with that qualified name, from 0.
    occurrence: int
    run_id: str
    # Seconds since 1970.
    finished_s: float
    # Digest of all that it depends on.
    key: str
    # Digest of what the run was made with beside the code: interpreter, torch, device, settings.
    circumstances: str
    # Digests of the function, of its statements alone, and of what decides its arguments.
    tree: str
    body: str
    interface: str
    # Digest of the file's code outside of functions, and the functions it may depend on.
    module_code: str
    functions: tuple[Dependency, ...]
    # The other project modules that the run imported.
    modules: tuple[ModuleDependency, ...]
    # Digests of its statements, outer before inner.
    statements: tuple[str, ...]
    # Of each of them how deep and in which block it stood, and how it began, for a reader.
    blocks: tuple[str, ...]
    texts: tuple[str, ...]
    rows: tuple[RowCost, ...]
    costs: FunctionCosts
    device_kind: DeviceKind
    device_name: str
    repeats: int
    warmup: int
    inputs: str
    toolchain: Toolchain
    # As in RunRecord.
    loading: str = ""
    signature: str = ""
    # Digest of which inputs a person chose, and of the recorded ones that there were; empty for neither.
    choice: str = ""
    # Where the Neuron profiler's files of the run are, as long as nobody removes them; empty where there are none.
    run_folder: str = ""
    # The person made it the one that later ones are compared with; known from the store and not from the run.
    is_pinned: bool = False


@dataclass(frozen=True, slots=True)
class ShownRow:
    """A row of a result in today's text."""

    line: int
    cost: RowCost
    # Lines of today's text among which the figure cannot be divided, this one included; empty for an own figure.
    shared: tuple[int, ...] = ()


# Which earlier result one is compared with.
BaselineChoice = Literal["previous", "pinned"]


@dataclass(frozen=True, slots=True)
class Change:
    """A time beside what it was in the baseline."""

    # Averages over the calls, which are shown.
    previous_ns: int
    ns: int
    # Part of previous_fastest_ns by which runs of the same code may differ; None where that is not known.
    noise: float | None
    # Of the fastest calls, which are compared; None where they are not known.
    previous_fastest_ns: int | None = None
    fastest_ns: int | None = None


@dataclass(frozen=True, slots=True)
class RowChange:
    """What became of a row since the baseline."""

    # As in RowCost, by which the row is found.
    start: int
    # None for a row that the baseline has not.
    change: Change | None
    # How the statement began that this one stands in place of; empty for one that stayed as it was.
    was: str = ""


@dataclass(frozen=True, slots=True)
class RemovedRow:
    """A row of the baseline whose statements are gone."""

    text: str
    total_ns: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """A result beside an earlier one of its function."""

    choice: BaselineChoice
    # None where there is nothing to compare with.
    baseline: Result | None
    # Why nothing is compared, one sentence; empty where something is.
    reason: str
    total: Change | None = None
    # Sorted by start; without those that cannot be told apart in one of the two results.
    rows: tuple[RowChange, ...] = ()
    removed: tuple[RemovedRow, ...] = ()


# What a person sees of a function.
ShownState = Literal[
    "none", "queued", "running", "busy", "fresh", "stale", "failed", "cancelled", "untrusted", "noInputs"
]


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that holds NeuronCores."""

    pid: int
    # Empty where it is not known.
    command: str
    # Numbers of the cores, sorted; empty where they are not known.
    cores: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Activity:
    """A run that is waited for or on."""

    run_id: str
    # How many runs come first; None for the one that is on.
    ahead: int | None
    # As in RunProgress, or busy while it waits for a device.
    phase: str = ""
    done: int = 0
    total: int = 0
    # When the phase began, in seconds since 1970, and how many seconds it took in the last run; None where unknown.
    began_s: float = 0.0
    last_s: float | None = None
    # Who holds what it waits for.
    holders: tuple[Holder, ...] = ()


@dataclass(frozen=True, slots=True)
class FunctionView:
    """What there is to show of one decorated function, in the lines of today's text."""

    spec: FunctionSpec
    occurrence: int
    state: ShownState
    # The result whose numbers are shown, whether it is of today's code, and if not why.
    result: Result | None
    is_current: bool
    reasons: tuple[str, ...]
    # Its arguments may be others now, so that its numbers say nothing about it.
    inputs_changed: bool
    # Sorted by line.
    rows: tuple[ShownRow, ...]
    activity: Activity | None = None
    failure: Failure | None = None
    # Where the failure is to be shown in today's text.
    failure_line: int | None = None
    # Of numbers of today's code with earlier ones; None where there are none of today's.
    comparison: Comparison | None = None
    # What a run would measure, as far as that is known.
    device_kind: DeviceKind = "cpu"
