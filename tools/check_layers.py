"""Imports run one way: holds the table of ../shared/design/architecture.md against the code.

Imports inside functions count too. Exits 1 and names each import that goes the wrong way.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent / "src" / "headway"

# Part -> the parts it may import besides itself. `__init__` is headway/__init__.py: the version and lazy re-exports.
ALLOWED: dict[str, set[str]] = {
    "__init__": {"lab", "live"},
    "__main__": {"cli"},
    "cli": {"lab", "live", "report", "traces", "native", "errors", "printable", "__init__"},
    "pytest_plugin": {"measure", "report", "lab", "errors", "printable", "__init__"},
    "report": {"lab", "measure", "traces", "errors", "printable"},
    "measure": {"lab", "live", "agent", "errors", "printable"},
    "lab": {"agent", "native", "errors", "printable", "__init__"},
    "live": {"traces", "agent", "native", "errors", "printable", "__init__"},
    "traces": {"errors", "printable"},
    "native": {"errors"},
    "agent": set(),
    "errors": set(),
    "printable": set(),
}

# Single modules that a part may not import although it may import their part.
FORBIDDEN: dict[str, set[str]] = {"report": {"lab.runner", "lab.launch"}}


def part_of(path: Path) -> str:
    """Return the part a file belongs to: its folder or module name below headway."""
    first = path.relative_to(ROOT).parts[0]
    return first.removesuffix(".py")


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line, dotted name below headway) of every import of ours; "" is headway itself."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            if name == "headway" or name.startswith("headway."):
                yield node.lineno, name.removeprefix("headway").removeprefix(".")


def violations(root: Path = ROOT) -> list[str]:
    """Return a line for each import that the table does not allow."""
    found = []
    for path in sorted(root.rglob("*.py")):
        part = part_of(path)
        if part not in ALLOWED:
            found.append(f"{path}: the part `{part}` is not in the table of tools/check_layers.py")
            continue
        for line, name in imports(path):
            target = name.split(".")[0]
            target = target if target in ALLOWED else "__init__"
            wrong = target != part and target not in ALLOWED[part]
            wrong = wrong or any(name == one or name.startswith(f"{one}.") for one in FORBIDDEN.get(part, ()))
            if wrong:
                found.append(f"{path}:{line}: `{part}` may not import headway.{name}")
    return found


if __name__ == "__main__":
    problems = violations()
    print("\n".join(problems) or "imports run one way")
    sys.exit(bool(problems))
