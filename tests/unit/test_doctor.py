from __future__ import annotations

from dataclasses import replace

from profile_neuron.doctor import ABSENT, BROKEN, GOOD, Remark, diagnose
from profile_neuron.wire.messages import Environment

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


def test_torch_neuronx_is_listed_without_a_claim_about_device_time() -> None:
    found = remark(replace(SANE, torch_neuronx="2.13.3.0.1"), "torch-neuronx")
    assert (found.mark, found.finding) == (ABSENT, "2.13.3.0.1")
    assert "measures the CPU only" in found.advice
