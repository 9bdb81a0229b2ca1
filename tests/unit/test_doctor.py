from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from profile_neuron.core.model import Holder
from profile_neuron.doctor import ABSENT, BROKEN, GOOD, Remark, diagnose
from profile_neuron.wire.messages import Environment, NeuronHost, Tool
from tests.conftest import case

SANE = Environment(
    python="3.11.7",
    executable="/env/bin/python",
    platform="Linux",
    torch="2.13.0+cpu",
    torch_error="",
    torch_neuronx=None,
    msgpack=None,
    clock="settrace",
    devices=("cpu (x86_64)",),
    host=NeuronHost("", (), (), None, ()),
)
NO_DEVICE = "torch-neuronx 2.13.3.0.1 finds no Neuron device on this host"
TRAINIUM = replace(
    SANE,
    torch_neuronx="2.13.3.0.1",
    devices=("cpu (x86_64)", "neuron (4)"),
    neuron_api="beta",
    neuron_count=4,
    host=NeuronHost(
        driver="2.31.7.0",
        device_files=("/dev/neuron0",),
        tools=(
            Tool("neuron-ls", "/usr/bin/neuron-ls", True, "2.33.38.0"),
            Tool("neuron-explorer", "/usr/bin/neuron-explorer", True, ""),
        ),
        core_count=4,
        holders=(),
    ),
)


def remark(environment: Environment, subject: str) -> Remark:
    return next(item for item in diagnose(environment) if item.subject == subject)


def test_a_sane_machine_has_nothing_broken() -> None:
    remarks = diagnose(SANE)
    assert {item.mark for item in remarks} == {GOOD, ABSENT}
    assert remark(SANE, "device").finding == "cpu (x86_64)"


def test_a_missing_torch_comes_with_the_command_for_that_interpreter() -> None:
    found = remark(replace(SANE, torch=None, devices=()), "torch")
    assert found == Remark(BROKEN, "torch", "not installed", "/env/bin/python -m pip install torch==2.13.0")


def test_a_torch_that_cannot_be_imported_says_why_and_how_to_mend_it() -> None:
    found = remark(replace(SANE, torch_error="ImportError: libfoo.so", devices=()), "torch")
    assert found.mark == BROKEN
    assert "ImportError: libfoo.so" in found.finding
    assert found.advice == "/env/bin/python -m pip install --force-reinstall torch==2.13.0"


def test_an_untested_python_is_said_to_be_untested() -> None:
    assert any("untested" in item.finding for item in diagnose(replace(SANE, python="3.14.0")))
    assert not any("untested" in item.finding for item in diagnose(SANE))


def on_host(environment: Environment, **fields: Any) -> Environment:
    assert environment.host is not None
    return replace(environment, host=replace(environment.host, **fields))


EXPLORER = Tool("neuron-explorer", "/opt/aws/neuron/bin/neuron-explorer", False, "2.33.38.0")
INSTALL = (
    '/env/bin/python -m pip install "torch-neuronx==2.13.*" "neuronx-cc==2.*" nki, '
    "--extra-index-url with the index of AWS's setup guide for PyTorch on Neuron"
)
UPGRADE = INSTALL.replace("install", "install --upgrade")
# What each row of the case comes to.
HOSTS: dict[str, tuple[Environment, Remark]] = {
    "no torch_neuronx, no /dev/neuron0": (
        SANE,
        Remark(ABSENT, "torch-neuronx", "not installed", "needed on a Trainium host only; times are of the CPU"),
    ),
    "torch_neuronx importable, no /dev/neuron0": (
        replace(SANE, torch_neuronx="2.13.3.0.1", neuron_api="beta", neuron_reason=NO_DEVICE),
        Remark(ABSENT, "torch-neuronx", f"2.13.3.0.1; times are of the CPU: {NO_DEVICE}"),
    ),
    "device present, neuron-explorer not on PATH but in the vendor's usual bin folder": (
        on_host(TRAINIUM, tools=(EXPLORER,)),
        Remark(
            GOOD,
            "neuron-explorer",
            "2.33.38.0, /opt/aws/neuron/bin/neuron-explorer, which is not on PATH",
            'export PATH="/opt/aws/neuron/bin:$PATH"',
        ),
    ),
    "device present, packages only in another venv than the selected one": (
        replace(TRAINIUM, torch_neuronx=None, neuron_api="none", neuron_count=0),
        Remark(
            ABSENT,
            "torch-neuronx",
            "not installed for /env/bin/python; times are of the CPU",
            f"{INSTALL}, or name the interpreter that has it with --python",
        ),
    ),
    "torch itself not importable": (
        replace(SANE, torch=None, devices=()),
        Remark(BROKEN, "torch", "not installed", "/env/bin/python -m pip install torch==2.13.0"),
    ),
}


@pytest.mark.parametrize(
    "host", [row["host"] for row in json.loads((case("N07") / "expected.json").read_text())["table"]]
)
def test_what_is_missing_comes_with_its_reason_and_what_mends_it(host: str) -> None:
    environment, expected = HOSTS[host]
    assert remark(environment, expected.subject) == expected


def test_a_machine_without_neuron_has_one_calm_line_about_it() -> None:
    assert [item.subject for item in diagnose(SANE) if item.mark != GOOD] == ["torch-neuronx"]
    assert diagnose(replace(SANE, host=None)) == diagnose(SANE)


def test_a_whole_trainium_host_has_nothing_to_mend() -> None:
    remarks = diagnose(TRAINIUM)
    assert {(item.mark, item.advice) for item in remarks} == {(GOOD, "")}
    assert [(item.subject, item.finding) for item in remarks[5:-1]] == [
        ("driver", "2.31.7.0, /dev/neuron0"),
        ("neuron-ls", "2.33.38.0, /usr/bin/neuron-ls"),
        ("neuron-explorer", "/usr/bin/neuron-explorer"),
        ("torch-neuronx", "2.13.3.0.1 with NeuronConfig, 4 NeuronCores"),
        ("NeuronCores", "4, held by nobody"),
    ]


def test_who_holds_cores_is_named() -> None:
    holders = (Holder(4123, "python train.py", (0, 1)), Holder(9, "", ()))
    found = remark(on_host(TRAINIUM, holders=holders), "NeuronCores")
    assert found == Remark(GOOD, "NeuronCores", "4; pid 4123 (python train.py) holds 0, 1 and pid 9 holds some")


DRIVERS: dict[str, tuple[dict[str, Any], Remark]] = {
    "several devices": (
        {"device_files": ("/dev/neuron0", "/dev/neuron1", "/dev/neuron15")},
        Remark(GOOD, "driver", "2.31.7.0, /dev/neuron0 to /dev/neuron15"),
    ),
    "no module in sight": ({"driver": ""}, Remark(GOOD, "driver", "of an unknown version, /dev/neuron0")),
    "no device": (
        {"device_files": ()},
        Remark(
            ABSENT,
            "driver",
            "2.31.7.0 is loaded, but there is no /dev/neuron0; times are of the CPU",
            "a container gets it by --device=/dev/neuron0",
        ),
    ),
    "neither": (
        {"driver": "", "device_files": ()},
        Remark(
            ABSENT,
            "driver",
            "not loaded, and there is no /dev/neuron0; times are of the CPU",
            "on a Trainium host: sudo apt-get install aws-neuronx-dkms && sudo modprobe neuron",
        ),
    ),
}


@pytest.mark.parametrize("kind", DRIVERS)
def test_the_driver_and_its_devices(kind: str) -> None:
    fields, expected = DRIVERS[kind]
    environment = replace(on_host(TRAINIUM, **fields), neuron_count=0)
    assert remark(environment, "driver") == expected


def test_a_driver_that_is_not_seen_is_not_missed_where_there_are_cores() -> None:
    found = remark(on_host(TRAINIUM, driver="", device_files=()), "driver")
    assert found == Remark(ABSENT, "driver", "not seen from here, but torch-neuronx has NeuronCores")


def test_missing_tools_come_with_the_package_that_has_them() -> None:
    environment = on_host(TRAINIUM, tools=())
    install = "sudo apt-get install aws-neuronx-tools"
    finding = "not found; without it nobody says who holds the NeuronCores"
    assert remark(environment, "neuron-ls") == Remark(ABSENT, "neuron-ls", finding, install)
    finding = "not found; needed to open a profile in Neuron Explorer"
    assert remark(environment, "neuron-explorer") == Remark(ABSENT, "neuron-explorer", finding, install)


def test_the_xla_package_of_the_same_name_is_told_apart() -> None:
    reason = "torch-neuronx 2.9.0 is the XLA package of Trn1 and Inf2, without a device neuron"
    environment = replace(
        TRAINIUM, torch_neuronx="2.9.0", neuron_api="none", neuron_count=0, neuron_reason=reason, neuron_advice="mend"
    )
    expected = Remark(ABSENT, "torch-neuronx", f"2.9.0; times are of the CPU: {reason}", "mend")
    assert remark(environment, "torch-neuronx") == expected


OLD = {
    "april": "0.1.0, 4 NeuronCores, but its profiler is that of April 2026, before NeuronConfig",
    "none": "0.1.0, 4 NeuronCores, but it has no profiler",
}


@pytest.mark.parametrize("api", OLD)
def test_an_old_profiler_is_told_with_the_newer_package_for_this_torch(api: str) -> None:
    environment = replace(TRAINIUM, torch_neuronx="0.1.0", neuron_api=api)
    assert remark(environment, "torch-neuronx") == Remark(ABSENT, "torch-neuronx", OLD[api], UPGRADE)
    newer = remark(replace(environment, torch="2.14.0+cpu"), "torch-neuronx").advice
    assert newer == UPGRADE.replace("2.13", "2.14")


def test_a_package_without_a_version_is_listed_by_what_it_has() -> None:
    found = remark(replace(TRAINIUM, torch_neuronx=None), "torch-neuronx")
    assert found.finding == "of an unknown version with NeuronConfig, 4 NeuronCores"
