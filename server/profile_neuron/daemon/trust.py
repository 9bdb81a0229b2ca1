"""Which folders the user allowed to run code of, kept in the user's state folder."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from profile_neuron.daemon.private_files import own_bytes, write_whole

if TYPE_CHECKING:
    from pathlib import Path


class TrustRecord:
    """The user's answers, one file each, so that two servers never spoil each other's.

    A root is its path as given: another spelling of the same folder is another question.
    """

    def __init__(self, folder: Path) -> None:
        # Private to the user: whoever can write there can give trust.
        self._folder = folder

    def answer(self, root: str) -> bool | None:
        """What the user answered for a root; None where nothing was answered, or the answer cannot be relied on."""
        try:
            kept = json.loads(own_bytes(self._file_of(root)))
        # A damaged file may also nest too deeply for the parser.
        except (OSError, ValueError, RecursionError):
            return None
        # The name of the file is a part of a hash only, and files can be copied.
        if not isinstance(kept, dict) or kept.get("root") != root:
            return None
        trusted = kept.get("trusted")
        return trusted if isinstance(trusted, bool) else None

    def keep(self, root: str, trusted: bool) -> None:
        """Keep an answer in place of an earlier one. Raises OSError."""
        # As ASCII, which also carries paths whose bytes are not text.
        write_whole(self._file_of(root), json.dumps({"root": root, "trusted": trusted}).encode("ascii"))

    def _file_of(self, root: str) -> Path:
        # Every str can be encoded this way, and no two of them alike.
        return self._folder / hashlib.sha256(root.encode("utf-8", "surrogatepass")).hexdigest()[:32]
