"""What a command runs, kept where editors keep their results and compared with what is there."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from profile_neuron.core.anchor import anchor
from profile_neuron.core.compare import comparison, lineage
from profile_neuron.core.keys import circumstances
from profile_neuron.core.model import FunctionView
from profile_neuron.core.outline import outline
from profile_neuron.daemon.modules import ProjectModules
from profile_neuron.daemon.results import Results, result_of
from profile_neuron.daemon.scheduler import FunctionId
from profile_neuron.daemon.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from profile_neuron.core.model import LineCosts, Result
    from profile_neuron.core.outline import Outline
    from profile_neuron.wire.messages import RunRequest


class History:
    """Results of the files of one command; of what goes wrong in the store the first is told, and costs no run."""

    def __init__(self, complain: Callable[[str], None]) -> None:
        self._complain = complain
        self._has_complained = False
        self._results = Results(self._complain_once)
        self._modules = ProjectModules()
        # By path and text.
        self._outlines: dict[tuple[str, str], Outline] = {}

    async def add(self, request: RunRequest, text: str, package: str, costs: LineCosts) -> FunctionView:
        """Keep the result of a run; gives it beside the last one of other code.

        text: of the file, as it was run.
        """
        found = self._outlines.get((request.path, text))
        if found is None:
            found = self._outlines[request.path, text] = outline(text, request.decorator_modules, package)
        function = next(item for item in found.functions if item.spec.def_line == request.def_line)
        settings = replace(
            Settings(),
            run_repeats=request.repeats or Settings().run_repeats,
            device_cores=request.cores,
            profile_mode=request.profile_mode,
        )
        folders = (request.cwd, *dict.fromkeys(request.project_roots))
        made_with = circumstances(costs.toolchain, settings.of_runs, folders)
        result = result_of(
            FunctionId(request.path, request.qualname, function.occurrence),
            request.run_id,
            time.time(),
            made_with,
            function,
            found,
            costs,
            self._modules.dependencies(costs),
        )
        # The project's folder, which is also an editor's where it has no other one.
        root = request.project_roots[0]
        known: dict[tuple[str, int], list[Result]] = {}
        for item in await self._results.load(request.path, root, Settings()):
            known.setdefault((item.qualname, item.occurrence), []).append(item)
        gone = {name: items for name, items in known.items() if found.function(*name) is None}
        own = [result, *known.get((result.qualname, result.occurrence), ())]
        await self._results.add(result, root, Settings())
        rows = anchor(result, function)
        return FunctionView(
            spec=function.spec,
            occurrence=function.occurrence,
            state="fresh",
            result=result,
            is_current=True,
            reasons=(),
            inputs_changed=False,
            rows=rows,
            comparison=comparison(result, lineage(own, function.body, gone), rows, "previous"),
        )

    async def close(self) -> None:
        """Let go of the store."""
        await self._results.close()

    def _complain_once(self, text: str) -> None:
        if not self._has_complained:
            self._has_complained = True
            self._complain(text)
