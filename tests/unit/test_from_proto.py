"""Several changes in one notification, as formatters and replacing everywhere send them."""

from __future__ import annotations

import random

import pytest
from lsprotocol import types

from profile_neuron.lsp.from_proto import edited

TEXT = "a = '😀é測'\r\nb\n\n  c\rdd \x0c ee\n\U0001f600\nlast"
ENDS = ["", "x", "\n", "é\r\n😀", "\r"]


def change(first: tuple[int, int], last: tuple[int, int], text: str) -> types.TextDocumentContentChangePartial:
    return types.TextDocumentContentChangePartial(types.Range(types.Position(*first), types.Position(*last)), text)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
def test_changes_of_one_notification_count_in_what_the_ones_before_left(encoding: str) -> None:
    chance = random.Random(7)
    for _ in range(300):
        changes = []
        for _ in range(chance.randrange(1, 7)):
            first = (chance.randrange(9), chance.randrange(12))
            last = max(first, (first[0] + chance.randrange(2), chance.randrange(12)))
            changes.append(change(first, last, chance.choice(ENDS)))
        if chance.random() < 0.5:
            changes.sort(key=lambda item: (item.range.start.line, item.range.start.character), reverse=True)
        one_by_one = TEXT
        for item in changes:
            one_by_one = edited(one_by_one, [item], encoding)
        assert edited(TEXT, changes, encoding) == one_by_one


def test_a_whole_text_among_the_changes_replaces_what_was_before() -> None:
    whole = types.TextDocumentContentChangeWholeDocument("new\nlines\n")
    assert (
        edited(TEXT, [change((0, 0), (0, 1), "x"), whole, change((1, 0), (1, 5), "LINES")], "utf-16") == "new\nLINES\n"
    )
