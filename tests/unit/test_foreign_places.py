"""Functions as a trace names them in the texts of a project."""

from __future__ import annotations

import pytest

from profile_neuron.core.foreign_places import Place, definitions, place_functions
from profile_neuron.core.frames import FunctionName
from profile_neuron.core.outline import outline

SOURCE = """\
import torch

@torch.no_grad()
def rms(x):
    return x

class Block:
    def forward(self, x):
        return x
"""
RMS, FORWARD = FunctionName("model.py", 3, "rms"), FunctionName("pkg/model.py", 8, "forward")


def test_a_function_is_found_by_its_name_and_the_line_of_its_first_decorator() -> None:
    texts = {"/w/pkg/model.py": SOURCE}
    assert place_functions([RMS, FORWARD], texts) == {
        RMS: Place("/w/pkg/model.py", "rms", 0),
        FORWARD: Place("/w/pkg/model.py", "Block.forward", 0),
    }
    assert place_functions([FunctionName("model.py", 4, "rms")], texts) == {}, "the line of def is not the first"


@pytest.mark.parametrize("file", ["odel.py", "other/model.py", "/model.py", "model.py "])
def test_a_name_of_another_file_is_not_found(file: str) -> None:
    assert place_functions([FunctionName(file, 3, "rms")], {"/w/pkg/model.py": SOURCE}) == {}


def test_a_function_that_two_files_have_is_in_neither() -> None:
    texts = {"/w/a/model.py": SOURCE, "/w/b/model.py": SOURCE}
    assert place_functions([RMS], texts) == {}
    assert place_functions([RMS], {**texts, "/w/b/model.py": f"#\n{SOURCE}"}) == {RMS: Place("/w/a/model.py", "rms", 0)}


def test_a_file_that_does_not_parse_may_hold_the_function_too() -> None:
    assert place_functions([RMS], {"/w/a/model.py": SOURCE, "/w/b/model.py": "def ("}) == {}
    assert place_functions([RMS], {"/w/a/model.py": SOURCE, "/w/b/other.py": "def ("}) != {}


def test_two_definitions_at_one_line_are_ambiguous() -> None:
    text = "if 1: f = None\nelse: f = 1\ndef f(): pass\n"
    assert place_functions([FunctionName("m.py", 3, "f")], {"/m.py": text}) == {
        FunctionName("m.py", 3, "f"): Place("/m.py", "f", 0)
    }
    twice = "class A:\n    class B:\n        def f(self): pass\n"
    assert place_functions([FunctionName("m.py", 3, "f")], {"/m.py": twice, "/a/m.py": twice}) == {}


def test_an_analysed_text_tells_all_of_its_functions_at_the_lines_of_the_whole_text() -> None:
    found = [(item.qualname, item.occurrence, item.first_line) for item in definitions(outline(SOURCE + SOURCE))]
    assert found == [("rms", 0, 3), ("Block.forward", 0, 8), ("rms", 1, 12), ("Block.forward", 1, 17)]
