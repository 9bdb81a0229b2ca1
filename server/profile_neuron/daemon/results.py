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
from profile_neuron.core.model import Result
from profile_neuron.core.plain import from_plain, to_plain
from profile_neuron.daemon.store import ROWS_PER_FUNCTION, ROWS_PER_KEY, VERSION, Row, Store
from profile_neuron.errors import StoreError
from profile_neuron.folders import cache_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from profile_neuron.core.model import LineCosts
    from profile_neuron.core.outline import FunctionOutline, Outline
    from profile_neuron.daemon.scheduler import FunctionId
    from profile_neuron.daemon.settings import Settings

log = logging.getLogger(__name__)

T = TypeVar("T")

_MAX_AGE_S = 90 * 86400.0


def result_of(
    function_id: FunctionId,
    run_id: str,
    finished_s: float,
    key: str,
    circumstances: str,
    function: FunctionOutline,
    outline: Outline,
    costs: LineCosts,
) -> Result:
    """The result of a run of one function of a text."""
    target, *others = costs.functions
    reached = [item.qualname for item in others if item.path == function_id.path]
    return Result(
        path=function_id.path,
        qualname=function_id.qualname,
        occurrence=function_id.occurrence,
        run_id=run_id,
        finished_s=finished_s,
        key=key,
        circumstances=circumstances,
        tree=function.tree,
        body=function.body,
        interface=function.interface,
        module_code=outline.module_code,
        functions=outline.dependencies(function, reached),
        modules=costs.modules,
        statements=tuple(statement.digest for statement in function.statements),
        rows=row_costs(target, function),
        costs=target,
        device_kind=costs.device_kind,
        device_name=costs.device_name,
        repeats=costs.repeats,
        warmup=costs.warmup,
        inputs=costs.inputs,
        toolchain=costs.toolchain,
        signature=costs.signature,
    )


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
        by_row = {(item.qualname, item.occurrence, item.key, item.finished_s): item for item in known}

        def work() -> tuple[Result, ...]:
            # In the store's thread: a thousand results take a while to be read.
            return tuple(found for row in store.load(path) if (found := _result(row, by_row)) is not None)

        return await self._call(work) or ()

    async def add(self, result: Result, root: str, settings: Settings) -> None:
        """Keep a result."""
        store = self._store(root, settings)

        def work() -> None:
            body = json.dumps(to_plain(result)).encode("ascii")
            store.add(Row(result.path, result.qualname, result.occurrence, result.key, result.finished_s, body))

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
            self._say_once(f"the folder for results cannot be used ({error}); results last until the server ends")
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


def _result(row: Row, known: Mapping[tuple[str, int, str, float], Result]) -> Result | None:
    found = known.get((row.qualname, row.occurrence, row.key, row.finished_s))
    if found is not None:
        return found
    try:
        # The file may have had another name when it was run.
        return replace(from_plain(Result, json.loads(row.body)), path=row.path)
    except (ValueError, TypeError, RecursionError) as error:
        log.info("a stored result of %s is of another version and left out: %s", row.path, error)
        return None


def limited(results: Iterable[Result]) -> tuple[Result, ...]:
    """As many as the store keeps of each key and of each function, the first ones."""
    of_key: Counter[tuple[str, int, str]] = Counter()
    of_function: Counter[tuple[str, int]] = Counter()
    kept = []
    for result in results:
        function = (result.qualname, result.occurrence)
        key = (*function, result.key)
        of_key[key] += 1
        of_function[function] += 1
        if of_key[key] <= ROWS_PER_KEY and of_function[function] <= ROWS_PER_FUNCTION:
            kept.append(result)
    return tuple(kept)


def module_paths(results: Iterable[Result]) -> frozenset[str]:
    """The project modules that runs imported."""
    return frozenset(module.path for result in results for module in result.modules)
