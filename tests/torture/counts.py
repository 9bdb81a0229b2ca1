"""What a torture test did and saw, as numbers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Counts:
    """Counters by name, the latencies of all requests, and what was wrong."""

    of: Counter[str] = field(default_factory=Counter)
    # Seconds from a request to its answer.
    latencies: list[float] = field(default_factory=list)
    # One sentence for each thing that must not be.
    faults: list[str] = field(default_factory=list)
    # The step that is on, for the sentences.
    step: str = "start"

    def fault(self, text: str) -> None:
        """Note what must not be; the test goes on, to find more."""
        self.faults.append(f"{self.step}: {text}")

    def latency_s(self, share: float) -> float:
        """The latency that this share of all requests did not exceed."""
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0

    def table(self) -> str:
        """All numbers for a person."""
        rows = [(name, str(count)) for name, count in sorted(self.of.items())]
        rows += [("requests answered", str(len(self.latencies)))]
        rows += [(f"latency p{share}", f"{self.latency_s(share / 100) * 1000:.1f} ms") for share in (50, 95, 99, 100)]
        rows += [("faults", str(len(self.faults)))]
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {text:>10}" for name, text in rows)
