"""What faulthandler writes, in the forms of several versions of Python."""

from __future__ import annotations

import faulthandler
import threading
from typing import TYPE_CHECKING

from profile_neuron.core.fault_stack import Stack, is_cut, is_start_of, main_thread_line, read_stacks
from profile_neuron.core.model import Frame

if TYPE_CHECKING:
    from pathlib import Path

CRASH = r"""main thread 7f01
Fatal Python error: Segmentation fault

Thread 0x0000000000007f02 [Thread-1 (work)] (most recent call first):
  File "/lib/threading.py", line 324 in wait
  File "/p/gr\xf6\xdfe_\u65e5.py", line 3 in \U0001f600

Current thread 0x0000000000007f01 [python] (most recent call first):
  File "/p/a "quoted", line 1 in x.py", line 17 in helper
  File "/p/model.py", line 14 in h
  File ???, line ??? in ???
  ...

Current thread's C stack trace (most recent call first):
  Binary file "/lib/x.so", at f+0x1 [0x2]

Extension modules: numpy._core (total: 1)
"""


def test_threads_and_frames_are_read_outermost_first() -> None:
    assert read_stacks(CRASH) == (
        Stack(False, False, (Frame("/p/größe_日.py", 3, "😀", ""), Frame("/lib/threading.py", 324, "wait", ""))),
        Stack(
            True,
            True,
            (Frame("/p/model.py", 14, "h", ""), Frame('/p/a "quoted", line 1 in x.py', 17, "helper", "")),
        ),
    )


def test_a_thread_without_a_state_of_python_has_no_frames() -> None:
    text = "Current thread 0x01 (most recent call first):\n  <no Python frame>\n"
    assert read_stacks(text) == (Stack(False, True, ()),)


def test_what_is_no_stack_gives_no_threads() -> None:
    assert read_stacks("") == read_stacks("main thread x\n  File nothing\n\0\ufffd") == ()


def test_this_interpreters_own_stack_is_read(tmp_path: Path) -> None:
    with (tmp_path / "stack").open("w+") as file:
        file.write(main_thread_line(threading.main_thread().ident or 0))
        file.flush()
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        stacks = read_stacks(file.read())
    (main,) = [stack for stack in stacks if stack.is_main]
    assert main.is_current
    assert (main.frames[-1].path, main.frames[-1].function) == (__file__, "test_this_interpreters_own_stack_is_read")


def test_a_long_name_is_known_by_its_start() -> None:
    whole = "/" + "d" * 600 + "/model.py"
    cut = whole[:500] + "..."
    assert (is_cut(cut), is_cut(whole), is_cut("/p/...")) == (True, False, False)
    assert is_start_of(cut, whole)
    assert not is_start_of(cut, "/p/model.py")
