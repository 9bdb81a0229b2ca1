"""What an error of user code tells of a compiler of Neuron that failed."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_COMPILER = "neuronx-cc"
# An error may be chained to itself.
_CHAIN_LIMIT = 20
_TEXT_LIMIT = 1 << 16
_LINE_LIMIT = 300
# As torch_neuronx and others say it, and as subprocess does, of which some keep only the text.
_STATUS = re.compile(
    rf"{_COMPILER} (?:failed|ended|exited|terminated)(?: with)?(?: exit)?(?: status| code)?[ :=]+(-?[1-9]\d*)"
    rf"|Command .*(?<![\w.-]){_COMPILER}['\" ].* returned non-zero exit status (\d+)"
)
_SIGNAL = re.compile(rf"Command .*(?<![\w.-]){_COMPILER}['\" ].* died with <Signals\.\w+: (\d+)>")
_LOG = re.compile(r"(/[^\s'\",;:)]*log[^\s'\",;:)]*\.(?:txt|log)|/[^\s'\",;:)]+\.log)\b")
_KILLED = 9


def compiler_failure(error: BaseException) -> str:
    """One sentence with exit status, last line and log; empty where no error of the chain tells of a compiler's end."""
    for link in _chain(error):
        status, text = _end(link)
        if status is not None:
            return f"compile-failed: {_ended(status)}{_details(text)}"
    return ""


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error, then what it was raised from or during, nearest first."""
    pending: list[BaseException] = [error]
    seen: set[int] = set()
    while pending and len(seen) < _CHAIN_LIMIT:
        link = pending.pop(0)
        if id(link) not in seen:
            seen.add(id(link))
            yield link
            pending += [other for other in (link.__cause__, link.__context__) if other is not None]


def _end(error: BaseException) -> tuple[int | None, str]:
    """How the compiler ended, by one error, and what it printed; a signal is a negative status."""
    if isinstance(error, subprocess.CalledProcessError):
        if not _is_compiler(error.cmd):
            return None, ""
        return error.returncode, _printed(error.stdout) + "\n" + _printed(error.stderr)
    try:
        text = str(error)[:_TEXT_LIMIT]
    except Exception:  # noqa: BLE001 - the user's own __str__ may raise anything
        return None, ""
    if (signal := _SIGNAL.search(text)) is not None:
        return -int(signal[1]), text
    status = _STATUS.search(text)
    return (None, "") if status is None else (int(status[1] or status[2]), text)


def _is_compiler(command: object) -> bool:
    """Whether a command starts the compiler, by itself or by an interpreter."""
    try:
        arguments = shlex.split(command) if isinstance(command, str) else list(command)  # type: ignore[call-overload]
        return _COMPILER in [os.path.basename(os.fsdecode(item)) for item in arguments[:2]]  # noqa: PTH119 - any text
    except (TypeError, ValueError):
        return False


def _printed(output: object) -> str:
    text = output.decode("utf-8", "replace") if isinstance(output, bytes) else output
    return text[-_TEXT_LIMIT:] if isinstance(text, str) else ""


def _ended(status: int) -> str:
    # A shell, and the compiler's own driver, tell a signal by a status above 128.
    if status in (-_KILLED, 128 + _KILLED):
        return f"{_COMPILER} was killed by signal {_KILLED}, as the system does when memory runs out"
    return (
        f"{_COMPILER} was ended by signal {-status}" if status < 0 else f"{_COMPILER} ended with exit status {status}"
    )


def _details(text: str) -> str:
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    logs = _LOG.findall(text)
    last = f": {lines[-1][:_LINE_LIMIT]}" if lines else ""
    return last + (f"; its log is {logs[-1]}" if logs and logs[-1] not in last else "")
