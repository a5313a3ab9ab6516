"""Writes code to paste: the verdict in the usual idiom, and the test that guards it."""

import math
from collections.abc import Mapping
from typing import Any

from headway.advice.examined import Function
from headway.advice.models import SHORT
from headway.advice.target import Target
from headway.lab import stats

__all__ = ["code_for", "guard_for", "required_of"]

_ITEMS = "inputs"

_OURS = {"args", "example", "headway", "inputs", "main", "one", "pool", "result", "whole"}
"""Names of the code itself; a function of such a name is imported under another one."""


def _call(function: Function, name: str) -> str:
    return f"list({name}(*args))" if function.kind == "generator" else f"{name}(*args)"


def _imported(target: Target) -> tuple[str, str]:
    """Return the line that imports the function, and its name from then on."""
    first, dot, rest = target.name.partition(".")
    if first in _OURS:
        return f"from {target.module} import {first} as {first}_", f"{first}_{dot}{rest}"
    return f"from {target.module} import {first}", target.name


def _importable(target: Target) -> str:
    """Return lines that import the function and define its inputs: a tuple of arguments for each call."""
    inputs, (importing, _) = target.inputs, _imported(target)
    if inputs["kind"] == "json" and isinstance(inputs["value"], dict):
        # Other processes find the function by its name, and so a functools.partial of it, too.
        return f"{importing}\n\n{_ITEMS} = [()]  # for each call, its arguments besides {_by_name(inputs['value'])}"
    if inputs["kind"] == "json":
        return f"{importing}\n\n{_ITEMS} = [{tuple(inputs['value'])!r}]  # for each call, its arguments"
    if inputs["kind"] == "named":
        name = inputs["name"]
        where = f"from {inputs['module']} import {name.partition('.')[0]}"
        importing += "" if where == importing else f"\n{where}"
        elements = f"{name}() if callable({name}) else {name}"
        return f"{importing}\n\n{_ITEMS} = [one if isinstance(one, tuple) else (one,) for one in ({elements})]"
    if inputs["kind"] == "none":
        return f"{importing}\n\n{_ITEMS} = [()] * 10  # as many calls as you need"
    return f"{importing}\n\n{_ITEMS} = []  # fill it: for each call, a tuple of its arguments"


def _by_name(arguments: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={value!r}" for key, value in arguments.items())


def _called(target: Target) -> str:
    """Return the function as an expression, with the arguments that it has by name."""
    inputs, (_, name) = target.inputs, _imported(target)
    if inputs["kind"] == "json" and isinstance(inputs["value"], dict) and inputs["value"]:
        return f"functools.partial({name}, {_by_name(inputs['value'])})"
    return name


def code_for(target: Target, function: Function, model: str, workers: int) -> str:
    """Return code that runs the function with a model.

    Args:
        target: The function.
        function: Its properties, such as its kind.
        model: The model.
        workers: The number of workers.
    """
    name = _called(target)
    code = _code(function, name, _importable(target), model, workers)
    return f"import functools\n{code}" if name != _imported(target)[1] else code


def _code(function: Function, name: str, importing: str, model: str, workers: int) -> str:
    if function.kind.startswith("async"):
        return _async_code(function, name, importing, model, workers)
    if model == "serial":
        return f"{importing}\n\nresults = [{_call(function, name)} for args in {_ITEMS}]  # as it is\n"
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
    needed, pool = pools[model]
    task, lines = name, ""
    if function.kind == "generator":
        lines = f"def whole(*args):\n    return list({name}(*args))\n\n\n"
        task = "whole"
    code = (
        f"{needed}\n\n{importing}\n\n\n{lines}"
        f'if __name__ == "__main__":\n'
        f"    with {pool} as pool:  # keep the pool: its start is expensive\n"
        f"        futures = [pool.submit({task}, *args) for args in {_ITEMS}]\n"
        f"        results = [future.result() for future in futures]\n"
    )
    if model == "threads":
        code += f"\n# in an event loop:\n#     results = await asyncio.gather(*(asyncio.to_thread({task}, *args) for args in {_ITEMS}))\n"
    if model == "processes-forkserver":
        code += (
            f"\n# the same with joblib:\n"
            f"#     joblib.Parallel(n_jobs={workers})(joblib.delayed({task})(*args) for args in {_ITEMS})\n"
            f"# with Dask, if one machine is not enough:\n"
            f"#     dask.distributed.Client(address).map(lambda args: {task}(*args), {_ITEMS})\n"
        )
    return code


def _async_code(function: Function, name: str, importing: str, model: str, workers: int) -> str:
    each = f"{name}(*args)"
    if function.kind == "async generator":
        importing += f"\n\n\nasync def whole(*args):\n    return [one async for one in {name}(*args)]"
        each = "whole(*args)"
    if model in {"serial", "asyncio"}:
        every = f"await asyncio.gather(*({each} for args in {_ITEMS}))"
        if model == "serial":
            every = f"[await {each} for args in {_ITEMS}]  # as it is"
        return (
            f"import asyncio\n\n{importing}\n\n\nasync def main():\n    return {every}\n\n\n"
            f'if __name__ == "__main__":\n    results = asyncio.run(main())  # in an event loop: await main()\n'
        )
    return _blocking(importing, each, model, workers)


def _blocking(importing: str, each: str, model: str, workers: int) -> str:
    """Return code that runs a coroutine function, which mostly computes, in workers with a loop each."""
    pool = {"threads": "ThreadPoolExecutor", "interpreters": "InterpreterPoolExecutor"}.get(
        model, "ProcessPoolExecutor"
    )
    return (
        f"import asyncio\nfrom concurrent.futures import {pool}\n\n{importing}\n\n\ndef one(*args):\n"
        f"    return asyncio.run({each})\n\n\n"
        f'if __name__ == "__main__":\n    with {pool}({workers}) as pool:\n'
        f"        results = [future.result() for future in [pool.submit(one, *args) for args in {_ITEMS}]]\n"
    )


def required_of(speed_up: stats.Interval | None) -> float:
    """Return the speed-up that a test requires: a tenth below the measured interval, and so never more than its low end.

    A verdict with a model has an interval above 1, so a test may always require that serial calls are no faster.
    """
    return max(1.0, math.floor(speed_up.low * 9) / 10) if speed_up is not None else 1.0


def guard_for(target: Target, function: Function, model: str, workers: int, least: float) -> str:
    """Return a test with Headway's fixture that fails if the verdict no longer holds; "" if there is none to guard.

    Args:
        target: The function.
        function: Its properties, such as its kind.
        model: The model of the verdict.
        workers: The number of workers.
        least: The speed-up that the test requires.
    """
    if (
        model not in {"threads", "interpreters", "processes-forkserver"}
        or function.kind != "plain"
        or target.inputs["kind"] == "pickled"
    ):
        return ""
    arguments, importing = _first_arguments(target)
    imported, name = _imported(target)
    return (
        f"{imported}\n{importing}\n\n"
        f"def test_{target.name.replace('.', '_')}_scales(headway):\n"
        f'    """As measured: {workers} {SHORT[model]}."""\n'
        f"    result = headway({name}{arguments})\n"
        f"    assert result.scales({SHORT[model]}={workers}, at_least={least:.3g})\n"
    )


def _first_arguments(target: Target) -> tuple[str, str]:
    inputs = target.inputs
    if inputs["kind"] == "json":
        value = inputs["value"]
        if isinstance(value, dict):
            return f", {_by_name(value)}" if value else "", ""
        return "".join(f", {one!r}" for one in value), ""
    if inputs["kind"] == "named":
        name = inputs["name"]
        elements = f"{name}() if callable({name}) else {name}"
        return (
            ", *example",
            (
                f"from {inputs['module']} import {name.partition('.')[0]}\n\n"
                f"example = next(iter({elements}))\nexample = example if isinstance(example, tuple) else (example,)\n"
            ),
        )
    return "", ""
