"""An editor that outlives its servers: what it shows is checked against the texts, and each request is timed."""

from __future__ import annotations

import contextlib
import re
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.lsp.client import Client, Document, LspError, ServerEnded, TimedOut, lsp_range, position_of
from tests.lsp.screen import PREFIX
from tests.torture import processes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.torture.counts import Counts
    from tests.torture.sources import Source
    from tests.torture.world import File, World

# Until an answer counts as none.
ANSWER_S = 60.0
# Until the runs that wait and are on count as stuck: some start a worker, some end by their time limit.
CALM_S = 180.0
_LOOK_AGAIN_S = 2.0

_TIME = r"(cpu [\d.]+ (ns|µs|ms|s)|no operators ran)"
# Every text that a lens may have.
TITLES = re.compile(
    "|".join(
        [
            "Profile on the CPU|Profile again|Re-profile|Cancel|Show log|Retry|Add inputs…|No inputs for this function",
            r"Queued( \(\d+ ahead\))?|(Starting|Importing|Building inputs|Profiling)…( .*)?",
            rf"Profile failed(: .+)?(, line \d+)?|Cancelled( \(last: {_TIME}\))?",
            rf"{_TIME}( \(.+, .+\))?( · .+)?",
        ]
    )
)
# A hint: stale or shared, time, share, operators, and what it is compared with.
_HINT = re.compile(
    r"(~|≈)?cpu [\d.]+ (?:ns|µs|ms|s)(?: · (?:<1|\d+) %)?(?: · (?:(\d+) ops?|shared))?(?: (?:[▲▼].*|new))?"
)
_ENDED = re.compile(r"(\S+): (.+) \(\d+\.\d s\)")


@dataclass
class _Asked:
    """A request that is not answered yet."""

    number: int
    method: str
    sent_s: float
    # What the file has shown since; the answer may be about any of it.
    file: File | None
    sources: list[Source]
    check: Callable[[Sequence[Source], Any], None] | None


@dataclass
class Editor:
    """One person's editor with one server at a time."""

    world: World
    counts: Counts
    # Where the servers keep their results.
    home: Path
    settings: dict[str, Any]
    generation: int = 0
    # Two agents of the present server, or an agent and its keeper, were killed one right after the other.
    are_both_killed: bool = False
    # Runs of each function that ended, by its name.
    runs: Counter[str] = field(default_factory=Counter)
    _client: Client | None = None
    _asked: list[_Asked] = field(default_factory=list)
    _read: int = 0

    # The server.

    @property
    def client(self) -> Client:
        assert self._client is not None
        return self._client

    @property
    def mark(self) -> str:
        """What the processes of the present server carry."""
        return f"{self.home}:{self.generation};"

    def start(self) -> None:
        """Start a server and open in it what was open."""
        self.generation += 1
        env = {
            "XDG_CACHE_HOME": str(self.home / "cache"),
            "XDG_STATE_HOME": str(self.home / "state"),
            processes.MARK: self.mark,
        }
        self._client = Client.start([self.world.folder], settings=self.settings, env=env)
        self._read, self.are_both_killed = 0, False
        self.counts.of["servers"] += 1
        for file in self.world.open_files:
            self.client.open(file.path, file.edited.text)

    def kill_server(self) -> None:
        """End the server at once; what it had not answered is lost."""
        processes.kill(self.client.process.pid)
        assert self.client.wait_exit() == -signal.SIGKILL
        for asked in self._asked:
            try:
                self._take(asked, timeout_s=0.0)
            except (ServerEnded, TimedOut):
                self.counts.of["requests lost with their server"] += 1
        self._asked = []
        self._end()

    def stop(self) -> None:
        """End the server as an editor does when it is closed."""
        self.collect()
        self.client.shutdown()
        code = self.client.exit()
        if code:
            self.counts.fault(f"the server ended with {code}")
        self._end()

    def _end(self) -> None:
        self.read_log()
        client = self.client
        self.counts.faults += [f"{self.counts.step}: {text}" for text in client.faults]
        if "Traceback" in client.stderr:
            self.counts.fault(f"the server printed a traceback:\n{client.stderr[-4000:]}")

    # Documents.

    def document(self, file: File) -> Document:
        return Document(self.client, file.path.as_uri())

    def open(self, file: File) -> None:
        """Open a file as it is on disk."""
        file.is_open, file.edited = True, file.saved
        self.client.open(file.path, file.edited.text)

    def close(self, file: File) -> None:
        """Close a file; what was not saved is lost."""
        self.document(file).close()
        file.is_open, file.edited = False, file.saved

    def edit(self, file: File, source: Source) -> None:
        """Show another text."""
        if source != file.edited:
            edit_document(self.document(file), source.text)
            file.edited = source
            file.history.append(source)
            for asked in self._asked:
                if asked.file is file:
                    asked.sources.append(source)

    def save(self, file: File) -> None:
        """Save by hand."""
        self.document(file).save()
        file.saved, file.is_undisturbed = file.edited, True
        self.world.written.update(file.saved.slots)

    # Requests.

    def ask(
        self,
        method: str,
        params: dict[str, Any],
        file: File | None = None,
        check: Callable[[Sequence[Source], Any], None] | None = None,
    ) -> None:
        """Send a request; collect takes its answer."""
        sent_s = time.monotonic()
        number = self.client.send_request(method, params)
        self._asked.append(_Asked(number, method, sent_s, file, [file.edited] if file is not None else [], check))

    def collect(self) -> None:
        """Wait for the answers to all requests."""
        asked, self._asked = self._asked, []
        for one in asked:
            try:
                self._take(one, ANSWER_S)
            except TimedOut:
                self.counts.fault(f"{one.method} was not answered within {ANSWER_S:g} s")
        self.read_log()

    def _take(self, asked: _Asked, timeout_s: float) -> None:
        response = self.client.response(asked.number, timeout_s)
        kind = "commands" if asked.method == "workspace/executeCommand" else "requests"
        self.counts.latencies[kind].append(response.at_s - asked.sent_s)
        try:
            value = response.value()
        except LspError as error:
            self.counts.fault(f"{asked.method} was answered with the error {error}")
            return
        if asked.check is not None:
            asked.check(asked.sources, value)

    def command(self, verb: str, *arguments: object) -> None:
        """Send one of the server's commands."""
        self.ask("workspace/executeCommand", {"command": f"{PREFIX}{verb}", "arguments": list(arguments)})

    def ask_lenses(self, file: File) -> None:
        self.ask("textDocument/codeLens", _about(file), file, self._check_lenses)

    def ask_hints(self, file: File) -> None:
        everything = lsp_range((0, 0), (9999, 0))
        self.ask("textDocument/inlayHint", {**_about(file), "range": everything}, file, self._check_hints)

    def ask_hover(self, file: File, line: int) -> None:
        position = {"line": line - 1, "character": 4}
        self.ask("textDocument/hover", {**_about(file), "position": position}, file)

    def lenses(self, file: File) -> dict[str, list[str]]:
        """Titles of each function of a file, as they are right now."""
        found: dict[str, list[str]] = {}

        def take(sources: Sequence[Source], answer: Any) -> None:
            self._check_lenses(sources, answer)
            names = {place.decorator: name for name, place in file.edited.places().items()}
            for lens in answer or []:
                name = names.get(lens["range"]["start"]["line"] + 1)
                if name is not None:
                    found.setdefault(name, []).append(lens["command"]["title"])

        self.ask("textDocument/codeLens", _about(file), file, take)
        self.collect()
        return found

    def hints(self, file: File) -> dict[int, str]:
        """Labels of a file by line, as they are right now."""
        found: dict[int, str] = {}

        def take(sources: Sequence[Source], answer: Any) -> None:
            self._check_hints(sources, answer)
            found.update({hint["position"]["line"] + 1: label(hint) for hint in answer or []})

        self.ask("textDocument/inlayHint", {**_about(file), "range": lsp_range((0, 0), (9999, 0))}, file, take)
        self.collect()
        return found

    # Waiting.

    def active(self) -> dict[str, str]:
        """The functions of open files that wait or are on, with their first titles."""
        return {
            name: titles[0]
            for file in self.world.open_files
            for name, titles in self.lenses(file).items()
            if "Cancel" in titles
        }

    def calm(self, limit_s: float = CALM_S) -> None:
        """Wait until no run waits or is on."""
        deadline = time.monotonic() + limit_s
        while True:
            mark = self.client.mark()
            active = self.active()
            if not active:
                break
            if time.monotonic() > deadline:
                raise TimedOut(f"still waiting or on after {limit_s:g} s: {active}\n{self.client.stderr[-4000:]}")
            # It tells of a change at once; a file without a lens tells nothing.
            with contextlib.suppress(TimedOut):
                self.client.wait_for("workspace/codeLens/refresh", after=mark, timeout_s=_LOOK_AGAIN_S)
        now_s = time.monotonic()
        for file in self.world.open_files:
            if file.edited == file.saved:
                self.world.learn(file, now_s, self.runs)

    def read_log(self) -> None:
        """Count the runs that ended, as the server's log has them."""
        messages = self.client.received[self._read :]
        self._read += len(messages)
        for message in messages:
            if message.method != "window/logMessage":
                continue
            found = _ENDED.fullmatch(message.params["message"])
            if found is None:
                continue
            name, summary = found[1].rpartition(".")[2], found[2]
            self.runs[name] += 1
            state = summary.partition(":")[0]
            self.counts.of[f"runs {state if state in _STATES else 'fresh'}"] += 1

    # Checks.

    def _check_lenses(self, sources: Sequence[Source], answer: Any) -> None:
        titles = [lens["command"]["title"] for lens in answer or []]
        for title in titles:
            if not TITLES.fullmatch(title):
                self.counts.fault(f"a lens says {title!r}")
        wrong = [self._wrong_lenses(source, answer or []) for source in sources]
        if all(wrong):
            self.counts.fault(f"{'; '.join(wrong[-1])} in\n{sources[-1].text}")

    def _wrong_lenses(self, source: Source, answer: list[dict[str, Any]]) -> list[str]:
        """What is wrong with lenses if they are of this text."""
        slots = {source.places()[slot.name].decorator: slot for slot in source.slots}
        wrong = []
        lines = [lens["range"]["start"]["line"] + 1 for lens in answer]
        if any(lines.count(line) > 3 for line in lines):
            wrong.append("more than three lenses are on a line")
        for line, lens in zip(lines, answer, strict=True):
            if line not in slots:
                wrong.append(f"line {line} has a lens and is no decorator's")
            elif lens["command"]["title"] == "Re-profile" and slots[line] not in self.world.written:
                wrong.append(f"{slots[line].name} has a result of a text that was never on disk")
        return wrong

    def _check_hints(self, sources: Sequence[Source], answer: Any) -> None:
        wrong = [_wrong_hints(source, answer or []) for source in sources]
        if all(wrong):
            self.counts.fault(f"{'; '.join(wrong[-1])} in\n{sources[-1].text}")


def _wrong_hints(source: Source, answer: list[dict[str, Any]]) -> list[str]:
    """What is wrong with hints if they are of this text."""
    operators = {line: count for place in source.places().values() for line, count in place.operators.items()}
    wrong = []
    for hint in answer:
        line, text = hint["position"]["line"] + 1, label(hint)
        found = _HINT.fullmatch(text)
        if found is None:
            wrong.append(f"a hint says {text!r}")
        elif line not in operators:
            wrong.append(f"line {line} has the hint {text!r} and is in no function")
        elif found[1] is None and operators[line] is not None and found[2] != str(operators[line]):
            wrong.append(f"line {line} has the hint {text!r} and runs {operators[line]} operators")
    lines = [hint["position"]["line"] for hint in answer]
    if len(lines) != len(set(lines)):
        wrong.append("a line has two hints")
    return wrong


_STATES = ("failed", "cancelled", "noInputs")


def label(hint: dict[str, Any]) -> str:
    """The text of a hint."""
    found = hint["label"]
    return found if isinstance(found, str) else "".join(part["value"] for part in found)


def operators_shown(text: str) -> int | None:
    """How many operators a hint tells; None for one that does not tell."""
    found = _HINT.fullmatch(text)
    return int(found[2]) if found is not None and found[2] else None


def edit_document(document: Document, text: str) -> None:
    """Give a document another text by the range in which it differs, as typing does."""
    old = document.text
    shorter = min(len(old), len(text))
    start = next((index for index in range(shorter) if old[index] != text[index]), shorter)
    end = next((index for index in range(shorter - start) if old[-1 - index] != text[-1 - index]), shorter - start)
    encoding = document.client.position_encoding
    span = (position_of(old, start, encoding), position_of(old, len(old) - end, encoding))
    document.change(span, text[start : len(text) - end])


def wrong_state(source: Source, name: str, titles: list[str]) -> str:
    """What is wrong with the lenses of a function whose text was run in full; empty for nothing."""
    slot = next(slot for slot in source.slots if slot.name == name)
    wanted = source.title(slot)
    is_right = titles[0] == wanted if wanted else "Re-profile" in titles
    return "" if is_right else f"{name} ({slot.kind.name}, {source.top.name}) says {titles}, not {wanted or 'a result'}"


def _about(file: File) -> dict[str, Any]:
    return {"textDocument": {"uri": file.path.as_uri()}}


def settings_for(timeout_s: float, environment: str) -> dict[str, Any]:
    """What the servers are told."""
    return {
        "interpreter": sys.executable,
        "hints": {"minShare": 0, "minTime": "1ns"},
        "run": {"timeout": timeout_s, "importTimeout": timeout_s, "env": {"TORTURE": environment}},
    }
