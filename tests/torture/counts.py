"""What a torture test did and saw, as numbers."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field


@dataclass
class Counts:
    """Counters by name, the latencies of all requests, and what was wrong."""

    of: Counter[str] = field(default_factory=Counter)
    # Seconds from a request to its answer, by kind: what is answered from memory, and what may wait for the disk.
    latencies: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    # One sentence for each thing that must not be.
    faults: list[str] = field(default_factory=list)
    # The step that is on, for the sentences.
    step: str = "start"

    def fault(self, text: str) -> None:
        """Note what must not be; the test goes on, to find more."""
        self.faults.append(f"{self.step}: {text}")

    def table(self) -> str:
        """All numbers for a person."""
        rows = [(name, str(count)) for name, count in sorted(self.of.items())]
        for kind, seconds in sorted(self.latencies.items()):
            rows.append((f"{kind} answered", str(len(seconds))))
            rows += [(f"{kind} p{share}", f"{quantile(seconds, share) * 1000:.1f} ms") for share in (50, 95, 99, 100)]
        rows.append(("faults", str(len(self.faults))))
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {text:>10}" for name, text in rows)


def quantile(values: list[float], percent: int) -> float:
    """The value that this share of all values did not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, percent * len(ordered) // 100)]
