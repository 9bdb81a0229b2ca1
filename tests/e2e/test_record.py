"""profile-neuron record with real programs: what it keeps, what run makes of it, and that the program notices nothing."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from profile_neuron.core.recording import file_name, from_bytes
from tests.conftest import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from profile_neuron.core.recording import Recording

needs_torch = pytest.mark.torch


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    @property
    def program_err(self) -> str:
        """What the program printed on stderr."""
        return "".join(line for line in self.err.splitlines(True) if not line.startswith("profile-neuron: "))

    @property
    def remarks(self) -> list[str]:
        """What was said at the end."""
        start = "profile-neuron: "
        return [line.removeprefix(start) for line in self.err.splitlines() if line.startswith(start)]


class Folder:
    """A folder with a user's program in it, and the state folder of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.state = path / "state"
        # The package of this tree, whatever else is installed.
        self.environment = {
            **{name: value for name, value in os.environ.items() if name != "RANK"},
            "XDG_STATE_HOME": str(self.state),
            "PYTHONPATH": str(ROOT / "server"),
        }

    def write(self, name: str, text: str) -> Path:
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text).lstrip("\n"))
        return file

    def python(self, *arguments: object, given: str = "", **environment: str) -> Ended:
        finished = subprocess.run(
            [sys.executable, *map(str, arguments)],
            cwd=self.path,
            env={**self.environment, **environment},
            input=given,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        return Ended(finished.returncode, finished.stdout, finished.stderr)

    def record(self, *arguments: object, given: str = "", **environment: str) -> Ended:
        return self.python("-m", "profile_neuron", "record", *arguments, given=given, **environment)

    def run(self, target: str) -> dict[str, Any]:
        """The function that a target names, as run --json prints it, with what the program printed."""
        ended = self.python("-m", "profile_neuron", "run", target, "--json")
        found: dict[str, Any] = json.loads(ended.out)["functions"][0]
        return {**found, "err": ended.err}

    def recording(self, file: Path, qualname: str) -> Recording:
        return from_bytes((self.state / "profile-neuron/recordings" / file_name(str(file), qualname)).read_bytes())

    @property
    def recordings(self) -> list[str]:
        return sorted(file.name for file in (self.state / "profile-neuron/recordings").iterdir())


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


MODEL = """
import torch
from profile_neuron import profile_neuron

@profile_neuron
def mix(x, weight, again, *rest, mode, scale=2.0, **options):
    print("x", tuple(x.shape), x.stride(), x.dtype, 10 <= float(x.min()), float(x.max()) <= 20)
    print("weight", weight.dtype, int(weight.min()) >= -3, int(weight.max()) <= 8)
    print("rest", again is x, rest[0] is x, rest[1:], mode, scale, options)
    return (x * scale).sum() + weight.sum()

class Block(torch.nn.Module):
    def __init__(self, dim, *, bias=True):
        super().__init__()
        self.inner = torch.nn.Linear(dim, dim, bias)

    @profile_neuron
    def forward(self, hidden, mask=None):
        print("block", type(self).__name__, self.inner.bias, self.training, self.inner.weight.dtype)
        return self.inner(hidden)

class Wide(Block):
    pass

@profile_neuron
def unused(x):
    return x
"""
TRAIN = """
import torch
from model import Wide, mix

torch.manual_seed(1)
block = Wide(4, bias=False).double()
for step in range(3):
    x = (torch.rand(3, 8) * 10 + 10).t()
    mix(x, torch.randint(-3, 9, (5,)), x, x, (1, "a"), mode={"k": float("inf")}, flag=None)
    block.train(step > 0)
    block(torch.rand(2, 4, dtype=torch.float64), mask=torch.ones(2, dtype=torch.bool)).sum().backward()
print("trained")
"""


@needs_torch
def test_a_training_is_recorded_and_run_makes_inputs_like_those_it_had(folder: Folder) -> None:
    model = folder.write("model.py", MODEL)
    folder.write("train.py", TRAIN)
    ended = folder.record("train.py")
    assert (ended.code, ended.out.splitlines()[-1]) == (0, "trained")
    assert ended.remarks == [
        "recorded model.py::mix: x: float32[8, 3] strides (1, 8), weight: int64[5], again: float32[8, 3] strides (1, 8), "
        "float32[8, 3] strides (1, 8), (1, 'a'), mode={'k': inf}, scale=2.0, flag=None",
        "recorded model.py::Block.forward: hidden: float64[2, 4], mask: bool[2]; instance Wide(dim=4, bias=False)",
        "not called: model.py::unused",
    ]
    found = folder.run("model.py::mix")
    assert found["state"] == "fresh", found["reason"]
    assert "x (8, 3) (1, 8) torch.float32 True True" in found["err"]
    assert "weight torch.int64 True True" in found["err"]
    assert "rest True True ((1, 'a'),) {'k': inf} 2.0 {'flag': None}" in found["err"]
    found = folder.run("model.py::Block.forward")
    assert found["state"] == "fresh", found["reason"]
    assert "block Wide None False torch.float64" in found["err"]
    assert found["warnings"] == ["Wide was made anew as it was recorded, with fresh parameters"]
    folder_mode, *file_modes = (
        stat.S_IMODE(path.stat().st_mode)
        for path in [
            folder.state / "profile-neuron/recordings",
            *(folder.state / "profile-neuron/recordings").iterdir(),
        ]
    )
    assert (folder_mode, set(file_modes)) == (0o700, {0o600})
    assert folder.recording(model, "mix").tensors[0].device == "cpu"


@needs_torch
def test_what_tensors_hold_is_kept_only_where_it_is_asked_for(folder: Folder) -> None:
    folder.write(
        "model.py",
        """
        import torch
        from profile_neuron import profile_neuron
        @profile_neuron
        def f(x):
            print("holds", x.tolist())
            return x + 1
        if __name__ == "__main__":
            f(torch.tensor([[1.0, 2.0], [3.0, 4.5]]).t())
        """,
    )
    ended = folder.record("--data", "model.py")
    (remark,) = ended.remarks
    assert remark.startswith("recorded model.py::f: x: float32[2, 2] strides (1, 2); data ")
    assert len(folder.recordings) == 2
    assert "holds [[1.0, 3.0], [2.0, 4.5]]" in folder.run("model.py")["err"]
    folder.record("model.py")
    assert len(folder.recordings) == 1, "what an earlier recording held is gone with it"
    assert "holds [[1.0, 3.0], [2.0, 4.5]]" not in folder.run("model.py")["err"]


REFUSED = {
    "a module": ("f(torch.nn.Linear(1, 1))", "x", "argument x of f is or holds an object of class torch.nn.modules.linear.Linear, which is not recorded"),
    "in a list": ("f([1, {'a': object()}])", "x", "argument x of f is or holds an object of class builtins.object, which is not recorded"),
    "sparse": ("f(torch.eye(2).to_sparse())", "x", "argument x of f is or holds a tensor of layout sparse_coo, which is not recorded"),
    "a local class": ("f(local())", "x", "argument x of f is or holds of class local.<locals>.Own, which no name of a module leads to, which is not"),
}  # fmt: skip


@needs_torch
@pytest.mark.parametrize("kind", REFUSED)
def test_an_argument_that_cannot_be_made_again_is_said_when_recording_and_when_running(
    kind: str, folder: Folder
) -> None:
    call, parameters, reason = REFUSED[kind]
    folder.write(
        "model.py",
        f"""
        import enum, torch
        from profile_neuron import profile_neuron
        @profile_neuron
        def f({parameters}): pass
        def local():
            class Own(enum.Enum):
                A = 1
            return Own.A
        if __name__ == "__main__":
            {call}
        """,
    )
    (remark,) = folder.record("model.py").remarks
    assert remark.startswith(f"not recorded: model.py::f: {reason}")
    found = folder.run("model.py")
    assert found["state"] == "noInputs"
    assert reason in found["reason"]
    assert "add a function f_inputs()" in found["reason"]


INSTANCES = {
    "plain": ("def __init__(self, n, *more, k=1): self.n = (n, more, k)", "A(1, 2, 3, k=[4])", "instance A(n=1, 2, 3, k=[4])", "n (1, (2, 3), [4])"),
    "no arguments": ("n = 3", "A()", "instance A()", "n 3"),
    "an object given": ("def __init__(self, n): self.n = n", "A(object())", "without the object, since argument n of A.__init__ is or holds an object of class builtins.object, which is not recorded: give the decorator instance=", None),
    "a tensor given": ("def __init__(self, n): self.n = n", "A(torch.ones(2))", "without the object, since argument n of A.__init__ is or holds a tensor, which", None),
    "made without its class": ("def __init__(self, n): self.n = n", "A.__new__(A)", "without the object, since how the A was made was not seen", None),
}  # fmt: skip


@needs_torch
@pytest.mark.parametrize("kind", INSTANCES)
def test_an_object_is_made_again_of_what_its_class_got_or_it_is_said_why_not(kind: str, folder: Folder) -> None:
    body, made, remark, printed = INSTANCES[kind]
    folder.write(
        "model.py",
        f"""
        import torch
        from profile_neuron import profile_neuron
        class A:
            {body}
            @profile_neuron
            def __m(self, x):
                print("n", self.n)
                return x + 1
            call = __m
        if __name__ == "__main__":
            ({made}).call(torch.ones(2))
        """,
    )
    (said,) = folder.record("model.py").remarks
    assert said.startswith("recorded model.py::A.__m: x: float32[2]; ")
    assert remark in said
    found = folder.run("model.py")
    if printed is None:
        assert found["state"] == "noInputs"
        assert "A takes the argument n; " in found["reason"]
        assert remark.removeprefix("without the object, since ").split(":")[0] in found["reason"]
    else:
        assert found["state"] == "fresh", found["reason"]
        assert printed in found["err"]


@needs_torch
def test_recorded_inputs_come_after_everything_that_the_file_says(folder: Folder) -> None:
    text = """
        import torch
        from profile_neuron import profile_neuron
        @profile_neuron
        def f(x=None):
            print("got", x)
            return torch.ones(2)
        if __name__ == "__main__":
            f(7)
        """
    folder.write("model.py", text)
    assert "got None" in folder.run("model.py")["err"]
    folder.record("model.py")
    assert "got 7" in folder.run("model.py")["err"]
    folder.write("model.py", text + "\n        def f_inputs(): return 8\n")
    assert "got 8" in folder.run("model.py")["err"]
    folder.write("model.py", text.replace("@profile_neuron", "@profile_neuron(inputs=lambda: 9)"))
    assert "got 9" in folder.run("model.py")["err"]


@needs_torch
def test_what_was_recorded_of_another_signature_is_not_used(folder: Folder) -> None:
    text = "from profile_neuron import profile_neuron\n@profile_neuron\ndef f(x, y): print('got', x, y)\nif __name__ == '__main__': f(1, 2)\n"
    folder.write("model.py", text)
    folder.record("model.py")
    assert "got 1 2" in folder.run("model.py")["err"]
    folder.write("model.py", text.replace("def f(x, y)", "def f(y, x)"))
    found = folder.run("model.py")
    assert found["state"] == "noInputs"
    assert found["reason"].startswith(
        "f needs the arguments y and x; the inputs recorded for f are of an earlier signature, (x, y) and not (y, x); "
        "record them again with profile-neuron record, or add a function f_inputs() to the file"
    )


@needs_torch
def test_a_damaged_recording_is_said_and_does_no_more_harm(folder: Folder) -> None:
    folder.write(
        "model.py",
        "from profile_neuron import profile_neuron\n@profile_neuron\ndef f(x): ...\nif __name__ == '__main__': f(1)\n",
    )
    folder.record("model.py")
    (file,) = (folder.state / "profile-neuron/recordings").iterdir()
    content = file.read_text()
    file.write_text("{")
    assert "the inputs recorded for f cannot be read (Expecting property name" in folder.run("model.py")["reason"]
    file.write_text(content.replace('"value": "1"', '"value": "{\\"tensor\\": 5}"'))
    found = folder.run("model.py")
    assert found["state"] == "failed"
    assert found["reason"].startswith("the inputs recorded for f cannot be made again (")
    assert [frame["line"] for frame in found["frames"]] == [3]


# Programs that never import torch, so that nothing but Python itself is compared.
MARKED = "from profile_neuron import profile_neuron\n@profile_neuron\ndef f(x): return x\nf(1)\n"
PROGRAMS: dict[str, tuple[str, list[str]]] = {
    "its surroundings": ("import os, sys\nprint(__name__, __file__, __spec__ and (__spec__.name, __spec__.origin), __package__, __doc__, sys.argv, sys.path[0], os.getcwd(), sys.orig_argv[1:])\nprint(sorted(vars()))", ["a", "-m", "--data", "--", "--python"]),
    "reads its input": ("import sys\nprint(sys.stdin.read().upper())", []),
    "prints on both": ("import sys\nprint('out')\nprint('err', file=sys.stderr)", []),
    "exit code": ("import sys\nsys.exit(7)", []),
    "exit text": ("raise SystemExit('this went wrong')", []),
    "leaves at once": ("import os, sys\nsys.stdout.flush()\nos._exit(9)", []),
    "error": ("def g():\n    raise ValueError('no')\ntry:\n    1 / 0\nexcept ZeroDivisionError:\n    g()", []),
    "does not parse": ("if x", []),
    "interrupted": ("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nimport time\ntime.sleep(60)", []),
    "terminated": ("import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\nimport time\ntime.sleep(60)", []),
    "a hook of its own": ("import sys, traceback\ndef hook(kind, value, trace):\n    print('hook', kind.__name__, [item.name for item in traceback.extract_tb(trace)])\nsys.excepthook = hook\n1 / 0", []),
    "at exit and threads": ("import atexit, threading, time\natexit.register(print, 'at exit')\nthreading.Thread(target=lambda: print('thread')).start()", []),
    "modules named like Python's own": ("import json, tempfile\nprint(json.x, tempfile.__file__.endswith('python3/tempfile.py'))", []),
    "pickles its own classes": ("import pickle\nclass A: pass\nprint(type(pickle.loads(pickle.dumps(A()))) is A)", []),
    "looks at a marked function": ("import inspect, types\nprint(type(f) is types.FunctionType, inspect.signature(f), f.__code__.co_name, inspect.getsource(f))", []),
    "starts processes": ("import multiprocessing\nif __name__ == '__main__':\n    for way in ('fork', 'spawn'):\n        with multiprocessing.get_context(way).Pool(2) as pool:\n            print(pool.map(f, [1, 2]))", []),
    "forks and leaves": ("import os, sys\nif os.fork() == 0:\n    f(2)\n    sys.exit(3)\nprint(os.waitstatus_to_exitcode(os.wait()[1]))", []),
}  # fmt: skip


@pytest.mark.parametrize("start", ["file", "module", "folder"])
@pytest.mark.parametrize("kind", PROGRAMS)
def test_a_program_does_what_it_does_under_python(kind: str, start: str, folder: Folder) -> None:
    text, arguments = PROGRAMS[kind]
    if start != "file" and kind in ("starts processes", "does not parse", "modules named like Python's own"):
        pytest.skip("the same with a file")
    folder.write("json.py", "x = 1\n") if kind == "modules named like Python's own" else None
    folder.write("deep/program.py", MARKED + text)
    folder.write("deep/pack/__main__.py", MARKED + text)
    target = {"file": ["deep/../deep/program.py"], "module": ["-m", "deep.program"], "folder": ["deep/pack"]}[start]
    if kind == "modules named like Python's own":
        folder.write("deep/json.py", "x = 'mine'\n")
    expected = folder.python(*target, *arguments, given="input")
    ended = folder.record(*target, *arguments, given="input")
    assert (ended.code, ended.out, ended.program_err) == (expected.code, expected.out, expected.err)
    if kind == "does not parse":
        assert ended.remarks == ["nothing recorded: no function marked @profile_neuron was defined in this process"]
        return
    path = folder.path / ("deep/pack/__main__.py" if start == "folder" else "deep/program.py")
    assert folder.recording(path, "f").arguments[0].value == "1"
    silent = kind in ("leaves at once", "terminated")
    shown = str(path.relative_to(folder.path))
    assert ended.remarks == ([] if silent else [f"recorded {shown}::f: x=1"])


def test_a_person_who_presses_ctrl_c_ends_the_program_and_keeps_what_was_recorded(folder: Folder) -> None:
    program = folder.write("program.py", MARKED + "print('ready', flush=True)\nimport time\ntime.sleep(60)\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "profile_neuron", "record", "program.py"],
        cwd=folder.path, env=folder.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert "Traceback (most recent call last):\n  File " in err
    assert "worker" not in err
    assert err.endswith("profile-neuron: recorded program.py::f: x=1\n")
    assert folder.recording(program, "f").arguments[0].value == "1"


def test_two_programs_at_once_both_leave_whole_files(folder: Folder) -> None:
    program = folder.write(
        "program.py",
        "import sys\nfrom profile_neuron import profile_neuron\n"
        + "".join(f"@profile_neuron\ndef f{number}(x): ...\nf{number}(sys.argv[1] * 1000)\n" for number in range(40)),
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "profile_neuron", "record", "program.py", letter],
            cwd=folder.path, env=folder.environment, stderr=subprocess.PIPE,
        )
        for letter in "ab"
    ]  # fmt: skip
    for process in processes:
        process.communicate(timeout=60)
        assert process.returncode == 0
    assert len(folder.recordings) == 40
    for number in range(40):
        (argument,) = folder.recording(program, f"f{number}").arguments
        assert json.loads(argument.value) in ("a" * 1000, "b" * 1000)


def test_of_several_ranks_only_the_first_records(folder: Folder) -> None:
    folder.write("program.py", MARKED + "print('ran')\n")
    ended = folder.record("program.py", RANK="1")
    assert (ended.code, ended.out, ended.err) == (0, "ran\n", "")
    assert folder.recordings == []
    assert folder.record("program.py", RANK="0").remarks == ["recorded program.py::f: x=1"]


KINDS = """
import asyncio, functools, threading
from profile_neuron import profile_neuron

def wrapped(fn):
    @functools.wraps(fn)
    def inner(*args, **kwargs):
        return fn(*args, **kwargs)
    return inner

class A:
    @wrapped
    @profile_neuron
    def method(self, x): ...
    @profile_neuron
    @classmethod
    def outer_class(cls, x): ...
    @classmethod
    @profile_neuron
    def inner_class(cls, x): ...
    @staticmethod
    @profile_neuron
    def static(x): ...
    @property
    @profile_neuron
    def value(self): ...

@profile_neuron
def generator(x):
    yield x

@profile_neuron
async def coroutine(x): ...

@profile_neuron
def in_a_thread(x):
    x = x + 1
    return lambda: x

def make(n):
    @profile_neuron
    def closure(x):
        return x + n
    return closure

a = A()
a.method(1), A.outer_class(2), a.inner_class(3), A.static(4), a.value
list(generator(5))
asyncio.run(coroutine(6))
thread = threading.Thread(target=in_a_thread, args=(7,))
thread.start(), thread.join()
make(1)(8), make(2)(9)
profile_neuron(len)
import sys
print(sys.getprofile())
"""


def test_every_kind_of_function_is_seen_at_its_first_call(folder: Folder) -> None:
    folder.write("program.py", KINDS)
    ended = folder.record("program.py")
    assert ended.out == "None\n", "nothing is watched any more once all were seen"
    assert ended.remarks == [
        "recorded program.py::A.method: x=1; instance A()",
        "recorded program.py::A.outer_class: x=2",
        "recorded program.py::A.inner_class: x=3",
        "recorded program.py::A.static: x=4",
        "recorded program.py::A.value: no arguments; instance A()",
        "recorded program.py::generator: x=5",
        "recorded program.py::coroutine: x=6",
        "recorded program.py::in_a_thread: x=7",
        "recorded program.py::make.<locals>.closure: x=8",
        f"not recorded: line 52 of {folder.path}/program.py marks no function written in Python",
    ]


@needs_torch
def test_a_compiled_function_is_seen_and_the_compiler_does_not_see_us(folder: Folder) -> None:
    folder.write(
        "program.py",
        """
        import torch
        from profile_neuron import profile_neuron
        @torch.compile(backend="eager")
        @profile_neuron
        def inner(x): return x + 1
        @profile_neuron
        @torch.compile(backend="eager")
        def outer(x): return x + 1
        @profile_neuron
        def never(x): ...
        for _ in range(3):
            inner(torch.ones(2)), outer(torch.ones(3))
        print(dict(torch._dynamo.utils.counters["stats"]), dict(torch._dynamo.utils.counters["graph_break"]))
        """,
    )
    ended = folder.record("program.py")
    assert ended.program_err == ""
    assert ended.out == folder.python("program.py").out
    assert ended.remarks == [
        "recorded program.py::inner: x: float32[2]",
        "recorded program.py::outer: x: float32[3]",
        "not called: program.py::never",
    ]


USAGE = {
    "only our options": (["--data", "--python", sys.executable], "name the program to run"),
    "no module": (["-m"], "name the program to run"),
    "nothing": ([], "name the program to run, for example: profile-neuron record train.py"),
    "no such file": (["missing.py", "a"], "missing.py: no such file"),
    "no such interpreter": (["--python", "/nowhere/python", "program.py"], "/nowhere/python cannot be started: No such file"),
}  # fmt: skip


@pytest.mark.parametrize("kind", USAGE)
def test_wrong_usage_is_one_sentence(kind: str, folder: Folder) -> None:
    folder.write("program.py", MARKED)
    arguments, sentence = USAGE[kind]
    ended = folder.record(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"profile-neuron: {sentence}")


def test_an_option_that_is_not_ours_is_refused_before_the_program(folder: Folder) -> None:
    folder.write("program.py", MARKED)
    ended = folder.record("--dat", "program.py")
    assert (ended.code, ended.err.splitlines()[-1]) == (
        2, "profile-neuron: error: unrecognized arguments: --dat",
    )  # fmt: skip
    assert folder.record("-mprogram", "--data").remarks == ["recorded program.py::f: x=1"]


def test_a_module_that_is_not_there_is_said_by_python_itself(folder: Folder) -> None:
    ended = folder.record("-m", "missing.module")
    assert (ended.code, ended.program_err) == (1, folder.python("-m", "missing.module").err)


def test_nothing_is_imported_that_the_program_does_not_import(folder: Folder) -> None:
    folder.write("program.py", MARKED + "import sys\nprint('torch' in sys.modules, 'msgpack' in sys.modules)\n")
    assert folder.record("program.py").out == "False False\n"
