"""profileNeuron/report: a function with all of its lines, for a client that draws it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from profile_neuron.daemon.scheduler import FunctionId
from profile_neuron.daemon.screen import Screen
from profile_neuron.lsp import from_proto, notifications

if TYPE_CHECKING:
    from profile_neuron.core.report import Report
    from profile_neuron.daemon.daemon import Daemon


async def answer(daemon: Daemon, params: Any) -> Any:
    """The report of a function of an open file, as it is now, in JSON's own types; None where it is not there."""
    wanted = notifications.function(params)
    file = await daemon.analysed(from_proto.path(wanted.uri) or "") if wanted is not None else None
    if wanted is None or file is None:
        return None
    found = Screen(daemon).report(file, FunctionId(file.path, wanted.qualname, wanted.occurrence))
    return None if found is None else notifications.to_json(_to_wire(found))


def _to_wire(found: Report) -> notifications.Report:
    return notifications.Report(
        found.title,
        found.summary,
        found.is_stale,
        found.measure,
        tuple(
            notifications.ReportRow(row.line - 1, row.source, row.time, row.share, row.part, row.operators, row.delta)
            for row in found.rows
        ),
        found.notes,
        tuple(notifications.ReportOperator(one.name, one.calls, one.host, one.device) for one in found.operators),
    )
