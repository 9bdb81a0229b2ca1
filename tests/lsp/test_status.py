"""What a client is told of what is going on and of interpreters, with fake agents behind the real server."""

from __future__ import annotations

import re
import sys
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from tests.fakes.control import write_interpreter
from tests.lsp.conftest import DECORATOR_MODULES, with_fake
from tests.lsp.extension import STATUS, able_to, until_status
from tests.lsp.screen import act, ready, said, settle, until_hints, until_lens
from tests.lsp.test_interpreter import SENTENCES, too_old
from tests.lsp.test_server import NEW, SOURCE, about

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fakes.control import FakeAgents
    from tests.lsp.client import Client, Document
    from tests.lsp.conftest import Serve

BARE = {"interpreter": "", "decorator": {"modules": DECORATOR_MODULES}}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "ws"


@pytest.fixture
def client(serve: Serve, root: Path) -> Client:
    return ready(serve([root], capabilities=able_to("status")))


@pytest.fixture
def document(client: Client, root: Path) -> Document:
    return client.open(root / "model.py", SOURCE)


def until_text(client: Client, text: str, after: int = 0) -> dict[str, Any]:
    return until_status(client, lambda params: params["text"] == text, after)


def until_interpreters(client: Client, expected: list[tuple[str, str, str]], after: int = 0) -> None:
    """Wait for folder, path and source of each, none of which has a problem."""
    until_status(
        client,
        lambda params: [tuple(item.values()) for item in params["interpreters"]] == [(*one, "") for one in expected],
        after,
    )


class TestRuns:
    def test_it_is_told_at_once_and_says_nothing_before_the_first_run(
        self, client: Client, root: Path, fake: FakeAgents
    ) -> None:
        until_interpreters(client, [(root.as_uri(), str(fake.interpreter), "the setting profileNeuron.interpreter")])
        first = client.all(STATUS)[0].params
        assert (first["text"], first["isBusy"], first["detail"]) == ("Neuron", False, "")

    def test_it_follows_a_run_to_its_time(self, client: Client, document: Document, fake: FakeAgents) -> None:
        fake.hold()
        document.save()
        on = until_text(client, "Neuron profiling 1/5")
        assert (on["isBusy"], on["detail"]) == (True, "f is being profiled, call 1 of 5.")
        fake.finish()
        done = until_text(client, "cpu ✓ 6.00 ms")
        assert done["isBusy"] is False
        assert re.fullmatch(r"f: cpu 6\.00 ms at \d\d:\d\d:\d\d, on cpu \(constructed\)\.", done["detail"])

    def test_a_failure_is_told_with_its_reason_and_the_next_success_replaces_it(
        self, client: Client, document: Document
    ) -> None:
        document.replace("z = y * 2", "z = y * 2  # fake: fail ValueError: no")
        document.save()
        failed = until_text(client, "Neuron ✗ failed")
        assert re.fullmatch(r"f failed at \d\d:\d\d:\d\d: ValueError: no\.", failed["detail"])
        document.replace("# fake: fail ValueError: no", "+ 1")
        document.save()
        until_text(client, "cpu ✓ 6.00 ms")

    def test_a_run_that_is_cancelled_leaves_what_was_there(
        self, client: Client, document: Document, fake: FakeAgents
    ) -> None:
        document.save()
        until_text(client, "cpu ✓ 6.00 ms")
        fake.hold()
        document.replace("y * 2", "y * 3")
        document.save()
        until_text(client, "Neuron profiling 1/5")
        mark = client.mark()
        act(client, "cancel", about(document))
        until_text(client, "cpu ✓ 6.00 ms", mark)

    def test_what_holds_the_device_is_told(self, client: Client, document: Document, fake: FakeAgents) -> None:
        fake.hold()
        document.replace("z = y * 2", "z = y * 2  # fake: busy 4123 2 python")
        document.save()
        assert until_text(client, "Neuron busy")["detail"] == "f waits for a NeuronCore, held by pid 4123, 2 cores."
        act(client, "cancelAll")
        until_text(client, "Neuron")

    def test_nothing_is_told_twice(self, client: Client, document: Document, root: Path) -> None:
        document.save()
        until_text(client, "cpu ✓ 6.00 ms")
        settle(client, root)
        told = [message.params for message in client.all(STATUS)]
        assert all(one != other for one, other in pairwise(told))

    def test_hidden_results_are_told_of(self, client: Client) -> None:
        act(client, "toggleInline")
        until_status(client, lambda params: "hidden" in params["detail"])

    def test_what_is_switched_off_says_why(self, client: Client, document: Document, fake: FakeAgents) -> None:
        client.configure(with_fake(fake, {"enable": False}))
        off = until_text(client, "Neuron off")
        assert off["detail"] == "Profiling is switched off by the setting profileNeuron.enable."
        client.notify("profileNeuron/trust", {"trusted": False})
        until_status(client, lambda params: params["detail"].startswith("The workspace is not trusted"))

    def test_one_folder_that_is_switched_off_is_not_all(
        self, serve: Serve, tmp_path: Path, root: Path, fake: FakeAgents
    ) -> None:
        other = tmp_path / "other"
        client = ready(
            serve([root, other], capabilities=able_to("status"), settings={root: {"enable": False}, other: {}})
        )
        client.open(other / "model.py", SOURCE).save()
        until_text(client, "cpu ✓ 6.00 ms")
        assert all(message.params["text"] != "Neuron off" for message in client.all(STATUS))


class TestInterpreters:
    """A fake agent behind each of them tells which it is."""

    @pytest.fixture
    def roots(self, tmp_path: Path) -> list[Path]:
        roots = [tmp_path / "alpha", tmp_path / "beta"]
        for root in roots:
            root.mkdir()
            self.write(root / "chosen", root.name)
        return roots

    def write(self, folder: Path, which: str) -> Path:
        folder.mkdir(parents=True)
        script = write_interpreter(folder, "python")
        script.write_text(script.read_text().replace("exec", f"PN_WHICH={which} exec"))
        return script

    def ran(self, fake: FakeAgents) -> list[str]:
        """Which interpreter each run was in."""
        which = {event["pid"]: event["env"]["PN_WHICH"] for event in fake.events if event["event"] == "hello"}
        return [which[run["pid"]] for run in fake.runs]

    def choose(self, client: Client, *folders: Path) -> None:
        active = [{"uri": folder.as_uri(), "path": str(folder / "chosen" / "python")} for folder in folders]
        client.notify("profileNeuron/interpreters", {"active": active})

    def test_two_folders_have_the_two_that_a_person_chose_for_them(
        self, serve: Serve, roots: list[Path], fake: FakeAgents
    ) -> None:
        client = ready(serve(roots, settings=BARE, capabilities=able_to("status")))
        self.choose(client, *roots)
        until_interpreters(
            client, [(root.as_uri(), str(root / "chosen" / "python"), "the Python extension") for root in roots]
        )
        for root in roots:
            client.open(root / "model.py", SOURCE).save()
        for root in roots:
            until_hints(client, root / "model.py", NEW)
        assert sorted(self.ran(fake)) == ["alpha", "beta"]
        for root in roots:
            path = root / "chosen" / "python"
            assert client.stderr.count(f"code in {root} is run by {path}, the Python extension") == 1

    def test_another_choice_counts_for_the_next_run_and_ends_the_agent_of_the_one_before(
        self, serve: Serve, roots: list[Path], fake: FakeAgents
    ) -> None:
        client = ready(serve(roots[:1], settings=BARE))
        self.choose(client, roots[0])
        document = client.open(roots[0] / "model.py", SOURCE)
        document.save()
        until_hints(client, document.uri, NEW)
        other = self.write(roots[0] / "other", "gamma")
        client.notify("profileNeuron/interpreters", {"active": [{"uri": roots[0].as_uri(), "path": str(other)}]})
        act(client, "profileFunction", about(document))
        fake.wait_for_event("gone")
        until_lens(client, document.uri, "cpu 6.00 ms")
        assert self.ran(fake) == ["alpha", "gamma"]

    def test_a_setting_counts_more_than_a_choice_and_a_choice_more_than_an_environment(
        self, serve: Serve, roots: list[Path], fake: FakeAgents
    ) -> None:
        root = roots[0]
        self.write(root / ".venv" / "bin", "venv")
        client = ready(serve([root], settings=BARE, capabilities=able_to("status")))
        in_venv = (root.as_uri(), str(root / ".venv" / "bin" / "python"), "the folder's .venv")
        until_interpreters(client, [in_venv])
        self.choose(client, root)
        until_interpreters(client, [(root.as_uri(), str(root / "chosen" / "python"), "the Python extension")])
        client.configure(with_fake(fake, {}))
        until_interpreters(client, [(root.as_uri(), str(fake.interpreter), "the setting profileNeuron.interpreter")])
        client.configure(with_fake(fake, BARE))
        mark = client.mark()
        client.notify("profileNeuron/interpreters", {"active": []})
        until_interpreters(client, [in_venv], mark)

    def test_the_last_resort_is_what_the_client_names_else_the_own_one(self, serve: Serve, roots: list[Path]) -> None:
        fallback = str(roots[1] / "chosen" / "python")
        for options, expected in (
            ({"trusted": True, "fallbackInterpreter": fallback}, (fallback, "python3 on the PATH")),
            ({"trusted": True, "fallbackInterpreter": ""}, (sys.executable, "the Python that this server runs in")),
            ({"trusted": True, "fallbackInterpreter": 5}, (sys.executable, "the Python that this server runs in")),
        ):
            client = ready(
                serve(roots[:1], settings=BARE, capabilities=able_to("status"), initialization_options=options)
            )
            until_interpreters(client, [(roots[0].as_uri(), *expected)])

    def test_one_that_is_not_there_is_a_problem_before_anything_is_run(self, serve: Serve, root: Path) -> None:
        missing = str(root / "no" / "python")
        client = ready(serve([root], settings={**BARE, "interpreter": "no/python"}, capabilities=able_to("status")))
        told = until_status(client, lambda params: params["interpreters"][0]["problem"] != "")
        assert told["interpreters"][0]["problem"] == (
            f"{missing} is not there; choose a Python with the setting profileNeuron.interpreter"
        )
        assert said(client) == []

    def test_what_a_run_found_wrong_is_a_problem_from_then_on(self, serve: Serve, root: Path, tmp_path: Path) -> None:
        python = too_old(tmp_path)
        client = ready(serve([root], settings={"interpreter": str(python)}, capabilities=able_to("status")))
        document = client.open(root / "model.py", SOURCE)
        document.save()
        told = until_status(client, lambda params: params["interpreters"][0]["problem"] != "")
        sentence = SENTENCES[too_old].format(python)
        assert (told["interpreters"][0]["problem"], said(client)) == (sentence, [sentence])
        python.unlink()
        python.symlink_to(sys.executable)
        mark = client.mark()
        client.open(root / "other.py", SOURCE)
        act(client, "toggleInline")
        until_status(client, lambda params: params["interpreters"][0]["problem"] == "", mark)

    def test_a_file_outside_of_all_folders_has_one_as_well(self, serve: Serve, roots: list[Path]) -> None:
        client = ready(serve([], settings=BARE, capabilities=able_to("status")))
        self.write(roots[0] / ".venv" / "bin", "venv")
        (roots[0] / "pyproject.toml").write_text("")
        client.open(roots[0] / "model.py", SOURCE)
        until_interpreters(client, [("", str(roots[0] / ".venv" / "bin" / "python"), "the folder's .venv")])
        chosen = str(roots[1] / "chosen" / "python")
        client.notify("profileNeuron/interpreters", {"active": [{"uri": "", "path": chosen}]})
        until_interpreters(client, [("", chosen, "the Python extension")])

    @pytest.mark.parametrize(
        "params",
        [{}, [], {"active": {}}, {"active": [1, None, {"uri": 1, "path": "x"}, {"uri": "x"}]}, {"active": "x"}],
    )
    def test_nonsense_about_interpreters_changes_nothing(
        self, params: object, client: Client, document: Document
    ) -> None:
        client.notify("profileNeuron/interpreters", params)
        document.save()
        until_hints(client, document.uri, NEW)

    def test_a_choice_for_another_folder_says_nothing_about_this_one(
        self, client: Client, document: Document, tmp_path: Path
    ) -> None:
        document.save()
        until_hints(client, document.uri, NEW)
        client.notify(
            "profileNeuron/interpreters", {"active": [{"uri": (tmp_path / "x").as_uri(), "path": "/no/python"}]}
        )
        document.replace("y * 2", "y * 3")
        document.save()
        until_hints(client, document.uri, NEW)
