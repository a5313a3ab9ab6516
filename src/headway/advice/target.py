"""The user's function, as he names it, and where its inputs come from. Nothing of his is imported in our process."""

import ast
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

from headway.errors import UsageError

__all__ = ["MOST_INPUTS", "Target", "parse_target", "with_inputs", "with_json", "with_pickled"]

MOST_INPUTS = 256
"""So many are taken of a generator, which may have no end."""

_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_HINT = "write module:function, or file.py:function"


@final
@dataclass(frozen=True)
class Target:
    """A function of the user's.

    Attributes:
        words: As he named it.
        module: What it is imported by.
        name: Its name in the module, with dots for a class's.
        folder: What must be on the import path for it.
        cwd: The folder that it runs in: the user's own.
        inputs: As the agent's `strangers.target` describes them.
        also: Further folders for the import path: the user's PYTHONPATH, the inputs' module.
    """

    words: str
    module: str
    name: str
    folder: Path
    cwd: Path
    inputs: Mapping[str, Any]
    also: tuple[str, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        """What is put before the interpreter's own import path."""
        return tuple(dict.fromkeys((str(self.folder), *self.also)))

    def job(self) -> dict[str, Any]:
        """Return it as a job's `target`."""
        return {"module": self.module, "name": self.name, "cwd": str(self.cwd), "inputs": dict(self.inputs)}


def _functions(file: Path) -> list[str]:
    """Return the public functions at a file's top. Raises UsageError."""
    try:
        tree = ast.parse(file.read_bytes(), str(file))
    except (OSError, SyntaxError, ValueError) as error:
        raise UsageError(f"{file} cannot be read as Python: {error}", hint=_HINT) from error
    found = [one.name for one in tree.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
    return [name for name in found if not name.startswith("_")]


def _only_function(file: Path) -> str:
    names = _functions(file)
    if len(names) == 1:
        return names[0]
    if not names:
        raise UsageError(f"{file} defines no function", hint="name a file with a function, such as file.py:function")
    shown = ", ".join(names[:6]) + ("..." if len(names) > 6 else "")
    raise UsageError(f"{file} has {len(names)} functions: {shown}", hint=f"name one of them: {file}:{names[0]}")


def _module_of(file: Path) -> tuple[str, Path]:
    """Return what a file is imported by, and the folder that must be on the import path for it."""
    parts, folder = [file.stem], file.parent
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts), folder


def parse_target(text: str, *, cwd: Path | None = None) -> Target:
    """Return what `module:function`, `file.py:function` or `file.py` names.

    Raises:
        UsageError: It is none of these, or the file is not there.
    """
    cwd = cwd or Path.cwd()
    place, colon, name = text.rpartition(":")
    if not colon:
        place, name = text, ""
    if place.endswith(".py") or "/" in place:
        file = (cwd / place).resolve()
        if not file.is_file():
            raise UsageError(f"there is no file {place}", hint=_HINT)
        if "." in file.stem:
            raise UsageError(f"{file.name} cannot be imported: its name has a dot in it", hint="rename the file")
        module, folder = _module_of(file)
        name = name or _only_function(file)
    else:
        if not colon or not place:
            raise UsageError(f"`{text}` names no function", hint=_HINT)
        module, folder = place, cwd
        if not _NAME.fullmatch(module):
            raise UsageError(f"`{module}` is not the name of a module", hint=_HINT)
    if not _NAME.fullmatch(name):
        raise UsageError(f"`{name}` is not the name of a function", hint=_HINT)
    own = [str(cwd / one) for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one]
    return Target(text if colon else f"{text}:{name}", module, name, folder, cwd, {"kind": "none"}, tuple(own))


def with_inputs(target: Target, text: str) -> Target:
    """Return the target with inputs that a module has: `module:name`, `file.py:name`, or `:name` of its own module.

    Raises:
        UsageError: It names nothing.
    """
    if text.startswith(":"):
        named = replace(target, name=text[1:])
        if not _NAME.fullmatch(named.name):
            raise UsageError(f"`{text}` names no inputs", hint="write module:name, as in app:examples")
    else:
        if ":" not in text:
            raise UsageError(f"`{text}` names no inputs", hint="write module:name, as in app:examples")
        named = parse_target(text, cwd=target.cwd)
    inputs = {"kind": "named", "module": named.module, "name": named.name, "most": MOST_INPUTS}
    return replace(target, inputs=inputs, also=(*target.also, str(named.folder)))


def with_json(target: Target, text: str) -> Target:
    """Return the target with one call's arguments: a JSON list, or an object of them by name. Raises UsageError."""
    hint = """write a list, as --args '[1, "two"]', or an object, as --args '{"size": 3}'"""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise UsageError(f"the arguments {text!r} are not JSON: {error}", hint=hint) from error
    if not isinstance(value, list | dict):
        raise UsageError(f"the arguments are {text}, expected a list or an object", hint=hint)
    return replace(target, inputs={"kind": "json", "value": value})


def with_pickled(target: Target, path: Path) -> Target:
    """Return the target with calls from a file of pickles, each (args, kwargs)."""
    return replace(target, inputs={"kind": "pickled", "path": str(path), "most": MOST_INPUTS})
