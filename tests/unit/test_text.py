import pytest

from profile_neuron.core.text import decode, split_lines, utf16_column, utf16_length
from profile_neuron.errors import SourceError


def test_only_the_three_line_ends_of_editors_split_lines() -> None:
    assert split_lines("a\r\nb\rc\nd\x0ce\x0bf\u2028g\x85h") == ["a", "b", "c", "d\x0ce\x0bf\u2028g\x85h"]
    assert split_lines("a\n") == ["a", ""]


def test_a_byte_order_mark_is_not_part_of_the_first_line() -> None:
    assert decode(b"\xef\xbb\xbfx = 1\n") == "x = 1\n"
    assert split_lines("\ufeffx = 1") == ["x = 1"]


def test_an_encoding_line_is_honoured_also_behind_lone_carriage_returns() -> None:
    assert decode(b"# -*- coding: latin-1 -*-\nx = '\xe9'\n") == "# -*- coding: latin-1 -*-\nx = 'é'\n"
    assert decode(b"#\r# coding: latin-1\rx = '\xe9'\r").endswith("'é'\r")


def test_bytes_of_another_encoding_are_an_error_that_names_the_line() -> None:
    with pytest.raises(SourceError, match="line 2 holds bytes that are not utf-8") as caught:
        decode(b"x = 1\ny = '\xe9'\n")
    assert caught.value.line == 2


def test_an_unknown_encoding_is_an_error_on_its_line() -> None:
    with pytest.raises(SourceError, match="unknown encoding"):
        decode(b"# coding: klingon\n")


def test_columns_in_utf8_bytes_become_utf16_units() -> None:
    line = "x = '🙂é'  # 中"
    assert utf16_column(line, len("x = '🙂é'".encode())) == len("x = '") + 2 + 1 + 1
    assert utf16_length("🙂é中") == 4
