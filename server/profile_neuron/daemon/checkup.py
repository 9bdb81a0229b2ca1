"""What the command line's doctor says of an interpreter, asked for in a process of its own."""

from __future__ import annotations

import asyncio
import os
import tempfile
from typing import TYPE_CHECKING

from profile_neuron.daemon.hosts import own_command
from profile_neuron.errors import HostError

if TYPE_CHECKING:
    from collections.abc import Iterable

# Importing torch takes most of it, on a machine that does much else.
_LIMIT_S = 120


async def checkup(python: str, environment: Iterable[tuple[str, str]] = ()) -> str:
    """The doctor's text about an interpreter, which is executed for it.

    environment: variables beside our own, as runs get them. Raises HostError where there is no text.
    """
    process = await asyncio.create_subprocess_exec(
        *own_command("doctor", "--python", python),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd="/" if os.name == "posix" else tempfile.gettempdir(),
        env={**os.environ, **dict(environment)},
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(), _LIMIT_S)
    except asyncio.TimeoutError:
        raise HostError(
            f"the doctor of {python} did not end within {_LIMIT_S} s; run profile-neuron doctor --python {python}"
        ) from None
    finally:
        if process.returncode is None:
            # What it started ends with it, since that has a wire to it.
            process.kill()
            await process.wait()
    text = out.decode(errors="replace")
    if not text.strip():
        last = err.decode(errors="replace").strip().rpartition("\n")[2] or f"exit code {process.returncode}"
        raise HostError(f"the doctor of {python} said nothing ({last}); run profile-neuron doctor --python {python}")
    return text
