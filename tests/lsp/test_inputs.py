"""Which of its named inputs a function is run with, as a person chose in an editor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from profile_neuron.core.recording import file_name
from tests.lsp.client import LspError
from tests.lsp.screen import act, lenses, said, settle, until, until_hints, until_lens

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fakes.control import FakeAgents
    from tests.lsp.client import Client, Document
    from tests.lsp.conftest import Serve

SOURCE = """\
from profile_neuron import profile_neuron

@profile_neuron(inputs={"b8": make_b8, "b1": make_b1})
def f(x):
    y = x + 1
    return y

@profile_neuron
def g(x):
    return x
"""
HINTS = {5: "cpu 1.00 ms · 33 % · 1 op", 6: "cpu 2.00 ms · 67 % · 1 op", 10: "cpu 1.00 ms · 100 % · 1 op"}
QUESTION = "window/showMessageRequest"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ws" / "model.py"


def opened(serve: Serve, path: Path, text: str = SOURCE, answer: Any = None) -> tuple[Client, Document]:
    """A client with the file open, that gives this answer to questions."""
    client = serve([path.parent], answers={QUESTION: lambda params: answer})
    document = client.open(path, text)
    document.save()
    until_hints(client, path, HINTS)
    return client, document


def run_again(client: Client, document: Document, fake: FakeAgents) -> str:
    """Which inputs the next run of f is asked to use."""
    mark = fake.mark()
    (run_id,) = act(client, "profileFunction", {"uri": document.uri, "qualname": "f"})
    fake.wait_for_event("ended", lambda run: run["run_id"] == run_id, mark)
    # As long as it is on for the server, another one is not started.
    until(client, lambda: lenses(client, document.uri), lambda seen: "Cancel" not in seen)
    return str(fake.wait_for_event("started", after=mark)["input_set"])


def test_a_name_behind_the_function_chooses_and_is_kept_over_a_restart(
    serve: Serve, path: Path, fake: FakeAgents
) -> None:
    client, document = opened(serve, path)
    assert run_again(client, document, fake) == ""
    assert act(client, "selectInputs", {"uri": document.uri, "qualname": "f"}, "b1") is None
    assert run_again(client, document, fake) == "b1"
    client.stop()
    client, document = opened(serve, path)
    assert run_again(client, document, fake) == "b1"
    assert act(client, "selectInputs", document.uri, {"line": 4, "character": 0}, "b8") is None
    assert run_again(client, document, fake) == "", "the first one needs no name"
    assert client.all(QUESTION) == []


def test_without_a_name_a_person_is_asked_with_one_button_for_each(serve: Serve, path: Path, fake: FakeAgents) -> None:
    client, document = opened(serve, path, answer={"title": "b1"})
    assert act(client, "selectInputs", {"uri": document.uri, "line": 3}) is None
    question = client.wait_for(QUESTION)
    assert question["message"] == "Which inputs is f to be profiled with?"
    assert [action["title"] for action in question["actions"]] == ["b8", "b1"]
    client.barrier()
    assert run_again(client, document, fake) == "b1"


@pytest.mark.parametrize("answer", [None, {"title": "another"}])
def test_no_answer_leaves_everything_as_it_was(answer: Any, serve: Serve, path: Path, fake: FakeAgents) -> None:
    client, document = opened(serve, path, answer=answer)
    act(client, "selectInputs", {"uri": document.uri, "line": 3})
    client.wait_for(QUESTION)
    client.barrier()
    assert run_again(client, document, fake) == ""


def test_a_client_that_cannot_ask_can_still_be_given_a_name(serve: Serve, path: Path, fake: FakeAgents) -> None:
    def refuse(params: Any) -> Any:
        raise LspError(-32601, "no such method")

    client, document = opened(serve, path)
    client.answers[QUESTION] = refuse
    act(client, "selectInputs", {"uri": document.uri, "line": 3})
    client.wait_for(QUESTION)
    act(client, "selectInputs", {"uri": document.uri, "line": 3}, "b1")
    assert run_again(client, document, fake) == "b1"


def test_what_cannot_be_chosen_is_said_in_one_sentence(serve: Serve, path: Path, fake: FakeAgents) -> None:
    client, document = opened(serve, path)
    for qualname, name, sentence in (
        ("f", ["b9"], "f has no inputs b9; it has b8, b1"),
        ("g", [], "g has no named inputs; write them into its decorator"),
        ("g", ["b8"], "g has no named inputs; write them into its decorator"),
    ):
        mark = client.mark()
        act(client, "selectInputs", {"uri": document.uri, "qualname": qualname}, *name)
        client.barrier()
        (text,) = said(client, mark)
        assert text.startswith(sentence)
    assert client.all(QUESTION) == []
    assert run_again(client, document, fake) == ""


def test_a_choice_whose_name_is_gone_from_the_decorator_no_longer_counts(
    serve: Serve, path: Path, fake: FakeAgents
) -> None:
    client, document = opened(serve, path)
    act(client, "selectInputs", {"uri": document.uri, "qualname": "f"}, "b1")
    assert run_again(client, document, fake) == "b1"
    document.replace_all(SOURCE.replace('"b1"', '"b2"'))
    document.save(reason=2)
    assert run_again(client, document, fake) == ""


def test_the_run_is_told_where_the_recorded_inputs_are(
    serve: Serve, path: Path, tmp_path: Path, fake: FakeAgents
) -> None:
    recordings = tmp_path / "state/profile-neuron/recordings"
    recordings.mkdir(parents=True)
    kept = recordings / file_name(str(path), "g")
    kept.write_text("{}")
    opened(serve, path)
    assert {run["qualname"]: run["recorded_inputs"] for run in fake.runs} == {"f": "", "g": str(kept)}


def test_a_function_without_inputs_still_offers_to_add_them(serve: Serve, path: Path) -> None:
    client = serve([path.parent])
    document = client.open(path, SOURCE.replace("    return y\n", "    return y\n    # fake: noinputs\n"))
    document.save()
    until_lens(client, path, "Add inputs…")
    assert lenses(client, path)[:2] == ["No inputs for this function", "Add inputs…"]


def test_a_choice_runs_the_function_and_going_back_to_one_that_was_measured_does_not(
    serve: Serve, path: Path, fake: FakeAgents
) -> None:
    client, document = opened(serve, path)
    runs = len(fake.runs)
    act(client, "selectInputs", {"uri": document.uri, "qualname": "f"}, "b1")
    until(client, lambda: len(fake.runs), lambda count: count == runs + 1)
    assert (fake.runs[-1]["qualname"], fake.runs[-1]["input_set"]) == ("f", "b1")
    until_hints(client, path, HINTS)
    act(client, "selectInputs", {"uri": document.uri, "qualname": "f"}, "b8")
    until_hints(client, path, HINTS)
    document.save()
    settle(client, path.parent)
    assert len(fake.runs) == runs + 1
    client.stop()
    client, document = opened(serve, path)
    assert len(fake.runs) == runs + 1, "and neither does a restart"


def test_what_had_no_inputs_is_run_by_the_next_save_once_a_program_has_recorded_some(
    serve: Serve, path: Path, tmp_path: Path, fake: FakeAgents
) -> None:
    client = serve([path.parent])
    document = client.open(path, SOURCE.replace("    return x\n", "    return x  # fake: noinputs\n"))
    document.save()
    until_lens(client, path, "No inputs for this function")
    runs = len(fake.runs)
    document.save()
    settle(client, path.parent)
    assert len(fake.runs) == runs
    recordings = tmp_path / "state/profile-neuron/recordings"
    recordings.mkdir(parents=True, exist_ok=True)
    (recordings / file_name(str(path), "g")).write_text('{"recorded_s": 1.0}')
    document.save()
    until(client, lambda: len(fake.runs), lambda count: count == runs + 1)
    assert fake.runs[-1]["qualname"] == "g"
    until_lens(client, path, "No inputs for this function")
    # The same once more, at another time.
    (recordings / file_name(str(path), "g")).write_text('{"recorded_s": 2.0}')
    document.save()
    settle(client, path.parent)
    assert len(fake.runs) == runs + 1
