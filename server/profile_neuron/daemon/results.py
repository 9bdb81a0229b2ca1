"""Results as they are made of a run's costs, and as the store keeps them."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from profile_neuron.core.anchor import row_costs
from profile_neuron.core.keys import result_key
from profile_neuron.core.model import Result
from profile_neuron.core.plain import from_plain, to_plain
from profile_neuron.daemon.store import ROWS_PER_FUNCTION, ROWS_PER_KEY, VERSION, Row, Store
from profile_neuron.errors import StoreError
from profile_neuron.folders import cache_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from profile_neuron.core.model import LineCosts, ModuleDependency
    from profile_neuron.core.outline import FunctionOutline, Outline
    from profile_neuron.core.statements import Statement
    from profile_neuron.daemon.scheduler import FunctionId
    from profile_neuron.daemon.settings import Settings
    from profile_neuron.daemon.store import RowIdentity

log = logging.getLogger(__name__)

T = TypeVar("T")

_MAX_AGE_S = 90 * 86400.0
_TEXT_WIDTH = 80


def result_of(
    function_id: FunctionId,
    run_id: str,
    finished_s: float,
    circumstances: str,
    function: FunctionOutline,
    outline: Outline,
    costs: LineCosts,
    modules: tuple[ModuleDependency, ...],
    choice: str = "",
    run_folder: str = "",
) -> Result:
    """The result of a run of one function of a text."""
    target, *others = costs.functions
    reached = {item.qualname for item in others if item.path == function_id.path} | outline.unit_names(costs.reached)
    made = Result(
        path=function_id.path,
        qualname=function_id.qualname,
        occurrence=function_id.occurrence,
        run_id=run_id,
        finished_s=finished_s,
        key="",
        circumstances=circumstances,
        tree=function.tree,
        body=function.body,
        interface=function.interface,
        module_code=outline.module_code,
        functions=outline.dependencies(function, reached),
        modules=modules,
        statements=tuple(statement.digest for statement in function.statements),
        blocks=tuple(f"{statement.depth} {statement.block}" for statement in function.statements),
        texts=tuple(_beginning(statement, function.offset, outline.lines) for statement in function.statements),
        rows=row_costs(target, function),
        costs=target,
        device_kind=costs.device_kind,
        device_name=costs.device_name,
        repeats=costs.repeats,
        warmup=costs.warmup,
        inputs=costs.inputs,
        toolchain=costs.toolchain,
        loading=costs.loading,
        signature=costs.signature,
        choice=choice,
        run_folder=run_folder,
    )
    return replace(made, key=result_key(made))


def _beginning(statement: Statement, offset: int, lines: Sequence[str]) -> str:
    """The first line of a statement, for a reader."""
    text = " ".join(lines[statement.line + offset - 1].split())
    return text if len(text) <= _TEXT_WIDTH else f"{text[: _TEXT_WIDTH - 1].rstrip()}…"


class Results:
    """The stores of all workspace folders, used in one thread; what goes wrong there is said once and costs no run."""

    def __init__(self, complain: Callable[[str], None]) -> None:
        self._complain = complain
        self._complaints: set[str] = set()
        # By folder and limit.
        self._stores: dict[tuple[str, int], Store] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store")

    async def load(self, path: str, root: str, settings: Settings, known: Iterable[Result] = ()) -> tuple[Result, ...]:
        """Results of a file, newest first; those that are known already are not made anew."""
        store = self._store(root, settings)
        by_row = {_identity(item): item for item in known}

        def work() -> tuple[Result, ...]:
            # In the store's thread: a thousand results take a while to be read.
            return tuple(found for row in store.load(path) if (found := _result(row, by_row)) is not None)

        return await self._call(work) or ()

    async def add(self, result: Result, root: str, settings: Settings) -> None:
        """Keep a result."""
        store = self._store(root, settings)

        await self._call(lambda: store.add(_row(result)))

    async def pin(
        self, path: str, root: str, settings: Settings, pinned: Result | None, unpinned: Iterable[Result]
    ) -> None:
        """Keep which result of a function the person pinned, and which ones no longer."""
        store = self._store(root, settings)
        identities = [_identity(item) for item in unpinned]

        def work() -> None:
            is_there = store.pin(path, None if pinned is None else _identity(pinned), identities)
            if pinned is not None and not is_there:
                # It went with others that were too many, but is still shown.
                store.add(replace(_row(pinned), is_pinned=True))

        await self._call(work)

    async def remove(self, path: str, root: str, settings: Settings) -> None:
        """Forget the results of a file."""
        await self._call(self._store(root, settings).remove, path)

    async def rename(self, old: str, new: str, root: str, settings: Settings) -> None:
        """Give the results of a file to its new name as well."""
        await self._call(self._store(root, settings).rename, old, new)

    async def close(self) -> None:
        """Close all stores."""
        for store in self._stores.values():
            with contextlib.suppress(StoreError):
                await asyncio.get_running_loop().run_in_executor(self._thread, store.close)
        self._thread.shutdown(wait=False)

    def _store(self, root: str, settings: Settings) -> Store:
        # Two versions of this program must not take the file from each other.
        name = hashlib.sha256(f"{VERSION} {root}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
        given = Path(settings.store_directory).expanduser() if settings.store_directory else None
        if given is not None and given.is_relative_to(root):
            self._say_once(f"{given} lies in the workspace, where no results are kept; using the cache folder")
            given = None
        try:
            if given is None:
                folder = cache_folder(f"results/{name}")
            else:
                folder = given / name
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            self._say_once(f"the folder for results cannot be used ({error}), so none are kept there")
            folder = Path(os.devnull)
        known = self._stores.get((str(folder), settings.store_max_bytes))
        if known is None:
            known = self._stores[str(folder), settings.store_max_bytes] = Store(
                folder, settings.store_max_bytes, _MAX_AGE_S
            )
        return known

    async def _call(self, call: Callable[..., T], *arguments: Any) -> T | None:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, call, *arguments)
        except StoreError as error:
            self._say_once(str(error))
            return None

    def _say_once(self, text: str) -> None:
        if text not in self._complaints:
            self._complaints.add(text)
            self._complain(text)


def _row(result: Result) -> Row:
    body = json.dumps(to_plain(result)).encode("ascii")
    return Row(result.path, *_identity(result), body, result.is_pinned)


def _identity(result: Result) -> RowIdentity:
    return (result.qualname, result.occurrence, result.key, result.finished_s)


def _result(row: Row, known: Mapping[RowIdentity, Result]) -> Result | None:
    found = known.get(row.identity)
    if found is not None:
        return found if found.is_pinned == row.is_pinned else replace(found, is_pinned=row.is_pinned)
    try:
        # The file may have had another name when it was run, and what is pinned the row alone knows.
        return replace(from_plain(Result, json.loads(row.body)), path=row.path, is_pinned=row.is_pinned)
    except (ValueError, TypeError, RecursionError) as error:
        log.info("a stored result of %s is of another version and left out: %s", row.path, error)
        return None


def limited(results: Iterable[Result]) -> tuple[Result, ...]:
    """As many as the store keeps of each key and of each function, the first ones, and all that are pinned."""
    of_key: Counter[tuple[str, int, str]] = Counter()
    of_function: Counter[tuple[str, int]] = Counter()
    kept = []
    for result in results:
        if result.is_pinned:
            kept.append(result)
            continue
        function = (result.qualname, result.occurrence)
        key = (*function, result.key)
        of_key[key] += 1
        of_function[function] += 1
        if of_key[key] <= ROWS_PER_KEY and of_function[function] <= ROWS_PER_FUNCTION:
            kept.append(result)
    return tuple(kept)
