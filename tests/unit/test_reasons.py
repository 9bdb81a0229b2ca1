"""The sentences for runs that were ended, or that died."""

from __future__ import annotations

from profile_neuron.agent import reasons
from profile_neuron.core.model import Frame

FRAMES = (Frame("/p/main.py", 3, "<module>", "f()"), Frame("/p/model.py", 14, "f", "g()"))
KILLED = "signal 9 (SIGKILL)"


def test_a_limit_names_the_phase_the_line_and_the_option() -> None:
    failure = reasons.timeout("capture", 5.0, FRAMES)
    assert failure.frames == FRAMES
    assert failure.reason == (
        "timeout: the profiled calls took longer than 5 s, at model.py:14 (f); raise the limit with --timeout, in an "
        "editor run.timeout"
    )
    assert reasons.timeout("compile", 1800.0, ()).reason == (
        "compile-failed: timeout: neuronx-cc ran longer than 1800 s; raise the limit with --compile-timeout, in an "
        "editor run.compileTimeout"
    )


def test_a_kill_is_only_said_to_be_for_memory_where_the_kernel_counted_it() -> None:
    assert reasons.crashed("capture", KILLED, FRAMES, True).reason == (
        "out of memory: the system ended the worker during the profiled calls, at model.py:14 (f); use smaller inputs, "
        "or end other programs"
    )
    plain = "crashed: the worker ended with signal 9 (SIGKILL) during the profiled calls"
    assert reasons.crashed("capture", KILLED, (), False).reason == plain
    assert reasons.crashed("capture", KILLED, (), None).reason == (
        f"{plain}; somebody else, or the system for want of memory, may have ended it"
    )
    assert reasons.crashed("capture", "exit code 7", (), True).reason.startswith("crashed: the worker ended with exit")
