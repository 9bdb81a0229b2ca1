"""Interpreters as users have them: with or without torch, and with nothing of ours installed.

python -m tests.interpreters FOLDER [--torch] makes one and prints its path.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import sysconfig
from pathlib import Path

# What torch brings along, in this environment or in another one that it is installed in.
_OF_TORCH = (
    "_distutils_hack",
    "filelock",
    "fsspec",
    "functorch",
    "jinja2",
    "markupsafe",
    "mpmath",
    "networkx",
    "numpy",
    "numpy.libs",
    "setuptools",
    "sympy",
    "torch",
    "torchgen",
    "typing_extensions.py",
)
# What this package needs of others, as a bundle has it.
_OF_OURS = (
    "attr",
    "attrs",
    "cattr",
    "cattrs",
    "exceptiongroup",
    "lsprotocol",
    "msgpack",
    "pygls",
    "typing_extensions.py",
    "watchdog",
)
_SITE = Path(sysconfig.get_paths()["purelib"])


def bare_interpreter(folder: Path, with_torch: bool, python: str = sys.executable) -> Path:
    """A new virtual environment in a folder, without pip; gives its interpreter.

    with_torch: it finds the torch of the environment that this runs in, which python then has to be of.
    """
    subprocess.run([python, "-m", "venv", "--without-pip", str(folder)], check=True, capture_output=True)
    if with_torch:
        (site,) = (folder / "lib").glob("python*/site-packages")
        for item in installed():
            if item.name in _OF_TORCH or item.name.startswith(tuple(f"{name}-" for name in ("torch", "numpy"))):
                (site / item.name).symlink_to(item)
    return folder / "bin" / "python"


def bundle(folder: Path) -> Path:
    """What an editor's extension brings along: this package and what it needs, nothing compiled; gives the folder."""
    folder.mkdir(parents=True)
    own = Path(__file__).parent.parent / "server" / "profile_neuron"
    for item in (own, *(item for item in installed() if item.name in _OF_OURS)):
        for path in [item] if item.is_file() else item.rglob("*.py"):
            target = folder / path.relative_to(item.parent)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    return folder


def installed() -> list[Path]:
    """The entries of the folders that packages are found in, the first of each name."""
    found: dict[str, Path] = {}
    for entry in (str(_SITE), *sys.path):
        if Path(entry).name == "site-packages":
            for item in Path(entry).iterdir():
                found.setdefault(item.name, item.resolve())
    return list(found.values())


def main() -> None:
    """Make one interpreter as the arguments say."""
    parser = argparse.ArgumentParser(prog="python -m tests.interpreters")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--torch", action="store_true", help="let it find the torch of this environment")
    arguments = parser.parse_args()
    sys.stdout.write(f"{bare_interpreter(arguments.folder.absolute(), arguments.torch)}\n")


if __name__ == "__main__":
    main()
