"""The environment of a worker: the user's, without what disturbs a profile, with what a profile needs. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from profile_neuron.core.core_list import parse_cores

if TYPE_CHECKING:
    from collections.abc import Mapping

AUTO = "auto"

_VISIBLE_CORES = "NEURON_RT_VISIBLE_CORES"
_CORE_COUNT = "NEURON_RT_NUM_CORES"
_NEFF_CACHE = "TORCH_NEURONX_NEFF_CACHE_DIR"
_INSPECT = "NEURON_RT_INSPECT_"
_OLD_PROFILE = "NEURON_PROFILE"
# With these the compilers note which source line an instruction is of.
_DEBUG = {"NEURON_FRAMEWORK_DEBUG": "1", "NKI_DEBUG_INFO": "True", "XLA_IR_DEBUG": "1", "XLA_HLO_DEBUG": "1"}


@dataclass(frozen=True, slots=True)
class Need:
    """Which NeuronCores a worker is going to use."""

    # Numbers of certain ones; None where any will do.
    cores: frozenset[int] | None = None
    # How many, where any will do.
    count: int = 1


# Where nobody says more.
ANY_CORE = Need()


def worker_environment(
    environ: Mapping[str, str], cores: str, neff_cache: str
) -> tuple[dict[str, str], tuple[str, ...]]:
    """The environment of a worker, made of its agent's, and what the user should know of it.

    cores: as the runtime spells them, or auto for what the user's variables say. neff_cache: a folder of ours for
    compiled code, empty where there is none.
    Sources: the profiling guide and the runtime's configuration guide, SDK 2.32; no NEURON_RT_INSPECT variable may be
    set beside torch.profiler.
    """
    removed = sorted(name for name in environ if name.startswith(_INSPECT) or name == _OLD_PROFILE)
    found = {name: value for name, value in environ.items() if name not in removed}
    if cores != AUTO:
        # The runtime would take the first of the two, but not every program that reads them does.
        found.pop(_CORE_COUNT, None)
        found[_VISIBLE_CORES] = cores
    # Code that was compiled without them says nothing of lines, and a cache of the user's may be full of it.
    has_lines = all(name in environ for name in _DEBUG)
    if neff_cache and not (has_lines and _NEFF_CACHE in environ):
        found[_NEFF_CACHE] = neff_cache
    return {**_DEBUG, **found}, tuple(_remark(removed) for _ in removed[:1])


def needed_cores(environ: Mapping[str, str], cores: str) -> Need:
    """What a worker with this environment and setting is going to use; a variable that is no good counts as none."""
    text = environ.get(_VISIBLE_CORES, "") if cores == AUTO else cores
    if (numbers := parse_cores(text)) is not None:
        return Need(numbers)
    count = environ.get(_CORE_COUNT, "")
    if cores == AUTO and not text and count.isascii() and count.isdigit() and int(count[:9]) > 0:
        return Need(None, int(count[:9]))
    return Need()


def is_chosen_by_user(environ: Mapping[str, str], cores: str) -> bool:
    """Whether the setting or a variable says which NeuronCores it is to be, or how many."""
    return cores != AUTO or bool(environ.get(_VISIBLE_CORES) or environ.get(_CORE_COUNT))


def known_cores(environ: Mapping[str, str]) -> str:
    """The NeuronCores of a worker with this environment, as the runtime spells them; empty where it says nothing."""
    return environ.get(_VISIBLE_CORES, "")


def _remark(removed: list[str]) -> str:
    *others, last = removed
    names = f"{', '.join(others)} and {last} were" if others else f"{last} was"
    return f"{names} unset for this run, since the runtime's own capture and torch.profiler disturb each other"
