"""The profiler of the XLA package, at its end of support."""

from __future__ import annotations

from typing import Any


class profile:
    """Takes what it is given and records nothing."""

    def __init__(self, **options: Any) -> None:
        self.options = options

    def __enter__(self) -> profile:
        return self

    def __exit__(self, *error: object) -> None:
        pass
