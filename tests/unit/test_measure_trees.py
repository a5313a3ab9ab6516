"""Code that spoils a comparison of two trees: the other tree's, and compiled code that only one of them has."""

import contextlib
import subprocess
import sys
import types
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from headway.errors import UsageError
from headway.measure import trees


def git(*arguments, where):
    settings = ("user.name=me", "user.email=me@localhost", "protocol.file.allow=always")
    given = [word for one in settings for word in ("-c", one)]
    return subprocess.run(["git", *given, *arguments], cwd=where, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize(
    ("file", "refused"),
    [
        ("src/package/__init__.py", True),
        ("build/package/__init__.py", True),  # a build of it
        ("build/other.py", False),  # a library, in a folder that git ignores
        (".venv/lib/site-packages/package.py", False),
        ("headway-against-x/tree/src/package/__init__.py", False),  # the other tree, where TMPDIR is in this one
        ("../elsewhere/package.py", False),
    ],
)
def test_code_of_this_tree_in_the_other_ones_process(tmp_path, monkeypatch, file, refused):
    """Code of this tree is refused in the other one's process, but not libraries, nor in this tree's own process."""
    here, own = tmp_path / "here", tmp_path / "own"
    for one in ("src/package/__init__.py", file):
        (here / one).parent.mkdir(parents=True, exist_ok=True)
        (here / one).touch()
    (here / ".gitignore").write_text("build\n.venv\n")
    git("init", "--quiet", ".", where=here)
    git("init", "--quiet", str(own), where=here)
    name = Path(file).parent.name if Path(file).name == "__init__.py" else Path(file).stem
    monkeypatch.setitem(sys.modules, name, types.SimpleNamespace(__file__=str(here / file)))

    trees.refuse_wrong_code("3,4", here)
    with pytest.raises(UsageError, match="is this tree's own there") if refused else contextlib.nullcontext():
        trees.refuse_wrong_code(f"3,4,{here}", own)


def test_code_of_a_submodule_is_refused(tmp_path, monkeypatch):
    """A submodule has no files for git, and the other tree's is empty; a clone that is no submodule is a library."""
    here, own = tmp_path / "here", tmp_path / "own"
    for folder in ("library", "here", "own"):
        git("init", "--quiet", folder, where=tmp_path)
    (tmp_path / "library" / "vend.py").touch()
    git("add", ".", where=tmp_path / "library")
    git("commit", "--quiet", "-m", "one", where=tmp_path / "library")
    git("clone", "--quiet", str(tmp_path / "library"), "cloned", where=here)
    git("submodule", "--quiet", "add", str(tmp_path / "library"), "vendor/sub", where=here)

    monkeypatch.setitem(sys.modules, "vend", types.SimpleNamespace(__file__=str(here / "cloned" / "vend.py")))
    trees.refuse_wrong_code(f"3,4,{here}", own)
    monkeypatch.setitem(sys.modules, "vend", types.SimpleNamespace(__file__=str(here / "vendor" / "sub" / "vend.py")))
    with pytest.raises(UsageError, match="of the submodule vendor/sub: ") as error:
        trees.refuse_wrong_code(f"3,4,{here}", own)
    assert "nothing in vendor/sub" in error.value.hint


@pytest.mark.parametrize(
    ("file", "folder"),
    [
        ("tests/benchmarks/test_it.py", "tests"),  # `tests/data` is beside it
        ("packages/one/test/perf/test_it.py", "packages/one/test"),
        ("src/benchmark/tests/test_it.py", "src/benchmark/tests"),
        ("tests/app/tests/test_it.py", "tests"),
        ("src/benchmark/benchmarks/test_it.py", "src/benchmark/benchmarks"),
        ("benchmarks/parse/test_it.py", "benchmarks"),
        ("src/package/test_it.py", None),
        ("tests.py", None),
    ],
)
def test_the_folder_of_tests(file, folder):
    """A test's helpers and data are in the outermost folder `tests`, or else in the innermost one called `benchmarks`."""
    top = Path("/home/tests/repository")

    assert trees.folder_of_tests(top / file, top) == (folder and top / folder)
    assert trees.folder_of_tests(Path("/elsewhere/tests/test_it.py"), top) is None


def double(_):
    """Stand for a function that another module has imported."""


@pytest.mark.parametrize(
    ("folder", "changed", "beside", "refused"),
    [
        ("src/benchmark", True, None, True),  # a package, compared with itself
        ("src/benchmark", False, None, False),
        ("src/benchmark", True, {}, False),  # helpers of benchmarks of other code
        ("src/benchmark", True, {"double": double}, True),
        ("src/benchmark", True, {"engine": types.ModuleType("engine")}, True),
        ("tests", True, None, False),  # helpers of tests that run programs
        ("tests", True, {"double": 7}, False),
        ("tests", True, {"double": double}, True),
    ],
)
def test_code_in_the_folder_of_tests(tmp_path, monkeypatch, folder, changed, beside, refused):
    """Code that was taken over as a folder of tests is refused; a changed helper, and this tree's own process, are not."""
    monkeypatch.setattr(double, "__module__", "engine")
    for place, wrong in ((trees.SCRATCH + "x", refused), ("mine", False)):
        top = tmp_path / place / "tree"
        engine, test, other = (top / folder / "engine.py", top / folder / "test_it.py", top / "src/other.py")
        for file in (engine, test, other):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("old")
        git("init", "--quiet", ".", where=top)
        git("add", ".", where=top)
        git("commit", "--quiet", "-m", "one", where=top)
        for file in (test, *[engine] * changed):
            file.write_text("new")
        monkeypatch.setitem(sys.modules, "engine", types.SimpleNamespace(__file__=str(engine)))
        monkeypatch.setitem(sys.modules, "test_it", types.SimpleNamespace(__file__=str(test)))
        if beside is not None:
            monkeypatch.setitem(sys.modules, "other", types.SimpleNamespace(__file__=str(other), **beside))

        expected = pytest.raises(UsageError, match=f"{folder} is taken for a folder of tests")
        with expected if wrong else contextlib.nullcontext():
            trees.refuse_taken_code(test)


ENDING = EXTENSION_SUFFIXES[0]


@pytest.mark.parametrize(
    ("file", "there", "found"),
    [
        (f"package/_fast{ENDING}", "", True),
        (f"package/_fast{ENDING}", f"package/_fast{ENDING}", False),  # the test has built both
        (f"package/_kept{ENDING}", "", False),  # a change of the revisions themselves
        ("package/_version.py", "", False),
        (f"build/package/_fast{ENDING}", "", True),  # a build of it that an import hook finds
        (f"vendor/library/_fast{ENDING}", "", False),  # the same for both
        (f".venv/lib/site-packages/_fast{ENDING}", "", False),
    ],
)
def test_compiled_code_of_one_tree_only(tmp_path, monkeypatch, file, there, found):
    """A build in place is found in this tree's own process: the other tree lacks it, and may run a fallback."""
    here, other = tmp_path / "here", tmp_path / "other"
    for one in (here / file, here / "package/__init__.py", other / (there or "package/__init__.py")):
        one.parent.mkdir(parents=True, exist_ok=True)
        one.touch()
    (here / ".gitignore").write_text("_fast*\n_version.py\n.venv\nbuild\nvendor\n")
    git("init", "--quiet", ".", where=here)
    git("add", ".", where=here)
    name = ".".join(Path(file).parts[-2:]).partition(".cpython")[0]
    monkeypatch.setitem(sys.modules, name, types.SimpleNamespace(__file__=str(here / file)))

    assert bool(trees.unbuilt(here, other)) == found
    with pytest.raises(UsageError, match="is built in this tree only") if found else contextlib.nullcontext():
        trees.refuse_wrong_code(f"3,4,{other}", here)
