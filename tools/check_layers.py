"""Imports run one way: holds the tables of parts, and of the lab's rooms, against the code.

Imports inside functions count too. Exits 1 and names each import that goes the wrong way.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent / "src" / "headway"

# Part -> the parts it may import besides itself. `__init__` is headway/__init__.py: the version and lazy re-exports.
ALLOWED: dict[str, set[str]] = {
    "__init__": {"lab", "live", "measure"},
    "__main__": {"cli"},
    "cli": {"lab", "host", "live", "report", "sim", "traces", "native", "errors", "printable", "__init__"},
    "pytest_plugin": {"pytest_options", "measure", "report", "lab", "host", "errors", "printable", "__init__"},
    "pytest_options": {"measure", "report", "errors"},
    "report": {"lab", "host", "measure", "traces", "errors", "printable"},
    "measure": {"lab", "host", "live", "agent", "errors", "printable"},
    "lab": {"host", "agent", "native", "errors", "printable", "__init__"},
    "host": {"errors", "printable"},
    "live": {"traces", "agent", "native", "errors", "printable", "__init__"},
    "traces": {"errors", "printable"},
    "sim": {"traces", "host", "native", "native_sim", "errors", "printable"},
    "native_sim": {"native", "errors"},
    "native": {"errors"},
    "agent": set(),
    "errors": set(),
    "printable": set(),
}

# What a part may not import although it may import the part that it belongs to.
FORBIDDEN: dict[str, set[str]] = {"report": {"lab.launching", "lab.beside"}}

# Room of the lab -> the rooms that it may import besides itself; modules of the lab that are in no room, any may import.
ROOMS: dict[str, set[str]] = {
    "experiments": set(),
    "kept": {"experiments"},
    "judging": {"kept"},
    "beside": set(),
    "launching": {"beside", "experiments", "judging", "kept"},
}


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


def _is_wrong_room(path: Path, name: str) -> bool:
    """Whether a module in a room of the lab, or of the lab in no room, imports a room that it may not."""
    parts, target = path.parts, name.split(".")
    if parts[0] != "lab" or path == Path("lab/__init__.py") or len(target) < 2 or target[0] != "lab":
        return False
    room = parts[1] if len(parts) > 2 else ""
    return target[1] in ROOMS and target[1] != room and target[1] not in ROOMS.get(room, set())


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
            wrong = wrong or _is_wrong_room(path.relative_to(root), name)
            wrong = wrong or any(name == one or name.startswith(f"{one}.") for one in FORBIDDEN.get(part, ()))
            if wrong:
                found.append(f"{path}:{line}: `{part}` may not import headway.{name}")
    return found


if __name__ == "__main__":
    problems = violations()
    print("\n".join(problems) or "imports run one way")
    sys.exit(bool(problems))
