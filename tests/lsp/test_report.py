"""The report of a function, as a client that draws it asks for it, with a fake agent behind the real server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.lsp.client import TimedOut
from tests.lsp.extension import able_to
from tests.lsp.screen import act, ready, until_hints
from tests.lsp.test_server import NEW, SOURCE, about

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lsp.client import Client, Document
    from tests.lsp.conftest import Serve

REPORT = "profileNeuron/report"
SHOW = "profileNeuron/showReport"
EMPTY = {"time": "", "share": "", "part": 0.0, "operators": "", "delta": ""}


@pytest.fixture
def client(serve: Serve, tmp_path: Path) -> Client:
    return ready(serve([tmp_path / "ws"], capabilities=able_to("report")))


@pytest.fixture
def document(client: Client, tmp_path: Path) -> Document:
    return client.open(tmp_path / "ws" / "model.py", SOURCE)


@pytest.fixture
def profiled(document: Document) -> Document:
    document.save()
    until_hints(document.client, document.uri, NEW)
    return document


def report(document: Document, qualname: str = "f") -> Any:
    return document.client.request(REPORT, about(document, qualname))


def test_it_has_every_line_from_the_decorator_on_with_the_numbers_of_the_hints(profiled: Document) -> None:
    found = report(profiled)
    assert list(found) == ["title", "summary", "isStale", "measure", "rows", "notes", "operators"]
    assert (found["title"], found["isStale"], found["measure"]) == ("f", False, "cpu")
    lines = SOURCE.split("\n")
    assert [(row["line"], row["source"]) for row in found["rows"]] == list(enumerate(lines))[2:7]
    assert [row | EMPTY for row in found["rows"][:2]] == found["rows"][:2]
    assert [f"cpu {row['time']} · {row['share']} · 1 op" for row in found["rows"][2:]] == list(NEW.values())
    assert [round(row["part"], 3) for row in found["rows"][2:]] == [0.167, 0.333, 0.5]
    assert [row["operators"] for row in found["rows"][2:]] == ["aten::add"] * 3


def test_it_is_of_the_text_as_it_is_now(profiled: Document) -> None:
    profiled.replace("y * 2", "y * 3")
    profiled.change(((0, 0), (0, 0)), "# one more\n")
    found = report(profiled)
    assert found["isStale"] is True
    assert [(row["line"], row["time"]) for row in found["rows"] if row["time"]] == [(5, "1.00 ms"), (7, "3.00 ms")]
    assert found["rows"][3]["source"] == "    z = y * 3"


def test_of_a_function_without_a_result_there_are_its_lines(document: Document) -> None:
    found = report(document)
    assert found["summary"] == ["none"]
    assert [row["time"] for row in found["rows"]] == [""] * 5


@pytest.mark.parametrize(
    "params",
    [
        {"uri": "file:///no/where.py", "qualname": "f", "occurrence": 0},
        {"uri": "untitled:one", "qualname": "f", "occurrence": 0},
        {"uri": 5, "qualname": "f", "occurrence": 0},
        {"qualname": "f"},
        [],
    ],
)
def test_where_there_is_none_the_answer_is_null(params: object, client: Client, document: Document) -> None:
    assert client.request(REPORT, params) is None
    assert report(document, "g") is None


def test_the_lens_has_the_client_open_it(profiled: Document) -> None:
    client = profiled.client
    act(client, "showReport", about(profiled))
    assert client.wait_for(SHOW) == about(profiled)
    client.barrier()
    assert client.count("window/showDocument") == 0


def test_a_client_that_draws_none_is_shown_a_document(serve: Serve, tmp_path: Path) -> None:
    client = ready(serve([tmp_path / "ws"]))
    document = client.open(tmp_path / "ws" / "model.py", SOURCE)
    act(client, "showReport", about(document))
    assert client.wait_for("window/showDocument")["uri"].endswith(".md")
    with pytest.raises(TimedOut):
        client.wait_for(SHOW, timeout_s=0.0)
