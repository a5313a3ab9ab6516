"""Make the reference page of what `--json` prints, from the docstrings of the classes and functions that it is made of."""

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from headway.advice.values import Advice
from headway.cli import lab_command, simulate_command, top_view, whatif_command
from headway.dask.figures import TaskFigures, WorkerFigures
from headway.host.doctor import Check
from headway.host.interpreters import Interpreter
from headway.lab.kept.headers import RunHeader
from headway.lab.kept.settings import Settings
from headway.native import Policy, PolicyOption
from headway.report.lab import export, machines
from headway.sim.calibration import Calibration
from headway.sim.overload import Overload
from headway.sim.result import Outcome
from headway.sim.summary import Summary
from headway.sim.whatif import Prediction, RolePrediction
from headway.traces.analysis import json_form
from headway.traces.analysis.stall_sums import StallSums

__all__ = ["OUTPUTS", "fields", "json_outputs"]

_Source = type[Any] | Callable[..., Any]

OUTPUTS: Sequence[tuple[str, str, Sequence[tuple[str, _Source]]]] = (
    (
        "headway lab, and headway report of a run",
        "",
        (
            ("the whole", export.run_to_json),
            ("settings", Settings),
            ("cells", export.cell_to_json),
            ("verdicts", export.verdict_to_json),
        ),
    ),
    (
        "headway lab --list",
        "A list of experiments; `--explain` prints one.",
        (("an experiment", lab_command._described),),  # noqa: SLF001
    ),
    (
        "headway lab --dask",
        "Also `cluster`, the id that the runs have in common, and `lost`, the machines that were lost.",
        (("the whole", machines.machines_to_json),),
    ),
    ("headway compare", "", (("the whole", export.comparison_to_json),)),
    (
        "headway runs",
        "A list of runs; each also has `complete`, whether all launches are done.",
        (("a run", RunHeader),),
    ),
    (
        "headway interpreters",
        "`interpreters` is a list; `passed_over` has a sentence for each interpreter that gave no answer.",
        (("interpreters", Interpreter),),
    ),
    ("headway doctor", "A list of checks.", (("a check", Check),)),
    ("headway calibrate", "", (("the whole", Calibration),)),
    ("headway advise", "A value that is infinite is null.", (("the whole", Advice),)),
    (
        "headway policies",
        "`policies` is a list; `options` are those that every policy has besides its own.",
        (("policies", Policy), ("options", PolicyOption)),
    ),
    (
        "headway simulate",
        "`--list` prints the titles of the built-in scenarios by name.",
        (
            ("the whole", simulate_command._json),  # noqa: SLF001
            ("points", Summary),
            ("outcomes", Outcome),
            ("overloads", Overload),
        ),
    ),
    (
        "headway whatif",
        "With a change, a prediction; without one, a ranking.",
        (
            ("a prediction", Prediction),
            ("roles", RolePrediction),
            ("a ranking", whatif_command._ranked_json),  # noqa: SLF001
        ),
    ),
    (
        "headway stalls",
        "Also `cannot_tell`, the files that cannot show whether there were stalls.",
        (("the whole", StallSums.to_json),),
    ),
    (
        "headway top",
        "One object for each interval, in a line.",
        (
            ("an interval", top_view.to_json),
            ("processes", top_view.process_to_json),
            ("threads", top_view.thread_to_json),
        ),
    ),
    (
        "headway dask",
        "One object for each interval, in a line; `workers` is a list.",
        (("workers", WorkerFigures), ("tasks", TaskFigures)),
    ),
)
"""Heading, words above the tables, and for each table its name and the class or function whose docstring has the fields.

A class is the form of an object if it is written as it is; else the function is named that makes the object.
"""
_SECTION = re.compile(r"^(?:Attributes|Fields):\n((?:    .*\n|\n)+)", re.MULTILINE)
_FIELD = re.compile(r"^    (\w+(?:, \w+)*): (.*(?:\n {8}.*)*)", re.MULTILINE)


def fields(source: _Source) -> dict[str, str]:
    """Return the fields that a docstring tells of, with their meanings; several that are told together are one entry."""
    section = _SECTION.search(f"{inspect.getdoc(source)}\n")
    return dict(_FIELD.findall(section[1])) if section else {}


def json_outputs() -> Iterator[str]:
    """Yield the lines of the page on JSON."""
    yield "# JSON"
    yield ""
    yield "This page is made from the docstrings of the code that `--json` prints from."
    yield "In a name, `_s` and `_ns` are the unit, and a share is from 0 to 1; in the meanings, None is null and () is []."
    yield "An interval is an object with `value`, `low` and `high`."
    for heading, words, tables in OUTPUTS:
        yield ""
        yield f"## {heading}"
        yield ""
        yield words
        for name, source in tables:
            yield ""
            yield f"**{name}**"
            yield ""
            yield "| field | meaning |"
            yield "|---|---|"
            for names, meaning in fields(source).items():
                told = ", ".join(f"`{one}`" for one in names.split(", "))
                yield f"| {told} | {' '.join(meaning.replace('|', chr(92) + '|').split())} |"
    yield ""
    yield "## headway report of a trace"
    yield ""
    yield "`processes` is a list, the worst process first; this is one of them."
    yield ""
    yield inspect.getdoc(json_form) or ""
