"""Fixtures: fake agents, and servers with them behind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pytest

from tests.fakes.control import FakeAgents
from tests.lsp.client import Client, Settings, settings_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# The cases import their decorator from here.
DECORATOR_MODULES = ["profile_neuron", "pn_api"]

# From roots and the options of Client.start to a client.
Serve = Callable[..., Client]


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[FakeAgents]:
    """What the server starts as agents; its interpreter is to be set in the settings, its env in the environment."""
    folder = tmp_path / "fake"
    folder.mkdir()
    agents = FakeAgents(folder)
    yield agents
    agents.close()


@pytest.fixture
def serve(fake: FakeAgents, tmp_path: Path) -> Iterator[Serve]:
    """Start servers that have a fake agent behind them, and end them after the test.

    Settings are added to those that name the interpreter and the decorator's modules. All servers of a test share
    one store. traceback: the server may print one.
    """
    clients: list[Client] = []
    folders = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "XDG_STATE_HOME": str(tmp_path / "state")}
    may_fail: list[Client] = []

    def start(
        roots: list[Path],
        *,
        settings: Settings | None = None,
        env: Mapping[str, str] | None = None,
        traceback: bool = False,
        **options: Any,
    ) -> Client:
        for root in roots:
            root.mkdir(parents=True, exist_ok=True)
        client = Client.start(
            roots, settings=with_fake(fake, settings or {}), env={**folders, **fake.env, **(env or {})}, **options
        )
        clients.append(client)
        if traceback:
            may_fail.append(client)
        return client

    yield start
    try:
        for client in clients:
            client.stop()
    finally:
        for client in clients:
            client.kill()
    for client in clients:
        assert client.faults == [], "the server kept to the protocol"
        assert client in may_fail or "Traceback" not in client.stderr, client.stderr


def with_fake(fake: FakeAgents, settings: Settings) -> Settings:
    """Settings on top of those that every test needs; for Client.configure as well."""
    base = {"interpreter": str(fake.interpreter), "decorator": {"modules": DECORATOR_MODULES}}
    return lambda scope: merged(base, settings_of(settings, scope))


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Nested settings, the second ones on top."""
    result = dict(base)
    for key, value in over.items():
        below = result.get(key)
        result[key] = merged(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return result
