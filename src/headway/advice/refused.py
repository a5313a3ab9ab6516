"""Says why there is no advice about a function, and what helps."""

import itertools
from collections.abc import Iterator, Sequence

from headway.advice.examined import Examined
from headway.advice.target import DEFINED_NAMES, Target
from headway.errors import HeadwayError, UsageError

__all__ = ["refuse"]

_IN_A_LOOP = ("from a running event loop", "event loop is already running", "while another loop is running")
"""Words of asyncio's errors about a loop that is begun in a coroutine; "no running event loop" is the opposite."""

_WITHOUT_A_PACKAGE = "attempted relative import with no known parent package"
"""The words of the error about a file that is imported by itself, since no `__init__.py` says that it is in a package."""

_HINTS = {
    "package": "name it by its module: {by_module}",
    "loop": "await the coroutine in place of running an event loop for it: a thread runs one loop at a time",
    "used up": "name a function that makes new inputs each time it is called: --inputs module:function",
    "leaves": "end each process that the function starts before it returns, as `subprocess.run` does",
    "pickled": "put the classes of the arguments into a module that other programs can import",
    "names": DEFINED_NAMES,
    "inputs": "name inputs with an element for each call: a tuple of its arguments, or its only argument",
    "text": "put it into a list for one call with this argument: [TEXT]",
    "signature": (
        "arguments by name: --args with an object, '{{...}}'; an element of --inputs is functools.partial({name}, ...) then, "
        "and a tuple for arguments by position alone; an argument that is a tuple stands in another one: ((a, b),)"
    ),
    "none": "give inputs: --args '[...]' or '{{...}}' (by name), --inputs module:list, or --observe COMMAND",
    "method": (
        "{name} is a method, so its first argument must be an instance of {owner}, which JSON cannot give: "
        "use --observe COMMAND, or --inputs with a tuple ({owner}(...), ...) for each call"
    ),
}


_STACKS = "Timeout ("
"""The beginning of the line above the stacks of a process that hangs, as faulthandler writes it."""
_OF_STACKS = ("  ", "Thread ", "Current thread ")
_NOT_THE_USERS = ("headway_agent", "/importlib/", '"<frozen ', '"<string>"')
_LINES = 12


def _without_stacks(lines: Sequence[str]) -> Iterator[str]:
    in_stacks = False
    for line in lines:
        in_stacks = line.startswith(_STACKS) or (in_stacks and (not line or line.startswith(_OF_STACKS)))
        if not in_stacks:
            yield line


def _end_of(output: str, *, hung: bool) -> str:
    """Return the end of a process's output.

    If the process hung, these are the stacks of its main thread, the innermost first, without our frames. A process that
    took long and went on may have written stacks, too, which tell nothing of its end and are left out.
    """
    said = output.strip().splitlines()
    if not hung:
        said = list(_without_stacks(said))
    begun = next((place for place in range(len(said) - 1, -1, -1) if said[place].startswith(_STACKS)), None)
    if begun is None:
        return "\n".join(said[-_LINES:])
    stacks: list[list[str]] = [[]]
    for line in itertools.takewhile(lambda line: not line or line.startswith(_OF_STACKS), said[begun + 1 :]):
        if line.startswith("  "):
            stacks[-1].append(line)
        elif line:
            stacks.append([])
    # The main thread is the oldest, and so the last one.
    users = [line for line in stacks[-1] if not any(one in line for one in _NOT_THE_USERS)]
    return "\n".join(["the innermost frame first:", *users[:_LINES]]) if users else ""


def _by_module(target: Target) -> str:
    """Return a file's function as it is named by its module: from the current folder, or from the one above the file's own."""
    folder = target.folder
    below = folder.relative_to(target.cwd).parts if folder.is_relative_to(target.cwd) else ()
    if below:
        return f"{'.'.join((*below, target.module))}:{target.name}"
    return f"{folder.name}.{target.module}:{target.name}, in the folder {folder.parent}"


def refuse(examined: Examined, target: Target) -> HeadwayError:
    """Return the error with the reason why there is no advice about this function."""
    tail = _end_of(examined.detail, hung=examined.hung)
    hint = "make the function run by itself first" + (f"; the end of its output:\n{tail}" if tail else "")
    if examined.missing:
        hint = (
            f"{examined.missing} is not in {examined.place.interpreter.executable}; name your own Python with --python"
        )
    elif any(words in examined.error for words in _IN_A_LOOP):
        hint = _HINTS["loop"]
    elif _WITHOUT_A_PACKAGE in examined.error:
        hint = _HINTS["package"].format(by_module=_by_module(target))
    elif examined.about:
        hint = _HINTS[examined.about].format(name=target.name, owner=target.name.rpartition(".")[0])
    return UsageError(f"{target.words}: {examined.error}", hint=hint)
