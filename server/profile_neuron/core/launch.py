"""The command line that starts one of our own programs isolated from the user's project."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# -I keeps the working directory, PYTHONPATH and the user's site folder off the path; what we need of our
# own comes behind the standard library. Nothing else is imported, since main takes over the wire first.
_BOOT = (
    "import sys; from importlib import import_module as load; count = int(sys.argv[2]); "
    "sys.path += [entry for entry in sys.argv[3:3 + count] if entry not in sys.path]; "
    "module = sys.argv[1]; sys.argv[:] = sys.argv[2 + count:]; load(module).main()"
)


def isolated_command(python: str, module: str, own_path: Sequence[str], *arguments: str) -> list[str]:
    """Start module.main() of ours; it finds own_path on sys.path and its arguments from sys.argv[1] on."""
    return [python, "-I", "-c", _BOOT, module, str(len(own_path)), *own_path, *arguments]
