"""Which run starts when: events and the time in, actions out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profile_neuron.daemon.scheduler import (
    GATHER_S,
    Action,
    Asked,
    CancelAsked,
    CancelRun,
    CheckFile,
    Dropped,
    Event,
    FileChecked,
    FileClosed,
    FileEdited,
    FileSaved,
    FunctionId,
    Rest,
    Rested,
    RunEnded,
    RunEntered,
    Scheduler,
    StartRun,
    StartTimer,
    TimerFired,
    Wish,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

F, G, H = (FunctionId("/p/m.py", name, 0) for name in "fgh")
O = FunctionId("/p/other.py", "o", 0)  # noqa: E741 - of the other file


def wish(run_id: str, function: FunctionId = F, key: str = "1", asked: bool = False) -> Wish:
    return Wish(run_id, function, key, asked)


def checked(*wishes: Wish, path: str = "/p/m.py", keys: dict[FunctionId, str] | None = None) -> FileChecked:
    given = {item.function: item.key for item in wishes} if keys is None else keys
    return FileChecked(path, wishes, tuple(given.items()))


def play(*events: Event | tuple[Event, float]) -> tuple[Scheduler, list[list[Action]]]:
    """The actions that each event gives; events without a time come at 100 s."""
    scheduler = Scheduler()
    actions = []
    for item in events:
        event, now_s = item if isinstance(item, tuple) else (item, 100.0)
        actions.append(scheduler.handle(event, now_s))
    return scheduler, actions


W1, W2, W3 = wish("1"), wish("2", G), wish("3", H)


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param(
            [(FileSaved("/p/m.py"), 1.0), (TimerFired("/p/m.py"), 1.0 + GATHER_S)],
            [[StartTimer("/p/m.py", 1.0 + GATHER_S)], [CheckFile("/p/m.py")]],
            id="a save is checked when its time is up",
        ),
        pytest.param(
            [
                (FileSaved("/p/m.py"), 1.0),
                (FileSaved("/p/m.py"), 1.2),
                (TimerFired("/p/m.py"), 1.3),
                (TimerFired("/p/m.py"), 1.5),
            ],
            [[StartTimer("/p/m.py", 1.3)], [StartTimer("/p/m.py", 1.5)], [], [CheckFile("/p/m.py")]],
            id="a second save starts the time anew",
        ),
        pytest.param(
            [(FileSaved("/p/m.py"), 1.0), (TimerFired("/p/m.py"), 1.3), (TimerFired("/p/m.py"), 1.4)],
            [[StartTimer("/p/m.py", 1.3)], [CheckFile("/p/m.py")], []],
            id="a time is up once",
        ),
        pytest.param(
            [(FileSaved("/p/m.py"), 1.0), (FileSaved("/p/other.py"), 1.1), (TimerFired("/p/m.py"), 1.3)],
            [[StartTimer("/p/m.py", 1.3)], [StartTimer("/p/other.py", 1.1 + GATHER_S)], [CheckFile("/p/m.py")]],
            id="each file has its own time",
        ),
        pytest.param(
            [(FileSaved("/p/m.py"), 1.0), (FileClosed("/p/m.py"), 1.1), (TimerFired("/p/m.py"), 1.3)],
            [[StartTimer("/p/m.py", 1.3)], [], []],
            id="a closed file is not checked",
        ),
        pytest.param(
            [checked(W1, W2), RunEnded("1"), RunEnded("2")],
            [[StartRun(W1)], [StartRun(W2)], []],
            id="one run after the other",
        ),
        pytest.param(
            [checked(W1, W2), RunEnded("0"), RunEnded("2")],
            [[StartRun(W1)], [], []],
            id="the end of another run is none of this one",
        ),
        pytest.param(
            [checked(W1, W2), checked(wish("4", O), path="/p/other.py"), RunEnded("1"), RunEnded("2")],
            [[StartRun(W1)], [], [StartRun(W2)], [StartRun(wish("4", O))]],
            id="files in the order of their saves",
        ),
        pytest.param(
            [checked(W1, W2, W3), Asked((wish("9", H),)), RunEnded("1"), RunEnded("9"), RunEnded("2")],
            [[StartRun(W1)], [], [StartRun(wish("9", H, asked=True))], [StartRun(W2)], []],
            id="what a person asked for comes first, in place of the same from a save",
        ),
        pytest.param(
            [checked(W1), Asked((wish("8", G),)), Asked((wish("9", H),)), RunEnded("1"), RunEnded("8")],
            [[StartRun(W1)], [], [], [StartRun(wish("8", G, asked=True))], [StartRun(wish("9", H, asked=True))]],
            id="asked ones in their own order",
        ),
        pytest.param(
            [checked(W1, W2), checked(wish("5", G, "2"), keys={F: "1", G: "2"}), RunEnded("1")],
            [[StartRun(W1)], [], [StartRun(wish("5", G, "2"))]],
            id="a newer text takes the place of a waiting one",
        ),
        pytest.param(
            [checked(W1, W2), checked(wish("5", G), keys={F: "1", G: "1"}), RunEnded("1")],
            [[StartRun(W1)], [], [StartRun(wish("5", G))]],
            id="so does the same code, whose bytes may be others",
        ),
        pytest.param(
            [checked(W1, W2), checked(keys={F: "1", G: "0"}), RunEnded("1")],
            [[StartRun(W1)], [Dropped(W2, "needless")], []],
            id="what needs no run any more is dropped",
        ),
        pytest.param(
            [checked(W1), Asked((wish("9", G),)), checked(keys={F: "1", G: "1"}), RunEnded("1")],
            [[StartRun(W1)], [], [], [StartRun(wish("9", G, asked=True))]],
            id="but not what a person asked for of this text",
        ),
        pytest.param(
            [checked(W1), Asked((wish("9", G),)), checked(keys={F: "1", G: "2"}), RunEnded("1")],
            [[StartRun(W1)], [], [Dropped(wish("9", G, asked=True), "needless")], []],
            id="though what they asked for of an older one",
        ),
        pytest.param(
            [checked(W1), Asked((wish("9", G),)), checked(wish("5", G, "2"), wish("6", H)), RunEnded("1")],
            [[StartRun(W1)], [], [], [StartRun(wish("5", G, "2", asked=True))]],
            id="of a newer text it stays asked for",
        ),
        pytest.param(
            [checked(W1), checked(wish("5")), RunEnded("1")],
            [[StartRun(W1)], [], []],
            id="what is on is not wanted twice",
        ),
        pytest.param(
            [checked(W1), checked(wish("5", key="2")), RunEnded("1")],
            [[StartRun(W1)], [], [StartRun(wish("5", key="2"))]],
            id="a newer text of what is on waits for its end",
        ),
        pytest.param(
            [checked(W1), Asked((wish("9"),)), RunEnded("1")],
            [[StartRun(W1)], [], []],
            id="a person need not ask for what is on",
        ),
        pytest.param(
            [checked(W1, W2), CancelAsked(frozenset({G})), RunEnded("1")],
            [[StartRun(W1)], [Dropped(W2, "cancelled")], []],
            id="cancel what waits",
        ),
        pytest.param(
            [checked(W1, W2), CancelAsked(frozenset({F})), RunEnded("1")],
            [[StartRun(W1)], [CancelRun("1")], [StartRun(W2)]],
            id="cancel what is on",
        ),
        pytest.param(
            [checked(W1, W2), CancelAsked(None), RunEnded("1")],
            [[StartRun(W1)], [Dropped(W2, "cancelled"), CancelRun("1")], []],
            id="cancel all",
        ),
        pytest.param(
            [
                (checked(W1, W2, W3), 1.0),
                (checked(wish("4", O), path="/p/other.py"), 1.0),
                (FileSaved("/p/m.py"), 2.0),
                (RunEnded("1"), 2.1),
                (Asked((wish("9", H),)), 2.1),
                (RunEnded("4"), 2.2),
                (RunEnded("9"), 2.25),
                (TimerFired("/p/m.py"), 2.3),
                (checked(wish("5", G, "2"), keys={G: "2"}), 2.4),
            ],
            [
                [StartRun(W1)],
                [],
                [StartTimer("/p/m.py", 2.3)],
                [StartRun(wish("4", O))],
                [],
                [StartRun(wish("9", H, asked=True))],
                [],
                [CheckFile("/p/m.py")],
                [StartRun(wish("5", G, "2"))],
            ],
            id="while a save is being looked at, what waits of its file is not started, except by a person",
        ),
        pytest.param([CancelAsked(None)], [[]], id="nothing to cancel"),
        pytest.param(
            [checked(W1), CancelAsked(frozenset({F})), checked(wish("5")), RunEnded("1")],
            [[StartRun(W1)], [CancelRun("1")], [], [StartRun(wish("5"))]],
            id="a save after a cancel runs again",
        ),
        pytest.param(
            [checked(W1), CancelAsked(frozenset({F})), Asked((wish("9"),)), RunEnded("1")],
            [[StartRun(W1)], [CancelRun("1")], [], [StartRun(wish("9", asked=True))]],
            id="so does a person",
        ),
        pytest.param(
            [checked(W1, W2), FileClosed("/p/m.py"), RunEnded("1")],
            [[StartRun(W1)], [Dropped(W2, "needless")], []],
            id="what is on goes on when its file is closed",
        ),
        pytest.param(
            [checked(wish("4", O), path="/p/other.py"), checked(W1), FileClosed("/p/other.py"), RunEnded("4")],
            [[StartRun(wish("4", O))], [], [], [StartRun(W1)]],
            id="other files stay",
        ),
        pytest.param([checked()], [[]], id="nothing wanted"),
        *(
            pytest.param(
                [checked(W1, W2), RunEntered("1", phase), checked(wish("5", key="2"), W2), RunEnded("1")],
                [[StartRun(W1)], [], [CancelRun("1", is_replaced=True)], [StartRun(wish("5", key="2"))]],
                id=f"a newer text ends what is on in the phase {phase}, and comes in its place",
            )
            for phase in ("import", "compile", "busy")
        ),
        *(
            pytest.param(
                [checked(W1), RunEntered("1", phase), checked(wish("5", key="2")), RunEnded("1")],
                [[StartRun(W1)], [], [], [StartRun(wish("5", key="2"))]],
                id=f"but not in the phase {phase}",
            )
            for phase in ("start", "inputs", "warm-up", "capture", "read", "attribute")
        ),
        pytest.param(
            [
                checked(W1),
                RunEntered("1", "import"),
                checked(wish("5", key="2")),
                checked(wish("6", key="3")),
                RunEnded("1"),
            ],
            [[StartRun(W1)], [], [CancelRun("1", is_replaced=True)], [], [StartRun(wish("6", key="3"))]],
            id="once",
        ),
        pytest.param(
            [checked(W1), RunEntered("1", "import"), checked(keys={F: "0"}), RunEnded("1")],
            [[StartRun(W1)], [], [CancelRun("1", is_replaced=True)], []],
            id="also where the newer text needs no run",
        ),
        pytest.param(
            [checked(W1), RunEntered("1", "import"), checked(keys={G: "1"}), RunEnded("1")],
            [[StartRun(W1)], [], [CancelRun("1", is_replaced=True)], []],
            id="and where the function is gone",
        ),
        pytest.param(
            [checked(W1), RunEntered("1", "import"), checked(), RunEnded("1")],
            [[StartRun(W1)], [], [], []],
            id="but not where the file cannot be read",
        ),
        pytest.param(
            [checked(W1), RunEntered("1", "import"), checked(W2, keys={F: "1", G: "1"}), RunEnded("1")],
            [[StartRun(W1)], [], [], [StartRun(W2)]],
            id="nor for another function's sake",
        ),
        pytest.param(
            [Asked((W1,)), RunEntered("1", "import"), checked(wish("5", key="2"), W2), RunEnded("1")],
            [
                [StartRun(wish("1", asked=True))],
                [],
                [CancelRun("1", is_replaced=True)],
                [StartRun(wish("5", key="2", asked=True))],
            ],
            id="what a person asked for stays asked for in its newer text",
        ),
        pytest.param(
            [
                checked(W1),
                RunEntered("1", "capture"),
                FileChecked("/p/m.py", (wish("5", key="2"),), ((F, "2"),), ends_running=True),
                RunEnded("1"),
            ],
            [[StartRun(W1)], [], [CancelRun("1", is_replaced=True)], [StartRun(wish("5", key="2"))]],
            id="by setting a newer text ends a run in any phase",
        ),
        pytest.param(
            [
                checked(W1),
                RunEntered("1", "capture"),
                FileEdited("/p/m.py", ((F, "1"), (G, "7"))),
                FileEdited("/p/m.py", ((F, "2"), (G, "7"))),
                FileEdited("/p/m.py", ((F, "3"), (G, "7"))),
                RunEnded("1"),
            ],
            [[StartRun(W1)], [], [], [CancelRun("1", is_replaced=True)], [], []],
            id="and so does an edit",
        ),
        pytest.param(
            [
                (checked(W1, W2), 10.0),
                (RunEnded("1", is_lost=True), 11.0),
                (Rested(), 11.5),
                (Rested(), 12.0),
                (RunEnded("1", is_lost=True), 13.0),
                (Rested(), 15.0),
                (RunEnded("1", is_lost=True), 16.0),
                (Rested(), 20.0),
                (RunEnded("1"), 21.0),
                (RunEnded("2", is_lost=True), 22.0),
            ],
            [
                [StartRun(W1)],
                [Rest(12.0)],
                [],
                [StartRun(W1)],
                [Rest(15.0)],
                [StartRun(W1)],
                [Rest(20.0)],
                [StartRun(W1)],
                [StartRun(W2)],
                [Rest(23.0)],
            ],
            id="what was lost with its agent is started again after pauses that grow until a run ends well",
        ),
        pytest.param(
            [
                (checked(W1, W2), 10.0),
                (RunEnded("1", is_lost=True), 11.0),
                (Rested(), 12.0),
                (RunEnded("1", is_lost=True), 13.0),
                (Rested(), 15.0),
                (RunEnded("1", is_lost=True), 16.0),
                (Rested(), 20.0),
                (RunEnded("1", is_lost=True), 21.0),
                (checked(wish("5", key="2")), 30.0),
                (RunEnded("5", is_lost=True), 30.5),
                (Asked((wish("6", H),)), 31.0),
                (RunEnded("6"), 32.0),
                (checked(wish("7", key="3")), 33.0),
                (RunEnded("7", is_lost=True), 34.0),
            ],
            [
                [StartRun(W1)],
                [Rest(12.0)],
                [StartRun(W1)],
                [Rest(15.0)],
                [StartRun(W1)],
                [Rest(20.0)],
                [StartRun(W1)],
                [Dropped(W1, "lost"), Dropped(W2, "lost")],
                [StartRun(wish("5", key="2"))],
                [Dropped(wish("5", key="2"), "lost")],
                [StartRun(wish("6", H, asked=True))],
                [],
                [StartRun(wish("7", key="3"))],
                [Rest(35.0)],
            ],
            id="three times, and then only by a save or a person, once",
        ),
        pytest.param(
            [
                (checked(W1, W2), 10.0),
                (RunEnded("1", is_lost=True), 11.0),
                (Asked((wish("6", H),)), 11.1),
                (RunEnded("6"), 11.2),
            ],
            [[StartRun(W1)], [Rest(12.0)], [StartRun(wish("6", H, asked=True))], [StartRun(W1)]],
            id="a person who asks need not wait for the pause",
        ),
        pytest.param(
            [(checked(W1), 10.0), (CancelAsked(None), 10.5), (RunEnded("1", is_lost=True), 11.0)],
            [[StartRun(W1)], [CancelRun("1")], []],
            id="what was cancelled is not started again",
        ),
        pytest.param(
            [(checked(W1), 10.0), (RunEnded("1", is_lost=True), 11.0), (CancelAsked(None), 11.5), (Rested(), 12.0)],
            [[StartRun(W1)], [Rest(12.0)], [Dropped(W1, "cancelled")], []],
            id="nor what is cancelled in the pause",
        ),
        pytest.param(
            [
                (checked(W1), 10.0),
                (checked(wish("5", key="2")), 10.5),
                (RunEnded("1", is_lost=True), 11.0),
                (Rested(), 12.0),
            ],
            [[StartRun(W1)], [], [Rest(12.0)], [StartRun(wish("5", key="2"))]],
            id="of what was lost the newest text is started",
        ),
    ],
)
def test_events_give_their_actions(events: list[Event | tuple[Event, float]], expected: list[list[Action]]) -> None:
    _, actions = play(*events)
    assert actions == expected


def test_back_at_the_text_that_is_on_nothing_more_is_run() -> None:
    _, actions = play(checked(W1), checked(wish("5", key="2")), checked(wish("6", key="1")), RunEnded("1"))
    assert [action for some in actions for action in some if isinstance(action, StartRun)] == [StartRun(W1)]


def test_how_many_come_first_counts_the_run_that_is_on() -> None:
    scheduler, _ = play(checked(W1, W2, W3))
    assert [scheduler.ahead_of(function) for function in (F, G, H, O)] == [None, 1, 2, None]
    scheduler.handle(RunEnded("1"), 100.0)
    assert [scheduler.ahead_of(function) for function in (F, G, H)] == [None, None, 1]


def test_two_definitions_of_one_name_are_two_functions() -> None:
    second = FunctionId("/p/m.py", "f", 1)
    _, actions = play(checked(W1, wish("2", second)), RunEnded("1"))
    assert actions == [[StartRun(W1)], [StartRun(wish("2", second))]]


PATHS = ("/p/a.py", "/p/b.py")
FUNCTIONS = tuple(FunctionId(path, name, 0) for path in PATHS for name in ("f", "g"))


@dataclass
class World:
    """A shell of the scheduler as the daemon is, with a person, files and runs; it checks what must always hold."""

    scheduler: Scheduler = field(default_factory=Scheduler)
    now_s: float = 0.0
    timers: dict[str, float] = field(default_factory=dict)
    checks: list[str] = field(default_factory=list)
    opened: set[str] = field(default_factory=lambda: set(PATHS))
    # The key that each function has on disk.
    keys: dict[FunctionId, str] = field(default_factory=lambda: dict.fromkeys(FUNCTIONS, "0"))
    # Keys of which there is a result.
    done: set[tuple[FunctionId, str]] = field(default_factory=set)
    running: Wish | None = None
    phase: str = ""
    cancelling: bool = False
    # The setting run.onEditDuringRun.
    ends_running: bool = False
    # When the pauses end.
    rests: list[float] = field(default_factory=list)
    wishes: dict[str, Wish] = field(default_factory=dict)
    ended: dict[str, str] = field(default_factory=dict)
    # What has yet to be run, as the last check of each file says.
    owed: dict[FunctionId, str] = field(default_factory=dict)

    def handle(self, event: Event) -> None:
        for action in self.scheduler.handle(event, self.now_s):
            match action:
                case StartTimer(path, at_s):
                    assert at_s > self.now_s
                    self.timers[path] = at_s
                case CheckFile(path):
                    assert path in self.opened
                    self.checks.append(path)
                case StartRun(started):
                    assert self.running is None, "two runs at once"
                    assert started.run_id in self.wishes, "nobody wished it"
                    assert self.ended.get(started.run_id) in (None, "lost"), "it was dropped"
                    assert started.asked or not any(item.asked for item in self.scheduler.waiting)
                    assert started.asked or not self.is_looked_at(started.function), "it may be of an older text"
                    self.running, self.phase, self.cancelling = started, "", False
                    self.ended[started.run_id] = "started"
                    if self.owed.get(started.function) == started.key:
                        del self.owed[started.function]
                case CancelRun(run_id, is_replaced):
                    assert self.running is not None
                    assert run_id == self.running.run_id
                    if is_replaced:
                        assert not self.cancelling, "it is ended twice"
                        assert self.phase in ("import", "compile", "busy") or self.ends_running
                        assert self.keys[self.running.function] != self.running.key
                    self.cancelling = True
                case Rest(until_s):
                    assert until_s > self.now_s
                    self.rests.append(until_s)
                case Dropped(dropped, why):
                    assert self.ended.get(dropped.run_id) in (None, "lost")
                    self.ended[dropped.run_id] = why
                    if why == "lost" and self.owed.get(dropped.function) == dropped.key:
                        # No agent stays up, and its state says so.
                        del self.owed[dropped.function]
        assert self.scheduler.running == self.running
        waiting = [item.function for item in self.scheduler.waiting]
        assert len(set(waiting)) == len(waiting), "two wait for one function"
        asked = [item.asked for item in self.scheduler.waiting]
        assert asked == sorted(asked, reverse=True), "asked ones come first"
        assert self.running is not None or self.rests or all(self.is_looked_at(function) for function in waiting), (
            "nothing is on though something waits"
        )
        assert {self.scheduler.ahead_of(function) for function in waiting} == {
            position + (self.running is not None) for position in range(len(waiting))
        }

    def is_looked_at(self, function: FunctionId) -> bool:
        return function.path in self.timers or function.path in self.checks

    def wish(self, function: FunctionId) -> Wish:
        made = Wish(str(len(self.wishes)), function, self.keys[function])
        self.wishes[made.run_id] = made
        return made

    def save(self, path: str, edit: Sequence[int]) -> None:
        if path in self.opened:
            mine = [function for function in FUNCTIONS if function.path == path]
            for function, key in zip(mine, edit, strict=False):
                self.keys[function] = str(key)
            self.handle(FileSaved(path))

    def let_time_pass(self, seconds: float) -> None:
        self.now_s += seconds
        for path, at_s in sorted(self.timers.items(), key=lambda item: item[1]):
            if at_s <= self.now_s:
                del self.timers[path]
                self.handle(TimerFired(path))
        for until_s in [until_s for until_s in self.rests if until_s <= self.now_s]:
            self.rests.remove(until_s)
            self.handle(Rested())

    def answer_check(self) -> None:
        if not self.checks:
            return
        path = self.checks.pop(0)
        if path not in self.opened:
            self.handle(FileChecked(path, ()))
            return
        keys = {function: key for function, key in self.keys.items() if function.path == path}
        needed = [function for function in keys if (function, keys[function]) not in self.done]
        for function in keys:
            self.owed.pop(function, None)
        is_on = self.running is not None and not self.cancelling
        for function in needed:
            if not (is_on and self.running and (self.running.function, self.running.key) == (function, keys[function])):
                self.owed[function] = keys[function]
        wishes = tuple(self.wish(function) for function in needed)
        self.handle(FileChecked(path, wishes, tuple(keys.items()), self.ends_running))

    def edit(self, path: str, edit: Sequence[int]) -> None:
        """Type another text without saving it, with the setting that ends what runs an older one."""
        mine = [function for function in FUNCTIONS if function.path == path]
        if path not in self.opened or self.running is None or self.running.function.path != path:
            return
        keys = {function: str(key) for function, key in zip(mine, edit, strict=False)}
        expected = not self.cancelling and keys[self.running.function] != self.running.key
        before, self.ends_running, saved = self.ends_running, True, dict(self.keys)
        self.keys.update(keys)
        self.handle(FileEdited(path, tuple(keys.items())))
        self.ends_running, self.keys = before, saved
        assert self.cancelling or not expected

    def enter(self, phase: str) -> None:
        if self.running is not None:
            self.phase = phase
            self.handle(RunEntered(self.running.run_id, phase))

    def set_ending(self, ends_running: bool) -> None:
        self.ends_running = ends_running

    def ask(self, functions: set[FunctionId]) -> None:
        wanted = [function for function in FUNCTIONS if function in functions and function.path in self.opened]
        for function in wanted:
            self.owed.pop(function, None)
        self.handle(Asked(tuple(self.wish(function) for function in wanted)))

    def cancel(self, functions: set[FunctionId] | None) -> None:
        for function in list(self.owed):
            if functions is None or function in functions:
                del self.owed[function]
        self.handle(CancelAsked(None if functions is None else frozenset(functions)))

    def close(self, path: str) -> None:
        if path in self.opened:
            self.opened.discard(path)
            self.timers.pop(path, None)
            for function in FUNCTIONS:
                if function.path == path:
                    self.owed.pop(function, None)
            self.handle(FileClosed(path))

    def open(self, path: str) -> None:
        self.opened.add(path)

    def end_run(self) -> None:
        if self.running is not None:
            ended = self.running
            if not self.cancelling:
                self.done.add((ended.function, ended.key))
            self.running = None
            self.handle(RunEnded(ended.run_id))

    def lose_agent(self) -> None:
        if self.running is not None:
            lost, was_cancelled = self.running, self.cancelling
            self.running = None
            self.ended[lost.run_id] = "cancelled" if was_cancelled else "lost"
            if not was_cancelled and self.keys.get(lost.function) == lost.key and lost.function.path in self.opened:
                self.owed.setdefault(lost.function, lost.key)
            self.handle(RunEnded(lost.run_id, is_lost=True))

    def finish(self) -> None:
        """Let everything come to its end, without the person doing any more."""
        for _ in range(100):
            self.let_time_pass(1.0)
            self.answer_check()
            self.end_run()
        assert not self.scheduler.waiting
        assert self.running is None
        assert not self.owed, "a save was lost"
        for run_id, made in self.wishes.items():
            is_replaced = any(
                other.function == made.function and int(other.run_id) > int(run_id) for other in self.wishes.values()
            )
            # One for what was on, or waited, by the same key needed no run of its own.
            is_had = any(
                other.function == made.function and other.key == made.key and self.ended.get(other_id) is not None
                for other_id, other in self.wishes.items()
                if other_id != run_id
            )
            assert run_id in self.ended or is_replaced or is_had, made


PATH = st.sampled_from(PATHS)
SOME = st.sets(st.sampled_from(FUNCTIONS), min_size=1)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("save"), PATH, st.tuples(st.integers(0, 2), st.integers(0, 2))),
        st.tuples(st.just("let_time_pass"), st.sampled_from([0.1, 0.3, 1.0])),
        st.tuples(st.just("answer_check")),
        st.tuples(st.just("ask"), SOME),
        st.tuples(st.just("cancel"), st.one_of(st.none(), SOME)),
        st.tuples(st.just("close"), PATH),
        st.tuples(st.just("open"), PATH),
        st.tuples(st.just("end_run")),
        st.tuples(st.just("lose_agent")),
        st.tuples(st.just("enter"), st.sampled_from(["start", "import", "compile", "capture", "busy"])),
        st.tuples(st.just("set_ending"), st.booleans()),
        st.tuples(st.just("edit"), PATH, st.tuples(st.integers(0, 2), st.integers(0, 2))),
    ),
    max_size=40,
)


@settings(max_examples=600)
@given(STEPS)
def test_whatever_happens_one_run_is_on_at_a_time_and_no_save_is_lost(steps: list[tuple[str, ...]]) -> None:
    world = World()
    for name, *arguments in steps:
        getattr(world, name)(*arguments)
    world.finish()


@settings(max_examples=300)
@given(STEPS)
def test_after_a_last_save_of_an_open_file_every_function_has_a_result_of_its_key(steps: list[tuple[str, ...]]) -> None:
    world = World()
    for name, *arguments in steps:
        getattr(world, name)(*arguments)
    for path in PATHS:
        world.open(path)
        world.save(path, (3, 4))
    world.finish()
    if "lost" in world.ended.values():
        # No agent stayed up, and a person says that it should be tried again.
        world.ask({function for function, key in world.keys.items() if (function, key) not in world.done})
        world.finish()
    assert {(function, key) for function, key in world.keys.items()} <= world.done
