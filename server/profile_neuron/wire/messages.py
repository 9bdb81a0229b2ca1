"""Every message between server, agent, worker and report, and the protocol's version."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from profile_neuron.core.model import Failure, Holder, LineCosts, State

PROTOCOL_VERSION = 1

# start is the import of torch in a new worker; compile is as long as a compiler of Neuron runs below the worker;
# read begins in the worker and goes on in the report.
Phase = Literal["start", "import", "inputs", "compile", "warm-up", "capture", "read", "attribute"]


# auto is a NeuronCore where the worker's torch has one, else the CPU.
Device = Literal["auto", "cpu", "neuron"]

# What of a NeuronCore is captured: when its executions run, or beside that what each of its engines does.
ProfileMode = Literal["runtime", "device"]


@dataclass(frozen=True, slots=True)
class Hello:
    """The first message in each direction."""

    protocol: int
    # agent, worker, report or server.
    role: str
    # Version of this package and of the interpreter that speaks.
    package: str
    python: str


@dataclass(frozen=True, slots=True)
class Limits:
    """How long the parts of a run may take, and how much they may use."""

    import_s: float
    run_s: float
    # While a compiler runs, the other two stand still.
    compile_s: float = 1800.0
    # Resident memory of the worker and everything it started; None for no limit.
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class RunRequest:
    """The wish to profile one function once."""

    run_id: str
    # Absolute path as the user spells it, and the hash of the bytes that the request is about.
    path: str
    sha256: str
    # The definition, as discovery found it.
    qualname: str
    first_line: int
    def_line: int
    # Overrides the decorator's option; None leaves it.
    repeats: int | None
    device: Device
    # Where the decorator is exported.
    decorator_modules: tuple[str, ...]
    # Folders whose files count as the project's; the first is the file's own project.
    project_roots: tuple[str, ...]
    # Working directory of the run.
    cwd: str
    limits: Limits
    # Empty on the way to the agent, which makes the folder.
    run_folder: str = ""
    # The folder is to be left in place after the run.
    keep: bool = False
    # Likewise, but only where a NeuronCore was measured and its profiler left a session in the folder.
    keep_device_files: bool = False
    # Stand in where the decorator does not say; None for the usual numbers.
    usual_warmup: int | None = None
    usual_repeats: int | None = None
    # The name of one of the decorator's inputs; empty for the first.
    input_set: str = ""
    # The file with what was recorded of the function; empty where there is none.
    recorded_inputs: str = ""
    # What to do while other processes hold the NeuronCores that the run may use.
    when_busy: Literal["wait", "skip"] = "wait"
    # The NeuronCores of the worker, as the runtime spells them, such as 0,2-3; auto is one that is free, or what the
    # user's environment says.
    cores: str = "auto"
    # How long a worker that holds NeuronCores may be idle after this run; 0 ends it with the run.
    idle_release_s: float = 60.0
    profile_mode: ProfileMode = "runtime"
    # The file cannot be executed twice in one process, as a run before has shown; only between agent and worker.
    executes_once: bool = False


@dataclass(frozen=True, slots=True)
class RunWaiting:
    """A run waits until a NeuronCore is free; sent again whenever the holders are others."""

    run_id: str
    holders: tuple[Holder, ...]


@dataclass(frozen=True, slots=True)
class Cancel:
    """Ends a run, wherever it is."""

    run_id: str


@dataclass(frozen=True, slots=True)
class EnvironmentRequest:
    """Asks what the worker's interpreter has; nothing of the user's is run."""

    # Also what only a bug report needs, which takes longer.
    details: bool = False


@dataclass(frozen=True, slots=True)
class Detail:
    """What a tool printed, or which names a package has, as text."""

    # The command without its folder, or the package.
    subject: str
    text: str
    # How a command ended, where it did not end well.
    ending: str = ""


@dataclass(frozen=True, slots=True)
class Environment:
    """What the worker's interpreter has; None where a package is absent."""

    python: str
    executable: str
    platform: str
    torch: str | None
    # Why torch could not be imported; empty where it could or is absent.
    torch_error: str
    torch_neuronx: str | None
    msgpack: str | None
    # settrace or monitoring.
    clock: str
    # Type and name of each device that torch sees, the CPU first.
    devices: tuple[str, ...]
    # beta, april or none: which profiler of TorchNeuron there is.
    neuron_api: str = "none"
    # NeuronCores that torch sees, and where it sees none why that is and what mends it; empty where not known.
    neuron_count: int = 0
    neuron_reason: str = ""
    neuron_advice: str = ""
    # Only where they were asked for.
    details: tuple[Detail, ...] = ()
    # What the agent adds; None from the worker.
    host: NeuronHost | None = None


@dataclass(frozen=True, slots=True)
class Tool:
    """A command line tool of Neuron that was found."""

    name: str
    # Absolute.
    path: str
    # A shell would find it by its name.
    is_on_path: bool
    # Empty where it does not say.
    version: str


@dataclass(frozen=True, slots=True)
class NeuronHost:
    """What a host has of Neuron beside packages of Python; all empty on a host that has nothing of it."""

    # Version of the loaded driver; empty where none is loaded.
    driver: str
    # Such as /dev/neuron0, sorted by number.
    device_files: tuple[str, ...]
    tools: tuple[Tool, ...]
    # All NeuronCores that neuron-ls tells of; None where nobody tells.
    core_count: int | None
    # Everybody who holds some.
    holders: tuple[Holder, ...]


@dataclass(frozen=True, slots=True)
class EnvironmentFailed:
    """Why the worker's interpreter could not be asked."""

    reason: str


@dataclass(frozen=True, slots=True)
class RunProgress:
    """A run entered a phase, or made a call in it."""

    run_id: str
    phase: Phase
    # Calls made and to be made in this phase; both 0 where that says nothing.
    done: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True)
class RunOutput:
    """Lines that user code, or what it started, printed during a run, without the last one's end."""

    # Empty where no run was on.
    run_id: str
    text: str


@dataclass(frozen=True, slots=True)
class Captured:
    """The worker has left a capture in the run folder."""

    run_id: str
    # The worker cannot be used again, because user code changed what cannot be put back.
    retire: bool = False
    # The worker owns NeuronCores until it ends.
    holds_cores: bool = False


@dataclass(frozen=True, slots=True)
class RunDone:
    """A run has a result; a function that raised has one too."""

    run_id: str
    costs: LineCosts
    # Empty where the folder was not kept.
    run_folder: str


@dataclass(frozen=True, slots=True)
class RunFailed:
    """A run has no result."""

    run_id: str
    # failed, cancelled, noInputs or busy.
    state: State
    failure: Failure
    # As in Captured; only between worker and agent.
    retire: bool = False
    # The same bytes ran in this worker before, so a new one may have more success; likewise.
    again: bool = False
    # As in Captured; likewise.
    holds_cores: bool = False


@dataclass(frozen=True, slots=True)
class ReleaseRequest:
    """Asks an agent, at its own socket, to end an idle worker that holds NeuronCores."""


@dataclass(frozen=True, slots=True)
class Released:
    """The answer: what became of the NeuronCores of an agent's worker."""

    # The worker that was ended, or that is in a run; None where none holds cores.
    pid: int | None = None
    # Which these are, as the runtime spells them; empty where not known.
    cores: str = ""
    # The function whose run is on, which goes on; empty where the worker was ended.
    running: str = ""


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """Asks to have a capture shown by Neuron Explorer; a run may be on meanwhile."""

    open_id: str
    # A run folder, or one with a session directory of the user's own.
    folder: str
    # What the profile is to be called, together with the run or the session.
    title: str
    # Where the viewer serves its pages and its data.
    ui_port: int = 3001
    api_port: int = 3002


@dataclass(frozen=True, slots=True)
class Opened:
    """A viewer shows the capture."""

    open_id: str
    # The page of the profile.
    url: str
    # The viewer was started by this agent and ends with it.
    is_ours: bool


@dataclass(frozen=True, slots=True)
class OpenFailed:
    """Why no viewer shows the capture, and what to do."""

    open_id: str
    reason: str
    # There is no Neuron Explorer on this host.
    is_missing: bool = False


@dataclass(frozen=True, slots=True)
class ViewerEnded:
    """A viewer that the agent started is gone."""

    reason: str


@dataclass(frozen=True, slots=True)
class ReportRequest:
    """Names the capture to the report program that waits; a process of its own answers, once."""

    run_folder: str


@dataclass(frozen=True, slots=True)
class ReportFailed:
    """The report could not make a result of a run folder."""

    reason: str


@dataclass(frozen=True, slots=True)
class ReportDone:
    """The report's result."""

    costs: LineCosts
    # A session directory of which Neuron Explorer's tables may tell the times of the device, where nothing else does.
    untold_session: str = ""


Message = (
    Hello
    | RunRequest
    | Cancel
    | EnvironmentRequest
    | Environment
    | EnvironmentFailed
    | RunProgress
    | RunWaiting
    | RunOutput
    | Captured
    | RunDone
    | RunFailed
    | ReleaseRequest
    | Released
    | OpenRequest
    | Opened
    | OpenFailed
    | ViewerEnded
    | ReportRequest
    | ReportDone
    | ReportFailed
)
