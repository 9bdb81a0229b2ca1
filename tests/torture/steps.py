"""What a person, their other programs and bad luck do, one function per step, and the order in which they do it.

A new step is one more function with a row in STEPS. It makes its choices with the rng that it gets, and these depend
on earlier steps only, so that a seed gives the same steps again; what the processes make of them may differ.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING

from tests.torture import processes
from tests.torture.editor import settings_for
from tests.torture.sources import BAD, CONSTANTS, FRESH, GOOD, HELPED, NO_TOP, TOPS, Helper
from tests.torture.world import WRITING_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.torture.editor import Editor
    from tests.torture.processes import Role
    from tests.torture.sources import Slot, Source
    from tests.torture.world import File

# A function gets so long; more than a good one ever needs, and little for those that never end.
TIMEOUT_S = 3.0
# Until a process that a step wants to kill has to be there.
START_S = 30.0
# Until what a killed server started has to be gone.
LEFT_S = 20.0
# The longest time between a step's beginning and its blow.
_PAUSE_S = 0.7
ENVIRONMENTS = ("one", "two")


# Typing and saving.


def type_a_constant(editor: Editor, rng: Random) -> None:
    file = an_open_file(editor, rng)
    editor.edit(file, other_constant(file.edited, rng))


def save(editor: Editor, rng: Random) -> None:
    editor.save(an_open_file(editor, rng))
    editor.counts.of["saves"] += 1


def type_and_save(editor: Editor, rng: Random) -> None:
    file = an_open_file(editor, rng)
    editor.edit(file, other_constant(file.edited, rng))
    save_file(editor, file)


def save_twice(editor: Editor, rng: Random) -> None:
    """As a formatter does, with another text the second time."""
    file = an_open_file(editor, rng)
    editor.edit(file, other_constant(file.edited, rng))
    save_file(editor, file)
    editor.edit(file, other_constant(file.edited, rng))
    save_file(editor, file)


def save_during_a_run(editor: Editor, rng: Random) -> None:
    file = an_open_file(editor, rng)
    profile_a_function_of(editor, rng, file)
    pause(rng)
    editor.edit(file, other_constant(file.edited, rng))
    save_file(editor, file)


def comment_and_save(editor: Editor, rng: Random) -> None:
    file = an_open_file(editor, rng)
    editor.edit(file, replace(file.edited, note=file.edited.note + rng.choice([1, 2, 3])))
    save_file(editor, file)


def undo(editor: Editor, rng: Random) -> None:
    """Back to an earlier text; one with results must show them at once."""
    file = an_open_file(editor, rng)
    known = sorted(editor.world.kept(file, editor.runs), key=repr)
    sources = [one.code for one in known] or file.history
    source = rng.choice(sources if rng.random() < 0.8 else file.history[-30:])
    editor.edit(file, source)
    editor.counts.of["undos"] += 1
    if rng.random() < 0.5:
        save_file(editor, file)


def break_a_function(editor: Editor, rng: Random) -> None:
    """A function becomes a bad one, unless there are enough of these."""
    file = an_open_file(editor, rng)
    slot = rng.choice(file.edited.slots)
    costly = [one for file in editor.world.files for one in file.edited.slots if one.kind.is_costly]
    kind = rng.choice([kind for kind in BAD if not (costly and kind.is_costly)])
    editor.edit(file, file.edited.with_slot(replace(slot, kind=kind)))
    save_file(editor, file)
    editor.counts.of["functions made bad"] += 1


def break_a_file(editor: Editor, rng: Random) -> None:
    """A file becomes one of which nothing can be run, or not soon."""
    file = an_open_file(editor, rng)
    editor.edit(file, replace(file.edited, top=rng.choice(TOPS)))
    save_file(editor, file)
    editor.counts.of["files made bad"] += 1


def mend(editor: Editor, rng: Random) -> None:
    """What costs most becomes good again, and otherwise anything that is bad."""
    file = max(editor.world.open_files or [an_open_file(editor, rng)], key=lambda file: _badness(file.edited))
    source = file.edited
    worst = max(source.slots, key=lambda slot: (slot.kind in BAD) + 2 * slot.kind.is_costly)
    if source.top != NO_TOP:
        source = replace(source, top=NO_TOP)
    elif worst.kind in BAD:
        kinds = [HELPED, *GOOD] if source.uses_helper else list(GOOD)
        source = source.with_slot(replace(worst, kind=rng.choice(kinds)))
    editor.edit(file, source)
    save_file(editor, file)


def change_the_helper(editor: Editor, rng: Random) -> None:
    """On disk, by somebody else; whoever imports it is saved then."""
    world = editor.world
    world.helper = Helper(rng.choice(CONSTANTS))
    world.helper_path.write_text(world.helper.text)
    world.disturb()
    for file in world.open_files:
        if file.edited.uses_helper and rng.random() < 0.7:
            save_file(editor, file)


# Files.


def close_and_open(editor: Editor, rng: Random) -> None:
    file = rng.choice(editor.world.files)
    if file.is_open:
        editor.close(file)
    else:
        restore(file)
        editor.open(file)
    file.is_undisturbed = False


def change_on_disk(editor: Editor, rng: Random) -> None:
    """Somebody else writes a file, and the editor shows it without a save of its own."""
    file = an_open_file(editor, rng)
    source = other_constant(file.saved, rng)
    file.path.write_text(source.text)
    editor.edit(file, source)
    file.saved, file.is_undisturbed = source, False
    editor.world.written.update(source.slots)


def rename(editor: Editor, rng: Random) -> None:
    """As an editor does it: the file, then close and open, then a word on it, or that first."""
    file = an_open_file(editor, rng)
    restore(file)
    old, new = file.path, file.path.with_name(f"{file.name}_{rng.randrange(10**6)}.py")
    told = {"files": [{"oldUri": old.as_uri(), "newUri": new.as_uri()}]}
    edited = file.edited
    old.rename(new)
    is_told_first = rng.random() < 0.5
    if is_told_first:
        editor.client.notify("workspace/didRenameFiles", told)
    editor.close(file)
    file.path = new
    file.is_open, file.edited = True, edited
    editor.client.open(new, edited.text)
    if not is_told_first:
        editor.client.notify("workspace/didRenameFiles", told)
    file.is_undisturbed = False


# Commands and requests.


def profile_a_function(editor: Editor, rng: Random) -> None:
    profile_a_function_of(editor, rng, an_open_file(editor, rng))


def profile_a_file(editor: Editor, rng: Random) -> None:
    editor.command("profileFile", {"uri": an_open_file(editor, rng).path.as_uri()})


def profile_all_stale(editor: Editor, rng: Random) -> None:
    editor.command("profileAllStale")


def ask_one_thing(editor: Editor, rng: Random) -> None:
    ask(editor, rng, an_open_file(editor, rng))
    editor.collect()


def ask_many_things(editor: Editor, rng: Random) -> None:
    """Requests on the way while the text changes."""
    file = an_open_file(editor, rng)
    for _ in range(rng.randrange(3, 9)):
        ask(editor, rng, rng.choice([file, an_open_file(editor, rng)]))
        if rng.random() < 0.3:
            editor.edit(file, other_constant(file.edited, rng))


def show_a_document(editor: Editor, rng: Random) -> None:
    file = an_open_file(editor, rng)
    slot = rng.choice(file.edited.slots)
    about = {"uri": file.path.as_uri(), "qualname": slot.qualname}
    editor.command(rng.choice(["showReport", "showLog", "goToFailure"]), about)


def change_the_settings(editor: Editor, rng: Random) -> None:
    """Sometimes with another environment, for which a new agent and worker are started."""
    world = editor.world
    if rng.random() < 0.2:
        world.environment = rng.choice(ENVIRONMENTS)
        world.disturb()
    editor.settings = settings_for(TIMEOUT_S, world.environment)
    if rng.random() < 0.5:
        editor.settings["diagnostics"] = {"severity": {"run-failed": rng.choice(["hint", "warning", "off"])}}
        editor.settings["hints"]["stale"] = rng.choice(["mark", "hide"])
    editor.client.configure(editor.settings)


def cancel(editor: Editor, rng: Random) -> None:
    """One run or all of them, at whatever moment."""
    begin_something(editor, rng)
    pause(rng)
    active = sorted(editor.active())
    if not active:
        begin_runs_of(editor, an_open_file(editor, rng))
        active = sorted(editor.active())
    if rng.random() < 0.5:
        editor.command("cancelAll")
        cancelled = set(active)
    else:
        cancelled = {rng.choice(active)} if active else set()
        for file in editor.world.open_files:
            for slot in file.edited.slots:
                if slot.name in cancelled:
                    editor.command("cancel", {"uri": file.path.as_uri(), "qualname": slot.qualname})
    editor.world.disturb()
    editor.collect()
    still = {name for name, title in editor.active().items() if title.startswith("Queued")} & cancelled
    if still:
        editor.counts.fault(f"{sorted(still)} still wait after they were cancelled")
    editor.counts.of["cancels"] += 1
    editor.counts.of["cancels of what waited or was on"] += bool(active)


def calm(editor: Editor, rng: Random) -> None:
    """Nothing for a while; then what is shown is looked at closely."""
    editor.calm()
    for file in editor.world.open_files:
        editor.hints(file)


# Blows.


def kill_worker(editor: Editor, rng: Random) -> None:
    kill_once_or_twice(editor, rng, "worker")


def kill_agent(editor: Editor, rng: Random) -> None:
    kill_once_or_twice(editor, rng, "agent")


def kill_server(editor: Editor, rng: Random) -> None:
    """The server goes and comes again, with the texts as the editor has them."""
    for _ in range(1 + (rng.random() < 0.2)):
        begin_something(editor, rng)
        pause(rng)
        mark = editor.mark
        editor.kill_server()
        editor.counts.of["kills of the server"] += 1
        editor.world.disturb()
        editor.world.forget_since(time.monotonic() - WRITING_S)
        if rng.random() < 0.5:
            look_for_what_is_left(editor, mark, editor.are_both_killed)
        are_both_killed = editor.are_both_killed
        editor.start()
        look_for_what_is_left(editor, mark, are_both_killed)


def look_for_what_is_left(editor: Editor, mark: str, are_both_killed: bool) -> None:
    """Of a server that has ended nothing may be left."""
    for process in processes.left(mark, LEFT_S):
        # What user code started is ended by its agent, and where that is killed by the keeper above it; by nobody
        # where both are killed before either could do anything.
        if process.role == "other" and are_both_killed:
            editor.counts.of["processes of user code left by killed agents and keepers"] += 1
        else:
            editor.counts.fault(f"{process.role} {process.pid} is left of a server that ended: {process.command}")
        processes.kill(process.pid)


def kill_once_or_twice(editor: Editor, rng: Random, role: Role) -> None:
    for number in range(1 + (rng.random() < 0.3)):
        begin_something(editor, rng)
        pause(rng)
        pid = processes.find(editor.mark, role, 0.0)
        if pid is None:
            begin_runs_of(editor, an_open_file(editor, rng))
            pid = processes.find(editor.mark, role, START_S)
        if pid is not None and processes.kill(pid):
            editor.counts.of[f"kills of the {role}"] += 1
            editor.are_both_killed |= role == "agent" and number > 0
        editor.world.disturb()


# What steps are made of.


def an_open_file(editor: Editor, rng: Random) -> File:
    """Any open file; one is opened if there is none."""
    files = editor.world.open_files
    if files:
        return rng.choice(files)
    file = rng.choice(editor.world.files)
    restore(file)
    editor.open(file)
    return file


def restore(file: File) -> None:
    """A file may have deleted itself."""
    if not file.path.exists():
        file.path.write_text(file.saved.text)


def save_file(editor: Editor, file: File) -> None:
    editor.save(file)
    editor.counts.of["saves"] += 1


def other_constant(source: Source, rng: Random) -> Source:
    slot = rng.choice(source.slots)
    return source.with_slot(replace(slot, constant=rng.choice([one for one in CONSTANTS if one != slot.constant])))


def profile_a_function_of(editor: Editor, rng: Random, file: File) -> None:
    slot: Slot = rng.choice(file.edited.slots)
    editor.command("profileFunction", {"uri": file.path.as_uri(), "qualname": slot.qualname})


def ask(editor: Editor, rng: Random, file: File) -> None:
    match rng.randrange(3):
        case 0:
            editor.ask_lenses(file)
        case 1:
            editor.ask_hints(file)
        case _:
            editor.ask_hover(file, rng.randrange(1, 60))


def begin_something(editor: Editor, rng: Random) -> None:
    """Mostly something that leads to runs."""
    match rng.randrange(4):
        case 0:
            type_and_save(editor, rng)
        case 1:
            profile_a_file(editor, rng)
        case 2:
            profile_a_function(editor, rng)


def begin_runs_of(editor: Editor, file: File) -> None:
    """Runs of a file that is good on disk and in the editor."""
    restore(file)
    if file.saved != file.edited or _badness(file.edited):
        kinds = HELPED if file.edited.uses_helper else GOOD[0]
        slots = tuple(replace(slot, kind=kinds) if slot.kind in BAD else slot for slot in file.edited.slots)
        editor.edit(file, replace(file.edited, slots=slots, top=NO_TOP))
        save_file(editor, file)
    editor.command("profileFile", {"uri": file.path.as_uri()})
    editor.collect()


def pause(rng: Random) -> None:
    """A random time, so that a blow may fall at any moment; often none."""
    if rng.random() < 0.7:
        time.sleep(rng.random() * _PAUSE_S)


def _badness(source: Source) -> int:
    slots = sum((slot.kind.ending != FRESH) + 3 * slot.kind.is_costly for slot in source.slots)
    return slots + (source.top != NO_TOP) + 10 * source.top.is_costly


# The plan.


@dataclass(frozen=True, slots=True)
class Step:
    """A step of which a plan has a number, out of 2000, or else a share of the rest."""

    do: Callable[[Editor, Random], None]
    weight: int = 0
    of_2000: int = 0


STEPS = (
    Step(kill_worker, of_2000=33),
    Step(kill_agent, of_2000=33),
    Step(kill_server, of_2000=33),
    Step(cancel, of_2000=75),
    Step(calm, of_2000=120),
    Step(break_a_function, of_2000=50),
    Step(break_a_file, of_2000=12),
    Step(mend, of_2000=80),
    Step(change_the_settings, of_2000=25),
    Step(rename, of_2000=20),
    Step(type_a_constant, weight=14),
    Step(type_and_save, weight=10),
    Step(save, weight=5),
    Step(save_twice, weight=3),
    Step(save_during_a_run, weight=3),
    Step(comment_and_save, weight=4),
    Step(undo, weight=8),
    Step(change_the_helper, weight=2),
    Step(close_and_open, weight=4),
    Step(change_on_disk, weight=2),
    Step(profile_a_function, weight=6),
    Step(profile_a_file, weight=3),
    Step(profile_all_stale, weight=2),
    Step(ask_one_thing, weight=20),
    Step(ask_many_things, weight=6),
    Step(show_a_document, weight=2),
)


def plan(seed: int, count: int) -> list[Step]:
    """So many steps in random order."""
    rng = Random(seed)
    steps = [step for step in STEPS for _ in range(round(step.of_2000 * count / 2000))]
    others = [step for step in STEPS if step.weight]
    steps += rng.choices(others, [step.weight for step in others], k=max(0, count - len(steps)))
    rng.shuffle(steps)
    return steps[:count]
