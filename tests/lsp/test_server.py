"""Saves, runs, files, settings, folders and commands, with a fake agent behind the real server."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

from tests.fakes.control import write_interpreter
from tests.lsp.client import CAPABILITIES, LATER, Client, Document, LspError, path_of
from tests.lsp.conftest import with_fake
from tests.lsp.screen import (
    act,
    append,
    click,
    diagnostics,
    edit_of,
    hints,
    lenses,
    logged,
    ready,
    said,
    settle,
    until,
    until_hints,
    until_lens,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from tests.fakes.control import FakeAgents
    from tests.lsp.conftest import Serve

SOURCE = """\
from profile_neuron import profile_neuron

@profile_neuron
def f(x):
    y = x + 1
    z = y * 2
    return z
"""
NEW = {5: "cpu 1.00 ms · 17 % · 1 op", 6: "cpu 2.00 ms · 33 % · 1 op", 7: "cpu 3.00 ms · 50 % · 1 op"}
OLD = {5: "~cpu 1.00 ms", 6: "~cpu 2.00 ms", 7: "~cpu 3.00 ms"}
# After an edit of the middle one.
EDITED = {5: OLD[5], 7: OLD[7]}
UNKNOWN = ["Profile on the CPU"]
FRESH = ["cpu 6.00 ms", "Re-profile"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "ws"


@pytest.fixture
def served(serve: Serve) -> Serve:
    """Start servers and wait until they know their settings."""
    return lambda roots, **options: ready(serve(roots, **options))


@pytest.fixture
def client(served: Serve, root: Path) -> Client:
    return served([root])


@pytest.fixture
def path(root: Path) -> Path:
    return root / "model.py"


@pytest.fixture
def document(client: Client, path: Path) -> Document:
    """A document with the function f, of which nothing is known."""
    return client.open(path, SOURCE)


@pytest.fixture
def profiled(document: Document) -> Document:
    """The same with a result."""
    document.save()
    until_hints(document.client, document.uri, NEW)
    return document


def many(count: int) -> str:
    """A file with functions f0, f1 and so on, in lines 3 to 5, 7 to 9 and so on."""
    functions = (f"@profile_neuron\ndef f{number}(x):\n    return x + {number}\n" for number in range(count))
    return "from profile_neuron import profile_neuron\n\n" + "\n".join(functions)


def about(target: Document, qualname: str = "f") -> dict[str, Any]:
    """What a lens gives its command."""
    return {"uri": target.uri, "qualname": qualname, "occurrence": 0}


def names(runs: Iterable[dict[str, Any]]) -> list[str]:
    return [run["qualname"] for run in runs]


class TestSaving:
    def test_a_helper_that_is_saved_after_the_first_run_that_imports_it_runs_it_again(
        self, client: Client, root: Path, path: Path, fake: FakeAgents
    ) -> None:
        helper = client.open(root / "aside.py", "X = 1\n")
        client.open(path, f"# fake: module aside.py\n{SOURCE}").save()
        until_lens(client, path, "Re-profile")
        helper.replace("X = 1", "X = 2")
        helper.save()
        until(client, lambda: len(fake.runs), lambda count: count == 2)
        until_lens(client, path, "Re-profile")

    def test_what_an_earlier_save_wanted_is_run_although_later_ones_edit_other_functions(
        self, client: Client, root: Path, fake: FakeAgents
    ) -> None:
        document = client.open(root / "many.py", many(25))
        client.lenses(document.uri)
        fake.hold()
        document.replace("x + 0\n", "x + 100\n")
        document.save()
        fake.wait_for_event("started")
        for number in (1, 2):
            document.replace(f"x + {number}\n", f"x + {number}00\n")
            document.save()
            settle(client, root)
        fake.hold(False)
        until(client, lambda: lenses(client, document.uri), lambda seen: "Cancel" not in seen)
        assert sorted(set(names(fake.runs))) == ["f0", "f1", "f2"]

    def test_a_cancel_while_saves_are_gathered_does_not_outlive_the_next_save(
        self, client: Client, path: Path, fake: FakeAgents
    ) -> None:
        document = client.open(path, SOURCE)
        document.save()
        act(client, "cancelAll")
        document.replace("x + 1", "x + 3")
        document.save()
        until_lens(client, path, "Re-profile")
        assert len(fake.runs) >= 1

    def test_what_another_program_wrote_and_the_editor_took_over_can_be_profiled(
        self, client: Client, path: Path, fake: FakeAgents
    ) -> None:
        document = client.open(path, SOURCE)
        client.barrier()
        text = SOURCE.replace("x + 1", "x + 4")
        path.write_text(text, encoding="utf-8")
        document.replace_all(text)
        act(client, "profileFunction", about(document))
        until_lens(client, path, "Re-profile")
        assert said(client) == []

    def test_a_comment_that_is_saved_while_functions_wait_starts_no_run_twice(
        self, client: Client, root: Path, fake: FakeAgents
    ) -> None:
        document = client.open(root / "many.py", many(4))
        fake.hold()
        document.save()
        fake.wait_for_event("started")
        document.replace("x + 3\n", "x + 3  # three\n")
        document.save()
        settle(client, root)
        fake.hold(False)
        until(client, lambda: lenses(client, document.uri), lambda seen: "Cancel" not in seen)
        assert names(fake.runs) == ["f0", "f1", "f2", "f3"]

    def test_an_edit_and_a_save_before_anything_was_asked_run_what_was_edited(
        self, serve: Serve, root: Path, fake: FakeAgents
    ) -> None:
        client = ready(serve([root]))
        document = client.open(root / "many.py", many(40))
        document.replace("x + 31\n", "x + 310\n")
        document.save()
        until_lens(client, document.uri, "Re-profile")
        assert names(fake.runs) == ["f31"], "and not the first twenty"

    def test_a_save_during_a_run_is_followed_by_a_run_of_what_it_saved(
        self, client: Client, document: Document, fake: FakeAgents
    ) -> None:
        fake.hold()
        document.save()
        until_lens(client, document.uri, "Profiling…")
        (first,) = fake.runs
        document.replace("y * 2", "y * 3")
        document.save()
        settle(client, document.path.parent)
        mark = fake.mark()
        fake.finish()
        second = fake.wait_for_event("started", after=mark)
        shown: list[dict[int, str]] = []

        def look() -> dict[int, str]:
            shown.append(hints(client, document.uri))
            return shown[-1]

        until(client, look, lambda seen: seen == EDITED)
        fake.finish()
        until(client, look, lambda seen: seen == NEW)
        assert all("%" not in text for seen in shown[:-1] for text in seen.values()), "an old number is never fresh"
        assert first["sha256"] == hashlib.sha256(SOURCE.encode()).hexdigest()
        assert second["sha256"] == hashlib.sha256(document.text.encode()).hexdigest()
        document.replace("y * 3", "y * 2")
        assert hints(client, document.uri) == NEW, "the old result was kept for the text that it is of"
        assert lenses(client, document.uri) == FRESH
        document.save()
        settle(client, document.path.parent)
        assert len(fake.runs) == 2

    def test_ten_quick_saves_are_one_run_of_the_last_text(
        self, client: Client, document: Document, fake: FakeAgents
    ) -> None:
        for number in range(10):
            document.replace_all(SOURCE.replace("y * 2", f"y * {number}"))
            document.save()
        until_hints(client, document.uri, NEW)
        settle(client, document.path.parent)
        (run,) = fake.runs
        assert run["sha256"] == hashlib.sha256(document.text.encode()).hexdigest()

    def test_what_was_saved_meanwhile_waits_only_once(
        self, client: Client, document: Document, fake: FakeAgents
    ) -> None:
        fake.hold()
        document.save()
        until_lens(client, document.uri, "Profiling…")
        for number in range(3, 6):
            document.replace_all(SOURCE.replace("y * 2", f"y * {number}"))
            document.save()
            settle(client, document.path.parent)
        fake.finish()
        fake.finish()
        until_hints(client, document.uri, NEW)
        settle(client, document.path.parent)
        assert [run["sha256"] for run in fake.runs] == [
            hashlib.sha256(text.encode()).hexdigest() for text in (SOURCE, document.text)
        ]

    def test_a_save_shows_at_once_what_it_will_run(self, client: Client, document: Document, fake: FakeAgents) -> None:
        fake.hold()
        assert lenses(client, document.uri) == UNKNOWN
        document.save()
        assert lenses(client, document.uri) == ["Queued", "Cancel"]
        until_lens(client, document.uri, "Profiling… 1/")
        fake.finish()
        until(client, lambda: lenses(client, document.uri), lambda seen: seen == FRESH)

    @pytest.mark.parametrize(
        ("setting", "running"),
        [("off", set()), ("manual", {1, None}), ("always", {1, 2, 3, None})],
        ids=["off", "manual", "always"],
    )
    def test_who_saved_decides_with_the_setting(
        self, setting: str, running: set[int | None], served: Serve, tmp_path: Path, fake: FakeAgents
    ) -> None:
        root, other = tmp_path / "ws", tmp_path / "other"
        client = served([root, other], settings={root: {"runOnSave": setting}, other: {}})
        paths = {reason: root / f"saved{reason}.py" for reason in (2, 3, 1, None)}
        for reason, path in paths.items():
            client.open(path, SOURCE).save(reason)
        settle(client, other)
        for reason in running:
            until_hints(client, paths[reason], NEW)
        assert {reason for reason, path in paths.items() if lenses(client, path) != UNKNOWN} == running
        assert len(fake.runs) == len(running)

    def test_a_will_save_counts_for_one_save_only(self, client: Client, document: Document, fake: FakeAgents) -> None:
        document.save(reason=2)
        document.save(reason=None)
        until_hints(client, document.uri, NEW)
        assert len(fake.runs) == 1

    def test_a_document_that_is_nowhere_has_to_be_saved_first(
        self, client: Client, path: Path, fake: FakeAgents
    ) -> None:
        document = Document(client, path.as_uri())
        document.open(SOURCE)
        assert lenses(client, document.uri) == UNKNOWN
        assert act(client, "profileFunction", about(document)) == []
        client.wait_for("window/showMessage")
        (message,) = said(client)
        assert "save it first" in message
        path.parent.mkdir(exist_ok=True)
        document.save()
        until_hints(client, document.uri, NEW)
        assert len(fake.runs) == 1

    def test_a_command_runs_what_is_on_disk_also_below_edits(
        self, client: Client, document: Document, fake: FakeAgents
    ) -> None:
        document.replace("y * 2", "y * 3")
        assert len(act(client, "profileFunction", about(document))) == 1
        until_hints(client, document.uri, EDITED)
        (run,) = fake.runs
        assert run["sha256"] == hashlib.sha256(SOURCE.encode()).hexdigest()

    def test_a_file_that_another_program_wrote_is_not_run_for_what_the_editor_shows(
        self, client: Client, document: Document, path: Path, fake: FakeAgents
    ) -> None:
        path.write_text(SOURCE.replace("y * 2", "y * 3"))
        assert act(client, "profileFunction", about(document)) == []
        client.wait_for("window/showMessage")
        (message,) = said(client)
        assert "differs" in message
        assert fake.runs == []

    def test_a_save_without_a_change_of_code_starts_nothing(
        self, client: Client, profiled: Document, fake: FakeAgents
    ) -> None:
        profiled.save()
        profiled.replace("    z = y * 2\n", "\n    # twice\n    z = (\n        y * 2\n    )\n")
        assert hints(client, profiled.uri) == {5: NEW[5], 8: NEW[6], 11: NEW[7]}
        profiled.save()
        settle(client, profiled.path.parent)
        assert lenses(client, profiled.uri) == FRESH
        assert len(fake.runs) == 1


class TestFiles:
    def test_a_file_may_be_closed_and_opened_during_its_run(
        self, client: Client, document: Document, path: Path, fake: FakeAgents
    ) -> None:
        fake.hold()
        document.save()
        fake.wait_for_event("started")
        document.close()
        assert lenses(client, path) == []
        client.open(path)
        until_lens(client, path, "Profiling…")
        fake.finish()
        until_hints(client, path, NEW)
        assert len(fake.runs) == 1

    def test_a_result_that_arrives_after_its_file_was_closed_is_kept(
        self, client: Client, document: Document, path: Path, fake: FakeAgents
    ) -> None:
        fake.hold()
        document.save()
        fake.wait_for_event("started")
        document.close()
        fake.finish()
        client.wait_for("window/logMessage", lambda params: "f: cpu 6.00 ms" in params["message"])
        client.open(path)
        until_hints(client, path, NEW)
        assert len(fake.runs) == 1

    def test_runs_of_a_closed_file_that_wait_are_dropped(self, client: Client, root: Path, fake: FakeAgents) -> None:
        fake.hold()
        document = client.open(root / "many.py", many(5))
        document.save()
        fake.wait_for_event("started")
        settle(client, root)
        document.close()
        client.barrier()
        fake.finish()
        client.wait_for("window/logMessage", lambda params: "f0: cpu" in params["message"])
        settle(client, root)
        client.stop()
        assert names(fake.runs) == ["f0"]

    def test_a_function_that_is_renamed_keeps_its_numbers_marked(
        self, client: Client, profiled: Document, fake: FakeAgents
    ) -> None:
        profiled.replace("def f(x)", "def g(x)")
        assert hints(client, profiled.uri) == OLD
        assert lenses(client, profiled.uri)[0].startswith("cpu 6.00 ms (")
        fake.hold()
        profiled.save()
        fake.wait_for_event("started", lambda run: run["qualname"] == "g")
        until_lens(client, profiled.uri, "Profiling…")
        assert hints(client, profiled.uri) == OLD
        fake.finish()
        until_hints(client, profiled.uri, NEW)

    @pytest.mark.parametrize("order", ["told first", "opened first"])
    def test_a_file_that_is_renamed_keeps_its_results(
        self, order: str, client: Client, profiled: Document, path: Path, fake: FakeAgents
    ) -> None:
        new = path.with_name("renamed.py")
        path.rename(new)
        renamed = {"files": [{"oldUri": path.as_uri(), "newUri": new.as_uri()}]}
        if order == "told first":
            client.notify("workspace/didRenameFiles", renamed)
        profiled.close()
        document = client.open(new)
        if order == "opened first":
            client.notify("workspace/didRenameFiles", renamed)
        until_hints(client, new, NEW)
        document.save()
        settle(client, path.parent)
        assert lenses(client, new) == FRESH
        assert len(fake.runs) == 1

    def test_a_file_that_is_renamed_during_its_run_gets_the_result(
        self, client: Client, document: Document, path: Path, fake: FakeAgents
    ) -> None:
        fake.hold()
        document.save()
        until_lens(client, path, "Profiling…")
        new = path.with_name("renamed.py")
        path.rename(new)
        document.close()
        moved = client.open(new)
        client.notify("workspace/didRenameFiles", {"files": [{"oldUri": path.as_uri(), "newUri": new.as_uri()}]})
        client.barrier()
        fake.finish()
        fake.hold(False)
        moved.save()
        until_hints(client, new, NEW)

    def test_a_helper_that_is_saved_runs_what_imported_it_again(
        self, client: Client, root: Path, path: Path, fake: FakeAgents
    ) -> None:
        helper = client.open(root / "helper.py", "two = 2\n")
        document = client.open(path, SOURCE + "    # fake: module helper.py\n")
        document.save()
        until_hints(client, path, NEW)
        helper.replace("2", "3")
        assert hints(client, path) == NEW, "what is not saved does not count"
        fake.hold()
        mark = fake.mark()
        helper.save()
        until_hints(client, path, OLD)
        fake.wait_for_event("started", after=mark)
        fake.hold(False)
        until_hints(client, path, NEW)
        assert len(fake.runs) == 2
        helper.replace("3", "2")
        helper.save()
        until_hints(client, path, NEW)
        document.save()
        settle(client, root)
        assert len(fake.runs) == 2, "the first result is of this very code"

    def test_a_helper_that_changes_during_a_run_makes_its_result_an_old_one(
        self, client: Client, root: Path, path: Path, fake: FakeAgents
    ) -> None:
        helper = client.open(root / "helper.py", "two = 2\n")
        document = client.open(path, SOURCE + "    # fake: module helper.py\n")
        document.save()
        until_hints(client, path, NEW)
        document.replace("y * 2", "y * 3")
        fake.hold()
        document.save()
        fake.wait_for_event("started", after=fake.mark() - 1)
        until_lens(client, path, "Profiling…")
        fake.finish()
        until_hints(client, path, NEW)
        fake.hold(False)
        helper.replace("2", "4")
        helper.save()
        until_hints(client, path, OLD)
        assert diagnostics(client, path) == []


class TestServers:
    def test_a_server_that_was_killed_leaves_its_results_to_the_next(
        self, served: Serve, client: Client, profiled: Document, root: Path, fake: FakeAgents
    ) -> None:
        client.kill()
        fake.wait_for_event("gone")
        mark = fake.mark()
        client = served([root])
        document = client.open(profiled.path)
        until_hints(client, document.uri, NEW)
        assert lenses(client, document.uri) == FRESH
        document.save()
        settle(client, root)
        client.stop()
        assert fake.events[mark:] == [], "what is known is shown without any agent"

    def test_a_server_that_is_killed_in_a_run_leaves_what_was_known(
        self, served: Serve, client: Client, profiled: Document, root: Path, fake: FakeAgents
    ) -> None:
        fake.hold()
        profiled.replace("y * 2", "y * 3")
        profiled.save()
        fake.wait_for_event("started", lambda run: run != fake.runs[0])
        client.kill()
        fake.wait_for_event("gone")
        fake.hold(False)
        client = served([root])
        document = client.open(profiled.path)
        until_hints(client, document.uri, EDITED)
        document.save()
        until_hints(client, document.uri, NEW)

    def test_two_servers_of_one_folder_share_their_results(
        self, served: Serve, root: Path, path: Path, fake: FakeAgents
    ) -> None:
        first, second = served([root]), served([root])
        mine = first.open(path, SOURCE)
        theirs = second.open(path)
        assert lenses(second, path) == UNKNOWN
        mine.save()
        until_hints(first, path, NEW)
        first.wait_for("window/logMessage", lambda params: "f: cpu" in params["message"])
        theirs.save()
        until_hints(second, path, NEW)
        assert len(fake.runs) == 1, "what one server has run the other need not run"

    def test_two_servers_write_one_store_at_the_same_time(
        self, served: Serve, root: Path, tmp_path: Path, fake: FakeAgents
    ) -> None:
        clients = [served([root]), served([root])]
        for number, client in enumerate(clients):
            client.open(root / f"many{number}.py", many(10)).save()
        for number, client in enumerate(clients):
            until(
                client,
                lambda client=client, number=number: lenses(client, root / f"many{number}.py"),
                lambda seen: seen == ["cpu 1.00 ms", "Re-profile"] * 10,
            )
            client.stop()
        mark = fake.mark()
        client = served([root])
        for number in range(2):
            client.open(root / f"many{number}.py")
            until(
                client,
                lambda number=number: lenses(client, root / f"many{number}.py"),
                lambda seen: seen == ["cpu 1.00 ms", "Re-profile"] * 10,
            )
        client.stop()
        assert fake.count("hello", mark) == 0

    def test_an_edited_file_shows_marked_results_after_a_restart(
        self, served: Serve, client: Client, profiled: Document, fake: FakeAgents
    ) -> None:
        client.stop()
        path = profiled.path
        path.write_text(SOURCE.replace("y * 2", "y * 3"))
        client = served([path.parent])
        client.open(path)
        until_hints(client, path, EDITED)

    def test_ending_the_server_in_a_run_ends_the_agent(
        self, client: Client, document: Document, fake: FakeAgents
    ) -> None:
        fake.hold()
        document.save()
        fake.wait_for_event("started")
        client.shutdown(timeout_s=1.0)
        assert client.exit() == 0
        fake.wait_for_event("gone", timeout_s=5.0)

    def test_a_client_that_goes_without_a_word_leaves_nothing(
        self, client: Client, document: Document, fake: FakeAgents
    ) -> None:
        fake.hold()
        document.save()
        fake.wait_for_event("started")
        client.close_input()
        assert client.wait_exit() == 1
        fake.wait_for_event("gone", timeout_s=5.0)

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
    def test_a_server_that_is_told_to_end_by_a_signal_leaves_nothing(
        self, number: signal.Signals, client: Client, document: Document, fake: FakeAgents
    ) -> None:
        fake.hold()
        document.save()
        fake.wait_for_event("started")
        client.process.send_signal(number)
        client.wait_exit(timeout_s=10.0)
        fake.wait_for_event("gone", timeout_s=5.0)


class TestAgents:
    def test_a_crash_of_the_agent_is_a_failed_run_and_the_next_save_works(
        self, client: Client, path: Path, fake: FakeAgents
    ) -> None:
        document = client.open(path, SOURCE + "    # fake: crash\n")
        document.save()
        until_lens(client, path, "Profile failed")
        assert lenses(client, path)[1:] == ["Show log", "Retry"]
        document.replace("    # fake: crash\n", "")
        document.save()
        until_hints(client, path, NEW)
        assert lenses(client, path) == FRESH
        assert diagnostics(client, path) == []
        # Another one was started three times more, with pauses, before it was given up.
        assert fake.count("hello") == 5
        assert said(client) == []

    def test_a_crash_marks_what_was_known(self, client: Client, profiled: Document, fake: FakeAgents) -> None:
        profiled.replace("y * 2", "y * 3")
        append(profiled, "    # fake: crash\n")
        profiled.save()
        until_lens(client, profiled.uri, "Profile failed")
        assert hints(client, profiled.uri) == EDITED

    def test_a_worker_stays_warm_after_runs_that_give_no_result(
        self, client: Client, path: Path, fake: FakeAgents
    ) -> None:
        document = client.open(path, SOURCE + "    # fake: noinputs\n")
        document.save()
        until_lens(client, path, "No inputs")
        for text in ("y * 3  # fake: fail ValueError: no", "y * 4  # fake: fail ValueError: no"):
            document.replace_all(SOURCE.replace("y * 2", text))
            document.save()
            until(client, lambda: lenses(client, path), lambda seen: seen[0].startswith("Profile failed: ValueError"))
            settle(client, path.parent)
        assert len(fake.runs) == 3
        assert fake.count("hello") == 1, "starting torch takes seconds"

    def test_an_interpreter_that_is_not_there_is_a_failed_run(
        self, served: Serve, root: Path, path: Path, fake: FakeAgents
    ) -> None:
        client = served([root], settings={"interpreter": str(root / "no-python")})
        document = client.open(path, SOURCE)
        document.save()
        until_lens(client, path, "Profile failed")
        assert act(client, "showLog", about(document)) is None
        shown = client.wait_for("window/showDocument")
        assert "no-python cannot be started" in path_of(shown["uri"]).read_text()
        client.configure(with_fake(fake, {}))
        client.barrier()
        document.save()
        until_hints(client, path, NEW)

    def test_one_that_fails_is_told_at_its_line(self, client: Client, path: Path, fake: FakeAgents) -> None:
        document = client.open(path, SOURCE.replace("y * 2", "y * 3  # fake: fail ValueError: no"))
        document.save()
        assert until_lens(client, path, "Profile failed") == [
            "Profile failed: ValueError, line 6", "Show log", "Retry",
        ]  # fmt: skip
        client.wait_for("textDocument/publishDiagnostics")
        (found,) = diagnostics(client, path)
        assert (found["range"]["start"]["line"], found["severity"], found["source"]) == (5, 3, "profile-neuron")
        assert "ValueError: no" in found["message"]
        click(client, path, "Profile failed: ValueError, line 6")
        shown = client.wait_for("window/showDocument")
        assert (shown["uri"], shown["selection"]["start"]["line"]) == (path.as_uri(), 5)
        mark = client.mark()
        document.replace("  # fake: fail ValueError: no", "  # fake: print 1")
        document.save()
        settle(client, path.parent)
        assert len(fake.runs) == 1, "what failed at a line would do so again"
        document.replace("y * 3  # fake: print 1", "y * 2")
        document.save()
        until_hints(client, path, NEW)
        client.wait_for("textDocument/publishDiagnostics", after=mark)
        assert diagnostics(client, path) == []
        assert said(client) == []


class TestSettings:
    def test_hints_follow_their_settings_at_once(self, client: Client, profiled: Document, fake: FakeAgents) -> None:
        for changed, expected in (
            ({"hints": {"minShare": 40}}, {7: NEW[7]}),
            ({"hints": {"minTime": "2ms"}}, {6: NEW[6], 7: NEW[7]}),
            ({"hints": {"maxPerFunction": 1}}, {7: NEW[7]}),
            ({"hints": {"enable": False}}, {}),
            ({}, NEW),
            ({"enable": False}, {}),
            ({"hints.minShare": 20}, {6: NEW[6], 7: NEW[7]}),
        ):
            client.configure(with_fake(fake, changed))
            until_hints(client, profiled.uri, expected)
        client.configure(with_fake(fake, {"hints": {"stale": "hide"}}))
        until_hints(client, profiled.uri, NEW)
        profiled.replace("y * 2", "y * 3")
        assert hints(client, profiled.uri) == {}
        client.configure(with_fake(fake, {"hints": {"stale": "mark"}}))
        until_hints(client, profiled.uri, EDITED)
        assert len(fake.runs) == 1

    def test_lenses_follow_their_setting_at_once(self, client: Client, profiled: Document, fake: FakeAgents) -> None:
        client.configure(with_fake(fake, {"codeLens": {"enable": False}}))
        until(client, lambda: lenses(client, profiled.uri), lambda seen: seen == [])
        assert hints(client, profiled.uri) == NEW
        client.configure(with_fake(fake, {}))
        until(client, lambda: lenses(client, profiled.uri), lambda seen: seen == FRESH)

    def test_what_is_disabled_shows_and_runs_nothing(self, served: Serve, tmp_path: Path, fake: FakeAgents) -> None:
        root, other = tmp_path / "ws", tmp_path / "other"
        settings = {root: {"enable": False}, other: {}}
        client = served([root, other], settings=settings)
        document = client.open(root / "model.py", SOURCE)
        document.save()
        settle(client, other)
        assert (lenses(client, document.uri), hints(client, document.uri)) == ([], {})
        assert fake.events == []
        client.configure(with_fake(fake, {root: {"enable": True}, other: {}}))
        until_lens(client, document.uri, "Profile on the CPU")
        document.save()
        until_hints(client, document.uri, NEW)

    def test_diagnostics_follow_their_settings_at_once(self, client: Client, path: Path, fake: FakeAgents) -> None:
        client.open(path, SOURCE.replace("y * 2", "y * 2  # fake: fail ValueError: no")).save()
        for changed, severities in (
            ({}, [3]),
            ({"diagnostics": {"severity": {"run-failed": "warning"}}}, [2]),
            ({"diagnostics": {"severity": {"run-failed": "off"}}}, []),
            ({"diagnostics": {"severity": {"run-failed": "hint"}}}, [4]),
            ({"diagnostics": {"enable": False}}, []),
        ):
            mark = client.mark() if changed else 0
            client.configure(with_fake(fake, changed))
            client.wait_for("textDocument/publishDiagnostics", after=mark)
            assert [found["severity"] for found in diagnostics(client, path)] == severities

    def test_the_decorator_is_found_in_the_modules_that_are_set(
        self, client: Client, path: Path, fake: FakeAgents
    ) -> None:
        document = client.open(path, SOURCE.replace("from profile_neuron", "from ours.marks"))
        assert lenses(client, path) == []
        client.configure(with_fake(fake, {"decorator": {"modules": ["ours.marks"]}}))
        until(client, lambda: lenses(client, path), lambda seen: seen == UNKNOWN)
        document.save()
        until_hints(client, path, NEW)
        assert fake.runs[0]["decorator_modules"] == ["ours.marks"]
        client.configure(with_fake(fake, {}))
        until_hints(client, path, {})
        assert lenses(client, path) == []

    def test_one_save_runs_no_more_functions_than_are_set(self, client: Client, root: Path, fake: FakeAgents) -> None:
        path = root / "many.py"
        document = client.open(path, "from profile_neuron import profile_neuron\n")
        assert lenses(client, path) == []
        document.replace_all(many(50))
        document.save()
        done = ["cpu 1.00 ms", "Re-profile"]
        until(client, lambda: lenses(client, path), lambda seen: seen == done * 20 + UNKNOWN * 30)
        assert names(fake.runs) == [f"f{number}" for number in range(20)]
        assert any("50 functions" in line for line in logged(client))
        mark = fake.mark()
        document.replace("x + 25", "x + 2500")
        document.replace("x + 3\n", "x + 300\n")
        document.save()
        fake.wait_for_event("ended", after=mark)
        fake.wait_for_event("ended", after=fake.mark() - 1)
        settle(client, root)
        until(client, lambda: lenses(client, path), lambda seen: sorted(seen) == sorted(done * 21 + UNKNOWN * 29))
        assert names(fake.runs[20:]) == ["f3", "f25"], "of too many those that were edited"
        client.configure(with_fake(fake, {"run": {"maxPerSave": 30}}))
        client.barrier()
        document.save()
        until(client, lambda: lenses(client, path), lambda seen: seen == done * 50)
        assert len(fake.runs) == 22 + 29, "and of those that have a result none"
        assert said(client) == []

    def test_a_bad_value_is_told_once_and_the_default_kept(
        self, served: Serve, tmp_path: Path, fake: FakeAgents
    ) -> None:
        bad = {"hints": {"minShare": "lots"}, "runOnSave": "sometimes", "hints.enabled": False}
        roots = [tmp_path / "alpha", tmp_path / "beta"]
        client = served(roots, settings=bad)
        document = client.open(roots[0] / "model.py", SOURCE)
        document.save()
        until_hints(client, document.uri, NEW)
        client.configure(with_fake(fake, {**bad, "codeLens": {"enable": False}}))
        until(client, lambda: lenses(client, document.uri), lambda seen: seen == [])
        assert sorted(said(client)) == [
            "profileNeuron has no setting hints.enabled; did you mean hints.enable?",
            'profileNeuron.hints.minShare is "lots"; give a percentage from 0 to 100; using 1',
            'profileNeuron.runOnSave is "sometimes"; give "off", "manual" or "always"; using manual',
        ]

    def test_a_client_that_cannot_be_asked_says_its_settings_itself(
        self, serve: Serve, root: Path, path: Path, fake: FakeAgents
    ) -> None:
        capabilities = json.loads(json.dumps(CAPABILITIES))
        del capabilities["workspace"]["configuration"]
        base = {"interpreter": str(fake.interpreter)}
        options = {"trusted": True, "settings": {**base, "hints": {"minShare": 40}}}
        client = serve([root], capabilities=capabilities, initialization_options=options)
        document = client.open(path, SOURCE)
        document.save()
        until_hints(client, path, {7: NEW[7]})
        settings = {"profileNeuron": {**base, "hints": {"minShare": 20}}}
        client.notify("workspace/didChangeConfiguration", {"settings": settings})
        until_hints(client, path, {6: NEW[6], 7: NEW[7]})
        assert client.count("workspace/configuration") == 0

    def test_a_save_before_the_settings_are_known_is_judged_by_them(
        self, serve: Serve, root: Path, path: Path, fake: FakeAgents
    ) -> None:
        client = serve([root], answers={"workspace/configuration": lambda params: LATER})
        client.wait_for("workspace/configuration")
        client.open(path, SOURCE).save()
        client.barrier()
        assert lenses(client, path) == UNKNOWN, "nothing is run before"
        settings = {"runOnSave": "off", "interpreter": str(fake.interpreter)}
        asked = client.all("workspace/configuration")[0]
        client.answer(asked, [settings] * len(asked.params["items"]))
        client.barrier()
        assert lenses(client, path) == UNKNOWN
        client.stop()
        assert fake.events == []

    def test_a_file_that_changes_before_its_run_is_not_taken_for_a_save(
        self, served: Serve, root: Path, tmp_path: Path, fake: FakeAgents
    ) -> None:
        client = served([root, tmp_path / "other"], settings={root: {"runOnSave": "off"}, tmp_path / "other": {}})
        document = client.open(root / "many.py", many(3))
        fake.hold()
        assert len(act(client, "profileFunction", about(document, "f0"))) == 1
        until_lens(client, document.uri, "Profiling…")
        assert len(act(client, "profileFunction", about(document, "f1"))) == 1
        document.replace("x + 2", "x + 20")
        document.save()
        client.barrier()
        fake.hold(False)
        client.wait_for("window/logMessage", lambda params: params["message"].startswith("f1: "))
        settle(client, tmp_path / "other")
        until(client, lambda: lenses(client, document.uri), lambda seen: "Cancel" not in seen)
        assert set(names(fake.runs)) == {"f0", "f1"}, "nobody asked for the others"

    def test_another_interpreter_marks_the_numbers_of_the_one_before(
        self, client: Client, profiled: Document, tmp_path: Path, fake: FakeAgents
    ) -> None:
        client.configure(with_fake(fake, {"run": {"env": {"PN_OTHER": "1"}}}))
        until_hints(client, profiled.uri, OLD)
        profiled.save()
        until_hints(client, profiled.uri, NEW)
        assert [event["env"].get("PN_OTHER") for event in fake.events if event["event"] == "hello"] == [None, "1"]
        assert fake.count("gone") == 1, "the worker of the settings before is not kept"
        client.configure(with_fake(fake, {}))
        client.barrier()
        until_hints(client, profiled.uri, NEW)
        profiled.save()
        settle(client, profiled.path.parent)
        assert len(fake.runs) == 2


class TestFolders:
    def test_each_folder_has_its_own_interpreter_and_working_directory(
        self, served: Serve, tmp_path: Path, fake: FakeAgents
    ) -> None:
        roots = [tmp_path / "alpha", tmp_path / "beta"]
        settings = {}
        for root in roots:
            root.mkdir()
            script = write_interpreter(root, "python")
            script.write_text(script.read_text().replace("exec", f"PN_WHICH={root.name} exec"))
            settings[root] = {"interpreter": "./python", "run": {"cwd": "workspace" if root is roots[0] else "file"}}
        client = served(roots, settings=settings)
        for root in roots:
            client.open(root / "sub" / "model.py", SOURCE).save()
        for root in roots:
            until_hints(client, root / "sub" / "model.py", NEW)
        which = {event["pid"]: event["env"]["PN_WHICH"] for event in fake.events if event["event"] == "hello"}
        assert {which[run["pid"]]: (run["path"], run["cwd"]) for run in fake.runs} == {
            "alpha": (str(roots[0] / "sub" / "model.py"), str(roots[0])),
            "beta": (str(roots[1] / "sub" / "model.py"), str(roots[1] / "sub")),
        }
        assert len(fake.runs) == 2

    @pytest.mark.parametrize("name", ["model.py", "sub/model.py"])
    def test_a_folder_that_is_removed_takes_its_run_and_its_hints_with_it(
        self, name: str, served: Serve, tmp_path: Path, fake: FakeAgents
    ) -> None:
        alpha, beta = tmp_path / "alpha", tmp_path / "beta"
        client = served([alpha, beta])
        path = alpha / name
        document = client.open(path, SOURCE)
        document.save()
        until_hints(client, path, NEW)
        fake.hold()
        document.replace("y * 2", "y * 3")
        document.save()
        fake.wait_for_event("started", lambda run: run != fake.runs[0])
        removed = {"added": [], "removed": [{"uri": alpha.as_uri(), "name": "alpha"}]}
        client.notify("workspace/didChangeWorkspaceFolders", {"event": removed})
        fake.wait_for_event("gone", timeout_s=5.0)
        until_hints(client, path, {})
        after = until(client, lambda: lenses(client, path), lambda seen: "Cancel" not in seen)
        assert not any(title.startswith("Profile failed") for title in after)
        assert diagnostics(client, path) == []
        client.open(beta / "model.py", SOURCE).save()
        fake.finish()
        until_hints(client, beta / "model.py", NEW)

    def test_a_folder_that_is_added_is_asked_for_its_settings(
        self, served: Serve, tmp_path: Path, fake: FakeAgents
    ) -> None:
        alpha, beta = tmp_path / "alpha", tmp_path / "beta"
        client = served([alpha], settings={alpha: {}, beta: {"hints": {"minShare": 40}}})
        client.open(beta / "sub" / "model.py", SOURCE).save()
        until_hints(client, beta / "sub" / "model.py", NEW)
        client.roots.append(beta)
        added = {"added": [{"uri": beta.as_uri(), "name": "beta"}], "removed": []}
        client.notify("workspace/didChangeWorkspaceFolders", {"event": added})
        document = client.open(beta / "sub" / "other.py", SOURCE)
        client.wait_for(
            "workspace/configuration",
            lambda params: any(item.get("scopeUri") == beta.as_uri() for item in params["items"]),
        )
        document.save()
        until_hints(client, document.uri, {7: NEW[7]})
        assert [run["cwd"] for run in fake.runs] == [str(beta / "sub"), str(beta)]


OF_FUNCTION = ("profileFunction", "cancel", "showReport", "showLog", "goToFailure", "addInputs", "selectInputs")
OF_FILE = ("profileFile", "clear")
ONE_SENTENCE = "one sentence"


def outcome(client: Client, verb: str, *arguments: object) -> str:
    """What a command that can do nothing leads to, beside an answer without content."""
    mark = client.mark()
    try:
        answer = act(client, verb, *arguments)
    except LspError as error:
        return f"an error: {error}"
    client.barrier()
    if answer not in (None, []):
        return f"the answer {answer}"
    sentences = said(client, mark)
    opened = [item.method for item in client.received[mark:] if item.method.endswith(("showDocument", "applyEdit"))]
    if len(sentences) == 1 and not opened:
        return ONE_SENTENCE
    return ", ".join([*sentences, *opened]) or "nothing"


@pytest.fixture(scope="module")
def anybodys_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ws") / "model.py"


@pytest.fixture(scope="module")
def anybody(anybodys_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A client for questions that change nothing, with an open file and no interpreter."""
    home = str(tmp_path_factory.mktemp("home"))
    env = {"XDG_CACHE_HOME": home, "XDG_STATE_HOME": home}
    with Client.start([anybodys_path.parent], settings={"interpreter": "/nowhere"}, env=env) as client:
        ready(client).open(anybodys_path, SOURCE)
        yield client
    assert client.faults == []
    assert "Traceback" not in client.stderr, client.stderr


class TestCommands:
    def test_all_of_them_are_offered(self, client: Client) -> None:
        offered = client.capabilities["executeCommandProvider"]["commands"]
        assert sorted(name.removeprefix("profileNeuron.server.") for name in offered) == [
            "addInputs", "cancel", "cancelAll", "clear", "doctor", "goToFailure", "openInExplorer", "pinBaseline",
            "profileAllStale", "profileFile", "profileFunction", "release", "selectInputs", "showLog", "showReport",
            "toggleInline", "unpinBaseline",
        ]  # fmt: skip

    @pytest.mark.parametrize(
        "form",
        [
            lambda uri: [{"uri": uri, "qualname": "f", "occurrence": 0}],
            lambda uri: [{"uri": uri, "qualname": "f"}],
            lambda uri: [{"uri": uri, "line": 4}],
            lambda uri: [{"uri": uri, "line": 2}],
            lambda uri: [{"uri": uri, "position": {"line": 6, "character": 3}}],
            lambda uri: [uri, {"line": 5, "character": 0}],
        ],
        ids=["lens", "qualname", "line", "decorator's line", "position", "uri and position"],
    )
    def test_a_function_is_found_by_every_form_of_argument(
        self, form: Any, client: Client, document: Document, fake: FakeAgents
    ) -> None:
        (run_id,) = act(client, "profileFunction", *form(document.uri))
        until_hints(client, document.uri, NEW)
        assert [run["run_id"] for run in fake.runs] == [run_id]
        assert said(client) == []

    def test_one_of_several_with_the_same_name_is_found_by_its_number(
        self, client: Client, path: Path, fake: FakeAgents
    ) -> None:
        twice = SOURCE + SOURCE.split("\n", 1)[1]
        document = client.open(path, twice)
        assert len(act(client, "profileFunction", {"uri": document.uri, "qualname": "f", "occurrence": 1})) == 1
        until_hints(client, path, {line + 6: text for line, text in NEW.items()})
        assert [run["def_line"] for run in fake.runs] == [10]

    @pytest.mark.parametrize("verb", [*OF_FUNCTION, *OF_FILE])
    def test_what_names_no_file_gets_one_sentence(self, verb: str, anybody: Client) -> None:
        answers = {}
        for arguments in (
            [], [None], [5], [[]], [{}], ["nowhere"], ["untitled:1"], ["file:///nowhere.py"], [{"uri": 5}],
            [{"uri": "file:///nowhere.py", "line": 3}], ["file:///nowhere.py", {"line": 3}], ["file:///nowhere.py", 3],
            [{"uri": "file:///\u0000", "line": 1}], [{"uri": "http://[", "line": 1}], [{"uri": "", "qualname": "f"}],
        ):  # fmt: skip
            answers[str(arguments)] = outcome(anybody, verb, *arguments)
        assert {arguments: answer for arguments, answer in answers.items() if answer != ONE_SENTENCE} == {}

    @pytest.mark.parametrize("verb", OF_FUNCTION)
    def test_what_names_no_function_gets_one_sentence(self, verb: str, anybody: Client, anybodys_path: Path) -> None:
        answers = {}
        for about in (
            {}, {"qualname": "nobody"}, {"qualname": 5}, {"qualname": ""}, {"line": -1}, {"line": 10**9}, {"line": "4"},
            {"line": 0}, {"line": None}, {"qualname": "f", "occurrence": 7}, {"qualname": "f", "occurrence": -1},
            {"position": 4}, {"position": {"line": "4"}},
        ):  # fmt: skip
            answers[str(about)] = outcome(anybody, verb, {"uri": anybodys_path.as_uri(), **about})
        # A function may have gone from the text while its run is on, so there a name is always taken.
        fine = {ONE_SENTENCE, "nothing"} if verb == "cancel" else {ONE_SENTENCE}
        assert {about: answer for about, answer in answers.items() if answer not in fine} == {}
        assert lenses(anybody, anybodys_path) == UNKNOWN

    def test_nonsense_does_not_hinder_what_is_about_everything(
        self, client: Client, profiled: Document, fake: FakeAgents
    ) -> None:
        for verb in ("profileAllStale", "cancelAll"):
            for arguments in ([None], [5], [{"uri": 5}], [{"uri": "http://["}]):
                assert outcome(client, verb, *arguments) == "nothing"
        assert len(fake.runs) == 1

    def test_a_command_without_arguments_is_answered(self, client: Client, document: Document) -> None:
        client.request("workspace/executeCommand", {"command": "profileNeuron.server.cancelAll"})
        assert client.request("workspace/executeCommand", {"command": "profileNeuron.server.profileFile"}) == []

    def test_profile_file_runs_all_functions_again(self, client: Client, root: Path, fake: FakeAgents) -> None:
        document = client.open(root / "many.py", many(3))
        for round_ in (1, 2):
            assert len(act(client, "profileFile", {"uri": document.uri})) == 3
            for _ in range(3):
                fake.wait_for_event("ended", lambda event, round_=round_: fake.count("ended") == 3 * round_)
        assert names(fake.runs) == ["f0", "f1", "f2"] * 2

    def test_profile_file_of_a_file_without_functions_says_so(self, client: Client, path: Path) -> None:
        client.open(path, "x = 1\n")
        assert act(client, "profileFile", {"uri": path.as_uri()}) == []
        client.wait_for("window/showMessage")
        (message,) = said(client)
        assert "no function marked" in message

    def test_profile_all_stale_runs_what_has_no_result_of_todays_code(
        self, client: Client, profiled: Document, root: Path, fake: FakeAgents
    ) -> None:
        other = client.open(root / "other.py", SOURCE)
        assert len(act(client, "profileAllStale")) == 1
        until_hints(client, other.uri, NEW)
        assert fake.runs[-1]["path"] == str(other.path)
        assert act(client, "profileAllStale") == []
        assert said(client) == []

    def test_what_a_person_asks_for_comes_first(self, client: Client, root: Path, path: Path, fake: FakeAgents) -> None:
        fake.hold()
        client.open(root / "many.py", many(5)).save()
        fake.wait_for_event("started")
        settle(client, root)
        document = client.open(path, SOURCE)
        assert len(act(client, "profileFunction", about(document))) == 1
        assert lenses(client, path) == ["Queued (1 ahead)", "Cancel"]
        fake.finish()
        fake.wait_for_event("started", lambda run: run["qualname"] != "f0")
        assert names(fake.runs) == ["f0", "f"]

    def test_cancel_ends_the_run_of_a_function(self, client: Client, document: Document, fake: FakeAgents) -> None:
        fake.hold()
        document.save()
        until_lens(client, document.uri, "Profiling…")
        click(client, document.uri, "Cancel")
        assert fake.wait_for_event("ended")["state"] == "cancelled"
        until(client, lambda: lenses(client, document.uri), lambda seen: seen == ["Cancelled", "Profile again"])
        fake.hold(False)
        click(client, document.uri, "Profile again")
        until_hints(client, document.uri, NEW)

    def test_cancel_leaves_what_was_known(self, client: Client, profiled: Document, fake: FakeAgents) -> None:
        fake.hold()
        click(client, profiled.uri, "Re-profile")
        until_lens(client, profiled.uri, "Profiling…")
        click(client, profiled.uri, "Cancel")
        until(client, lambda: lenses(client, profiled.uri), lambda seen: seen == FRESH)
        assert hints(client, profiled.uri) == NEW
        profiled.replace("y * 2", "y * 3")
        profiled.save()
        until_lens(client, profiled.uri, "Profiling…")
        click(client, profiled.uri, "Cancel")
        until_lens(client, profiled.uri, "Cancelled (last: cpu 6.00 ms)")
        assert hints(client, profiled.uri) == EDITED

    def test_cancel_before_the_run_has_begun(self, client: Client, document: Document, fake: FakeAgents) -> None:
        document.save()
        click(client, document.uri, "Cancel")
        settle(client, document.path.parent)
        client.stop()
        assert fake.runs == []

    def test_cancel_all_ends_everything(self, client: Client, root: Path, fake: FakeAgents) -> None:
        fake.hold()
        document = client.open(root / "many.py", many(5))
        assert len(act(client, "profileFile", {"uri": document.uri})) == 5
        fake.wait_for_event("started")
        act(client, "cancelAll")
        assert fake.wait_for_event("ended")["state"] == "cancelled"
        until(client, lambda: lenses(client, document.uri), lambda seen: seen == ["Cancelled", "Profile again"] * 5)
        client.stop()
        assert names(fake.runs) == ["f0"]

    def test_a_run_that_takes_long_can_be_cancelled_at_its_progress(
        self, client: Client, document: Document, fake: FakeAgents
    ) -> None:
        fake.hold()
        document.save()
        begun = client.wait_for("$/progress", lambda params: params["value"]["kind"] == "begin")
        assert begun["value"]["cancellable"] is True
        assert begun["value"]["title"] == "Profiling f"
        client.notify("window/workDoneProgress/cancel", {"token": "nothing"})
        client.notify("window/workDoneProgress/cancel", {"token": 5})
        client.barrier()
        assert fake.count("cancelled") == 0
        client.notify("window/workDoneProgress/cancel", {"token": begun["token"]})
        assert fake.wait_for_event("ended")["state"] == "cancelled"
        client.wait_for("$/progress", lambda params: params["value"]["kind"] == "end")
        until_lens(client, document.uri, "Cancelled")
        tokens = [item.params["token"] for item in client.all("$/progress")]
        assert set(tokens) == {begun["token"]}

    def test_clear_forgets_the_results_of_a_file_also_on_disk(
        self, served: Serve, client: Client, profiled: Document, fake: FakeAgents
    ) -> None:
        other = client.open(profiled.path.with_name("other.py"), SOURCE)
        other.save()
        until_hints(client, other.uri, NEW)
        act(client, "clear", {"uri": profiled.uri})
        until_hints(client, profiled.uri, {})
        assert lenses(client, profiled.uri) == UNKNOWN
        assert hints(client, other.uri) == NEW
        client.stop()
        client = served([profiled.path.parent])
        client.open(other.path)
        client.open(profiled.path)
        until_hints(client, other.uri, NEW)
        client.barrier()
        assert lenses(client, profiled.uri) == UNKNOWN
        assert len(fake.runs) == 2

    def test_toggle_inline_hides_and_shows_everything(
        self, client: Client, profiled: Document, fake: FakeAgents
    ) -> None:
        act(client, "toggleInline")
        until_hints(client, profiled.uri, {})
        assert lenses(client, profiled.uri) == []
        act(client, "toggleInline")
        until_hints(client, profiled.uri, NEW)
        assert lenses(client, profiled.uri) == FRESH
        assert len(fake.runs) == 1

    def test_show_report_opens_a_document_with_every_line(self, client: Client, profiled: Document) -> None:
        click(client, profiled.uri, "cpu 6.00 ms")
        shown = client.wait_for("window/showDocument")
        text = path_of(shown["uri"]).read_text(encoding="utf-8")
        assert text.startswith("# f\n")
        for number, line in enumerate(SOURCE.split("\n")[4:7], 5):
            assert any(row.startswith(f"{number:>5}") and row.endswith(f"│ {line}") for row in text.split("\n")), text
        assert "aten::add" in text
        assert "constructed by tests/fakes/agent.py" in text

    def test_a_client_that_cannot_show_documents_is_told_where_they_are(
        self, served: Serve, root: Path, path: Path
    ) -> None:
        capabilities = json.loads(json.dumps(CAPABILITIES))
        del capabilities["window"]["showDocument"]
        client = served([root], capabilities=capabilities)
        client.open(path, SOURCE + "    # fake: print 2\n").save()
        until_hints(client, path, NEW)
        act(client, "showLog", {"uri": path.as_uri(), "line": 4})
        message = client.wait_for("window/showMessage")["message"]
        assert message.startswith("the log of f is in ")
        assert client.count("window/showDocument") == 0

    @pytest.mark.parametrize(
        ("definition", "qualname", "factory", "parameters"),
        [
            ("def f(x, y, z=1): ...", "f", "f_inputs", "(x, y)"),
            ("def f(x, *, mask): ...", "f", "f_inputs", '{"x": x, "mask": mask}'),
            ("def f(x): ...", "f", "f_inputs", "(x,)"),
            ("class Block:\n    @profile_neuron\n    def forward(self, hidden, cache): ...", "Block.forward", "Block_forward_inputs", "(hidden, cache)"),
            ("class Block:\n    @staticmethod\n    @profile_neuron\n    def free(a, b): ...", "Block.free", "Block_free_inputs", "(a, b)"),
            ("def outer():\n    @profile_neuron\n    def inner(größe): ...", "outer.<locals>.inner", "outer_inner_inputs", "(größe,)"),
        ],
        ids=["function", "keyword-only", "one parameter", "method", "static method", "nested"],
    )  # fmt: skip
    @pytest.mark.parametrize("end", ["\n", ""], ids=["with a last line end", "without"])
    def test_add_inputs_writes_the_beginning_of_a_factory(
        self, end: str, definition: str, qualname: str, factory: str, parameters: str, client: Client, path: Path
    ) -> None:
        mark_line = "" if "@" in definition else "@profile_neuron\n"
        document = client.open(path, f"from profile_neuron import profile_neuron\n\n{mark_line}{definition}{end}")
        assert act(client, "addInputs", about(document, qualname)) is None
        asked = client.wait_for("workspace/applyEdit")
        ((uri, edits),) = asked["edit"]["changes"].items()
        assert uri == document.uri
        text = edit_of(document, edits)
        assert text.startswith(document.text)
        tree = ast.parse(text)
        added = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == factory)
        assert parameters in (ast.get_source_segment(text, added) or "")
        assert text.endswith("\n")
        assert not text.endswith("\n\n")
        shown = client.wait_for("window/showDocument")
        line = shown["selection"]["start"]["line"] + 1
        assert added.lineno < line <= (added.end_lineno or 0), "the cursor is where something is to be written"
        assert said(client) == []

    def test_no_inputs_leads_to_them(self, client: Client, path: Path, fake: FakeAgents) -> None:
        document = client.open(path, SOURCE + "    # fake: noinputs\n")
        document.save()
        until(
            client,
            lambda: lenses(client, path),
            lambda seen: seen == ["No inputs for this function", "Add inputs…"],
        )
        document.save()
        settle(client, path.parent)
        assert len(fake.runs) == 1, "nothing has changed"
        click(client, path, "Add inputs…")
        edits = client.wait_for("workspace/applyEdit")["edit"]["changes"][document.uri]
        document.replace_all(edit_of(document, edits).replace("    # fake: noinputs\n", ""))
        document.save()
        until_hints(client, path, NEW)


class TestAnswers:
    """Requests are answered from memory, whatever goes on."""

    def answers(self, client: Client, document: Document) -> None:
        """Every request of a document is answered while nothing else moves on."""
        for _ in range(5):
            client.hints(document.uri)
            client.lenses(document.uri)
            client.hover(document.uri, 3, 4)

    def test_while_a_run_is_on(self, client: Client, profiled: Document, fake: FakeAgents) -> None:
        fake.hold()
        profiled.replace("y * 2", "y * 3")
        profiled.save()
        until_lens(client, profiled.uri, "Profiling…")
        self.answers(client, profiled)
        assert hints(client, profiled.uri) == EDITED
        assert len(fake.running) == 1
        profiled.replace("y * 3", "y * 4")
        self.answers(client, profiled)

    def test_while_forty_functions_wait_and_are_cancelled(self, client: Client, root: Path, fake: FakeAgents) -> None:
        fake.hold()
        document = client.open(root / "many.py", many(40))
        assert len(act(client, "profileFile", {"uri": document.uri})) == 40
        fake.wait_for_event("started")
        until_lens(client, document.uri, "Profiling…")
        titles = lenses(client, document.uri)
        assert titles[2::2] == [f"Queued ({ahead} ahead)" for ahead in range(1, 40)]
        self.answers(client, document)
        client.send_request("workspace/executeCommand", {"command": "profileNeuron.server.cancelAll", "arguments": []})
        self.answers(client, document)
        until(client, lambda: lenses(client, document.uri), lambda seen: seen == ["Cancelled", "Profile again"] * 40)
        assert names(fake.runs) == ["f0"]

    def test_while_a_run_is_cancelled_that_does_not_listen(
        self, client: Client, document: Document, fake: FakeAgents
    ) -> None:
        fake.hold()
        document.save()
        run = fake.wait_for_event("started")
        # As one that is busy and takes no message up.
        os.kill(run["pid"], signal.SIGSTOP)
        act(client, "cancel", about(document))
        self.answers(client, document)
        os.kill(run["pid"], signal.SIGCONT)
        until_lens(client, document.uri, "Cancelled")

    def test_of_much_output(self, client: Client, path: Path) -> None:
        client.open(path, SOURCE + "    # fake: print 3000\n").save()
        until_hints(client, path, NEW)
        client.wait_for("window/logMessage", lambda params: "f: cpu" in params["message"])
        printed = [line for line in logged(client) if "prints" in line]
        assert printed[0] == "f │ f prints 1"
        assert len(printed) == 3000, "how much may be printed is the agent's to say"
        act(client, "showLog", {"uri": path.as_uri(), "line": 4})
        shown = client.wait_for("window/showDocument")
        assert path_of(shown["uri"]).read_text().split("\n")[:2] == ["f prints 1", "f prints 2"]


class TestProtocol:
    def test_an_edit_without_a_version_is_taken(self, client: Client, path: Path) -> None:
        """Older clients send null."""
        document = client.open(path, SOURCE)
        change = {"range": {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 0}}, "text": "\n"}
        before = [lens["range"]["start"]["line"] for lens in client.lenses(document.uri)]
        client.notify(
            "textDocument/didChange",
            {"textDocument": {"uri": document.uri, "version": None}, "contentChanges": [change]},
        )
        assert [lens["range"]["start"]["line"] for lens in client.lenses(document.uri)] == [line + 1 for line in before]

    def test_a_second_initialize_is_refused_and_changes_nothing(self, client: Client, path: Path) -> None:
        document = client.open(path, SOURCE)
        before = client.lenses(document.uri)
        with pytest.raises(LspError, match="-32600"):
            client.request("initialize", {"processId": None, "rootUri": None, "capabilities": {}})
        assert client.lenses(document.uri) == before

    def test_settings_of_other_servers_are_none_of_ours(self, client: Client, path: Path) -> None:
        client.notify("workspace/didChangeConfiguration", {"settings": {"python": {"x": 1}, "editor": {}}})
        client.barrier()
        assert said(client) == []
