"""Imports run one way: holds the tables of parts, of the lab's rooms, and of native/ against the code.

Imports inside functions count too, and what a C file includes through its headers. Exits 1 and names each import or
include that goes the wrong way.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent / "src" / "headway"
NATIVE = ROOT.parent.parent / "native"

# Part -> the parts it may import besides itself. `__init__` is headway/__init__.py: the version and lazy re-exports.
ALLOWED: dict[str, set[str]] = {
    "__init__": {"advice", "lab", "live", "measure"},
    "__main__": {"cli"},
    "cli": {
        "advice",
        "dask",
        "lab",
        "host",
        "live",
        "provision",
        "report",
        "sim",
        "traces",
        "native",
        "errors",
        "printable",
        "__init__",
    },
    "advice": {"measure", "report", "lab", "host", "sim", "agent", "native", "errors", "printable", "__init__"},
    "dask": {"lab", "host", "live", "errors", "__init__"},
    "pytest_plugin": {
        "pytest_options",
        "pytest_stalls",
        "measure",
        "report",
        "lab",
        "host",
        "errors",
        "printable",
        "__init__",
    },
    "pytest_stalls": {"live", "traces", "errors", "printable"},
    "pytest_options": {"measure", "report", "errors"},
    "report": {"lab", "host", "measure", "traces", "errors", "printable"},
    "measure": {"lab", "host", "live", "agent", "errors", "printable"},
    "lab": {"sim", "host", "agent", "native", "errors", "printable", "__init__"},
    "host": {"errors", "printable"},
    "provision": {"host", "errors"},
    "live": {"traces", "agent", "native", "errors", "printable", "__init__"},
    "traces": {"errors", "printable"},
    "sim": {"traces", "host", "native", "native_sim", "errors", "printable"},
    "native_sim": {"native", "errors"},
    "native": {"agent", "errors"},
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
    "predicting": {"kept"},
    "launching": {"beside", "experiments", "judging", "kept", "predicting"},
}

# Part -> the only room of the lab that may import it: what is measured knows nothing of what is predicted.
ONLY_ROOM = {"sim": "predicting"}

# Folder of native/ -> the folders that it may include besides itself, directly or through headers. "include" is the
# public headers, `headway/...`. A header of gil/ may declare what trace/ or engine/ define: a call may go up, an
# include may not. Tests may include anything.
ALLOWED_C: dict[str, set[str]] = {
    "include": set(),
    "base": {"include"},
    "elf": {"base", "include"},
    "gil": {"elf", "base", "include"},
    "trace": {"gil", "elf", "base", "include"},
    "policy": {"include"},
    "schedule": {"policy", "include"},
    "engine": {"schedule", "policy", "gil", "elf", "base", "include"},
    "sim": {"schedule", "policy", "base", "include"},
    "calibrate": {"limits", "base", "include"},
    "module": {"trace", "engine", "schedule", "policy", "sim", "gil", "elf", "base", "include"},
    "limits": {"base", "include"},
    "load": {"base", "include"},
    "launcher": set(),
}

# Folder -> the only system headers that it may include, directly or through headers. These folders are plain state
# and functions of it and of the time they are told: no clock, lock or system call. policies.c loads a user's policy.
SYSTEM_C: dict[str, set[str]] = {
    "schedule": {"assert.h", "stdbool.h", "stddef.h", "stdint.h", "string.h"},
    "policy": {"dlfcn.h", "stdbool.h", "stddef.h", "stdint.h", "stdio.h", "string.h"},
}

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+(?:"(?P<ours>[^"]+)"|<(?P<system>[^>]+)>)', re.MULTILINE)


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
    if parts[0] != "lab":
        return False
    room = parts[1] if len(parts) > 2 else ""
    if target[0] in ONLY_ROOM:
        return room != ONLY_ROOM[target[0]]
    if path == Path("lab/__init__.py") or len(target) < 2 or target[0] != "lab":
        return False
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


def _included(root: Path, path: Path) -> Iterator[tuple[int, str, Path | None]]:
    """Yield (line, name, path) of every include; the path of a system header, or of none that there is, is None."""
    text = path.read_text(encoding="utf-8")
    for match in _INCLUDE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        name = match["ours"] or f"<{match['system']}>"
        candidates = [root / name, root / "include" / name, path.parent / name] if match["ours"] else []
        yield line, name, next((one for one in candidates if one.is_file()), None)


def _reached(root: Path, path: Path) -> Iterator[tuple[int, str, Path | None]]:
    """Yield what a file includes, directly or through headers, with the line of its own include that leads there."""
    seen = {path}
    waiting = list(_included(root, path))
    while waiting:
        line, name, target = waiting.pop(0)
        yield line, name, target
        if target is not None and target not in seen:
            seen.add(target)
            waiting += [(line, further, its) for _, further, its in _included(root, target)]


def native_violations(root: Path = NATIVE) -> list[str]:
    """Return a line for each include that the tables do not allow."""
    found = []
    for path in sorted([*root.rglob("*.h"), *root.rglob("*.c")]):
        folder = path.relative_to(root).parts[0]
        if folder == "tests":
            continue
        if folder not in ALLOWED_C:
            found.append(f"{path}: the folder `{folder}` is not in the table of tools/check_layers.py")
            continue
        wrong: dict[int, str] = {}  # the first thing that each include of the file leads to
        for line, name, target in _reached(root, path):
            if name.startswith("<"):
                if folder in SYSTEM_C and name.strip("<>") not in SYSTEM_C[folder]:
                    wrong.setdefault(line, name)
            elif target is None:
                wrong.setdefault(line, f"{name}, which is not there")
            elif target.relative_to(root).parts[0] not in {folder, *ALLOWED_C[folder]}:
                wrong.setdefault(line, name)
        found += [f"{path}:{line}: `{folder}` may not include {name}" for line, name in wrong.items()]
    return found


if __name__ == "__main__":
    problems = violations() + native_violations()
    print("\n".join(problems) or "imports run one way")
    sys.exit(bool(problems))
