"""Numbers of NeuronCores as the runtime's variables spell them: 0, 0-3 or 0,2-3."""

from __future__ import annotations

import re

# More than any host has; a longer range is a slip of the finger.
_MOST = 1024
_ITEM = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?")


def parse_cores(text: str) -> frozenset[int] | None:
    """The numbers in such a list; None for a text that is none.

    Source: NEURON_RT_VISIBLE_CORES in the runtime's configuration guide, SDK 2.32.
    """
    found: set[int] = set()
    for item in text.split(","):
        match = _ITEM.fullmatch(item)
        if match is None:
            return None
        first, last = int(match[1]), int(match[2] or match[1])
        if not first <= last < _MOST:
            return None
        found.update(range(first, last + 1))
    return frozenset(found)
