"""From a save on the stand-in device to a page of the stand-in for Neuron Explorer; both are constructed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import pytest

from tests.conftest import ROOT
from tests.lsp.client import CAPABILITIES, LspError, path_of
from tests.lsp.extension import able_to
from tests.lsp.screen import act, lenses, said, settle, until
from tests.lsp.test_live import COLD_S, SETTINGS, start
from tests.standin import FOLDER, environment
from tests.unit.test_viewer import free_ports

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.lsp.client import Client, Document

__all__ = ["start"]

pytestmark = pytest.mark.torch

OPEN = "Open in Neuron Explorer"
# Of a viewer that has to come up on a busy machine.
SHOWN_S = 60.0


# Its inputs wait for somebody to write into a pipe.
HOST = """\
import torch
from profile_neuron import profile_neuron

def host_inputs():
    open("{go}").read()
    return (torch.ones(64),)

@profile_neuron
def host(x):
    return x + 1
"""


class Setting:
    """Where the stand-in for Neuron Explorer is of one server."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = free_ports()
        self.mode = folder / "mode"
        self.mode.write_text("")
        self.cache = folder / "cache"

    @property
    def variables(self) -> dict[str, str]:
        return environment(
            STANDIN_EXPLORER=f"@{self.mode}",
            STANDIN_EXPLORER_PORTS="{},{}".format(*self.ports),
            STANDIN_EXPLORER_DATA=str(self.folder / "data"),
            STANDIN_EXPLORER_LOG=str(self.folder / "log"),
        )

    @property
    def settings(self) -> dict[str, Any]:
        return {
            **SETTINGS,
            "run": {"env": self.variables},
            "explorer": {"uiPort": self.ports[0], "apiPort": self.ports[1]},
        }

    def ingested(self) -> list[dict[str, str]]:
        """What was processed: the session directory and the name, in order."""
        log = self.folder / "log"
        rows = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        return [{"session": row[row.index("-d") + 1], "name": row[row.index("--display-name") + 1]} for row in rows]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Setting:
    return Setting(tmp_path_factory.mktemp("explorer"))


@pytest.fixture(scope="module")
def client(start: Callable[..., Client], place: Setting) -> Client:
    return start([place.folder / "ws"], settings=place.settings)


@pytest.fixture(scope="module")
def document(client: Client) -> Document:
    """A file that was saved, with the results of all its functions."""
    return saved(client)


def saved(client: Client) -> Document:
    path = client.roots[0] / "rms_norm.py"
    shutil.copy(ROOT / "samples" / "rms_norm.py", path)
    document = client.open(path)
    document.save()
    if any(title.startswith("Trust") for title in lenses(client, document.uri)):
        act(client, "profileFile", {"uri": document.uri})
    until(client, lambda: lenses(client, document.uri), lambda seen: seen.count(OPEN) == 3, COLD_S)
    return document


def click(client: Client, document: Document, qualname: str) -> int:
    """Click on the lens of a function; gives the mark of before."""
    mark = client.mark()
    command = next(
        lens["command"]
        for lens in client.lenses(document.uri)
        if lens["command"]["title"] == OPEN and lens["command"]["arguments"][0]["qualname"] == qualname
    )
    client.request("workspace/executeCommand", {"command": command["command"], "arguments": command["arguments"]})
    return mark


def page(client: Client, document: Document, qualname: str) -> str:
    """The address that a click has the client open."""
    mark = click(client, document, qualname)
    shown = client.wait_for("window/showDocument", after=mark, timeout_s=SHOWN_S)
    assert shown["external"] is True
    return str(shown["uri"])


def page_run(client: Client, document: Document, place: Setting) -> Path:
    """The folder of the run whose page is shown."""
    page(client, document, "naive")
    (run,) = {
        Path(item["session"]).parent.parent.parent for item in place.ingested() if item["name"].startswith("naive")
    }
    return run


def warned(client: Client, document: Document, qualname: str, timeout_s: float = SHOWN_S) -> str:
    """The sentence that follows a click."""
    mark = click(client, document, qualname)
    message = client.wait_for(
        "window/showMessage",
        lambda params: "takes minutes" not in params["message"] and params["type"] == 2,
        mark,
        timeout_s,
    )
    assert client.count("window/showDocument", mark) == 0
    return str(message["message"])


def test_the_lens_stands_between_the_total_and_the_new_run(client: Client, document: Document) -> None:
    assert lenses(client, document.uri)[:3] == ["2.36 ms device", OPEN, "Re-profile"]


def test_a_click_shows_exactly_that_run_and_a_second_one_processes_nothing(
    client: Client, document: Document, place: Setting
) -> None:
    address = page(client, document, "naive")
    (done,) = place.ingested()
    session = Path(done["session"])
    run = session.parent.parent.parent
    assert run.parent.name == "runs"
    assert json.loads((run / "run.json").read_text())["qualname"] == "naive"
    assert {"ntrace.pb", "trace_info.pb", "trace.json"} <= {path.name for path in session.iterdir()}
    assert done["name"] == f"naive-{run.name}"
    assert address == f"http://localhost:{place.ports[0]}/profile/naive-{run.name}"
    with urlopen(address) as shown:
        assert shown.read().decode() == f"Neuron Explorer: naive-{run.name}"
    assert page(client, document, "naive") == address
    assert place.ingested() == [done]


def test_the_folder_of_a_result_that_is_shown_says_so_and_is_not_pruned(
    client: Client, document: Document, place: Setting
) -> None:
    run = page_run(client, document, place)
    deadline = time.monotonic() + SHOWN_S
    while not (run / "shown").exists():
        assert time.monotonic() < deadline
        client.barrier()
    assert (run / "shown").stat().st_mode & 0o777 == 0o600
    # As old as can be, and no longer the newest of its function.
    os.utime(run / "run.json", (0, 0))
    newer = shutil.copytree(run, run.with_name("newer"))
    os.utime(newer / "run.json", (1, 1))
    (newer / "shown").unlink()
    found = subprocess.run(
        [sys.executable, "-m", "profile_neuron", "runs", "--json"],
        env={**os.environ, "XDG_CACHE_HOME": str(run.parent.parent.parent)},
        capture_output=True, check=True,
    )  # fmt: skip
    reasons = {item["run_id"]: item["reason"] for item in json.loads(found.stdout)["runs"]}
    assert (reasons[run.name], reasons["newer"]) == (
        "shown in an editor within a day",
        "the newest run of its function",
    )
    shutil.rmtree(newer)


def test_results_of_before_an_edit_can_be_opened(client: Client, document: Document, place: Setting) -> None:
    end = "\n    return normalised * weight\n\n\n@profile_neuron(inputs=make_inputs)\ndef fused"
    before, after = f"normalised = x * scale{end}", f"normalised = x * scale + 0{end}"
    document.replace(before, after)
    titles = lenses(client, document.uri)
    assert titles[0].startswith("2.36 ms (edited since, ")
    assert titles[1:3] == [OPEN, "Profile again"]
    assert page(client, document, "naive").startswith(f"http://localhost:{place.ports[0]}/profile/naive-")
    document.replace(after, before)


@pytest.mark.parametrize(
    ("mode", "sentence"),
    [
        ("old", "has no option --display-name, so it is too old; update the package aws-neuronx-tools"),
        ("unknown-flag", "(ERROR unknown flag: --display-name); update the package aws-neuronx-tools"),
        ("broken", "(ERROR processing ended with ERROR_PROCESS_INCOMPLETE); run it by hand to see more"),
        ("empty", "); profile it again"),
        ("fail", "(ERROR No metadata found for system profile: "),
        ("http500", "-2 with HTTP 500, as one of another version than made it does, also after the capture was"),
        ("stuck", " (PROCESSING), for which 10 to 15 minutes are usual and more than 30 mean that it is stuck"),
    ],
)
def test_what_goes_wrong_is_told_once_and_asks_for_no_page(
    client: Client, document: Document, place: Setting, mode: str, sentence: str
) -> None:
    place.mode.write_text(mode)
    try:
        assert sentence in warned(client, document, "fused")
    finally:
        place.mode.write_text("")


@pytest.mark.parametrize(
    ("mode", "sentence"),
    [
        (
            "busy",
            "view --port {ui} found one of its ports taken (ERROR listen tcp :{api}: bind: address already in use)",
        ),
        ("one-port", "port {ui} answers, but port {api}, where the pages of Neuron Explorer get their data, does not"),
        (
            "down",
            "the viewer of Neuron Explorer did not come up at ports {ui} and {api}; run neuron-explorer view by hand",
        ),
    ],
)
def test_a_viewer_that_does_not_come_up_as_it_should_is_told(
    start: Callable[..., Client], tmp_path: Path, mode: str, sentence: str
) -> None:
    place = Setting(tmp_path)
    client = start([tmp_path / "ws"], settings=place.settings)
    document = saved(client)
    place.mode.write_text(mode)
    # It is given a minute to come up.
    said = warned(client, document, "fused", 2 * SHOWN_S)
    assert sentence.format(ui=place.ports[0], api=place.ports[1]) in said
    assert len(place.ingested()) == 1


def test_a_capture_is_opened_while_a_run_is_on_and_what_ran_on_the_cpu_keeps_no_folder(
    client: Client, document: Document, place: Setting
) -> None:
    runs = page_run(client, document, place).parent
    before = {path.name for path in runs.iterdir()}
    go = place.folder / "go"
    os.mkfifo(go)
    host = client.open(client.roots[0] / "host.py", HOST.replace("{go}", str(go)))
    act(client, "profileFunction", {"uri": host.uri, "qualname": "host"})
    until(client, lambda: lenses(client, host.uri), lambda seen: "Building inputs…" in seen, COLD_S)
    assert page(client, document, "naive").startswith("http://localhost:")
    assert "Cancel" in lenses(client, host.uri), "the run is still on"
    go.write_text("go")
    until(client, lambda: lenses(client, host.uri), lambda seen: seen[0].startswith("cpu "), COLD_S)
    assert len(lenses(client, host.uri)) == 2
    assert {path.name for path in runs.iterdir()} == before
    assert all((path / "neuron").is_dir() for path in runs.iterdir())


def test_a_capture_that_was_removed_is_said(client: Client, document: Document, place: Setting) -> None:
    page(client, document, "compiled")
    run = Path(place.ingested()[-1]["session"]).parent.parent.parent
    moved = shutil.move(run, place.folder / "moved")
    assert warned(client, document, "compiled") == f"the capture of compiled is gone from {run}; profile it again"
    shutil.move(moved, run)


def test_a_client_that_cannot_open_pages_is_told_the_address(start: Callable[..., Client], tmp_path: Path) -> None:
    place = Setting(tmp_path)
    client = start(
        [tmp_path / "ws"], settings=place.settings, answers={"window/showDocument": lambda _: {"success": False}}
    )
    document = saved(client)
    mark = click(client, document, "naive")
    message = client.wait_for("window/showMessage", lambda params: "is shown at" in params["message"], mark, SHOWN_S)
    assert message["message"] == (
        f"naive is shown at http://localhost:{place.ports[0]}/profile/{place.ingested()[0]['name']}"
    )


CAPTURE, PAGE = "profileNeuron/openCapture", "profileNeuron/openPage"


@pytest.fixture(scope="class")
def extension(
    start: Callable[..., Client], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Client, Document, Setting]:
    """A client that opens captures and pages itself, if its answers say so."""
    place = Setting(tmp_path_factory.mktemp("extension"))
    client = start([place.folder / "ws"], settings=place.settings, capabilities=able_to("openCapture", "openPage"))
    return client, saved(client), place


class TestAClientThatOpensThemItself:
    def test_is_asked_for_the_capture_before_anything_is_processed(
        self, extension: tuple[Client, Document, Setting]
    ) -> None:
        client, document, place = extension
        client.answers |= {CAPTURE: lambda _: {"isShown": True, "problem": ""}}
        mark = click(client, document, "naive")
        asked = client.wait_for(CAPTURE, after=mark)
        assert (asked["name"], asked["mode"]) == ("naive", "auto")
        assert json.loads((Path(asked["folder"]) / "run.json").read_text())["qualname"] == "naive"
        settle(client, client.roots[0])
        assert (place.ingested(), client.count(PAGE), said(client, mark)) == ([], 0, [])

    def test_may_leave_the_capture_to_the_viewer_and_show_its_page(
        self, extension: tuple[Client, Document, Setting]
    ) -> None:
        client, document, place = extension
        client.answers |= {
            CAPTURE: lambda _: {"isShown": False, "problem": "there is no extension of Neuron Explorer"},
            PAGE: lambda _: {"isShown": True, "problem": ""},
        }
        mark = click(client, document, "compiled")
        page = client.wait_for(PAGE, after=mark, timeout_s=SHOWN_S)
        (done,) = place.ingested()
        assert page == {"url": f"http://localhost:{place.ports[0]}/profile/{done['name']}", "apiPort": place.ports[1]}
        settle(client, client.roots[0])
        assert client.count("window/showDocument", mark) == 0
        assert [text for text in said(client, mark) if "takes minutes" not in text and "may take" not in text] == []

    @pytest.mark.parametrize(
        ("answer", "why"),
        [
            ({"isShown": False, "problem": "port 3002 is taken here; free it."}, "port 3002 is taken here; free it; "),
            ({"isShown": "yes"}, ""),
            (None, ""),
            (LspError(-32000, "no"), ""),
        ],
    )
    def test_that_does_not_show_the_page_has_its_address_said(
        self, answer: object, why: str, extension: tuple[Client, Document, Setting]
    ) -> None:
        client, document, place = extension

        def shown(_: object) -> object:
            if isinstance(answer, LspError):
                raise answer
            return answer

        client.answers |= {CAPTURE: shown, PAGE: shown}
        text = warned(client, document, "compiled")
        assert (
            text == f"{why}compiled is shown at http://localhost:{place.ports[0]}/profile/{place.ingested()[0]['name']}"
        )

    @pytest.mark.parametrize(
        ("problem", "sentence"),
        [
            ("install the extension of Neuron Explorer", "install the extension of Neuron Explorer"),
            (
                "",
                "no extension of your editor shows the capture of fused; set profileNeuron.explorer.mode to browser to "
                "see it in one",
            ),
        ],
    )
    def test_that_is_the_only_one_to_show_it_says_why_it_does_not(
        self, problem: str, sentence: str, extension: tuple[Client, Document, Setting]
    ) -> None:
        client, document, place = extension
        client.answers |= {CAPTURE: lambda _: {"isShown": False, "problem": problem}}
        self.use(client, place, "extension")
        assert warned(client, document, "fused") == sentence
        self.use(client, place, "auto")
        assert not any(item["name"].startswith("fused") for item in place.ingested())

    def test_is_not_asked_for_the_capture_where_a_browser_is_to_show_it(
        self, extension: tuple[Client, Document, Setting]
    ) -> None:
        client, document, place = extension
        client.answers |= {PAGE: lambda _: {"isShown": True, "problem": ""}}
        self.use(client, place, "browser")
        mark = click(client, document, "compiled")
        client.wait_for(PAGE, after=mark, timeout_s=SHOWN_S)
        assert client.count(CAPTURE, mark) == 0
        self.use(client, place, "auto")

    def use(self, client: Client, place: Setting, mode: str) -> None:
        mark = client.mark()
        client.configure({**place.settings, "explorer": {**place.settings["explorer"], "mode": mode}})
        client.wait_for("workspace/codeLens/refresh", after=mark)


def test_without_neuron_explorer_the_folder_of_the_capture_is_offered(
    start: Callable[..., Client], tmp_path: Path
) -> None:
    place = Setting(tmp_path)
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "neuron-ls").symlink_to(FOLDER / "bin" / "neuron-ls")
    variables = place.variables
    variables["PATH"] = variables["PATH"].replace(str(FOLDER / "bin"), str(tools))
    client = start(
        [tmp_path / "ws"],
        settings={**place.settings, "run": {"env": variables}},
        answers={"window/showMessageRequest": lambda params: params["actions"][0]},
    )
    document = saved(client)
    shown = path_of(page(client, document, "naive"))
    (asked,) = client.all("window/showMessageRequest")
    trace = next(shown.rglob("trace.json")).relative_to(shown)
    assert asked.params["message"] == (
        "Neuron Explorer is not installed; install the package aws-neuronx-tools, which has neuron-explorer; the "
        f"capture is in {shown}, of which {trace} opens at https://ui.perfetto.dev"
    )
    assert json.loads((shown / "run.json").read_text())["qualname"] == "naive"
    assert said(client) == []


def test_the_setting_that_says_none_shows_no_lens_and_starts_nothing(
    start: Callable[..., Client], tmp_path: Path
) -> None:
    place = Setting(tmp_path)
    capabilities = json.loads(json.dumps(CAPABILITIES))
    del capabilities["window"]["showDocument"]
    client = start(
        [tmp_path / "ws"], settings={**place.settings, "explorer": {"mode": "none"}}, capabilities=capabilities
    )
    path = client.roots[0] / "rms_norm.py"
    shutil.copy(ROOT / "samples" / "rms_norm.py", path)
    document = client.open(path)
    act(client, "profileFunction", {"uri": document.uri, "qualname": "naive"})
    client.wait_for("window/logMessage", lambda params: "naive: 2.36 ms" in params["message"], timeout_s=COLD_S)
    assert lenses(client, document.uri)[:2] == ["2.36 ms device", "Re-profile"]
    act(client, "openInExplorer", {"uri": document.uri, "qualname": "naive"})
    message = client.wait_for("window/showMessage")
    assert message["message"].startswith(
        "Neuron Explorer is not used, as the setting profileNeuron.explorer.mode says; the capture is in "
    )
    assert place.ingested() == []


def test_a_server_that_ends_while_a_capture_is_processed_leaves_nothing(
    start: Callable[..., Client], tmp_path: Path
) -> None:
    place = Setting(tmp_path)
    client = start([tmp_path / "ws"], settings=place.settings)
    document = saved(client)
    place.mode.write_text("slow")
    mark = click(client, document, "naive")
    client.wait_for(
        "window/showMessage",
        lambda params: params["message"] == "Neuron Explorer reads the capture of naive, which may take minutes",
        mark,
        SHOWN_S,
    )
    while not place.ingested():
        client.barrier()
    client.stop()
    # That nothing is left is seen at the end of each server.
    assert [message for message in said(client, mark) if "takes" in message or "ended" in message] == []
