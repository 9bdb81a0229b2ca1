"""Limits of the parts of a run, and pauses between starts, without a clock."""

from __future__ import annotations

import pytest

from profile_neuron.agent.pauses import Pauses
from profile_neuron.agent.phases import PhaseClock
from profile_neuron.wire.messages import Limits

LIMITS = Limits(import_s=10.0, run_s=5.0, compile_s=100.0)


def test_inputs_and_calls_share_a_limit_and_the_import_has_its_own() -> None:
    clock = PhaseClock(LIMITS, 0.0)
    clock.enter("import", 50.0)
    assert (clock.limit_s, clock.left_s(57.0)) == (10.0, 3.0)
    clock.enter("inputs", 58.0)
    assert (clock.limit_s, clock.left_s(60.0)) == (5.0, 3.0)
    clock.enter("warm-up", 60.0)
    clock.enter("capture", 61.0)
    assert (clock.phase, clock.left_s(62.0)) == ("capture", 1.0)
    clock.enter("read", 62.0)
    assert clock.left_s(62.0) == 600.0


def test_while_a_compiler_runs_only_its_own_limit_counts() -> None:
    clock = PhaseClock(LIMITS, 0.0)
    clock.enter("warm-up", 0.0)
    clock.enter("inputs", 0.0)
    clock.set_compiling(True, 4.0)
    assert (clock.phase, clock.limit_s, clock.left_s(64.0)) == ("compile", 100.0, 40.0)
    clock.set_compiling(True, 64.0)
    # The worker may go on meanwhile.
    clock.enter("capture", 70.0)
    clock.set_compiling(False, 80.0)
    assert (clock.phase, clock.left_s(80.5)) == ("capture", 0.5)
    clock.set_compiling(True, 80.5)
    assert clock.left_s(80.5) == 24.0, "compilations of one run add up"


def test_pauses_grow_to_half_a_minute_until_a_start_succeeds() -> None:
    pauses = Pauses()
    assert pauses.left_s(0.0) == 0.0
    seen = []
    for now in range(0, 800, 100):
        pauses.failed(float(now))
        seen.append(pauses.left_s(float(now)))
    assert seen == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    assert pauses.left_s(710.0) == 20.0
    assert pauses.left_s(1000.0) == 0.0, "time that has gone by anyway counts"
    pauses.succeeded()
    assert pauses.left_s(700.0) == 0.0
    pauses.failed(700.0)
    assert pauses.left_s(700.0) == pytest.approx(0.5)
