"""Positions in text that is not ASCII, and edits of it: in every encoding of positions, with a fake agent behind.

What is expected is counted here, character by character, and not by what the server or the harness counts with.
"""

from __future__ import annotations

import hashlib
import random
import time
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from tests.fakes.control import FakeAgents
from tests.lsp.client import TIMEOUT_S, Client, lsp_range
from tests.lsp.conftest import with_fake
from tests.lsp.screen import lenses, ready

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from tests.fakes.control import Event
    from tests.lsp.client import Document, Position

PUBLISH = "textDocument/publishDiagnostics"
BOM = "\ufeff"

# What the clients offer, and the encoding that counts then.
CLIENTS: dict[str, tuple[list[str] | None, str]] = {
    "utf-8": (["utf-8"], "utf-8"),
    "utf-16": (["utf-16"], "utf-16"),
    "utf-32": (["utf-32"], "utf-32"),
    "offers nothing": (None, "utf-16"),
}

# What no editor ends a line at, and what takes another number of units in each encoding.
INSIDE = {
    "umlaut": "ä",
    "emoji": "🙂",
    "emoji in the BMP": "☺\ufe0f",
    "family": "👩\u200d👩\u200d👧",
    "flag": "🇩🇪",
    "skin": "👍🏽",
    "combining": "e\u0301",
    "stacked combining": "Z\u0351\u036b\u0343",
    "combining outside the BMP": "x\U0001d165",
    "CJK": "日本語",
    "CJK outside the BMP": "𠮷",
    "right to left": "שלום\u200f",
    "no-break space": "\xa0",
    "mark": BOM,
    "tab": "\t",
    "vertical tab": "\x0b",
    "form feed": "\x0c",
    "file separator": "\x1c",
    "group separator": "\x1d",
    "record separator": "\x1e",
    "next line": "\x85",
    "line separator": "\u2028",
    "paragraph separator": "\u2029",
}
ENDS = {"LF": "\n", "CRLF": "\r\n", "CR": "\r"}

IMPORT = "from pn_api import profile_neuron\n"

# Marks in the texts below. One stands before each statement that has a hint at the end of its line, two around the
# range of a diagnostic, two around what an edit replaces.
HINT, FIRST, LAST, CUT, PASTE = "¶", "‹", "›", "«", "»"


@dataclass(frozen=True)
class Marked:
    """A text without its marks, and where they were."""

    text: str
    marks: dict[str, list[int]]

    def hints(self, encoding: str) -> list[Position]:
        """Where hints stand."""
        return [position(self.text, end_of_line(self.text, mark), encoding) for mark in self.marks[HINT]]

    def ranges(self, encoding: str) -> list[dict[str, Any]]:
        """Ranges of diagnostics, in the order of the text."""
        return [
            lsp_range(position(self.text, first, encoding), position(self.text, last, encoding))
            for first, last in zip(self.marks[FIRST], self.marks[LAST], strict=True)
        ]


def marked(template: str, end: str = "\n") -> Marked:
    """A template with its line feeds replaced by another line end."""
    text = ""
    marks: dict[str, list[int]] = {HINT: [], FIRST: [], LAST: [], CUT: [], PASTE: []}
    for char in template:
        if char in marks:
            marks[char].append(len(text))
        else:
            text += end if char == "\n" else char
    return Marked(text, marks)


def edited(template: str, new: str) -> str:
    """A template after its edit."""
    before, _, rest = template.partition(CUT)
    return before + new + rest.partition(PASTE)[2]


def width(char: str, encoding: str) -> int:
    """Units of one character."""
    code = ord(char)
    if encoding == "utf-8":
        return 1 + (code > 0x7F) + (code > 0x7FF) + (code > 0xFFFF)
    return 1 + (encoding == "utf-16" and code > 0xFFFF)


def position(text: str, offset: int, encoding: str) -> Position:
    """Line and column from 0; nothing is between the two characters of CRLF."""
    assert text[max(0, offset - 1) : offset + 1] != "\r\n"
    line = column = 0
    for index in range(offset):
        char = text[index]
        if char == "\n" or (char == "\r" and text[index + 1 : index + 2] != "\n"):
            line, column = line + 1, 0
        else:
            column += width(char, encoding)
    return line, column


def end_of_line(text: str, offset: int) -> int:
    """Where the line of an offset ends, before its line end."""
    while offset < len(text) and text[offset] not in "\r\n":
        offset += 1
    return offset


def sha256(content: str | bytes) -> str:
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


@dataclass(frozen=True)
class Edit:
    """A text before and after what is marked in it, or between other positions, was replaced."""

    before: Marked
    new: str
    after: Marked
    span: tuple[Position, Position] | None = None


def edit_of(template: str, new: str) -> Edit:
    return Edit(marked(template), new, marked(edited(template, new)))


@dataclass
class Editor:
    """One client with its own encoding, for many documents."""

    client: Client
    fake: FakeAgents
    root: Path
    encoding: str
    numbers: Iterator[int]

    def open(self, text: str, disk: bytes | None = None) -> Document:
        """Open a new file whose name is as awkward as that of its folder."""
        path = self.root / f"Modell {next(self.numbers)} 測定🙂é.py"
        path.write_bytes(text.encode() if disk is None else disk)
        return self.client.open(path, text)

    def hints(self, document: Document) -> list[Position]:
        """Positions of all hints."""
        found = [hint["position"] for hint in self.client.hints(document.uri)]
        return [(place["line"], place["character"]) for place in found]

    def edit(self, document: Document, start: int, end: int, new: str) -> None:
        """Replace what is between two offsets."""
        text = document.text
        document.change((position(text, start, self.encoding), position(text, end, self.encoding)), new)
        assert document.text == text[:start] + new + text[end:], "the harness counts as this module does"

    def send(self, document: Document, *changes: dict[str, Any]) -> None:
        """One notification with several changes."""
        about = {"uri": document.uri, "version": document.version + 1}
        self.client.notify("textDocument/didChange", {"textDocument": about, "contentChanges": list(changes)})

    def save(self, document: Document, runs: int = 1, disk: bytes | None = None) -> list[Event]:
        """Save, and wait for the runs that this starts; gives them. disk: what is written, if not just the text."""
        mark = self.fake.mark()
        if disk is None:
            document.save()
        else:
            assert document.path is not None
            document.path.write_bytes(disk)
            self.client.notify("textDocument/didSave", {"textDocument": {"uri": document.uri}})
        started = self.wait_for_runs([document], runs, mark)
        assert {run["path"] for run in started} == {str(document.path)}
        return started

    def save_all(self, documents: list[Document]) -> None:
        """Save documents with one function each: the run of each one has to be of the client's text."""
        mark = self.fake.mark()
        for document in documents:
            document.save()
        started = self.wait_for_runs(documents, len(documents), mark)
        runs = {run["path"]: run["sha256"] for run in started}
        assert runs == {str(document.path): sha256(document.text) for document in documents}

    def wait_for_runs(self, documents: list[Document], runs: int, after: int) -> list[Event]:
        """Wait for the ends of so many runs, and until their documents show them; gives the runs."""
        self.fake.wait_for_event("ended", lambda event: self.fake.count("ended", after) >= runs, after)
        # Asked again without waiting to be told, which the server does no more often than a person can see.
        deadline = time.monotonic() + TIMEOUT_S
        while any("Cancel" in lenses(self.client, document.uri) for document in documents):
            assert time.monotonic() < deadline
        started = [event for event in self.fake.events[after:] if event["event"] == "started"]
        assert len(started) == runs
        return started

    def diagnostics(self, document: Document, ranges: list[dict[str, Any]], after: int = 0) -> list[dict[str, Any]]:
        """Diagnostics as soon as there are so many, which then have to be at these ranges."""

        def fits(params: Any) -> bool:
            return params["uri"] == document.uri and len(params["diagnostics"]) == len(ranges)

        published = self.client.wait_for(PUBLISH, fits, after)["diagnostics"]
        found: list[dict[str, Any]] = sorted(published, key=lambda one: one["range"]["start"]["line"])
        assert [one["range"] for one in found] == ranges
        return found

    def check(self, *pairs: tuple[Document, Marked]) -> None:
        """Documents are what they should be after their edits, with their hints, and saves run these texts."""
        self._check_hints(pairs)
        touched = []
        for document, after in pairs:
            # Comments are no change of the code; this is one.
            at = after.text.index("return b") + len("return b")
            self.edit(document, at, at, " + 1")
            moved = {kind: [mark + 4 * (mark >= at) for mark in marks] for kind, marks in after.marks.items()}
            touched.append((document, Marked(document.text, moved)))
        self.save_all([document for document, _ in pairs])
        self._check_hints(touched)
        for document, _ in pairs:
            document.close()

    def check_edits(self, edits: Iterable[Edit]) -> None:
        """Make each edit in a profiled document of its own, and check what comes of it."""
        pairs = [(self.open(edit.before.text), edit) for edit in edits]
        self.save_all([document for document, _ in pairs])
        self._check_hints((document, edit.before) for document, edit in pairs)
        for document, edit in pairs:
            span = edit.span
            if span is None:
                (start,), (stop,) = edit.before.marks[CUT], edit.before.marks[PASTE]
                span = (position(document.text, start, self.encoding), position(document.text, stop, self.encoding))
            document.change(span, edit.new)
        self.check(*((document, edit.after) for document, edit in pairs))

    def _check_hints(self, pairs: Iterable[tuple[Document, Marked]]) -> None:
        for document, wanted in pairs:
            assert document.text == wanted.text
            assert self.hints(document) == wanted.hints(self.encoding), repr(wanted.text)


@pytest.fixture(scope="module", params=CLIENTS)
def editor(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editor]:
    """A server for all tests of an encoding; every test opens files of its own."""
    offered, encoding = CLIENTS[request.param]
    folder = tmp_path_factory.mktemp("positions")
    root = folder / "zwei Wörter 日本語 𠮷🙂"
    root.mkdir()
    env = {"XDG_CACHE_HOME": str(folder / "cache"), "XDG_STATE_HOME": str(folder / "state")}
    fake = FakeAgents(folder)
    try:
        settings = with_fake(fake, {"run": {"maxPerSave": 100}, "hints": {"minShare": 0}})
        with Client.start([root], settings=settings, env={**env, **fake.env}, position_encodings=offered) as client:
            assert client.position_encoding == encoding
            yield Editor(ready(client), fake, root, encoding, count(1))
        assert client.faults == []
        assert "Traceback" not in client.stderr, client.stderr
    finally:
        fake.close()


def test_of_several_encodings_one_that_was_offered_is_chosen_and_used(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root, folder = tmp_path / "ws", tmp_path / "home"
    root.mkdir()
    folder.mkdir()
    env = {"XDG_CACHE_HOME": str(folder), "XDG_STATE_HOME": str(folder)}
    fake = FakeAgents(folder)
    try:
        offered = ["utf-7", "utf-32", "utf-16"]
        with Client.start(
            [root], settings=with_fake(fake, {}), env={**env, **fake.env}, position_encodings=offered
        ) as client:
            assert client.position_encoding in offered[1:]
            editor = Editor(ready(client), fake, root, client.position_encoding, count(1))
            editor.check_edits([edit_of(commented(f" 🙂{CUT}🙂{PASTE}"), "日本")])
    finally:
        fake.close()


# Hints.


def with_every_character(function: str) -> str:
    """A text with one function for each of the characters; N stands for its number and @@ for the characters."""
    functions = (
        function.replace("N", str(number)).replace("@@", inside) for number, inside in enumerate(INSIDE.values())
    )
    return IMPORT + "".join(f"\n\n@profile_neuron\n{text}" for text in functions)


CHARACTERS = with_every_character(
    f"""\
def fN(x):
    {HINT}s = '@@'
    {HINT}x = x + 1  # @@
    # @@
    {HINT}x = (x, 'a@@b@@')[0]; y = x  # a @@ b @@ c
    {HINT}return x
"""
)

# What else moves lines or columns: tabs and form feeds before code, texts and expressions over several lines, names.
LAYOUT = f"""\
{IMPORT}
\x0c
@profile_neuron
def 測定(x):
\t{HINT}größe = x + 1\t# 日本\tä
\t{HINT}變數 = '''🙂
    second \x0c\u2028 line
 third 日本'''; 𝒳 = 1  # 🙂
\x0c\t{HINT}return größe + \\
        1  # 🙂 behind

\x0c\x0c
class 型:
    @profile_neuron
    def ﬁ(self, x):
        # 🙂\x0b\x85
        {HINT}if x:  # 🙂\u2028
            {HINT}x = (  # 日本
                x,  # 🙂
                '🙂',
            )[0]

        {HINT}return x  # 🙂"""


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
@pytest.mark.parametrize("template", [CHARACTERS, LAYOUT], ids=["characters", "layout"])
def test_hints_stand_at_the_ends_of_lines(editor: Editor, template: str, end: str) -> None:
    wanted = marked(template, end)
    document = editor.open(wanted.text)
    runs = editor.save(document, runs=wanted.text.count("@profile_neuron"))
    assert {run["sha256"] for run in runs} == {sha256(wanted.text)}
    assert editor.hints(document) == wanted.hints(editor.encoding)
    document.close()


@pytest.mark.parametrize("template", [CHARACTERS, LAYOUT], ids=["characters", "layout"])
def test_line_ends_of_all_kinds_may_be_mixed_in_one_text(editor: Editor, template: str) -> None:
    *lines, last = template.split("\n")
    ends = ["\r\n", "\r", "\n", "\r", "\r\n"]
    mixed = "".join(line + ends[number % 5] for number, line in enumerate(lines)) + last
    # The marks are to be found without the line feeds being replaced.
    wanted = marked(mixed)
    document = editor.open(wanted.text)
    editor.save(document, runs=wanted.text.count("@profile_neuron"))
    assert editor.hints(document) == wanted.hints(editor.encoding)
    document.close()


def test_a_range_in_the_clients_units_limits_the_hints(editor: Editor) -> None:
    wanted = marked(CHARACTERS)
    document = editor.open(wanted.text)
    editor.save(document, runs=len(INSIDE))
    for line, column in wanted.hints(editor.encoding):
        at = {"line": line, "character": column}
        # A range is half open.
        found = editor.client.hints(document.uri, ((line, column), (line, column + 1)))
        assert [hint["position"] for hint in found] == [at]
        assert editor.client.hints(document.uri, ((line, 0), (line, column))) == []
    document.close()


# Diagnostics.


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_the_range_of_a_failure_is_the_code_of_its_line(editor: Editor, end: str) -> None:
    template = with_every_character(
        f"""\
def fN(x):
    s = '''@@
    @@'''  # @@
    {FIRST}s = '@@'; x = x + 1  # @@ # fake: fail at @@ and @@.{LAST}
    return x
"""
    )
    wanted = marked(template, end)
    document = editor.open(wanted.text)
    editor.save(document, runs=len(INSIDE))
    found = editor.diagnostics(document, wanted.ranges(editor.encoding))
    assert [one["message"] for one in found] == [
        f"profiling f{number} failed: at {inside} and {inside}." for number, inside in enumerate(INSIDE.values())
    ]
    assert editor.hints(document) == []
    document.close()


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_white_space_around_the_code_is_not_in_the_range(editor: Editor, end: str) -> None:
    template = f"""\
{IMPORT}
@profile_neuron
def f(x):
\t{FIRST}x = '🙂日本'  # fake: fail one{LAST} \t \n
\treturn x

@profile_neuron
def g(x):
\x0c    {FIRST}x = '🙂日本'  # fake: fail two{LAST}\u3000\u3000
    return x

@profile_neuron
def h(x):
    x = x + 1
    {FIRST}return x  # 🙂 # fake: fail three 𠮷{LAST}"""
    wanted = marked(template, end)
    document = editor.open(wanted.text)
    editor.save(document, runs=3)
    editor.diagnostics(document, wanted.ranges(editor.encoding))
    document.close()


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_a_syntax_error_is_at_its_line(editor: Editor, end: str) -> None:
    wanted = marked(f"{CHARACTERS}\n    {FIRST}x = = '🙂'  # 日本 𠮷{LAST}\n\n# 🙂\n", end)
    document = editor.open(wanted.text)
    document.save()
    (found,) = editor.diagnostics(document, wanted.ranges(editor.encoding))
    assert found["message"].startswith("not-runnable: line ")
    document.close()


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_a_diagnostic_moves_with_its_line(editor: Editor, end: str) -> None:
    template = f"""\
{IMPORT}
# 日本 🙂{CUT}{PASTE}
@profile_neuron
def f(x):
    {FIRST}x = '🙂'  # 𠮷 # fake: fail here{LAST}
    return x
"""
    before = marked(template, end)
    document = editor.open(before.text)
    editor.save(document)
    editor.diagnostics(document, before.ranges(editor.encoding))
    mark = editor.client.mark()
    (start,) = before.marks[CUT]
    editor.edit(document, start, start, f"🙂\x0c\u2028{end}# 𠮷\x85{end}# 日本")
    after = marked(edited(template, "🙂\x0c\u2028\n# 𠮷\x85\n# 日本"), end)
    assert document.text == after.text
    editor.diagnostics(document, after.ranges(editor.encoding), mark)
    document.close()


# The mark at the start of a file.

MARKED_FILE = f"""\
from pn_api import profile_neuron  # 🙂

@profile_neuron
def f(x):
    {HINT}b = x + 1  # 日本 𠮷
    {HINT}return b
"""


@pytest.mark.parametrize("kept", [False, True], ids=["the editor keeps it for itself", "it is in the editor's text"])
@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_a_file_may_begin_with_a_byte_order_mark(editor: Editor, end: str, kept: bool) -> None:
    wanted = marked((BOM if kept else "") + MARKED_FILE, end)

    def disk() -> bytes:
        return BOM.encode() + document.text.removeprefix(BOM).encode()

    document = editor.open(wanted.text, BOM.encode() + wanted.text.removeprefix(BOM).encode())
    (run,) = editor.save(document, disk=disk())
    assert run["sha256"] == sha256(disk())
    assert editor.hints(document) == wanted.hints(editor.encoding)
    # Behind the first name of the first line, and in its comment.
    for old, new in (("from pn_api", "from  pn_api"), ("🙂", "🙂日本🙂"), ("return b", "return b + 1")):
        start = document.text.index(old)
        editor.edit(document, start, start + len(old), new)
    (run,) = editor.save(document, disk=disk())
    assert run["sha256"] == sha256(disk())
    again = (
        MARKED_FILE.replace("from pn_api", "from  pn_api").replace("🙂", "🙂日本🙂").replace("return b", "return b + 1")
    )
    assert editor.hints(document) == marked((BOM if kept else "") + again, end).hints(editor.encoding)
    document.close()


@pytest.mark.parametrize("kept", [False, True], ids=["the editor keeps it for itself", "it is in the editor's text"])
def test_a_diagnostic_of_the_first_line_counts_the_mark_if_the_editor_does(editor: Editor, kept: bool) -> None:
    line = f"{FIRST}from pn_api import profile_neuron  # 🙂 # fake: fail 日本{LAST}\n"
    wanted = marked((BOM if kept else "") + line + MARKED_FILE.partition("\n")[2])
    disk = BOM.encode() + wanted.text.removeprefix(BOM).encode()
    document = editor.open(wanted.text, disk)
    editor.save(document, disk=disk)
    ends = [one["end"] for one in wanted.ranges(editor.encoding)]
    found = editor.client.wait_for(PUBLISH, lambda params: params["uri"] == document.uri and params["diagnostics"])
    assert [one["range"]["end"] for one in found["diagnostics"]] == ends
    document.close()


# Edits.


def commented(comment: str) -> str:
    """A profiled function with a comment behind its first statement, which may go on in lines of its own."""
    return f"""\
{IMPORT}
@profile_neuron
def f(x):
    {HINT}a = x + 1  #{comment}
    {HINT}b = a + 2  # 日本 🙂 𠮷
    {HINT}return b
"""


# From the first offset of the characters and how many they are to what is replaced, and by what.
EDITS = {
    "insert before": lambda at, length: (at, at, "neu𠮷"),
    "insert behind": lambda at, length: (at + length, at + length, "日🙂"),
    "insert between": lambda at, length: (at + length // 2, at + length // 2, "z\u0301"),
    "delete": lambda at, length: (at, at + length, ""),
    "delete the last": lambda at, length: (at + length - 1, at + length, ""),
    "delete with neighbours": lambda at, length: (at - 1, at + length + 1, ""),
    "replace by what is shorter": lambda at, length: (at, at + length, "."),
    "replace by what is longer": lambda at, length: (at, at + length, "👩\u200d👧\u2028\x0c日本"),
}


@pytest.mark.parametrize("kind", EDITS)
def test_edits_at_every_character_arrive(editor: Editor, kind: str) -> None:
    lines = "".join(f"    {HINT}x = x + {n}  # ä🙂 {inside} 🙂日 end\n" for n, inside in enumerate(INSIDE.values()))
    template = f"{IMPORT}\n@profile_neuron\ndef f(x):\n{lines}    {HINT}b = x\n    {HINT}return b\n"
    before = marked(template)
    document = editor.open(before.text)
    editor.save(document)
    assert editor.hints(document) == before.hints(editor.encoding)
    # From the last one on, so that offsets before it stay.
    for number in reversed(range(len(INSIDE))):
        name, inside = list(INSIDE.items())[number]
        at = document.text.index(f"x + {number}  # ä🙂 ") + len(f"x + {number}  # ä🙂 ")
        assert document.text[at : at + len(inside)] == inside
        editor.edit(document, *EDITS[kind](at, len(inside)))
        here = document.text.index(f"x = x + {number} ")
        hint = position(document.text, end_of_line(document.text, here), editor.encoding)
        assert editor.hints(document)[number] == hint, name
    starts = [document.text.index(f"x = x + {number} ") for number in range(len(INSIDE))]
    rest = [document.text.index("b = x\n"), document.text.index("return b")]
    editor.check((document, Marked(document.text, {HINT: [*starts, *rest]})))


# Templates in which E stands for the line end of the text, and what replaces their marked part.
OVER_ENDS = {
    "join two lines": (f" 🙂{CUT}E    # {PASTE}日本", ""),
    "join with what is replaced": (f" 🙂{CUT} 日E    # {PASTE}本 🙂", "𠮷"),
    "delete from line to line": (f" o{CUT}ne 🙂E    # 日本 mid𠮷E    # tw{PASTE}o 🙂", ""),
    "delete a whole line": (f" 🙂E{CUT}    # 日本🙂E{PASTE}    # two 🙂", ""),
    "insert a line behind": (f" 🙂{CUT}{PASTE}", "E    # 𠮷 new"),
    "insert a line inside": (f" 🙂{CUT}{PASTE} 日本", "E    # 𠮷 new 🙂"),
    "insert a line at its start": (f" 🙂E{CUT}{PASTE}    # 日本", "    # 𠮷E"),
    "insert an empty line": (f" 🙂{CUT}{PASTE}", "EE"),
    "insert lines of all kinds": (f" 🙂{CUT}{PASTE} 𠮷", "1\r\n    # 2\x0c🙂\r    # 3\u2028\n    # 4\x85🙂\r\r    # 5"),
    "end by a line feed": (f" 🙂{CUT}E{PASTE}    # 日本", "\n"),
    "end by both": (f" 🙂{CUT}E{PASTE}    # 日本", "\r\n"),
    "end by a carriage return": (f" 🙂{CUT}E{PASTE}    # 日本", "\r"),
    "carriage return before an end": (f" 🙂{CUT}{PASTE}E    # 日本", "\r"),
    "line feed behind a carriage return": (f" 🙂\r{CUT}{PASTE}    # 日本", "\n"),
    "two ends become one": (f" 🙂\r{CUT}    # 日本{PASTE}\n    # two 🙂", ""),
    "form feed in place of an end": (f" 🙂{CUT}E{PASTE}    # 日本", "\x0c\x0b\x85\u2028"),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_edits_over_line_ends_arrive(editor: Editor, end: str) -> None:
    around = commented("%").replace("\n", end)
    editor.check_edits(
        edit_of(around.replace("%", comment.replace("E", end)), new.replace("E", end))
        for comment, new in OVER_ENDS.values()
    )


LAST_LINES = {
    "insert at the end": (f"    {HINT}return b  # 🙂{CUT}{PASTE}", "日𠮷"),
    "insert a line at the end": (f"    {HINT}return b  # 🙂{CUT}{PASTE}", "E    # 日𠮷E"),
    "insert behind the last end": (f"    {HINT}return b  # 🙂E{CUT}{PASTE}", "# 日𠮷"),
    "delete the last character": (f"    {HINT}return b  # 日{CUT}🙂{PASTE}", ""),
    "delete the last end": (f"    {HINT}return b  # 日🙂{CUT}E{PASTE}", ""),
    "delete the last lines": (f"    {HINT}return b  # 日🙂{CUT}E    # 𠮷EE# 🙂{PASTE}", ""),
    "replace the last line": (f"    {HINT}return b  # 日🙂E{CUT}# 𠮷🙂{PASTE}", "# 日E"),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_edits_at_the_very_end_arrive(editor: Editor, end: str) -> None:
    head = commented(" 🙂").rpartition(f"    {HINT}return")[0].replace("\n", end)
    editor.check_edits(
        edit_of(head + last.replace("E", end), new.replace("E", end)) for last, new in LAST_LINES.values()
    )


# Lines and columns that are not there, from those of the end of the first statement's line; what they stand for.
BEYOND = {
    "insert behind a line": (lambda line, column: ((line, column + 1), (line, column + 1)), 0, 0),
    "insert far behind a line": (lambda line, column: ((line, 2**31 - 1), (line, 2**31 - 1)), 0, 0),
    "replace the rest of a line": (lambda line, column: ((line, column - 1), (line, column + 100)), 1, 0),
    "join with the next line": (lambda line, column: ((line, column + 7), (line + 1, 0)), 0, 1),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_a_column_behind_a_line_is_its_end(editor: Editor, end: str) -> None:
    template = commented(" 日本🙂x\n    # 🙂 second")
    before = marked(template, end)
    stop = position(before.text, end_of_line(before.text, before.marks[HINT][0]), editor.encoding)
    edits = []
    for span, taken, is_joined in BEYOND.values():
        rest = f"🙂{'x'[taken:]}𠮷+{'' if is_joined else chr(10)}    # 🙂 second"
        after = marked(template.replace("🙂x\n    # 🙂 second", rest), end)
        edits.append(Edit(before, "𠮷+", after, span(*stop)))
    editor.check_edits(edits)


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_a_line_behind_the_text_is_its_end(editor: Editor, end: str) -> None:
    edits = []
    for template in (commented(" 日本🙂"), commented(" 日本🙂").rstrip("\n") + "  # 🙂"):
        for place in ((1000, 0), (1000, 7), (2**31 - 1, 2**31 - 1)):
            edits.append(Edit(marked(template, end), "# 𠮷", marked(f"{template}# 𠮷", end), (place, place)))
    editor.check_edits(edits)


def test_a_position_inside_of_a_character_is_before_it(editor: Editor) -> None:
    if editor.encoding == "utf-32":
        pytest.skip("every position is between two characters")
    template = commented(" 日🙂x𠮷y")
    wanted = marked(template)
    document = editor.open(wanted.text)
    editor.save(document)
    line, column = position(wanted.text, wanted.text.index("🙂x"), editor.encoding)
    document.change(((line, column + 1), (line, column + width("🙂", editor.encoding))), "")
    after = marked(commented(" 日x𠮷y"))
    # The harness takes such a position to be behind the character.
    editor.client.buffers[document.uri].text = after.text
    editor.check((document, after))


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_changes_of_one_notification_count_one_after_the_other(editor: Editor, end: str) -> None:
    template = commented(" 🙂 one")
    text = marked(template, end).text
    document = editor.open(text)
    editor.save(document)
    changes = []
    for old, new in (("🙂 one", f"🙂🙂{end}    # 𠮷 two"), ("🙂🙂", "日"), ("𠮷 two", "𠮷𠮷"), ("𠮷 ", "!")):
        if old not in text:
            old = "𠮷"
        start = text.index(old)
        span = (position(text, start, editor.encoding), position(text, start + len(old), editor.encoding))
        changes.append({"range": lsp_range(*span), "text": new})
        text = text[:start] + new + text[start + len(old) :]
    editor.send(document, *changes)
    editor.check((document, marked(commented(" 日\n    # !𠮷"), end)))


@pytest.mark.parametrize("by_range", [False, True], ids=["without a range", "by a range"])
@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_a_text_that_is_replaced_as_a_whole_arrives(editor: Editor, end: str, by_range: bool) -> None:
    document = editor.open(marked(commented(" 🙂 one")).text)
    editor.save(document)
    after = marked(commented(" 日本\n    # 🙂 two\n    # 𠮷"), end)
    if by_range:
        document.change(((0, 0), (2**31 - 1, 0)), after.text)
    else:
        document.replace_all(after.text)
    editor.check((document, after))


# Many edits.

PIECES = (
    *INSIDE.values(),
    *ENDS.values(),
    "\r\r",
    "\n\r",
    "\r\n\r\n",
    "a",
    "word and word",
    " ",
    "    ",
    "\r\n🙂\r日\n",
)
EDITS_OF_ONE_DOCUMENT = 150


def filling(source: random.Random, length: int) -> str:
    return "".join(source.choice(PIECES) for _ in range(length))


def test_a_hundred_and_fifty_random_edits_arrive(editor: Editor) -> None:
    """All are inside of one of two texts, so that the function between them stays as it is."""
    source = random.Random(20250711)
    before, behind = filling(source, 120), filling(source, 120)
    function = f"@profile_neuron\ndef f(x):\n    {HINT}b = x + 1  # 🙂日\r\n    {HINT}return b  # 𠮷\n"
    template = f"{IMPORT}'''|{before}|'''\n\n{function}\n'''|{behind}|'''\n"
    document = editor.open(marked(template).text)
    done = 0
    while done < EDITS_OF_ONE_DOCUMENT:
        text, changes = document.text, []
        for _ in range(min(source.randrange(1, 5), EDITS_OF_ONE_DOCUMENT - done)):
            fences = [index for index, char in enumerate(text) if char == "|"]
            first, last = source.choice([(fences[0] + 1, fences[1]), (fences[2] + 1, fences[3])])
            offsets = [at for at in range(first, last + 1) if text[at - 1 : at + 1] != "\r\n"]
            start = source.choice(offsets)
            stop = source.choice([start, source.choice([at for at in offsets if start <= at <= start + 12])])
            new = filling(source, source.choice([0, 1, 1, 2, 5]))
            span = (position(text, start, editor.encoding), position(text, stop, editor.encoding))
            changes.append({"range": lsp_range(*span), "text": new})
            text = text[:start] + new + text[stop:]
        editor.send(document, *changes)
        assert document.text == text, "the harness counts as this module does"
        done += len(changes)
    (run,) = editor.save(document)
    assert run["sha256"] == sha256(text)
    starts = [text.index("b = x + 1"), text.index("return b")]
    assert editor.hints(document) == Marked(text, {HINT: starts}).hints(editor.encoding)
    # The edits were of many kinds of line ends and characters.
    assert all(inside in text for inside in ("\r\n", "🙂", "\u2028", "\x0c", "\x85"))
    document.close()
