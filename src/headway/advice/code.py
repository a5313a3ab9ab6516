"""Writes code to paste: the verdict in the usual idiom, and the test that guards it."""

import keyword
import math
import os
import shlex
import textwrap
from typing import Any

from headway.advice.examined import Function
from headway.advice.models import POOLS, SHORT
from headway.advice.shared import lost_changes
from headway.advice.target import MOST_INPUTS, Target
from headway.lab import stats
from headway.printable import printable
from headway.report.figures import number, seconds

__all__ = ["code_for", "guard_for", "required_of", "undecided", "unguarded"]

_ITEMS = "inputs"

_OURS = {
    "InterpreterPoolExecutor",
    "ProcessPoolExecutor",
    "ThreadPoolExecutor",
    "address",
    "args",
    "asyncio",
    "call",
    "client",
    "dask",
    "example",
    "float",
    "functools",
    "future",
    "futures",
    "headway",
    "importlib",
    "inputs",
    "isinstance",
    "iter",
    "itertools",
    "joblib",
    "kwargs",
    "list",
    "loop",
    "main",
    "multiprocessing",
    "next",
    "one",
    "pickle",
    "pool",
    "result",
    "results",
    "tuple",
    "unchanged",
    "whole",
}
"""Names that the code itself has or uses; a function of such a name is imported under another one."""


def _given(function: Function) -> str:
    """Return the arguments of a call, and the parameters of a function around it."""
    return "*args, **kwargs" if function.by_name else "*args"


def _every(function: Function) -> str:
    """Return the loop over the calls."""
    return f"for {'args, kwargs' if function.by_name else 'args'} in {_ITEMS}"


def _call(function: Function, name: str) -> str:
    call = f"{name}({_given(function)})"
    return f"list({call})" if function.kind == "generator" else call


def _line(module: str, name: str, own: str) -> str:
    """Return the line that imports a name of a module as `own`; a file such as `my-script.py` has no name for `import`."""
    if all(part.isidentifier() and not keyword.iskeyword(part) for part in module.split(".")):
        return f"from {module} import {name}" + (f" as {own}" if own != name else "")
    return f"{own} = importlib.import_module({module!r}).{name}"


def _imported(target: Target) -> tuple[str, str]:
    """Return the line that imports the function, and its name from then on."""
    first, dot, rest = target.name.partition(".")
    own = f"{first}_" if first in _OURS else first
    return _line(target.module, first, own), f"{own}{dot}{rest}"


def _imported_inputs(target: Target) -> tuple[str, str]:
    """Return the line that imports the inputs, and their name from then on: one that neither the function nor the code has."""
    first, dot, rest = target.inputs["name"].partition(".")
    line, function = _imported(target)
    taken = function.partition(".")[0]
    if (target.inputs["module"], first) == (target.module, target.name.partition(".")[0]):
        return line, f"{taken}{dot}{rest}"
    own = first
    while own in _OURS or own == taken:
        own += "_"
    return _line(target.inputs["module"], first, own), f"{own}{dot}{rest}"


def _is_endless(function: Function) -> bool:
    """Tell whether the inputs that were measured may be the first ones of a generator that never ends."""
    return function.inputs >= MOST_INPUTS


def _imports(target: Target, function: Function) -> str:
    """Return lines that import the function, its inputs, and what the lines that define these need."""
    importing, _ = _imported(target)
    note = _import_path(target)
    if target.inputs["kind"] != "named":
        return _libraries(importing) + note + importing
    where, _ = _imported_inputs(target)
    libraries = _libraries(importing, where, functools=function.by_name, itertools=_is_endless(function))
    return f"{libraries}{note}{importing}" + (f"\n{where}" if where != importing else "")


def _import_path(target: Target) -> str:
    """Return a comment for above the imports if they work only with further folders on the import path, else ""."""
    folders = target.unreached
    if not folders:
        return ""
    value = shlex.quote(os.pathsep.join(folders))
    said = f"with {' and '.join(folders)} on the import path: PYTHONPATH={value}, or the project installed"
    return f"# {printable(said)}\n"


def _libraries(*lines: str, **needed: bool) -> str:
    """Return lines that import the libraries that are needed, also by these lines."""
    needed["importlib"] = any("importlib." in line for line in lines)
    return "".join(f"import {library}\n" for library in sorted(needed) if needed[library])


def _items(target: Target, function: Function) -> str:
    """Return lines that define the inputs: for each call, a tuple of its arguments.

    If some are given by name, it is a pair of the tuple and of a dict.
    """
    inputs = target.inputs
    what = "its arguments by position and by name" if function.by_name else "its arguments"
    if inputs["kind"] == "json":
        call = _json_call(inputs["value"])
        return f"{_ITEMS} = [{call if function.by_name else call[0]!r}]  # for each call, {what}\n"
    if inputs["kind"] == "named":
        elements, each, note = _elements(target, function), _arguments_of("one", function), ""
        if _is_endless(function):
            elements = f"itertools.islice({elements}, {MOST_INPUTS})"
            note = f"# The first {MOST_INPUTS} inputs: no more were looked at, and there may be no end of them.\n"
        items = f"[{each} for one in {elements}]"
        if function.by_name:
            items = f"[\n    {each}\n    for one in {elements}\n]"
        return f"{note}{_ITEMS} = {items}\n"
    if inputs["kind"] == "none":
        return f"{_ITEMS} = [()] * 10  # as many calls as you need\n"
    form = "(args, kwargs)" if function.by_name else "a tuple of its arguments"
    return f"{_ITEMS} = []  # fill it: for each call, {form}\n"


def _main(target: Target, function: Function) -> str:
    """Return the beginning of the part that workers, which may import the file again, leave out: so they make no inputs."""
    return f'if __name__ == "__main__":\n{textwrap.indent(_items(target, function), "    ")}'


class _NoLiteral(float):
    """NaN or an infinity, whose plain repr is a name that the code to paste does not have."""

    def __repr__(self) -> str:
        return f'float("{float(self)!r}")'


def _written(value: Any) -> Any:
    """Return a value of JSON in the form in which its repr is its code."""
    if isinstance(value, dict):
        return {key: _written(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_written(one) for one in value]
    return _NoLiteral(value) if isinstance(value, float) and not math.isfinite(value) else value


def _json_call(value: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    value = _written(value)
    return ((), value) if isinstance(value, dict) else (tuple(value), {})


def _elements(target: Target, function: Function) -> str:
    """Return the inputs as an expression, in the form in which they were measured."""
    _, name = _imported_inputs(target)
    return f"{name}()" if function.makes_inputs else name


def _arguments_of(element: str, function: Function) -> str:
    """Return the arguments of a call, as an expression, from the name of an element of the inputs."""
    given = f"{element} if isinstance({element}, tuple) else ({element},)"
    if not function.by_name:
        return given
    args = f"{element}.args[{function.bound}:]" if function.bound else f"{element}.args"
    named = f"({args}, {element}.keywords) if isinstance({element}, functools.partial)"
    return f"{named} else ({given}, {{}})"


def code_for(
    target: Target, function: Function, model: str, workers: int, *, in_threads: bool = True, start_s: float = 0.0
) -> str:
    """Return code that runs the function with a model.

    Args:
        target: The function.
        function: Its properties, such as its kind.
        model: The model.
        workers: The number of workers.
        in_threads: The function runs outside the main thread, too, where workers of Dask call it.
        start_s: The time that the model's pool takes to start.
    """
    opened = _opened(model, _pool(model, workers)[1], function, start_s) if model in POOLS else ""
    if function.kind.startswith("async"):
        return _async_code(target, function, model, workers, opened)
    return _code(target, function, model, workers, opened, in_threads=in_threads)


def undecided(perhaps: str, speed_up: stats.Interval | None) -> str:
    """Return a comment above the code if another model may be faster; a reader of the code alone would not know."""
    if not perhaps:
        return ""
    if speed_up is not None and speed_up.value < 1:
        return f"# not decided: the figure of {SHORT[perhaps]} ({number(speed_up.value)}) does not rule out a gain\n\n"
    return f"# not decided: {SHORT[perhaps]} may be faster than this\n\n"


def _opened(model: str, pool: str, function: Function, start_s: float) -> str:
    """Return the lines that open a pool, with comments if its start takes longer than a call, or if changes are lost in it."""
    changes, notes = lost_changes(model, function), ""
    if changes:
        notes += f"    # {changes[0].upper()}{changes[1:]}.\n"
    if start_s > function.call_s:
        notes += f"    # Keep the pool: its start takes {seconds(start_s)}, a call {seconds(function.call_s)}.\n"
    return f"{notes}    with {pool} as pool:\n"


def _code(target: Target, function: Function, model: str, workers: int, opened: str, *, in_threads: bool) -> str:
    importing, (_, name) = _imports(target, function), _imported(target)
    given, every = _given(function), _every(function)
    if model == "serial":
        items = _items(target, function)
        return f"{importing}\n\n{items}\nresults = [{_call(function, name)} {every}]  # as it is\n"
    needed, pool = _pool(model, workers)
    task, lines = name, ""
    if function.kind == "generator":
        lines = f"def whole({given}):\n    return list({name}({given}))\n\n\n"
        task = "whole"
    code = (
        f"{needed}\n\n{importing}\n\n\n{lines}"
        f"{_main(target, function)}"
        f"{opened}"
        f"        futures = [pool.submit({task}, {given}) {every}]\n"
        f"        results = [future.result() for future in futures]\n"
    )
    if model == "threads":
        run, library = f"{task}, {given}", ""
        if function.by_name:
            run, library = f"functools.partial({task}, {given})", ", functools"
        code += (
            f"\n# in an event loop (asyncio.to_thread has threads of its own, as many as cores + 4, and at most 32):\n"
            f"#     import asyncio{library}\n"
            f"#     pool = {pool}  # keep the pool\n"
            f"#     loop = asyncio.get_running_loop()\n"
            f"#     results = await asyncio.gather(*(loop.run_in_executor(pool, {run}) {every}))\n"
        )
    if model == "processes-forkserver":
        one = "lambda call: {}(*call[0], **call[1])" if function.by_name else "lambda args: {}(*args)"
        code += (
            f"\n# the same with joblib:\n"
            f"#     import joblib\n"
            f"#     results = joblib.Parallel(n_jobs={workers})(joblib.delayed({task})({given}) {every})\n"
        )
        if in_threads:
            code += (
                f"# with Dask, if one machine is not enough:\n"
                f"#     import dask.distributed\n"
                f"#     client = dask.distributed.Client(address)  # of your scheduler\n"
                f"#     results = client.gather(client.map({one.format(task)}, {_ITEMS}))\n"
            )
    return code


def _pool(model: str, workers: int) -> tuple[str, str]:
    """Return the imports of a pool, and the expression that makes it, as it was measured."""
    pools = {
        "threads": ("from concurrent.futures import ThreadPoolExecutor", f"ThreadPoolExecutor({workers})"),
        "interpreters": (
            "from concurrent.futures import InterpreterPoolExecutor  # CPython 3.14 and later",
            f"InterpreterPoolExecutor({workers})",
        ),
        "processes-forkserver": (
            "import multiprocessing\nfrom concurrent.futures import ProcessPoolExecutor",
            f'ProcessPoolExecutor({workers}, mp_context=multiprocessing.get_context("forkserver"))',
        ),
    }
    return pools[model]


def _async_code(target: Target, function: Function, model: str, workers: int, opened: str) -> str:
    importing, (_, name) = _imports(target, function), _imported(target)
    given = _given(function)
    each = f"{name}({given})"
    if function.kind == "async generator":
        importing += f"\n\n\nasync def whole({given}):\n    return [one async for one in {name}({given})]"
        each = f"whole({given})"
    if model in {"serial", "asyncio"}:
        every = f"await asyncio.gather(*({each} {_every(function)}))"
        if model == "serial":
            every = f"[await {each} {_every(function)}]  # as it is"
        return (
            f"import asyncio\n\n{importing}\n\n\nasync def main():\n    return {every}\n\n\n"
            f"{_main(target, function)}    results = asyncio.run(main())  # in an event loop: await main()\n"
        )
    # A coroutine function that mostly computes runs in workers with a loop each.
    return (
        f"import asyncio\n{_pool(model, workers)[0]}\n\n{importing}\n\n\ndef one({_given(function)}):\n"
        f"    return asyncio.run({each})\n\n\n"
        f"{_main(target, function)}"
        f"{opened}"
        f"        futures = [pool.submit(one, {_given(function)}) {_every(function)}]\n"
        f"        results = [future.result() for future in futures]\n"
    )


def required_of(speed_up: stats.Interval | None) -> float:
    """Return the speed-up that a test requires: a tenth below the measured interval, and so never more than its low end.

    A verdict with a model has an interval above 1, so a test may always require that serial calls are no faster.
    """
    return max(1.0, math.floor(speed_up.low * 9) / 10) if speed_up is not None else 1.0


def _is_guarded(target: Target, function: Function, model: str) -> bool:
    return model in POOLS and function.kind == "plain" and target.inputs["kind"] != "pickled"


_COPYING = 0.05
"""The most time that copies of arguments may take, beside a call: a guard requires a tenth less than was measured."""


def _can_have_copies(function: Function, model: str, workers: int) -> bool:
    """Tell whether a guard may copy the arguments in each of its calls: threads copy theirs one after the other."""
    if "its arguments" in function.unpicklable:
        return False
    return function.pickle_s * (workers if model == "threads" else 1) <= _COPYING * function.call_s


def unguarded(target: Target, function: Function, model: str, workers: int) -> str:
    """Return a comment below the code if there is no guard only because calls change their arguments, else ""."""
    if (
        not function.changes_arguments
        or not _is_guarded(target, function, model)
        or _can_have_copies(function, model, workers)
    ):
        return ""
    if "its arguments" in function.unpicklable:
        return "\n# no test guards this: a call changes its arguments, which cannot be copied for each call of a test\n"
    return "\n# no test guards this: a call changes its arguments, and new ones for each call of a test take too long beside it\n"


def guard_for(target: Target, function: Function, model: str, workers: int, least: float) -> str:
    """Return a test with Headway's fixture that fails if the verdict no longer holds; "" if there is none to guard.

    Args:
        target: The function.
        function: Its properties, such as its kind.
        model: The model of the verdict.
        workers: The number of workers.
        least: The speed-up that the test requires.
    """
    if not _is_guarded(target, function, model):
        return ""
    arguments, importing = _typical_arguments(target, function)
    imported, name = _imported(target)
    is_named = target.inputs["kind"] == "named"
    copied = False
    measured = f"{name}{arguments}"
    if function.changes_arguments:
        if not _can_have_copies(function, model, workers):
            return ""
        copied = is_named
        importing += _with_copies(f"{name}({arguments.removeprefix(', ')})", function, is_named=is_named)
        measured = "call"
    libraries = _libraries(
        imported,
        importing,
        functools=function.by_name and is_named,
        itertools=bool(function.typical) and is_named,
        pickle=copied,
    )
    return (
        f"{libraries}{_import_path(target)}{imported}\n{importing}\n\n"
        f"def test_{target.name.replace('.', '_')}_scales(headway):\n"
        f'    """As measured: {workers} {SHORT[model]}."""\n'
        f"    result = headway({measured})\n"
        f"    assert result.scales({SHORT[model]}={workers}, at_least={least:.3g})\n"
    )


def _with_copies(call: str, function: Function, *, is_named: bool) -> str:
    """Return a function `call` that calls the function with new arguments each time, as they were measured."""
    lines = "    # A call changes its arguments.\n"
    if not is_named:
        # The arguments are written in the call, so it makes them.
        return f"\n\ndef call():\n{lines}    return {call}\n"
    names = "args, kwargs" if function.by_name else "example"
    return (
        f"unchanged = pickle.dumps({f'({names})' if function.by_name else names})\n\n\ndef call():\n"
        f"{lines}    {names} = pickle.loads(unchanged)\n    return {call}\n"
    )


def _typical_arguments(target: Target, function: Function) -> tuple[str, str]:
    """Return the arguments of a call that takes about the mean of all calls, and lines that define them."""
    inputs = target.inputs
    if inputs["kind"] == "json":
        args, kwargs = _json_call(inputs["value"])
        return "".join(f", {one!r}" for one in args) + _by_name(kwargs), ""
    if inputs["kind"] == "named":
        to, given = ("args, kwargs", ", *args, **kwargs") if function.by_name else ("example", ", *example")
        elements, (where, _) = _elements(target, function), _imported_inputs(target)
        example = f"example = next(iter({elements}))"
        if function.typical:
            example = (
                f"# A call with this input, number {function.typical + 1}, takes about as long as one does on average.\n"
                f"example = next(itertools.islice({elements}, {function.typical}, None))"
            )
        return (
            given,
            f"{where}\n\n{example}\n{to} = {_arguments_of('example', function)}\n",
        )
    return "", ""


def _by_name(kwargs: dict[str, Any]) -> str:
    """Return arguments by name as code; a key that is no name of Python's stands in a dict."""
    if all(one.isascii() and one.isidentifier() and not keyword.iskeyword(one) for one in kwargs):
        return "".join(f", {key}={one!r}" for key, one in kwargs.items())
    return f", **{kwargs!r}"
