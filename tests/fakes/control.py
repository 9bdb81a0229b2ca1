"""The test's end of the fake agents: hears their events, holds their runs and lets them finish."""

from __future__ import annotations

import json
import shlex
import shutil
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

TIMEOUT_S = 20.0

Event = dict[str, Any]


def write_interpreter(folder: Path, name: str = "fake-python") -> Path:
    """An executable that starts a fake agent, whatever arguments it gets; to be named as the interpreter."""
    script = folder / name
    command = shlex.join([sys.executable, str(Path(__file__).with_name("agent.py"))])
    script.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    script.chmod(0o755)
    return script


class _Connection:
    """One fake agent, for as long as its process lives."""

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        self.pid = 0
        self.held: bool | None = None
        self.gone = False

    def send(self, **command: object) -> None:
        # One that has ended in the meantime tells so by the end of its stream.
        try:
            self.socket.sendall(json.dumps(command).encode() + b"\n")
        except OSError:
            self.gone = True


class FakeAgents:
    """All fake agents that a server starts.

    Events are dicts in the order of their arrival, with the agent's pid: hello, held, started, refused, cancelled,
    ended, closed, and gone where the process has ended.
    """

    def __init__(self, folder: Path) -> None:
        self.interpreter = write_interpreter(folder)
        self.events: list[Event] = []
        # A socket's path may be only a hundred characters long.
        self._folder = Path(tempfile.mkdtemp(prefix="pn-"))
        self._path = self._folder / "agent"
        self._changed = threading.Condition()
        self._connections: list[_Connection] = []
        self._threads: list[threading.Thread] = []
        self._hold: bool | None = None
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self._path))
        self._listener.listen()
        self._acceptor = threading.Thread(target=self._accept, name="fake agents")
        self._acceptor.start()

    @property
    def env(self) -> dict[str, str]:
        """What a server's environment needs for its agents to find this."""
        return {"PN_FAKE_AGENT": str(self._path)}

    @property
    def runs(self) -> list[Event]:
        """Every run that was started."""
        return self._named("started")

    @property
    def running(self) -> list[Event]:
        """The runs that are on."""
        with self._changed:
            over = {event["run_id"] for event in self._named("ended")}
            gone = {event["pid"] for event in self._named("gone")}
            return [run for run in self.runs if run["run_id"] not in over and run["pid"] not in gone]

    def mark(self) -> int:
        """The present end of the events, to be given as after."""
        with self._changed:
            return len(self.events)

    def count(self, name: str, after: int = 0) -> int:
        """How many events of a name there were."""
        return len(self._named(name, after))

    def wait_for_event(
        self,
        name: str,
        predicate: Callable[[Event], bool] = lambda event: True,
        after: int = 0,
        timeout_s: float = TIMEOUT_S,
    ) -> Event:
        """The first event of a name that fits, which may have come already."""

        def find() -> Event | None:
            return next((event for event in self._named(name, after) if predicate(event)), None)

        found: Event = self._wait(find, f"the event {name}", timeout_s)
        return found

    def hold(self, on: bool = True) -> None:
        """From now on every run waits in its capture for finish, or no run waits any more."""
        with self._changed:
            self._hold = on
            connections = list(self._connections)
        for connection in connections:
            connection.send(hold=on)
        self._wait(lambda: all(one.gone or one.held is on for one in connections), "an answer to hold", TIMEOUT_S)

    def finish(self, run_id: str = "") -> Event:
        """Let a run finish, by default the oldest that is on, for whose start this waits; gives its last event."""
        if not run_id:
            run_id = self._wait(lambda: self.running, "a run", TIMEOUT_S)[0]["run_id"]
        run = self.wait_for_event("started", lambda event: event["run_id"] == run_id)
        with self._changed:
            connections = list(self._connections)
        for connection in connections:
            connection.send(finish=run_id)

        def last() -> Event | None:
            ended = (event for event in self._named("ended") if event["run_id"] == run_id)
            gone = (event for event in self._named("gone") if event["pid"] == run["pid"])
            return next(ended, None) or next(gone, None)

        ended: Event = self._wait(last, f"the end of the run {run_id}", TIMEOUT_S)
        return ended

    def close(self) -> None:
        """Wait until all agents are gone, and fail where one stays without its server."""
        try:
            self._wait(lambda: all(one.gone for one in self._connections), "the end of all agents", TIMEOUT_S)
        finally:
            self._listener.shutdown(socket.SHUT_RDWR)
            self._acceptor.join()
            self._listener.close()
            for connection in self._connections:
                if not connection.gone:
                    connection.socket.shutdown(socket.SHUT_RDWR)
            for thread in self._threads:
                thread.join()
            shutil.rmtree(self._folder)

    def _named(self, name: str, after: int = 0) -> list[Event]:
        with self._changed:
            return [event for event in self.events[after:] if event["event"] == name]

    def _wait(self, find: Callable[[], Any], what: str, timeout_s: float) -> Any:
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while not (found := find()):
                rest = deadline - time.monotonic()
                if rest <= 0:
                    said = "\n".join(map(str, self.events)) or "none"
                    raise AssertionError(f"{what} did not come within {timeout_s:g} s; events so far:\n{said}")
                self._changed.wait(rest)
            return found

    def _accept(self) -> None:
        while True:
            try:
                connected, _ = self._listener.accept()
            except OSError:
                return
            connection = _Connection(connected)
            thread = threading.Thread(target=self._hear, args=[connection], name="fake agent")
            with self._changed:
                self._connections.append(connection)
                self._threads.append(thread)
                # An agent says hello only after this line, so a hold from before holds its first run too.
                connection.send(hold=self._hold)
            thread.start()

    def _hear(self, connection: _Connection) -> None:
        with connection.socket, connection.socket.makefile("r", encoding="utf-8") as lines:
            try:
                for line in lines:
                    self._take(connection, json.loads(line))
            except ConnectionError:
                pass
            self._take(connection, {"event": "gone", "pid": connection.pid})

    def _take(self, connection: _Connection, event: Event) -> None:
        with self._changed:
            connection.pid = event["pid"]
            if event["event"] == "held":
                connection.held = event["hold"]
            if event["event"] == "gone":
                connection.gone = True
            self.events.append(event)
            self._changed.notify_all()
