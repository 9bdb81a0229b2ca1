"""The names under which torch tells device time, and a device that is asked for where there is none."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from profile_neuron.capture.operator_table import read_operator_table
from profile_neuron.worker import torch_host
from tests.conftest import case
from tests.device.torch_table import NAMES, device_us, total_ns

pytestmark = pytest.mark.torch

EXPECTED: dict[str, Any] = json.loads((case("T12") / "expected.json").read_text())


def test_names_are_tried_in_order_and_a_missing_one_is_unknown() -> None:
    assert EXPECTED["rule"] == f"order to try: {', '.join(NAMES)}"
    assert device_us(SimpleNamespace(self_cuda_time_total=3, self_privateuse1_time_total=2)) == 2.0
    assert device_us(SimpleNamespace(self_device_time_total=0, self_cuda_time_total=3)) == 0.0
    assert device_us(SimpleNamespace(self_cpu_time_total=1.0)) is None
    assert total_ns([SimpleNamespace(self_device_time_total=1.5), SimpleNamespace(self_cuda_time_total=2)]) == 3500
    assert total_ns([SimpleNamespace(self_device_time_total=1.5), SimpleNamespace()]) is None


@pytest.mark.filterwarnings("ignore:.*is deprecated:FutureWarning")
def test_the_names_of_this_torch_are_those_that_were_measured() -> None:
    import torch

    measured = EXPECTED["measured"]["torch 2.13.0+cpu"]
    if not torch.__version__.startswith("2.13.0"):
        pytest.skip(f"measured on torch 2.13.0, this is {torch.__version__}")
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        torch.ones(4) + 1
    (average,) = [item for item in profile.key_averages() if item.key == "aten::add"]
    assert [name for name in measured["FunctionEventAvg has"] if not hasattr(average, name)] == []
    assert [name for name in measured["FunctionEventAvg lacks"] if hasattr(average, name)] == []
    for name in measured["table(sort_by=...) works"]:
        assert "aten::add" in profile.key_averages().table(sort_by=name)
    for name in measured["table(sort_by=...) AttributeError"]:
        with pytest.raises(AttributeError):
            profile.key_averages().table(sort_by=name)


@pytest.mark.filterwarnings("ignore:The privateuseone is not a valid device option:UserWarning")
def test_a_device_that_is_asked_for_and_not_there_gives_no_events_and_no_error() -> None:
    import torch

    window = torch_host.Window(*torch_host.all_threads_config(), with_device=True)
    with window:
        torch.ones(4) + 1
    table = read_operator_table(window.operator_table())
    assert "aten::add" in {event.name for event in table.trace.events}
    assert (table.device_events, table.dispatches, window.device_categories) == ((), {}, set())
