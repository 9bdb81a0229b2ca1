"""How long each part of a run has taken and may take; a compiler's time is its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from profile_neuron.wire.messages import Limits, Phase

_START_S = 600.0
_READ_S = 600.0


class PhaseClock:
    """The phase that a run is in, and the limit that counts; now is in seconds of any one clock."""

    def __init__(self, limits: Limits, now_s: float) -> None:
        # Inputs and calls share a limit. Starting and reading out are not the user's code.
        self._limits_s: dict[Phase, float] = {
            "start": _START_S,
            "import": limits.import_s,
            "inputs": limits.run_s,
            "read": _READ_S,
            "compile": limits.compile_s,
        }
        self._used_s = dict.fromkeys(self._limits_s, 0.0)
        self._last_s = now_s
        # The phase that began to count; the calls go on with that of the inputs.
        self._counted: Phase = "start"
        self._phase: Phase = "start"
        self._is_compiling = False

    @property
    def phase(self) -> Phase:
        """What the run is in now."""
        return "compile" if self._is_compiling else self._phase

    @property
    def limit_s(self) -> float:
        """The limit that counts now."""
        return self._limits_s[self._now_counted]

    def enter(self, phase: Phase, now_s: float) -> None:
        """The worker went on to a phase."""
        self._advance(now_s)
        self._phase = phase
        if phase in self._limits_s:
            self._counted = phase

    def set_compiling(self, is_on: bool, now_s: float) -> None:
        """A compiler was seen to run, or not."""
        self._advance(now_s)
        self._is_compiling = is_on

    def left_s(self, now_s: float) -> float:
        """What is left of the limit that counts."""
        return self.limit_s - self._used_s[self._now_counted] - (now_s - self._last_s)

    @property
    def _now_counted(self) -> Phase:
        return "compile" if self._is_compiling else self._counted

    def _advance(self, now_s: float) -> None:
        self._used_s[self._now_counted] += now_s - self._last_s
        self._last_s = now_s
