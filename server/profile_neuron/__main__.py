"""Starts the command line isolated: nothing of the folder it is called in is ever executed by it."""

import os
import sys

from profile_neuron.core.launch import isolated_command


def main() -> None:
    """Run the command line; where Python was not started isolated, start it again so."""
    if sys.flags.isolated:
        from profile_neuron import cli

        cli.main()
        return
    command = isolated_command(sys.executable, "profile_neuron.cli", _own_path(), *sys.argv[1:])
    if os.name == "posix":
        os.execv(command[0], command)
    import subprocess

    sys.exit(subprocess.call(command))


def _own_path() -> list[str]:
    """This package's folder, and what the interpreter itself put on the path: its environment's packages."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    # Left out: the script's folder or the working directory, which comes first, and PYTHONPATH.
    given = {os.path.abspath(entry) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry}
    given.add(os.path.abspath(sys.path[0]))
    return [package, *(entry for entry in sys.path[1:] if entry and os.path.abspath(entry) not in given)]


if __name__ == "__main__":
    main()
