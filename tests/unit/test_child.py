"""Programs that the agent runs for what they print, as processes, and what is left of them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import sys
from typing import TYPE_CHECKING

import pytest

from profile_neuron.agent.child import Child, Finished, output_of, run_program
from profile_neuron.errors import HostError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path
    from typing import Any

# For what has to come to its end on a busy machine.
LONG_S = 60.0
PROGRAMS: dict[str, Callable[..., Coroutine[Any, Any, object]]] = {"output_of": output_of, "run_program": run_program}


def ended(pid: int) -> bool:
    """Whether a process comes to its end; told by the kernel and not by asking again and again."""
    with contextlib.suppress(ProcessLookupError):
        descriptor = os.pidfd_open(pid)
        try:
            return bool(select.select([descriptor], [], [], LONG_S)[0])
        finally:
            os.close(descriptor)
    return True


def run(script: str, limit_s: float = LONG_S, limit_bytes: int = 1000) -> Finished:
    return asyncio.run(run_program(["sh", "-c", script], limit_s, limit_bytes))


def test_the_end_of_what_a_program_prints_is_kept_and_its_exit_code() -> None:
    assert run("echo out; echo error >&2; exit 3") == Finished(3, b"out\nerror\n")
    assert run("yes | head -c 1000000; printf end", limit_bytes=5) == Finished(0, b"y\nend"[-5:])


def test_a_program_is_over_when_it_ends_and_not_when_all_let_go_of_its_pipe() -> None:
    finished = run("sleep 600 & echo $!")
    assert finished.code == 0
    assert ended(int(finished.printed))


def test_what_left_the_group_with_the_pipe_is_not_waited_for(tmp_path: Path) -> None:
    left = tmp_path / "left"
    os.mkfifo(left)
    leave = (
        f"import os; os.setsid(); print(os.getpid(), file=open('{left}', 'w')); os.execvp('sleep', ['sleep', '600'])"
    )
    finished = run(f'{sys.executable} -c "{leave}" & read pid < {left}; echo $pid')
    assert finished.code == 0
    os.kill(int(finished.printed), signal.SIGKILL)


def test_a_program_that_cannot_be_started_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(HostError, match=r"^/.*/missing cannot be started: No such file or directory$"):
        asyncio.run(run_program([str(tmp_path / "missing")], LONG_S, 1000))
    assert asyncio.run(output_of([str(tmp_path / "missing")], LONG_S, 1000)) is None


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_that_takes_too_long_is_ended(name: str) -> None:
    found = asyncio.run(PROGRAMS[name](["sleep", "600"], 0.2, 1000))
    assert found == (Finished(None, b"") if name == "run_program" else None)
    assert not Child.running


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("when", ["at once", "later"])
def test_a_program_that_is_cancelled_is_ended(name: str, when: str, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    os.mkfifo(begun)
    # It waits for a reader, and so has begun when the reader has read all.
    command = ["sh", "-c", f"sleep 600 & echo $$ $! > {begun}; wait"]

    async def cancel() -> list[int]:
        program = asyncio.create_task(PROGRAMS[name](command, LONG_S, 1000))
        if when == "later":
            pids = [int(pid) for pid in (await asyncio.to_thread(begun.read_text)).split()]
        else:
            # As far as its first wait.
            await asyncio.sleep(0)
            pids = list(Child.running)
        program.cancel()
        with pytest.raises(asyncio.CancelledError):
            await program
        return pids

    pids = asyncio.run(cancel())
    assert pids
    assert all(ended(pid) for pid in pids)
    assert not Child.running
