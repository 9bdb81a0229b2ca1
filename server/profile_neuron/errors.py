"""The exceptions this package raises.

    ProfileNeuronError            one sentence that names the thing and what to do
    ├── HostError                 a process or connection could not be had
    ├── AgentError                the agent cannot be understood
    │   └── AgentLostError        it went away; another one may fare better
    ├── WireError                 bytes that are not a message
    ├── SourceError               a Python file that cannot be read or parsed; carries the line
    ├── CaptureError              a run folder that gives no result
    └── StoreError                results cannot be read or kept

User code's own errors are never raised here: they travel as data, in model.Failure.
"""

from __future__ import annotations


class ProfileNeuronError(Exception):
    """Its text is one sentence for a person: what happened, to what, and what to do."""


class HostError(ProfileNeuronError):
    """A process of ours could not be started."""


class AgentError(ProfileNeuronError):
    """The agent cannot be understood, or says that it cannot do what it was asked."""


class AgentLostError(AgentError):
    """The agent ended, or broke the wire, before it answered."""


class WireError(ProfileNeuronError):
    """Bytes on the wire that are no message of this protocol."""


class SourceError(ProfileNeuronError):
    """A file that is not Python source as CPython reads it."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        # 1-based, None where the whole file is meant.
        self.line = line


class CaptureError(ProfileNeuronError):
    """A run folder, or a file in it, from which no result can be made."""


class StoreError(ProfileNeuronError):
    """The file of finished results cannot be read or written."""
