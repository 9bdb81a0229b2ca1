"""How warm lines are, as a client that marks them is told, with a fake agent behind the real server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.lsp.conftest import with_fake
from tests.lsp.extension import HEAT, able_to, heat_of, until_heat
from tests.lsp.screen import act, hints, ready, settle, until_hints
from tests.lsp.test_server import EDITED, NEW, SOURCE

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fakes.control import FakeAgents
    from tests.lsp.client import Client, Document
    from tests.lsp.conftest import Serve
    from tests.lsp.extension import Heat

# Of 17, 33 and 50 %.
WARM = {5: (3, False), 6: (3, False), 7: (4, False)}
COOLED = {line: (level, True) for line, (level, _) in WARM.items()}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "ws"


@pytest.fixture
def client(serve: Serve, root: Path) -> Client:
    return ready(serve([root], capabilities=able_to("heat")))


@pytest.fixture
def profiled(client: Client, root: Path) -> Document:
    document = client.open(root / "model.py", SOURCE)
    document.save()
    until_heat(client, document.uri, WARM)
    return document


def test_a_run_makes_the_lines_warm_that_get_hints(profiled: Document) -> None:
    client = profiled.client
    until_hints(client, profiled.uri, NEW)
    (told,) = client.all(HEAT)
    assert told.params["version"] == client.buffers[profiled.uri].version
    assert told.params["uri"] == profiled.uri
    assert list(heat_of(told.params)) == list(NEW)


def test_a_line_above_moves_the_lines(profiled: Document) -> None:
    client = profiled.client
    profiled.change(((0, 0), (0, 0)), "# one more\n")
    told = until_heat(client, profiled.uri, {line + 1: warm for line, warm in WARM.items()})
    assert told["version"] == client.buffers[profiled.uri].version


def test_an_edited_statement_is_cold_and_its_function_stale(profiled: Document) -> None:
    client = profiled.client
    profiled.replace("y * 2", "y * 3")
    until_heat(client, profiled.uri, {line: COOLED[line] for line in EDITED})
    mark = client.mark()
    profiled.replace("y * 3", "y * 2")
    until_heat(client, profiled.uri, WARM, mark)


def test_a_text_that_does_not_parse_keeps_the_lines_that_stayed(profiled: Document) -> None:
    profiled.replace("z = y * 2", "z = (y * 2")
    until_heat(profiled.client, profiled.uri, {line: COOLED[line] for line in EDITED})


def test_the_same_lines_of_another_text_are_told_again(profiled: Document) -> None:
    client = profiled.client
    mark = client.mark()
    profiled.replace("return z\n", "return z  # as it was\n")
    assert until_heat(client, profiled.uri, WARM, mark)["version"] == client.buffers[profiled.uri].version


def test_what_nobody_changed_is_told_once(profiled: Document, root: Path) -> None:
    settle(profiled.client, root)
    assert profiled.client.count(HEAT) == 1


def test_hidden_results_are_cold_once_and_come_back(profiled: Document, root: Path) -> None:
    client = profiled.client
    act(client, "toggleInline")
    until_heat(client, profiled.uri, {})
    settle(client, root)
    assert client.count(HEAT) == 2
    mark = client.mark()
    act(client, "toggleInline")
    until_heat(client, profiled.uri, WARM, mark)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [({"hints": {"minShare": 40}}, {7: WARM[7]}), ({"hints": {"minTime": "2ms"}}, {6: WARM[6], 7: WARM[7]})],
)
def test_limits_of_share_and_time_count_at_once(
    settings: dict[str, object], expected: Heat, profiled: Document, fake: FakeAgents
) -> None:
    profiled.client.configure(with_fake(fake, settings))
    until_heat(profiled.client, profiled.uri, expected)


def test_lines_are_cold_where_nothing_is_to_be_shown(profiled: Document, fake: FakeAgents) -> None:
    profiled.client.configure(with_fake(fake, {"enable": False}))
    until_heat(profiled.client, profiled.uri, {})


@pytest.mark.parametrize("settings", [{"hints": {"enable": False}}, {"hints": {"maxPerFunction": 0}}])
def test_lines_are_warm_also_without_texts_behind_them(
    settings: dict[str, object], profiled: Document, fake: FakeAgents
) -> None:
    client = profiled.client
    client.configure(with_fake(fake, settings))
    until_hints(client, profiled.uri, {})
    mark = client.mark()
    profiled.change(((0, 0), (0, 0)), "# one more\n")
    until_heat(client, profiled.uri, {line + 1: warm for line, warm in WARM.items()}, mark)


def test_stale_lines_that_are_to_be_hidden_are_cold(serve: Serve, root: Path) -> None:
    client = ready(serve([root], capabilities=able_to("heat"), settings={"hints": {"stale": "hide"}}))
    document = client.open(root / "model.py", SOURCE)
    document.save()
    until_heat(client, document.uri, WARM)
    document.replace("y * 2", "y * 3")
    until_heat(client, document.uri, {})


def test_results_that_are_cleared_leave_the_lines_cold(profiled: Document) -> None:
    act(profiled.client, "clear", {"uri": profiled.uri})
    until_heat(profiled.client, profiled.uri, {})


def test_a_file_that_is_opened_again_is_told_of_again(profiled: Document, root: Path) -> None:
    client = profiled.client
    profiled.close()
    settle(client, root)
    assert client.count(HEAT) == 1, "nothing is said of a file that is closed"
    mark = client.mark()
    client.open(root / "model.py")
    until_heat(client, profiled.uri, WARM, mark)


@pytest.mark.parametrize(
    "experimental",
    [
        None,
        True,
        [],
        {"profileNeuron": True},
        {"profileNeuron": {"heat": "yes"}},
        {"profileNeuron": {"heat": 1, "status": None}},
        {"other": {"heat": True}},
    ],
)
def test_a_client_that_did_not_ask_for_it_is_told_nothing(experimental: object, serve: Serve, root: Path) -> None:
    client = ready(serve([root], capabilities={**able_to(), "experimental": experimental}))
    document = client.open(root / "model.py", SOURCE)
    document.save()
    until_hints(client, document.uri, NEW)
    act(client, "toggleInline")
    assert hints(client, document.uri) == {}
    settle(client, root)
    assert [message.method for message in client.received if message.method.startswith("profileNeuron/")] == []
