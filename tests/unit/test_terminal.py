"""The exact text that a result is printed as."""

from __future__ import annotations

import io
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from profile_neuron.core.model import (
    Failure,
    Frame,
    FunctionCosts,
    LineCost,
    LineCosts,
    OperatorCalls,
    OperatorRow,
    RemovedRow,
    SourceFile,
    Toolchain,
)
from profile_neuron.terminal import Progress, Terminal
from tests.unit.constructed import beside, row, view

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = (
    "@profile_neuron\ndef f(x):\n\ty = x + 1  # \x1b[31mred\n\n    return helper(y)\ndef helper(y):\n    return y * 2\n"
)
F = FunctionCosts(
    path="/p/m.py",
    qualname="f",
    name=None,
    line=2,
    last_line=5,
    decorated=True,
    state="fresh",
    reason=None,
    frames=(),
    calls=5,
    device_ns=None,
    host_ns=2_355_000,
    unattributed_ns=5_000,
    spread_ns=28_260,
    lines=(
        LineCost(3, 1_164_500, 1_164_500, None, (OperatorCalls("aten::add", 1.0),)),
        LineCost(5, 0, 1_185_500, 592_750, tuple(OperatorCalls(f"aten::op{n}", n / 3) for n in range(1, 7))),
    ),
    shared=(),
    operators=(OperatorRow("aten::add", 1.0, 1_164_500, None), OperatorRow("aten::mul", 2 / 3, 1_190_500, None)),
    warnings=("unattributed: the backward pass",),
    provenance="",
)
HELPER = replace(
    F,
    qualname="helper",
    line=6,
    last_line=7,
    calls=10,
    decorated=False,
    host_ns=900,
    unattributed_ns=0,
    spread_ns=None,
    lines=(LineCost(7, 900, 900, None, (OperatorCalls("aten::mul", 1.0),)),),
    warnings=(),
)
COSTS = LineCosts(
    device_kind="cpu",
    device_name="cpu (x)",
    toolchain=Toolchain("3.11", "/py", "/lib", "2.13.0", "cpu", "cpu (x)", "settrace"),
    inputs="none needed",
    warmup=3,
    repeats=5,
    functions=(F, HELPER),
    sources=(SourceFile("/p/m.py", SOURCE),),
    modules=(),
)


def test_a_result_is_its_source_with_a_figure_on_each_line_that_has_one(capsys: pytest.CaptureFixture[str]) -> None:
    Terminal().result(COSTS, show_operators=False)
    assert capsys.readouterr().out == (
        "f  /p/m.py:2\n"
        "cpu 2.36 ms per call ±1.2 % · 5 calls\n"
        "  line       cpu  share  spread   ops  │\n"
        "     2                                 │ def f(x):\n"
        "     3   1.16 ms   49 %             1  │     y = x + 1  # ·[31mred  aten::add\n"
        "     4                                 │\n"
        "     5   1.19 ms   50 %   ±50 %     7  │     return helper(y)       "
        "aten::op1 ×0.33, aten::op2 ×0.67, aten::op3, aten::op4 ×1.33 and 2 more\n"
        "         5.00 µs   <1 %                │ unattributed\n"
        "note: unattributed: the backward pass\n"
        "\n"
        "helper  /p/m.py:6  during f\n"
        "cpu 900 ns per call of f · 5 calls · entered 10 times\n"
        "  line       cpu  share  spread   ops  │\n"
        "     6                                 │ def helper(y):\n"
        "     7    900 ns  100 %             1  │     return y * 2  aten::mul\n"
        "\n"
    )


def test_a_function_that_was_asked_for_by_itself_is_not_printed_again(capsys: pytest.CaptureFixture[str]) -> None:
    Terminal().result(COSTS, show_operators=False, asked={("/p/m.py", 6)})
    assert "during f" not in capsys.readouterr().out


def test_the_operator_table_shows_no_device_time_where_there_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    Terminal().result(COSTS, show_operators=True)
    out = capsys.readouterr().out
    assert "operator   calls  self cpu  device  share\n" in out
    assert "aten::add      1   1.16 ms       –   49 %\n" in out
    assert "aten::mul   0.67   1.19 ms       –   51 %\n" in out


def test_a_failure_shows_the_users_lines_and_says_how_often_one_repeats(capsys: pytest.CaptureFixture[str]) -> None:
    frame = Frame("/p/m.py", 3, "f", "y = x + 1")
    Terminal().failure("f", "/p/m.py:2", "failed", Failure("RecursionError: \x07deep", (frame, frame, frame)))
    assert capsys.readouterr().out == (
        "f  /p/m.py:2\nfailed: RecursionError: ·deep\n  /p/m.py:3 in f\n    y = x + 1\n    … and 2 more times\n\n"
    )


def test_a_run_without_operators_says_so_and_shows_no_time(capsys: pytest.CaptureFixture[str]) -> None:
    empty = replace(F, host_ns=0, unattributed_ns=0, lines=(), operators=(), warnings=("no operators ran",))
    Terminal().result(replace(COSTS, functions=(empty,)), show_operators=True)
    assert capsys.readouterr().out == "f  /p/m.py:2\nno operators ran · 5 calls\n\n"


def test_paths_below_the_working_directory_are_shown_relative_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Terminal().failure("f", "m.py:2", "failed", Failure("x", (Frame(str(tmp_path / "a" / "m.py"), 3, "f", ""),)))
    assert "  a/m.py:3 in f\n" in capsys.readouterr().out


def test_markup_in_user_text_is_printed_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    terminal = Terminal()
    terminal.user_output("f[0]", ["[red]loss[/red] :smile:", "two"])
    terminal.error("[bold]x[/bold].py: no such file")
    assert (
        capsys.readouterr().err
        == "f[0] │ [red]loss[/red] :smile:\nf[0] │ two\nprofile-neuron: [bold]x[/bold].py: no such file\n"
    )


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_names_function_phase_and_call(terminal: bool) -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=terminal, width=80)
    with Progress(console, "f") as progress:
        progress.phase("import", 0, 0)
        progress.phase("capture", 0, 5)
        progress.phase("capture", 1, 5)
        if terminal:
            assert str(progress._status.status).startswith("f: capture 2/5 · 0 s")  # type: ignore[union-attr]
    if not terminal:
        assert stream.getvalue().startswith("f: import capture (")
        assert stream.getvalue().endswith(" s)\n")


def test_a_progress_bar_of_user_code_shows_its_last_state_without_colours(capsys: pytest.CaptureFixture[str]) -> None:
    Terminal().user_output("f", ["\r  0 %|  |\r 50 %|█ |\r\x1b[32m100 %|██|\x1b[0m \x07"])
    assert capsys.readouterr().err == "f │ 100 %|██| \n"


def test_time_without_any_line_is_shown_as_unattributed(capsys: pytest.CaptureFixture[str]) -> None:
    Terminal().result(replace(COSTS, functions=(replace(F, lines=(), host_ns=5_000),)), show_operators=False)
    assert "         5.00 µs  100 %                │ unattributed\n" in capsys.readouterr().out


def test_a_comparison_is_a_sentence_a_column_and_the_lines_that_are_gone(capsys: pytest.CaptureFixture[str]) -> None:
    shown = beside(
        view(2_355_000, [row(3, 1_164_500), row(5, 1_185_500)]),
        2_000_000,
        {3: (1_000_000, 0.02), 5: None},
        removed=[RemovedRow("z = \x1b[31my", 400_000)],
        finished_s=time.mktime((2026, 11, 28, 14, 2, 11, 0, 0, -1)),
    )
    Terminal().result(replace(COSTS, functions=(replace(F, warnings=()),)), show_operators=False, compared=shown)
    assert capsys.readouterr().out == (
        "f  /p/m.py:2\n"
        "cpu 2.36 ms per call ±1.2 % · 5 calls\n"
        "previous 2.00 ms on 2026-11-28 at 14:02:11, ▲18 % (noise ±2.1 %)\n"
        "  line       cpu  share  spread   ops    delta  │\n"
        "     2                                          │ def f(x):\n"
        "     3   1.16 ms   49 %             1    ▲16 %  │     y = x + 1  # ·[31mred  aten::add\n"
        "     4                                          │\n"
        "     5   1.19 ms   50 %   ±50 %     7      new  │     return helper(y)       "
        "aten::op1 ×0.33, aten::op2 ×0.67, aten::op3, aten::op4 ×1.33 and 2 more\n"
        "         5.00 µs   <1 %                         │ unattributed\n"
        "          400 µs                       removed  │ z = ·[31my\n"
        "\n"
    )


def test_why_there_is_no_comparison_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    Terminal().result(COSTS, show_operators=False, compared=beside(view(2_355_000), None))
    lines = capsys.readouterr().out.split("\n")
    assert lines[1:4] == [
        "cpu 2.36 ms per call ±1.2 % · 5 calls",
        "no earlier result of other code",
        "  line       cpu  share  spread   ops  │",
    ]


@pytest.mark.parametrize(("signature", "is_shown"), [("", False), ("x: float32[8, 2]", True), ("x" * 61, False)])
def test_what_a_function_was_called_with_is_shown_where_it_is_short(
    signature: str, is_shown: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    Terminal().result(replace(COSTS, signature=signature), show_operators=False)
    first, second = [line for line in capsys.readouterr().out.split("\n") if " calls" in line]
    assert first.endswith(f" · 5 calls · {signature}" if is_shown else " · 5 calls")
    assert "float32" not in second
