"""The whole of it: an editor's conversation with the real server, whose agent and worker run torch."""

from __future__ import annotations

import ast
import contextlib
import json
import math
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.conftest import DATA, ROOT, case
from tests.contract.test_agent import ended
from tests.lsp.cases import Message, Played, play
from tests.lsp.client import Client, Document, path_of
from tests.lsp.conftest import DECORATOR_MODULES
from tests.lsp.extension import HEAT, STATUS, able_to, heat_of, until_status
from tests.lsp.screen import act, diagnostics, hints, lenses, logged, ready, settle, until, until_lens

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tests.fakes.control import FakeAgents
    from tests.lsp.client import Target
    from tests.lsp.conftest import Serve

    Start = Callable[..., Client]
    Write = Callable[[str, str], Path]

pytestmark = pytest.mark.torch

SETTINGS = {
    "interpreter": sys.executable,
    "decorator": {"modules": DECORATOR_MODULES},
    # Fast machines take less than a microsecond for a small operator.
    "hints": {"minShare": 0, "minTime": "1ns"},
}
# In the environment of a server, and so of all that it starts: its root.
MARK = "PN_TEST_ROOT"
# A run that nothing is known of begins with the start of an agent and of a worker with torch.
COLD_S = 60.0
LEFT_S = 5.0
UNKNOWN = "Profile on the CPU"
QUICK = """
    import torch
    from pn_api import profile_neuron

    @profile_neuron
    def f():
        x = torch.ones(64)
        y = x + 1
        return y * 2
"""
SLEEP = "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])"
# Of a function that starts a child and then does not return.
TELL = "print('pids', __import__('os').getpid(), child.pid, flush=True)"
SLOW = f"""
    import subprocess, sys, time
    from pn_api import profile_neuron

    @profile_neuron
    def slow():
        child = {SLEEP}
        {TELL}
        time.sleep(600)
"""


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Start servers that know their settings and have real agents; all of them share one store."""
    home = tmp_path_factory.mktemp("home")
    folders = {"XDG_CACHE_HOME": str(home / "cache"), "XDG_STATE_HOME": str(home / "state")}
    clients: list[Client] = []
    roots_seen: list[Path] = []

    def started(roots: list[Path], settings: object = SETTINGS, **options: Any) -> Client:
        for root in roots:
            root.mkdir(parents=True, exist_ok=True)
        env = {**folders, "PYTHONPATH": str(DATA / "support"), MARK: str(roots[0])}
        client = Client.start(roots, settings=settings, env=env, **options)
        clients.append(client)
        roots_seen.append(roots[0])
        return ready(client)

    yield started
    try:
        for client in clients:
            client.stop()
    finally:
        for client in clients:
            client.kill()
    for client, root in zip(clients, roots_seen, strict=True):
        assert client.faults == [], "the server kept to the protocol"
        assert "Traceback" not in client.stderr, client.stderr
        assert left(root, LEFT_S) == []


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the server that most tests share."""
    return tmp_path_factory.mktemp("ws")


@pytest.fixture(scope="module")
def client(start: Start, root: Path) -> Client:
    """The server that most tests share, since a new one costs the start of a worker."""
    return start([root])


@pytest.fixture(scope="module")
def second(start: Start, tmp_path_factory: pytest.TempPathFactory) -> Client:
    """Another server, for what needs one that has run nothing, and for what ends it."""
    return start([tmp_path_factory.mktemp("second")])


@pytest.fixture
def folder(root: Path, request: pytest.FixtureRequest) -> Path:
    """A folder of the shared server for one test."""
    # One more for each parameter of a test.
    number = sum(1 for path in root.iterdir() if path.name.startswith(request.node.originalname))
    found = root / f"{request.node.originalname}{number or ''}"
    found.mkdir()
    return found


@pytest.fixture
def opened(client: Client, folder: Path) -> Callable[[str, str], Document]:
    """Write a dedented file for one test and open it in the shared server."""

    def open_file(name: str, text: str) -> Document:
        return client.open(folder / name, dedented(text))

    return open_file


def dedented(text: str) -> str:
    return textwrap.dedent(text).lstrip("\n")


def processes(root: Path) -> list[int]:
    """Living processes that the server of a root started, and it itself, however far they went from it."""
    wanted = f"{MARK}={root}\0".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            # Empty for what has ended and waits for its parent.
            if wanted in (entry / "environ").read_bytes() + b"\0":
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def left(root: Path, limit_s: float) -> list[str]:
    """Command lines of what is still there after a time; what ends within it is waited for."""
    deadline = time.monotonic() + limit_s
    while found := processes(root):
        if not ended(found[0], max(0.0, deadline - time.monotonic())):
            return command_lines(found)
    return []


def command_lines(pids: Iterable[int]) -> list[str]:
    """What processes were started as; those that have ended meanwhile are left out."""
    found = []
    for pid in pids:
        with contextlib.suppress(OSError):
            found.append(Path(f"/proc/{pid}/cmdline").read_bytes().decode().replace("\0", " "))
    return found


def wait_pids(client: Client, name: str, after: int = 0) -> list[int]:
    """The processes that a slow function says it has: the worker and its child."""
    said = client.wait_for(
        "window/logMessage", lambda params: f"{name} │ pids" in params["message"], after, timeout_s=COLD_S
    )["message"]
    found = [int(word) for word in said.split()[-2:]]
    assert all(not ended(pid, 0) for pid in found)
    return found


def wait_marked(pids: list[int], root: Path) -> None:
    """See processes, and more, among those of a root; one that has just been started shows no environment yet."""
    deadline = time.monotonic() + LEFT_S
    while not set(pids) < set(processes(root)):
        assert time.monotonic() < deadline


def wait_token(client: Client, after: int = 0) -> str:
    """The token of the progress that the server has begun to show."""
    token = client.wait_for("window/workDoneProgress/create", after=after)["token"]
    client.wait_for("$/progress", lambda params: params["token"] == token and params["value"]["kind"] == "begin", after)
    return str(token)


def until_fresh(client: Client, target: Target, count: int = 1) -> list[str]:
    """Titles of the lenses once so many functions have results of today's code."""
    return until(client, lambda: lenses(client, target), lambda seen: seen.count("Re-profile") == count, COLD_S)


def runs(client: Client) -> list[str]:
    """How each run so far ended, as the log has it."""
    return [text for text in logged(client) if re.fullmatch(r"\S+: .* \(\d+\.\d s\)", text)]


def hover_text(client: Client, target: Target, line: int) -> str:
    """The text of the hover of a line, without what protects it from Markdown."""
    found = client.hover(target, line - 1, 4)
    assert found is not None
    assert found["contents"]["kind"] == "markdown"
    return re.sub(r"\\(.)", r"\1", found["contents"]["value"])


def statement_lines(text: str, name: str) -> list[int]:
    """Lines of a function's statements."""
    (function,) = (
        node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef) and node.name == name
    )
    return [statement.lineno for statement in function.body]


def line_of(text: str, part: str) -> int:
    """The only line that holds a text."""
    (line,) = (number for number, line in enumerate(text.split("\n"), 1) if part in line)
    return line


def main_number(label: str) -> str:
    return label.partition(" · ")[0]


RMS_NORM = (ROOT / "samples" / "rms_norm.py").read_text(encoding="utf-8")
FUNCTIONS = ("naive", "fused", "compiled")


@pytest.fixture(scope="module")
def command_line(root: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The command line, which measures the same file while the server does."""
    path = root / "rms_norm.py"
    path.write_text(RMS_NORM, encoding="utf-8")
    with subprocess.Popen(
        [sys.executable, "-m", "profile_neuron", "run", "--json", str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        yield process
        process.terminate()


@pytest.fixture(scope="module")
def printed(command_line: subprocess.Popen[bytes]) -> dict[str, Any]:
    """What the command line says, by function."""
    out, _ = command_line.communicate(timeout=COLD_S)
    return {function["qualname"]: function for function in json.loads(out)["functions"]}


@pytest.fixture(scope="module")
def document(client: Client, root: Path, command_line: subprocess.Popen[bytes]) -> Document:
    """The sample, open in the editor."""
    return client.open(root / "rms_norm.py")


@pytest.fixture(scope="module")
def profiled(client: Client, document: Document) -> Document:
    """The same saved, with results of all its functions."""
    document.save()
    until_fresh(client, document.uri, len(FUNCTIONS))
    return document


class TestRmsNorm:
    """One conversation about one file, whose steps are the tests; each leaves the text as it found it."""

    def test_before_it_is_saved_it_offers_to_be_profiled(self, client: Client, document: Document) -> None:
        assert lenses(client, document.uri) == [UNKNOWN] * 3
        assert hints(client, document.uri) == {}
        assert [lens["range"]["start"]["line"] + 1 for lens in client.lenses(document.uri)] == [
            line_of(RMS_NORM, f"def {name}(") - (2 if name == "compiled" else 1) for name in FUNCTIONS
        ]

    def test_a_save_is_queued_and_run_and_shown(self, client: Client, document: Document) -> None:
        document.save()
        assert lenses(client, document.uri) == ["Queued", "Cancel"] * 3
        seen = until_lens(client, document.uri, "Starting…", timeout_s=COLD_S)
        assert seen == ["Starting…", "Cancel", "Queued (1 ahead)", "Cancel", "Queued (2 ahead)", "Cancel"]
        titles = until_fresh(client, document.uri, 3)
        assert all(re.fullmatch(r"cpu \d[\d.]* [µm]?s", title) for title in titles[::2])
        assert titles[1::2] == ["Re-profile"] * 3
        assert [text.partition(":")[0] for text in runs(client)] == list(FUNCTIONS)

    def test_every_statement_has_its_hint(self, client: Client, profiled: Document) -> None:
        shown = hints(client, profiled.uri)
        naive = statement_lines(RMS_NORM, "naive")
        assert len(naive) == 6
        inside = {line: label for line, label in shown.items() if naive[0] - 1 <= line <= naive[-1]}
        assert list(inside) == naive
        for label in inside.values():
            assert re.fullmatch(r"cpu \d[\d.]* (ns|µs) · (<1|\d+) % · 1 op", label)
        shares = [int(label.split(" · ")[1].removesuffix(" %").replace("<1", "0")) for label in inside.values()]
        assert sum(shares) == pytest.approx(100, abs=len(shares) / 2), "the lines add up"

    def test_lines_and_operators_are_those_of_the_command_line(
        self, client: Client, printed: dict[str, Any], profiled: Document
    ) -> None:
        assert list(hints(client, profiled.uri)) == sorted(
            line["line"] for name in FUNCTIONS for line in printed[name]["lines"]
        )
        for name in FUNCTIONS:
            for line in printed[name]["lines"]:
                operators = [
                    item["name"] if item["calls"] == 1 else f"{item['name']} ×{item['calls']}"
                    for item in line["operators"]
                ]
                count = sum(item["calls"] for item in line["operators"])
                assert hints(client, profiled.uri)[line["line"]].endswith(f" · {count} op{'s' * (count != 1)}")
                if line["line"] != printed[name]["line"]:
                    head, found, *_ = hover_text(client, profiled.uri, line["line"]).split("\n\n")
                    assert f" of {name} · " in head
                    assert found.split(", ") == operators

    def test_the_hover_says_where_the_numbers_come_from(
        self, client: Client, printed: dict[str, Any], profiled: Document
    ) -> None:
        for name, title in zip(FUNCTIONS, lenses(client, profiled.uri)[::2], strict=True):
            text = hover_text(client, profiled.uri, printed[name]["line"])
            state, given, total, compared, *_, provenance, loading = text.split("\n\n")
            assert re.match(r"fresh · \d\d:\d\d:\d\d · cpu", state)
            assert "inputs: inputs= of the decorator" in state
            assert given == "called with x: bfloat16[4, 512], weight: bfloat16[512]"
            assert total == f"**{title}** per call"
            assert compared == "no earlier result of other code"
            assert provenance == printed[name]["provenance"]
            assert loading == ("first run in this worker" if name == FUNCTIONS[0] else "nothing was executed again")
            assert len(text.split("\n")) < 25
        for line in statement_lines(RMS_NORM, "naive"):
            time_text = main_number(hints(client, profiled.uri)[line])
            text = hover_text(client, profiled.uri, line)
            assert text.startswith(f"**{time_text}** · ")
            assert "fresh · " in text

    def test_an_edit_takes_the_hint_of_its_statement_and_marks_the_others(
        self, client: Client, profiled: Document
    ) -> None:
        fresh, titles, count = hints(client, profiled.uri), lenses(client, profiled.uri), len(runs(client))
        line = line_of(RMS_NORM.partition("def fused")[0], "mean + EPSILON")
        start = (line - 1, RMS_NORM.split("\n")[line - 1].index("EPSILON"))
        profiled.change((start, start), "2 * ")
        naive = statement_lines(RMS_NORM, "naive")
        assert hints(client, profiled.uri) == {
            number: f"~{main_number(label)}" if number in naive else label
            for number, label in fresh.items()
            if number != line
        }
        first, *others = lenses(client, profiled.uri)
        assert first.startswith(f"{titles[0]} (edited since, ")
        assert others == ["Profile again", *titles[2:]]
        assert hover_text(client, profiled.uri, naive[0]).split("\n\n")[-1].startswith("stale · ")
        profiled.change((start, (start[0], start[1] + len("2 * "))), "")
        assert profiled.text == RMS_NORM
        assert hints(client, profiled.uri) == fresh
        assert lenses(client, profiled.uri) == titles
        profiled.save()
        settle(client, profiled.path.parent)
        assert lenses(client, profiled.uri) == titles
        assert len(runs(client)) == count, "what was known needs no run"

    def test_comments_and_formatting_start_no_run(self, client: Client, profiled: Document) -> None:
        fresh, titles, count = hints(client, profiled.uri), lenses(client, profiled.uri), len(runs(client))
        old = "def naive(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:\n    squared = x * x\n"
        new = (
            "def naive(\n    x: torch.Tensor, weight: torch.Tensor\n) -> torch.Tensor:\n"
            "    # Of every element.\n\n    squared = (\n        x * x\n    )\n"
        )
        profiled.replace(old, new)
        first = line_of(RMS_NORM.partition("def fused")[0], "squared = x * x")
        expected = {
            number + (0 if number < first else 4 if number == first else 6): label for number, label in fresh.items()
        }
        assert hints(client, profiled.uri) == expected
        profiled.save()
        settle(client, profiled.path.parent)
        assert hints(client, profiled.uri) == expected
        profiled.replace(new, old)
        profiled.save()
        settle(client, profiled.path.parent)
        assert hints(client, profiled.uri) == fresh
        assert lenses(client, profiled.uri) == titles
        assert len(runs(client)) == count


HELPED = """
    import torch
    from helper import helped
    from pn_api import profile_neuron

    @profile_neuron
    def f():
        x = torch.ones(2)
        y = helped(x)
        return y * 2
"""
FAILING = """
    import torch
    from pn_api import profile_neuron

    @profile_neuron
    def f():
        x = torch.ones(2)
        y = x @ torch.ones(3)
        return y
"""


class TestFailures:
    def test_a_function_that_raises_is_told_at_the_line(
        self, client: Client, opened: Callable[[str, str], Document]
    ) -> None:
        document = opened("model.py", FAILING)
        document.save()
        line = line_of(document.text, "torch.ones(3)")
        seen = until_lens(client, document.uri, "Profile failed", timeout_s=COLD_S)
        assert seen == [f"Profile failed: RuntimeError, line {line}", "Show log", "Retry"]
        (found,) = until(client, lambda: diagnostics(client, document.uri), bool)
        assert (found["source"], found["code"], found["severity"]) == ("profile-neuron", "run-failed", 3)
        assert found["range"]["start"] == {"line": line - 1, "character": 4}
        assert found["range"]["end"] == {"line": line - 1, "character": len(document.text.split("\n")[line - 1])}
        assert "RuntimeError" in found["message"]
        assert "relatedInformation" not in found
        mark = client.mark()
        document.replace("torch.ones(3)", "torch.ones(2)")
        client.wait_for("textDocument/publishDiagnostics", lambda params: params["diagnostics"] == [], mark)
        document.save()
        until_fresh(client, document.uri)
        assert diagnostics(client, document.uri) == []
        assert line in hints(client, document.uri)

    def test_one_in_a_helper_is_told_at_the_call_and_points_there(
        self, client: Client, opened: Callable[[str, str], Document]
    ) -> None:
        helper = opened("helper.py", "import torch\n\n\ndef helped(x):\n    return x @ torch.ones(3)\n")
        document = opened("model.py", HELPED)
        document.save()
        line = line_of(document.text, "helped(x)")
        seen = until_lens(client, document.uri, "Profile failed", timeout_s=COLD_S)
        assert seen[0] == f"Profile failed: RuntimeError, line {line}"
        (found,) = until(client, lambda: diagnostics(client, document.uri), bool)
        assert found["range"]["start"]["line"] == line - 1
        (related,) = found["relatedInformation"]
        assert related["location"]["uri"] == helper.uri
        assert related["location"]["range"]["start"]["line"] == line_of(helper.text, "torch.ones(3)") - 1
        assert diagnostics(client, helper.uri) == []
        helper.replace("torch.ones(3)", "torch.ones(2)")
        helper.save()
        document.save()
        until_fresh(client, document.uri)
        until(client, lambda: diagnostics(client, document.uri), lambda left_over: left_over == [])


class TestOutput:
    def test_what_a_function_prints_is_logged_and_can_be_shown(
        self, client: Client, opened: Callable[[str, str], Document]
    ) -> None:
        document = opened(
            "model.py",
            """
            import os
            import sys
            from pn_api import profile_neuron

            @profile_neuron(warmup=0, repeats=1)
            def talkative():
                print("first\\nsecond 文字")
                print("an error", file=sys.stderr)
                os.system("echo of a child")
            """,
        )
        mark = client.mark()
        document.save()
        until_fresh(client, document.uri)
        told = [text for text in logged(client, mark) if text.startswith("talkative │ ")]
        wanted = [f"talkative │ {text}" for text in ("first", "second 文字", "an error", "of a child")]
        assert sorted(told) == sorted(wanted)
        act(client, "showLog", {"uri": document.uri, "qualname": "talkative"})
        shown = client.wait_for("window/showDocument", after=mark)
        path = path_of(shown["uri"])
        assert path is not None
        assert sorted(path.read_text(encoding="utf-8").splitlines()) == sorted(
            text.removeprefix("talkative │ ") for text in wanted
        )

    def test_the_lens_counts_the_calls(self, client: Client, opened: Callable[[str, str], Document]) -> None:
        document = opened(
            "model.py",
            """
            import time
            from pn_api import profile_neuron

            @profile_neuron(warmup=0, repeats=3)
            def slow():
                time.sleep(1)
            """,
        )
        shown: list[str] = []

        def look() -> list[str]:
            shown.extend(lenses(client, document.uri))
            return shown[-2:]

        document.save()
        until(client, look, lambda seen: "Re-profile" in seen, COLD_S)
        counted = [title for title in dict.fromkeys(shown) if title.startswith("Profiling… ")]
        assert counted == ["Profiling… 1/3", "Profiling… 2/3", "Profiling… 3/3"]


class TestHelpers:
    def test_a_helper_that_is_saved_marks_its_caller_and_runs_it_again(
        self, client: Client, opened: Callable[[str, str], Document]
    ) -> None:
        helper = opened("helper.py", "def helped(x):\n    return x * 2\n")
        document = opened("model.py", HELPED)
        document.save()
        until_fresh(client, document.uri)
        line = line_of(document.text, "helped(x)")
        fresh = hints(client, document.uri)
        assert fresh[line].endswith(" · 1 op")
        helper.replace("x * 2", "x * 2 + 1")
        assert hints(client, document.uri) == fresh, "what is not saved does not count"
        count = len(runs(client))
        mark = client.mark()
        helper.save()
        marked = {number: f"~{main_number(label)}" for number, label in fresh.items()}
        until(client, lambda: hints(client, document.uri), lambda seen: seen == marked)
        client.wait_for("window/logMessage", lambda params: params["message"].startswith("f: cpu"), mark, COLD_S)
        until_fresh(client, document.uri)
        assert len(runs(client)) == count + 1
        assert hints(client, document.uri)[line].split(" ▲")[0].endswith(" · 2 ops")
        assert "executed afresh: helper.py changed" in hover_text(
            client, document.uri, line_of(document.text, "def f(")
        )


class TestEnding:
    """Runs of code that does not end by itself, and what is left of them."""

    def test_a_run_is_cancelled_at_its_progress(self, client: Client, opened: Callable[[str, str], Document]) -> None:
        document = opened("model.py", QUICK)
        document.save()
        (title, _) = until_fresh(client, document.uri)
        fresh = hints(client, document.uri)
        mark = client.mark()
        document.replace("import torch\n", "import subprocess, sys, time, torch\n")
        document.replace("    return", f"    child = {SLEEP}\n    {TELL}\n    time.sleep(600)\n    return")
        document.save()
        token = wait_token(client, mark)
        own = wait_pids(client, "f", mark)
        before_s = time.monotonic()
        client.notify("window/workDoneProgress/cancel", {"token": token})
        client.wait_for(
            "$/progress", lambda params: params["token"] == token and params["value"]["kind"] == "end", mark, 2.0
        )
        seen = until_lens(client, document.uri, "Cancelled", timeout_s=2.0)
        assert all(ended(pid, 2.0 - (time.monotonic() - before_s)) for pid in own[1:])
        assert seen == [f"Cancelled (last: {title})", "Profile again"]
        last = max(fresh)
        assert hints(client, document.uri) == {
            number + 3 * (number == last): f"~{main_number(label)}" for number, label in fresh.items()
        }
        assert diagnostics(client, document.uri) == []
        assert client.count("window/showMessage", mark) == 0

    def test_a_cancel_is_not_logged_as_ignored(self, serve: Serve, fake: FakeAgents, tmp_path: Path) -> None:
        client = ready(serve([tmp_path / "ws"]))
        fake.hold()
        document = client.open(tmp_path / "ws" / "model.py", dedented(QUICK))
        document.save()
        client.notify("window/workDoneProgress/cancel", {"token": wait_token(client)})
        until_lens(client, document.uri, "Cancelled")
        client.stop()
        assert "Ignoring" not in client.stderr

    def test_cancel_shutdown_and_exit_during_a_run(self, start: Start, tmp_path: Path) -> None:
        folder, root = case("P13"), tmp_path / "p13"
        given = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
        limits = given["limits"]
        text = (folder / "slow.py").read_text(encoding="utf-8")
        telling = text.replace("    time.sleep(600)\n", f"    {TELL}\n    time.sleep(600)\n")
        assert telling != text
        waited_s: list[float] = []
        own: list[int] = []

        def wait(message: Message, played: Played) -> None:
            after = played.marks[-2]
            wait_token(played.client, after)
            own[:] = wait_pids(played.client, "f", after)
            wait_marked(own, root)
            waited_s.append(time.monotonic())

        def each(message: Message, played: Played) -> None:
            if message.get("method") == "window/workDoneProgress/cancel":
                until_lens(played.client, played.uri("slow.py"), "Cancelled", timeout_s=limits["cancelSeconds"])
                assert ended(own[1], limits["cancelSeconds"])
                assert not any("time.sleep(600)" in line for line in command_lines(processes(root)))

        played = play(
            folder,
            start,
            root,
            actions={"wait": wait},
            fill={
                "<slow.py>": lambda _: telling,
                "<run token>": lambda done: str(done.client.all("window/workDoneProgress/create")[-1].params["token"]),
            },
            each=each,
        )
        assert len(waited_s) == 2
        answered = played.answers[1]
        assert answered.value() is None
        assert answered.at_s - waited_s[-1] < limits["shutdownAnswerSeconds"]
        assert len(left(root, limits["leftoverProcessesAfterExitSeconds"])) == given["leftoverProcesses"]
        assert played.client.wait_exit() == given["exitCode"]

    def test_a_worker_that_is_killed_fails_the_run_and_the_next_save_works(
        self, client: Client, opened: Callable[[str, str], Document]
    ) -> None:
        document = opened("model.py", SLOW)
        document.save()
        own = wait_pids(client, "slow")
        os.kill(own[0], signal.SIGKILL)
        (title, *_) = until_lens(client, document.uri, "Profile failed: ", timeout_s=LEFT_S)
        assert title == f"Profile failed: crashed, line {line_of(document.text, 'def slow')}"
        assert ended(own[1], LEFT_S), "what the function had started went with the worker"
        (found,) = until(client, lambda: diagnostics(client, document.uri), bool)
        assert found["range"]["start"]["line"] == line_of(document.text, "def slow") - 1
        document.replace("    time.sleep(600)\n", "    child.kill()\n    child.wait()\n")
        document.save()
        until_fresh(client, document.uri)
        assert diagnostics(client, document.uri) == []

    @pytest.mark.parametrize("how", ["shutdown", "SIGKILL"])
    def test_a_server_that_ends_while_its_worker_starts_leaves_nothing(
        self, how: str, start: Start, tmp_path: Path
    ) -> None:
        root = tmp_path / "ws"
        client = start([root])
        document = client.open(root / "model.py", dedented(QUICK))
        document.save()
        wait_token(client)
        assert lenses(client, document.uri) == ["Starting…", "Cancel"]
        assert len(processes(root)) > 1
        match how:
            case "shutdown":
                client.shutdown(timeout_s=1.0)
                assert client.exit() == 0
            case _:
                client.process.kill()
                assert client.wait_exit() == -9
        assert left(root, LEFT_S) == []

    def test_a_run_is_cancelled_while_its_worker_starts(self, second: Client) -> None:
        client, root = second, second.roots[0]
        document = client.open(root / "model.py", dedented(QUICK))
        document.save()
        token = wait_token(client)
        assert lenses(client, document.uri) == ["Starting…", "Cancel"]
        client.notify("window/workDoneProgress/cancel", {"token": token})
        seen = until_lens(client, document.uri, "Cancelled", timeout_s=2.0)
        assert seen == ["Cancelled", "Profile again"]
        document.save()
        until_fresh(client, document.uri)
        assert len(runs(client)) == 2

    def test_a_client_that_goes_without_a_word_leaves_nothing(self, second: Client) -> None:
        client, root = second, second.roots[0]
        client.open(root / "slow.py", dedented(SLOW)).save()
        own = wait_pids(client, "slow")
        wait_marked(own, root)
        client.close_input()
        assert client.wait_exit(timeout_s=10.0) == 1
        assert left(root, LEFT_S) == []

    def test_a_server_that_is_killed_leaves_its_results_and_no_process(
        self, start: Start, client: Client, root: Path
    ) -> None:
        # The last one, since the other tests share the server.
        quick = client.open(root / "quick.py", dedented(QUICK))
        quick.save()
        titles = until_fresh(client, quick.uri)
        shown = hints(client, quick.uri)
        assert shown
        mark = client.mark()
        client.open(root / "slow.py", dedented(SLOW)).save()
        own = wait_pids(client, "slow", mark)
        wait_marked(own, root)
        client.process.kill()
        assert left(root, LEFT_S) == []
        assert client.wait_exit() == -9

        client = start([root])
        quick = client.open(quick.path)
        client.open(root / "slow.py")
        until_fresh(client, quick.uri)
        assert lenses(client, quick.uri) == titles
        assert hints(client, quick.uri) == shown
        assert lenses(client, root / "slow.py") == [UNKNOWN]
        quick.save()
        settle(client, root)
        assert lenses(client, quick.uri) == titles
        assert processes(root) == [client.process.pid], "what is known is shown without any agent"


def test_our_extension_is_told_of_the_same_run_as_hints_lens_and_report(start: Start, tmp_path: Path) -> None:
    client = start([tmp_path / "ws"], capabilities=able_to("heat", "status", "report"))
    document = client.open(tmp_path / "ws" / "model.py", dedented(QUICK))
    document.save()
    titles = until_lens(client, document.uri, "Re-profile", COLD_S)
    heat = heat_of(client.wait_for(HEAT))
    assert list(heat) == list(hints(client, document.uri))
    report = client.request("profileNeuron/report", {"uri": document.uri, "qualname": "f", "occurrence": 0})
    parts = {row["line"] + 1: row["part"] for row in report["rows"] if row["time"]}
    assert heat == {line: (math.ceil(5 * math.sqrt(part)), False) for line, part in parts.items()}
    assert sum(parts.values()) == pytest.approx(1.0)
    time_text = titles[0].removeprefix("cpu ")
    done = until_status(client, lambda params: params["text"] == f"cpu ✓ {time_text}")
    assert done["detail"].startswith(f"f: cpu {time_text} at ")
    assert [item["path"] for item in done["interpreters"]] == [sys.executable]
    assert any(message.params["isBusy"] for message in client.all(STATUS))
