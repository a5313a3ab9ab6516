"""Finds the user's function by the name given, and its inputs. Nothing of the user's is imported in our process."""

import ast
import difflib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

from headway.errors import UsageError
from headway.host.packages import in_packages

__all__ = [
    "DEFINED_NAMES",
    "FAILED",
    "MOST_INPUTS",
    "Target",
    "check_names",
    "parse_target",
    "with_inputs",
    "with_json",
    "with_pickled",
]

MOST_INPUTS = 256
"""The most inputs that are taken from a generator, which may be endless."""

_MOST_LEVELS = 100

_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_HINT = "write module:function, or file.py:function"


FAILED: Mapping[str, str] = {
    "import": "its module cannot be imported",
    "function": "there is no such function",
    "inputs": "its inputs cannot be created",
    "call": "the function raises",
}
"""The words for each stage of the first process in which the user's code may fail."""

DEFINED_NAMES = "use names that the module defines"
"""The remedy for a wrong name of the function or of its inputs."""


@final
@dataclass(frozen=True)
class Target:
    """A function of the user's.

    Attributes:
        words: The name that the user gave.
        module: The name by which its module is imported.
        name: Its name in the module; with dots for a function in a class.
        folder: The folder that must be on the import path for it.
        cwd: The folder in which it runs: the user's own.
        inputs: Its inputs, in the form of the agent's `strangers.target`.
        also: Further folders for the import path: the user's PYTHONPATH, and those of the inputs.
        there: Those of them that are on the user's own import path: the folders of PYTHONPATH.
    """

    words: str
    module: str
    name: str
    folder: Path
    cwd: Path
    inputs: Mapping[str, Any]
    also: tuple[str, ...] = ()
    there: tuple[str, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        """The folders that are put before the interpreter's own import path."""
        return tuple(dict.fromkeys((str(self.folder), *self.also)))

    @property
    def unreached(self) -> tuple[str, ...]:
        """The folders of `paths` from which a program that the user starts here does not import; relative ones where possible."""
        reached = {self.cwd.resolve(), *(Path(one).resolve() for one in self.there)}
        folders = (Path(one) for one in self.paths)
        found = [one for one in folders if one.resolve() not in reached and not in_packages(one)]
        return tuple(str(one.relative_to(self.cwd) if one.is_relative_to(self.cwd) else one) for one in found)

    def job(self) -> dict[str, Any]:
        """Return the function as the `target` of a job for the agent."""
        return {"module": self.module, "name": self.name, "cwd": str(self.cwd), "inputs": dict(self.inputs)}


def _functions(file: Path) -> list[str]:
    """Return the public functions at the top level of a file. Raises UsageError."""
    try:
        tree = ast.parse(file.read_bytes(), str(file))
    except (OSError, SyntaxError, ValueError) as error:
        raise UsageError(f"{file} cannot be read as Python: {error}", hint=_HINT) from error
    found = [one.name for one in tree.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
    return [name for name in found if not name.startswith("_")]


_DYNAMIC = re.compile(
    r"\bimport\s*\*|\b(__getattr__|__dict__|globals|vars|locals|setattr|exec|_convert_)\b|\bsys\.modules\b"
)
"""Ways in which a module may have names that do not stand in its source."""


def check_names(target: Target) -> None:
    """Check that the sources have the names of the function and of its inputs, without running any code.

    A name counts as wrong if it is nowhere in the module's source, and the module makes no names in other ways.

    Raises:
        UsageError: A name is wrong.
    """
    inputs = target.inputs
    wrong = [("function", _missing(target.module, target.name, target.paths))]
    if inputs["kind"] == "named":
        wrong.append(("inputs", _missing(inputs["module"], inputs["name"], target.paths)))
    for stage, problem in wrong:
        if problem:
            raise UsageError(f"{target.words}: {FAILED[stage]}: {problem}", hint=DEFINED_NAMES)


def _missing(module: str, name: str, paths: Sequence[str]) -> str:
    """Return that a module has no such name, with the nearest one that it has; "" if it has the name, or may have it."""
    first = name.partition(".")[0]
    stem = Path(*module.split("."))
    files = (Path(path, one) for path in paths for one in (stem / "__init__.py", stem.with_suffix(".py")))
    file = next((one for one in files if one.is_file()), None)
    if file is None or (file.name == "__init__.py" and any(file.parent.glob(f"{first}*"))):
        return ""
    try:
        text = file.read_text(encoding="utf-8")
        if re.search(rf"\b{first}\b", text) or _DYNAMIC.search(text):
            return ""
        near = difflib.get_close_matches(first, _functions(file), n=1)
    except (OSError, ValueError, UsageError):
        return ""  # the import will tell
    return f"{module} has no {first}" + (f"; did you mean {near[0]}?" if near else "")


def _only_function(file: Path) -> str:
    names = _functions(file)
    if len(names) == 1:
        return names[0]
    if not names:
        raise UsageError(f"{file} defines no function", hint="name a file with a function, such as file.py:function")
    shown = ", ".join(names[:6]) + ("..." if len(names) > 6 else "")
    raise UsageError(f"{file} has {len(names)} functions: {shown}", hint=f"name one of them: {file}:{names[0]}")


def _module_of(file: Path) -> tuple[str, Path]:
    """Return the name by which a file is imported, and the folder that must be on the import path for it."""
    parts, folder = [file.stem], file.parent
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts), folder


def parse_target(text: str, *, cwd: Path | None = None) -> Target:
    """Return the target that `module:function`, `file.py:function` or `file.py` names.

    Raises:
        UsageError: The text has none of these forms, or the file does not exist.
    """
    cwd = cwd or Path.cwd()
    place, colon, name = text.rpartition(":")
    if not colon:
        place, name = text, ""
    if place.endswith(".py") or "/" in place:
        file = Path(os.path.realpath(cwd / place))  # Path.resolve() fails on a link that loops
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
    return Target(
        text if colon else f"{text}:{name}", module, name, folder, cwd, {"kind": "none"}, tuple(own), tuple(own)
    )


def with_inputs(target: Target, text: str) -> Target:
    """Return the target with inputs of a module: `module:name`, `file.py:name`, or `:name` of the target's own module.

    Raises:
        UsageError: The text does not name inputs.
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
    """Return the target with one call's arguments: a JSON list, or an object with names. Raises UsageError."""
    hint = """write a list, as --args '[1, "two"]', or an object, as --args '{"size": 3}'"""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise UsageError(f"the arguments {text!r} are not JSON: {error}", hint=hint) from error
    except RecursionError:
        is_deep = True
    else:
        is_deep = _is_deep(value)
    if is_deep:
        most = f"{_MOST_LEVELS} levels of lists in lists, or of objects in objects"
        raise UsageError(f"the arguments have more than {most}", hint="make them with --inputs module:function")
    if not isinstance(value, list | dict):
        raise UsageError(f"the arguments are {text}, expected a list or an object", hint=hint)
    return replace(target, inputs={"kind": "json", "value": value})


def _is_deep(value: Any) -> bool:
    """Tell whether a value of JSON has more levels than functions that call themselves bear."""
    level = [value]
    for _ in range(_MOST_LEVELS):
        lists = [one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list)]
        level = [one for each in lists for one in each]
    return any(isinstance(one, dict | list) for one in level)


def with_pickled(target: Target, path: Path) -> Target:
    """Return the target with calls from a file, in the form of the agent's `strangers.target`."""
    return replace(target, inputs={"kind": "pickled", "path": str(path), "most": MOST_INPUTS})
