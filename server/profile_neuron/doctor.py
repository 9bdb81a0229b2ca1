"""What a worker's interpreter and its host have, as remarks for a person, each with what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from profile_neuron.core.model import Holder
    from profile_neuron.wire.messages import Environment, NeuronHost, Tool

GOOD, ABSENT, BROKEN = "✓", "–", "✗"

_UNTESTED_PYTHON = (3, 14)
_TOOLS = {
    "neuron-ls": "without it nobody says who holds the NeuronCores",
    "neuron-explorer": "needed to open a profile in Neuron Explorer",
}
# Of torch, for which there is a TorchNeuron of the same version.
_TORCH_VERSIONS = ("2.13", "2.14")
# Its address is in the guide of the SDK, and may change with it.
_INDEX = "--extra-index-url with the index of AWS's setup guide for PyTorch on Neuron"


class Remark(NamedTuple):
    """One line of the doctor's list; broken means that functions cannot be run."""

    mark: str
    subject: str
    finding: str
    # Empty where nothing has to be done.
    advice: str = ""


def diagnose(environment: Environment) -> list[Remark]:
    """Remarks from the interpreter to the device, in reading order."""
    interpreter = f"Python {environment.python} ({environment.executable}), {environment.platform}"
    remarks = [Remark(GOOD, "interpreter", interpreter), Remark(GOOD, "line clock", f"sys.{environment.clock}")]
    if tuple(int(part) for part in environment.python.split(".")[:2]) >= _UNTESTED_PYTHON:
        remarks.append(Remark(ABSENT, "", "this version of Python is untested", "use 3.10 to 3.13 if lines look wrong"))
    remarks.append(_torch(environment))
    remarks += [Remark(GOOD, "device", device) for device in environment.devices]
    remarks += _neuron(environment)
    remarks.append(Remark(GOOD, "msgpack", environment.msgpack or "the one that profile-neuron brings"))
    return remarks


def _torch(environment: Environment) -> Remark:
    install = f"{environment.executable} -m pip install"
    if environment.torch is None:
        return Remark(BROKEN, "torch", "not installed", f"{install} torch==2.13.0")
    if environment.torch_error:
        finding = f"{environment.torch}, but its import fails: {environment.torch_error}"
        public_version = environment.torch.partition("+")[0]
        return Remark(BROKEN, "torch", finding, f"{install} --force-reinstall torch=={public_version}")
    return Remark(GOOD, "torch", environment.torch)


def _neuron(environment: Environment) -> Iterator[Remark]:
    """What there is of Neuron; one calm line where there is nothing of it, since the CPU is measured then."""
    host = environment.host
    if host is None or not (environment.torch_neuronx or host.driver or host.device_files or host.tools):
        yield _torch_neuronx(environment)
        return
    yield _driver(host, environment.neuron_count)
    for name, purpose in _TOOLS.items():
        yield _tool(name, purpose, next((tool for tool in host.tools if tool.name == name), None))
    yield _torch_neuronx(environment)
    if host.core_count is not None:
        yield _cores(host.core_count, host.holders)


def _driver(host: NeuronHost, core_count: int) -> Remark:
    files = host.device_files
    named = f"{files[0]} to {files[-1]}" if len(files) > 1 else "".join(files)
    if host.driver and files:
        return Remark(GOOD, "driver", f"{host.driver}, {named}")
    if files:
        return Remark(GOOD, "driver", f"of an unknown version, {named}")
    if core_count:
        return Remark(ABSENT, "driver", "not seen from here, but torch-neuronx has NeuronCores")
    if host.driver:
        finding = f"{host.driver} is loaded, but there is no /dev/neuron0; times are of the CPU"
        return Remark(ABSENT, "driver", finding, "a container gets it by --device=/dev/neuron0")
    advice = "on a Trainium host: sudo apt-get install aws-neuronx-dkms && sudo modprobe neuron"
    return Remark(ABSENT, "driver", "not loaded, and there is no /dev/neuron0; times are of the CPU", advice)


def _tool(name: str, purpose: str, tool: Tool | None) -> Remark:
    if tool is None:
        return Remark(ABSENT, name, f"not found; {purpose}", "sudo apt-get install aws-neuronx-tools")
    version = f"{tool.version}, " if tool.version else ""
    if tool.is_on_path:
        return Remark(GOOD, name, f"{version}{tool.path}")
    folder = tool.path.rpartition("/")[0]
    return Remark(GOOD, name, f"{version}{tool.path}, which is not on PATH", f'export PATH="{folder}:$PATH"')


def _torch_neuronx(environment: Environment) -> Remark:
    found, subject = environment.torch_neuronx, "torch-neuronx"
    if found is None and (environment.neuron_count or environment.neuron_api != "none"):
        found = "of an unknown version"
    if found is None and environment.host is not None and environment.host.device_files:
        finding = f"not installed for {environment.executable}; times are of the CPU"
        advice = f"{_install(environment)}, or name the interpreter that has it with --python"
        return Remark(ABSENT, subject, finding, advice)
    if found is None:
        return Remark(ABSENT, subject, "not installed", "needed on a Trainium host only; times are of the CPU")
    if not environment.neuron_count:
        reason = environment.neuron_reason or "no NeuronCore can be used"
        return Remark(ABSENT, subject, f"{found}; times are of the CPU: {reason}", environment.neuron_advice)
    count = f"{environment.neuron_count} NeuronCore{'s' if environment.neuron_count > 1 else ''}"
    if environment.neuron_api == "beta":
        return Remark(GOOD, subject, f"{found} with NeuronConfig, {count}")
    old = "its profiler is that of April 2026, before NeuronConfig"
    finding = f"{found}, {count}, but {old if environment.neuron_api == 'april' else 'it has no profiler'}"
    return Remark(ABSENT, subject, finding, _install(environment, "install --upgrade"))


def _install(environment: Environment, command: str = "install") -> str:
    """The command that installs TorchNeuron beside this torch, or beside the newest one it is built for."""
    torch = ".".join((environment.torch or "").split(".")[:2])
    version = torch if torch in _TORCH_VERSIONS else _TORCH_VERSIONS[-1]
    packages = f'"torch-neuronx=={version}.*" "neuronx-cc==2.*" nki'
    return f"{environment.executable} -m pip {command} {packages}, {_INDEX}"


def _cores(count: int, holders: tuple[Holder, ...]) -> Remark:
    if not holders:
        return Remark(GOOD, "NeuronCores", f"{count}, held by nobody")
    told = " and ".join(_holder(holder) for holder in holders)
    return Remark(GOOD, "NeuronCores", f"{count}; {told}")


def _holder(holder: Holder) -> str:
    command = f" ({holder.command})" if holder.command else ""
    cores = ", ".join(map(str, holder.cores))
    return f"pid {holder.pid}{command} holds {cores or 'some'}"
