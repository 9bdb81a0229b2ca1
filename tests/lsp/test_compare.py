"""Did it help: what the lines, lenses, hovers and remarks say of an edit, with a fake agent behind the real server."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.lsp.client import path_of
from tests.lsp.conftest import with_fake
from tests.lsp.screen import act, click, diagnostics, hints, lenses, ready, said, settle, until, until_hints

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fakes.control import FakeAgents
    from tests.lsp.client import Client, Document
    from tests.lsp.conftest import Serve

SOURCE = """\
from profile_neuron import profile_neuron

@profile_neuron
def f(x):
    y = x + 1
    z = y * 2
    return z
"""
FIRST = {5: "cpu 1.00 ms · 17 % · 1 op", 6: "cpu 2.00 ms · 33 % · 1 op", 7: "cpu 3.00 ms · 50 % · 1 op"}
SLOWER = {5: "cpu 1.00 ms · 14 % · 1 op", 6: "cpu 3.00 ms · 43 % · 1 op ▲50 %", 7: "cpu 3.00 ms · 43 % · 1 op"}
TAKEN_BACK = {**FIRST, 6: "cpu 2.00 ms · 33 % · 1 op ▼33 %"}
PINNED = {"baseline": "pinned"}
LINE = {"line": 5}


@pytest.fixture
def client(serve: Serve, tmp_path: Path) -> Client:
    return ready(serve([tmp_path / "ws"]))


@pytest.fixture
def document(client: Client, tmp_path: Path) -> Document:
    """A document with a function that was profiled, and nothing that it could be compared with."""
    opened = client.open(tmp_path / "ws" / "model.py", SOURCE)
    opened.save()
    until_hints(client, opened.uri, FIRST)
    return opened


@pytest.fixture
def slower(document: Document) -> Document:
    """The same after an edit that made its second line slower."""
    make_slower(document)
    until_hints(document.client, document.uri, SLOWER)
    return document


def make_slower(document: Document) -> None:
    document.replace("z = y * 2", "z = y * y  # fake: ms 3")
    document.save()


def hover(client: Client, document: Document, line: int) -> list[str]:
    """The paragraphs of a hover as text, with every time of day as TIME."""
    found = client.hover(document.uri, line - 1, 6)
    assert found is not None
    text = re.sub(r"\d\d:\d\d:\d\d", "TIME", found["contents"]["value"])
    return re.sub(r"\\(.)", r"\1", text).split("\n\n")


def about(document: Document) -> dict[str, str]:
    return {"uri": document.uri, "qualname": "f"}


def test_an_edit_that_made_a_line_slower_is_told_at_that_line_and_above_the_function(slower: Document) -> None:
    client = slower.client
    assert lenses(client, slower.uri) == ["cpu 7.00 ms · ▲17 % vs previous", "Re-profile"]
    assert hover(client, slower, 6)[2:4] == [
        "previous 2.00 ms at TIME, ▲50 % (noise ±0.0 %)",
        "was: z = y * 2",
    ]
    assert "previous 3.00 ms at TIME, within noise ±3.0 %" in hover(client, slower, 7)
    assert "previous 6.00 ms at TIME, ▲17 % (noise ±0.0 %)" in hover(client, slower, 4)


def test_what_was_not_compared_says_why(document: Document) -> None:
    assert "no earlier result of other code" in hover(document.client, document, 4)
    assert "no earlier result of other code" in hover(document.client, document, 6)
    assert diagnostics(document.client, document.uri) == []


def test_an_undo_answers_for_itself_without_a_run(slower: Document, fake: FakeAgents) -> None:
    client = slower.client
    slower.replace("z = y * y  # fake: ms 3", "z = y * 2")
    assert hints(client, slower.uri) == TAKEN_BACK
    assert lenses(client, slower.uri) == ["cpu 6.00 ms · ▼14 % vs previous", "Re-profile"]
    slower.save()
    settle(client, slower.path.parent)
    assert hints(client, slower.uri) == TAKEN_BACK
    assert len(fake.runs) == 2


def test_old_numbers_have_no_delta(slower: Document) -> None:
    slower.replace("x + 1", "x + 2")
    assert hints(slower.client, slower.uri) == {6: "~cpu 3.00 ms", 7: "~cpu 3.00 ms"}
    assert "▲" not in "".join(lenses(slower.client, slower.uri))
    assert all("previous" not in part for part in hover(slower.client, slower, 6))


def test_profiling_the_same_code_again_keeps_the_answer(slower: Document, fake: FakeAgents) -> None:
    client = slower.client
    for count in (3, 4, 5, 6, 7):
        act(client, "profileFunction", about(slower))
        fake.wait_for_event("ended", lambda _, count=count: len(fake.runs) == count)
        settle(client, slower.path.parent)
        until_hints(client, slower.uri, SLOWER)


def test_the_same_code_shows_no_delta_whatever_it_takes(document: Document, fake: FakeAgents) -> None:
    client = document.client
    for number in (30, 300):
        text = SOURCE.replace("z = y * 2", f"z = y * 2  # fake: ms {number}")
        document.replace_all(text)
        document.save()
        settle(client, document.path.parent)
        act(client, "profileFunction", about(document))
        shown = until(
            client, lambda: hints(client, document.uri), lambda seen, number=number: f"{number}" in seen.get(6, "")
        )
        assert not re.search("[▲▼]|new", "".join(shown.values()))
    assert len(fake.runs) == 3


def test_a_line_that_was_added_is_new(document: Document) -> None:
    document.replace("    z = y * 2\n", "    w = y\n    z = y * 2  # fake: ms 2\n")
    document.replace("return z\n", "return z  # fake: ms 3\n")
    document.save()
    until_hints(
        document.client,
        document.uri,
        {
            5: "cpu 1.00 ms · 13 % · 1 op",
            6: "cpu 2.00 ms · 25 % · 1 op new",
            7: "cpu 2.00 ms · 25 % · 1 op",
            8: "cpu 3.00 ms · 38 % · 1 op",
        },
    )
    assert "new since the previous result at TIME" in hover(document.client, document, 6)


def test_what_was_removed_is_in_the_report(document: Document) -> None:
    client = document.client
    document.replace("    z = y * 2\n", "")
    document.replace("return z\n", "return y  # fake: ms 3\n")
    document.save()
    until(client, lambda: lenses(client, document.uri), lambda seen: "cpu 4.00 ms · ▼33 % vs previous" in seen)
    click(client, document.uri, "cpu 4.00 ms · ▼33 % vs previous")
    text = path_of(client.wait_for("window/showDocument")["uri"]).read_text(encoding="utf-8")
    assert "## Comparison\n\nprevious 6.00 ms at " in text
    assert r"| z = y \* 2 | 2.00 ms |" in text
    assert r"| return z | 3.00 ms |" in text


def test_a_slower_function_has_a_warning_until_its_next_edit(slower: Document) -> None:
    client = slower.client
    (found,) = until(client, lambda: diagnostics(client, slower.uri), bool)
    assert (found["code"], found["severity"], found["source"]) == ("regression", 2, "profile-neuron")
    assert found["message"] == (
        "f is slower: 6.00 ms → 7.00 ms, ▲17 % vs previous; this line: 2.00 ms → 3.00 ms, ▲50 %"
    )
    assert found["range"]["start"] == {"line": 5, "character": 4}
    mark = client.mark()
    slower.replace("x + 1", "x + 2")
    client.wait_for("textDocument/publishDiagnostics", lambda params: params["diagnostics"] == [], after=mark)


def test_a_renamed_function_is_compared_with_what_it_was(document: Document) -> None:
    client = document.client
    document.replace("def f(x)", "def g(x)")
    document.save()
    until_hints(client, document.uri, FIRST)
    assert "no earlier result of other code" in hover(client, document, 4), "a name takes no time"
    make_slower(document)
    until_hints(client, document.uri, SLOWER)
    document.replace("def g(x)", "def h(x)")
    document.save()
    until_hints(client, document.uri, SLOWER)


def test_other_inputs_are_not_compared_and_the_hover_says_so(document: Document) -> None:
    client = document.client
    document.replace("z = y * 2", "z = y * y  # fake: ms 3")
    document.replace("    return z\n", "    return z\n    # fake: inputs b8\n")
    document.save()
    until_hints(client, document.uri, {**SLOWER, 6: "cpu 3.00 ms · 43 % · 1 op"})
    for line in (4, 6):
        assert "no comparison: measured with other inputs" in hover(client, document, line)


def test_deltas_can_be_switched_off_behind_lines(slower: Document, fake: FakeAgents) -> None:
    client = slower.client
    client.configure(with_fake(fake, {"hints": {"delta": False}}))
    until_hints(client, slower.uri, {**SLOWER, 6: "cpu 3.00 ms · 43 % · 1 op"})
    assert lenses(client, slower.uri)[0] == "cpu 7.00 ms · ▲17 % vs previous"


class TestPinned:
    def test_the_pinned_result_is_what_later_ones_are_compared_with_also_after_a_restart(
        self, serve: Serve, document: Document, fake: FakeAgents
    ) -> None:
        client = document.client
        client.configure(with_fake(fake, PINNED))
        until(client, lambda: hover(client, document, 4), lambda seen: "no result is pinned" in seen)
        act(client, "pinBaseline", about(document))
        until(
            client,
            lambda: hover(client, document, 4),
            lambda seen: "no comparison: the pinned result is of the same code" in seen,
        )
        for number in range(3):
            document.replace_all(SOURCE.replace("z = y * 2", f"z = y * {number + 5}  # fake: ms {number + 2}"))
            document.save()
            total = f"cpu {6 + number}.00 ms"
            until(client, lambda: lenses(client, document.uri), lambda seen, total=total: total in seen[0])
        expected = ["cpu 8.00 ms · ▲33 % vs pinned", "Re-profile"]
        assert lenses(client, document.uri) == expected
        assert "pinned 2.00 ms at TIME, ▲100 % (noise ±0.0 %)" in hover(client, document, 6)
        settle(client, document.path.parent)
        client.stop()
        again = ready(serve([document.path.parent], settings=PINNED))
        opened = again.open(document.path)
        until(again, lambda: lenses(again, opened.uri), lambda seen: seen == expected)
        act(again, "unpinBaseline", {"uri": opened.uri, **LINE})
        until(again, lambda: lenses(again, opened.uri), lambda seen: seen == ["cpu 8.00 ms", "Re-profile"])
        assert said(again) == []

    def test_pinning_again_replaces_what_was_pinned(self, document: Document, fake: FakeAgents) -> None:
        client = document.client
        client.configure(with_fake(fake, PINNED))
        act(client, "pinBaseline", about(document))
        make_slower(document)
        until_hints(client, document.uri, SLOWER)
        act(client, "pinBaseline", about(document))
        assert "no comparison: the pinned result is of the same code" in hover(client, document, 4)
        document.replace("z = y * y  # fake: ms 3", "z = y * 2")
        until_hints(client, document.uri, TAKEN_BACK)
        assert lenses(client, document.uri)[0] == "cpu 6.00 ms · ▼14 % vs pinned"

    def test_another_server_knows_of_it_with_its_next_save(
        self, serve: Serve, slower: Document, fake: FakeAgents
    ) -> None:
        root = slower.path.parent
        other = ready(serve([root], settings=PINNED))
        theirs = other.open(slower.path)
        until_hints(other, theirs.uri, {**SLOWER, 6: "cpu 3.00 ms · 43 % · 1 op"})
        slower.replace("z = y * y  # fake: ms 3", "z = y * 2")
        act(slower.client, "pinBaseline", about(slower))
        slower.client.stop()
        theirs.save()
        until_hints(other, theirs.uri, SLOWER)
        assert lenses(other, theirs.uri)[0] == "cpu 7.00 ms · ▲17 % vs pinned"

    def test_what_is_not_there_cannot_be_pinned_or_unpinned(self, slower: Document) -> None:
        client = slower.client
        act(client, "unpinBaseline", about(slower))
        assert said(client) == ["no result of f is pinned"]
        slower.replace("x + 1", "x + 2")
        act(client, "pinBaseline", about(slower))
        assert said(client)[1:] == ["f has no result of today's code to pin; profile it first"]
