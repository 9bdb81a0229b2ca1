from __future__ import annotations

import dataclasses
import json
import re
import types
import typing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profile_neuron.core import discovery
from profile_neuron.daemon import settings
from profile_neuron.daemon.settings import BadSetting, Settings, defaults, parse
from tests.conftest import ROOT

FIELDS = {row.name: row.field for row in settings._ROWS}
INF, NAN, HUGE = float("inf"), float("nan"), 10**5000

GOOD: list[tuple[str, object, object]] = [
    ("enable", False, False),
    ("runOnSave", "off", "off"),
    ("runOnSave", "manual", "manual"),
    ("runOnSave", "always", "always"),
    ("interpreter", "/opt/größe/bin/python", "/opt/größe/bin/python"),
    ("interpreter", "", ""),
    ("run.timeout", 60, 60.0),
    ("run.timeout", 0.5, 0.5),
    ("run.timeout", "120 s", 120.0),
    ("run.timeout", "2min", 120.0),
    ("run.timeout", "500ms", 0.5),
    ("run.timeout", " 1.5\u00a0S ", 1.5),
    ("run.timeout", 999_999_999, 999_999_999.0),
    ("run.importTimeout", 1, 1.0),
    ("run.importTimeout", "10min", 600.0),
    ("run.compileTimeout", "1800 s", 1800.0),
    ("run.memoryLimit", "", None),
    ("run.memoryLimit", " ", None),
    ("run.memoryLimit", "8GB", 8 * 10**9),
    ("run.memoryLimit", "1.5 GiB", 3 * 2**29),
    ("run.memoryLimit", 10**8, 10**8),
    ("run.warmup", 0, 0),
    ("run.repeats", 1, 1),
    ("run.onEditDuringRun", "finish", "finish"),
    ("run.onEditDuringRun", "cancel", "cancel"),
    ("device.whenBusy", "wait", "wait"),
    ("device.whenBusy", "skip", "skip"),
    ("device.cores", "auto", "auto"),
    ("device.cores", "0", "0"),
    ("device.cores", "0-3", "0-3"),
    ("device.cores", "0,2-3", "0,2-3"),
    ("device.idleRelease", 0, 0.0),
    ("device.idleRelease", "0s", 0.0),
    ("device.idleRelease", 2.5, 2.5),
    ("device.idleRelease", "2min", 120.0),
    ("profile.mode", "runtime", "runtime"),
    ("profile.mode", "device", "device"),
    ("run.maxPerSave", 1, 1),
    ("run.maxPerSave", 20.0, 20),
    ("run.cwd", "workspace", "workspace"),
    ("run.cwd", "file", "file"),
    ("run.cwd", "/srv/data", "/srv/data"),
    ("run.cwd", "/srv/../data", "/srv/../data"),
    ("run.cwd", "sub/folder", "sub/folder"),
    ("run.cwd", "sub/../other", "sub/../other"),
    ("run.cwd", ".", "."),
    ("run.env", {}, ()),
    ("run.env", {"B": "2", "A.dotted": "", "Ä": "line\nline"}, (("A.dotted", ""), ("B", "2"), ("Ä", "line\nline"))),
    ("projectRoots", [], ()),
    ("projectRoots", ["src", "/b"], ("src", "/b")),
    ("projectRoots", ("src",), ("src",)),
    ("watchFolders", [], ()),
    ("watchFolders", ["output", "~/profiles", "/shared/out put"], ("output", "~/profiles", "/shared/out put")),
    ("decorator.modules", ["mine.marks", "größe"], ("mine.marks", "größe")),
    ("hints.enable", False, False),
    ("hints.minShare", 0, 0.0),
    ("hints.minShare", 2.5, 2.5),
    ("hints.minShare", 100, 100.0),
    ("hints.minTime", "1us", 1_000),
    ("hints.minTime", "1 \u00b5s", 1_000),
    ("hints.minTime", "1 \u03bcs", 1_000),
    ("hints.minTime", "500ns", 500),
    ("hints.minTime", "2ms", 2_000_000),
    ("hints.minTime", "0.5ms", 500_000),
    ("hints.minTime", "0.29us", 290),
    ("hints.minTime", "1s", 1_000_000_000),
    ("hints.minTime", "2 MS", 2_000_000),
    ("hints.minTime", "0ns", 0),
    ("hints.minTime", "0", 0),
    ("hints.minTime", 0, 0),
    ("hints.minTime", 0.0, 0),
    ("hints.maxPerFunction", 0, 0),
    ("hints.maxPerFunction", 1000, 1000),
    ("hints.stale", "mark", "mark"),
    ("hints.stale", "hide", "hide"),
    ("hints.delta", False, False),
    ("baseline", "previous", "previous"),
    ("baseline", "pinned", "pinned"),
    ("codeLens.enable", False, False),
    ("diagnostics.enable", False, False),
    ("diagnostics.severity", {}, ()),
    (
        "diagnostics.severity",
        {"timeout": "warning", "no-inputs": "off", "run-failed": "hint"},
        (("no-inputs", "off"), ("run-failed", "hint"), ("timeout", "warning")),
    ),
    ("diagnostics.severity", {"timeout": None, "no-inputs": "information"}, (("no-inputs", "information"),)),
    ("store.directory", "", ""),
    ("store.directory", "/var/results", "/var/results"),
    ("store.directory", "~", "~"),
    ("store.directory", "~/results", "~/results"),
    ("explorer.mode", "none", "none"),
    ("explorer.mode", "extension", "extension"),
    ("explorer.uiPort", 1, 1),
    ("explorer.uiPort", 8001.0, 8001),
    ("explorer.apiPort", 65535, 65535),
    ("store.maxSize", "2GB", 2_000_000_000),
    ("store.maxSize", "500MB", 500_000_000),
    ("store.maxSize", "1.5 GB", 1_500_000_000),
    ("store.maxSize", "1.1gb", 1_100_000_000),
    ("store.maxSize", "1000KB", 1_000_000),
    ("store.maxSize", "1024 KiB", 1_048_576),
    ("store.maxSize", "1MiB", 1_048_576),
    ("store.maxSize", "2GiB", 2_147_483_648),
    ("store.maxSize", "3000000 B", 3_000_000),
    ("store.maxSize", 1_000_000, 1_000_000),
    ("store.maxSize", 2e9, 2_000_000_000),
]

NO_TEXT: list[object] = [True, 1, 1.5, [], {}, ["x"]]
NO_NUMBER: list[object] = [True, False, "fast", "", [], {}, [1], NAN, INF, -INF, HUGE, -HUGE, -1]
BAD: dict[str, list[object]] = {
    "enable": [0, 1, "true", "", [], {}, NAN],
    "runOnSave": [*NO_TEXT, "", "Manual", "never"],
    "interpreter": [*NO_TEXT, "py\0thon", "\ud800"],
    "run.timeout": [*NO_NUMBER, 0, 0.0, 1e9, 10**9, "0 s", "-1s", "1e3s", "12", "1h", "s", "1 000 s", "9" * 5000 + "s"],
    "run.importTimeout": [*NO_NUMBER, 0, "999999999.99999999999 s", "16666667min"],
    "run.compileTimeout": [True, "", "2", "-1s", 0, -1, [], {}],
    "run.memoryLimit": [True, "8", "8 cores", "99MB", 0, -1, [], {}, NAN, INF],
    "run.warmup": [*NO_NUMBER, -1, 1.5, "3", 1_000_001],
    "run.repeats": [*NO_NUMBER, 0, 1.5, "5", 1_000_001],
    "run.onEditDuringRun": [True, "", "end", 1, []],
    "device.whenBusy": [True, "", "kill", 1, []],
    "device.cores": [*NO_TEXT, "", "all", "0 - 3", "3-0", "0,", "-1", "0-2000", "٣", "0\n"],
    "device.idleRelease": [*NO_NUMBER, 1e9, "-1s", "12", "1h"],
    "profile.mode": [*NO_TEXT, "", "cpu"],
    "run.maxPerSave": [*NO_NUMBER, 0, 1.5, "20", 1_000_001],
    "run.cwd": [*NO_TEXT, "", "..", "../other", "a/../../b", "a\0b", "\udcff"],
    "run.env": [True, 1, "A=1", [], ["A=1"], [["A", "1"]]],
    "projectRoots": [True, 1, "src", {}, {"a": "b"}, [""], [1], [None, "a\0b"]],
    "watchFolders": [True, 1, "output", {}, {"a": "b"}, [""], [1], [None, "a\0b"]],
    "decorator.modules": [True, 1, "mine", {}, [], [""], ["a..b"], [".a"], ["a-b"], ["a b", 1], ["1a"]],
    "hints.enable": [0, "false", [], {}],
    "hints.minShare": [*NO_NUMBER, 100.1, 101, "1", "1 %"],
    "hints.minTime": [*NO_NUMBER, 1, 0.5, 1000, "1", "-1us", "1 m", "1,5 ms", "٣us", "1000000000s", "9" * 18 + "min"],
    "hints.maxPerFunction": [*NO_NUMBER, 0.5, "30"],
    "hints.stale": [*NO_TEXT, "", "show"],
    "hints.delta": [0, "false", [], {}],
    "baseline": [*NO_TEXT, "", "HEAD"],
    "codeLens.enable": [0, "false", [], {}],
    "diagnostics.enable": [0, "false", [], {}],
    "diagnostics.severity": [True, 1, "off", [], ["timeout"]],
    "store.directory": [*NO_TEXT, "results", "./results", "/a\0b"],
    "explorer.mode": [*NO_TEXT, "", "None", "code"],
    "explorer.uiPort": [*NO_NUMBER, 0, 65536, 3001.5, "3001"],
    "explorer.apiPort": [*NO_NUMBER, 0, 65536, 3002.5, "3002"],
    "store.maxSize": [*NO_NUMBER, 0, 999_999, 1_000_000.5, "999999B", "1KB", "2", "2 TB", "-2GB", "2G", "2000000000GB"],
}


def nested(flat: dict[str, Any]) -> dict[str, Any]:
    """A client's map of maps, as workspace/configuration gives it."""
    result: dict[str, Any] = {}
    for name, value in flat.items():
        *groups, last = name.split(".")
        inner = result
        for group in groups:
            inner = inner.setdefault(group, {})
        inner[last] = value
    return result


def has_type(hint: Any, value: object) -> bool:
    if typing.get_origin(hint) is typing.Literal:
        return value in typing.get_args(hint) and isinstance(value, str)
    if typing.get_origin(hint) is tuple:
        arguments = typing.get_args(hint)
        if not isinstance(value, tuple):
            return False
        if arguments[-1] is ...:
            return all(has_type(arguments[0], item) for item in value)
        return len(value) == len(arguments) and all(map(has_type, arguments, value))
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return any(has_type(one, value) for one in typing.get_args(hint))
    return type(value) is hint


def reasons(raw: object, trusted: bool = True) -> list[str]:
    return [bad.reason for bad in parse(raw, trusted)[1]]


def identity(value: object) -> str:
    """Not repr: Python does not print numbers of thousands of digits."""
    return "huge" if value in (HUGE, -HUGE) else ascii(value)[:30]


@pytest.mark.parametrize(("name", "value", "expected"), GOOD, ids=[f"{name}={value!a:.30}" for name, value, _ in GOOD])
def test_a_good_value_is_taken_over(name: str, value: object, expected: object) -> None:
    result, bad = parse(nested({name: value}))
    assert result == dataclasses.replace(Settings(), **{FIELDS[name]: expected})
    assert type(getattr(result, FIELDS[name])) is type(expected)
    assert bad == ()


@pytest.mark.parametrize(
    ("name", "value"),
    [pytest.param(name, value, id=f"{name}={identity(value)}") for name, values in BAD.items() for value in values],
)
def test_a_bad_value_is_reported_once_and_the_default_kept(name: str, value: object) -> None:
    result, bad = parse(nested({name: value}))
    assert result == Settings()
    (only,) = bad
    assert only.name == f"profileNeuron.{name}"
    assert only.reason.startswith(f"profileNeuron.{name} is ")
    assert "; give " in only.reason
    assert "; using " in only.reason
    assert "\n" not in only.reason
    only.reason.encode()


def test_every_setting_is_tried_with_good_and_bad_values() -> None:
    assert {name for name, _, _ in GOOD} == set(BAD) == set(settings.CLIENT_NAMES)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ({"hints.minTime": "fast"}, 'profileNeuron.hints.minTime is "fast"; give a time such as "1us"; using 1us'),
        ({"enable": 1}, "profileNeuron.enable is 1; give true or false; using true"),
        (
            {"run.maxPerSave": True},
            "profileNeuron.run.maxPerSave is true; give a whole number from 1 to 1000000; using 20",
        ),
        (
            {"hints": {"stale": "x" * 100}},
            f'profileNeuron.hints.stale is "{"x" * 38}…; give "mark" or "hide"; using mark',
        ),
        (
            {"interpreter": ["python"]},
            'profileNeuron.interpreter is ["python"]; give the path of a Python, or an empty text to have it found; using ""',
        ),
        (
            {"decorator.modules": []},
            'profileNeuron.decorator.modules is []; give a list of at least one module name such as ["profile_neuron"]; using ["profile_neuron"]',
        ),
        (
            {"hints.minShare": HUGE},
            "profileNeuron.hints.minShare is a value of type int; give a percentage from 0 to 100; using 1",
        ),
        (
            {"hints.stale": "a\nb\u2028\ud800"},
            r'profileNeuron.hints.stale is "a\nb\u2028\ud800"; give "mark" or "hide"; using mark',
        ),
    ],
    ids=["text", "number", "boolean", "long", "list", "empty-list", "huge", "unprintable"],
)
def test_a_reason_says_what_was_given_what_is_wanted_and_what_is_used(raw: object, reason: str) -> None:
    assert reasons(raw) == [reason]


@pytest.mark.parametrize(
    ("raw", "name"),
    [(3, "is 3"), ("x", 'is "x"'), ([], "is []"), (False, "is false"), ([{"enable": False}], 'is [{"enable": false}]')],
    ids=str,
)
def test_a_section_that_is_not_a_map_is_one_complaint(raw: object, name: str) -> None:
    reason = f"profileNeuron {name}; give a map of settings such as hints.enable; using the defaults"
    assert parse(raw) == (Settings(), (BadSetting("profileNeuron", reason),))


@pytest.mark.parametrize("raw", [None, {}, {"hints": {}}, {"hints": None}], ids=str)
def test_nothing_given_is_the_default(raw: object) -> None:
    assert parse(raw) == (Settings(), ())


@pytest.mark.parametrize("name", settings.CLIENT_NAMES)
def test_null_is_the_default(name: str) -> None:
    assert parse({name: None}) == parse(nested({name: None})) == (Settings(), ())


@pytest.mark.parametrize(
    "raw",
    [
        {"run": {"timeout": 60, "env": {"A.B": "x"}}, "hints": {"enable": False}},
        {"run.timeout": 60, "run.env": {"A.B": "x"}, "hints.enable": False},
        {"run": {"timeout": 60}, "run.env": {"A.B": "x"}, "hints.enable": False},
        {"run": {"timeout": 30}, "run.timeout": 60, "run.env": {"A.B": "x"}, "hints": {"enable": False}},
        {"run.timeout": 60, "run": {"timeout": None, "env": {"A.B": "x"}}, "hints": {"enable": False}},
    ],
    ids=["nested", "flat", "mixed", "last-counts", "null-is-no-value"],
)
def test_nested_and_flat_names_mean_the_same(raw: object) -> None:
    assert parse(raw) == (Settings(run_timeout_s=60.0, run_env=(("A.B", "x"),), hints_enable=False), ())


def test_keys_of_the_users_own_maps_are_never_names_of_settings() -> None:
    result, bad = parse({"run": {"env": {"timeout": "1", "run.timeout": "2", "hints": "3"}}})
    assert result == Settings(run_env=(("hints", "3"), ("run.timeout", "2"), ("timeout", "1")))
    assert bad == ()


def test_equal_maps_in_another_order_are_equal_settings() -> None:
    assert parse({"run.env": {"A": "1", "B": "2"}}) == parse({"run.env": {"B": "2", "A": "1"}})


def test_one_bad_value_never_spoils_another() -> None:
    result, bad = parse(
        {"hints": {"minTime": "fast", "stale": "hide"}, "run": {"timeout": -1, "maxPerSave": 3}, "x": 1}
    )
    assert result == Settings(hints_stale="hide", run_max_per_save=3)
    assert {item.name for item in bad} == {
        "profileNeuron.hints.minTime",
        "profileNeuron.run.timeout",
        "profileNeuron.x",
    }


@pytest.mark.parametrize(
    ("raw", "field", "kept", "phrases"),
    [
        (
            {"diagnostics.severity": {"timeout": "off", "run-failed": "loud", "slow": "hint", "no-inputs": True}},
            "diagnostics_severity",
            (("timeout", "off"),),
            ['has "loud" for "run-failed"', 'has "hint" for "slow"', 'has true for "no-inputs"'],
        ),
        (
            {"run.env": {"GOOD": "1", "NUMBER": 1, "FLAG": True, "GONE": None, "L": [], "M": {}, "": "x", "A=B": "x"}},
            "run_env",
            (("GOOD", "1"),),
            [
                'has a number for "NUMBER"',
                'has a boolean for "FLAG"',
                'has null for "GONE"',
                'has a list for "L"',
                'has a map for "M"',
                'has a text for ""',
                'has a text for "A=B"',
            ],
        ),
        ({"run.env": {"A": "x\0", "B\0": "x", "C": "\ud800"}}, "run_env", (), ['"A"', r'"B\u0000"', '"C"']),
        ({"projectRoots": ["src", "", 3]}, "project_roots", ("src",), ['has ""', "has 3"]),
        ({"decorator.modules": ["a.b", "a-b"]}, "decorator_modules", ("a.b",), ['has "a-b"']),
    ],
    ids=["severity", "env", "env-unusable", "roots", "modules"],
)
def test_bad_entries_are_left_out_and_good_ones_kept(raw: object, field: str, kept: object, phrases: list[str]) -> None:
    result, bad = parse(raw)
    assert result == dataclasses.replace(Settings(), **{field: kept})
    assert len(bad) == len(phrases)
    for item, phrase in zip(bad, phrases, strict=True):
        assert phrase in item.reason
        assert item.reason.endswith("; leaving it out")


def test_no_value_of_an_environment_is_repeated() -> None:
    given = [
        {"run.env": value} for value in ({"A": 4711}, {"A": "4711\0"}, {"A": ["4711"]}, "A=4711", ["A=4711"], 4711)
    ]
    for raw in given:
        (reason,) = reasons(raw)
        assert "4711" not in reason


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ({"hint.enable": True}, "profileNeuron has no setting hint.enable; did you mean hints.enable?"),
        ({"hints": {"minshare": 1}}, "profileNeuron has no setting hints.minshare; did you mean hints.minShare?"),
        ({"timeout": 1}, "profileNeuron has no setting timeout; did you mean run.timeout?"),
        ({"hints": {"enable": {"x": 1}}}, "profileNeuron.hints.enable is "),
        ({"colour": {"of": {"hints": 1}}}, "profileNeuron has no setting colour"),
        ({"device": {"colour": 1}}, "profileNeuron has no setting device.colour"),
        ({"": 1}, 'profileNeuron has no setting ""'),
        ({"x\ny": 1}, r'profileNeuron has no setting "x\ny"'),
        ({"q" * 1000: 1}, f'profileNeuron has no setting "{"q" * 38}…'),
        (
            {"hints": False},
            "profileNeuron.hints is false; give a map of settings such as hints.enable; using the defaults",
        ),
    ],
    ids=[
        "group",
        "case",
        "no-group",
        "below-a-setting",
        "nothing-close",
        "planned-group",
        "empty",
        "line",
        "long",
        "group-is-no-map",
    ],
)
def test_an_unknown_name_is_reported_with_the_closest_one(raw: object, reason: str) -> None:
    result, bad = parse(raw)
    assert result == Settings()
    (only,) = bad
    assert only.reason.startswith(reason)
    assert only.name.startswith("profileNeuron.")


@pytest.mark.parametrize("value", ["messages", 3, [], {}, {"verbosity": "off"}, False], ids=str)
@pytest.mark.parametrize(
    "name",
    [
        "trace.server", "heat.gutter", "host", "pathMap", "trace.server.verbosity",
    ],
)  # fmt: skip
def test_names_of_the_extension_and_of_later_versions_are_passed_over(name: str, value: object) -> None:
    assert parse({name: value}) == parse(nested({name: value})) == (Settings(), ())


def test_a_group_of_planned_names_only_may_hold_anything() -> None:
    assert parse({"heat": False, "trace": []}) == (Settings(), ())


@pytest.mark.parametrize(
    "raw",
    [
        {"interpreter": "/bin/python", "run": {"env": {"A": "1"}, "timeout": 60}, "watchFolders": ["/out"]},
        {"interpreter": 3, "run.env": "A=1", "run.timeout": 60, "watchFolders": 3},
        {"run": {"env": {"A": 1}}, "run.timeout": 60},
    ],
    ids=["good", "bad", "bad-entry"],
)
def test_untrusted_folders_choose_no_program_and_no_environment_and_hear_nothing_of_it(raw: object) -> None:
    assert parse(raw, trusted=False) == (Settings(run_timeout_s=60.0), ())


def test_untrusted_folders_still_hear_of_other_bad_values() -> None:
    assert reasons({"interpreter": 3, "enable": 3}, trusted=False) == reasons({"enable": 3})


def test_every_field_is_in_the_table_once() -> None:
    names = settings.CLIENT_NAMES
    assert [row.field for row in settings._ROWS] == [field.name for field in dataclasses.fields(Settings)]
    assert len(set(names)) == len(names)
    assert set(names) >= settings.RESTRICTED | settings.MACHINE


def test_no_name_is_the_group_of_another() -> None:
    every = {*settings.CLIENT_NAMES, *settings._FOREIGN}
    assert not settings._GROUPS & every
    assert not set(settings.CLIENT_NAMES) & settings._FOREIGN


def test_the_table_that_people_read_has_every_setting_with_its_default() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = text[text.index("| setting | default | means |") :].split("\n\n")[0].split("\n")[2:]
    told: dict[str, object] = {}
    for row in rows:
        names, values = (re.findall(r"`([^`]*)`", cell) for cell in row.split("|")[1:3])
        assert len(values) in (1, len(names)), row
        told.update(zip(names, map(json.loads, values * len(names)), strict=False))
    assert told == defaults()


@pytest.mark.parametrize("shape", [nested, dict], ids=["nested", "flat"])
def test_the_defaults_of_the_client_are_the_defaults_of_the_server(shape: Any) -> None:
    assert parse(shape(defaults())) == (Settings(), ())
    assert tuple(defaults()) == settings.CLIENT_NAMES
    assert (defaults()["hints.minTime"], defaults()["store.maxSize"], defaults()["run.timeout"]) == ("1us", "2GB", 120)


def test_defaults_cannot_be_spoiled_by_who_reads_them() -> None:
    defaults()["decorator.modules"].append("other")
    assert defaults()["decorator.modules"] == ["profile_neuron"]


def test_cores_and_mode_are_part_of_what_a_result_is_of_and_how_long_cores_are_kept_is_not() -> None:
    assert Settings().of_runs == ("warm-up 3", "repeats 5"), "as in results from before there was a choice"
    changed = Settings(device_cores="0-3", profile_mode="device", device_idle_release_s=0.0, device_when_busy="skip")
    assert changed.of_runs == ("warm-up 3", "repeats 5", "cores 0-3", "mode device")


def test_the_decorators_modules_are_those_of_discovery() -> None:
    assert Settings().decorator_modules == discovery.DEFAULT_MODULES


def test_values_of_the_client_are_not_changed_or_kept() -> None:
    raw: dict[str, Any] = {"run": {"env": {"A": "1"}}, "projectRoots": ["src"]}
    result, _ = parse(raw)
    raw["projectRoots"].append("other")
    assert raw == {"run": {"env": {"A": "1"}}, "projectRoots": ["src", "other"]}
    assert result.project_roots == ("src",)


def test_deep_nests_are_refused_like_any_other_value() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    for name in settings.CLIENT_NAMES:
        assert parse({name: deep})[0] == Settings()
    assert parse({"unknown": deep, "hints": deep})[0] == Settings()


WORDS = st.sampled_from(
    [
        *settings.CLIENT_NAMES,
        *sorted(settings._FOREIGN),
        *sorted(settings._GROUPS),
        "minTime",
        "env",
        "1us",
        "2GB",
        "off",
        "hide",
    ]
)
TEXTS = st.text(max_size=8) | WORDS | st.from_regex(r"\A[0-9.]{1,6} ?(ns|us|µs|μs|ms|s|min|B|KB|MB|GiB)\Z")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=6),
    max_leaves=20,
)
LIKELY = st.dictionaries(WORDS, JSON, max_size=8)
HINTS = typing.get_type_hints(Settings)


@given(raw=JSON | LIKELY | LIKELY.map(lambda flat: {"hints": flat, "run": flat, **flat}), trusted=st.booleans())
def test_anything_gives_settings_of_the_right_types(raw: object, trusted: bool) -> None:
    result, bad = parse(raw, trusted)
    for field in dataclasses.fields(Settings):
        value = getattr(result, field.name)
        assert has_type(HINTS[field.name], value), (field.name, value)
    assert 0 < result.run_timeout_s < 1e9
    assert 0 <= result.hints_min_share <= 100
    assert result.decorator_modules
    assert trusted or (result.interpreter, result.run_env) == ("", ())
    for item in bad:
        assert item.reason.startswith("profileNeuron")
        (item.name + item.reason).encode()
    hash(result)


@given(raw=st.dictionaries(st.sampled_from(settings.CLIENT_NAMES), JSON, max_size=8))
def test_what_is_good_alone_is_good_together(raw: dict[str, object]) -> None:
    together = parse(raw)[0]
    for name, value in raw.items():
        assert getattr(together, FIELDS[name]) == getattr(parse({name: value})[0], FIELDS[name])
