"""What a worker is started with: its environment, and in it the NeuronCores that it will take."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from profile_neuron.agent.device import free_core, held_cores
from profile_neuron.agent.environment import is_chosen_by_user, known_cores, worker_environment
from profile_neuron.folders import plain_cache_folder

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from profile_neuron.agent.device import Device


@dataclass(frozen=True, slots=True)
class Lease:
    """The NeuronCores of one worker, which owns them from its first use of the device until it ends."""

    # As in the request that it was started for.
    cores: str
    # The core that was free then; None where the user says which, or nobody tells.
    chosen: int | None
    environment: Mapping[str, str]
    # What the user should know of that.
    remarks: tuple[str, ...]

    @property
    def known_cores(self) -> str:
        """The cores as the runtime spells them; empty where nothing says which."""
        return known_cores(self.environment)

    def serves(self, cores: str, devices: Sequence[Device] | None, own_pids: Collection[int]) -> bool:
        """Whether its worker can carry out another run. devices: as they are now, None where that does not matter."""
        if cores != self.cores:
            return False
        if devices is None or is_chosen_by_user(os.environ, cores):
            return True
        if self.chosen is None:
            # Started when nothing was known of cores. If it has none yet, it would take all.
            return free_core(devices) is None
        others = {process.pid for device in devices for process in device.processes} - set(own_pids)
        return self.chosen not in held_cores(devices, others)


def lease(cores: str, devices: Sequence[Device] | None) -> Lease:
    """A lease for a worker that is about to be started. cores: auto takes what the user's environment says, else one
    that is free.

    devices: as they are now, None where nothing is known or the device is not going to be used.
    """
    chosen = None if devices is None or is_chosen_by_user(os.environ, cores) else free_core(devices)
    neff_cache, problems = _neff_cache()
    environment, remarks = worker_environment(os.environ, cores if chosen is None else str(chosen), neff_cache)
    return Lease(cores, chosen, environment, (*remarks, *problems))


def _neff_cache() -> tuple[str, tuple[str, ...]]:
    """A folder for compiled code that is ours alone, and why there is none."""
    try:
        return str(plain_cache_folder("neff")), ()
    except OSError as error:
        return "", (f"compiled code comes from the usual cache, where it may say nothing of lines ({error})",)
