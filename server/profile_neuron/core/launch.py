"""The command lines that start our own programs isolated from the user's project."""

from __future__ import annotations

TOO_OLD = "Python %d.%d is too old; profile-neuron needs 3.10 or newer"

# -I keeps the working directory, PYTHONPATH and the user's site folder off the path. Ours comes first: the
# interpreter may have another version of this package. Nothing else is imported, since main takes the wire.
_BOOT = (
    f"import sys; sys.version_info < (3, 10) and sys.exit({TOO_OLD!r} % sys.version_info[:2]); "
    "from importlib import import_module as load; module, own_path = sys.argv[1:3]; "
    "sys.path[:0] = [own_path] * (own_path not in sys.path); sys.argv[:] = sys.argv[2:]; load(module).main()"
)


def isolated_command(python: str, module: str, own_path: str, *arguments: str) -> list[str]:
    """Start module.main() of ours with a folder on its path; it finds its arguments from sys.argv[1] on."""
    return [python, "-I", "-c", _BOOT, module, own_path, *arguments]


def bundled_command(python: str, folder: str, *arguments: str) -> list[str]:
    """Start the command line from a folder that holds this package and all that it needs, in any Python.

    The extension for VS Code builds the same list for its server. -S keeps the packages of that Python off the path,
    and what they execute at its start.
    """
    return [python, "-I", "-S", f"{folder}/profile_neuron/__main__.py", *arguments]
