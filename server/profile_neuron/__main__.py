"""Starts the command line isolated: nothing of the folder it is called in is ever executed by it.

An editor that brings this package along, and has not installed it, executes this file (core/launch.py).
"""

import os
import sys

# Where this package lies are also the packages that it needs: an environment, the user's site folder, or a bundle.
_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
if not __package__:
    sys.path.insert(0, _FOLDER)

from profile_neuron.core.launch import TOO_OLD, isolated_command


def main() -> None:
    """Run the command line; where Python was not started isolated, start it again so."""
    if sys.version_info < (3, 10):
        sys.exit(TOO_OLD % sys.version_info[:2])
    if sys.flags.isolated:
        from profile_neuron import cli

        cli.main()
        return
    command = isolated_command(sys.executable, "profile_neuron.cli", _FOLDER, *sys.argv[1:])
    if os.name == "posix":
        os.execv(command[0], command)
    import subprocess

    sys.exit(subprocess.call(command))


if __name__ == "__main__":
    main()
