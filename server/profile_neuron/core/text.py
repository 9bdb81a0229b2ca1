"""Source text: decoded as CPython does, split into lines as editors do, columns in every unit."""

from __future__ import annotations

import codecs
import io
import re
import tokenize

from profile_neuron.errors import SourceError

# Only these three end a line in an editor and for CPython. str.splitlines also splits at form feeds,
# U+2028 and others, and would shift every line behind one.
_LINE_END = re.compile("\r\n|\n|\r")


def decode(source: bytes) -> str:
    """Text of a Python file: byte order mark and PEP 263 cookie honoured, line ends kept.

    Raises SourceError where the bytes are not text in the encoding that the file declares.
    """
    try:
        # detect_encoding reads lines, and knows no lone carriage return as a line end.
        head = re.sub(rb"\r\n?", b"\n", source[:1024])
        encoding, _ = tokenize.detect_encoding(io.BytesIO(head).readline)
    except SyntaxError as error:
        # This one also stands for a file without any declaration whose first lines are not UTF-8.
        if "invalid or missing encoding declaration" not in str(error.msg):
            raise SourceError(f"{error.msg}; correct the encoding line", 1) from error
        encoding = "utf-8"
    try:
        return source.decode(encoding)
    except UnicodeDecodeError as error:
        line = len(_LINE_END.findall(source[: error.start].decode("latin-1"))) + 1
        raise SourceError(
            f"line {line} holds bytes that are not {error.encoding}; save the file as UTF-8 or declare its encoding",
            line,
        ) from error


def split_lines(text: str) -> list[str]:
    """Lines without their ends; a text that ends in a line end has an empty last line."""
    return _LINE_END.split(text.removeprefix(codecs.BOM_UTF8.decode()))


def line_end(text: str) -> str:
    """How lines of a text end, by its first one."""
    match = _LINE_END.search(text)
    return "\n" if match is None else match.group()


def utf16_column(line: str, utf8_column: int) -> int:
    """Column in UTF-16 code units of a column in UTF-8 bytes, the unit of the ast module."""
    before = line.encode("utf-8", "surrogatepass")[:utf8_column].decode("utf-8", "replace")
    return utf16_length(before)


def utf16_length(text: str) -> int:
    """Length of a text in UTF-16 code units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
