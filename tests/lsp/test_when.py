"""When functions are run by the real agent and worker, and when not: saves, helpers, newer texts, lost agents."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from tests.lsp.screen import hints, lenses, settle, until
from tests.lsp.test_live import (
    COLD_S,
    UNKNOWN,
    client,
    command_lines,
    dedented,
    folder,
    opened,
    processes,
    root,
    runs,
    start,
    until_fresh,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.lsp.client import Client, Document

__all__ = ["client", "folder", "opened", "root", "start"]

pytestmark = pytest.mark.torch

HELPER = """
    import torch

    SCALE = 2

    def double(x):
        return x * SCALE

    def halve(x):
        return x / 2

    class Layer:
        def __init__(self):
            self.bias = 1

        def __call__(self, x):
            return x + self.bias
"""
MODEL = """
    import torch
    from pn_api import profile_neuron
    from {helper} import Layer, double, halve

    LAYER = Layer()

    @profile_neuron
    def f():
        return double(torch.ones(64))

    @profile_neuron
    def g():
        return halve(torch.ones(64))

    @profile_neuron
    def h():
        return LAYER(torch.ones(64))

    @profile_neuron
    def alone():
        return torch.ones(64) + 1
"""


def run_names(client: Client, after: int) -> list[str]:
    """Names of the functions that were run since there were so many runs."""
    return [text.partition(":")[0] for text in runs(client)[after:]]


@pytest.fixture
def module(opened: Callable[[str, str], Document], client: Client, request: pytest.FixtureRequest) -> Document:
    """A helper of a file of which all functions have been run."""
    name = f"helper_{abs(hash(request.node.name))}"
    helper = opened(f"{name}.py", HELPER)
    model = opened("model.py", MODEL.format(helper=name))
    model.save()
    until_fresh(client, model.uri, 4)
    return helper


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param("x * SCALE", "x + SCALE", ["f"], id="a function"),
        pytest.param("x / 2", "x / 4", ["g"], id="another one"),
        pytest.param("return x + self.bias", "return x - self.bias", ["h"], id="a method"),
        pytest.param("self.bias = 1", "self.bias = 2", ["f", "g", "h", "alone"], id="what the import calls"),
        pytest.param("SCALE = 2", "SCALE = 3", ["f", "g", "h", "alone"], id="a constant"),
        pytest.param("x / 2", "x / 2  # half", [], id="a comment"),
        pytest.param("class Layer:", "def unused(x):\n    return x\n\n\nclass Layer:", [], id="one more function"),
    ],
)
def test_saving_a_helper_runs_exactly_what_executed_code_that_changed(
    module: Document, client: Client, folder: Path, before: str, after: str, expected: list[str]
) -> None:
    ran = len(runs(client))
    module.replace(before, after)
    module.save()
    until(client, lambda: run_names(client, ran), lambda names: len(names) >= len(expected), COLD_S)
    settle(client, folder)
    until_fresh(client, folder / "model.py", 4)
    assert run_names(client, ran) == expected


def test_going_back_to_a_helper_that_was_measured_runs_nothing(module: Document, client: Client, folder: Path) -> None:
    ran = len(runs(client))
    module.replace("x / 2", "x / 4")
    module.save()
    until(client, lambda: run_names(client, ran), lambda names: names == ["g"], COLD_S)
    until_fresh(client, folder / "model.py", 4)
    module.replace("x / 4", "x / 2")
    module.save()
    settle(client, folder)
    until_fresh(client, folder / "model.py", 4)
    assert run_names(client, ran) == ["g"]


def test_mending_a_helper_runs_what_failed_because_of_it(
    opened: Callable[[str, str], Document], client: Client, folder: Path
) -> None:
    helper = opened("broken_helper.py", "def half(x):\n    return x.nothing\n")
    model = opened(
        "model.py",
        """
        import torch
        from pn_api import profile_neuron
        from broken_helper import half

        @profile_neuron
        def f():
            return half(torch.ones(64))
        """,
    )
    model.save()
    until(client, lambda: lenses(client, model.uri), lambda seen: "Retry" in seen, COLD_S)
    ran = len(runs(client))
    model.save()
    settle(client, folder)
    assert run_names(client, ran) == [], "it would fail again"
    helper.replace("x.nothing", "x / 2")
    helper.save()
    until_fresh(client, model.uri)


def test_editing_one_function_runs_that_one_alone(
    opened: Callable[[str, str], Document], client: Client, folder: Path
) -> None:
    model = opened(
        "model.py",
        """
        import torch
        from pn_api import profile_neuron

        def shared(x):
            return x + 1

        @profile_neuron
        def f():
            return shared(torch.ones(64))

        @profile_neuron
        def g():
            return torch.ones(64) * 2
        """,
    )
    model.save()
    until_fresh(client, model.uri, 2)
    for before, after, expected in (
        ("ones(64) * 2", "ones(64) * 3", ["g"]),
        ("return x + 1", "return x + 2", ["f"]),
        ("return x + 2", "return (x\n            + 2)  # why", []),
    ):
        ran = len(runs(client))
        model.replace(before, after)
        model.save()
        until(client, lambda ran=ran: run_names(client, ran), lambda names, e=expected: len(names) >= len(e), COLD_S)
        settle(client, folder)
        until_fresh(client, model.uri, 2)
        assert run_names(client, ran) == expected


SLOW_IMPORT = """
    import time
    import torch
    from pn_api import profile_neuron

    time.sleep(600)

    @profile_neuron
    def f():
        return torch.ones(64) + 1
"""


def test_a_newer_text_ends_an_import_that_takes_long(opened: Callable[[str, str], Document], client: Client) -> None:
    model = opened("model.py", SLOW_IMPORT)
    model.save()
    until(client, lambda: lenses(client, model.uri), lambda seen: seen[0] == "Importing…", COLD_S)
    ran = len(runs(client))
    model.replace("time.sleep(600)\n", "")
    model.save()
    until_fresh(client, model.uri)
    assert next(text.partition(" (")[0] for text in runs(client)[ran:]) == "f: ended, since there is a newer text"
    assert list(hints(client, model.uri)) == [
        line for line, text in enumerate(model.text.split("\n"), 1) if "ones" in text
    ]


@pytest.mark.parametrize("which", [0, 1], ids=["keeper", "agent"])
def test_an_agent_that_is_killed_during_a_run_is_replaced_and_the_run_done(
    which: int, opened: Callable[[str, str], Document], client: Client, root: Path
) -> None:
    model = opened(
        "model.py",
        """
        import time
        import torch
        from pathlib import Path
        from pn_api import profile_neuron

        @profile_neuron(warmup=0, repeats=1)
        def f():
            began = Path(__file__).with_name("began")
            if not began.exists():
                began.touch()
                time.sleep(600)
            return torch.ones(64) + 1
        """,
    )
    model.save()
    began = model.path.with_name("began")
    deadline = time.monotonic() + COLD_S
    while not began.exists():
        assert time.monotonic() < deadline
        client.barrier()
    agents = sorted(pid for pid in processes(root) if "profile_neuron.agent" in "".join(command_lines([pid])))
    os.kill(agents[which], signal.SIGKILL)
    until_fresh(client, model.uri)
    assert UNKNOWN not in lenses(client, model.uri)


def test_by_setting_an_edit_ends_the_run_of_what_it_edits(start: Callable[..., Client], tmp_path: Path) -> None:
    from tests.lsp.test_live import SETTINGS

    client = start([tmp_path / "ws"], settings={**SETTINGS, "run": {"onEditDuringRun": "cancel"}})
    path = tmp_path / "ws" / "model.py"
    path.write_text(
        dedented(
            """
            import time
            import torch
            from pn_api import profile_neuron

            @profile_neuron(warmup=0, repeats=1)
            def f():
                time.sleep(600)
                return torch.ones(64) + 1

            def other():
                pass
            """
        )
    )
    model = client.open(path)
    model.save()
    until(client, lambda: lenses(client, path), lambda seen: seen[0].startswith("Profiling"), COLD_S)
    model.replace("    pass", "    return 1")
    settle(client, path.parent)
    assert lenses(client, path)[0].startswith("Profiling"), "what it does not depend on may be edited"
    model.replace("    time.sleep(600)\n", "")
    until(client, lambda: lenses(client, path), lambda seen: seen == [UNKNOWN], COLD_S)
    assert runs(client)[-1].startswith("f: ended, since there is a newer text")
    model.save()
    until_fresh(client, model.uri)
