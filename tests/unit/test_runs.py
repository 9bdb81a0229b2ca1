"""A run that is cancelled before its agent is up, which may be before anything of it has begun."""

from __future__ import annotations

import asyncio

from profile_neuron.core.model import Failure
from profile_neuron.core.outline import outline
from profile_neuron.daemon.interpreters import Place
from profile_neuron.daemon.runs import Runs, request_for
from profile_neuron.wire.messages import Limits
from tests.unit.constructed import PATH

TEXT = "from profile_neuron import profile_neuron\n@profile_neuron\ndef f(): pass\n"
# Were it started, the run would fail and not be cancelled.
NOWHERE = Place("/p", "/nowhere/python")


def request(run_id: str) -> object:
    spec = outline(TEXT).functions[0].spec
    return request_for(run_id, PATH, "00", spec, ("profile_neuron",), ("/p",), "/p", Limits(1.0, 1.0))


def ended(*cancelled: str, run_id: str) -> tuple[str, str]:
    async def play() -> tuple[str, str]:
        runs = Runs()
        for other in cancelled:
            await runs.cancel(other)
        end = await runs.run(request(run_id), NOWHERE, lambda *_: None, lambda _: None)  # type: ignore[arg-type]
        assert isinstance(end, tuple)
        state, failure = end
        assert isinstance(failure, Failure)
        return state, failure.reason

    return asyncio.run(play())


def test_a_run_that_was_cancelled_before_it_began_does_not_begin() -> None:
    assert ended("1", run_id="1") == ("cancelled", "cancelled")


def test_the_cancel_of_another_run_is_none_of_this_one() -> None:
    state, reason = ended("0", run_id="1")
    assert (state, reason.startswith("/nowhere/python cannot be started")) == ("failed", True)
