"""Which run starts when: a pure state machine, events and the time in, actions out.

One run is on at a time, since two would disturb each other's numbers. Of each function at most one run waits,
and it is of the newest text. Runs that a person asked for come before those that a save started. A run whose text
a save has replaced is ended while it is cheap to end. One that was lost with its agent is started again, after a
pause that grows, until it is plain that no agent stays up; from then on a save or a person starts one, once.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

# A formatter that runs on save makes two saves of one; so do editors that write twice.
GATHER_S = 0.3
_EARLY_S = 0.02
# Before another agent is started in place of one that was lost, by how many were lost in a row.
PAUSES_S = (1.0, 2.0, 4.0)
# Phases that take long and have measured nothing yet, and waiting for a device.
_CHEAP_TO_END = frozenset({"import", "compile", "busy"})


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
    # The key that each function of it that is on or waits has now, also where that needs no run, and an empty one for
    # a function that is gone; none at all where the text is not known.
    keys: tuple[tuple[FunctionId, str], ...] = ()
    # A run of another text of it is to be ended whatever it is doing.
    ends_running: bool = False


@dataclass(frozen=True, slots=True)
class FileEdited:
    """A file is another one in its editor by now, and the person wants no run of an older text to go on."""

    path: str
    keys: tuple[tuple[FunctionId, str], ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """A person wants these functions to be run now."""

    wishes: tuple[Wish, ...]


@dataclass(frozen=True, slots=True)
class RunEntered:
    """The run that is on has come to a phase, or waits for a device, which is called busy."""

    run_id: str
    phase: str


@dataclass(frozen=True, slots=True)
class RunEnded:
    """A run has given what it can."""

    run_id: str
    # Its agent went away before that.
    is_lost: bool = False


@dataclass(frozen=True, slots=True)
class Rested:
    """The time is up that Rest set."""


@dataclass(frozen=True, slots=True)
class CancelAsked:
    """A person, or the end of what it belongs to, cancels the runs of these functions; None means all."""

    functions: frozenset[FunctionId] | None


@dataclass(frozen=True, slots=True)
class FileClosed:
    """A file is no longer shown, so nothing of it has to be started any more."""

    path: str


Event = (
    FileSaved
    | TimerFired
    | FileChecked
    | FileEdited
    | Asked
    | RunEntered
    | RunEnded
    | Rested
    | CancelAsked
    | FileClosed
)


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
    # Because there is a newer text, not because a person said so.
    is_replaced: bool = False


@dataclass(frozen=True, slots=True)
class Rest:
    """Send Rested at a time."""

    until_s: float


@dataclass(frozen=True, slots=True)
class Dropped:
    """A waiting run will not start."""

    wish: Wish
    # No longer needed, cancelled by a person, or no agent stays up.
    why: Literal["needless", "cancelled", "lost"]


Action = StartTimer | CheckFile | StartRun | CancelRun | Rest | Dropped


@dataclass(slots=True)
class Scheduler:
    """The runs that wait and the one that is on."""

    running: Wish | None = None
    # In the order in which they will start.
    waiting: list[Wish] = field(default_factory=list)
    _timers: dict[str, float] = field(default_factory=dict)
    # How often the saved text of files is being looked at. Meanwhile nothing of them starts: it may be an older text.
    _checking: Counter[str] = field(default_factory=Counter)
    # Of the run that is on: its phase, and whether its end was asked for.
    _phase: str = ""
    _ending: bool = False
    # How many agents were lost one after the other, and until when none is started by itself.
    _lost: int = 0
    _rests_until_s: float = 0.0

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
                self._checking[path] += 1
                return [CheckFile(path)]
            case FileChecked(path, wishes, keys, ends_running):
                self._checking -= Counter([path])
                return self._checked(path, wishes, dict(keys), ends_running) + self._start(now_s)
            case FileEdited(path, keys):
                return self._end_replaced(path, dict(keys), is_any_phase=True)
            case Asked(wishes):
                self._asked(wishes)
                # Who asks now does not want to wait for a pause to end.
                self._rests_until_s = 0.0
                return self._start(now_s)
            case RunEntered(run_id, phase):
                if self.running is not None and self.running.run_id == run_id:
                    self._phase = phase
                return []
            case RunEnded(run_id, is_lost):
                return self._ended(run_id, is_lost, now_s) + self._start(now_s)
            case Rested():
                if now_s >= self._rests_until_s - _EARLY_S:
                    self._rests_until_s = 0.0
                return self._start(now_s)
            case CancelAsked(functions):
                return self._cancel(functions)
            case FileClosed(path):
                self._timers.pop(path, None)
                return self._drop(lambda wish: wish.function.path == path, "needless")

    def ahead_of(self, function: FunctionId) -> int | None:
        """How many runs come before the waiting one of a function; None where none waits."""
        for position, wish in enumerate(self.waiting):
            if wish.function == function:
                return position + (self.running is not None)
        return None

    def _checked(
        self, path: str, wishes: tuple[Wish, ...], keys: dict[FunctionId, str], ends_running: bool
    ) -> list[Action]:
        actions = self._end_replaced(path, keys, ends_running)
        wanted = {wish.function: wish for wish in wishes if not self._is_running(wish)}
        again = wanted.pop(self.running.function, None) if actions and self.running is not None else None
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
                actions.append(Dropped(wish, "needless"))
        self.waiting = kept
        if again is not None and self.running is not None:
            # It was its turn, and it stays asked for.
            self._put_first(replace(again, asked=self.running.asked))
        self.waiting += wanted.values()
        return actions

    def _end_replaced(self, path: str, keys: dict[FunctionId, str], is_any_phase: bool) -> list[Action]:
        """End the run that is on if it is of another text of its function than this one."""
        running = self.running
        if running is None or self._ending or running.function.path != path or not keys:
            return []
        if keys.get(running.function) == running.key or not (is_any_phase or self._phase in _CHEAP_TO_END):
            return []
        self._ending = True
        return [CancelRun(running.run_id, is_replaced=True)]

    def _put_first(self, wish: Wish) -> None:
        """Let a run start before all others, but after those that a person asked for if it is none of these."""
        others = [other for other in self.waiting if other.function != wish.function]
        before = 0 if wish.asked else sum(other.asked for other in others)
        self.waiting = [*others[:before], wish, *others[before:]]

    def _asked(self, wishes: tuple[Wish, ...]) -> None:
        new = [replace(wish, asked=True) for wish in wishes if not self._is_running(wish)]
        functions = {wish.function for wish in new}
        asked = [wish for wish in self.waiting if wish.asked and wish.function not in functions]
        others = [wish for wish in self.waiting if not wish.asked and wish.function not in functions]
        self.waiting = [*asked, *new, *others]

    def _is_running(self, wish: Wish) -> bool:
        running = self.running
        return running is not None and not self._ending and (running.function, running.key) == (wish.function, wish.key)

    def _cancel(self, functions: frozenset[FunctionId] | None) -> list[Action]:
        actions = self._drop(lambda wish: functions is None or wish.function in functions, "cancelled")
        if self.running is not None and (functions is None or self.running.function in functions):
            self._ending = True
            actions.append(CancelRun(self.running.run_id))
        return actions

    def _drop(self, is_dropped: Callable[[Wish], bool], why: Literal["needless", "cancelled", "lost"]) -> list[Action]:
        dropped = [wish for wish in self.waiting if is_dropped(wish)]
        self.waiting = [wish for wish in self.waiting if not is_dropped(wish)]
        return [Dropped(wish, why) for wish in dropped]

    def _ended(self, run_id: str, is_lost: bool, now_s: float) -> list[Action]:
        ended, was_ending = self.running, self._ending
        if ended is None or ended.run_id != run_id:
            return []
        self.running, self._phase, self._ending = None, "", False
        if not is_lost:
            self._lost, self._rests_until_s = 0, 0.0
            return []
        if was_ending:
            return []
        self._lost += 1
        if self._lost > len(PAUSES_S):
            return [Dropped(ended, "lost"), *self._drop(lambda wish: not wish.asked, "lost")]
        if all(wish.function != ended.function for wish in self.waiting):
            self._put_first(ended)
        self._rests_until_s = now_s + PAUSES_S[self._lost - 1]
        return [Rest(self._rests_until_s)]

    def _start(self, now_s: float) -> list[Action]:
        if self.running is not None or now_s < self._rests_until_s - _EARLY_S:
            return []
        for wish in self.waiting:
            path = wish.function.path
            if wish.asked or (path not in self._timers and path not in self._checking):
                self.waiting.remove(wish)
                self.running = wish
                return [StartRun(wish)]
        return []
