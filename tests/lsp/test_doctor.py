"""The doctor as a command, with a fake agent behind the real server and the real command line between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.fakes.agent import TORCH
from tests.lsp.client import path_of
from tests.lsp.screen import act, ready, said
from tests.lsp.test_server import SOURCE

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fakes.control import FakeAgents
    from tests.lsp.client import Client
    from tests.lsp.conftest import Serve


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "ws"


def document(client: Client, after: int = 0) -> tuple[Path, str]:
    path = path_of(client.wait_for("window/showDocument", after=after, timeout_s=60.0)["uri"])
    return path, path.read_text()


def warned(client: Client) -> str:
    found: str = client.wait_for("window/showMessage", lambda params: params["type"] == 2)["message"]
    return found


@pytest.mark.parametrize("about", [[], [{"uri": "{root}/model.py"}], [{"uri": "{root}"}], ["{root}/model.py"]])
def test_it_looks_at_the_python_of_the_folder_and_opens_its_text(
    about: list[object], serve: Serve, root: Path, fake: FakeAgents
) -> None:
    client = ready(serve([root]))
    client.open(root / "model.py", SOURCE)

    def filled(item: object) -> object:
        if isinstance(item, dict):
            return {name: filled(value) for name, value in item.items()}
        return str(item).replace("{root}", root.as_uri())

    assert act(client, "doctor", *map(filled, about)) is None
    path, text = document(client)
    assert path.name.startswith("ws-doctor-")
    assert f"✓ torch         {TORCH}" in text.split("\n")
    assert text.startswith("profile-neuron ")
    assert fake.count("hello") == 1, "the interpreter of the settings was started"
    assert fake.runs == []


def test_two_folders_have_two_documents(serve: Serve, tmp_path: Path) -> None:
    roots = [tmp_path / "a" / "ws", tmp_path / "b" / "ws"]
    client = ready(serve(roots))
    paths = set()
    for root in roots:
        mark = client.mark()
        act(client, "doctor", {"uri": root.as_uri()})
        paths.add(document(client, mark)[0])
    assert len(paths) == 2


def test_a_python_that_cannot_be_started_is_a_finding(serve: Serve, root: Path) -> None:
    client = ready(serve([root], settings={"interpreter": "./no-python"}))
    act(client, "doctor")
    _, text = document(client)
    assert f"✗ interpreter  {root}/./no-python: " in text


@pytest.mark.parametrize("options", [{"trusted": False}, {}])
def test_nothing_is_started_in_a_folder_that_is_not_trusted(
    options: dict[str, object], serve: Serve, root: Path, fake: FakeAgents
) -> None:
    client = ready(serve([root], initialization_options=options))
    act(client, "doctor")
    assert warned(client) == f"{root} is not trusted, so its Python is not started; trust it in the editor"
    client.stop()
    assert fake.events == []


def test_without_a_folder_there_is_nothing_to_look_at(serve: Serve) -> None:
    client = ready(serve([]))
    act(client, "doctor")
    assert warned(client) == "no folder is open whose Python could be looked at; open one, or a Python file"
    assert len(said(client)) == 1
