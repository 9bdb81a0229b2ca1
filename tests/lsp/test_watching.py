"""Files that something else than the editor writes: git, formatters, other editors."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests.conftest import case
from tests.lsp.conftest import DECORATOR_MODULES
from tests.lsp.screen import act, hints, lenses, ready, settle, until, until_hints, until_lens
from tests.lsp.test_cases import expected
from tests.lsp.test_server import FRESH, NEW, OLD, SOURCE, UNKNOWN, append, names

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fakes.control import FakeAgents
    from tests.lsp.client import Client, Document
    from tests.lsp.conftest import Serve

# Without the watcher of ours, which is named here as the process finds it: nothing of it may be needed.
DEAF = (
    "from profile_neuron.daemon import watcher; watcher.Watcher.watch = lambda *_: None; "
    "import sys; sys.argv = ['profile-neuron', 'serve']; from profile_neuron.cli import main; main()"
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "ws"


@pytest.fixture
def client(serve: Serve, root: Path) -> Client:
    return ready(serve([root], settings={"decorator": {"modules": DECORATOR_MODULES}}))


@pytest.fixture
def path(root: Path) -> Path:
    return root / "model.py"


@pytest.fixture
def profiled(client: Client, path: Path) -> Document:
    """A document with a result."""
    document = client.open(path, SOURCE)
    document.save()
    until_hints(client, path, NEW)
    return document


def take_over(document: Document, text: str) -> None:
    """Do as an editor does that notices a change of a file of which it has no edits: show it, and save nothing."""
    document.replace_all(text)


def test_a_file_that_something_else_wrote_runs_what_changed_once_the_editor_shows_it(
    client: Client, profiled: Document, path: Path, fake: FakeAgents
) -> None:
    text = SOURCE.replace("y * 2", "y * 3")
    path.write_text(text)
    take_over(profiled, text)
    until(client, lambda: len(fake.runs), lambda count: count == 2)
    until_hints(client, path, NEW)
    assert lenses(client, path) == FRESH


def test_a_function_that_never_ran_and_was_not_edited_is_not_run_by_others_who_write_the_file(
    client: Client, path: Path, fake: FakeAgents
) -> None:
    both = f"{SOURCE}\n@profile_neuron\ndef g(x):\n    return x + 1\n"
    third = f"{both}\n@profile_neuron\ndef h(x):\n    return x\n"
    path.write_text(third)
    document = client.open(path, third)
    act(client, "profileFunction", {"uri": path.as_uri(), "line": 4})
    until_lens(client, path, "Re-profile")
    text = third.replace("return x + 1", "return x + 2")
    path.write_text(text)
    take_over(document, text)
    until(client, lambda: lenses(client, path), lambda seen: seen.count("Re-profile") == 2)
    assert names(fake.runs) == ["f", "g"]


def test_a_formatter_that_changes_no_code_runs_nothing(
    client: Client, profiled: Document, path: Path, root: Path, fake: FakeAgents
) -> None:
    text = SOURCE.replace("y * 2", "(y * 2)  # formatted")
    path.write_text(text)
    take_over(profiled, text)
    settle(client, root)
    assert hints(client, path) == NEW
    assert len(fake.runs) == 1


def test_what_the_editor_does_not_show_is_not_run(
    client: Client, profiled: Document, path: Path, root: Path, fake: FakeAgents
) -> None:
    profiled.replace("y * 2", "y * 4")
    path.write_text(SOURCE.replace("y * 2", "y * 3"))
    settle(client, root)
    assert len(fake.runs) == 1
    # It is what is saved in the end that counts.
    profiled.save()
    until(client, lambda: len(fake.runs), lambda count: count == 2)
    until_hints(client, path, NEW)


def test_a_module_that_something_else_wrote_runs_what_executed_it(
    client: Client, root: Path, path: Path, fake: FakeAgents
) -> None:
    helper = root / "helper.py"
    helper.write_text("two = 2\n")
    client.open(path, SOURCE + "    # fake: module helper.py\n").save()
    until_hints(client, path, NEW)
    fake.hold()
    helper.write_text("two = 3\n")
    until_hints(client, path, OLD)
    fake.hold(False)
    until_hints(client, path, NEW)
    assert len(fake.runs) == 2
    os.utime(helper, (time.time() + 86400,) * 2)
    settle(client, root)
    assert len(fake.runs) == 2, "a time stamp is no content"


@pytest.mark.parametrize("mode", ["off", "always"])
def test_the_setting_for_saves_counts_for_others_who_write_as_well(
    serve: Serve, root: Path, path: Path, fake: FakeAgents, mode: str
) -> None:
    client = ready(serve([root], settings={"runOnSave": mode}))
    before = SOURCE + "    # fake: module helper.py\n"
    helper = root / "helper.py"
    helper.write_text("two = 2\n")
    path.write_text(before)
    document = client.open(path, before)
    act(client, "profileFunction", {"uri": path.as_uri(), "line": 4})
    until_hints(client, path, NEW)
    text = before.replace("y * 2", "y * 3")
    path.write_text(text)
    take_over(document, text)
    if mode == "always":
        until(client, lambda: len(fake.runs), lambda count: count == 2)
        until_hints(client, path, NEW)
        return
    # What comes after it has been seen, and it has not been run.
    for number in (3, 2, 4):
        helper.write_text(f"two = {number}\n")
        until(
            client,
            lambda: client.hover(path.as_uri(), 3, 5),
            lambda seen, number=number: ("helper.py" in str(seen)) == (number != 2),
        )
    assert len(fake.runs) == 1


def test_a_save_by_the_editor_itself_is_one_run_and_an_automatic_one_none(
    client: Client, profiled: Document, path: Path, root: Path, fake: FakeAgents
) -> None:
    profiled.replace("y * 2", "y * 3")
    profiled.save(reason=2)
    settle(client, root)
    # The watcher has seen it too, and has to hold its tongue.
    settle(client, root)
    assert len(fake.runs) == 1
    profiled.replace("y * 3", "y * 4")
    profiled.save()
    until(client, lambda: len(fake.runs), lambda count: count == 2)
    settle(client, root)
    assert len(fake.runs) == 2


def test_R10_a_checkout_runs_only_what_is_open_and_changed(client: Client, root: Path, fake: FakeAgents) -> None:
    wanted = expected("R10")
    script = str(case("R10") / "make_tree.py")
    subprocess.run([sys.executable, script, "a"], cwd=root, check=True)
    paths = {f"m{number:03}": root / f"repo/pkg{number:02}/m{number:03}.py" for number in (1, 2, 3)}
    documents = {name: client.open(path) for name, path in paths.items()}
    for path in paths.values():
        assert lenses(client, path) == UNKNOWN
    # The folders of opened files are watched a moment after they were opened.
    settle(client, root)
    subprocess.run([sys.executable, script, "b"], cwd=root, check=True)
    began_s = time.monotonic()
    for name, document in documents.items():
        take_over(document, paths[name].read_text())
    until(
        client,
        lambda: [lenses(client, paths[name])[-1] for name in ("m001", "m003")],
        lambda seen: seen == ["Re-profile"] * 2,
    )
    settle(client, root)
    assert sorted(run["path"] for run in fake.runs) == sorted(str(paths[name]) for name in wanted["expect"]["runs"])
    assert lenses(client, paths["m002"]) == UNKNOWN
    assert time.monotonic() - began_s < wanted["expect"]["idleAgainWithinSeconds"]


def test_W02_without_events_the_editor_is_enough(serve: Serve, root: Path, path: Path, fake: FakeAgents) -> None:
    client = ready(serve([root], command=[sys.executable, "-c", DEAF]))
    document = client.open(path, SOURCE)
    document.save()
    until_hints(client, path, NEW)
    # A change on another host is shown by the editor, and told by it if it watches files.
    text = SOURCE.replace("y * 2", "y * 3")
    path.write_text(text)
    os.utime(path, (time.time() + 3600,) * 2)
    take_over(document, text)
    settle(client, root)
    assert len(fake.runs) == 1
    client.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": path.as_uri(), "type": 2}]})
    until(client, lambda: len(fake.runs), lambda count: count == 2)
    until_hints(client, path, NEW)
    os.utime(path, (time.time() - 3600,) * 2)
    client.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": path.as_uri(), "type": 2}]})
    settle(client, root)
    append(document, "    # saved as always\n")
    document.save()
    settle(client, root)
    assert len(fake.runs) == 2


def test_the_editor_is_asked_to_tell_of_python_files(client: Client) -> None:
    asked = [item for call in client.all("client/registerCapability") for item in call.params["registrations"]]
    (found,) = (item for item in asked if item["method"] == "workspace/didChangeWatchedFiles")
    assert found["registerOptions"] == {"watchers": [{"globPattern": "**/*.py"}]}


@pytest.mark.parametrize("limit", ["max_inotify_watches", "max_inotify_instances"])
def test_W01_where_no_more_can_be_watched_one_message_says_so_and_saves_run_as_always(
    limit: str, serve: Serve, root: Path, path: Path, fake: FakeAgents
) -> None:
    # In a namespace of its own, so that nobody else meets the limit.
    own = ["unshare", "--user", "--map-root-user", "sh", "-c", f'echo 0 > /proc/sys/user/{limit} && exec "$@"', "sh"]
    if subprocess.run([*own, "true"], check=False, capture_output=True).returncode:
        pytest.skip("namespaces of users are not allowed here")
    client = ready(serve([root], command=[*own, sys.executable, "-m", "profile_neuron", "serve"]))
    document = client.open(path, SOURCE)
    document.save()
    until_hints(client, path, NEW)
    said = client.wait_for("window/showMessage")["message"]
    assert "sysctl fs.inotify.max_user_" in said
    # Open files are looked at instead.
    text = SOURCE.replace("y * 2", "y * 3")
    path.write_text(text)
    take_over(document, text)
    until(client, lambda: len(fake.runs), lambda count: count == 2)
    until_hints(client, path, NEW)
    other = client.open(root / "other.py", SOURCE)
    other.save()
    until_hints(client, root / "other.py", NEW)
    assert len(client.all("window/showMessage")) == 1
    assert "Traceback" not in client.stderr


def test_what_could_not_be_run_because_its_file_was_gone_is_run_when_it_is_back(
    client: Client, root: Path, path: Path, fake: FakeAgents
) -> None:
    document = client.open(path, SOURCE)
    fake.hold()
    client.open(root / "first.py", SOURCE).save()
    fake.wait_for_event("started")
    document.save()
    settle(client, root)
    assert lenses(client, path)[0].startswith("Queued")
    path.unlink()
    mark = client.mark()
    fake.hold(False)
    client.wait_for(
        "window/logMessage", lambda params: "is not on disk; save it first" in params["message"], after=mark
    )
    path.write_text(SOURCE)
    until_hints(client, path, NEW)
    assert lenses(client, path) == FRESH


def carry_out(event: dict[str, str], folder: Path, text: str) -> None:
    """One step of an editor that saves in its own way; what it writes to the model is the text."""
    path = folder / event.get("path", "")
    match event["action"]:
        case "create" | "modify" | "close_write":
            path.write_text(text)
        case "rename":
            (folder / event["src"]).rename(folder / event["dst"])
        case "delete":
            path.unlink()
        case "attrib":
            os.utime(path)


def test_W03_each_save_by_renaming_is_one_run_of_its_text(
    client: Client, profiled: Document, path: Path, root: Path, fake: FakeAgents
) -> None:
    steps = [json.loads(line) for line in (case("W03") / "events.jsonl").read_text().splitlines()]
    # Each of them ends when the model is there with another content.
    saves = [steps[:2], steps[2:5], steps[5:]]
    assert len(saves) == expected("W03")["changesSeen"]["model.py"]
    for number, events in enumerate(saves, 3):
        text = SOURCE.replace("y * 2", f"y * {number}")
        for event in events:
            carry_out(event, root, text)
        take_over(profiled, text)
        until(client, lambda: len(fake.runs), lambda count, number=number: count == number - 1)
        until_hints(client, path, NEW)
    settle(client, root)
    assert len(fake.runs) == 1 + len(saves)
    assert fake.runs[-1]["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()


def test_W04_several_events_of_one_save_are_one_run_and_a_touch_is_none(
    client: Client, path: Path, root: Path, fake: FakeAgents
) -> None:
    wanted = expected("W04")
    steps = [json.loads(line) for line in (case("W04") / "events.jsonl").read_text().splitlines()]
    path.write_text(SOURCE)
    document = client.open(path)
    text = SOURCE.replace("y * 2", "y * 3")
    document.replace_all(text)
    for event in steps:
        match event["action"]:
            case "didSave":
                client.notify("textDocument/didSave", {"textDocument": {"uri": document.uri}})
            case "wait":
                until_hints(client, path, NEW)
                settle(client, root)
                assert len(fake.runs) == wanted["runs"]
            case _:
                carry_out(event, root, text)
    for _ in range(2):
        settle(client, root)
    assert len(fake.runs) == wanted["runs"] + wanted["runsAfterTouch"]
