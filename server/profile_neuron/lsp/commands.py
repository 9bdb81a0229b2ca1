"""workspace/executeCommand: what a person can ask for, from a lens or from a palette.

A command takes one argument: a map with the document's uri, and either qualname and occurrence of a function, or
a line (from 0) or position in it. The form (uri, position) is taken as well. selectInputs takes a name behind them.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lsprotocol import types
from pygls.capabilities import get_capability
from pygls.exceptions import JsonRpcException

from profile_neuron.daemon.opening import Opening
from profile_neuron.daemon.scheduler import FunctionId
from profile_neuron.daemon.screen import Screen
from profile_neuron.errors import ProfileNeuronError
from profile_neuron.folders import cache_folder
from profile_neuron.lsp import code_action, from_proto, notifications, to_proto

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from profile_neuron.daemon.daemon import Daemon
    from profile_neuron.daemon.files import OpenFile
    from profile_neuron.daemon.opening import Capture
    from profile_neuron.lsp.server import Server

log = logging.getLogger(__name__)

_OPEN_FOLDER = "Open the folder"
# An opening that takes longer is told of.
_QUIET_S = 2.0
_WHERE = "put the cursor into a function marked @profile_neuron of an open Python file"


class Commands:
    """Each public method is one command, named profileNeuron.server.NAME; a run's ids are the answer."""

    def __init__(self, server: Server, daemon: Daemon) -> None:
        self._server = server
        self._daemon = daemon
        self._screen = Screen(daemon)

    def table(self) -> dict[str, Callable[[list[Any]], Awaitable[Any]]]:
        """Every command by its full name."""
        found = {
            "profileFunction": self.profile_function,
            "profileFile": self.profile_file,
            "profileAllStale": self.profile_all_stale,
            "cancel": self.cancel,
            "cancelAll": self.cancel_all,
            "clear": self.clear,
            "pinBaseline": self.pin_baseline,
            "unpinBaseline": self.unpin_baseline,
            "release": self.release,
            "toggleInline": self.toggle_inline,
            "showReport": self.show_report,
            "showLog": self.show_log,
            "goToFailure": self.go_to_failure,
            "addInputs": self.add_inputs,
            "selectInputs": self.select_inputs,
            "openInExplorer": self.open_in_explorer,
            "doctor": self.doctor,
        }
        return {f"{to_proto.COMMAND_PREFIX}{name}": handler for name, handler in found.items()}

    async def profile_function(self, arguments: list[Any]) -> list[str]:
        """Run the function that is named, or that a position is in; one that is not marked can be."""
        file = await self._file(arguments)
        if file is None:
            return []
        functions = self._meant(file, arguments)
        line = _line(arguments)
        function = code_action.unmarked_at(file, line) if not functions and line is not None else None
        if function is not None:
            code_action.offer_mark(self._server, self._daemon, file, function)
        elif not functions:
            self._server.editor.warn(f"there is no marked function; {_WHERE}")
        if not functions:
            return []
        return list(await self._daemon.profile(file.path, functions))

    async def profile_file(self, arguments: list[Any]) -> list[str]:
        """Run all functions of a file."""
        file = await self._file(arguments)
        return list(await self._daemon.profile(file.path, None)) if file is not None else []

    async def profile_all_stale(self, arguments: list[Any]) -> list[str]:
        """Run what has no result of today's code in all open files."""
        return list(await self._daemon.profile_all_stale())

    async def cancel(self, arguments: list[Any]) -> None:
        """End the run of a function, waiting or on."""
        _, functions = await self._functions(arguments)
        if functions:
            self._daemon.cancel(functions)

    async def cancel_all(self, arguments: list[Any]) -> None:
        """End all runs."""
        self._daemon.cancel(None)

    async def clear(self, arguments: list[Any]) -> None:
        """Forget the results of a file."""
        file = await self._file(arguments)
        if file is not None:
            self._daemon.clear(file.path)

    async def pin_baseline(self, arguments: list[Any]) -> None:
        """Pin today's result of a function as the one that later ones are compared with, in place of another."""
        _, functions = await self._functions(arguments)
        for function in functions:
            self._daemon.pin(function)

    async def unpin_baseline(self, arguments: list[Any]) -> None:
        """Take back what was pinned of a function."""
        _, functions = await self._functions(arguments)
        for function in functions:
            self._daemon.unpin(function)

    async def release(self, arguments: list[Any]) -> None:
        """Let go of the NeuronCores that idle workers of this server hold."""
        text = "; ".join(await self._daemon.release())
        self._server.window_show_message(types.ShowMessageParams(types.MessageType.Info, text))

    async def toggle_inline(self, arguments: list[Any]) -> None:
        """Hide or show hints and lenses."""
        self._daemon.toggle()

    async def show_report(self, arguments: list[Any]) -> None:
        """Show every line of a function and its operators, or a document about profiles of the user's own.

        A client that draws reports itself is told of which one, and asks for it.
        """
        _, about = _about(arguments)
        if about.get("foreign") is True:
            await self._show_foreign_report(arguments)
            return
        file, functions = await self._functions(arguments)
        if file is None or not functions:
            return
        if self._server.extension.report:
            wanted = notifications.FunctionParams(file.uri, functions[0].qualname, functions[0].occurrence)
            self._server.protocol.notify(notifications.SHOW_REPORT, notifications.to_json(wanted))
        else:
            self._show_text(functions[0], "report", "md", self._screen.markdown_report(file, functions[0]))

    async def _show_foreign_report(self, arguments: list[Any]) -> None:
        file = await self._file(arguments)
        _, about = _about(arguments)
        qualname, occurrence = about.get("qualname"), about.get("occurrence", 0)
        if file is None or not isinstance(qualname, str) or not isinstance(occurrence, int):
            return
        function = FunctionId(file.path, qualname, occurrence)
        text = self._screen.foreign_report(file, function)
        if text:
            self._show_text(function, "profile", "md", text)
        else:
            self._server.editor.warn(f"your profiles of {qualname} are no longer there")

    async def show_log(self, arguments: list[Any]) -> None:
        """Open a document with what a function printed in its last run, and how that ended."""
        _, functions = await self._functions(arguments)
        if functions:
            self._show_text(functions[0], "log", "txt", self._screen.log_of(functions[0]))

    async def doctor(self, arguments: list[Any]) -> None:
        """Open a document with what the doctor says of a folder's Python; without an argument of the first one's."""
        document, _ = _about(arguments)
        self._server.start(self._check_up(from_proto.path(document) or ""), "doctor")

    async def _check_up(self, path: str) -> None:
        checkup = asyncio.ensure_future(self._daemon.checkup(path))
        done, _ = await asyncio.wait([checkup], timeout=_QUIET_S)
        if not done:
            text = "the doctor starts your Python and looks at its packages and the device, which may take a minute"
            self._server.window_show_message(types.ShowMessageParams(types.MessageType.Info, text))
        try:
            text, root = await checkup
        except ProfileNeuronError as error:
            self._server.editor.warn(str(error))
        else:
            self._show_document(f"{Path(root).name}-doctor", root, "txt", text, f"what the doctor says of {root}")

    async def open_in_explorer(self, arguments: list[Any]) -> None:
        """Show the capture of a function in Neuron Explorer; nothing waits until that has processed it."""
        _, functions = await self._functions(arguments)
        if functions:
            self._server.start(self._open(functions[0]), f"open {functions[0].qualname}")

    async def _open(self, function: FunctionId) -> None:
        capture = await self._daemon.capture(function)
        if isinstance(capture, Opening):
            self._tell(capture)
        elif not await self._is_opened_by_client(capture):
            await self._open_in_viewer(capture)

    async def _is_opened_by_client(self, capture: Capture) -> bool:
        """Whether the client needs no viewer of ours, since it shows a capture itself or nothing else may."""
        mode = capture.settings.explorer_mode
        if mode not in ("auto", "extension") or not self._server.extension.open_capture:
            return False
        params = notifications.OpenCaptureParams(capture.name, capture.folder, mode)
        result = await self._ask(notifications.OPEN_CAPTURE, params)
        if not result.is_shown and mode == "extension":
            self._server.editor.warn(
                result.problem
                or f"no extension of your editor shows the capture of {capture.name}; set profileNeuron.explorer.mode "
                "to browser to see it in one"
            )
        return result.is_shown or mode == "extension"

    async def _open_in_viewer(self, capture: Capture) -> None:
        name = capture.name
        opening = asyncio.ensure_future(self._daemon.open(capture))
        done, _ = await asyncio.wait([opening], timeout=_QUIET_S)
        if not done:
            text = f"Neuron Explorer reads the capture of {name}, which may take minutes"
            self._server.window_show_message(types.ShowMessageParams(types.MessageType.Info, text))
        opened = await opening
        if not opened.url:
            self._tell(opened)
        elif self._server.extension.open_page:
            params = notifications.OpenPageParams(opened.url, capture.settings.explorer_api_port)
            result = await self._ask(notifications.OPEN_PAGE, params)
            if not result.is_shown:
                why = f"{result.problem.rstrip('.')}; " if result.problem else ""
                self._server.editor.warn(f"{why}{name} is shown at {opened.url}")
        else:
            self._show_page(opened.url, f"{name} is shown at {opened.url}")

    def _tell(self, opened: Opening) -> None:
        """Say why no page shows a capture, and offer what there is in its place."""
        if opened.folder:
            self._offer_folder(opened.folder, opened.problem)
        elif opened.problem:
            self._server.editor.warn(opened.problem)

    async def _ask(self, method: str, params: object) -> notifications.OpenResult:
        """Have our extension show something; waits for its answer, so only for tasks."""
        try:
            answer = await asyncio.wrap_future(
                self._server.protocol.send_request(method, notifications.to_json(params))
            )
        except JsonRpcException as error:
            log.warning("the client answered %s with an error: %s", method, error)
            return notifications.OpenResult()
        return notifications.open_result(answer)

    def _show_page(self, url: str, otherwise: str) -> None:
        """Have the client open an address in a browser, or say it to one that cannot or does not."""

        def tell() -> None:
            self._server.window_show_message(types.ShowMessageParams(types.MessageType.Info, otherwise))

        def answered(future: Any) -> None:
            if future.cancelled() or future.exception() is not None or not getattr(future.result(), "success", False):
                tell()

        if get_capability(self._server.client_capabilities, "window.show_document.support", False):
            params = types.ShowDocumentParams(url, external=True)
            self._server.protocol.send_request(types.WINDOW_SHOW_DOCUMENT, params).add_done_callback(answered)
        else:
            tell()

    def _offer_folder(self, folder: str, message: str) -> None:
        """Have a person open the folder of a capture; nothing waits for the answer."""
        if not get_capability(self._server.client_capabilities, "window.show_document.support", False):
            self._server.editor.warn(message)
            return
        action = types.MessageActionItem(_OPEN_FOLDER)
        params = types.ShowMessageRequestParams(types.MessageType.Warning, message, [action])

        def take(answered: Any) -> None:
            if answered.cancelled() or answered.exception() is not None:
                return
            if getattr(answered.result(), "title", None) == _OPEN_FOLDER:
                self._show_page(to_proto.uri(folder), f"the capture is in {folder}")

        self._server.protocol.send_request(types.WINDOW_SHOW_MESSAGE_REQUEST, params).add_done_callback(take)

    async def go_to_failure(self, arguments: list[Any]) -> None:
        """Show the line that made a run fail."""
        file, functions = await self._functions(arguments)
        if file is None or not functions:
            return
        for view in self._daemon.views(file):
            if (view.spec.qualname, view.occurrence) == functions[0][1:]:
                line = view.failure_line or view.spec.def_line
                selection = to_proto.whole_line(line, file.client_lines, self._server.encoding)
                reason = view.failure.reason if view.failure is not None else ""
                self._show(file.uri, selection, f"line {line}: {reason}")

    async def add_inputs(self, arguments: list[Any]) -> None:
        """Write the beginning of a function that gives the inputs of another, at the end of its file."""
        file, functions = await self._functions(arguments)
        if file is None or file.outline is None or not functions:
            return
        _, qualname, occurrence = functions[0]
        function = file.outline.function(qualname, occurrence)
        if function is None:
            return
        names, keywords = function.parameters
        if function.spec.kind.endswith("method") and names[:1] in (("self",), ("cls",)):
            names = names[1:]
        given = f"({', '.join(names)}{',' if len(names) == 1 else ''})"
        if keywords:
            given = "{" + ", ".join(f'"{item}": {item}' for item in (*names, *keywords)) + "}"
        name = f"{qualname.replace('.<locals>', '').replace('.', '_')}_inputs"
        last = len(file.lines)
        gap = "\n\n" if not file.lines[-1] else "\n\n\n"
        text = (
            f"{gap}def {name}():\n"
            f'    """What {qualname} is called with when it is profiled."""\n'
            f"    raise NotImplementedError('return {given}')\n"
        )
        at = to_proto.end_of_line(last, file.client_lines, self._server.encoding)
        if not get_capability(self._server.client_capabilities, "workspace.apply_edit", False):
            self._server.editor.warn(f"add a function {name} to the file that returns {given}")
            return
        edit = types.WorkspaceEdit(changes={file.uri: [types.TextEdit(types.Range(at, at), text)]})
        self._server.protocol.send_request(types.WORKSPACE_APPLY_EDIT, types.ApplyWorkspaceEditParams(edit))
        line = types.Position(last - 1 + text.count("\n") - 1, 0)
        self._show(file.uri, types.Range(line, line), f"{name} was added at the end of the file")

    async def select_inputs(self, arguments: list[Any]) -> None:
        """Run a function with another of its named inputs from now on; the last argument says which, else a person."""
        *about, last = arguments or [None]
        name = last if about and isinstance(last, str) else ""
        file, functions = await self._functions(about if name else arguments)
        if file is None or file.outline is None or not functions:
            return
        function = file.outline.function(functions[0].qualname, functions[0].occurrence)
        known = function.spec.input_sets if function is not None else ()
        if name in known:
            self._daemon.select_inputs(functions[0], name)
        elif not known:
            self._server.editor.warn(
                f"{functions[0].qualname} has no named inputs; write them into its decorator, for example "
                'inputs={"small": make_small, "large": make_large}'
            )
        elif name:
            self._server.editor.warn(f"{functions[0].qualname} has no inputs {name}; it has {', '.join(known)}")
        else:
            self._ask_for_inputs(functions[0], known)

    def _ask_for_inputs(self, function: FunctionId, names: tuple[str, ...]) -> None:
        """Have a person choose; nothing waits for the answer."""
        message = f"Which inputs is {function.qualname} to be profiled with?"
        actions = [types.MessageActionItem(name) for name in names]
        params = types.ShowMessageRequestParams(types.MessageType.Info, message, actions)

        def take(answered: Any) -> None:
            if answered.cancelled() or answered.exception() is not None:
                return
            title = getattr(answered.result(), "title", None)
            if title in names:
                self._daemon.select_inputs(function, title)

        self._server.protocol.send_request(types.WINDOW_SHOW_MESSAGE_REQUEST, params).add_done_callback(take)

    async def _file(self, arguments: list[Any]) -> OpenFile | None:
        document, _ = _about(arguments)
        file = await self._daemon.analysed(from_proto.path(document) or "")
        if file is None:
            self._server.editor.warn(f"no function can be found there; {_WHERE}")
        return file

    async def _functions(self, arguments: list[Any]) -> tuple[OpenFile | None, tuple[FunctionId, ...]]:
        """The file and the function that the arguments are about; says so where there is none."""
        file = await self._file(arguments)
        if file is None:
            return None, ()
        functions = self._meant(file, arguments)
        if not functions:
            self._server.editor.warn(f"there is no marked function; {_WHERE}")
        return file, functions

    def _meant(self, file: OpenFile, arguments: list[Any]) -> tuple[FunctionId, ...]:
        """The function of a file that the arguments are about, if there is one."""
        _, about = _about(arguments)
        if isinstance(qualname := about.get("qualname"), str):
            occurrence = about.get("occurrence", 0)
            wanted = FunctionId(file.path, qualname, occurrence if isinstance(occurrence, int) else 0)
            return (wanted,) if self._screen.has(file, wanted) else ()
        line = _line(arguments)
        return self._screen.functions_at(file, line) if line is not None else ()

    def _show_text(self, function: FunctionId, kind: str, suffix: str, text: str) -> None:
        """Open a text of ours about a function."""
        identity = "\0".join(map(str, function))
        what = f"the {kind} of {function.qualname}"
        self._show_document(f"{function.qualname[:60]}-{kind}", identity, suffix, text, what)

    def _show_document(self, title: str, identity: str, suffix: str, text: str, what: str) -> None:
        """Open a text of ours as a file of the user's cache folder, the same one for the same title and identity."""
        digest = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        name = re.sub(r"[^A-Za-z0-9_.]+", "-", title)
        try:
            path = Path(cache_folder("documents"), f"{name}-{digest}.{suffix}")
            path.write_text(text, encoding="utf-8", errors="replace")
        except OSError as error:
            self._server.editor.warn(f"{what} cannot be written: {error}")
            return
        self._show(to_proto.uri(str(path)), None, f"{what} is in {path}")

    def _show(self, document: str, selection: types.Range | None, otherwise: str) -> None:
        """Have the client show a document, or say where it is to one that cannot."""
        if get_capability(self._server.client_capabilities, "window.show_document.support", False):
            params = types.ShowDocumentParams(document, take_focus=True, selection=selection)
            self._server.protocol.send_request(types.WINDOW_SHOW_DOCUMENT, params)
        else:
            self._server.window_show_message(types.ShowMessageParams(types.MessageType.Info, otherwise))


def _about(arguments: list[Any]) -> tuple[str, dict[str, Any]]:
    """The document and what else is said of a function."""
    match arguments:
        case [{"uri": str(document)} as about]:
            return document, about
        case [str(document)]:
            return document, {}
        case [str(document), dict(position)]:
            return document, position
    return "", {}


def _line(arguments: list[Any]) -> int | None:
    """The line that the arguments name, if they do."""
    match _about(arguments)[1]:
        case {"line": int(line0)} | {"position": {"line": int(line0)}}:
            return line0 + 1
    return None
