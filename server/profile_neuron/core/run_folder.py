"""What a run folder holds, by name, and the names of our ranges in its traces."""

from __future__ import annotations

# The request and how the run ended: model.RunRecord as JSON.
RECORD = "run.json"
# The operators as the profiler gave them in process; report reads this first.
OPERATORS = "operators.json"
# torch's own export: the fallback, and for other viewers.
TRACE = "trace.json"
# The table of range numbers and the sources as they were executed: model.LineLog as JSON.
LINES = "lines.json"
# The line clock's marks by the framework's sequence numbers; only of a run on a NeuronCore.
SEQUENCES = "sequences.json"
# The folder for what the Neuron profiler writes: its session folders.
NEURON = "neuron"
# Tables that Neuron Explorer made of them, where nothing else tells the times of the device.
EXPLORER = "explorer"
# As which profile Neuron Explorer has processed the run's capture.
OPENED = "opened.json"
# What the agent knows of the run: model.AgentNotes as JSON.
AGENT = "agent.json"
# Changed every few minutes while an editor shows the result of the run.
SHOWN = "shown"
# What faulthandler writes when the worker crashes or is asked where it is; gone after a run that ended by itself.
STACK = "stack.txt"

SCHEMA = 1

# ASCII, no quotes, no paths: torch replaces or breaks every other name in its export.
LINE_RANGE = "pn.line:"
CALL_RANGE = "pn.call:"
WARMUP_RANGE = "pn.warmup"
OUR_RANGES = (LINE_RANGE, CALL_RANGE, WARMUP_RANGE)


def line_range(number: int) -> str:
    """Name of the range that stays open while a line runs."""
    return f"{LINE_RANGE}{number}"


def range_number(name: str, prefix: str) -> int | None:
    """Number in the name of one of our ranges; None for any other name."""
    digits = name[len(prefix) :]
    return int(digits) if name.startswith(prefix) and digits.isascii() and digits.isdigit() else None
