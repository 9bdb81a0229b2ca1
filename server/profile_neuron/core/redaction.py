"""Texts without what tells of a person, a machine or a project: each such thing becomes a word that says its kind.

Numbers of measurements, and all of JSON that is no string, stay to the byte.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import json
import re
from collections import Counter
from typing import TYPE_CHECKING

from profile_neuron.core import model

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

USER, HOST = "USER", "HOST"

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_IP_V4 = r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?!\.?\d)"
# Folders that are the same on every machine.
_PUBLIC = r"(?:usr|opt/aws[\w-]*|opt/conda|dev|proc|sys|etc|lib|lib64|bin|sbin)(?![\w.-])"
_SEGMENT = r"""[^\s"'`/\\:;,|<>()\[\]{}*?$&]+"""
# A file of Neuron keeps its name, by which files of one capture belong together.
_NEURON_FILE = re.compile(r"/([^/]+\.(?:neff|ntff|pb))$")
# By what they become; all that is matched goes.
_PATTERNS = {
    "ARN": r"\barn:aws[\w-]*:[^\s\"']+",
    "INSTANCE": r"(?<![A-Za-z0-9])(?:i|mi)-(?:[0-9a-f]{17}|[0-9a-f]{8})(?![0-9a-f])",
    "RESOURCE": r"(?<![A-Za-z0-9])(?:r|ami|eni|vpc|subnet|sg|vol|snap)-(?:[0-9a-f]{17}|[0-9a-f]{8})(?![0-9a-f])",
    HOST: r"(?<![A-Za-z0-9])(?:ip|ec2)-\d+-\d+-\d+-\d+(?:\.[\w-]+)*",
    "MAC": r"(?<![0-9A-Fa-f:])(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}(?![0-9A-Fa-f:])",
    "EMAIL": r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+",
    "PATH": rf"file://[^\s\"']+|(?:(?<![\w.~/\\<-])|(?<=-[IL]))/(?!{_PUBLIC})(?=[^\W\d]|[._]){_SEGMENT}(?:/{_SEGMENT})*",
    "IP": rf"{_IP_V4}|(?<![\w:.])(?:[23][0-9A-Fa-f]{{3}}|[Ff][CcDd][0-9A-Fa-f]{{2}}|[Ff][Ee]80):[0-9A-Fa-f:]+(?![\w:])",
}
# Words of what we and torch write beside the fields of our types; whoever is called like one is not told by it.
_WORDS = """
schema names events device_events threads stacks marks traceEvents args External id correlation category duration
document functions qualname decorated during provenance remarks warnings comparison root localhost torch neuron aten
profile_neuron trace cpu host device kernel runtime driver gpu_memcpy privateuse1 user_annotation metadata process
thread python fresh failed beta april tiny inputs weight squared shifted normalised
"""


class Redaction:
    """What is replaced in texts, and how often it was; the longest of several paths counts."""

    def __init__(
        self,
        paths: Mapping[str, str],
        users: Iterable[str],
        hosts: Iterable[str],
        versions: Iterable[str] = (),
    ) -> None:
        """paths: absolute, with what each becomes. versions: texts with numbers that look like addresses and stay."""
        # By what was replaced and by what.
        self.counts: Counter[tuple[str, str]] = Counter()
        self._versions = frozenset(found for text in versions for found in re.findall(_IP_V4, text))
        literal = {spelling: becomes for path, becomes in paths.items() for spelling in _spellings(path)}
        self._literal = {path: becomes for path, becomes in literal.items() if path.strip("/")}
        rules = [f"(?:{re.escape(path)})(?![\\w.-])" for path in sorted(self._literal, key=len, reverse=True)]
        parts = [f"(?P<literal>{'|'.join(rules)})"] if rules else []
        for becomes, names in ((HOST, hosts), (USER, users)):
            found = [rule for name in sorted(set(names), key=len, reverse=True) for rule in _rules(name)]
            parts += [f"(?P<{becomes}_NAME>(?i:{'|'.join(found)}))"] if found else []
        patterns = [f"(?P<{becomes}>{pattern})" for becomes, pattern in _PATTERNS.items()]
        # A name of an instance may hold the name of its host, and one of a host that of a user.
        self._all = re.compile("|".join([*parts[:1], *patterns, *parts[1:]] if rules else [*patterns, *parts]))

    def text(self, text: str) -> str:
        """The text with everything replaced."""
        return self._all.sub(self._becomes, text)

    def json(self, text: str) -> str:
        """The same for JSON: only its strings change, so numbers stay as they are written; what is none is a text."""
        try:
            json.loads(text)
        except (ValueError, RecursionError):
            return self.text(text)
        return _STRING.sub(self._literal_string, text)

    def _literal_string(self, match: re.Match[str]) -> str:
        found: str = json.loads(match[0], strict=False)
        changed = self.text(found)
        return match[0] if changed == found else json.dumps(changed)

    def _becomes(self, match: re.Match[str]) -> str:
        kind, found = match.lastgroup or "", match[0]
        becomes = self._literal[found] if kind == "literal" else kind.removesuffix("_NAME")
        if kind == "IP" and not self._is_address(found):
            return found
        if kind == "PATH" and (file := _NEURON_FILE.search(found)):
            becomes = f"PATH/{self.text(file[1])}"
        self.counts[found if kind != "PATH" else "other absolute paths", becomes.partition("/")[0]] += 1
        return becomes

    def _is_address(self, text: str) -> bool:
        try:
            ipaddress.ip_address(text)
        except ValueError:
            return False
        return text not in self._versions


def _spellings(text: str) -> Iterator[str]:
    """A text as it stands in plain text, in a string of JSON, and with / as some writers of JSON escape it."""
    escaped = json.dumps(text)[1:-1]
    yield from dict.fromkeys([text, escaped, escaped.replace("/", "\\/")])


def _rules(name: str) -> Iterator[str]:
    """Patterns for the name of a person or machine: anywhere, or where it is a word of its own; none for our words."""
    words = _our_words()
    for spelling in _spellings(name):
        lowered = spelling.lower()
        if len(name) < 2 or lowered in words:
            continue
        is_part = any(lowered in word for word in words)
        bounded = len(name) < 4 or is_part or name.isdigit()
        yield rf"(?<![A-Za-z0-9]){re.escape(spelling)}(?![A-Za-z0-9])" if bounded else re.escape(spelling)


def _our_words() -> frozenset[str]:
    kinds = [kind for kind in vars(model).values() if isinstance(kind, type) and dataclasses.is_dataclass(kind)]
    fields = {field.name for kind in kinds for field in dataclasses.fields(kind)}
    return frozenset(word.lower() for word in {*fields, *_WORDS.split(), *(p for f in fields for p in f.split("_"))})
