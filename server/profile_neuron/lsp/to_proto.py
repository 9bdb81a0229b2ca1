"""Our types to the protocol's; positions are in the units that the client chose."""

from __future__ import annotations

import os
from pathlib import PurePath
from typing import TYPE_CHECKING
from urllib.parse import quote

from lsprotocol import types

from profile_neuron.core.hover import plain
from profile_neuron.core.text import line_end

if TYPE_CHECKING:
    from collections.abc import Sequence

    from profile_neuron.core.findings import Finding
    from profile_neuron.core.marking import LineEdit
    from profile_neuron.core.render import Hint, Lens

COMMAND_PREFIX = "profileNeuron.server."
# Of our diagnostics.
SOURCE = "profile-neuron"

_SEVERITIES = {
    "hint": types.DiagnosticSeverity.Hint,
    "information": types.DiagnosticSeverity.Information,
    "warning": types.DiagnosticSeverity.Warning,
}


def uri(path: str) -> str:
    """The URI of a path."""
    return "file://" + quote(os.fsencode(PurePath(path).as_posix()))


def units(text: str, encoding: str) -> int:
    """Length of a text in the client's units."""
    if encoding == "utf-32" or text.isascii():
        return len(text)
    if encoding == "utf-8":
        return len(text.encode("utf-8", "surrogatepass"))
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def end_of_line(line: int, lines: Sequence[str], encoding: str) -> types.Position:
    """The position behind the last character of a line, before what ends it."""
    return types.Position(line - 1, units(lines[line - 1], encoding))


def whole_line(line: int, lines: Sequence[str], encoding: str) -> types.Range:
    """The code of a line without its indentation; never beyond the text."""
    line = min(max(line, 1), len(lines))
    text = lines[line - 1]
    indent = text[: len(text) - len(text.lstrip())]
    start = types.Position(line - 1, units(indent, encoding) if text.strip() else 0)
    return types.Range(start, types.Position(line - 1, units(text.rstrip(), encoding)))


def text_edit(edit: LineEdit, text: str, lines: Sequence[str], encoding: str) -> types.TextEdit:
    """An edit of whole lines, with the line ends of the text; a mark at its start stays there."""
    end = line_end(text)
    new = end.join(edit.lines)
    start = types.Position(edit.line - 1, int(edit.line == 1 and lines[0].startswith("\ufeff")))
    if not edit.count:
        return types.TextEdit(types.Range(start, start), f"{new}{end}")
    return types.TextEdit(types.Range(start, end_of_line(edit.line + edit.count - 1, lines, encoding)), new)


def inlay_hint(hint: Hint, lines: Sequence[str], document: str, version: int, encoding: str) -> types.InlayHint:
    """A hint; its tooltip and what a click on it does come when they are asked for."""
    position = end_of_line(hint.line, lines, encoding)
    return types.InlayHint(position, hint.text, padding_left=True, data=[document, version, hint.line])


def code_lens(lens: Lens, document: str) -> types.CodeLens:
    """A lens, complete, since an editor paints an incomplete one as an empty row first."""
    start = types.Position(lens.line - 1, 0)
    about: dict[str, object] = {"uri": document, "qualname": lens.qualname, "occurrence": lens.occurrence}
    if lens.is_foreign:
        about["foreign"] = True
    command = types.Command(title=lens.title, command=f"{COMMAND_PREFIX}{lens.verb}", arguments=[about])
    return types.CodeLens(types.Range(start, start), command)


def markup(markdown: str, is_markdown: bool) -> types.MarkupContent:
    """A text for a client that shows Markdown, or for one that does not."""
    if is_markdown:
        return types.MarkupContent(types.MarkupKind.Markdown, markdown)
    return types.MarkupContent(types.MarkupKind.PlainText, plain(markdown))


def diagnostic(finding: Finding, lines: Sequence[str], encoding: str) -> types.Diagnostic:
    """A finding at its line."""
    return types.Diagnostic(
        range=whole_line(finding.line, lines, encoding),
        message=finding.text,
        severity=_SEVERITIES[finding.severity],
        code=finding.code,
        source=SOURCE,
        # Positions in files that are not open are those of the run, and their text is not at hand.
        related_information=[
            types.DiagnosticRelatedInformation(
                types.Location(
                    uri(frame.path),
                    types.Range(types.Position(frame.line - 1, 0), types.Position(frame.line - 1, 0)),
                ),
                f"{frame.function}: {frame.text}",
            )
            for frame in finding.related
        ]
        or None,
        data={"function": finding.qualname, "result": finding.run_id},
    )
