"""Notes under an experiment's tables."""

from dataclasses import replace

import pytest
from synthetic import make_cell, make_interpreter

from headway.lab.experiments import experiment
from headway.lab.kept.launched import Launch
from headway.report.lab.notes import experiment_notes

GIL = make_interpreter()
MACHINE = {"timed_s": 2.0, "utilisation": {"0": 1.0, "1": 1.0}, "voluntary_switches": 6, "involuntary_switches": 0}
"""A serial launch beside a program that takes the other core."""


def busy_note(make_run, *facts):
    """Return the note on busy cores of a run with a launch for each of these facts."""
    cell = make_cell("cpu-bound", "serial", GIL.id)
    run = make_run([(cell, {"work_s": [[1.0]] * len(facts)})], [GIL])
    result = run.results[cell.key]
    launches = tuple(
        replace(one, launch=Launch("ok", samples=one.launch.samples, facts=fact, wall_s=1.0))
        for one, fact in zip(result.launches, facts, strict=True)
    )
    run.results[cell.key] = replace(result, launches=launches)
    (note,) = [one for one in experiment_notes(run, experiment("cpu-bound")) if one.startswith("busy cores")]
    return note


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (
            [{**MACHINE, "own_busy_s": 2.0}],
            "busy cores of the launches' own processes (and context switches): serial 1.0 (3/s)",
        ),
        (
            [{**MACHINE, "own_busy_s": 2.0}, {**MACHINE, "own_busy_s": 1.0}],
            "busy cores of the launches' own processes (and context switches): serial 0.8 (3/s)",
        ),
        (
            [MACHINE],
            "busy cores, other programs' included (and context switches): serial 2.0 (3/s)",
        ),
    ],
    ids=["one", "mean", "of an older version"],
)
def test_busy_cores_are_those_of_the_series(make_run, facts, said):
    """A series has the cores that its launches used; stores of older versions have the machine's, and the words for it."""
    assert busy_note(make_run, *facts) == said
