"""Nothing of a folder is run before somebody with a say in it allows it, and what they said is kept."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from tests.lsp.client import LATER, TimedOut
from tests.lsp.conftest import with_fake
from tests.lsp.screen import act, click, hints, lenses, said, settle, until, until_hints, until_lens

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.fakes.control import FakeAgents
    from tests.lsp.client import Client, Received
    from tests.lsp.conftest import Serve

SOURCE = """\
from profile_neuron import profile_neuron

@profile_neuron
def f(x):
    y = x + 1
    return y

@profile_neuron
def g(x):
    return x
"""
F, G = {5: "cpu 1.00 ms · 33 % · 1 op", 6: "cpu 2.00 ms · 67 % · 1 op"}, {10: "cpu 1.00 ms · 100 % · 1 op"}
ASK_FIRST = "Trust this workspace to profile"
YES, NO = {"title": "Trust and run"}, {"title": "Do not run"}
QUESTION = "window/showMessageRequest"
# What a client says that has no notion of trust: nothing.
NOTHING: dict[str, Any] = {}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "ws"


@pytest.fixture
def asking(serve: Serve) -> Serve:
    """Servers of clients without a notion of trust, which leave questions open."""

    def start(roots: list[Path], **options: Any) -> Client:
        return serve(roots, initialization_options=NOTHING, answers={QUESTION: lambda params: LATER}, **options)

    return start


def question(client: Client, after: int = 0) -> Received:
    """The question that the server asks, for which this waits."""
    client.wait_for(QUESTION, after=after)
    return client.all(QUESTION, after)[0]


def results_of(serve: Serve, path: Path, text: str = SOURCE) -> None:
    """Have a server that may run the file leave its results in the store."""
    client = serve([path.parent])
    client.open(path, text).save()
    until_hints(client, path, {**F, **G})
    client.stop()


@pytest.fixture
def trap(tmp_path: Path) -> Iterator[Path]:
    """A program that must not be started: it leaves a file behind, which is looked for at the end."""
    script, sprung = tmp_path / "trap", tmp_path / "sprung"
    script.write_text(f"#!/bin/sh\necho \"$0 $*\" >> '{sprung}'\nexit 1\n")
    script.chmod(0o755)
    yield script
    assert not sprung.exists(), sprung.read_text()


class TestAWorkspaceThatTheEditorDoesNotTrust:
    """initializationOptions.trusted is false."""

    @pytest.fixture
    def client(self, serve: Serve, root: Path) -> Client:
        return serve([root], initialization_options={"trusted": False})

    def test_shows_its_functions_and_runs_nothing_on_save(self, client: Client, root: Path, fake: FakeAgents) -> None:
        path = root / "model.py"
        document = client.open(path, SOURCE)
        assert lenses(client, path) == [ASK_FIRST, ASK_FIRST]
        document.save()
        settle(client, root)
        assert lenses(client, path) == [ASK_FIRST, ASK_FIRST]
        assert hints(client, path) == {}
        client.stop()
        assert fake.events == []
        assert client.all(QUESTION) == [], "the editor has said it already"
        assert said(client) == []

    def test_refuses_every_command_that_would_run_something(self, client: Client, root: Path, fake: FakeAgents) -> None:
        path = root / "model.py"
        client.open(path, SOURCE)
        about = {"uri": path.as_uri(), "qualname": "f", "occurrence": 0}
        for verb, arguments in (("profileFunction", [about]), ("profileFile", [{"uri": path.as_uri()}])):
            mark = client.mark()
            assert act(client, verb, *arguments) == []
            client.wait_for("window/showMessage", after=mark)
            client.barrier()
            assert len(said(client, mark)) == 1, verb
            assert "not trusted" in said(client, mark)[0]
        assert click(client, path, ASK_FIRST) == []
        assert act(client, "profileAllStale") == []
        client.stop()
        assert fake.events == []

    def test_shows_stored_results(self, serve: Serve, root: Path, fake: FakeAgents) -> None:
        path = root / "model.py"
        results_of(serve, path)
        mark = fake.mark()
        client = serve([root], initialization_options={"trusted": False})
        client.open(path)
        until_hints(client, path, {**F, **G})
        assert lenses(client, path) == [ASK_FIRST, "cpu 3.00 ms", ASK_FIRST, "cpu 1.00 ms"]
        client.stop()
        assert fake.count("hello", mark) == 0

    def test_runs_on_save_from_the_moment_on_that_the_editor_trusts_it(
        self, client: Client, root: Path, fake: FakeAgents
    ) -> None:
        path = root / "model.py"
        document = client.open(path, SOURCE)
        document.save()
        settle(client, root)
        assert fake.events == []
        client.notify("profileNeuron/trust", {"trusted": True})
        until(client, lambda: lenses(client, path), lambda seen: ASK_FIRST not in seen)
        document.save()
        until_hints(client, path, {**F, **G})
        assert [run["qualname"] for run in fake.runs] == ["f", "g"]

    def test_ends_its_runs_when_the_trust_is_taken_back(self, serve: Serve, root: Path, fake: FakeAgents) -> None:
        path = root / "model.py"
        fake.hold()
        client = serve([root])
        client.open(path, SOURCE).save()
        fake.wait_for_event("started")
        client.notify("profileNeuron/trust", {"trusted": False})
        assert fake.wait_for_event("ended")["state"] == "cancelled"
        until(client, lambda: lenses(client, path), lambda seen: seen == [ASK_FIRST, ASK_FIRST])
        client.stop()
        assert len(fake.runs) == 1

    def test_starts_no_program_that_it_names(
        self, serve: Serve, root: Path, trap: Path, tmp_path: Path, fake: FakeAgents
    ) -> None:
        (root / ".venv" / "bin").mkdir(parents=True)
        shutil.copy(trap, root / ".venv" / "bin" / "python")
        for setting in (str(trap), "", ".venv/bin/python"):
            settings = {"interpreter": setting, "run": {"env": {"PYTHONHOME": str(tmp_path)}}}
            client = serve([root], settings=settings, initialization_options={"trusted": False})
            path = root / "model.py"
            client.open(path, SOURCE).save()
            settle(client, root)
            act(client, "profileFile", {"uri": path.as_uri()})
            client.configure({"interpreter": str(root / ".venv/bin/python")})
            settle(client, root)
            client.stop()
        assert fake.events == []

    def test_nonsense_about_trust_changes_nothing(self, client: Client, root: Path, fake: FakeAgents) -> None:
        path = root / "model.py"
        document = client.open(path, SOURCE)
        for params in ({}, {"trusted": "yes"}, {"trusted": 1}, {"trusted": None}, [True]):
            client.notify("profileNeuron/trust", params)
        document.save()
        settle(client, root)
        assert lenses(client, path) == [ASK_FIRST, ASK_FIRST]
        client.stop()
        assert fake.events == []


class TestAClientWithoutANotionOfTrust:
    """initializationOptions say nothing of it, so the person is asked."""

    def test_is_asked_once_and_told_what_would_run(self, asking: Serve, root: Path, fake: FakeAgents) -> None:
        client = asking([root])
        document = client.open(root / "model.py", SOURCE)
        assert client.all(QUESTION) == [], "opening a file asks nothing"
        document.save()
        asked = question(client)
        assert [action["title"] for action in asked.params["actions"]] == [YES["title"], NO["title"]]
        assert ": f, g." in asked.params["message"]
        assert str(root) in asked.params["message"]
        document.replace("x + 1", "x + 2")
        document.save()
        client.open(root / "other.py", SOURCE).save()
        settle(client, root)
        assert client.count(QUESTION) == 1
        assert lenses(client, document.uri) == [ASK_FIRST, ASK_FIRST]
        client.stop()
        assert fake.events == [], "nothing runs before the answer"

    def test_who_allows_it_gets_what_was_saved_and_is_not_asked_again(
        self, asking: Serve, root: Path, fake: FakeAgents
    ) -> None:
        path = root / "model.py"
        client = asking([root])
        client.open(path, SOURCE).save()
        client.answer(question(client), YES)
        until_hints(client, path, {**F, **G})
        assert [run["qualname"] for run in fake.runs] == ["f", "g"]
        client.stop()

        client = asking([root])
        document = client.open(path)
        document.replace("return x\n", "return x * 3\n")
        document.save()
        until_hints(client, path, {**F, **G})
        assert client.all(QUESTION) == []

    def test_who_forbids_it_is_not_asked_again(self, asking: Serve, root: Path, fake: FakeAgents) -> None:
        path = root / "model.py"
        client = asking([root])
        document = client.open(path, SOURCE)
        document.save()
        client.answer(question(client), NO)
        client.barrier()
        document.replace("x + 1", "x + 2")
        document.save()
        settle(client, root)
        assert client.count(QUESTION) == 1
        client.stop()

        client = asking([root])
        client.open(path).save()
        settle(client, root)
        assert client.all(QUESTION) == []
        assert lenses(client, path) == [ASK_FIRST, ASK_FIRST]
        client.stop()
        assert fake.events == []

    def test_who_does_not_answer_is_asked_again_in_the_next_session(
        self, asking: Serve, root: Path, fake: FakeAgents
    ) -> None:
        path = root / "model.py"
        client = asking([root])
        document = client.open(path, SOURCE)
        document.save()
        client.answer(question(client), None)
        client.barrier()
        document.replace("x + 1", "x + 2")
        document.save()
        settle(client, root)
        assert client.count(QUESTION) == 1
        client.stop()
        assert fake.events == []

        client = asking([root])
        client.open(path).save()
        question(client)
        client.stop()
        assert fake.events == []

    def test_who_asks_for_a_run_allows_it(self, asking: Serve, root: Path, fake: FakeAgents) -> None:
        path = root / "model.py"
        client = asking([root])
        document = client.open(path, SOURCE)
        assert len(click(client, path, ASK_FIRST)) == 1
        until_hints(client, path, F)
        document.save()
        until_hints(client, path, {**F, **G})
        assert client.all(QUESTION) == []
        assert said(client) == []
        client.stop()

        client = asking([root])
        client.open(path)
        until_lens(client, path, "cpu 3.00 ms")
        assert ASK_FIRST not in lenses(client, path)

    def test_who_forbade_it_can_ask_for_a_run_all_the_same(self, asking: Serve, root: Path) -> None:
        path = root / "model.py"
        client = asking([root])
        client.open(path, SOURCE).save()
        client.answer(question(client), NO)
        client.barrier()
        assert len(act(client, "profileFile", {"uri": path.as_uri()})) == 2
        until_hints(client, path, {**F, **G})

    def test_is_asked_for_each_folder(self, asking: Serve, tmp_path: Path, fake: FakeAgents) -> None:
        alpha, beta = tmp_path / "alpha", tmp_path / "beta"
        client = asking([alpha, beta])
        client.open(alpha / "model.py", SOURCE).save()
        first = question(client)
        mark = client.mark()
        client.open(beta / "model.py", SOURCE).save()
        second = question(client, mark)
        assert str(alpha) in first.params["message"]
        assert str(beta) in second.params["message"]
        client.answer(first, YES)
        until_hints(client, alpha / "model.py", {**F, **G})
        assert lenses(client, beta / "model.py") == [ASK_FIRST, ASK_FIRST]
        client.answer(second, NO)
        client.barrier()
        assert lenses(client, beta / "model.py") == [ASK_FIRST, ASK_FIRST]
        client.stop()
        assert {run["path"] for run in fake.runs} == {str(alpha / "model.py")}

    def test_an_answer_for_a_folder_is_none_for_what_is_outside(
        self, asking: Serve, root: Path, tmp_path: Path, fake: FakeAgents
    ) -> None:
        client = asking([root])
        client.open(root / "model.py", SOURCE).save()
        client.answer(question(client), YES)
        until_hints(client, root / "model.py", {**F, **G})
        mark = client.mark()
        other = tmp_path / "elsewhere" / "model.py"
        client.open(other, SOURCE).save()
        assert str(other.parent) in question(client, mark).params["message"]
        client.stop()
        assert {run["path"] for run in fake.runs} == {str(root / "model.py")}

    def test_an_answer_that_cannot_be_kept_holds_until_the_server_ends(
        self, asking: Serve, root: Path, tmp_path: Path, fake: FakeAgents
    ) -> None:
        path = root / "model.py"
        client = asking([root])
        document = client.open(path, SOURCE)
        document.save()
        asked = question(client)
        shutil.rmtree(tmp_path / "state")
        client.answer(asked, YES)
        until_hints(client, path, {**F, **G})
        assert len(said(client)) == 1
        assert "holds until the server ends" in said(client)[0]
        # Another file of the same folder, and the same one again.
        other = client.open(root / "other.py", SOURCE)
        client.configure(with_fake(fake, {"hints": {"minShare": 2}}))
        settle(client, root)
        other.save()
        until_hints(client, root / "other.py", {**F, **G})
        document.replace("return x\n", "return x * 3\n")
        document.save()
        until_hints(client, path, {**F, **G})
        assert client.count(QUESTION) == 1

    def test_starts_no_program_before_the_answer(self, asking: Serve, root: Path, trap: Path) -> None:
        client = asking([root], settings={"interpreter": str(trap)})
        path = root / "model.py"
        client.open(path, SOURCE).save()
        question(client)
        settle(client, root)
        client.configure({"interpreter": str(trap), "run": {"env": {"A": "b"}}})
        settle(client, root)
        assert lenses(client, path) == [ASK_FIRST, ASK_FIRST]

    def test_is_answered_while_the_question_stands(self, asking: Serve, root: Path) -> None:
        client = asking([root])
        document = client.open(root / "model.py", SOURCE)
        document.save()
        question(client)
        assert client.hover(document.uri, 3, 5) is not None
        with pytest.raises(TimedOut):
            client.wait_for("window/showMessage", timeout_s=0.0)
        client.shutdown()
        assert client.exit() == 0
