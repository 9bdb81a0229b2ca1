"""User code that gets in the way, in every place that runs it: measured right or refused at its line, and then gone."""

from __future__ import annotations

import json
import sys
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from profile_neuron.errors import AgentLostError
from tests.conftest import Profiler

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Run

pytestmark = pytest.mark.torch

# What user code does.
SNIPPETS = {
    # Profilers and tracing.
    "torch.profiler": "with torch.profiler.profile(): torch.zeros(2)",
    "torch.profiler kept": "P = torch.profiler.profile()\nP.start()",
    "torch.autograd.profiler": "with torch.autograd.profiler.profile(): torch.zeros(2)",
    "emitted ranges": "torch.autograd.profiler.record_function('left').__enter__()",
    "cProfile": "import cProfile\nP = cProfile.Profile()\nP.enable()\nsum([1])\nP.disable()",
    "cProfile kept": "import cProfile\nP = cProfile.Profile()\nP.enable()",
    "sys.setprofile": "sys.setprofile(lambda *a: None)",
    "sys.settrace": "sys.settrace(lambda *a: None)",
    "sys.settrace of none": "sys.settrace(None)",
    "threading.settrace": "threading.settrace(lambda *a: None)",
    "threading.setprofile": "threading.setprofile(lambda *a: None)",
    "a tracer": "def tracer(frame, event, arg): return tracer\nsys.settrace(tracer)\nthreading.settrace(tracer)",
    # Folders and descriptors.
    "chdir": "os.chdir('/')",
    "a folder that is gone": "import tempfile\nD = tempfile.mkdtemp()\nos.chdir(D)\nos.rmdir(D)",
    "close 0": "os.close(0)",
    "close 1": "os.close(1)",
    "close 2": "os.close(2)",
    "closerange": "os.closerange(3, 256)",
    "closerange of all": "os.closerange(0, 1 << 20)",
    "dup2": "os.dup2(os.open(os.devnull, os.O_WRONLY), 1)",
    "few descriptors": "resource.setrlimit(resource.RLIMIT_NOFILE, (16, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))",
    "few descriptors for good": "resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))",
    "little memory": "resource.setrlimit(resource.RLIMIT_AS, (1 << 36, 1 << 37))",
    # Processes.
    "fork that returns": "os.fork()",
    "fork that exits": "if not os.fork(): sys.exit(3)",
    "fork that ends": "if not os.fork(): os._exit(3)",
    "fork that lingers": "if not os.fork(): __import__('time').sleep(300)",
    "fork that is waited for": "P = os.fork()\nif P == 0: os._exit(0)\nos.waitpid(P, 0)",
    "multiprocessing by fork": "P = multiprocessing.get_context('fork').Process(target=print)\nP.start()\nP.join()",
    "multiprocessing by spawn": "P = multiprocessing.get_context('spawn').Process(target=print)\nP.start()\nP.join()",
    "start method": "multiprocessing.set_start_method('spawn', force=True)",
    "process pool": "import concurrent.futures as F\nwith F.ProcessPoolExecutor(1) as P: assert P.submit(abs, -1).result() == 1",
    "guarded": "if __name__ == '__main__': multiprocessing.Process(target=print).start()",
    "DataLoader": "assert len(list(torch.utils.data.DataLoader(range(4), num_workers=1))) == 4",
    "setsid": "os.setsid()",
    "setpgid": "os.setpgid(0, os.getppid())",
    "no end with the agent": "import ctypes\nctypes.CDLL(None).prctl(1, 0, 0, 0, 0)",
    "nice": "os.nice(1)",
    "umask": "os.umask(0o777)",
    # Input and output.
    "input": "input()",
    "stdin": "assert sys.stdin.read() == ''",
    "50 MB": "for _ in range(50): print('x' * 1_000_000)",
    # Signals and timers.
    "SIGTERM": "signal.signal(signal.SIGTERM, lambda *a: None)",
    "SIGINT": "signal.signal(signal.SIGINT, signal.SIG_IGN)",
    "SIGALRM": "signal.signal(signal.SIGALRM, lambda *a: None)",
    "SIGCHLD": "signal.signal(signal.SIGCHLD, signal.SIG_IGN)",
    "SIGPIPE": "signal.signal(signal.SIGPIPE, signal.SIG_DFL)",
    "SIGPROF": "signal.signal(signal.SIGPROF, lambda *a: None)",
    "SIGQUIT": "signal.signal(signal.SIGQUIT, signal.SIG_IGN)",
    "SIGXCPU": "signal.signal(signal.SIGXCPU, signal.SIG_IGN)",
    "blocked signals": "signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())",
    "alarm that fires": "signal.setitimer(signal.ITIMER_REAL, 0.01)\nsignal.pause()",
    "alarm that raises": "def late(*a): raise TimeoutError('late')\nsignal.signal(signal.SIGALRM, late)\nsignal.setitimer(signal.ITIMER_REAL, 0.01)\nsignal.pause()",
    "alarm later": "signal.alarm(100)",
    "setitimer": "signal.setitimer(signal.ITIMER_PROF, 100)",
    "wakeup descriptor": "import socket\nS = socket.socketpair()\nS[1].setblocking(False)\nsignal.set_wakeup_fd(S[1].fileno())",
    "faulthandler on": "faulthandler.enable()",
    "faulthandler off": "faulthandler.disable()",
    "faulthandler to a file": "L = open(os.devnull, 'w')\nfaulthandler.enable(L)\nL.close()",
    "faulthandler later": "faulthandler.dump_traceback_later(100)",
    "faulthandler at a signal": "faulthandler.register(signal.SIGUSR1)",
    # torch.
    "float64": "torch.set_default_dtype(torch.float64)",
    "bfloat16": "torch.set_default_dtype(torch.bfloat16)",
    "meta": "torch.set_default_device('meta')",
    "threads": "torch.set_num_threads(1 + torch.get_num_threads())",
    "determinism": "torch.use_deterministic_algorithms(True)",
    "no fill": "torch.utils.deterministic.fill_uninitialized_memory = False",
    "no gradients": "torch.set_grad_enabled(False)",
    "inference mode": "torch.inference_mode().__enter__()",
    "autocast": "torch.autocast('cpu', dtype=torch.bfloat16).__enter__()",
    "autocast type": "torch.set_autocast_dtype('cpu', torch.float16)",
    "autocast for devices": "torch.autocast('cuda', dtype=torch.float16, enabled=True).__enter__()",
    "anomaly": "torch.set_anomaly_enabled(True)",
    "seed": "torch.manual_seed(3)",
    "precision": "torch.set_float32_matmul_precision('medium')",
    "function mode": "torch.overrides.BaseTorchFunctionMode().__enter__()",
    "dispatch mode": "torch.utils._python_dispatch.BaseTorchDispatchMode().__enter__()",
    "module hooks": "torch.nn.modules.module.register_module_forward_hook(lambda *a: None)",
    "print options": "torch.set_printoptions(precision=1)",
    "flush denormal": "torch.set_flush_denormal(True)",
    "mkldnn": "torch.backends.mkldnn.enabled = False",
    "mkldnn flags": "torch.backends.mkldnn.set_flags(False)",
    "sdpa": "torch.backends.cuda.enable_flash_sdp(False)",
    "saved tensor hooks": "torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x).__enter__()",
    "sharing": "torch.multiprocessing.set_sharing_strategy('file_system')",
    # The interpreter.
    "warnings": "import warnings\nwarnings.simplefilter('error')",
    "logging": "import logging\nlogging.disable()\nlogging.basicConfig(level=1)",
    "collector": "gc.disable()",
    "collector's thresholds": "gc.set_threshold(1, 1, 1)",
    "collector's callbacks": "gc.callbacks.append(lambda *a: None)",
    "collector's debugging": "gc.set_debug(gc.DEBUG_SAVEALL)",
    "recursion limit": "sys.setrecursionlimit(60)",
    "switch interval": "sys.setswitchinterval(0.5)",
    "stack size": "threading.stack_size(1 << 20)",
    "locale": "import locale\nlocale.setlocale(locale.LC_ALL, 'C.UTF-8')",
    "decimal": "import decimal\ndecimal.getcontext().prec = 3",
    "random": "import random\nrandom.seed(3)",
    "environment": "os.environ['PN_CONFLICT'] = '1'\nos.environ.pop('PATH', None)",
    "path": "sys.path.insert(0, '/pn')",
    "path replaced": "sys.path = ['/pn']",
    "path emptied": "sys.path.clear()",
    "finders": "sys.meta_path.clear()",
    "path hooks": "sys.path_hooks.clear()\nsys.path_importer_cache.clear()",
    "del json": "sys.modules.pop('json', None)",
    "del own file": "sys.modules.pop(__name__, None)",
    "print replaced": "import builtins\nbuiltins.print = lambda *a, **k: None",
    "open replaced": "import builtins\nbuiltins.open = None",
    "atexit": "import atexit\natexit.register(os._exit, 7)",
    "excepthook": "sys.excepthook = None",
    "hooks": "sys.unraisablehook = threading.excepthook = sys.displayhook = None",
    "exit": "sys.exit(3)",
    "exit in a thread": "T = threading.Thread(target=sys.exit)\nT.start()\nT.join()",
    "daemon thread": "threading.Thread(target=threading.Event().wait, daemon=True, name='left').start()",
    "thread": "threading.Thread(target=threading.Event().wait, name='left').start()",
    "event loop policy": "import asyncio\nasyncio.set_event_loop_policy(None)\nasyncio.set_event_loop(asyncio.new_event_loop())",
    "running loop": "import asyncio\nasyncio._set_running_loop(asyncio.new_event_loop())",
    "dont_write_bytecode": "sys.dont_write_bytecode = False",
    "float digits": "sys.set_int_max_str_digits(0) if hasattr(sys, 'set_int_max_str_digits') else None",
    "time zone": "import time\nos.environ['TZ'] = 'Asia/Tokyo'\ntime.tzset()",
    "tempdir": "import tempfile\ntempfile.tempdir = '/nowhere'",
    "audit hook": "sys.addaudithook(lambda *a: None)",
    "tracemalloc": "import tracemalloc\ntracemalloc.start()",
    "socket timeout": "import socket\nsocket.setdefaulttimeout(3)",
}  # fmt: skip

TRACES = sys.version_info < (3, 12)
# What takes Python's trace function, and so is in the way only where that is the clock.
TRACERS = ("sys.settrace", "sys.settrace of none", "a tracer")

# Where it is refused, with the beginning of the sentence; everywhere else it is measured right.
PROFILER = "conflict: torch.profiler was started"
TRACER = "conflict: sys.settrace was called"
CLOSED = "OSError: [Errno 9] Bad file descriptor"
LOST = "crashed: the worker ended with exit code 1"
NO_GROUP = "PermissionError: [Errno 1] Operation not permitted"
REFUSED = {
    "torch.profiler": {"function": PROFILER},
    "torch.profiler kept": {"function": PROFILER},
    "torch.autograd.profiler": {"function": PROFILER},
    "sys.settrace": {"function": TRACER},
    "sys.settrace of none": {"function": TRACER},
    "a tracer": {"function": TRACER},
    # The second call finds it closed.
    "close 0": {"function": CLOSED},
    "close 1": {"function": CLOSED},
    "close 2": {"function": CLOSED},
    "closerange of all": dict.fromkeys(("function", "import", "inputs"), LOST),
    "alarm that fires": {"import": "crashed: the worker ended with signal 14 (SIGALRM) during importing the file, at "},
    "setsid": dict.fromkeys(("function", "import", "inputs"), NO_GROUP),
    "setpgid": dict.fromkeys(("function", "import", "inputs"), NO_GROUP),
    "input": dict.fromkeys(("function", "import", "inputs"), "EOFError"),
    "alarm that raises": dict.fromkeys(("function", "import", "inputs"), "TimeoutError: late"),
    "exit": dict.fromkeys(("function", "import", "inputs"), "SystemExit: 3"),
}
# Said by the agent, which knows no line.
WITHOUT_A_LINE = (LOST,)
# What ends the worker, which is tried in one place only.
RETIRES = {
    "closerange of all", "alarm that fires", "few descriptors for good", "little memory", "nice", "inference mode", "function mode",
    "dispatch mode", "module hooks", "saved tensor hooks", "autocast", "autocast for devices",
}  # fmt: skip
HEAD = """
import faulthandler, gc, multiprocessing, os, resource, signal, sys, threading
import torch
from profile_neuron import profile_neuron
"""
# Where the snippet stands, with how far it is indented.
PLACES = {"function": "    ", "import": "", "inputs": "    "}
MODEL = (
    HEAD
    + """
{import}
def f_inputs():
{inputs}
    return torch.ones(3, device="cpu", dtype=torch.float32)
@profile_neuron(warmup=1, repeats=1)
def f(x):
{function}
    y = x + 1
    return {product}
"""
)
PROBE = (
    HEAD
    + """
import asyncio, builtins, decimal, json, locale, logging, random, tempfile, time, tracemalloc, warnings
from torch.nn.modules import module
def state():
    handlers = {number.name: str(signal.getsignal(number)) for number in signal.valid_signals() if hasattr(number, "name")}
    return {
        "dtype": str(torch.ones(1).dtype), "device": str(torch.ones(1).device),
        "threads": torch.get_num_threads(), "interop": torch.get_num_interop_threads(),
        "determinism": (torch.are_deterministic_algorithms_enabled(), torch.utils.deterministic.fill_uninitialized_memory),
        "gradients": (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), (torch.ones(1, requires_grad=True) * 2).requires_grad),
        "autocast": [(torch.is_autocast_enabled(kind), str(torch.get_autocast_dtype(kind))) for kind in ("cpu", "cuda")],
        "anomaly": torch.is_anomaly_enabled(), "precision": torch.get_float32_matmul_precision(),
        "modes": (torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack()),
        "hooks": len(module._global_forward_hooks), "options": torch._tensor_str.PRINT_OPTS.precision,
        "mkldnn": torch.backends.mkldnn.enabled, "sdp": torch.backends.cuda.flash_sdp_enabled(),
        "denormal": (torch.tensor([1e-39]) * 1).item() != 0,
        "saved": torch.tensor(2.0, requires_grad=True).exp().grad_fn._raw_saved_result is not None and torch._C._autograd._saved_tensors_hooks_is_enabled(),
        "hooked": str(torch._C._autograd._top_saved_tensors_default_hooks(True)),
        "sharing": torch.multiprocessing.get_sharing_strategy(),
        "random": torch.rand(2).shape[0] + len([random.random()]),
        "profile": str((sys.getprofile(), threading.getprofile())), "trace": getattr(threading.gettrace(), "__qualname__", ""),
        "folder": os.getcwd(), "stdin": (sys.stdin.read(), os.read(0, 1).decode()),
        "out": os.fstat(1).st_ino == os.fstat(2).st_ino, "streams": [s.fileno() for s in (sys.stdin, sys.stdout, sys.stderr)],
        "handlers": handlers, "mask": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])), "timer": [signal.getitimer(n) for n in range(3)],
        "wakeup": signal.set_wakeup_fd(-1), "faulthandler": faulthandler.is_enabled(),
        "environment": dict(os.environ), "real": sorted(os.popen("env").read().split()), "path": sys.path, "argv": len(sys.argv),
        "start": multiprocessing.get_start_method(allow_none=True), "children": len(multiprocessing.active_children()),
        "limits": [resource.getrlimit(n) for n in (resource.RLIMIT_NOFILE, resource.RLIMIT_AS, resource.RLIMIT_CORE)],
        "nice": os.getpriority(os.PRIO_PROCESS, 0), "umask": next(line for line in open("/proc/self/status") if line.startswith("Umask")), "group": (os.getpgid(0) == os.getpid(), os.getsid(0) == os.getpid()),
        "death": death(), "recursion": sys.getrecursionlimit(), "switch": sys.getswitchinterval(), "stack": threading.stack_size(),
        "locale": locale.setlocale(locale.LC_ALL), "decimal": decimal.getcontext().prec, "logging": (logging.root.manager.disable, logging.root.level, len(logging.root.handlers)),
        "warnings": str(warnings.filters), "gc": (gc.isenabled(), gc.get_threshold(), len(gc.callbacks), gc.get_debug()),
        "finders": len(sys.meta_path), "path hooks": len(sys.path_hooks), "builtins": [type(f).__name__ for f in (builtins.open, builtins.print, builtins.len, os.getpid)],
        "json": sys.modules.get("json") is json,
        "excepthook": [str(getattr(f, "__name__", f)) for f in (sys.excepthook, sys.unraisablehook, threading.excepthook, sys.displayhook)],
        "alive": sorted(t.name for t in threading.enumerate() if t.name != 'left'), "loop": str(asyncio._get_running_loop()),
        "bytecode": sys.dont_write_bytecode, "digits": getattr(sys, "get_int_max_str_digits", int)(), "zone": time.tzname,
        "tempdir": tempfile.gettempdir(), "tracemalloc": tracemalloc.is_tracing(), "timeout": __import__("socket").getdefaulttimeout(),
    }
def death():
    import ctypes
    number = ctypes.c_int()
    ctypes.CDLL(None).prctl(2, ctypes.byref(number), 0, 0, 0)
    return number.value
@profile_neuron(warmup=0, repeats=1)
def f():
    print(json.dumps(state()))
    x = torch.ones(2)
    return x * 2
"""
)


@dataclass(frozen=True)
class Model:
    """A file with a snippet in one place, and how its run has to end."""

    path: Path
    snippet: str
    place: str

    def write(self, product: str = "y * 2", with_snippet: bool = True) -> None:
        """Write the file; what the function gives differs by the product."""
        put = {place: textwrap.indent("pass", indent) for place, indent in PLACES.items()}
        if with_snippet:
            put[self.place] = textwrap.indent(self.snippet, PLACES[self.place])
        self.path.write_text(MODEL.format(product=product, **put))

    def check(self, run: Run, refusal: str | None) -> None:
        """One operator on each of the two lines, or the sentence and a line of the snippet."""
        lines = self.path.read_text().split("\n")
        if refusal is None:
            assert run.state == "fresh", (run.reason, run.frames)
            at = {lines[line - 1].strip(): operators for line, operators in run.operators().items()}
            assert at["y = x + 1"] == {"aten::add": 1.0}
            assert at[next(text for text in at if text.startswith("return"))] == (
                {"aten::mul": 1.0} if "y * 2" in "".join(at) else {"aten::sub": 1.0}
            )
            return
        assert run.state == "failed"
        assert (run.reason or "").startswith(refusal), run.reason
        if refusal not in WITHOUT_A_LINE:
            assert lines[run.frames[-1][1] - 1].strip() in [line.strip() for line in self.snippet.split("\n")]


def state(run: Run) -> dict[str, Any]:
    """What the other file sees of its process."""
    assert run.state == "fresh", (run.reason, run.frames)
    assert {"aten::mul": 1.0} in run.operators().values()
    found: dict[str, Any] = json.loads(next(line for line in run.output if line.startswith("{")))
    return found


@pytest.fixture(scope="module")
def clean(profiler: Profiler, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """An unrelated file, and what it sees before anything got in its way."""
    path = tmp_path_factory.mktemp("clean") / "clean.py"
    path.write_text(PROBE)
    return path, state(profiler.run(path))


@pytest.mark.parametrize("kind", SNIPPETS)
def test_what_gets_in_the_way_is_measured_right_or_refused_and_then_gone(
    kind: str, profiler: Profiler, tmp_path: Path, clean: tuple[Path, dict[str, Any]]
) -> None:
    if not TRACES and kind in TRACERS:
        pytest.skip("sys.monitoring is not disturbed by tracing")
    for place in ("import",) if kind in RETIRES else PLACES:
        model = Model(tmp_path / "model.py", SNIPPETS[kind], place)
        refusal = REFUSED.get(kind, {}).get(place)
        model.write()
        model.check(profiler.run(model.path), refusal)
        model.check(profiler.run(model.path), refusal)
        # Of an import the snippet stays, of a function it is what is edited away.
        stays = place == "import"
        model.write("y - 2", with_snippet=stays)
        model.check(profiler.run(model.path), refusal if stays else None)
    path, before = clean
    after = state(profiler.run(path))
    assert {key: value for key, value in after.items() if before[key] != value} == {}


def test_code_that_ends_its_parent_ends_the_agent_alone(tmp_path: Path, clean: tuple[Path, dict[str, Any]]) -> None:
    model = Model(tmp_path / "model.py", "os.kill(os.getppid(), signal.SIGTERM)\nsignal.pause()", "function")
    model.write()
    profiler = Profiler()
    with pytest.raises(AgentLostError):
        profiler.run(model.path)
    profiler.close()
    again = Profiler()
    assert again.run(clean[0]).state == "fresh"
    again.close()
