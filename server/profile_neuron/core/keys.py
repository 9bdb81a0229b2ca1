"""What a result depends on, and whether it still is one of today's code.

That is what a run can have been influenced by: the function's own tree and the code of its module; the functions of
its file that it, or one of them, mentions, and those that the run reached; of the project modules that the run
imported what an import executes, and the functions that the run reached; which inputs were chosen; and the
circumstances: interpreter, torch, device, settings. Where all of it is equal no run is needed and the numbers are
fresh.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from profile_neuron.core.fingerprint import digest
from profile_neuron.core.modules import module_changes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from profile_neuron.core.model import Result, Toolchain
    from profile_neuron.core.modules import Module
    from profile_neuron.core.outline import FunctionOutline, Outline


def text_key(outline: Outline, function: FunctionOutline) -> str:
    """Digest of all code of its file that a run of a function may depend on, as far as the text tells."""
    mentioned = [f"{item.name} {item.digest}" for item in outline.dependencies(function)]
    own = (function.spec.qualname, str(function.occurrence), function.tree, function.interface, outline.module_code)
    return digest([*own, *mentioned])


def circumstances(toolchain: Toolchain, settings: Iterable[str], folders: Iterable[str]) -> str:
    """Digest of what a run is made with beside the code: interpreter, packages, device, settings, folders."""
    own = (toolchain.executable, toolchain.python, toolchain.torch, toolchain.device_kind, toolchain.device_name)
    return digest([*own, digest(toolchain.packages), digest(settings), *folders])


def result_key(result: Result) -> str:
    """Digest of all that a result depends on; equal for results that no difference but noise can be between."""
    functions = [f"{item.name} {item.digest}" for item in result.functions]
    modules = [
        digest([module.path, module.import_code or module.sha256, *(f"{f.name} {f.digest}" for f in module.functions)])
        for module in result.modules
    ]
    own = (result.qualname, str(result.occurrence), result.tree, result.interface, result.module_code)
    return digest([*own, result.circumstances, result.choice, digest(functions), *modules])


def changes(
    result: Result,
    outline: Outline,
    function: FunctionOutline,
    circumstances: str,
    choice: str,
    modules: Mapping[str, Module],
) -> tuple[str, ...]:
    """What of that which a result depends on is another today, one remark each; empty for a fresh one.

    choice: the inputs that are chosen for the function. modules: project modules as they are on disk, by path.
    """
    remarks = []
    if result.qualname != function.spec.qualname:
        remarks.append("renamed since")
    if result.tree != function.tree:
        remarks.append("edited since")
    if result.interface != function.interface:
        remarks.append("signature, decorator or inputs changed")
    if result.choice != choice:
        remarks.append("measured with other inputs")
    if result.module_code != outline.module_code:
        remarks.append("code outside of functions changed")
    remarks += [f"{name} changed" for name in _changed_functions(result, outline, function)]
    remarks += module_changes(result.modules, modules)
    if result.circumstances != circumstances:
        remarks.append("measured with another interpreter, torch, device or other settings")
    return tuple(remarks)


def _changed_functions(result: Result, outline: Outline, function: FunctionOutline) -> list[str]:
    before = {item.name: item.digest for item in result.functions}
    now = {item.name: item.digest for item in outline.dependencies(function, before)}
    return sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
