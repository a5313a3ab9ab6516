"""The house rules that can be checked: layers, exports, docstrings, sizes, printing, versions, documents."""

import ast
import calendar
import importlib
import importlib.metadata
import pkgutil
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import check_language
import check_layers
import pytest
import startup_archive

import headway
from headway.cli.main import _COMMANDS
from headway.lab.beside.environments import LIBRARIES

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "headway"
AGENT = PACKAGE / "agent" / "headway_agent"
MODULES = [
    info.name
    for info in pkgutil.walk_packages([str(PACKAGE)], "headway.")
    if "headway_agent" not in info.name and info.name != "headway.__main__"
]


def test_imports_run_one_way():
    """The table of allowed imports holds."""
    assert check_layers.violations() == []


@pytest.mark.parametrize(
    ("part", "line"),
    [
        ("lab/x.py", "from headway.cli import main"),
        ("lab/x.py", "def f():\n    import headway.report.lab.tables"),
        ("report/x.py", "from headway.lab import launching"),
        ("lab/judging/x.py", "from headway.lab.launching.agenda import Agenda"),
        ("lab/plan.py", "from headway.lab.kept.store import Store"),
        ("lab/launching/x.py", "from headway.sim import machine"),
        ("sim/x.py", "from headway.lab import plan"),
        ("host/x.py", "from headway.lab import plan"),
        ("report/x.py", "from headway.lab.launching.runner import run"),
        ("agent/x.py", "import headway"),
        ("unknown/x.py", "pass"),
    ],
)
def test_imports_against_the_table_are_found(tmp_path, monkeypatch, part, line):
    """The check finds an import in the wrong direction, also inside a function."""
    path = tmp_path / part
    path.parent.mkdir(parents=True)
    path.write_text(line + "\n")
    monkeypatch.setattr(check_layers, "ROOT", tmp_path)

    assert len(check_layers.violations(tmp_path)) == 1


def test_includes_run_one_way():
    """The tables of allowed includes of native/ hold."""
    assert check_layers.native_violations() == []


@pytest.fixture
def native(tmp_path):
    """Return a function that writes a file into a small native/ folder with correct includes."""

    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
        return tmp_path

    write("include/headway/clock.h", "#include <stdint.h>")
    write("include/headway/loud.h", "#include <pthread.h>")
    write("base/say.h", "#include <time.h>")
    write("gil/gil.h", '#include <pthread.h>\n#include "base/say.h"')
    write("trace/events.h", '#include "gil/gil.h"')
    write("schedule/ledger.h", '#include <stdint.h>\n#include "headway/clock.h"')
    write("engine/sched.h", '#include "gil/gil.h"\n#include "schedule/ledger.h"')
    return write


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("gil/x.c", '#include "trace/events.h"'),
        ("gil/x.c", '# include  "engine/sched.h" /* why */'),
        ("engine/x.c", '#include "trace/events.h"'),
        ("trace/x.c", '#include "schedule/ledger.h"'),
        ("include/headway/x.h", '#include "base/say.h"'),
        ("schedule/x.c", "#include <time.h>"),
        ("schedule/x.c", '#include "headway/loud.h"'),
        ("policy/x.c", '#include "schedule/ledger.h"'),
        ("sim/x.c", '#include "schedule/ledger.h"\n#include "schedule/missing.h"'),
        ("unknown/x.c", "int x;"),
    ],
)
def test_includes_against_the_tables_are_found(native, name, line):
    """The check finds an include in the wrong direction, of a folder or a system header, also through a header."""
    assert len(check_layers.native_violations(native(name, line))) == 1


def test_an_include_through_a_header_is_told_at_its_line(native):
    """A wrong include is reported at the line where the file itself includes the header that leads there."""
    native("base/low.h", '#include "gil/gil.h"')
    root = native("elf/x.c", '#include <stdint.h>\n#include "base/low.h"')

    found = check_layers.native_violations(root)

    assert found == [
        f"{root}/base/low.h:1: `base` may not include gil/gil.h",
        f"{root}/elf/x.c:2: `elf` may not include gil/gil.h",
    ]


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("tests/x.c", '#include "trace/events.h"\n#include "nowhere.h"'),
        ("sim/x.c", '#include <math.h>\n#include "schedule/ledger.h"'),
        ("module/x.c", '#include "engine/sched.h"\n#include "trace/events.h"'),
        ("gil/x.c", '// #include "trace/events.h"'),
    ],
)
def test_includes_that_the_tables_allow(native, name, line):
    """Tests may include anything, the top may include both sides, and a comment is no include."""
    assert check_layers.native_violations(native(name, line)) == []


@pytest.mark.parametrize("name", MODULES)
def test_every_module_lists_its_exports(name):
    """`__all__` is sorted and every name in it exists."""
    module = importlib.import_module(name)

    assert sorted(module.__all__, key=lambda n: (not n.isupper(), not n[0].isupper(), n)) == module.__all__
    assert all(hasattr(module, exported) for exported in module.__all__)


def sources():
    return [path for folder in ("src", "tools", "bench", "tests") for path in (ROOT / folder).rglob("*.py")]


def test_modules_stay_small():
    """No module is over 800 lines, and one over 500 says in its docstring why it is one file."""
    for path in sources():
        lines = path.read_text().count("\n")
        assert lines <= 800, path
        if lines > 500:
            assert "one file" in (ast.get_docstring(ast.parse(path.read_text())) or "").lower(), path


def test_the_hooks_of_the_engine_stay_on_a_few_screens():
    """engine.c has fewer than 300 lines: every hook under a policy is there, and is read as a whole."""
    assert (ROOT / "native/engine/engine.c").read_text().count("\n") < 300


def test_only_the_command_line_prints():
    """`print` is used in cli/ and nowhere else in the package."""
    printing = set()
    for path in PACKAGE.rglob("*.py"):
        if "print" in (text := path.read_text()):  # only then is it worth a parse
            calls = [node.func for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
            if any(isinstance(called, ast.Name) and called.id == "print" for called in calls):
                printing.add(path)

    assert printing
    assert [path for path in printing if not path.is_relative_to(PACKAGE / "cli")] == []


def test_tests_state_their_fact():
    """Every test has a docstring."""
    for path in (ROOT / "tests").rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                assert ast.get_docstring(node), f"{path}: {node.name}"


def test_the_agent_imports_the_standard_library_only():
    """The agent never imports headway, and imports libraries only in a workload's functions, where the lab has them."""
    standard = sys.stdlib_module_names | {"_interpreters", "_xxsubinterpreters"}
    installed = set(LIBRARIES) | {"caio"}
    for path in AGENT.rglob("*.py"):
        tree = ast.parse(path.read_text())
        at_import = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
        for node in ast.walk(tree):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module]
            for name in names:
                top = name.split(".")[0]
                lazily = path.parent.name == "workloads" and node not in at_import
                assert top in standard or (lazily and top in installed), f"{path}: {name}"


def test_the_startup_archive_is_what_its_source_makes():
    """The archive agent/startup.zip matches agent/startup."""
    assert startup_archive.ARCHIVE.read_bytes() == startup_archive.made()


def test_the_version_is_said_once():
    """pyproject.toml takes the version from the package, and the installed metadata has it."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]

    assert "version" not in project
    assert "version" in project["dynamic"]
    assert importlib.metadata.version("headway") == headway.__version__


def test_the_abi_version_is_the_same_on_both_sides():
    """The header, the package and the agent name one ABI version, which Python code has in one place."""
    header = (ROOT / "native/include/headway/version.h").read_text()
    version = int(re.search(r"#define HW_ABI_VERSION (\d+)", header).group(1))
    said = [
        path.name for path in PACKAGE.rglob("*.py") if re.search(r"^ABI_VERSION = ", path.read_text(), re.MULTILINE)
    ]

    assert said == ["library.py"]
    assert version == importlib.import_module("headway.native").ABI_VERSION


def test_the_agents_kernels_are_the_experiments():
    """The kernels that the experiment tabulates are those that the agent runs."""
    from headway.lab.experiments.speed import KERNELS

    tree = ast.parse((AGENT / "workloads" / "kernels.py").read_text())
    assigned = next(n for n in tree.body if isinstance(n, ast.Assign) and n.targets[0].id == "KERNELS")  # type: ignore[attr-defined]
    assert tuple(element.id for element in assigned.value.elts) == KERNELS  # type: ignore[attr-defined]


def test_readme_commands_are_make_targets():
    """Every `make X` in README and docs is a target of the Makefile."""
    makefile = (ROOT / "Makefile").read_text()
    for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"(?:`|^ {4})make ([a-z-]+)", path.read_text(), re.MULTILINE):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"{path}: make {target}"


def test_documented_commands_exist():
    """Every `headway X` in code spans of README and docs is a command."""
    for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for command in re.findall(r"`(?:\.venv/bin/)?headway ([a-z]+)", path.read_text()):
            assert command in _COMMANDS, f"{path}: headway {command}"


def test_pages_with_figures_say_when_they_were_measured():
    """The README, and each page of docs with several figures, names a month or a day; a name of a file with a day does not."""
    figure = re.compile(r"\b\d[\d,.]*(?:-\d[\d.]*)? ?(?:%|ms|us|ns|s|MB|times)\b|\[\d[\d.]*[-,]")
    months = "|".join(calendar.month_name[1:])
    date = re.compile(rf"(?<![\w-])(?:20[2-9]\d-[01]\d-[0-3]\d|(?:{months}) 20[2-9]\d)(?![\w-])")
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    with_figures = {
        str(page.relative_to(ROOT)): page.read_text() for page in pages if len(figure.findall(page.read_text())) >= 5
    }

    assert [page for page, text in with_figures.items() if not date.search(text)] == []
    assert len(with_figures) > 20
    assert not any(
        date.search(text) for text in ("2000 bytes", "dask-20261126T090705.hwt", "a-2026-11-26.hwt", "2026.8.0")
    )


def test_make_help_lists_every_target():
    """No .PHONY target is missing from `make help`."""
    targets = re.findall(r"^\.PHONY: (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    shown = subprocess.run(["make", "-s", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout

    assert {line.split()[0] for line in shown.splitlines()} == set(targets)


def test_no_registry_host_is_named():
    """No committed file names the host of a package registry."""
    files = check_language.listed([])
    hosts = re.compile(
        "|".join(["pypi" + r"\.org", "pythonhosted" + r"\.org", "debian" + r"\.org/debian", "npmjs" + r"\.org"])
    )
    assert len(files) > 500
    for name in files:
        path = ROOT / name
        if path.is_file():
            assert not hosts.search(path.read_text(errors="replace")), name
