"""Views to how warm their lines are, for an editor that marks lines beside their numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from profile_neuron.core.compare import whole_ns
from profile_neuron.core.render import hints

if TYPE_CHECKING:
    from collections.abc import Iterable

    from profile_neuron.core.model import FunctionView
    from profile_neuron.core.render import HintSettings

LEVELS = 5


@dataclass(frozen=True, slots=True)
class Heat:
    """How warm a line is."""

    line: int
    # From 1, the least, to LEVELS.
    level: int
    # Its number is not of today's code.
    is_stale: bool


def heat(views: Iterable[FunctionView], settings: HintSettings) -> tuple[Heat, ...]:
    """The lines that take time and that these settings give a hint, sorted, at most one Heat per line.

    A line whose figure it shares with others is as warm as all of them together.
    """
    return tuple(
        Heat(hint.line, heat_level(hint.row.cost.total_ns, whole_ns(hint.view.result)), not hint.view.is_current)
        for hint in hints(views, settings)
        # One that is shown for what it does on the host may take none of the device's.
        if hint.view.result is not None and hint.row.cost.total_ns > 0
    )


def heat_level(part_ns: int, whole_ns: int) -> int:
    """The level of a share, by its square root, so that small shares can be told apart.

    Up to 4 % of the time of the function it is 1, up to 16 % 2, up to 36 % 3, up to 64 % 4, above 5.
    """
    return next((level for level in range(1, LEVELS) if LEVELS**2 * part_ns <= level**2 * whole_ns), LEVELS)
