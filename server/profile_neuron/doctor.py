"""What a worker's interpreter has, as remarks for a person, each with what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from profile_neuron.wire.messages import Environment

GOOD, ABSENT, BROKEN = "✓", "–", "✗"

_UNTESTED_PYTHON = (3, 14)


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
    remarks.append(_torch_neuronx(environment))
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


def _torch_neuronx(environment: Environment) -> Remark:
    if environment.torch_neuronx is None:
        return Remark(ABSENT, "torch-neuronx", "not installed", "needed on a Trainium host only; times are of the CPU")
    advice = "this version measures the CPU only; Neuron device time is not built yet"
    return Remark(ABSENT, "torch-neuronx", environment.torch_neuronx, advice)
