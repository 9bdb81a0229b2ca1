"""Exported traces of anybody's profiler script to totals per function; the cases say what must be found."""

from __future__ import annotations

import json
from typing import Any

import pytest

from profile_neuron.capture.framework_trace import read_exported_trace
from profile_neuron.core.foreign import ForeignProfile, FunctionTotals, Unattributed, foreign_profile
from profile_neuron.core.frames import FunctionName
from profile_neuron.core.host_work import USUAL_CAUSES
from profile_neuron.core.model import Submission
from profile_neuron.errors import CaptureError
from tests.conftest import case
from tests.unit.test_readers import TRACES, event, trace


def expected(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((case(name) / "expected.json").read_text())
    return found


def profile(content: bytes) -> ForeignProfile:
    return foreign_profile(read_exported_trace(content))


def outcomes(name: str) -> list[tuple[str, dict[str, Any]]]:
    """The files of a case, each with what is expected of it."""
    told = expected(name)
    return list(told["files"].items()) if "files" in told else [("trace.json", told)]


CASES = [
    (name, file, told)
    for name in ("T01", "T03", "T04", "T05", "T06", "T07", "T08", "T09", "T10", "T11", "T13", "T14", "T15", "N06")
    for file, told in outcomes(name)
]


# What a case says of itself and of other parts of the tool.
BESIDE = {"id", "title", "kind", "mustNot", "bodyLineNumbersAllowed", "columnsUnit"}


@pytest.mark.parametrize(("name", "file", "told"), CASES, ids=[f"{name}-{file}" for name, file, _ in CASES])
def test_a_case_gives_all_that_it_expects(name: str, file: str, told: dict[str, Any]) -> None:
    found = summary((case(name) / file).read_bytes())
    allowed = [{key: value for key, value in item.items() if key not in BESIDE} for item in told.get("allowed", [told])]
    assert all(allowed), "a case expects something"
    assert any(holds(found, item) for item in allowed), found


def holds(found: Any, told: Any, key: str = "") -> bool:
    """Whether what is found has all that is told of it."""
    if key == "status" and isinstance(told, list):
        return found in told
    if key in ("functions", "callees"):
        named = {item["traceName"]: item for item in told}
        return holds(found, {name: {**item, "traceName": name} for name, item in named.items()})
    if isinstance(told, dict):
        return all(name == "note" or (name in found and holds(found[name], told[name], name)) for name in told)
    return bool(found == told)


def summary(content: bytes) -> dict[str, Any]:
    """What is found, in the words and units of the cases."""
    try:
        found = profile(content)
    except CaptureError:
        return {"status": "unreadable"}
    functions = {trace_name(item): function_summary(item) for item in found.functions}
    untimed = [text for text in found.warnings if "of the device had no usable time" in text]
    return {
        "status": "no-device-events" if found.device_ns is None else {"complete": "ok"}.get(found.status, found.status),
        "functions": functions,
        "callees": functions,
        "operators": {
            item.name: {"ownDeviceUs": microseconds(item.own_device_ns), "deviceUs": microseconds(item.device_ns)}
            for item in found.operators
        },
        "deviceUsTotal": microseconds(found.device_ns),
        "unattributed": {
            "events": sum(item.executions for item in found.unattributed),
            "deviceUs": sum(item.device_ns for item in found.unattributed) / 1000,
            "reason": "/".join(item.reason for item in found.unattributed),
        },
        "warnings": len(found.warnings),
        "droppedEvents": sum(int(text.split()[0]) for text in untimed),
    }


def trace_name(item: FunctionTotals) -> str:
    return f"{item.function.file}({item.function.line}): {item.function.name}"


def function_summary(item: FunctionTotals) -> dict[str, Any]:
    fallbacks = [remark for remark in item.remarks if remark.kind == "cpu-fallback"]
    return {
        "traceName": trace_name(item),
        "qualname": item.function.name,
        "calls": item.calls,
        "deviceUs": microseconds(item.device_ns),
        "ownDeviceUs": microseconds(item.own_device_ns),
        "hostUs": microseconds(item.host_ns),
        "compiled": item.compiled,
        "hostFallback": [{"op": remark.operator, "hostUs": microseconds(remark.host_ns)} for remark in fallbacks],
    }


def microseconds(ns: int | None) -> float | None:
    return None if ns is None else ns / 1000


def test_two_files_with_one_shortened_name_are_ambiguous() -> None:
    content = (case("T02") / "trace.json").read_bytes()
    both = ["/w/rootA/pkg/model.py", "/w/rootB/pkg/model.py"]
    (found,) = foreign_profile(read_exported_trace(content), both).functions
    assert found.paths == tuple(both), "so that no number can be given to either"
    assert found.function == FunctionName("pkg/model.py", 2, "fwd")
    (found,) = foreign_profile(read_exported_trace(content), [*both[:1], "/w/other/model.py"]).functions
    assert found.paths == ("/w/rootA/pkg/model.py",)
    assert foreign_profile(read_exported_trace(content), ["/w/el.py", "/w/apkg/model.py"]).functions == ()


def test_a_trace_without_an_event_of_the_device_knows_no_device_time() -> None:
    found = profile((case("T09") / "trace.json").read_bytes())
    (function,) = found.functions
    assert (found.device_ns, function.device_ns, function.own_device_ns) == (None, None, None)
    assert [(item.own_device_ns, item.device_ns) for item in found.operators] == [(None, None)]
    assert found.causes == USUAL_CAUSES
    assert found.lacks_synchronize, "the device was asked for something"
    assert found.unattributed == ()


def test_code_of_torch_is_no_function_of_the_user() -> None:
    found = profile((case("T11") / "trace.json").read_bytes())
    assert [item.function for item in found.functions] == [FunctionName("m.py", 4, "f")]


# A call of f that calls g: launches of 10, 20 and 30 µs before, in and after g.
def frame(
    name: str, ts: float, dur: float, number: int | None = None, parent: int | None = None, **changes: Any
) -> dict[str, Any]:
    numbers = {} if number is None else {"Python id": number, "Python parent id": parent}
    return event(cat="python_function", name=name, ts=ts, dur=dur, args=numbers) | changes


def operator(number: int, ts: float, dur: float = 5, name: str = "aten::mul", **changes: Any) -> dict[str, Any]:
    return event(name=name, ts=ts, dur=dur, args={"External id": number}) | changes


def execution(number: int, dur: float, name: str = "neff") -> dict[str, Any]:
    arguments = {"External id": number}
    return event(cat="privateuse1_driver", name=name, pid=0, tid=0, ts=900 + number, dur=dur, args=arguments)


LAUNCHES = [operator(1, 10), operator(2, 30), operator(3, 70), execution(1, 10), execution(2, 20), execution(3, 30)]


def device_us(found: ForeignProfile) -> dict[str, tuple[float | None, float | None]]:
    return {
        item.function.name: (microseconds(item.device_ns), microseconds(item.own_device_ns)) for item in found.functions
    }


def test_a_frame_whose_return_was_missed_ends_where_its_caller_calls_again() -> None:
    frames = [frame("m.py(1): f", 0, 100, 1), frame("m.py(9): g", 20, 900, 2, 1), frame("m.py(20): h", 60, 20, 3, 1)]
    found = profile(trace(*frames, *LAUNCHES))
    assert device_us(found) == {"f": (60, 10), "g": (20, 20), "h": (30, 30)}
    assert {item.function.name: item.host_ns for item in found.functions} == {"f": 100_000, "g": 40_000, "h": 20_000}


def test_a_frame_that_nobody_called_ends_the_ones_that_are_open() -> None:
    frames = [frame("m.py(1): f", 0, 900, 1), frame("m.py(9): g", 20, 5, 2, 1), frame("m.py(20): h", 60, 20, 3)]
    assert device_us(profile(trace(*frames, *LAUNCHES))) == {"f": (30, 30), "g": (0, 0), "h": (30, 30)}


def test_recursion_counts_once() -> None:
    frames = [frame("m.py(1): f", 0, 100, 1), frame("m.py(1): f", 20, 20, 2, 1)]
    (found,) = profile(trace(*frames, *LAUNCHES)).functions
    assert (found.calls, found.host_ns, found.device_ns, found.own_device_ns) == (2, 100_000, 60_000, 60_000)


def test_an_operators_own_time_is_without_the_ones_inside() -> None:
    outer, inner = operator(1, 10, 50, "aten::linear"), operator(2, 20, 30, "aten::mm")
    found = profile(trace(outer, inner, operator(3, 25, 40, "aten::copy_")))
    # The last one ends after the one that it began in, whose time it takes no more of than there is.
    assert {item.name: item.self_host_ns for item in found.operators} == {
        "aten::linear": 20_000, "aten::mm": 5_000, "aten::copy_": 40_000,
    }  # fmt: skip


def test_a_frame_ends_with_its_caller() -> None:
    frames = [frame("m.py(1): f", 0, 50, 1), frame("m.py(9): g", 20, 900, 2, 1)]
    found = profile(trace(*frames, *LAUNCHES))
    assert device_us(found) == {"f": (30, 10), "g": (20, 20)}
    assert [(item.reason, item.device_ns) for item in found.unattributed] == [("outside", 30_000)]
    assert [item.host_ns for item in found.functions] == [50_000, 30_000]


def test_frames_without_numbers_nest_by_time() -> None:
    frames = [frame("m.py(1): f", 0, 100), frame("m.py(9): g", 20, 20)]
    assert device_us(profile(trace(*frames, *LAUNCHES))) == {"f": (60, 40), "g": (20, 20)}


def test_of_frames_with_the_same_start_the_longer_one_is_outside() -> None:
    frames = [frame("m.py(9): g", 0, 20), frame("m.py(1): f", 0, 100)]
    assert device_us(profile(trace(*frames, *LAUNCHES))) == {"f": (60, 50), "g": (10, 10)}


def test_the_frame_counts_that_was_open_when_the_launch_began() -> None:
    """An operator may outlast the frame that it began in."""
    frames = [frame("m.py(1): f", 0, 100, 1), frame("m.py(9): g", 20, 12, 2, 1)]
    assert device_us(profile(trace(*frames, *LAUNCHES)))["g"] == (20, 20)


def test_frames_that_lost_their_names_are_not_one_function() -> None:
    frames = [frame("m.py(1): f", 0, 40, 1), frame("unknown", 20, 20, 2, 1), frame("unknown", 60, 20, 3)]
    found = profile(trace(*frames, *LAUNCHES))
    assert device_us(found) == {"f": (30, 30)}
    assert [(item.reason, item.device_ns) for item in found.unattributed] == [("name-lost", 30_000)]
    assert found.lost_names == 2


def test_what_a_frame_without_a_name_called_of_torch_has_lost_it_too() -> None:
    frames = [frame("unknown", 0, 100, 1), frame("torch/x.py(1): call", 20, 20, 2, 1)]
    found = profile(trace(*frames, *LAUNCHES))
    assert [(item.reason, item.executions) for item in found.unattributed] == [("name-lost", 3)]


@pytest.mark.parametrize(
    "name",
    [
        "torch/nn/modules/module.py(1): _call_impl",
        "/usr/lib/site-packages/torch/_dynamo/eval_frame.py(3): wrapper",
        "C:\\lib\\site-packages\\torch\\x.py(3): wrapper",
        "torch_neuronx/profiling.py(3): start",
        "<eval_with_key>.3(5): forward",
        "<built-in method mean of Tensor object at 0x7fcf94543ca0>",
        "nn.Module: Linear_0",
    ],
)
def test_frames_that_are_not_the_users_are_looked_through(name: str) -> None:
    frames = [frame("m.py(1): f", 0, 100, 1), frame(name, 20, 20, 2, 1)]
    assert device_us(profile(trace(*frames, *LAUNCHES))) == {"f": (60, 60)}


def test_a_function_of_a_file_that_only_sounds_like_torch_is_listed() -> None:
    assert "f" in device_us(profile(trace(frame("mytorch/model.py(1): f", 0, 100, 1), *LAUNCHES)))


def test_without_stacks_the_reason_says_so() -> None:
    found = profile(trace(*LAUNCHES))
    assert [(item.reason, item.executions, item.device_ns) for item in found.unattributed] == [("no-stacks", 3, 60_000)]


def test_a_range_of_the_user_has_no_time_of_its_own_and_can_be_named() -> None:
    named = operator(9, 0, 100, "step", cat="user_annotation")
    found = profile(trace(frame("m.py(1): f", 0, 100, 1), named, execution(9, 7), operator(1, 10)))
    assert device_us(found) == {"f": (7, 7)}
    assert [(item.name, item.self_host_ns) for item in found.operators] == [("aten::mul", 5_000)]


REMARKS = {
    "a fallback": (
        "aten::cummin",
        ["aten::_to_copy"],
        ["nrt_d2h", "nrt_h2d"],
        [("cpu-fallback", ("from device", "to device"))],
    ),
    "reading a number": (
        "aten::item",
        ["aten::_local_scalar_dense"],
        ["Memcpy DtoH"],
        [("host-sync", ("from device",))],
    ),
    "moving a tensor": ("aten::to", ["aten::_to_copy", "aten::copy_"], ["Memcpy HtoD"], [("transfer", ("to device",))]),
    "work and a copy": ("aten::index", ["aten::nonzero"], ["nrt_d2h", "neff"], [("transfer", ("from device",))]),
    "work": ("aten::mm", [], ["neff"], []),
}


@pytest.mark.parametrize(("name", "inner", "executions", "told"), REMARKS.values(), ids=REMARKS)
def test_what_keeps_the_device_waiting(name: str, inner: list[str], executions: list[str], told: list[Any]) -> None:
    events = [operator(1, 10, 50, name)]
    events += [operator(2 + depth, 11 + depth, 40 - depth, item) for depth, item in enumerate(inner)]
    asked = len(inner) + 1
    events += [
        execution(asked, 4, item) | {"args": {"External id": asked, "correlation": 70 + at}}
        for at, item in enumerate(executions)
    ]
    (found,) = profile(trace(frame("m.py(1): f", 0, 100, 1), *events)).functions
    assert [(item.kind, item.directions) for item in found.remarks] == told
    assert all((item.operator, item.calls, item.host_ns) == (name, 1, 50_000) for item in found.remarks)


def test_nothing_is_said_of_operators_inside_of_compiled_code() -> None:
    region = operator(1, 10, 60, "Torch-Compiled Region: 0/0")
    events = [region, operator(2, 20, 30, "aten::cummin"), execution(2, 4, "nrt_d2h")]
    (found,) = profile(trace(frame("m.py(1): f", 0, 100, 1), *events)).functions
    assert (found.compiled, found.remarks, found.device_ns) == (True, (), 4_000)


def test_own_times_and_the_unattributed_add_up_to_the_device() -> None:
    frames = [frame("m.py(1): f", 0, 50, 1), frame("m.py(9): g", 20, 20, 2, 1)]
    found = profile(trace(*frames, *LAUNCHES, execution(99, 8)))
    own = sum(item.own_device_ns or 0 for item in found.functions)
    assert own + sum(item.device_ns for item in found.unattributed) == found.device_ns == 68_000


def test_our_own_trace_of_a_cpu_names_its_functions() -> None:
    content = (TRACES / "torch-2.13.0-cpu-with_stack.json").read_bytes()
    found = profile(content)
    calls = {
        (item.function.line, item.function.name): item.calls
        for item in found.functions
        if item.function.file == "sample.py"
    }
    assert calls == {
        (10, "wrapper"): 2,
        (16, "rms"): 2,
        (26, "helper"): 2,
        (27, "<lambda>"): 2,
        (30, "gen"): 1,
        (32, "gen"): 3,
        (41, "run"): 1,
    }
    assert found.device_ns is None
    assert not found.lacks_synchronize
    assert found.lost_names == 1
    (function,) = [item for item in found.functions if item.function.name == "<lambda>"]
    assert {item.name: item.calls for item in function.operators}.items() >= {"aten::mm": 2, "aten::permute": 2}.items()


def test_our_own_trace_of_a_compiled_function_marks_what_called_it() -> None:
    found = profile((TRACES / "torch-2.13.0-cpu-compiled-eager-backend.json").read_bytes())
    assert [item.function.name for item in found.functions if item.compiled] == ["<module>"], "its own frame is gone"


def test_an_execution_of_several_operators_is_counted_once_and_given_to_none_of_them() -> None:
    first, second = execution(2, 7), execution(2, 7)
    first["args"]["nrt_sequence_id"], second["args"]["nrt_sequence_id"] = 17, 18
    content = trace(frame("m.py(1): f", 0, 100), operator(1, 10), operator(2, 20), first, second)
    mapping = {17: (Submission(1, 3), Submission(1, 4)), 18: (Submission(1, 5),)}
    found = foreign_profile(read_exported_trace(content), mapping=mapping)
    (function,) = found.functions
    assert (found.device_ns, found.executions) == (14_000, 2)
    assert (function.own_device_ns, function.device_ns, function.executions) == (7_000, 7_000, 1)
    assert found.unattributed == (Unattributed("several-operators", 1, 7_000),)
    assert found.is_lower_bound
    assert sum(item.own_device_ns or 0 for item in found.operators) == 7_000


def test_copies_are_no_executions() -> None:
    copy = execution(1, 5, "nrt_tensor_write")
    found = profile(trace(frame("m.py(1): f", 0, 100), operator(1, 10), operator(2, 20), copy, execution(2, 7)))
    assert [(item.device_ns, item.executions) for item in found.functions] == [(12_000, 1)]
    assert found.executions == 1
    assert not found.is_lower_bound
