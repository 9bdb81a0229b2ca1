"""What an editor offers to do about code: marking a function, an import that may fail, and remedies for remarks."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest

from tests.lsp.client import CAPABILITIES, LATER, lsp_range
from tests.lsp.screen import act, edit_of, lenses, ready, said, until, until_lens

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fakes.control import FakeAgents
    from tests.lsp.client import Client, Document
    from tests.lsp.conftest import Serve

KINDS = ["quickfix", "refactor.rewrite"]
MARK, FALLBACK = "Profile with @profile_neuron", "Import profile_neuron with a fallback"
QUESTION, APPLY = "window/showMessageRequest", "workspace/applyEdit"
ADD = {"title": "Add @profile_neuron"}
PLAIN = """\
import torch


def f(x):
    return x + 1
"""
MARKED = """\
import torch
from profile_neuron import profile_neuron


@profile_neuron
def f(x):
    return x + 1
"""
WITH_FALLBACK = """\
import torch

try:
    from profile_neuron import profile_neuron
except ImportError:

    def profile_neuron(function=None, **options):
        return (lambda marked: marked) if function is None else function


@profile_neuron
def f(x):
    return x + 1
"""


def capabilities(document_changes: bool = True, literals: bool = True) -> dict[str, Any]:
    """What today's editors say, or some of it."""
    offered = copy.deepcopy(CAPABILITIES)
    offered["workspace"]["workspaceEdit"] = {"documentChanges": document_changes}
    if literals:
        support = {"codeActionKind": {"valueSet": KINDS}}
        offered["textDocument"]["codeAction"] = {"codeActionLiteralSupport": support}
    return offered


@pytest.fixture
def client(serve: Serve, tmp_path: Path) -> Client:
    return serve([tmp_path / "ws"], capabilities=capabilities())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ws" / "model.py"


def actions(
    document: Document, line: int, column: int = 0, only: list[str] | None = None, remarks: list[Any] | None = None
) -> dict[str, Any]:
    """What is offered at a place, by title; lines from 1."""
    context: dict[str, Any] = {"diagnostics": remarks or []}
    if only is not None:
        context["only"] = only
    params = {
        "textDocument": {"uri": document.uri},
        "range": lsp_range((line - 1, column), (line - 1, column)),
        "context": context,
    }
    found = document.client.request("textDocument/codeAction", params)
    assert all(action["kind"] in KINDS for action in found)
    return {action["title"]: action for action in found}


def after(document: Document, edit: dict[str, Any]) -> str:
    """The text with an edit of it applied."""
    (change,) = edit["documentChanges"]
    assert change["textDocument"] == {"uri": document.uri, "version": document.version}
    return edit_of(document, change["edits"])


def test_an_undecorated_function_can_be_marked_from_its_head(client: Client, path: Path) -> None:
    document = client.open(path, PLAIN)
    assert actions(document, 1) == actions(document, 5) == {}
    offered = actions(document, 4, column=5)
    assert list(offered) == [MARK]
    assert offered[MARK]["kind"] == "refactor.rewrite"
    text = after(document, offered[MARK]["edit"])
    assert text == MARKED
    document.replace_all(text)
    assert lenses(client, path) == ["Profile on the CPU"]
    assert actions(document, 5) == actions(document, 6) == {}


@pytest.mark.parametrize("above", ["", "import torch\n", '"""Ours."""\n'])
def test_the_import_stands_above_a_function_that_nothing_lies_before(client: Client, path: Path, above: str) -> None:
    document = client.open(path, f"{above}def f(x):\n    return x\n")
    line = above.count("\n") + 1
    text = after(document, actions(document, line)[MARK]["edit"])
    compile(text, path, "exec")
    assert text.index("import profile_neuron") < text.index("@profile_neuron\ndef f(x):\n    return x\n")
    document.replace_all(text)
    assert lenses(client, path) == ["Profile on the CPU"]


def test_what_stands_in_for_the_decorator_is_not_to_be_marked(client: Client, path: Path) -> None:
    stand_in = "    def pn(function=None, **options):\n        return function\n"
    text = f"try:\n    from profile_neuron import profile_neuron as pn\nexcept ImportError:\n{stand_in}"
    document = client.open(path, text)
    assert actions(document, 4, column=8) == {}


@pytest.mark.parametrize(("only", "expected"), [(["refactor"], 1), (["refactor.rewrite"], 1), ([""], 1), (["quickfix"], 0), (["refactor.rewrite.x"], 0), (["refac"], 0)])  # fmt: skip
def test_only_kinds_that_are_asked_for_are_offered(client: Client, path: Path, only: list[str], expected: int) -> None:
    assert len(actions(client.open(path, PLAIN), 4, only=only)) == expected


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["", "BOM"])
def test_line_ends_and_a_byte_order_mark_stay(client: Client, path: Path, end: str, mark: str) -> None:
    document = client.open(path, (mark + "def f(x): ...").replace("\n", end))
    # Without any line end there is nothing to keep to.
    eol = "\n"
    expected = f"{mark}from profile_neuron import profile_neuron\n\n\n@profile_neuron\ndef f(x): ..."
    assert after(document, actions(document, 1)[MARK]["edit"]) == expected.replace("\n", eol)
    document.replace_all((mark + PLAIN).replace("\n", end))
    assert after(document, actions(document, 4)[MARK]["edit"]) == (mark + MARKED).replace("\n", end)


def test_a_client_without_versions_in_edits_gets_changes(serve: Serve, path: Path) -> None:
    client = serve([path.parent], capabilities=capabilities(document_changes=False))
    document = client.open(path, PLAIN)
    (edits,) = actions(document, 4)[MARK]["edit"]["changes"].values()
    assert edit_of(document, edits) == MARKED


def test_a_client_that_takes_commands_alone_gets_nothing(serve: Serve, path: Path) -> None:
    client = serve([path.parent], capabilities=capabilities(literals=False))
    assert actions(client.open(path, PLAIN), 4) == {}


def test_nothing_is_offered_in_a_text_that_does_not_parse_or_where_we_are_switched_off(
    serve: Serve, client: Client, path: Path
) -> None:
    document = client.open(path, PLAIN)
    document.replace_all(f"{PLAIN}def\n")
    assert actions(document, 4) == {}
    other = ready(serve([path.parent], capabilities=capabilities(), settings={"enable": False}))
    assert actions(other.open(path, PLAIN), 4) == {}


class TestAnInterpreterThatCannotImportTheDecorator:
    """As a run has said."""

    @pytest.fixture
    def client(self, serve: Serve, tmp_path: Path) -> Client:
        return serve([tmp_path / "ws"], capabilities=capabilities(), env={"PN_FAKE_DECORATOR": "0"})

    def test_the_import_gets_a_fallback_from_its_line_and_from_a_decorator(self, client: Client, path: Path) -> None:
        document = client.open(path, MARKED)
        assert actions(document, 2) == {}, "nobody has said yet what the interpreter has"
        document.save()
        until_lens(client, path, "Re-profile")
        until(client, lambda: list(actions(document, 2)), lambda seen: seen == [FALLBACK])
        assert list(actions(document, 5)) == list(actions(document, 6)) == [FALLBACK]
        assert actions(document, 1) == actions(document, 7) == {}
        action = actions(document, 2)[FALLBACK]
        assert action["kind"] == "quickfix"
        text = after(document, action["edit"])
        assert text == WITH_FALLBACK
        document.replace_all(text)
        assert len(lenses(client, path)) > 0, "the function is still found"
        assert actions(document, 4) == actions(document, 7) == actions(document, 11) == {}

    def test_a_function_is_marked_with_that_import(self, client: Client, path: Path) -> None:
        document = client.open(path, MARKED)
        document.save()
        until_lens(client, path, "Re-profile")
        until(client, lambda: list(actions(document, 2)), lambda seen: seen == [FALLBACK])
        document.replace_all(PLAIN)
        assert after(document, actions(document, 4)[MARK]["edit"]) == WITH_FALLBACK

    def test_is_known_after_a_restart(self, serve: Serve, client: Client, path: Path) -> None:
        document = client.open(path, MARKED)
        document.save()
        until_lens(client, path, "Re-profile")
        until(client, lambda: list(actions(document, 2)), lambda seen: seen == [FALLBACK])
        client.stop()
        again = serve([path.parent], capabilities=capabilities())
        document = again.open(path, MARKED)
        until(again, lambda: list(actions(document, 2)), lambda seen: seen == [FALLBACK])


def test_an_interpreter_that_can_import_the_decorator_needs_no_fallback(serve: Serve, path: Path) -> None:
    client = serve([path.parent], capabilities=capabilities(), env={"PN_FAKE_DECORATOR": "1"})
    document = client.open(path, MARKED)
    document.save()
    until_lens(client, path, "Re-profile")
    assert actions(document, 2) == {}


def test_remarks_come_with_what_can_be_done_about_them(client: Client, path: Path) -> None:
    document = client.open(path, MARKED.replace("    return x + 1", "    raise ValueError('odd')"))
    remark = {
        "range": lsp_range((5, 0), (5, 9)),
        "message": "failed",
        "source": "profile-neuron",
        "code": "run-failed",
    }
    offered = actions(document, 6, remarks=[remark])
    about = {"uri": document.uri, "qualname": "f", "occurrence": 0}
    assert {title: action["command"] for title, action in offered.items()} == {
        "Show log": {"title": "Show log", "command": "profileNeuron.server.showLog", "arguments": [about]},
        "Retry": {"title": "Retry", "command": "profileNeuron.server.profileFunction", "arguments": [about]},
    }
    assert [action["diagnostics"] for action in offered.values()] == [[remark], [remark]]
    inputs = actions(document, 6, remarks=[{**remark, "code": "no-inputs"}])
    assert inputs["Add inputs"]["command"]["command"] == "profileNeuron.server.addInputs"
    assert actions(document, 6, remarks=[{**remark, "source": "pyright"}, {**remark, "code": 7}]) == {}


class TestTheCommandAtAFunctionThatIsNotMarked:
    """profileFunction, at a position in it."""

    @pytest.fixture
    def asking(self, serve: Serve, path: Path) -> Client:
        """The server of an editor whose person has not answered yet."""
        return serve([path.parent], capabilities=capabilities(), answers={QUESTION: lambda params: LATER})

    def ask(self, client: Client, document: Document) -> None:
        assert act(client, "profileFunction", {"uri": document.uri, "line": 4}) == []
        params = client.wait_for(QUESTION)
        assert params["message"] == "f is not marked. Add @profile_neuron to it?"
        assert params["actions"] == [ADD]

    def test_marks_it_if_the_person_wants_that_and_a_save_runs_it(
        self, asking: Client, path: Path, fake: FakeAgents
    ) -> None:
        document = asking.open(path, PLAIN)
        self.ask(asking, document)
        asking.answer(asking.all(QUESTION)[0], ADD)
        document.replace_all(after(document, asking.wait_for(APPLY)["edit"]))
        assert document.text == MARKED
        asking.wait_for("window/showMessage")
        assert said(asking) == ["f is marked; save model.py to profile it"]
        document.save()
        until_lens(asking, path, "Re-profile")
        assert len(fake.runs) == 1

    def test_leaves_it_if_the_person_does_not(self, asking: Client, path: Path) -> None:
        document = asking.open(path, PLAIN)
        self.ask(asking, document)
        asking.answer(asking.all(QUESTION)[0], None)
        asking.barrier()
        assert asking.all(APPLY) == []
        assert said(asking) == []

    def test_does_not_edit_another_text_than_it_asked_about(self, asking: Client, path: Path) -> None:
        document = asking.open(path, PLAIN)
        self.ask(asking, document)
        document.replace_all(f"# Mine.\n{PLAIN}")
        asking.answer(asking.all(QUESTION)[0], ADD)
        asking.wait_for("window/showMessage")
        assert said(asking) == ["model.py was edited meanwhile; ask for a profile of f again"]
        assert asking.all(APPLY) == []

    def test_says_what_to_do_where_the_editor_does_not_edit(self, serve: Serve, path: Path) -> None:
        offered = capabilities()
        del offered["workspace"]["applyEdit"]
        client = serve([path.parent], capabilities=offered)
        document = client.open(path, PLAIN)
        assert act(client, "profileFunction", {"uri": document.uri, "line": 4}) == []
        client.wait_for("window/showMessage")
        assert said(client) == ["f is not marked; put @profile_neuron above it, and save"]
        refusing = serve(
            [path.parent],
            capabilities=capabilities(),
            answers={QUESTION: lambda params: ADD, APPLY: lambda params: {"applied": False}},
            settings={"runOnSave": "off"},
        )
        document = refusing.open(path, PLAIN)
        act(refusing, "profileFunction", {"uri": document.uri, "line": 4})
        refusing.wait_for("window/showMessage")
        assert said(refusing) == ["the editor did not change the text; put @profile_neuron above f, and save"]

    def test_says_where_to_put_the_cursor_outside_of_every_function(self, client: Client, path: Path) -> None:
        document = client.open(path, PLAIN)
        assert act(client, "profileFunction", {"uri": document.uri, "line": 0}) == []
        client.wait_for("window/showMessage")
        assert said(client) == [
            "there is no marked function; put the cursor into a function marked @profile_neuron of an open Python file"
        ]
        assert client.all(QUESTION) == []
