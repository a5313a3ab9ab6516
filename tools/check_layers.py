"""Check the directions of imports and includes: between parts, between the lab's rooms, and between folders of native/.

The tables below say what may import what. Imports inside functions count, too, and so do includes that a C file reaches
through its headers. The program names each import or include that goes the wrong way, and exits with 1 if there is one.
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
        "library",
        "native",
        "errors",
        "printable",
        "__init__",
    },
    "advice": {
        "measure",
        "report",
        "lab",
        "host",
        "sim",
        "agent",
        "library",
        "native",
        "arguments",
        "errors",
        "printable",
        "__init__",
    },
    "dask": {"lab", "host", "live", "errors", "__init__"},
    "pytest_entry": set(),
    "pytest_plugin": {
        "pytest_options",
        "pytest_session",
        "pytest_stalls",
        "pytest_table",
        "measure",
        "report",
        "lab",
        "host",
        "errors",
        "printable",
        "__init__",
    },
    "pytest_session": {"pytest_options", "measure", "report", "host", "errors", "__init__"},
    "pytest_stalls": {"live", "traces", "errors", "printable"},
    "pytest_table": {"report"},
    "pytest_options": {"measure", "report", "errors"},
    "report": {"lab", "host", "measure", "traces", "errors", "printable", "first_use"},
    "measure": {"lab", "host", "live", "agent", "errors", "printable"},
    "lab": {"sim", "host", "agent", "library", "native", "arguments", "errors", "printable", "first_use", "__init__"},
    "host": {"library", "errors", "printable"},
    "provision": {"host", "errors"},
    "live": {"traces", "host", "agent", "library", "native", "arguments", "errors", "printable", "__init__"},
    "traces": {"errors", "printable", "first_use"},
    "sim": {"traces", "host", "native", "native_sim", "errors", "printable"},
    "native_sim": {"library", "native", "errors"},
    "native": {"library", "agent", "errors"},
    "library": {"agent", "errors"},
    "agent": set(),
    "arguments": {"errors"},
    "errors": set(),
    "printable": set(),
    "first_use": set(),
}

# Part -> modules that it may not import, although it may import the part that they belong to.
FORBIDDEN: dict[str, set[str]] = {"report": {"lab.launching", "lab.beside"}}

# Room of the lab -> the rooms that it may import besides itself. Any room may import modules that are in no room.
ROOMS: dict[str, set[str]] = {
    "experiments": set(),
    "kept": {"experiments"},
    "judging": {"kept"},
    "beside": set(),
    "predicting": {"kept"},
    "launching": {"beside", "experiments", "judging", "kept", "predicting"},
}

# Part -> the only room of the lab that may import it: the code that measures must not depend on the code that predicts.
ONLY_ROOM = {"sim": "predicting"}

# Folder of native/ -> the folders that it may include besides itself, directly or through headers. "include" stands for
# the public headers, `headway/...`. A header of gil/ may declare functions that trace/ or engine/ define: calls may go
# up, includes may not. Tests may include anything.
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

# Folder -> the only system headers that it may include, directly or through headers. The code of these folders depends
# on its own state and on the time that its callers pass: it uses no clock, lock or system call. The exception is
# policies.c, which loads a user's policy.
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
    """Yield (line, dotted name below headway) of every import of this project; "" is headway itself."""
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
    """Return whether a module of the lab imports a room that the module's own room, or a module in no room, may not."""
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
    """Yield (line, name, path) of every include; path is None for a system header and for a file that is not there."""
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
        wrong: dict[int, str] = {}  # line of an include -> the first forbidden file that it leads to
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
