"""textDocument/codeAction: what can be done about the code at a place, as edits and as commands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lsprotocol import types
from pygls.capabilities import get_capability

from profile_neuron.core.discovery import DECORATOR
from profile_neuron.core.marking import import_with_fallback, mark_function
from profile_neuron.core.statements import first_line
from profile_neuron.daemon.screen import Screen
from profile_neuron.lsp import from_proto, to_proto

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from profile_neuron.core.discovery import Found
    from profile_neuron.core.marking import LineEdit
    from profile_neuron.daemon.daemon import Daemon
    from profile_neuron.daemon.files import OpenFile
    from profile_neuron.lsp.server import Server

OPTIONS = types.CodeActionOptions([types.CodeActionKind.QuickFix, types.CodeActionKind.RefactorRewrite])

_ADD = "Add @profile_neuron"
# What to do about remarks of ours, by their codes: title and command.
_COMMANDS = {
    "no-inputs": (("Add inputs", "addInputs"),),
    **dict.fromkeys(("run-failed", "timeout", "device-busy"), (("Show log", "showLog"), ("Retry", "profileFunction"))),
}


async def answer(server: Server, daemon: Daemon, params: types.CodeActionParams) -> list[types.CodeAction]:
    """What is offered in a range; nothing to a client that takes commands alone."""
    literals = "text_document.code_action.code_action_literal_support"
    if get_capability(server.client_capabilities, literals, None) is None:
        return []
    file = await daemon.analysed(from_proto.path(params.text_document.uri) or "")
    if file is None or not daemon.settings_of(file.root).enable:
        return []
    actions = [*_edits(server, daemon, file, params.range), *_remedies(Screen(daemon), file, params.context)]
    wanted = params.context.only
    return [action for action in actions if wanted is None or any(_is_of(action.kind, kind) for kind in wanted)]


def unmarked_at(file: OpenFile, line: int) -> Found | None:
    """The function that a line of an analysed file is in, if it could be marked and is not."""
    if file.outline is None or file.error is not None:
        return None
    function = file.outline.unmarked(line)
    if function is None:
        return None
    # One of this name stands in for the decorator where that is missing.
    return None if function.node.name in (DECORATOR, file.outline.spelling_at(line)) else function


def offer_mark(server: Server, daemon: Daemon, file: OpenFile, function: Found) -> None:
    """Have a person choose whether a function is marked; nothing waits for the answer."""
    name = function.qualname
    if not get_capability(server.client_capabilities, "workspace.apply_edit", False):
        server.editor.warn(f"{name} is not marked; put @profile_neuron above it, and save")
        return
    edit, version = _mark(server, daemon, file, function), file.version
    message = f"{name} is not marked. Add @profile_neuron to it?"
    question = types.ShowMessageRequestParams(types.MessageType.Info, message, [types.MessageActionItem(_ADD)])

    def answered(future: Any) -> None:
        if future.cancelled() or future.exception() is not None or getattr(future.result(), "title", None) != _ADD:
            return
        # It may also have been closed, and opened again as another one.
        if daemon.file(file.path) is not file or file.version != version:
            server.editor.warn(f"{Path(file.path).name} was edited meanwhile; ask for a profile of {name} again")
            return
        params = types.ApplyWorkspaceEditParams(edit, f"Mark {name}")
        server.protocol.send_request(types.WORKSPACE_APPLY_EDIT, params).add_done_callback(applied)

    def applied(future: Any) -> None:
        if future.cancelled() or future.exception() is not None or not getattr(future.result(), "applied", False):
            server.editor.warn(f"the editor did not change the text; put @profile_neuron above {name}, and save")
            return
        # What is run is on disk, and only the editor can put the text there.
        by_itself = daemon.settings_of(file.root).run_on_save != "off"
        then = "to profile it" if by_itself else "and profile it again"
        text = f"{name} is marked; save {Path(file.path).name} {then}"
        server.window_show_message(types.ShowMessageParams(types.MessageType.Info, text))

    server.protocol.send_request(types.WINDOW_SHOW_MESSAGE_REQUEST, question).add_done_callback(answered)


def _edits(server: Server, daemon: Daemon, file: OpenFile, asked: types.Range) -> Iterator[types.CodeAction]:
    if file.outline is None or file.error is not None:
        return
    first, last = asked.start.line + 1, asked.end.line + 1
    if file.has_decorator is False:
        edit = import_with_fallback(file.outline)
        marks = [(function.spec.first_line, function.spec.def_line) for function in file.outline.functions]
        if edit is not None and _meet([(edit.line, edit.line + edit.count - 1), *marks], first, last):
            title = "Import profile_neuron with a fallback"
            changed = _workspace_edit(server, file, [edit])
            yield types.CodeAction(title, types.CodeActionKind.QuickFix, edit=changed)
    function = unmarked_at(file, first)
    if function is not None and _meet([_head(function)], first, first):
        changed = _mark(server, daemon, file, function)
        yield types.CodeAction("Profile with @profile_neuron", types.CodeActionKind.RefactorRewrite, edit=changed)


def _remedies(screen: Screen, file: OpenFile, context: types.CodeActionContext) -> Iterator[types.CodeAction]:
    """What there is to do about remarks of ours, which the client has at hand."""
    for remark in context.diagnostics:
        if remark.source != to_proto.SOURCE or not isinstance(remark.code, str):
            continue
        for function in screen.functions_at(file, remark.range.start.line + 1):
            about = {"uri": file.uri, "qualname": function.qualname, "occurrence": function.occurrence}
            for title, verb in _COMMANDS.get(remark.code, ()):
                command = types.Command(title, f"{to_proto.COMMAND_PREFIX}{verb}", arguments=[about])
                yield types.CodeAction(title, types.CodeActionKind.QuickFix, diagnostics=[remark], command=command)


def _mark(server: Server, daemon: Daemon, file: OpenFile, function: Found) -> types.WorkspaceEdit:
    assert file.outline is not None
    module = daemon.settings_of(file.root).decorator_modules[0]
    return _workspace_edit(
        server, file, mark_function(file.outline, function, module, with_fallback=file.has_decorator is False)
    )


def _head(function: Found) -> tuple[int, int]:
    return first_line(function.node) + function.offset, function.node.lineno + function.offset


def _meet(spans: Sequence[tuple[int, int]], first: int, last: int) -> bool:
    return any(start <= last and first <= end for start, end in spans)


def _is_of(kind: types.CodeActionKind | str | None, wanted: types.CodeActionKind | str) -> bool:
    """Whether a kind is the wanted one or one below it, as refactor.rewrite is below refactor."""
    own, above = (getattr(item, "value", item) for item in (kind, wanted))
    return above == "" or own == above or str(own).startswith(f"{above}.")


def _workspace_edit(server: Server, file: OpenFile, edits: Sequence[LineEdit]) -> types.WorkspaceEdit:
    """Edits of the very text that they were made of, where the client can tell that."""
    # From above to below: of two that insert at one place, the first in the list comes first in the text.
    changes = [to_proto.text_edit(edit, file.text, file.client_lines, server.encoding) for edit in reversed(edits)]
    if not get_capability(server.client_capabilities, "workspace.workspace_edit.document_changes", False):
        return types.WorkspaceEdit(changes={file.uri: changes})
    document = types.OptionalVersionedTextDocumentIdentifier(file.uri, file.version)
    return types.WorkspaceEdit(document_changes=[types.TextDocumentEdit(document, list(changes))])
