"""A bundle that doctor wrote, to the result that its capture gives with this version; what it holds is not trusted."""

from __future__ import annotations

import json
import re
import tempfile
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profile_neuron.core import bundle
from profile_neuron.errors import CaptureError
from profile_neuron.report.files import report

if TYPE_CHECKING:
    from collections.abc import Iterator

    from profile_neuron.core.model import LineCosts

# A bundle that doctor makes is smaller than what is in it; the index alone of a larger file could take all memory.
_FILE_BYTES = bundle.TOTAL_BYTES
_NAME = re.compile(r"[^/\\:\0]+(?:/[^/\\:\0]+)*")
_VERSIONS = ("made", "profile_neuron", "platform", "python", "torch", "torch_neuronx", "neuron_api", "driver", "device")


@dataclass(frozen=True, slots=True)
class ReadBundle:
    """What a bundle tells."""

    # Versions, and what could not be had, for a person.
    lines: tuple[str, ...]
    # None where its capture gives no result, for the reason beside it.
    costs: LineCosts | None
    reason: str = ""


def read_bundle(path: Path) -> ReadBundle:
    """Read a bundle. Raises CaptureError, in one sentence that names the file, for one that is none or too large."""
    try:
        members = _members(path)
        manifest = json.loads(members[bundle.MANIFEST])
        if manifest["schema"] != bundle.SCHEMA:
            raise CaptureError(f"it has schema {manifest['schema']!r}, and this version reads {bundle.SCHEMA}")
        lines = tuple(_lines(manifest))
    except CaptureError as error:
        raise CaptureError(f"{path}: {error}") from error
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise CaptureError(f"{path} is no bundle of doctor's ({error or type(error).__name__})") from error
    except (NotImplementedError, RuntimeError, OSError) as error:
        raise CaptureError(f"{path} cannot be read ({error})") from error
    with tempfile.TemporaryDirectory(prefix="profile-neuron-") as place:
        folder = Path(place)
        for name, content in members.items():
            if name.startswith(bundle.RUN):
                target = folder / name[len(bundle.RUN) :]
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
        try:
            return ReadBundle(lines, report(folder))
        except CaptureError as error:
            return ReadBundle(lines, None, str(error).replace(place, f"{path}:{bundle.RUN.rstrip('/')}"))


def _members(path: Path) -> dict[str, bytes]:
    """The files in it by name, as far as they may be; none is written anywhere yet."""
    if path.stat().st_size > _FILE_BYTES:
        raise CaptureError(f"it is larger than the {_FILE_BYTES} bytes that a bundle may have")
    found: dict[str, bytes] = {}
    left = bundle.TOTAL_BYTES
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
        if len(entries) > bundle.MOST_MEMBERS:
            raise CaptureError(f"it has {len(entries)} files, and a bundle has no more than {bundle.MOST_MEMBERS}")
        for entry in entries:
            name = entry.filename
            if not _NAME.fullmatch(name) or ".." in name.split("/") or name in found:
                raise CaptureError(f"it has a file named {name!r}, which a bundle has not")
            with archive.open(entry) as file:
                # What an entry says of its size need not be true.
                found[name] = file.read(min(bundle.MEMBER_BYTES, left) + 1)
            left -= len(found[name])
            if len(found[name]) > bundle.MEMBER_BYTES or left < 0:
                raise CaptureError(f"{name} in it is larger than a file of a bundle may be")
    return found


def _lines(manifest: dict[str, Any]) -> Iterator[str]:
    yield " · ".join(f"{name} {_printable(manifest[name])}" for name in _VERSIONS if manifest.get(name))
    tools = manifest.get("tools") or {}
    named = [f"{name} {version}".strip() for name, version in tools.items()]
    if packages := [*map(str, manifest.get("packages") or ()), *named]:
        yield _printable(" · ".join(packages))
    for problem in manifest.get("problems") or ():
        yield f"without {_printable(problem)}"


def _printable(value: object) -> str:
    return "".join(char if char.isprintable() else "·" for char in str(value))
