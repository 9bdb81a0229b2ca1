"""Errors of user code that tell of a compiler's end, and those that do not."""

from __future__ import annotations

from subprocess import CalledProcessError

import pytest

from profile_neuron.core.model import Failure
from profile_neuron.worker.compiler import compiler_failure
from profile_neuron.worker.failures import failure_of

KILLED = "neuronx-cc was killed by signal 9, as the system does when memory runs out"
COMMAND = ["/opt/bin/neuronx-cc", "compile", "x.hlo"]
ERRORS: dict[str, tuple[BaseException, str]] = {
    "of subprocess": (CalledProcessError(70, COMMAND), "neuronx-cc ended with exit status 70"),
    "with its output": (
        CalledProcessError(70, COMMAND, stderr=b"one\nERROR: two\n\n"),
        "neuronx-cc ended with exit status 70: ERROR: two",
    ),
    "with its log": (
        CalledProcessError(1, COMMAND, output="Diagnostic logs stored in /tmp/w/log-neuron-cc.txt\nlast"),
        "neuronx-cc ended with exit status 1: last; its log is /tmp/w/log-neuron-cc.txt",
    ),
    "by an interpreter": (
        CalledProcessError(2, ["python3", "/opt/bin/neuronx-cc", "compile"]),
        "neuronx-cc ended with exit status 2",
    ),
    "a command line": (CalledProcessError(2, "neuronx-cc compile 'a b'"), "neuronx-cc ended with exit status 2"),
    "killed": (CalledProcessError(-9, COMMAND), KILLED),
    "killed, by a shell": (CalledProcessError(137, COMMAND), KILLED),
    "another signal": (CalledProcessError(-6, COMMAND), "neuronx-cc was ended by signal 6"),
    "of torch_neuronx": (
        RuntimeError("neuronx-cc failed with 70"),
        "neuronx-cc ended with exit status 70: neuronx-cc failed with 70",
    ),
    "text of a signal": (
        RuntimeError("Command 'neuronx-cc compile' died with <Signals.SIGKILL: 9>."),
        f"{KILLED}: Command 'neuronx-cc compile' died with <Signals.SIGKILL: 9>.",
    ),
    "text of subprocess": (
        RuntimeError("Command '['neuronx-cc', 'compile']' returned non-zero exit status 70."),
        "neuronx-cc ended with exit status 70: Command '['neuronx-cc', 'compile']' returned non-zero exit status 70.",
    ),
}


@pytest.mark.parametrize("kind", ERRORS)
def test_the_end_of_a_compiler_is_told(kind: str) -> None:
    error, sentence = ERRORS[kind]
    assert compiler_failure(error) == f"compile-failed: {sentence}"


def test_the_end_of_a_compiler_is_found_below_other_errors() -> None:
    outer, inner = ValueError("the model cannot be traced"), CalledProcessError(70, COMMAND)
    outer.__cause__ = inner
    # A chain may be a circle.
    inner.__context__ = outer
    assert failure_of(outer, ()) == Failure("compile-failed: neuronx-cc ended with exit status 70")


OTHERS: dict[str, BaseException] = {
    "another program": CalledProcessError(1, ["gcc", "neuronx-cc.c", "neuronx-cc"]),
    "not started": FileNotFoundError(2, "No such file or directory", "neuronx-cc"),
    "no status": RuntimeError("neuronx-cc is not installed"),
    "no compiler": RuntimeError("the command failed with 70"),
    "a status of something else": RuntimeError("neuronx-cc: warning\\nthe test failed with 3"),
    "text of another program": RuntimeError("Command 'gcc neuronx-cc.c' returned non-zero exit status 1."),
    "no failure": RuntimeError("neuronx-cc exited with status 0"),
    "an odd command": CalledProcessError(1, 3),  # type: ignore[arg-type]
    "an open quote": CalledProcessError(1, "neuronx-cc 'x"),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_what_does_not_tell_of_a_compilers_end_is_no_guess(kind: str) -> None:
    assert compiler_failure(OTHERS[kind]) == ""
