"""What the daemon tells an editor, whichever protocol that speaks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from profile_neuron.core.model import Holder
    from profile_neuron.daemon.scheduler import FunctionId


@dataclass(frozen=True, slots=True)
class RunNews:
    """How far a run is."""

    run_id: str
    function: FunctionId
    phase: str = ""
    done: int = 0
    total: int = 0
    # While the phase is busy: who holds the device.
    holders: tuple[Holder, ...] = ()


class Editor(Protocol):
    """The other side of the daemon. No method waits for a person or for the editor."""

    def repaint(self, urgent: bool) -> None:
        """Hints, lenses and findings are others now. urgent: as soon as may be, else together with others."""

    def run_started(self, news: RunNews) -> None:
        """A run is on."""

    def run_progressed(self, news: RunNews) -> None:
        """A run has entered a phase, or made a call in it."""

    def run_ended(self, news: RunNews, summary: str) -> None:
        """A run is over; summary says how in a few words."""

    def ask_trust(self, root: str, names: Sequence[str]) -> None:
        """Ask the person, once, whether code below a folder may be run; Daemon.answer_trust takes the answer."""

    def log(self, text: str) -> None:
        """Something for whoever looks what happened."""

    def warn(self, text: str) -> None:
        """One sentence that a person should see now, since they asked for something or set something."""
