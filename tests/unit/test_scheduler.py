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
    FileSaved,
    FunctionId,
    RunEnded,
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
            [[StartRun(W1)], [Dropped(W2, cancelled=False)], []],
            id="what needs no run any more is dropped",
        ),
        pytest.param(
            [checked(W1), Asked((wish("9", G),)), checked(keys={F: "1", G: "1"}), RunEnded("1")],
            [[StartRun(W1)], [], [], [StartRun(wish("9", G, asked=True))]],
            id="but not what a person asked for of this text",
        ),
        pytest.param(
            [checked(W1), Asked((wish("9", G),)), checked(keys={F: "1", G: "2"}), RunEnded("1")],
            [[StartRun(W1)], [], [Dropped(wish("9", G, asked=True), cancelled=False)], []],
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
            [[StartRun(W1)], [Dropped(W2, cancelled=True)], []],
            id="cancel what waits",
        ),
        pytest.param(
            [checked(W1, W2), CancelAsked(frozenset({F})), RunEnded("1")],
            [[StartRun(W1)], [CancelRun("1")], [StartRun(W2)]],
            id="cancel what is on",
        ),
        pytest.param(
            [checked(W1, W2), CancelAsked(None), RunEnded("1")],
            [[StartRun(W1)], [Dropped(W2, cancelled=True), CancelRun("1")], []],
            id="cancel all",
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
            [[StartRun(W1)], [Dropped(W2, cancelled=False)], []],
            id="what is on goes on when its file is closed",
        ),
        pytest.param(
            [checked(wish("4", O), path="/p/other.py"), checked(W1), FileClosed("/p/other.py"), RunEnded("4")],
            [[StartRun(wish("4", O))], [], [], [StartRun(W1)]],
            id="other files stay",
        ),
        pytest.param([checked()], [[]], id="nothing wanted"),
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
    cancelling: bool = False
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
                    assert started.run_id not in self.ended, "it was dropped"
                    assert started.asked or not any(item.asked for item in self.scheduler.waiting)
                    self.running, self.cancelling = started, False
                    self.ended[started.run_id] = "started"
                    if self.owed.get(started.function) == started.key:
                        del self.owed[started.function]
                case CancelRun(run_id):
                    assert self.running is not None
                    assert run_id == self.running.run_id
                    self.cancelling = True
                case Dropped(dropped, cancelled):
                    assert dropped.run_id not in self.ended
                    self.ended[dropped.run_id] = "cancelled" if cancelled else "dropped"
        assert self.scheduler.running == self.running
        waiting = [item.function for item in self.scheduler.waiting]
        assert len(set(waiting)) == len(waiting), "two wait for one function"
        asked = [item.asked for item in self.scheduler.waiting]
        assert asked == sorted(asked, reverse=True), "asked ones come first"
        assert self.running is not None or not waiting, "nothing is on though something waits"
        assert {self.scheduler.ahead_of(function) for function in waiting} == {
            position + 1 for position in range(len(waiting))
        }

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
        self.handle(FileChecked(path, tuple(self.wish(function) for function in needed), tuple(keys.items())))

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
    assert {(function, key) for function, key in world.keys.items()} <= world.done
