"""Settings from the client: pulled with their scope, or taken from where a client without that puts them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lsprotocol import types
from pygls.capabilities import get_capability

from profile_neuron.daemon.settings import CLIENT_NAMES, SECTION, parse
from profile_neuron.lsp import to_proto

if TYPE_CHECKING:
    from profile_neuron.daemon.daemon import Daemon
    from profile_neuron.lsp.server import Server


class Configuration:
    """Pulls on start and on change; says of each bad value once what is wrong."""

    def __init__(self, server: Server, daemon: Daemon, initial: object) -> None:
        self._server = server
        self._daemon = daemon
        self._can_pull = bool(get_capability(server.client_capabilities, "workspace.configuration", False))
        self._complained: set[str] = set()
        self._initial = _own(initial)
        self._apply("", self._initial)

    def start(self) -> None:
        """Ask for the first values, and to be told of later ones."""
        name = "workspace.did_change_configuration.dynamic_registration"
        if get_capability(self._server.client_capabilities, name, False):
            options = types.DidChangeConfigurationRegistrationOptions(section=SECTION)
            registration = types.Registration(SECTION, types.WORKSPACE_DID_CHANGE_CONFIGURATION, options)
            # Nothing depends on the answer: a client that refuses tells of changes unasked, or not at all.
            self._server.protocol.send_request(
                types.CLIENT_REGISTER_CAPABILITY, types.RegistrationParams([registration])
            )
        self.pull()

    def changed(self, params: types.DidChangeConfigurationParams) -> None:
        """workspace/didChangeConfiguration, whose own values count only for a client that cannot be asked."""
        if self._can_pull:
            self.pull()
            return
        given = _own(params.settings)
        if given is not None:
            self._apply("", given)

    def pull(self) -> None:
        """Ask for the values of all workspace folders, and of what is outside of them."""
        if not self._can_pull:
            return
        self._daemon.await_settings()
        roots = ("", *self._daemon.roots)
        items = [
            types.ConfigurationItem(scope_uri=to_proto.uri(root) if root else None, section=SECTION) for root in roots
        ]
        future = self._server.protocol.send_request(
            types.WORKSPACE_CONFIGURATION, types.ConfigurationParams(items=items)
        )

        def take(answered: Any) -> None:
            values = None if answered.cancelled() or answered.exception() is not None else answered.result()
            for root, value in zip(roots, values if isinstance(values, (list, tuple)) else (), strict=False):
                # A client that has nothing for us has not taken back what it began with.
                self._apply(root, self._initial if value is None else value)
            self._daemon.settings_came()

        future.add_done_callback(take)

    def _apply(self, root: str, raw: object) -> None:
        settings, bad = parse(raw)
        for item in bad:
            if item.reason not in self._complained:
                self._complained.add(item.reason)
                self._server.editor.warn(item.reason)
        self._daemon.set_settings(root, settings)


_OURS = frozenset(name.partition(".")[0] for name in CLIENT_NAMES)


def _own(given: object) -> object:
    """Our part of settings that may be those of all servers; None where there is none."""
    if not isinstance(given, dict):
        return given
    if SECTION in given:
        return given[SECTION]
    return given if any(str(name).partition(".")[0] in _OURS for name in given) else None
