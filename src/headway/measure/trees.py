"""Finds code that spoils a comparison of two trees: code of the other tree, and compiled code that only one tree has.

A process imports its own tree's code by the import path. Import hooks of editable installations, absolute paths and
the user's PYTHONPATH may lead into the other tree all the same. A build in place leaves compiled modules that git does
not know, so the other tree lacks them, and a package with a fallback in Python runs that fallback there without a word.
The folder of tests, which the other tree takes over, may be a package that is measured, such as one called `benchmark`.
"""

import os
import sys
from collections.abc import Collection, Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import FunctionType, ModuleType

from headway.errors import UsageError
from headway.host.packages import in_packages
from headway.host.repository import git
from headway.measure.copies import installed, sources

__all__ = ["SCRATCH", "UNBUILT", "folder_of_tests", "refuse_taken_code", "refuse_wrong_code", "unbuilt"]

SCRATCH = "headway-against-"
"""The begin of the name of the folder that the other tree is in."""

UNBUILT = (
    "build the other revision in a checkout of its own, store a session there (`--headway-save`), and compare with it "
    "(`--headway-compare`)"
)
"""The remedy for code that is built in one tree only."""

_TESTS = ("test", "tests")
_BENCHMARKS = ("benchmark", "benchmarks")


def folder_of_tests(file: Path, top: Path) -> Path | None:
    """Return the folder below `top` that has a test's file, its helper modules and its data, and no code that is measured.

    That is the outermost folder called `test` or `tests`, since `tests/benchmarks` has its data in `tests`. Without one
    it is the innermost one called `benchmark` or `benchmarks`, since a package may be called so, too.
    """
    inside = [one for one in reversed(file.parents) if top in one.parents]
    tests = [one for one in inside if one.name in _TESTS]
    return next(iter(tests or [one for one in reversed(inside) if one.name in _BENCHMARKS]), None)


def refuse_wrong_code(files: str, folder: Path) -> None:
    """Raise UsageError if this process has imported code of the other tree, or compiled code that the other one lacks.

    Args:
        files: The value of the option by which the process takes turns; it names the other tree.
        folder: A folder of this process's own tree.
    """
    tree = files.split(",", 2)[2:]
    if not tree:
        return
    other = Path(tree[0])
    for name, given, file in _loaded(other):
        prefix = Path(sys.prefix).resolve()
        is_environments = prefix.is_relative_to(other) and file.is_relative_to(prefix)
        if is_environments or in_packages(given) or in_packages(file):
            continue
        if (inner := _repository(file, other)) != other:
            if _is_submodule(inner, other):
                where = inner.relative_to(other)
                raise UsageError(
                    f"{name} is this tree's own there, too, of the submodule {where}: {file}",
                    hint=f"a checkout of another revision has nothing in {where}; {UNBUILT}",
                )
            continue
        # A library that lies in a folder that git ignores is the same for both; a build of a package is not.
        if git("ls-files", "--cached", "--others", "--exclude-standard", "--", str(file), where=other) or any(
            path.is_file() for path in sources(other, name.partition(".")[0])
        ):
            raise UsageError(
                f"{name} is this tree's own there, too: {file}",
                hint="an import hook of an editable installation, or an absolute path, leads here",
            )
    own = Path(git("rev-parse", "--show-toplevel", where=folder)).resolve()
    if said := unbuilt(own, other):
        raise UsageError(said, hint=UNBUILT)


def refuse_taken_code(test: Path) -> None:
    """Raise UsageError if this is the other tree's process, and its folder of tests contains code that is measured.

    That code is then this tree's in both processes. A helper module is imported by tests alone. So a changed module of
    the folder is code if the rest of the repository imports something from there. In a folder called `benchmark` it is
    code as well if nothing else of the repository is imported, as the comparison would then be of nothing.

    Args:
        test: The test's file.
    """
    own = Path(git("rev-parse", "--show-toplevel", where=test.parent)).resolve()
    folder = folder_of_tests(test.resolve(), own)
    if folder is None or not own.parent.name.startswith(SCRATCH):
        return
    changed = git("diff", "--name-only", "--no-renames", "--diff-filter=M", "-z", "HEAD", "--", str(folder), where=own)
    taken = {own / name for name in changed.split("\0") if name} - {test.resolve()}
    loaded = {
        name: file
        for name, given, file in _loaded(own)
        if not installed(given) and not installed(file) and file.name != "conftest.py"
    }
    inside = {name for name, file in loaded.items() if file.is_relative_to(folder)}
    outside = loaded.keys() - inside
    used = any(_uses(sys.modules[name], inside) for name in outside) or (not outside and folder.name in _BENCHMARKS)
    mine = next((name for name, file in loaded.items() if file in taken), "")
    if mine and used:
        where = folder.relative_to(own)
        raise UsageError(
            f"{mine} is this tree's own there, too: {where} is taken for a folder of tests; move its tests into {where}/tests",
            hint=f"or move them out of {where}: a folder of tests has no code that is measured",
        )


def _uses(module: ModuleType, names: Collection[str]) -> bool:
    """Tell whether a module has one of these modules, or a function or class of one, as a global."""
    for one in list(getattr(module, "__dict__", {}).values()):
        # The types are looked at first, as an object of another type may do anything when it is asked.
        if type(one) is ModuleType:
            found = one.__name__
        elif type(one) is FunctionType or issubclass(type(one), type):
            found = one.__module__
        else:
            continue
        if found in names:
            return True
    return False


def unbuilt(own: Path, other: Path) -> str:
    """Return a sentence about a loaded compiled module of a tree that git does not know and the other tree lacks; "" else.

    Other files that git ignores, such as a module with the version, are no reason: code that needs them fails aloud.
    Neither is a library, which has no file that git knows: by the import path, both processes have the same one.
    """
    for name, given, file in _loaded(own):
        if not file.name.endswith(tuple(EXTENSION_SUFFIXES)) or installed(given) or installed(file):
            continue
        where = file.relative_to(own)
        if (other / where).exists() or git("ls-files", "--cached", "--", str(file), where=own):
            continue
        if git("ls-files", "--cached", "--", str(file.parent), where=own) or any(
            path.is_file() for path in sources(own, name.partition(".")[0])
        ):
            return f"{name} is built in this tree only: git does not know {where}, so the other tree lacks it"
    return ""


def _loaded(tree: Path) -> Iterator[tuple[str, Path, Path]]:
    """Yield the loaded modules that are inside a tree: name, file as it is given, and file without links."""
    for name, module in sorted(sys.modules.items()):
        given = Path(getattr(module, "__file__", None) or os.devnull)
        file = given.resolve()
        # The other tree is inside this one if TMPDIR is.
        if file.is_relative_to(tree) and not any(one.startswith(SCRATCH) for one in file.relative_to(tree).parts):
            yield name, given, file


def _repository(file: Path, top: Path) -> Path:
    """Return the folder of the repository that a file below `top` belongs to: `top`, or one inside it."""
    return next((one for one in file.parents if one == top or (one / ".git").exists()), top)


def _is_submodule(folder: Path, top: Path) -> bool:
    """Tell whether the repository in a folder is a submodule: git has a commit (mode 160000) in its place."""
    return git("ls-files", "--stage", "--", str(folder), where=top).startswith("160000")
