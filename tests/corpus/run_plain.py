"""Runs the corpus in this interpreter without torch, through the product's own runner, clock and report.

A plain function stands for an operator, and nests in the ranges of the open lines as one of torch does.
Prints one JSON document: python, clock, functions, results, operators, differences.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "server"), str(HERE)]
# An import of torch fails from here on, also where it is installed.
sys.modules["torch"] = None  # type: ignore[assignment]

import plan  # noqa: E402
from expectations import Comparison  # noqa: E402
from faults import FAULTS, faulty  # noqa: E402
from stand_in import RECORD  # noqa: E402

from profile_neuron.core.run_folder import SCHEMA  # noqa: E402
from profile_neuron.errors import CaptureError  # noqa: E402
from profile_neuron.report.files import report  # noqa: E402
from profile_neuron.worker import living, picture, runner, state  # noqa: E402
from profile_neuron.worker.failures import RunStopped  # noqa: E402
from profile_neuron.worker.line_clock import LineClock, default_clock  # noqa: E402
from profile_neuron.worker.loader import Loader  # noqa: E402
from profile_neuron.worker.state import Streams  # noqa: E402


class PlainRange:
    """A range of the line clock in the record."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._start = 0

    def __enter__(self) -> None:
        self._start = RECORD.step()

    def __exit__(self, *error: object) -> None:
        RECORD.note(self._name, self._start)


class PlainWindow:
    """One profiled part; leaves the files that one of torch would leave."""

    all_threads = True

    def __enter__(self) -> PlainWindow:
        RECORD.switch(True)
        return self

    def __exit__(self, *error: object) -> None:
        RECORD.switch(False)

    def operator_table(self) -> bytes:
        names: dict[str, int] = {}
        rows = [
            (names.setdefault(event.name, len(names)), event.thread, event.start, event.end - event.start, order)
            for order, event in enumerate(RECORD.noted)
        ]
        table = {"schema": SCHEMA, "source": "plain functions", "names": list(names), "events": rows}
        return json.dumps(table).encode()

    def export(self, path: str) -> None:
        Path(path).write_text('{"traceEvents": []}', encoding="utf-8")


class PlainHost:
    """In place of worker/torch_host.py."""

    window = PlainWindow

    @staticmethod
    def range_opener() -> type[PlainRange]:
        return PlainRange

    @staticmethod
    def devices() -> tuple[str, ...]:
        return ("none",)

    @staticmethod
    def gradient_mode(grad: bool) -> AbstractContextManager[Any]:
        return nullcontext()

    @staticmethod
    def is_compiled(target: object) -> bool:
        return False

    @staticmethod
    def forget_compiled_code() -> None:
        pass

    @staticmethod
    def has_compiled() -> bool:
        return False

    @staticmethod
    def traced_code() -> tuple[()]:
        return ()

    @staticmethod
    def left_open() -> bool:
        return False

    @staticmethod
    def random_state() -> None:
        return None

    @staticmethod
    def set_random_state(state: None) -> None:
        pass

    @staticmethod
    def is_tensor(item: object) -> bool:
        return False

    @staticmethod
    def is_fixed(item: object) -> bool:
        return False

    @staticmethod
    def is_name_of_compiled(name: str) -> bool:
        return False

    @staticmethod
    def what_is_compiled(target: object) -> None:
        return None

    @staticmethod
    def object_facts(item: object) -> None:
        return None

    class TorchState:
        def apply(self) -> None:
            pass


def run_corpus(clock: type[LineClock]) -> Comparison:
    """Run every profiled function of the corpus and compare its result."""
    comparison = Comparison(plan.expectations())
    loader = Loader(Streams())
    with ExitStack() as stack:
        for module in (living, picture, runner, state):
            stack.enter_context(mock.patch.object(module, "torch_host", PlainHost))
        stack.enter_context(mock.patch.object(runner, "default_clock", lambda: clock))
        for path, spec in plan.functions():
            with tempfile.TemporaryDirectory() as folder:
                try:
                    runner.run(plan.request(path, spec, folder), loader, "none", lambda phase, done, total: None, bool)
                    comparison.add(report(Path(folder)))
                except RunStopped as error:
                    comparison.fail(path, spec, error.failure.reason)
                except CaptureError as error:
                    comparison.fail(path, spec, str(error))
    return comparison


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fault", choices=sorted(FAULTS), help="break the line clock in this way first")
    fault = parser.parse_args().fault
    clock = default_clock()
    comparison = run_corpus(faulty(clock, fault) if fault else clock)
    document = {
        "python": sys.version.split()[0],
        "clock": clock.name,
        "functions": comparison.functions,
        "results": comparison.results,
        "operators": comparison.operators,
        "differences": comparison.finish(),
    }
    print(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
