from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from profile_neuron.core.project import ModulePlace, ProjectFiles, module_place, project_root


def tree(*names: str):
    files = {PurePosixPath(name) for name in names}
    return lambda path: path in files


def test_the_project_is_the_nearest_folder_with_a_marker() -> None:
    exists = tree("/a/.git", "/a/b/pyproject.toml")
    assert project_root(PurePosixPath("/a/b/c/m.py"), exists) == PurePosixPath("/a/b")
    assert project_root(PurePosixPath("/a/x/m.py"), exists) == PurePosixPath("/a")
    assert project_root(PurePosixPath("/z/y/m.py"), exists) == PurePosixPath("/z/y")


@pytest.mark.parametrize(
    ("path", "files", "place"),
    [
        ("/p/m.py", (), ModulePlace("/p", "m", "")),
        ("/p/a/b/m.py", ("/p/a/__init__.py", "/p/a/b/__init__.py"), ModulePlace("/p", "a.b.m", "a.b")),
        ("/p/a/__init__.py", ("/p/a/__init__.py",), ModulePlace("/p", "a", "a")),
        ("/p/not-a-name/m.py", ("/p/not-a-name/__init__.py",), ModulePlace("/p/not-a-name", "m", "")),
        ("/p/__init__.py", ("/__init__.py",), ModulePlace("/p", "__init__", "")),
    ],
)
def test_a_file_is_the_module_that_its_packages_make_it(path: str, files: tuple[str, ...], place: ModulePlace) -> None:
    assert module_place(PurePosixPath(path), tree(*files)) == place


@pytest.mark.parametrize(
    ("name", "is_project"),
    [
        ("/p/m.py", True),
        ("/p/a/b.py", True),
        ("/other/m.py", False),
        ("/prefix/m.py", False),
        ("/p/site-packages/x.py", False),
        ("/p/.venv/lib/x.py", False),
        ("/p/tool/x.py", False),
        ("/extra/site-packages/mine/x.py", True),
        ("<string>", False),
        ("m.py", False),
    ],
)
def test_project_files_lie_under_a_root_and_in_no_environment(name: str, is_project: bool) -> None:
    project = ProjectFiles(("/p", "/extra/site-packages/mine"), ("/p/tool",), tree("/p/.venv/pyvenv.cfg"))
    assert (name in project) is is_project
    assert (name in project) is is_project, "also when asked again"
