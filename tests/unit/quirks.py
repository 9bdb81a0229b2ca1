"""Small traces with one real-world quirk each, and what must still be found in them; constructed.

All hold the same three executions of 10, 20 and 30 µs, asked for by aten::a, aten::b and aten::c, unless the quirk is
about that. The layout is the one that torch 2.13 writes; which quirk was seen where is said in its comment or name.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

HEAD = """ {
    "schemaVersion": 1,
    "deviceProperties": [],
    "displayTimeUnit": "ms",
    "baseTimeNanoseconds": 1790857026000000000,
    "traceEvents": [
    """
TAIL = """
  {
    "ph": "i",

    "s": "g",
    "name": "Record Window End",
    "pid": "",
    "tid": "",
    "ts": 5096111676155.052

  }
  ],"traceName": "trace.json" }"""


@dataclass(frozen=True)
class Quirk:
    """A file, and what a reader must find in it."""

    content: bytes
    # None where no one number is right.
    device_us: float | None = 60.0
    # Something is wrong that a person should know.
    warns: bool = False


def event(category: str, name: str, pid: int, tid: int, ts: str, dur: str | None, **arguments: Any) -> str:
    """One event as text, with its trailing comma."""
    told = ", ".join(f"{json.dumps(key.replace('_', ' '))}: {json.dumps(value)}" for key, value in arguments.items())
    duration = "" if dur is None else f'    "dur": {dur}\n    ,\n'
    return (
        f'\n  {{\n    "ph": "X",\n    "cat": "{category}",\n    "name": "{name}",\n    "pid": {pid},\n    "tid": {tid},\n'
        f'    "ts": {ts},\n{duration}    "args": {{\n      {told}\n    }}\n  }},'
    )


def flow(phase: str, number: int, pid: int, tid: int, ts: str) -> str:
    """One end of an arrow from host to device."""
    return (
        f'\n  {{\n    "ph": "{phase}",\n    "id": {number},\n    "pid": {pid},\n    "tid": {tid},\n    "ts": {ts},\n'
        '    "cat": "ac2g",\n    "name": "ac2g"\n  },'
    )


def launch(
    number: int,
    operator: str,
    us: str | None,
    frame: str = "model.py(4): f",
    execution: str | None = None,
    device_ts: str | None = None,
    correlation: int | None = None,
    is_linked: bool = True,
    has_dispatch: bool = True,
) -> str:
    """A frame, an operator in it, what it asked the device for, and what ran there."""
    start = 5096111639000.0 + 100 * number
    external_id, correlation = 10 + number, number if correlation is None else correlation
    text = event("python_function", frame, 42, 42, f"{start:.3f}", "90.000", Python_id=number)
    text += event("cpu_op", operator, 42, 42, f"{start + 10:.3f}", "50.000", External_id=external_id)
    if has_dispatch:
        dispatch = {"External_id": external_id, "correlation": correlation}
        text += event("privateuse1_runtime", "nrt_execute", 42, 42, f"{start + 20:.3f}", "5.000", **dispatch)
        text += flow("s", correlation, 42, 42, f"{start + 20:.3f}")
    arguments = {"correlation": correlation} | ({"External_id": external_id} if is_linked else {})
    name = execution or f"k{number}"
    text += event("privateuse1_driver", name, 0, 0, device_ts or f"{start + 30:.3f}", us, **arguments)
    return text + flow("f", correlation, 0, 0, f"{start + 30:.3f}")


def three(**first: Any) -> str:
    """The three launches; what is given is of the first one."""
    return launch(1, "aten::a", "10.000", **first) + launch(2, "aten::b", "20.000") + launch(3, "aten::c", "30.000")


PLAIN = three()
FOURTH = launch(4, "aten::d", "40.000")


def file(events: str, head: str = HEAD, tail: str = TAIL) -> bytes:
    """The events as torch would write them."""
    return (head + events + tail).encode("utf-8", "surrogateescape")


def written_anew(write: Callable[[dict[str, Any]], str]) -> bytes:
    """The same trace as another program writes it."""
    return write(json.loads(file(PLAIN))).encode()


def first_with(arguments: str) -> bytes:
    """The three launches with more in the arguments of the first execution."""
    return file(
        PLAIN.replace(
            '"External id": 11\n    }\n  },\n  {\n    "ph": "f"',
            f'"External id": 11, {arguments}\n    }}\n  }},\n  {{\n    "ph": "f"',
        )
    )


QUIRKS: dict[str, Quirk] = {
    "none": Quirk(file(PLAIN)),
    "compact": Quirk(written_anew(lambda trace: json.dumps(trace, separators=(",", ":")))),
    "indented": Quirk(written_anew(lambda trace: json.dumps(trace, indent=2))),
    "one event per line": Quirk(
        written_anew(lambda trace: "[" + ",\n".join(map(json.dumps, trace["traceEvents"])) + "]")
    ),
    "top-level list": Quirk(written_anew(lambda trace: json.dumps(trace["traceEvents"]))),
    "list without its end": Quirk(
        written_anew(lambda trace: "[\n" + ",\n".join(map(json.dumps, trace["traceEvents"])) + ",\n"), warns=True
    ),
    "events not last": Quirk(
        written_anew(lambda trace: json.dumps({"traceEvents": trace["traceEvents"], "other": {"x": [1, {"y": "]"}]}}))
    ),
    "sorted keys": Quirk(written_anew(lambda trace: json.dumps(trace, sort_keys=True))),
    "an end of list in the last key": Quirk(file(PLAIN, tail=TAIL.replace("trace.json", "a],[b"))),
    "what looks like events behind the list": Quirk(
        file(PLAIN, tail=TAIL.replace('"traceName"', '"deviceProperties": [{"id": 0, "name": "x"}],"traceName"'))
    ),
    "the beginning of an event is lost": Quirk(
        file(PLAIN + '], "Ev Idx": 3}, "ph": "X"},' + FOURTH), 100.0, warns=True
    ),
    "header that does not parse": Quirk(file(PLAIN, head=HEAD.replace('"ms"', '"log": "say "hi"", INFO: ['))),
    "byte order mark": Quirk(b"\xef\xbb\xbf" + file(PLAIN)),
    "CRLF": Quirk(file(PLAIN).replace(b"\n", b"\r\n")),
    "UTF-16": Quirk(file(PLAIN).decode().encode("utf-16")),
    "UTF-16 without its mark": Quirk(file(PLAIN).decode().encode("utf-16-le")),
    "gzip": Quirk(gzip.compress(file(PLAIN), mtime=0)),
    "two gzip members": Quirk(gzip.compress(file(PLAIN)[:900]) + gzip.compress(file(PLAIN)[900:])),
    "gzip with zeros behind": Quirk(gzip.compress(file(PLAIN)) + b"\0" * 512),
    "gzip that is cut": Quirk(gzip.compress(file(PLAIN * 40), 1)[:-400], device_us=None, warns=True),
    "gzip without its checksum": Quirk(gzip.compress(file(PLAIN))[:-8]),
    "gzip with a bad end": Quirk(gzip.compress(file(PLAIN + " " * 9000), 0)[:-9000], warns=True),
    "cut in an event": Quirk(file(PLAIN + FOURTH).partition(b'"k4"')[0] + b'"k4', warns=True),
    "cut between events": Quirk(file(PLAIN, tail=""), warns=True),
    "cut behind the list": Quirk(file(PLAIN)[:-12]),
    "comma behind the last event": Quirk(file(PLAIN, tail='\n  ],"traceName": "x" }')),
    "no events": Quirk(file("", tail='],"traceName": "x" }'), device_us=0.0),
    "empty event": Quirk(file(PLAIN + "{},")),
    # pytorch#146900: record_function, and generated code in a file name.
    "quote in a name": Quirk(file(three(frame='{"device": "cpu"}(1): f')), warns=True),
    "quote in the name of an execution": Quirk(file(three(execution='call target="tpu"')), warns=True),
    "all names with quotes": Quirk(file(PLAIN.replace("model.py", 'a "b", {c}.py')), warns=True),
    # pytorch#98432, kineto#336
    "bare backslashes": Quirk(file(three(frame="C:\\Users\\new\\model.py(4): f")), warns=True),
    "bare backslashes in arguments": Quirk(first_with('"Call stack": "C:\\model.py(4): f"'), warns=True),
    "escaped backslashes": Quirk(file(three(frame="C:\\\\Users\\\\new\\\\model.py(4): f"))),
    "newline in a name": Quirk(file(three(frame="lib = f(\n(1): <module>")), warns=True),
    "control character in a name": Quirk(file(three(frame="S\x01(1): <module>")), warns=True),
    # kineto#988, pytorch#121219
    "bytes that are no UTF-8": Quirk(file(three(frame="\udcc7\udc80\udcf0(0): f")), warns=True),
    "half of a surrogate pair": Quirk(file(three(execution="\\ud800"))),
    # kineto output_json.cpp; the time of such a frame is of a function that is not known.
    "lost name": Quirk(file(three(frame="unknown")), warns=True),
    # kineto#105
    "bare inf": Quirk(first_with('"memory bandwidth (GB/s)": inf, "y": [-inf, nan]'), warns=True),
    "NaN": Quirk(first_with('"x": NaN, "y": -Infinity'), warns=True),
    "comma behind the last argument": Quirk(first_with('"x": 1,'), warns=True),
    "huge number": Quirk(first_with('"Comms Id": 18446744073709551615123')),
    "number too long for Python": Quirk(first_with(f'"x": {"9" * 5000}'), device_us=50.0, warns=True),
    "lists too deep for Python": Quirk(first_with(f'"x": {"[" * 100_000}'), device_us=50.0, warns=True),
    "huge number of a frame": Quirk(file(PLAIN.replace('"Python id": 1', '"Python id": 18446744073709551616'))),
    "times as text": Quirk(
        file(PLAIN.replace("5096111639130.000", '"5096111639130.000"').replace('"dur": 10.000', '"dur": "10.000"'))
    ),
    "whole times": Quirk(file(PLAIN.replace(".000", ""))),
    "time with an exponent": Quirk(file(PLAIN.replace("5096111639130.000", "5.09611163913e12"))),
    "time beyond all eras": Quirk(file(PLAIN + launch(4, "aten::d", "1e999999999")), warns=True),
    "no duration": Quirk(file(PLAIN + launch(4, "aten::d", None)), warns=True),
    "negative duration": Quirk(file(PLAIN + launch(4, "aten::d", "-5.000")), warns=True),
    # kineto#109; what ran took a time that is not known.
    "zero time and duration": Quirk(
        file(PLAIN + launch(4, "aten::d", "0", device_ts="0")), warns=True
    ),
    "two executions of one correlation": Quirk(file(PLAIN + launch(4, "aten::d", "40.000", correlation=3)), 100.0),
    "no External id on the device": Quirk(
        file("".join(launch(n, f"aten::{name}", us, is_linked=False) for n, name, us in ((1, "a", "10"), (2, "b", "20"), (3, "c", "30"))))
    ),
    "External id in lower case": Quirk(file(PLAIN.replace("External id", "external id"))),
    "no dispatch": Quirk(file(three(has_dispatch=False))),
    "execution without a link": Quirk(
        file(PLAIN + event("privateuse1_driver", "lost", 0, 0, "5096111639990.000", "7.000", stream=3)), 67.0, warns=True
    ),
    "execution without arguments": Quirk(
        file(PLAIN + '\n {"ph": "X", "cat": "privateuse1_driver", "name": "k", "pid": 0, "tid": 0, "ts": 1, "dur": 1},'),
        61.0,
        warns=True,
    ),
    "names for process and thread": Quirk(
        file(PLAIN.replace('"pid": 0,\n    "tid": 0', '"pid": "NeuronCore 0",\n    "tid": "stream 7"'))
    ),
    "negative thread": Quirk(file(PLAIN.replace('"pid": 0,\n    "tid": 0', '"pid": 0,\n    "tid": -136712896'))),
    "nulls": Quirk(
        file(PLAIN + '{"ph": "X", "cat": null, "name": null, "pid": null, "tid": null, "ts": null, "args": null},')
    ),
    "what looks like events in arguments": Quirk(
        first_with('"pg": [{"a": [{"cat": "kernel"}, {"ph": "X"}]},\n  {\n    "ph": "X"\n  }]')
    ),
    "braces in a name": Quirk(file(three(execution="lambda(){ return [0]; }, {"))),
    "begin and end": Quirk(
        file(PLAIN + '{"ph": "B", "cat": "privateuse1_driver", "name": "x", "pid": 0, "tid": 9, "ts": 1},'
             '{"ph": "E", "pid": 0, "tid": 9, "ts": 6},'),
        warns=True,
    ),
    # pytorch#189794
    "frame without an end": Quirk(file(PLAIN.replace('"dur": 90.000', '"dur": 9000.000', 1))),
    "rank of several": Quirk(
        file(PLAIN, head=HEAD.replace('"displayTimeUnit"', '"distributedInfo": {"rank": 1, "world_size": 2},\n "displayTimeUnit"'))
    ),
    # TensorRT-LLM#13536
    "two ranks in one file": Quirk(
        file(PLAIN)[:1500] + file(PLAIN)[:900] + file(PLAIN)[1500:], device_us=None, warns=True
    ),
    "a bad last event": Quirk(file(PLAIN, tail=TAIL.replace('"s": "g"', '"s" "g"')), warns=True),
    "an event larger than what is decoded at once": Quirk(first_with(f'"x": "{"a" * 300_000}"')),
}  # fmt: skip
