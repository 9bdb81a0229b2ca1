"""What the extension and the server each have of the same thing: messages, settings, commands, codes."""

from __future__ import annotations

import dataclasses
import json
import re
import typing
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any

import pytest

from profile_neuron.core.findings import DEFAULT_SEVERITIES
from profile_neuron.daemon.settings import (
    DIAGNOSTIC_CODES,
    DIAGNOSTIC_SEVERITIES,
    MACHINE,
    RESTRICTED,
    SECTION,
    Settings,
    defaults,
    parse,
)
from profile_neuron.lsp import notifications
from profile_neuron.lsp.commands import Commands
from profile_neuron.lsp.to_proto import COMMAND_PREFIX
from tests.conftest import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

CLIENT = ROOT / "client-vscode"
PROTOCOL = CLIENT / "src" / "protocol.ts"
PACKAGE, TEXTS = CLIENT / "package.json", CLIENT / "package.nls.json"

# Fields by interface, each with its type, and constants with their values.
Interfaces = dict[str, dict[str, str]]
Constants = dict[str, str]


# Messages.


class NotUnderstood(Exception):
    """TypeScript that this reader does not know, which must not be taken for nothing."""


def read_protocol(text: str) -> tuple[Interfaces, Constants]:
    """The interfaces and constants of a text. Raises NotUnderstood for anything else in it but comments."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.DOTALL)
    interfaces: Interfaces = {}
    constants: Constants = {}

    def interface(found: re.Match[str]) -> str:
        interfaces[found[1]] = dict(_fields(found[1], found[2]))
        return ""

    def constant(found: re.Match[str]) -> str:
        constants[found[1]] = found[2]
        return ""

    text = re.sub(r"export interface (\w+) \{([^{}]*)\}", interface, text)
    text = re.sub(r"export const (\w+) = '([^'\\]*)';", constant, text)
    if text.strip():
        raise NotUnderstood(text.strip())
    return interfaces, constants


def _fields(name: str, body: str) -> Iterator[tuple[str, str]]:
    for part in filter(str.strip, body.split(";")):
        found = re.fullmatch(r"\s*readonly (\w+\??): ((?:readonly )?\w+(?:\[\])?)\s*", part)
        if found is None:
            raise NotUnderstood(f"{name}: {part.strip()}")
        yield found[1], found[2]


def own_shapes() -> Interfaces:
    """The dataclasses of notifications.py as the interfaces that they are to be."""
    shapes = {
        name: item
        for name, item in vars(notifications).items()
        if dataclasses.is_dataclass(item) and isinstance(item, type) and item.__module__ == notifications.__name__
    }
    return {
        name: {
            notifications.wire_name(field.name): _script_type(typing.get_type_hints(shape)[field.name])
            for field in dataclasses.fields(shape)
        }
        for name, shape in shapes.items()
    }


def _script_type(hint: Any) -> str:
    if typing.get_origin(hint) is tuple:
        inner, rest = typing.get_args(hint)
        assert rest is Ellipsis
        return f"readonly {_script_type(inner)}[]"
    if isinstance(hint, UnionType):
        # What other clients leave out, ours does not.
        (hint,) = (item for item in typing.get_args(hint) if item is not NoneType)
    return {bool: "boolean", str: "string", int: "number", float: "number"}.get(hint) or hint.__name__


def test_both_sides_have_the_same_messages() -> None:
    interfaces, constants = read_protocol(PROTOCOL.read_text(encoding="utf-8"))
    assert own_shapes() == interfaces
    assert {name: list(fields) for name, fields in own_shapes().items()} == {
        name: list(fields) for name, fields in interfaces.items()
    }, "in the same order"
    own = {name: value for name, value in vars(notifications).items() if name.isupper()}
    assert own == constants


@pytest.mark.parametrize(
    "text",
    [
        "export interface A { readonly b: boolean | null; }",
        "export interface A { b: boolean; }",
        "export interface A extends B { readonly b: boolean; }",
        "export interface A { readonly b: { c: string }; }",
        "export interface A { readonly b: Record<string, string>; }",
        "export type A = string;",
        "export const A = 5;",
        "interface A { readonly b: boolean; }",
        "import type { A } from './a';",
    ],
)
def test_what_the_reader_does_not_know_is_an_error(text: str) -> None:
    with pytest.raises(NotUnderstood):
        read_protocol(text)


def test_the_reader_tells_what_may_be_left_out_and_what_there_are_many_of() -> None:
    text = "/** A. */\nexport interface A {\n  // One.\n  readonly b?: string;\n  readonly cD: readonly A[];\n}\n"
    assert read_protocol(f"{text}export const E = 'a/b';") == (
        {"A": {"b?": "string", "cD": "readonly A[]"}},
        {"E": "a/b"},
    )


def test_shapes_are_sent_under_the_names_of_the_client() -> None:
    line = notifications.HeatLine(3, 5, True)
    assert notifications.to_json(notifications.HeatParams("file:///a", 7, (line,))) == {
        "uri": "file:///a",
        "version": 7,
        "lines": [{"line": 3, "level": 5, "isStale": True}],
    }


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"profileNeuron": {"heat": True, "openPage": True}}, {"heat", "open_page"}),
        ({"profileNeuron": {"heat": 1, "status": "true", "report": None}}, set()),
        ({"profileNeuron": True}, set()),
        ({"profileNeuron": None, "heat": True}, set()),
        (None, set()),
        ([], set()),
    ],
)
def test_a_client_can_what_it_says_in_so_many_words(given: object, expected: set[str]) -> None:
    found = dataclasses.asdict(notifications.capabilities(given))
    assert {name for name, can in found.items() if can} == expected


# The manifest of the extension.

# What the client reads itself, with the default.
CLIENTS_OWN = {"heat.gutter": True, "trace.server": "off"}


def snake(name: str) -> str:
    """The field of Settings for a name: run_on_save for runOnSave."""
    return re.sub(r"(?<=[a-z])([A-Z])", r"_\1", name).replace(".", "_").lower()


def settings_of(manifest: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The settings that a manifest offers, by the name below our section."""
    offered = manifest["contributes"]["configuration"]
    parts = offered if isinstance(offered, list) else [offered]
    found = {name: item for part in parts for name, item in part["properties"].items()}
    assert all(name.startswith(f"{SECTION}.") for name in found)
    return {name.removeprefix(f"{SECTION}."): item for name, item in found.items()}


def setting_faults(offered: dict[str, dict[str, Any]]) -> list[str]:
    """What of the offered settings is not as the server has it."""
    known = {**defaults(), **CLIENTS_OWN}
    faults = [
        f"{name} is {'missing' if name in known else 'unknown'}" for name in sorted(known.keys() ^ offered.keys())
    ]
    hints = typing.get_type_hints(Settings)
    for name, item in offered.items():
        if name not in known:
            continue
        if item.get("default", ...) != known[name] or isinstance(item["default"], bool) != isinstance(
            known[name], bool
        ):
            faults.append(f"{name} has the default {item.get('default')!r} in place of {known[name]!r}")
        scopes = {"machine"} if name in MACHINE else {"window", "resource"} if name in CLIENTS_OWN else {"resource"}
        if item.get("scope") not in scopes:
            faults.append(f"{name} has the scope {item.get('scope')}")
        hint = hints.get(snake(name))
        words = list(typing.get_args(hint)) if typing.get_origin(hint) is typing.Literal else None
        if name not in CLIENTS_OWN and item.get("enum") != words:
            faults.append(f"{name} offers {item.get('enum')} in place of {words}")
        # The ends of a range are good, and what is beyond is not.
        for end, beyond in (("minimum", -1), ("maximum", 1)):
            if end in item and (parse({name: item[end]})[1] or not parse({name: item[end] + beyond})[1]):
                faults.append(f"{name} has the {end} {item[end]}")
    severities = offered.get("diagnostics.severity", {}).get("properties", {})
    if {code: tuple(item["enum"]) for code, item in severities.items()} != dict.fromkeys(
        DIAGNOSTIC_CODES, DIAGNOSTIC_SEVERITIES
    ):
        faults.append("diagnostics.severity offers other codes or severities")
    return faults


def restricted_of(manifest: dict[str, Any]) -> set[str]:
    names = manifest["capabilities"]["untrustedWorkspaces"]["restrictedConfigurations"]
    return {name.removeprefix(f"{SECTION}.") for name in names}


def palette_of(manifest: dict[str, Any]) -> set[str]:
    """The commands that a manifest offers."""
    return {item["command"] for item in manifest["contributes"]["commands"]}


def verbs_in(source: str) -> set[str]:
    """The server's commands that a TypeScript text names, without what they all begin with.

    In full, as the argument of execute, or in the tables of those that are asked for the cursor or for no place.
    """
    found = set(re.findall(rf"['\"`]{re.escape(COMMAND_PREFIX)}(\w+)['\"`]", source))
    found |= set(re.findall(r"\bexecute\(\s*'(\w+)'", source))
    for table in re.findall(r"\bconst AT_CURSOR\b[^=]*=\s*\{([^}]*)\}", source):
        found |= set(re.findall(r":\s*'(\w+)'", table))
    for table in re.findall(r"\bconst ANYWHERE\b[^=]*=\s*\[([^\]]*)\]", source):
        found |= set(re.findall(r"'(\w+)'", table))
    return found


def text_names(value: Any) -> set[str]:
    """The names of texts that a manifest leaves to package.nls.json."""
    if isinstance(value, str):
        return set(re.findall(r"^%([\w.-]+)%$", value))
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return {name for item in items for name in text_names(item)}


def own_verbs() -> set[str]:
    # No handler is called, so that nothing behind the table is needed.
    commands = Commands.__new__(Commands)
    return {name.removeprefix(COMMAND_PREFIX) for name in commands.table()}


@pytest.fixture(scope="module")
def manifest() -> dict[str, Any]:
    if not PACKAGE.exists():
        pytest.skip("there is no manifest of the extension")
    found: dict[str, Any] = json.loads(PACKAGE.read_text(encoding="utf-8"))
    return found


def test_the_manifest_offers_the_settings_that_the_server_knows(manifest: dict[str, Any]) -> None:
    assert setting_faults(settings_of(manifest)) == []


def test_the_manifest_restricts_what_the_server_does(manifest: dict[str, Any]) -> None:
    assert restricted_of(manifest) == RESTRICTED


def test_the_palette_has_no_command_of_the_server(manifest: dict[str, Any]) -> None:
    palette = palette_of(manifest)
    assert palette
    assert [name for name in palette if name.startswith(COMMAND_PREFIX) or not name.startswith(f"{SECTION}.")] == []


def test_the_server_has_every_command_that_the_extension_names(manifest: dict[str, Any]) -> None:
    named = verbs_in("\n".join(path.read_text(encoding="utf-8") for path in sorted((CLIENT / "src").rglob("*.ts"))))
    assert {"profileFunction", "cancelAll", "doctor", "showReport"} <= named, "the reader finds what is there"
    assert named - own_verbs() == set()


def test_every_text_of_the_manifest_is_there_and_used(manifest: dict[str, Any]) -> None:
    texts = json.loads(TEXTS.read_text(encoding="utf-8"))
    assert text_names(manifest) == texts.keys()
    assert all(isinstance(text, str) and text.strip() for text in texts.values())


def test_codes_of_remarks_have_severities_in_the_settings() -> None:
    given = tuple(sorted(dict.fromkeys(DEFAULT_SEVERITIES, "off").items()))
    assert parse({"diagnostics.severity": dict(given)}) == (Settings(diagnostics_severity=given), ())


def good() -> dict[str, dict[str, Any]]:
    """Settings without a fault."""
    hints = typing.get_type_hints(Settings)
    found: dict[str, dict[str, Any]] = {}
    for name, default in {**defaults(), **CLIENTS_OWN}.items():
        found[name] = {"default": default, "scope": "machine" if name in MACHINE else "resource"}
        hint = hints.get(snake(name))
        if typing.get_origin(hint) is typing.Literal:
            found[name]["enum"] = list(typing.get_args(hint))
    found["diagnostics.severity"]["properties"] = {
        code: {"enum": list(DIAGNOSTIC_SEVERITIES)} for code in DIAGNOSTIC_CODES
    }
    found["run.warmup"]["minimum"] = 0
    return found


@pytest.mark.parametrize(
    ("name", "changes", "fault"),
    [
        ("enable", None, "enable is missing"),
        ("enabled", {"default": True}, "enabled is unknown"),
        ("heat.gutter", None, "heat.gutter is missing"),
        ("run.warmup", {"default": 5}, "run.warmup has the default 5 in place of 3"),
        ("hints.minShare", {"default": True}, "hints.minShare has the default True in place of 1"),
        ("run.warmup", {"minimum": 1}, "run.warmup has the minimum 1"),
        ("run.warmup", {"minimum": -1}, "run.warmup has the minimum -1"),
        ("store.directory", {"scope": "resource"}, "store.directory has the scope resource"),
        ("enable", {"scope": "window"}, "enable has the scope window"),
        ("baseline", {"enum": ["previous"]}, "baseline offers ['previous'] in place of ['previous', 'pinned']"),
        ("diagnostics.severity", {"properties": {}}, "diagnostics.severity offers other codes or severities"),
    ],
)
def test_a_setting_that_differs_is_found(name: str, changes: dict[str, Any] | None, fault: str) -> None:
    assert setting_faults(good()) == []
    offered = good()
    if changes is None:
        del offered[name]
    else:
        offered[name] = {**offered.get(name, {}), **changes}
    assert setting_faults(offered) == [fault]


def test_commands_are_found_in_every_way_that_they_are_named() -> None:
    source = """
        run('profileNeuron.server.one'); server.execute('two', at); const AT_CURSOR: Record<string, string> = {
          a: 'three', b: 'four' };
        const ANYWHERE = ['five', 'six'];
        const SERVER_COMMAND = 'profileNeuron.server.';
    """
    assert verbs_in(source) == {"one", "two", "three", "four", "five", "six"}
