"""What the files hold: functions whose text tells how many operators each line runs, good ones and bad ones.

A new bad function is one more Kind in BAD, a new way for a whole file to be bad is one more Top.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

CONSTANTS = range(1, 10)
HELPER = "helper"


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ends that nothing disturbs."""

    # What the lens says of a failure; empty for a result.
    failure: str = ""
    # The failure is told at the line that ends with the comment here, otherwise at the def line.
    at_here: bool = False
    # The lens, where it is neither a result nor a failure.
    title: str = ""


FRESH = Ending()
CRASHED = Ending("crashed")
TIMEOUT = Ending("timeout", at_here=True)


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of function: NAME stands for its name, SUM for as many additions as its constant says."""

    name: str
    source: str
    ending: Ending = FRESH
    # A run of it takes seconds, or costs the worker.
    is_costly: bool = False
    # What its lenses and logs call it.
    qualname: str = "NAME"


def _body(name: str, *lines: str, ending: Ending = FRESH, is_costly: bool = False, parameters: str = "") -> Kind:
    """A plain function with some lines before its result."""
    body = "".join(f"    {line}\n" for line in lines)
    head = f"@profile_neuron(warmup=0, repeats=1)\ndef NAME({parameters}):\n    x = torch.ones(4)\n"
    return Kind(name, f"{head}{body}    x = xSUM\n    return x\n", ending, is_costly)


GOOD = (
    _body("plain"),
    _body("slow", "time.sleep(0.2)"),
    _body("generator", "yield x"),
    Kind(
        "method",
        "class NAME_holder:\n"
        "    @profile_neuron(warmup=0, repeats=1)\n"
        "    def NAME(self):\n"
        "        x = torch.ones(4)\n"
        "        return xSUM\n",
        qualname="NAME_holder.NAME",
    ),
    Kind(
        "given inputs",
        "def NAME_inputs():\n"
        "    return (torch.ones(4),)\n\n\n"
        "@profile_neuron(warmup=0, repeats=1)\n"
        "def NAME(x):\n"
        "    x = xSUM\n"
        "    return x\n",
    ),
)
# For files that import the helper.
HELPED = _body("helped", f"x = {HELPER}.grow(x)")
BAD = (
    _body("raises", "x = x[1 // 0]  # here", ending=Ending("ZeroDivisionError", at_here=True)),
    _body("without inputs", parameters="y", ending=Ending(title="No inputs for this function")),
    _body("prints a megabyte", "print(('x' * 99 + '\\n') * 10_000)"),
    _body("starts a child for an hour", "subprocess.Popen(['sleep', '3600'], start_new_session=True)"),
    _body("forks for an hour", "os.fork() or (os.setsid(), time.sleep(3600), os._exit(0))"),
    _body("closes its descriptors", "os.closerange(0, 3)"),
    _body("goes elsewhere", "os.chdir('/')", "os.environ.clear()"),
    _body("deletes its own file", "os.remove(__file__)"),
    _body("exits", "os._exit(3)", ending=CRASHED, is_costly=True),
    _body("kills itself", "os.kill(os.getpid(), 9)", ending=CRASHED, is_costly=True),
    # Of what a signal ends that can be caught, the line is known; what exits or is killed leaves none.
    _body("reads address 0", "ctypes.string_at(0)  # here", ending=Ending("crashed", at_here=True), is_costly=True),
    _body("runs for ever", "while True: pass  # here", ending=TIMEOUT, is_costly=True),
)


@dataclass(frozen=True, slots=True)
class Top:
    """What stands before all functions of a file."""

    name: str
    line: str
    ending: Ending = FRESH
    is_costly: bool = False
    parses: bool = True


NO_TOP = Top("nothing", "")
TOPS = (
    Top("takes a while", "time.sleep(0.3)"),
    Top("does not parse", "def broken(:", parses=False),
    Top("misses a module", "import a_module_that_is_nowhere  # here", Ending("ModuleNotFoundError", at_here=True)),
    Top("leaves", "sys.exit(3)  # here", Ending("SystemExit", at_here=True), is_costly=True),
    Top("never ends", "while True: pass  # here", TIMEOUT, is_costly=True),
)


@dataclass(frozen=True, slots=True)
class Slot:
    """A function as it is now; its name stays while its kind and its constant change."""

    name: str
    kind: Kind
    constant: int

    @property
    def text(self) -> str:
        return self.kind.source.replace("NAME", self.name).replace("SUM", " + 1" * self.constant)

    @property
    def qualname(self) -> str:
        return self.kind.qualname.replace("NAME", self.name)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a function stands in a text, in lines from 1."""

    decorator: int
    definition: int
    # Where it fails.
    here: int
    # Operators that each line of its body runs; None where that is up to the helper.
    operators: dict[int, int | None]


@dataclass(frozen=True, slots=True)
class Source:
    """The text of a file and what it means."""

    slots: tuple[Slot, ...]
    uses_helper: bool = False
    top: Top = NO_TOP
    # Of a comment, which changes nothing.
    note: int = 0

    @property
    def text(self) -> str:
        helper = f"import {HELPER}\n" if self.uses_helper else ""
        head = f"import ctypes\nimport os\nimport subprocess\nimport sys\nimport time\n\nimport torch\n{helper}"
        parts = [f"{head}from profile_neuron import profile_neuron\n", f"# Note {self.note}.\n" * (self.note % 3)]
        parts += [f"{self.top.line}\n"] * bool(self.top.line)
        return "\n\n".join([*parts, *(slot.text for slot in self.slots)])

    @property
    def code(self) -> Source:
        """The same without what changes nothing."""
        return replace(self, note=0)

    def places(self) -> dict[str, Place]:
        """Where each function stands, by its name."""
        lines = self.text.split("\n")
        return {slot.name: _place(slot, lines) for slot in self.slots}

    def ending(self, slot: Slot) -> Ending:
        """How a run of a function ends in this text."""
        return self.top.ending if self.top.ending != FRESH else slot.kind.ending

    def title(self, slot: Slot) -> str:
        """What the first lens of a function says after a run of this text; empty for a result."""
        ending, place = self.ending(slot), self.places()[slot.name]
        if not ending.failure:
            return ending.title
        if self.top.ending != FRESH and ending.at_here:
            line = self.text.split("\n").index(self.top.line) + 1
        else:
            line = place.here if ending.at_here else place.definition
        return f"Profile failed: {ending.failure}, line {line}"

    def with_slot(self, slot: Slot) -> Source:
        return replace(self, slots=tuple(slot if one.name == slot.name else one for one in self.slots))


@dataclass(frozen=True, slots=True)
class Helper:
    """The text of the helper, which has no function of ours."""

    constant: int

    @property
    def text(self) -> str:
        return f"def grow(x):\n    return x{' + 1' * self.constant}\n"


def operators_of(line: str) -> int | None:
    """How many operators a line of ours runs; None where that is up to the helper."""
    code = line.partition("#")[0]
    return None if f"{HELPER}.grow" in code else code.count(" + 1") + code.count("torch.ones(")


def _place(slot: Slot, lines: list[str]) -> Place:
    definition = _first(lines, rf" *def {slot.name}\(", 1)
    operators: dict[int, int | None] = {}
    line = definition + 1
    while line <= len(lines) and lines[line - 1].startswith(" "):
        operators[line] = operators_of(lines[line - 1])
        line += 1
    here = next((number for number in operators if lines[number - 1].endswith("# here")), definition)
    return Place(definition - 1, definition, here, operators)


def _first(lines: Iterable[str], pattern: str, start: int) -> int:
    return next(number for number, line in enumerate(lines, start) if re.match(pattern, line))
