"""A client that says that it is our extension, and what it was told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.lsp.client import CAPABILITIES

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.lsp.client import Client, Target

HEAT = "profileNeuron/heat"
STATUS = "profileNeuron/status"

# Line from 1, level, and whether it is stale.
Heat = dict[int, tuple[int, bool]]


def able_to(*names: str) -> dict[str, Any]:
    """All that the protocol has, and these abilities of our extension."""
    return {**CAPABILITIES, "experimental": {"profileNeuron": dict.fromkeys(names, True)}}


def heat_of(params: dict[str, Any]) -> Heat:
    """One message as a map."""
    return {item["line"] + 1: (item["level"], item["isStale"]) for item in params["lines"]}


def until_heat(client: Client, target: Target, expected: Heat, after: int = 0) -> dict[str, Any]:
    """The first message that says exactly this of a document."""
    uri = client.uri(target)
    found: dict[str, Any] = client.wait_for(
        HEAT, lambda params: params["uri"] == uri and heat_of(params) == expected, after
    )
    return found


def until_status(client: Client, fits: Callable[[dict[str, Any]], bool], after: int = 0) -> dict[str, Any]:
    """The first message about the status that fits."""
    found: dict[str, Any] = client.wait_for(STATUS, fits, after)
    return found
