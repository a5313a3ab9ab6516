"""`headway.advise(function, inputs)`: the advice for a function object."""

import functools
import inspect
import pickle
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from headway.advice.course import advise as advise_on
from headway.advice.request import AdviceRequest, check
from headway.advice.target import MOST_INPUTS, Target, parse_target, with_pickled
from headway.advice.values import Advice
from headway.arguments import as_texts, check_callable
from headway.errors import UsageError
from headway.host.packages import in_packages

__all__ = ["advise"]


def advise(
    function: Callable[..., Any],
    inputs: Iterable[Any] = ((),),
    *,
    budget_s: float | None = None,
    workers: int | None = None,
    interpreters: Iterable[str] | None = None,
    say: Callable[[str], None] | None = None,
) -> Advice:
    """Return the concurrency model that a function should have: serial, threads, processes, asyncio or interpreters.

    Fresh processes import the function's module and find the function by its name. The function must therefore belong
    to a module, and a script must call `advise` under `if __name__ == "__main__":`.

    Args:
        function: The function; may also be a coroutine function or a generator function.
        inputs: An element for each call: a tuple has its arguments, and `functools.partial(function, ...)` its arguments
            by position and by name; anything else is the only argument. The first 256 are used.
        budget_s: The time after which no further launch begins; the first look at the function, and one launch of each
            model, are made in any case. None: a minute, or three for a function that takes long.
        workers: The number of workers; None: one for each core, more if calls wait.
        interpreters: Further interpreters to try, by name; None: the newest free-threaded one.
        say: Called with a line about each step; None: no output.

    Raises:
        UsageError: An argument has a wrong type or is out of its range (`budget_s`: 5 or more; `workers`: 1 to 1024); or
            the function cannot be found by its name, its inputs cannot be pickled, or it does not run by itself.
        HeadwayError: See `headway.advice.course.advise`.
    """
    request = AdviceRequest(
        target=_target_of(function),
        python=sys.executable,
        interpreters=None if interpreters is None else as_texts("interpreters", interpreters, once=True),
        workers=workers,
        budget_s=budget_s,
    )
    check(request)  # before the inputs, which may take long
    if say is not None:
        check_callable("say", say)
    try:
        elements = iter(inputs)
    except TypeError:
        hint = f"write [{inputs!r}] for one call with this argument"
        raise UsageError(f"inputs is {inputs!r}, expected an element for each call", hint=hint) from None
    calls = [_call_of(one, function) for one in islice(elements, MOST_INPUTS)]
    if not calls:
        raise UsageError("the inputs are empty", hint="give one element for each call")
    with tempfile.TemporaryDirectory(prefix="headway-advise-") as folder:
        path = Path(folder) / "inputs.pickle"
        try:
            path.write_bytes(b"".join(pickle.dumps(pickle.dumps(one)) for one in calls))
        except Exception as error:  # a lock of multiprocessing raises RuntimeError, and classes raise what they like
            raise UsageError(
                f"the inputs cannot be pickled: {error}",
                hint="name them instead: headway advise module:function --inputs module:name",
            ) from error
        return advise_on(replace(request, target=with_pickled(request.target, path)), say=say or (lambda _line: None))


def _call_of(element: Any, function: Callable[..., Any]) -> tuple[Any, dict[str, Any]]:
    """Return (args, kwargs) of an element of the inputs; the agent's `strangers.target` does the same."""
    if isinstance(element, functools.partial) and element.func == function:
        return element.args, element.keywords
    return (element if isinstance(element, tuple) else (element,)), {}


def _target_of(function: Callable[..., Any]) -> Target:
    name = getattr(function, "__qualname__", "")
    module = inspect.getmodule(function)
    if inspect.ismethod(function):
        owner = function.__self__
        if not isinstance(owner, type):
            kind = type(owner).__qualname__
            raise UsageError(
                f"{name} is a method of an object that no other process has",
                hint=f"pass {kind}.{function.__name__}, and as the inputs a tuple for each call whose first element is the object",
            )
        # A class method is found by its class, which may have inherited it.
        name, module = f"{owner.__qualname__}.{function.__name__}", inspect.getmodule(owner)
    if not name or module is None or "<" in name:
        raise UsageError(
            f"{name or function!r} cannot be found by another process",
            hint="ask for advice on a function at the top level of a module",
        )
    if module.__name__ != "__main__":
        file = getattr(module, "__file__", None)
        top = module.__name__.partition(".")[0]
        target = parse_target(f"{module.__name__}:{name}")
        return target if file is None else _beside(target, Path(file), module.__name__.count("."), top)
    file = getattr(module, "__file__", None)
    archive = None if file is None else _archive_of(Path(file))
    if archive is not None:
        raise UsageError(
            f"{name} belongs to the main module of the archive {archive}, which no other process can import",
            hint=f"put the function into another module of {archive.name}",
        )
    # A program that is read from a pipe says "<stdin>".
    if file is None or not Path(file).is_file():
        raise UsageError(
            f"{name} belongs to an interactive session, which no other process can import",
            hint="put the function into a module first",
        )
    return parse_target(f"{file}:{name}")


def _archive_of(file: Path) -> Path | None:
    """Return the archive that a module's file is in (a zipapp, for example); None if it is in none."""
    return next((one for one in file.parents if one.is_file()), None)


def _beside(target: Target, file: Path, depth: int, top: str) -> Target:
    """Return the target with the folder from which its module was imported."""
    folder = file.resolve().parent
    for _ in range(depth if file.name != "__init__.py" else depth + 1):
        folder = folder.parent
    is_there = (folder / f"{top}.py").exists() or (folder / top).is_dir() or _archive_of(file.resolve()) == folder
    return replace(target, folder=folder) if is_there and not in_packages(folder) else target
