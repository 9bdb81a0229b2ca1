"""Whether code below a folder may be run: by the client's word, else by the person's kept answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from profile_neuron.daemon.trust import TrustRecord


class Permission:
    """What is known in memory; kept answers are read when a folder is looked at."""

    def __init__(self, record: TrustRecord) -> None:
        self._record = record
        # What a client that knows trust says of all folders.
        self.of_client: bool | None = None
        self._answers: dict[str, bool | None] = {}
        self._asked: set[str] = set()

    def granted(self, root: str) -> bool:
        """Whether code may be run; no is the answer until somebody says yes."""
        return self.of_client if self.of_client is not None else bool(self._answers.get(root))

    def look_up(self, root: str) -> None:
        """Read the kept answer for a folder; another server may have taken it."""
        kept = self._record.answer(root)
        if kept is not None:
            self._answers[root] = kept

    def answer(self, root: str, granted: bool) -> None:
        """Take and keep the person's answer. Raises OSError where it holds only until the server ends."""
        self._answers[root] = granted
        self._record.keep(root, granted)

    def is_to_be_asked(self, root: str) -> bool:
        """Whether to ask now, which is at most once per folder, and only where nobody else decides."""
        if self.of_client is not None or self._answers.get(root) is not None or root in self._asked:
            return False
        self._asked.add(root)
        return True
