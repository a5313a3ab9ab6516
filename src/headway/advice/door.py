"""`headway.advise(function, inputs)`: the advice for a function object."""

import contextlib
import functools
import inspect
import operator
import pickle
import reprlib
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import ModuleType
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

    Fresh processes import the function's module and find the function by its name. A name of a module, or of a class in
    it, must therefore have this function, and a script must call `advise` under `if __name__ == "__main__":`.

    Args:
        function: The function; may also be a coroutine function or a generator function.
        inputs: An element for each call: a tuple has its arguments, and `functools.partial(function, ...)` its arguments
            by position and by name; anything else is the only argument. The first 256 are used; if their calls take long,
            or need much memory, some of these that are spread over all are measured, and a line of the verdict says how many.
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
    elements = _elements_of(inputs)
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


def _elements_of(inputs: Any) -> Iterator[Any]:
    # The characters of a text are hardly ever meant to be a call each.
    if not isinstance(inputs, str | bytes | bytearray):
        with contextlib.suppress(TypeError):
            elements: Iterator[Any] = iter(inputs)
            return elements
    shown = reprlib.repr(inputs)
    hint = f"write [{shown}] for one call with this argument"
    raise UsageError(f"inputs is {shown}, expected an element for each call", hint=hint)


def _call_of(element: Any, function: Callable[..., Any]) -> tuple[Any, dict[str, Any]]:
    """Return (args, kwargs) of an element of the inputs; the agent's `strangers.target` does the same."""
    # A partial of a partial is one of the inner function, with the arguments of both.
    made = functools.partial(function)
    if isinstance(element, functools.partial) and element.func == made.func:
        own = len(made.args)
        if len(element.args) >= own and all(map(operator.is_, made.args, element.args)):
            return element.args[own:], element.keywords
    return (element if isinstance(element, tuple) else (element,)), {}


def _target_of(function: Callable[..., Any]) -> Target:
    module, name = _place_of(function)
    file = getattr(module, "__file__", None)
    if module.__name__ != "__main__":
        top = module.__name__.partition(".")[0]
        target = parse_target(f"{module.__name__}:{name}")
        return target if file is None else _beside(target, Path(file), module.__name__.count("."), top)
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


def _place_of(function: Callable[..., Any]) -> tuple[ModuleType, str]:
    """Return the module and the dotted name in it whose value is the function. Raises UsageError.

    A decorator may give its function the name of the one that it calls (`functools.wraps`), so a name alone tells nothing.
    """
    name = str(getattr(function, "__qualname__", ""))
    of: Any = function
    module, looked_for = inspect.getmodule(function), name
    if inspect.ismethod(function):
        owner = function.__self__
        if not isinstance(owner, type):
            kind = type(owner).__qualname__
            raise UsageError(
                f"{name} is a method of an object that no other process has",
                hint=f"pass {kind}.{function.__name__}, and as the inputs a tuple for each call whose first element is the object",
            )
        # A class method is found by its class, which may have inherited it.
        of, module, looked_for = owner, inspect.getmodule(owner), owner.__qualname__
    modules = [one for one in (module, sys.modules.get("__main__")) if one is not None]
    found = next(((one, looked_for) for one in modules if _value_at(one, looked_for) is of), None)
    found = found or next(((one, other) for one in modules for other in _names_of(of, one)), None)
    # The result of a decorator may be a name of any module.
    others = [one for one in list(sys.modules.values()) if isinstance(one, ModuleType)] if found is None else []
    found = found or next(((one, other) for one in others for other in _names_of(of, one)), None)
    if found is not None and inspect.ismethod(function):
        method = next(_names_of(function.__func__, of), "")
        found = (found[0], f"{found[1]}.{method}") if method else None
    if found is not None:
        return found
    if not name or module is None or "<" in name:
        raise UsageError(
            f"{name or function!r} cannot be found by another process",
            hint="ask for advice on a function at the top level of a module",
        )
    is_other = "is another object" if _value_at(module, looked_for) is not None else "is not there"
    raise UsageError(
        f"{name} cannot be found by another process: the {looked_for} of {module.__name__} {is_other}",
        hint="pass the function that a name of a module has, as after its decorators",
    )


def _value_at(module: ModuleType, name: str) -> Any:
    """Return the value of a dotted name of a module; None if there is none, or if it cannot be a name."""
    found: Any = module
    for part in name.split("."):
        if not part.isidentifier():
            return None
        found = getattr(found, part, None)
    return found


def _names_of(value: Any, owner: ModuleType | type) -> Iterator[str]:
    """Yield the names of a module, or of a class with those that it inherits, that have this value."""
    for one in owner.__mro__ if isinstance(owner, type) else (owner,):
        for name, other in list(vars(one).items()):
            inner = other.__func__ if isinstance(other, classmethod | staticmethod) else other
            if inner is value and name.isidentifier():
                yield name


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
