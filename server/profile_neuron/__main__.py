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
    # Where this package lies are also the packages that it needs: an environment, or the user's site folder.
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    command = isolated_command(sys.executable, "profile_neuron.cli", folder, *sys.argv[1:])
    if os.name == "posix":
        os.execv(command[0], command)
    import subprocess

    sys.exit(subprocess.call(command))


if __name__ == "__main__":
    main()
