"""Answers that are in JSON's own types already, so that what did not change is converted once and not each time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pygls.protocol import default_converter

if TYPE_CHECKING:
    from cattrs import Converter


class Prepared(list[Any]):
    """Maps as the protocol has them; pygls sends them as they are."""


def converter() -> Converter:
    """The converter of pygls, which leaves prepared answers alone."""
    found: Converter = default_converter()  # type: ignore[no-untyped-call]
    found.register_unstructure_hook(Prepared, lambda answer: answer)
    return found
