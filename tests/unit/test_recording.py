"""Values to JSON and back, what is not kept and how that is said, and files that are none of ours."""

from __future__ import annotations

import dataclasses
import enum
import json
import math
import sys
from collections import OrderedDict, defaultdict
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profile_neuron.core.recording import (
    VERSION,
    Argument,
    CannotRecordError,
    ClassName,
    Instance,
    Recording,
    TensorFacts,
    decode,
    encode,
    file_name,
    from_bytes,
    interface,
    problem,
    to_bytes,
)


class Colour(enum.Enum):
    RED = "r"


class Flags(enum.Flag):
    A = 1
    B = 2


class Point(NamedTuple):
    x: int
    y: float = 0.0


@dataclass(frozen=True)
class Config:
    n: int
    inner: Any = None
    made: int = dataclasses.field(init=False, default=0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "made", self.made + 1)


@dataclass
class Mapping(OrderedDict):  # type: ignore[type-arg]
    """As the outputs of some libraries are: a dataclass and more."""

    n: int = 0


class Number(int):
    def __repr__(self) -> str:
        raise AssertionError("no code of the user's is run")


class Tensor:
    """Stands for one of torch."""


TENSOR = Tensor()


def number_of(value: object) -> int | None:
    return 7 if value is TENSOR else None


def name_of(kind: type) -> ClassName:
    if kind.__name__ == "Local":
        raise CannotRecordError("of class Local, which no name of a module leads to")
    return ClassName(kind.__module__, kind.__qualname__)


def class_of(name: ClassName) -> type:
    found: type = vars(sys.modules[name.module])[name.qualname]
    return found


def there_and_back(value: object) -> Any:
    plain = json.loads(json.dumps(encode(value, number_of, name_of)))
    return decode(plain, lambda number: (number, TENSOR)[1], class_of, lambda name, content: (name, content))


SAME: dict[str, Any] = {
    "none": None,
    "bools": [True, False],
    "ints": [0, -1, 2**53, -(2**64), 10**5000],
    "floats": [0.1, -0.0, 1e300, 5e-324],
    "infinite": [math.inf, -math.inf],
    "complex": [1 + 2j, complex(math.inf, -0.0)],
    "texts": ["", "größe", "\udcff", "\0"],
    "bytes": b"\x00\xff",
    "containers": [[], (), {}, set(), frozenset(), (1, (2, [3]))],
    "dict": {"a": 1, 2: (3,), (4, None): {"b": {}}},
    "sets": [{1, "a"}, frozenset({(1, 2)})],
    "slices": [slice(None), slice(1, -1, 2), range(3, 9, 2), ...],
    "enum": [Colour.RED, Flags.B],
    "named tuple": Point(1, 2.5),
    "dataclass": Config(3, [Config(4)]),
    "looks like ours": {"tensor": 7, "int": "ff"},
}


@pytest.mark.parametrize("kind", SAME)
def test_a_value_comes_back_as_it_was(kind: str) -> None:
    value = SAME[kind]
    back = there_and_back(value)
    assert back == value
    assert repr(back) == repr(value) if kind != "ints" else True
    assert type(back) is type(value)


def test_what_is_no_number_comes_back_as_that_and_a_tensor_as_the_one_of_its_number() -> None:
    assert math.isnan(there_and_back(math.nan))
    first, second = there_and_back([TENSOR, (TENSOR,)])
    assert first is second[0] is TENSOR


def test_a_dataclass_comes_back_without_its_own_code_being_run() -> None:
    assert there_and_back(Config(1)).made == 1


plain_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
    max_leaves=20,
)


@given(plain_values)
def test_any_plain_value_comes_back_as_it_was(value: object) -> None:
    assert there_and_back(value) == value


deep: list[Any] = []
deep.append(deep)

NOT_KEPT: dict[str, tuple[Any, str]] = {
    "object": (object(), "an object of class builtins.object"),
    "inside": ([{"a": (object(),)}], "an object of class builtins.object"),
    "function": (len, "an object of class builtins.builtin_function_or_method"),
    "class": (Config, "an object of class builtins.type"),
    "subclass of int": (Number(3), "an object of class tests.unit.test_recording.Number"),
    "subclass of dict": (defaultdict(int), "an object of class collections.defaultdict"),
    "dataclass and more": (Mapping(), "an object of class tests.unit.test_recording.Mapping"),
    "several members": (Flags.A | Flags.B, "several members of Flags in one"),
    "many": ([0] * 10_001, "more than 10000 values"),
    "endless": (deep, "containers more than 20 deep in each other"),
    "long": ("a" * 1_000_001, "a text of 1000001 characters"),
}


@pytest.mark.parametrize("kind", NOT_KEPT)
def test_what_is_not_kept_says_what_it_is(kind: str) -> None:
    value, sentence = NOT_KEPT[kind]
    with pytest.raises(CannotRecordError) as raised:
        encode(value, number_of, name_of)
    assert str(raised.value) == sentence


@pytest.mark.parametrize(
    "plain",
    [
        {"unknown": 1},
        {},
        {"tuple": 3},
        {"enum": ["tests.unit.test_recording", "Config", "RED"]},
        {"dataclass": ["tests.unit.test_recording", "Tensor", []]},
        {"namedtuple": ["tests.unit.test_recording", "Colour", []]},
    ],
)
def test_what_was_never_given_is_refused(plain: Any) -> None:
    with pytest.raises(ValueError, match=r"recorded value|another kind of class"):
        decode(plain, lambda number: TENSOR, class_of, lambda name, content: None)


def test_the_first_argument_that_was_not_kept_is_named() -> None:
    kept = Argument("x", "positional", "1")
    lost = Argument("config", "keyword", "", "an object of class a.B")
    assert problem([kept, kept], "f") == ""
    assert problem([kept, lost, replace(lost, name="other")], "f") == (
        "argument config of f is or holds an object of class a.B, which is not recorded"
    )


FACTS = TensorFacts((2, 3), (3, 1), "float32", "cpu", False, True, False, "-1.5", "2.0", 0.25, inf_share=0.5)
RECORDING = Recording(
    VERSION, "/p/\udcff.py", "Block.forward", 1.5, "abc", "(self, x)", (Argument("x", "positional", '{"tensor": 0}'),),
    (FACTS,), Instance(ClassName("m", "Block"), (), "", True, False, "float64", "cpu"), "data.pt",
)  # fmt: skip


def test_a_recording_comes_back_as_it_was() -> None:
    assert from_bytes(to_bytes(RECORDING)) == RECORDING
    assert from_bytes(to_bytes(replace(RECORDING, instance=None))).instance is None


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "Expecting value"),
        (b"[]", ""),
        (b"[" * 100_000, ""),
        (b"{}", "they are of version None, this program writes 1"),
        (to_bytes(RECORDING).replace(b'"version": 1', b'"version": 2'), "they are of version 2, this program writes 1"),
        (to_bytes(RECORDING).replace(b'"qualname": "Block.forward"', b'"qualname": 3'), "field qualname holds 3"),
    ],
)
def test_a_file_that_is_none_of_this_version_is_refused_with_the_reason(content: bytes, sentence: str) -> None:
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the sentence is compared below
        from_bytes(content)
    assert sentence in str(raised.value)


def test_each_function_of_each_file_has_its_own_name() -> None:
    names = {file_name(path, name) for path in ("/p/a.py", "/p/b.py", "/p/\udcff.py") for name in ("f", "g")}
    assert len(names) == 6
    assert all(name.endswith(".json") and len(name) == 37 for name in names)


def of(parameters: str) -> tuple[str, str]:
    space: dict[str, Any] = {"Colour": Colour, "TENSOR": TENSOR}
    exec(f"def f({parameters}): ...", space)
    return interface(space["f"])


def test_the_digest_of_a_signature_knows_names_kinds_and_defaults_and_no_annotations() -> None:
    others = ["x", "y", "x, y", "x, *, y", "x, /, y", "x=1", "x=1.0", "x=2", "*x", "**x", "x=Colour.RED", "x=TENSOR"]
    assert len({of(item)[0] for item in others}) == len(others)
    assert of("x: int, y: str = 'a'")[0] == of("x, y='a'")[0]
    assert of("x: int, y=1, *rest, z, k=TENSOR, **kw")[1] == "(x, y=…, *rest, z, k=…, **kw)"
