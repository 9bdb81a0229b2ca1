"""What a result depends on, and whether it still is one of today's code.

A result is known by its key: all code of its file, which function of it, and the circumstances of the run; and
beside the key by the content of the project modules that it imported. Equal ones need no run.

Its numbers are shown as fresh a little longer. What a run can have been influenced by is less than the whole
file: the function, the code of the module, the functions that either mentions, and those that the run reached.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from profile_neuron.core.fingerprint import digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from profile_neuron.core.model import Result, Toolchain
    from profile_neuron.core.outline import FunctionOutline, Outline


def result_key(outline: Outline, function: FunctionOutline) -> str:
    """The part of a result's key that the file's text decides."""
    return digest([outline.digest, function.spec.qualname, str(function.occurrence)])


def circumstances(toolchain: Toolchain, environment: Iterable[tuple[str, str]], folders: Iterable[str]) -> str:
    """Digest of what a run is made with beside the code: interpreter, torch, device, variables, folders."""
    own = (toolchain.executable, toolchain.python, toolchain.torch, toolchain.device_kind, toolchain.device_name)
    return digest([*own, *(f"{name}={value}" for name, value in sorted(environment)), *folders])


def needs_no_run(result: Result, key: str, circumstances: str, hashes: Mapping[str, str]) -> bool:
    """Whether a run would be of the very same code. hashes: content of project modules on disk, by path."""
    return (
        result.key == key
        and result.circumstances == circumstances
        and all(hashes.get(module.path) == module.sha256 for module in result.modules)
    )


def changes(
    result: Result, outline: Outline, function: FunctionOutline, circumstances: str, hashes: Mapping[str, str]
) -> tuple[str, ...]:
    """What of that which a result depends on is another today, one remark each; empty for a fresh one."""
    remarks = []
    if result.qualname != function.spec.qualname:
        remarks.append("renamed since")
    if result.tree != function.tree:
        remarks.append("edited since")
    if result.interface != function.interface:
        remarks.append("signature, decorator or inputs changed")
    if result.module_code != outline.module_code:
        remarks.append("code outside of functions changed")
    remarks += [f"{name} changed" for name in _changed_functions(result, outline, function)]
    remarks += [
        f"{module.path.rpartition('/')[2]} changed"
        for module in result.modules
        if hashes.get(module.path) != module.sha256
    ]
    if result.circumstances != circumstances:
        remarks.append("measured with another interpreter, torch, device or environment")
    return tuple(remarks)


def _changed_functions(result: Result, outline: Outline, function: FunctionOutline) -> list[str]:
    before = {item.name: item.digest for item in result.functions}
    now = {item.name: item.digest for item in outline.dependencies(function, before)}
    return sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
