"""Two thousand steps of an editor, its person and bad luck with the real server, agent and worker.

Saves, edits, undo, cancels, commands, bad functions, and kills of each process come in an order that a seed decides;
it is printed, and pytest --torture-seed takes it. Whatever happens, requests are answered, texts have the numbers of
their own runs, and in the end every function is in the state that its last text explains, no result is lost, and
nothing is left.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

import pytest

from tests.torture import processes
from tests.torture.conftest import limit_s
from tests.torture.counts import Counts
from tests.torture.editor import Editor, operators_shown, settings_for, wrong_state
from tests.torture.sources import BAD, FRESH, TOPS, Slot, Source
from tests.torture.steps import ENVIRONMENTS, TIMEOUT_S, begin_runs_of, look_for_what_is_left, plan, restore
from tests.torture.world import World

if TYPE_CHECKING:
    from pathlib import Path

    from tests.torture.world import File

pytestmark = pytest.mark.torch

# Of 2000 steps.
AT_LEAST = {
    "cancels of what waited or was on": 50,
    "kills of the worker": 30,
    "kills of the agent": 30,
    "kills of the server": 30,
}
FINISHED_AT_LEAST = 300
# In the end a good function gets so long, and those that never end too.
PATIENT_S = 6.0
# How many earlier texts of each file have to show their results again.
SAMPLES = 8


def test_nothing_is_lost_or_left_whatever_happens(
    pytestconfig: pytest.Config, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    count: int = pytestconfig.getoption("--torture-steps")
    seed: int = pytestconfig.getoption("--torture-seed")
    deadline = time.monotonic() + limit_s(pytestconfig)
    folder, home = tmp_path / "ws", tmp_path / "home"
    folder.mkdir()
    (folder / "pyproject.toml").touch()
    counts = Counts()
    world = World.begin(folder, random.Random(seed))
    world.environment = ENVIRONMENTS[0]
    editor = Editor(world, counts, home, settings_for(TIMEOUT_S, world.environment))
    started_s = time.monotonic()
    try:
        with capsys.disabled():
            print(f"\ntorture: {count} steps with --torture-seed={seed}")
        editor.start()
        for number, step in enumerate(plan(seed, count), 1):
            counts.step = f"step {number} {step.do.__name__}"
            step.do(editor, random.Random(f"{seed} {number}"))
            counts.of["steps"] = number
            editor.read_log()
            if time.monotonic() > deadline:
                pytest.fail(f"only {number} of {count} steps within {limit_s(pytestconfig):g} s")
        counts.step = "the end"
        end(editor)
    finally:
        for process in processes.left(f"{home}:", 0.0):
            processes.kill(process.pid)
        counts.of["seconds"] = round(time.monotonic() - started_s)
        with capsys.disabled():
            print(f"{counts.table()}\n--torture-seed={seed}")
            print("\n".join(counts.faults))
    assert counts.faults == []
    for name, least in AT_LEAST.items():
        assert counts.of[name] >= least * count // 2000, name
    assert counts.of["runs fresh"] + counts.of["runs failed"] >= FINISHED_AT_LEAST * count // 2000


_FAILING = tuple(Slot(f"alpha_{number}", kind, 1) for number, kind in enumerate(BAD) if kind.ending != FRESH)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(Source(_FAILING), id="functions"),
        *(pytest.param(Source(_FAILING[:1], top=top), id=top.name) for top in TOPS if top.ending != FRESH),
    ],
)
def test_what_fails_ends_as_its_text_says(source: Source, tmp_path: Path) -> None:
    folder = tmp_path / "ws"
    folder.mkdir()
    (folder / "pyproject.toml").touch()
    world = World.begin(folder, random.Random(0))
    file = world.files[0]
    file.edited = file.saved = source
    file.path.write_text(source.text)
    counts = Counts()
    editor = Editor(world, counts, tmp_path / "home", settings_for(PATIENT_S, ""))
    editor.start()
    editor.open(file)
    editor.command("profileAllStale")
    editor.collect()
    editor.calm()
    check_states(editor, file)
    editor.stop()
    assert counts.faults == []
    assert counts.of["runs failed"] == sum(bool(source.ending(slot).failure) for slot in source.slots)


def end(editor: Editor) -> None:
    """Save all, run what is to be run, and look at everything that there is."""
    world, counts = editor.world, editor.counts
    editor.settings = settings_for(PATIENT_S, world.environment)
    editor.client.configure(editor.settings)
    for file in world.files:
        if not file.is_open:
            restore(file)
            editor.open(file)
        editor.save(file)
    editor.calm()
    editor.command("profileAllStale")
    editor.collect()
    editor.calm()
    for file in world.files:
        check_states(editor, file)
    check_results_come_back(editor)
    check_folders(editor)
    agents = {one.pid for one in processes.marked(editor.mark) if one.role in ("server", "agent")}
    counts.of["zombies"] = len(processes.zombies(agents))
    if counts.of["zombies"]:
        counts.fault(f"{counts.of['zombies']} processes have ended and nobody waited for them")
    editor.stop()
    look_for_what_is_left(editor, f"{editor.home}:", editor.are_both_killed)
    check_nothing_is_left(editor)


def check_states(editor: Editor, file: File) -> None:
    """Every function is in the state that its text explains, with its own numbers."""
    source = file.edited
    titles = editor.lenses(file)
    if not source.top.parses:
        # What was run of it is not for today's text.
        return
    hints = editor.hints(file)
    for slot in source.slots:
        if slot.name not in titles:
            editor.counts.fault(f"{slot.name} has no lens in\n{source.text}")
            continue
        wrong = wrong_state(source, slot.name, titles[slot.name])
        if wrong:
            editor.counts.fault(wrong)
        elif source.ending(slot) == FRESH:
            place = source.places()[slot.name]
            wanted = {
                line: editor.world.helper.constant if count is None else count
                for line, count in place.operators.items()
                if count != 0
            }
            shown = {line: operators_shown(hints.get(line, "")) for line in place.operators if line in hints}
            if shown != wanted:
                editor.counts.fault(f"{slot.name} shows operators {shown}, not {wanted} in\n{source.text}")
    editor.counts.of["functions checked in the end"] += len(source.slots)


def check_results_come_back(editor: Editor) -> None:
    """Earlier texts show their results at once and need no run."""
    rng = random.Random(0)
    for file in editor.world.files:
        known = editor.world.kept(file, editor.runs)
        for text in rng.sample(sorted(known, key=repr), min(SAMPLES, len(known))):
            editor.edit(file, text.code)
            titles = editor.lenses(file)
            for name in sorted(known[text]):
                if "Re-profile" not in titles.get(name, []):
                    editor.counts.fault(f"the result of {name} is lost: {titles.get(name)} for\n{text.code.text}")
            before = editor.runs.copy()
            editor.save(file)
            editor.calm()
            again = {name for name in known[text] if editor.runs[name] > before[name]}
            if again:
                editor.counts.fault(f"{sorted(again)} were run again although nothing had changed in\n{text.code.text}")
            editor.counts.of["earlier texts checked in the end"] += 1


def check_folders(editor: Editor) -> None:
    """No run folder stays once no run is on; those of killed agents go with the next run."""
    begin_runs_of(editor, editor.world.files[0])
    editor.calm()
    runs = editor.home / "cache" / "profile-neuron" / "runs"
    folders = sorted(path.name for path in runs.iterdir()) if runs.exists() else []
    editor.counts.of["run folders left"] = len(folders)
    if folders:
        editor.counts.fault(f"run folders are left: {folders}")


def check_nothing_is_left(editor: Editor) -> None:
    """The workspace holds what the person wrote, and nothing of ours."""
    world = editor.world
    wanted = {file.path for file in world.files} | {world.helper_path, world.folder / "pyproject.toml"}
    found = {path for path in world.folder.rglob("*") if path.is_file()}
    if found - wanted:
        editor.counts.fault(f"files are left in the workspace: {sorted(map(str, found - wanted))}")
