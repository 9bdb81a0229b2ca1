"""What the editor's person knows: files, their texts now and before, and which of them have results."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.torture.sources import CONSTANTS, FRESH, GOOD, HELPED, HELPER, Helper, Slot, Source

if TYPE_CHECKING:
    from collections import Counter
    from pathlib import Path
    from random import Random

FILES = ("alpha", "beta", "gamma", "delta")
SLOTS = 3
# Of each function 50 results are kept; what has had this many runs since may be gone.
KEPT_RUNS = 40
# The last results that a server has shown may not be on disk yet when it is killed.
WRITING_S = 2.0


@dataclass(frozen=True, slots=True)
class Known:
    """A text whose functions all have results of it, and what else these depend on."""

    code: Source
    helper: int
    environment: str


@dataclass(frozen=True, slots=True)
class Seen:
    """When a text was known, in seconds, and how many runs its functions had had by then."""

    at_s: float
    runs: dict[str, int]


@dataclass
class File:
    """A file with decorated functions."""

    name: str
    path: Path
    # What the editor shows.
    edited: Source
    # What was written last.
    saved: Source
    is_open: bool = False
    # Whether nothing came between the last save and now that could have kept its runs from ending.
    is_undisturbed: bool = False
    history: list[Source] = field(default_factory=list)
    known: dict[Known, Seen] = field(default_factory=dict)


@dataclass
class World:
    """All files, of which some import the helper."""

    folder: Path
    files: list[File]
    helper: Helper
    # A variable that runs get, on which their results depend.
    environment: str = ""
    # Every text that a function had on disk: only of these there can be results.
    written: set[Slot] = field(default_factory=set)

    @classmethod
    def begin(cls, folder: Path, rng: Random) -> World:
        """Files with good functions only."""
        files = []
        for name in FILES:
            uses_helper = name == "beta"
            kinds = [HELPED, *GOOD] if uses_helper else list(GOOD)
            slots = tuple(Slot(f"{name}_{number}", rng.choice(kinds), rng.choice(CONSTANTS)) for number in range(SLOTS))
            source = Source(slots, uses_helper)
            files.append(File(name, folder / f"{name}.py", source, source, history=[source]))
        world = cls(folder, files, Helper(1))
        for file in files:
            file.path.write_text(file.saved.text)
            world.written.update(file.saved.slots)
        world.helper_path.write_text(world.helper.text)
        return world

    @property
    def helper_path(self) -> Path:
        return self.folder / f"{HELPER}.py"

    @property
    def open_files(self) -> list[File]:
        return [file for file in self.files if file.is_open]

    def disturb(self) -> None:
        """Something happened that may end or drop the runs that wait or are on."""
        for file in self.files:
            file.is_undisturbed = False

    def key(self, source: Source) -> Known:
        """What the results of a text depend on as things are now."""
        return Known(source.code, self.helper.constant if source.uses_helper else 0, self.environment)

    def learn(self, file: File, now_s: float, runs: Counter[str]) -> None:
        """All runs that the last save of a file led to have ended."""
        good = {slot.name: runs[slot.name] for slot in file.saved.slots if file.saved.ending(slot) == FRESH}
        if file.is_undisturbed and file.saved.top.parses and good:
            file.known[self.key(file.saved)] = Seen(now_s, good)

    def forget_since(self, since_s: float) -> None:
        """A server was killed, before which it may not have written the last results."""
        for file in self.files:
            file.known = {known: seen for known, seen in file.known.items() if seen.at_s < since_s}

    def kept(self, file: File, runs: Counter[str]) -> dict[Known, set[str]]:
        """Texts with results under today's circumstances, and the functions whose results are surely kept."""
        found = {}
        for known, seen in file.known.items():
            names = {name for name, count in seen.runs.items() if runs[name] - count < KEPT_RUNS}
            if names and known == self.key(known.code):
                found[known] = names
        return found
