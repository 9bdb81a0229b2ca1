"""Which run starts when: a pure state machine, events and the time in, actions out.

One run is on at a time, since two would disturb each other's numbers. Of each function at most one run waits,
and it is of the newest text. Runs that a person asked for come before those that a save started.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

# A formatter that runs on save makes two saves of one; so do editors that write twice.
GATHER_S = 0.3
_EARLY_S = 0.02


class FunctionId(NamedTuple):
    """A decorated function of a file."""

    path: str
    qualname: str
    # Which of several definitions with that qualified name, from 0.
    occurrence: int


@dataclass(frozen=True, slots=True)
class Wish:
    """The wish to run a function as it is in one text of its file."""

    run_id: str
    function: FunctionId
    # Of the text; a wish for another one replaces it.
    key: str
    # A person asked for it, other than by saving.
    asked: bool = False


@dataclass(frozen=True, slots=True)
class FileSaved:
    """An editor saved a file; manual saves and others are told apart before."""

    path: str


@dataclass(frozen=True, slots=True)
class TimerFired:
    """The time is up that StartTimer set."""

    path: str


@dataclass(frozen=True, slots=True)
class FileChecked:
    """What the saved text of a file wants to run; waiting runs of another text of it are in vain."""

    path: str
    wishes: tuple[Wish, ...]
    # The key of each function that the file has now, also of those that need no run.
    keys: tuple[tuple[FunctionId, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Asked:
    """A person wants these functions to be run now."""

    wishes: tuple[Wish, ...]


@dataclass(frozen=True, slots=True)
class RunEnded:
    """A run has given what it can."""

    run_id: str


@dataclass(frozen=True, slots=True)
class CancelAsked:
    """A person, or the end of what it belongs to, cancels the runs of these functions; None means all."""

    functions: frozenset[FunctionId] | None


@dataclass(frozen=True, slots=True)
class FileClosed:
    """A file is no longer shown, so nothing of it has to be started any more."""

    path: str


Event = FileSaved | TimerFired | FileChecked | Asked | RunEnded | CancelAsked | FileClosed


@dataclass(frozen=True, slots=True)
class StartTimer:
    """Send TimerFired at a time; a later StartTimer for the same file replaces it."""

    path: str
    at_s: float


@dataclass(frozen=True, slots=True)
class CheckFile:
    """Read the saved file and answer with FileChecked."""

    path: str


@dataclass(frozen=True, slots=True)
class StartRun:
    """Start a run; RunEnded answers it, whatever happens."""

    wish: Wish


@dataclass(frozen=True, slots=True)
class CancelRun:
    """End the run that is on; RunEnded answers its StartRun."""

    run_id: str


@dataclass(frozen=True, slots=True)
class Dropped:
    """A waiting run will not start. cancelled: because a person said so."""

    wish: Wish
    cancelled: bool


Action = StartTimer | CheckFile | StartRun | CancelRun | Dropped


@dataclass(slots=True)
class Scheduler:
    """The runs that wait and the one that is on."""

    running: Wish | None = None
    # In the order in which they will start.
    waiting: list[Wish] = field(default_factory=list)
    _timers: dict[str, float] = field(default_factory=dict)
    _cancelling: bool = False

    def handle(self, event: Event, now_s: float) -> list[Action]:
        """Take up one event; the actions are to be carried out in their order."""
        match event:
            case FileSaved(path):
                self._timers[path] = now_s + GATHER_S
                return [StartTimer(path, self._timers[path])]
            case TimerFired(path):
                due = self._timers.get(path)
                # A clock may strike a little early.
                if due is None or now_s < due - _EARLY_S:
                    return []
                del self._timers[path]
                return [CheckFile(path)]
            case FileChecked(path, wishes, keys):
                return self._checked(path, wishes, dict(keys))
            case Asked(wishes):
                return self._asked(wishes)
            case RunEnded(run_id):
                if self.running is not None and self.running.run_id == run_id:
                    self.running, self._cancelling = None, False
                return self._start()
            case CancelAsked(functions):
                return self._cancel(functions)
            case FileClosed(path):
                self._timers.pop(path, None)
                return self._drop(lambda wish: wish.function.path == path, cancelled=False)

    def ahead_of(self, function: FunctionId) -> int | None:
        """How many runs come before the waiting one of a function; None where none waits."""
        for position, wish in enumerate(self.waiting):
            if wish.function == function:
                return position + (self.running is not None)
        return None

    def _checked(self, path: str, wishes: tuple[Wish, ...], keys: dict[FunctionId, str]) -> list[Action]:
        wanted = {wish.function: wish for wish in wishes if not self._is_running(wish)}
        actions: list[Action] = []
        kept = []
        for wish in self.waiting:
            new = wanted.get(wish.function)
            if wish.function.path != path or (wish.asked and keys.get(wish.function) == wish.key):
                kept.append(wish)
                wanted.pop(wish.function, None)
            elif new is not None:
                # It keeps its place, and what a person asked for stays asked for.
                # Also of equal code: the bytes on disk may be others, by a comment.
                kept.append(replace(new, asked=wish.asked))
                del wanted[wish.function]
            else:
                actions.append(Dropped(wish, cancelled=False))
        self.waiting = [*kept, *wanted.values()]
        return actions + self._start()

    def _asked(self, wishes: tuple[Wish, ...]) -> list[Action]:
        new = [replace(wish, asked=True) for wish in wishes if not self._is_running(wish)]
        functions = {wish.function for wish in new}
        asked = [wish for wish in self.waiting if wish.asked and wish.function not in functions]
        others = [wish for wish in self.waiting if not wish.asked and wish.function not in functions]
        self.waiting = [*asked, *new, *others]
        return self._start()

    def _is_running(self, wish: Wish) -> bool:
        running = self.running
        return (
            running is not None
            and not self._cancelling
            and (running.function, running.key) == (wish.function, wish.key)
        )

    def _cancel(self, functions: frozenset[FunctionId] | None) -> list[Action]:
        actions = self._drop(lambda wish: functions is None or wish.function in functions, cancelled=True)
        if self.running is not None and (functions is None or self.running.function in functions):
            self._cancelling = True
            actions.append(CancelRun(self.running.run_id))
        return actions

    def _drop(self, is_dropped: Callable[[Wish], bool], cancelled: bool) -> list[Action]:
        dropped = [wish for wish in self.waiting if is_dropped(wish)]
        self.waiting = [wish for wish in self.waiting if not is_dropped(wish)]
        return [Dropped(wish, cancelled) for wish in dropped]

    def _start(self) -> list[Action]:
        if self.running is not None or not self.waiting:
            return []
        self.running = self.waiting.pop(0)
        return [StartRun(self.running)]
