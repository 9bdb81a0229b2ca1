"""What a status item says of runs that are on, wait and ended."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from profile_neuron.core.hover import Now
from profile_neuron.core.model import NO_OPERATORS, Activity, Holder, Result
from profile_neuron.core.status import EndedRun, Situation, status
from tests.unit.constructed import view

NOW = Now(1_700_000_100.0)
AT = "at 22:14:40"
FINISHED_S = 1_700_000_080.0
OFF = "Profiling is switched off by the setting profileNeuron.enable."


def ended(ns: int, device: str = "cpu", **costs: Any) -> EndedRun:
    made: Result | None = view(ns, [], device=device, costs=costs).result
    assert made is not None
    return EndedRun("f", FINISHED_S, replace(made, device_name="trn1" if device == "neuron" else "cpu (x)"))


def on(phase: str, done: int = 0, total: int = 0, **more: Any) -> Situation:
    return Situation(running="f", activity=Activity("r", None, phase, done, total, **more))


@pytest.mark.parametrize(
    ("situation", "text", "detail"),
    [
        pytest.param(Situation(), "Neuron", [], id="nothing was run"),
        pytest.param(
            Situation(last=ended(2_355_000, "neuron")), "Neuron ✓ 2.36 ms", [f"f: 2.36 ms {AT}, on trn1."], id="device"
        ),
        pytest.param(Situation(last=ended(36_200)), "cpu ✓ 36.2 µs", [f"f: cpu 36.2 µs {AT}, on cpu (x)."], id="cpu"),
        pytest.param(
            Situation(last=ended(0, warnings=(NO_OPERATORS,))),
            "cpu ✓ no operators ran",
            [f"f: no operators ran {AT}, on cpu (x)."],
            id="no operators",
        ),
        pytest.param(
            Situation(last=ended(1, "neuron", measure="host")),
            "Neuron ✓ device time unknown",
            [f"f: device time unknown {AT}, on trn1."],
            id="device time unknown",
        ),
        pytest.param(
            Situation(last=EndedRun("f", FINISHED_S, None, "failed", "ValueError: no.\nmore")),
            "Neuron ✗ failed",
            [f"f failed {AT}: ValueError: no."],
            id="failed",
        ),
        pytest.param(
            Situation(last=EndedRun("f", FINISHED_S, None, "noInputs", "f needs inputs")),
            "Neuron ✗ no inputs",
            [f"f had no inputs {AT}: f needs inputs."],
            id="no inputs",
        ),
        pytest.param(
            Situation(last=EndedRun("f", FINISHED_S, None, "busy")),
            "Neuron ✗ device busy",
            [f"f found no free NeuronCore {AT}."],
            id="found the device busy",
        ),
        pytest.param(Situation(waiting=("f",)), "Neuron queued", ["f waits to be run."], id="one waits"),
        pytest.param(
            Situation(waiting=tuple("abcdefg")),
            "Neuron queued",
            ["a, b, c, d, e and 2 more wait to be run."],
            id="many wait",
        ),
        pytest.param(on(""), "Neuron starting", ["A worker starts for f."], id="starting"),
        pytest.param(on("import"), "Neuron importing", ["The file of f is being imported."], id="importing"),
        pytest.param(on("inputs"), "Neuron building inputs", ["The inputs of f are being built."], id="inputs"),
        pytest.param(
            on("compile", began_s=NOW.s - 12.4),
            "Neuron compiling 12 s",
            ["f has been compiling for 12 s."],
            id="compiling",
        ),
        pytest.param(
            on("compile", began_s=NOW.s + 5, last_s=18.0),
            "Neuron compiling 0 s",
            ["f has been compiling for 0 s, last time 18 s."],
            id="compiling, by a clock that was set back",
        ),
        pytest.param(on("warm-up", 0, 3), "Neuron profiling 1/3", ["f is warming up, call 1 of 3."], id="warming up"),
        pytest.param(
            on("capture", 2, 5), "Neuron profiling 3/5", ["f is being profiled, call 3 of 5."], id="profiling"
        ),
        pytest.param(
            on("capture", 5, 5), "Neuron profiling 5/5", ["f is being profiled, call 5 of 5."], id="the last call"
        ),
        pytest.param(on("read"), "Neuron profiling", ["f is being profiled."], id="reading"),
        pytest.param(
            on("busy", holders=(Holder(4123, "python", (0, 1)),)),
            "Neuron busy",
            ["f waits for a NeuronCore, held by pid 4123, 2 cores."],
            id="busy",
        ),
        pytest.param(on("busy"), "Neuron busy", ["f waits for a NeuronCore."], id="busy, nobody knows by whom"),
        pytest.param(
            replace(on("capture", 2, 5), waiting=("g",), last=ended(36_200)),
            "Neuron profiling 3/5",
            ["f is being profiled, call 3 of 5.", "g waits to be run.", f"f: cpu 36.2 µs {AT}, on cpu (x)."],
            id="all at once",
        ),
        pytest.param(
            Situation(off_because=OFF, last=ended(36_200)),
            "Neuron off",
            [OFF, f"f: cpu 36.2 µs {AT}, on cpu (x)."],
            id="off",
        ),
        pytest.param(
            Situation(is_hidden=True),
            "Neuron",
            ["Results are hidden in the text; toggle inline results to see them."],
            id="hidden",
        ),
    ],
)
def test_a_status_item_says_in_few_words_and_in_sentences(situation: Situation, text: str, detail: list[str]) -> None:
    found = status(situation, NOW)
    assert (found.text, list(found.detail)) == (text, detail)
    assert all(sentence.endswith(".") and "\n" not in sentence for sentence in found.detail)


def test_it_is_busy_while_something_runs_or_waits() -> None:
    assert status(on("read"), NOW).is_busy
    assert status(Situation(waiting=("f",)), NOW).is_busy
    assert not status(Situation(last=ended(36_200)), NOW).is_busy
    assert not status(Situation(off_because=OFF), NOW).is_busy
