"""How messages are converted: answers in JSON's own types once and not each time, and a version of null as none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lsprotocol import types
from pygls.protocol import default_converter

if TYPE_CHECKING:
    from cattrs import Converter


class Prepared(list[Any]):
    """Maps as the protocol has them; pygls sends them as they are."""


def converter() -> Converter:
    """The converter of pygls, which leaves prepared answers alone."""
    found: Converter = default_converter()  # type: ignore[no-untyped-call]
    found.register_unstructure_hook(Prepared, lambda answer: answer)
    # Older clients have a version of null, for which pygls would refuse the edit and keep the text of before.
    found.register_structure_hook(
        types.VersionedTextDocumentIdentifier,
        lambda given, _: types.VersionedTextDocumentIdentifier(given.get("version") or 0, given["uri"]),
    )
    return found
