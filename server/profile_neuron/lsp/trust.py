"""Whether code of a folder may be run: from a client that knows trust, else one question to the person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lsprotocol import types

from profile_neuron.lsp import notifications

if TYPE_CHECKING:
    from collections.abc import Sequence

    from profile_neuron.daemon.daemon import Daemon
    from profile_neuron.lsp.server import Server

_YES, _NO = "Trust and run", "Do not run"
_NAMED = 5


def ask(server: Server, daemon: Daemon, root: str, names: Sequence[str]) -> None:
    """Ask whether what a save would run may be run; no answer means no, until the next start."""
    shown = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
    message = (
        f"profile-neuron runs marked functions when you save: {shown}. That executes their file and what it imports. "
        f"Do you trust the code in {root}?"
    )
    actions = [types.MessageActionItem(_YES), types.MessageActionItem(_NO)]
    params = types.ShowMessageRequestParams(types.MessageType.Info, message, actions)

    def take(answered: Any) -> None:
        if answered.cancelled() or answered.exception() is not None:
            return
        title = getattr(answered.result(), "title", None)
        if title in (_YES, _NO):
            daemon.answer_trust(root, title == _YES)

    server.protocol.send_request(types.WINDOW_SHOW_MESSAGE_REQUEST, params).add_done_callback(take)


def notified(daemon: Daemon, params: Any) -> None:
    """The client's own word on trust, whenever the editor's own notion of it changes."""
    word = notifications.trust(params)
    if word is not None:
        daemon.set_trust(word.trusted)
