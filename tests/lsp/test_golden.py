"""Where hints stand, as text: a source with a caret below each hint's place, compared with tests/data/golden."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conftest import DATA, ROOT
from tests.lsp.screen import lenses, picture, ready, until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lsp.conftest import Serve

GOLDEN = DATA / "golden"
SOURCES = (
    (ROOT / "samples" / "rms_norm.py", "utf-16"),
    (ROOT / "samples" / "llama_block.py", "utf-16"),
    # What is not ASCII has its own columns in each.
    (GOLDEN / "forms.py", "utf-8"),
    (GOLDEN / "forms.py", "utf-16"),
    (GOLDEN / "forms.py", "utf-32"),
)
# The fake agent's first rows take less than a percent of a long function.
ALL_HINTS = {"hints": {"minShare": 0, "maxPerFunction": 1000}}


@pytest.mark.parametrize(
    ("source", "encoding"), SOURCES, ids=[f"{source.stem} {encoding}" for source, encoding in SOURCES]
)
def test_hints_stand_behind_the_first_line_of_their_statements(
    source: Path, encoding: str, serve: Serve, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    client = ready(serve([tmp_path / "ws"], settings=ALL_HINTS, position_encodings=[encoding]))
    assert client.position_encoding == encoding
    text = source.read_bytes().decode()
    document = client.open(tmp_path / "ws" / source.name, text)
    functions = lenses(client, document.uri).count("Profile on the CPU")
    assert functions
    document.save()
    until(client, lambda: lenses(client, document.uri).count("Re-profile"), lambda fresh: fresh == functions)
    shown = picture(text, client.hints(document.uri), encoding)
    golden = GOLDEN / f"{source.stem}.txt"
    if request.config.getoption("--update-golden"):
        golden.write_bytes(shown.encode())
    assert shown == golden.read_bytes().decode(), "compare with git diff after pytest --update-golden"
