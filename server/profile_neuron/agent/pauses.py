"""How long to wait before something that did not come up is started again."""

from __future__ import annotations

_FIRST_S = 0.5
_LONGEST_S = 30.0


class Pauses:
    """Grows with every start that failed, until one succeeds; now is in seconds of any one clock."""

    def __init__(self) -> None:
        self._pause_s = 0.0
        self._not_before_s: float | None = None

    def failed(self, now_s: float) -> None:
        """A start failed."""
        self._pause_s = min(max(2 * self._pause_s, _FIRST_S), _LONGEST_S)
        self._not_before_s = now_s + self._pause_s

    def succeeded(self) -> None:
        """A start succeeded."""
        self._pause_s, self._not_before_s = 0.0, None

    def left_s(self, now_s: float) -> float:
        """How long the next start has to wait yet."""
        return 0.0 if self._not_before_s is None else max(0.0, self._not_before_s - now_s)
