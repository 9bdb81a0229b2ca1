"""The fake agent behind the real client of agents, and the client of servers against a server of a few lines."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import pytest

from profile_neuron.core.model import ExecutedFile, Frame
from profile_neuron.daemon.agent_client import AgentClient
from profile_neuron.daemon.hosts import LocalHost
from profile_neuron.errors import AgentError
from profile_neuron.wire.messages import Message, RunDone, RunFailed, RunOutput, RunProgress
from tests.conftest import case, request
from tests.lsp.cases import play
from tests.lsp.client import LATER, Client, LspError, ServerEnded, TimedOut, applied, offset_of, position_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from pathlib import Path

    from tests.fakes.control import FakeAgents

SOURCE = """
from profile_neuron import profile_neuron
import a_module_that_is_not_there

@profile_neuron
def f(x):
    y = x + 1
    for _ in range(2):
        y = y * 2
    return y
"""


def talk(fake: FakeAgents, conversation: Callable[[AgentClient], Coroutine[Any, Any, None]]) -> None:
    async def connected() -> None:
        client = await AgentClient.start(LocalHost(str(fake.interpreter)))
        try:
            await conversation(client)
        finally:
            await client.close()

    asyncio.run(connected())


async def messages_of(client: AgentClient, path: Path, qualname: str = "f") -> list[Message]:
    return [message async for message in client.run(request(path, qualname))]


@pytest.fixture
def controlled(fake: FakeAgents, monkeypatch: pytest.MonkeyPatch) -> FakeAgents:
    """Fake agents for agent clients in this process."""
    for name, value in fake.env.items():
        monkeypatch.setenv(name, value)
    return fake


def test_a_run_gives_one_millisecond_more_per_row(controlled: FakeAgents, write: Callable[..., Path]) -> None:
    path = write("model.py", SOURCE)

    async def conversation(client: AgentClient) -> None:
        *progress, done = await messages_of(client, path)
        assert [message.phase for message in progress if isinstance(message, RunProgress)] == [
            "import", "inputs", "warm-up", "capture", "read", "attribute",
        ]  # fmt: skip
        assert isinstance(done, RunDone)
        (costs,) = done.costs.functions
        rows = [(row.line, row.self_ns, row.total_ns, row.operators[0].name) for row in costs.lines]
        assert rows == [(line, n * 1_000_000, n * 1_000_000, "aten::add") for n, line in enumerate((6, 7, 8, 9), 1)]
        assert (costs.state, costs.host_ns, costs.unattributed_ns) == ("fresh", 10_000_000, 0)
        assert done.costs.sources[0].text == path.read_text()
        assert done.costs.modules == ()

    talk(controlled, conversation)
    (run,) = controlled.runs
    assert (run["path"], run["qualname"], run["def_line"], run["first_line"]) == (str(path), "f", 5, 4)
    assert (run["limits"]["import_s"], run["limits"]["run_s"]) == (60.0, 60.0)
    hello = controlled.wait_for_event("hello")
    assert hello["argv"][:2] == ["-I", "-c"]
    assert hello["cwd"] == "/"
    assert hello["env"] == controlled.env
    controlled.wait_for_event("gone")
    assert [event["event"] for event in controlled.events] == ["held", "hello", "started", "ended", "closed", "gone"]


def test_without_a_control_socket_the_fake_works_alone(fake: FakeAgents, write: Callable[..., Path]) -> None:
    path = write("model.py", SOURCE)

    async def conversation(client: AgentClient) -> None:
        assert (await client.environment()).torch == "2.13.0+constructed"
        assert isinstance((await messages_of(client, path))[-1], RunDone)

    talk(fake, conversation)
    assert fake.events == []


def test_comments_steer_the_function_that_they_stand_in(controlled: FakeAgents, write: Callable[..., Path]) -> None:
    path = write(
        "model.py",
        """
        from profile_neuron import profile_neuron
        # fake: module sibling.py
        @profile_neuron
        def f(): ...
            # fake: fail ValueError: no
        @profile_neuron
        def g(x):  # fake: noinputs
            ...
        def plain():
            return 1  # fake: crash
        @profile_neuron
        def h():
            ...  # fake: print 2
        """,
    )
    sibling = write("sibling.py", "x = 1\n")

    async def conversation(client: AgentClient) -> None:
        failing = (await messages_of(client, path, "f"))[-1]
        assert isinstance(failing, RunDone)
        (costs,) = failing.costs.functions
        assert (costs.state, costs.reason) == ("failed", "ValueError: no")
        assert costs.frames == (Frame(str(path), 5, "f", "# fake: fail ValueError: no"),)
        lacking = (await messages_of(client, path, "g"))[-1]
        assert isinstance(lacking, RunFailed)
        assert lacking.state == "noInputs"
        printing = await messages_of(client, path, "h")
        assert [item.text for item in printing if isinstance(item, RunOutput)] == ["h prints 1", "h prints 2"]
        assert isinstance(printing[-1], RunDone)
        module = ExecutedFile(str(sibling), hashlib.sha256(b"x = 1\n").hexdigest())
        assert printing[-1].costs.modules == failing.costs.modules == (module,)

    talk(controlled, conversation)
    assert [event["state"] for event in controlled.events if event["event"] == "ended"] == [
        "failed", "noInputs", "fresh",
    ]  # fmt: skip


def test_a_held_run_ends_when_it_is_told_to(controlled: FakeAgents, write: Callable[..., Path]) -> None:
    path = write("model.py", SOURCE)
    controlled.hold()

    async def conversation(client: AgentClient) -> None:
        run = asyncio.create_task(messages_of(client, path))
        await asyncio.to_thread(controlled.wait_for_event, "started")
        assert len(controlled.running) == 1
        assert not run.done()
        await asyncio.to_thread(controlled.finish)
        assert isinstance((await run)[-1], RunDone)
        assert controlled.running == []
        await asyncio.to_thread(controlled.hold, False)
        assert isinstance((await messages_of(client, path))[-1], RunDone)

    talk(controlled, conversation)
    assert len(controlled.runs) == 2


def test_a_held_run_can_be_cancelled(controlled: FakeAgents, write: Callable[..., Path]) -> None:
    path = write("model.py", SOURCE)
    controlled.hold()

    async def conversation(client: AgentClient) -> None:
        wanted = request(path)
        async for message in client.run(wanted):
            if isinstance(message, RunProgress) and message.phase == "capture":
                await client.cancel("another run")
                await client.cancel(wanted.run_id)
        assert isinstance(message, RunFailed)
        assert (message.state, message.failure.reason) == ("cancelled", "cancelled")

    talk(controlled, conversation)
    assert controlled.count("cancelled") == 2
    assert controlled.wait_for_event("ended")["state"] == "cancelled"


def test_a_cancel_right_behind_its_request_is_heard(controlled: FakeAgents, write: Callable[..., Path]) -> None:
    controlled.hold()
    wanted = request(write("model.py", SOURCE))

    async def conversation(client: AgentClient) -> None:
        messages = client.run(wanted)
        first = asyncio.ensure_future(anext(messages))
        await asyncio.sleep(0)
        await client.cancel(wanted.run_id)
        received = [await first, *[message async for message in messages]]
        assert isinstance(received[-1], RunFailed)
        assert received[-1].state == "cancelled"

    talk(controlled, conversation)


def test_a_crash_breaks_the_conversation_off(controlled: FakeAgents, write: Callable[..., Path]) -> None:
    path = write("model.py", SOURCE + "    # fake: crash\n")

    async def conversation(client: AgentClient) -> None:
        with pytest.raises(AgentError, match="the agent ended early; profile again"):
            await messages_of(client, path)

    talk(controlled, conversation)
    controlled.wait_for_event("gone")
    assert controlled.count("ended") == 0


def test_closing_the_wire_ends_a_held_run(controlled: FakeAgents, write: Callable[..., Path]) -> None:
    path = write("model.py", SOURCE)
    controlled.hold()

    async def conversation(client: AgentClient) -> None:
        async for message in client.run(request(path)):
            if isinstance(message, RunProgress) and message.phase == "capture":
                break

    talk(controlled, conversation)
    controlled.wait_for_event("gone")
    assert controlled.count("closed") == 1


# A server that shows the text it has: each line without its end as a hint at the line's start.
SERVER = """
import sys, time
from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.workspace import PositionCodec

server = LanguageServer("echo", "1")

@server.feature(types.TEXT_DOCUMENT_INLAY_HINT)
def hints(ls, params):
    text = ls.workspace.get_text_document(params.text_document.uri).source
    lines = text.replace("\\r\\n", "\\n").replace("\\r", "\\n").split("\\n")
    wanted = range(params.range.start.line, min(len(lines), params.range.end.line))
    return [types.InlayHint(types.Position(line, 0), lines[line]) for line in wanted]

@server.feature(types.TEXT_DOCUMENT_WILL_SAVE)
def will_save(ls, params):
    ls.protocol.notify("test/will", {"reason": int(params.reason)})

@server.feature(types.TEXT_DOCUMENT_DID_SAVE, types.SaveOptions(include_text=True))
def did_save(ls, params):
    ls.protocol.notify("test/saved", {"text": params.text})

@server.command("count")
def count(ls, *args):
    for number in range(3):
        ls.protocol.notify("test/number", {"number": number})
    return "counted"

@server.command("ask")
async def ask(ls, *args):
    scope = args[0] if args else None
    item = types.ConfigurationItem(section="profileNeuron.hints", scope_uri=scope)
    other = types.ConfigurationItem(section="python", scope_uri=scope)
    return await ls.workspace_configuration_async(types.ConfigurationParams(items=[item, other]))

@server.command("refresh")
async def refresh(ls, *args):
    await ls.workspace_inlay_hint_refresh_async(None)
    return "refreshed"

@server.command("hang")
def hang(ls, *args):
    time.sleep(600)

@server.command("end")
def end(ls, *args):
    print("going down", file=sys.stderr, flush=True)
    import os
    os._exit(7)

@server.command("noise")
def noise(ls, *args):
    sys.stdout.buffer.write(b"hello\\n")
    sys.stdout.buffer.flush()

server.start_io()
"""


@pytest.fixture
def echo(tmp_path: Path) -> Iterator[Callable[..., Client]]:
    """Start clients of that server; they are ended after the test."""
    script = tmp_path / "echo_server.py"
    script.write_text(SERVER, encoding="utf-8")
    clients: list[Client] = []

    def start(roots: list[Path] | None = None, **options: Any) -> Client:
        client = Client.start(roots or [tmp_path], command=[sys.executable, str(script)], **options)
        clients.append(client)
        return client

    yield start
    for client in clients:
        client.kill()


def command(client: Client, name: str, *arguments: object) -> Any:
    return client.request("workspace/executeCommand", {"command": name, "arguments": list(arguments)})


def labels(client: Client, uri: str) -> list[str]:
    return [hint["label"] for hint in client.hints(uri)]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
def test_document_and_server_agree_in_every_encoding(
    encoding: str, echo: Callable[..., Client], tmp_path: Path
) -> None:
    client = echo(position_encodings=[encoding])
    assert client.position_encoding == encoding
    document = client.open(tmp_path / "a.py", "s = '🧪😀'; y = x\nzwei = '測定 🇺🇸'\n")
    document.replace("y = x", "yy = xx")
    document.replace("zwei", "🧪")
    column = {"utf-8": 8, "utf-16": 6, "utf-32": 5}[encoding]
    document.change(((1, column), (1, column)), "é")
    assert document.text == "s = '🧪😀'; yy = xx\n🧪 = 'é測定 🇺🇸'\n"
    assert labels(client, document.uri) == document.text.split("\n")
    document.replace_all("a\r\nb\rc")
    assert labels(client, document.uri) == ["a", "b", "c"]
    assert document.version == 5


def test_a_position_counts_the_units_of_its_encoding() -> None:
    text = "a🧪b\r\n\x0cé\u2028c\rd"
    for encoding, after_emoji, after_separator in (("utf-8", 5, 6), ("utf-16", 3, 3), ("utf-32", 2, 3)):
        for offset, position in ((2, (0, after_emoji)), (text.index("c"), (1, after_separator)), (len(text), (2, 1))):
            assert position_of(text, offset, encoding) == position
            assert offset_of(text, {"line": position[0], "character": position[1]}, encoding) == offset
    assert offset_of(text, {"line": 0, "character": 99}, "utf-16") == 3, "the end of the line"
    assert offset_of(text, {"line": 9, "character": 0}, "utf-16") == len(text)
    assert applied("old", {"text": "new"}, "utf-16") == "new"


def test_notifications_keep_their_order_and_come_before_the_answer(echo: Callable[..., Client]) -> None:
    client = echo()
    assert command(client, "count") == "counted"
    mark = client.mark()
    assert [item.params["number"] for item in client.all("test/number")] == [0, 1, 2]
    assert client.wait_for("test/number", lambda params: params["number"] == 1) == {"number": 1}
    command(client, "count")
    assert client.count("test/number", after=mark) == 3


def test_requests_can_be_sent_without_waiting(echo: Callable[..., Client], tmp_path: Path) -> None:
    client = echo()
    document = client.open(tmp_path / "a.py", "start")
    sent = []
    params = {"textDocument": {"uri": document.uri}, "range": {"start": {"line": 0, "character": 0}, "end": {"line": 9, "character": 0}}}  # fmt: skip
    for number in range(50):
        document.replace_all(str(number))
        sent.append(client.send_request("textDocument/inlayHint", params))
    assert [client.wait_response(number)[0]["label"] for number in sent] == [str(number) for number in range(50)]


def test_saving_writes_the_file_between_the_two_notifications(echo: Callable[..., Client], tmp_path: Path) -> None:
    client = echo()
    path = tmp_path / "sub" / "a.py"
    document = client.open(path, "one\r\n")
    assert path.read_bytes() == b"one\r\n", "a new file was there before it was opened"
    document.replace("one", "zwei 🧪")
    assert path.read_bytes() == b"one\r\n"
    document.save(reason=2)
    client.barrier()
    assert [(item.method, item.params) for item in client.received] == [
        ("test/will", {"reason": 2}),
        ("test/saved", {"text": "zwei 🧪\r\n"}),
    ]
    assert path.read_bytes().decode() == "zwei 🧪\r\n"
    document.close()
    assert client.buffers == {}
    assert client.open(path).text == "zwei 🧪\r\n"


def test_settings_are_answered_by_section_and_root(echo: Callable[..., Client], tmp_path: Path) -> None:
    alpha, beta = tmp_path / "alpha", tmp_path / "beta"
    alpha.mkdir()
    client = echo([alpha, beta], settings={alpha: {"hints": {"minShare": 1}}, beta: {"hints": {"minShare": 2}}})
    assert command(client, "ask", (beta / "model.py").as_uri()) == [{"minShare": 2}, None]
    assert command(client, "ask", alpha.as_uri()) == [{"minShare": 1}, None]
    assert command(client, "ask") == [None, None]
    client.configure({"hints": {"minShare": 3}})
    assert command(client, "ask") == [{"minShare": 3}, None]
    client.configure(lambda scope: {"hints": scope})
    assert command(client, "ask", "untitled:a") == ["untitled:a", None]


def test_a_request_of_the_server_may_wait_for_its_answer(echo: Callable[..., Client]) -> None:
    client = echo(answers={"workspace/inlayHint/refresh": lambda params: LATER})
    number = client.send_request("workspace/executeCommand", {"command": "refresh", "arguments": []})
    client.wait_for("workspace/inlayHint/refresh")
    with pytest.raises(TimedOut, match="to workspace/executeCommand did not come within"):
        client.response(number, timeout_s=0.05)
    client.answer(client.all("workspace/inlayHint/refresh")[0])
    assert client.wait_response(number) == "refreshed"


def test_a_served_client_names_the_fake_agent_in_its_settings(
    fake: FakeAgents, serve: Callable[..., Client], tmp_path: Path
) -> None:
    script = tmp_path / "echo_server.py"
    script.write_text(SERVER, encoding="utf-8")
    root = tmp_path / "ws"
    settings = {root: {"decorator": {"other": 1}, "hints": {"minShare": 1}}}
    client = serve([root], command=[sys.executable, str(script)], settings=settings)
    assert command(client, "ask", (root / "model.py").as_uri()) == [{"minShare": 1}, None]
    asked = {"items": [{"section": "profileNeuron", "scopeUri": root.as_uri()}]}
    assert client.answers["workspace/configuration"](asked) == [
        {
            "interpreter": str(fake.interpreter),
            "decorator": {"modules": ["profile_neuron", "pn_api"], "other": 1},
            "hints": {"minShare": 1},
        }
    ]


def test_an_error_is_raised_with_its_code(echo: Callable[..., Client]) -> None:
    client = echo()
    with pytest.raises(LspError) as caught:
        client.request("test/nothing", {})
    assert caught.value.code == -32601


def test_a_server_ends_when_it_is_told_to(echo: Callable[..., Client]) -> None:
    client = echo()
    client.shutdown()
    assert client.exit() == 0
    client.stop()


def test_a_server_that_dies_is_told_with_its_log(echo: Callable[..., Client]) -> None:
    client = echo()
    with pytest.raises(ServerEnded, match="going down"):
        command(client, "end")
    assert client.wait_exit() == 7


def test_a_server_that_hangs_is_ended_by_force(echo: Callable[..., Client]) -> None:
    client = echo()
    client.send_request("workspace/executeCommand", {"command": "hang", "arguments": []})
    client.kill()
    assert client.process.returncode == -9


def test_what_is_no_message_is_a_fault(echo: Callable[..., Client]) -> None:
    client = echo()
    with pytest.raises(ServerEnded):
        command(client, "noise")
    assert client.faults == ["not a header: b'hello\\n'; what came after it was not read"]


def test_a_case_is_played_in_its_order(echo: Callable[..., Client], tmp_path: Path) -> None:
    folder = tmp_path / "X01-a-case"
    folder.mkdir()
    (folder / "model.py").write_text("von der Platte\n", encoding="utf-8")
    (folder / "expected.json").write_text("{}", encoding="utf-8")
    uri = "file:///ws/x01/model.py"
    ask = {"textDocument": {"uri": uri}, "range": {"start": {"line": 0, "character": 0}, "end": {"line": 9, "character": 0}}}  # fmt: skip
    messages: list[dict[str, Any]] = [
        {"from": "client", "id": 0, "method": "initialize", "params": {"capabilities": {"general": {"positionEncodings": ["utf-32"]}}}},
        {"from": "client", "method": "textDocument/didOpen", "params": {"textDocument": {"uri": uri, "languageId": "python", "version": 1, "text": "<model.py>"}}},
        {"from": "client", "id": 1, "method": "textDocument/inlayHint", "params": ask},
        {"from": "client", "method": "textDocument/didChange", "params": {"textDocument": {"uri": uri, "version": 2}, "contentChanges": [{"text": "<text>"}]}},
        {"from": "editor", "action": "look"},
        {"from": "client", "method": "textDocument/didSave", "params": {"textDocument": {"uri": uri}, "text": "another"}},
        {"from": "client", "id": 2, "method": "textDocument/inlayHint", "params": ask},
    ]  # fmt: skip
    (folder / "messages.jsonl").write_text("".join(json.dumps(item) + "\n" for item in messages), encoding="utf-8")
    root = tmp_path / "ws"
    seen: list[str] = []
    played = play(
        folder,
        echo,
        root,
        actions={"look": lambda message, played: seen.append((played.root / "model.py").read_text())},
        fill={"<text>": lambda played: "filled"},
        each=lambda message, played: seen.append(message.get("method") or message["from"]),
    )
    assert played.client.position_encoding == "utf-32"
    assert [hint["label"] for hint in played.answer(1)] == ["von der Platte", ""]
    assert [hint["label"] for hint in played.answer(2)] == ["filled"]
    assert [item.method for item in played.after(6)] == ["test/saved"]
    assert (root / "model.py").read_text() == "filled"
    assert not (root / "expected.json").exists()
    assert seen == [
        "initialize", "textDocument/didOpen", "textDocument/inlayHint", "textDocument/didChange",
        "von der Platte\n", "editor", "textDocument/didSave", "textDocument/inlayHint",
    ]  # fmt: skip


def test_a_recorded_case_leaves_the_text_that_it_expects(echo: Callable[..., Client], tmp_path: Path) -> None:
    expected = json.loads((case("P01") / "expected.json").read_text(encoding="utf-8"))
    played = play(case("P01"), echo, tmp_path / "ws")
    assert played.client.position_encoding == expected["positionEncoding"]
    assert played.answer(1)[4]["label"] == expected["textAfterMessage3Line4"]
    line = (tmp_path / "ws" / "model.py").read_text(encoding="utf-8").split("\n")[4]
    assert line == expected["textAfterMessage3Line4"]


def test_a_stack_of_answers_can_be_sent_at_once(echo: Callable[..., Client], tmp_path: Path) -> None:
    text = textwrap.dedent("""\
        {"from": "client", "method": "textDocument/didOpen", "params": {"textDocument": {"uri": "file:///ws/x02/a.py", "languageId": "python", "version": 1, "text": "a"}}}
        {"from": "client", "id": 1, "method": "test/nothing", "params": {}}
        {"from": "client", "id": 2, "method": "workspace/executeCommand", "params": {"command": "count"}}
    """)
    folder = tmp_path / "X02-another"
    folder.mkdir()
    (folder / "messages.jsonl").write_text(text, encoding="utf-8")
    played = play(folder, echo, tmp_path / "ws", pipeline=True)
    assert played.answers[1].error is not None
    assert played.answer(2) == "counted"
