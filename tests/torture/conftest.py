"""How long the torture test may take: by the number of its steps."""

from __future__ import annotations

import pytest

# Of the default, on a machine that has other things to do; an idle one needs a third.
_LIMIT_S = 1200.0
_LIMIT_STEPS = 2000


def limit_s(config: pytest.Config) -> float:
    """When the test has failed if it is not through."""
    steps: int = config.getoption("--torture-steps")
    return _LIMIT_S * max(1.0, steps / _LIMIT_STEPS)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.name == "test_torture.py":
            # The test gives up by itself, with all that it knows; this is for where it cannot.
            item.add_marker(pytest.mark.timeout(limit_s(config) + 300))
