"""The events of a Chrome trace, read so that a bad one costs itself and never the file.

Events are decoded one after the other, since the end of a sound event needs no separator to be found. Where that fails
the text up to the next beginning of an event is one bad event: it is mended where what is wrong is known, and counted.
Sources of the faults: unescaped names of torch's exporter (pytorch#146900, kineto#1459, pytorch#98432), writers that
were killed, and several writers of one file.
"""

from __future__ import annotations

import json
import re
import zlib
from typing import TYPE_CHECKING, Any, NoReturn

from profile_neuron.errors import CaptureError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

_GZIP = b"\x1f\x8b"
# Of zlib: a gzip header is expected.
_GZIP_WINDOW = 31
# What a damaged stream still held is lost by the piece.
_PIECE_BYTES = 4096

# An error of the json module counts the lines of all that it was given, so it is given no more than this.
_WINDOW = 1 << 16

_LIST = re.compile(r'"traceEvents"\s*:\s*\[')
_BASE = re.compile(r'"baseTimeNanoseconds"\s*:\s*"?(\d{1,20})')
_BETWEEN = re.compile(r"[\s,]*")
_END = re.compile(r'\]\s*(?:\}|,\s*"|\Z)')
_LAST_EVENT_END = re.compile(rf"\}}\s*(?={_END.pattern})")
_KEYS = r'"(?:ph|cat|name|pid|tid|ts|dur|id|args|s|bp)"\s*:'
_NEXT_EVENT = re.compile(rf"[,\[]\s*(?=\{{\s*{_KEYS})")

_NAME = re.compile(rf'("name"\s*:\s*")(.*?)("\s*(?:,\s*{_KEYS}|\}}\s*\Z))', re.DOTALL)
_BARE_BACKSLASH = re.compile(r'\\(?!["\\/bfnrt]|u[0-9a-fA-F]{4})')
_BARE_NUMBER = re.compile(r"(?<=[:\[,])\s*[-+]?(?:inf(?:inity)?|nan)(?=\s*[,}\]])", re.IGNORECASE)
_LAST_COMMA = re.compile(r",(?=\s*[}\]])")


class EventList:
    """The events of a trace, for one iteration, and then what was wrong with them.

    Fractions are left as text: stamps are near the limit of a double.
    Raises CaptureError, in one sentence, where there is no list of events.
    """

    def __init__(self, content: bytes) -> None:
        # Events that were no valid JSON and could be mended, and such that could not.
        self.mended = 0
        self.damaged = 0
        # The end of the list is missing.
        self.is_cut = False
        self.has_foreign_bytes = False
        self._text = self._decoded(_inflated(content))
        if not self._text or self._text.isspace():
            raise CaptureError("the trace is empty; profile again")
        self._start = _list_start(self._text)
        # What stamps are counted from, in nanoseconds since the epoch; 0 where they are absolute.
        self.base_ns = _base_ns(self._text)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        text, position, size = self._text, self._start, _WINDOW
        while True:
            window = text[position : position + size]
            used = yield from _sound_events(window)
            position += used
            if used:
                size = _WINDOW
                continue
            if not window:
                self.is_cut = True
                return
            following = _NEXT_EVENT.search(text, position + 1)
            if _END.match(text, position) and (following is None or _closes(text[position:])):
                return
            stop = following.start() if following else len(text)
            if stop > position + len(window):
                # An event larger than the window, or a bad one before a long stretch of something else.
                size *= 8
                continue
            size = _WINDOW
            if following is None:
                last = _LAST_EVENT_END.search(text, position)
                if last is None:
                    self.is_cut = True
                    return
                stop = last.end()
            event = _mended(text[position:stop])
            if event is None:
                self.damaged += 1
            else:
                self.mended += 1
                yield event
            position = following.end() if following else stop

    def _decoded(self, content: bytes) -> str:
        encoding = json.detect_encoding(content)
        try:
            return content.decode(encoding)
        except UnicodeDecodeError:
            self.has_foreign_bytes = True
            return content.decode(encoding, "replace")


def _inflated(content: bytes) -> bytes:
    """What a gzip stream of one or several members holds, as far as it goes; other content as it is."""
    if not content.startswith(_GZIP):
        return content
    pieces = []
    member = zlib.decompressobj(_GZIP_WINDOW)
    try:
        for start in range(0, len(content), _PIECE_BYTES):
            piece = content[start : start + _PIECE_BYTES]
            while piece:
                pieces.append(member.decompress(piece))
                # Tapes and block devices leave zeros behind the last member.
                piece = member.unused_data.lstrip(b"\0")
                if member.eof:
                    member = zlib.decompressobj(_GZIP_WINDOW)
    except zlib.error as error:
        # Whether the end is missing is told by the list of events.
        if not any(pieces):
            raise CaptureError(f"the trace cannot be read ({error}); profile again") from error
    return b"".join(pieces)


def _list_start(text: str) -> int:
    """Where the first event may begin. The object around the list need not parse."""
    start = _BETWEEN.match(text)
    if start is not None and text[start.end() : start.end() + 1] == "[":
        return start.end() + 1
    found = _LIST.search(text)
    if found is None:
        raise CaptureError("the trace holds no list of events; profile again")
    return found.end()


def _base_ns(text: str) -> int:
    # A plain search first: the key may come after millions of events.
    position = text.find('"baseTimeNanoseconds"')
    found = _BASE.match(text, position) if position >= 0 else None
    return int(found[1]) if found else 0


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number")


_SOUND = json.JSONDecoder(parse_float=str, parse_constant=_refuse)
_LENIENT = json.JSONDecoder(parse_float=str, parse_constant=lambda _: None, strict=False)


def _sound_events(window: str) -> Generator[dict[str, Any], None, int]:
    """Events from the start of a text up to the first that does not decode; returns how much of it they take."""
    used = 0
    between = _BETWEEN.match
    decode = _SOUND.raw_decode
    while True:
        space = between(window, used)
        assert space is not None, "it matches an empty text"
        used = space.end()
        if window[used : used + 1] != "{":
            return used
        try:
            event, used = decode(window, used)
        # Of a number too long, or of lists too deep, for Python.
        except (ValueError, RecursionError):
            return used
        yield event


def _closes(rest: str) -> bool:
    """Whether the text from an end of a list on ends an object, although something in it looks like an event."""
    opened = f'{{"traceEvents":[{rest}'
    try:
        _, end = _LENIENT.raw_decode(opened)
    except (ValueError, RecursionError):
        return False
    return not opened[end:].strip()


def _mended(chunk: str) -> dict[str, Any] | None:
    """The event in a text that is no valid JSON; None where it cannot be had."""
    if len(chunk) > _WINDOW:
        return None
    for attempt in _attempts(chunk.strip()):
        try:
            event = _LENIENT.decode(attempt)
        except (ValueError, RecursionError):
            continue
        return event if isinstance(event, dict) else None
    return None


def _attempts(chunk: str) -> Iterator[str]:
    """The text with one more kind of fault mended each time; the decoder itself takes control characters."""
    yield chunk
    for pattern, replacement in (
        (_NAME, _escaped_name),
        (_BARE_BACKSLASH, r"\\\\"),
        (_BARE_NUMBER, "null"),
        (_LAST_COMMA, ""),
    ):
        chunk = pattern.sub(replacement, chunk)
        yield chunk


def _escaped_name(found: re.Match[str]) -> str:
    before, name, after = found.groups()
    try:
        _LENIENT.decode(f'"{name}"')
    except ValueError:
        name = json.dumps(name)[1:-1]
    return f"{before}{name}{after}"
