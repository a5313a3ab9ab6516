"""The order of a run's launches, with and without a budget."""

import itertools

import pytest
from synthetic import make_cell

from headway.lab.judging.open_claims import OpenClaim
from headway.lab.launching.agenda import Agenda, Finished, Step
from headway.lab.plan import Plan
from headway.lab.sequential import MOST_LAUNCHES

A, B, C = (make_cell("first", label, "i") for label in "abc")
D, E = (make_cell("second", label, "i") for label in "de")
CELLS = (A, B, C, D, E)
KEYS = [cell.key for cell in CELLS]


def plan(budget_s=None, launches=3, cells=CELLS):
    return Plan("quick", launches, budget_s, 1, 30.0, None, cells, ())


def walked(agenda, wall_s=1.0):
    """Return the steps of an agenda whose launches take `wall_s` each."""
    found = []
    for step in agenda.steps():
        found.append(step)
        if isinstance(step, Step):
            for cell in step.cells:
                agenda.tell(cell, wall_s)
    return found


def launched(steps, *cells):
    """Return how many launches among `steps` each of the cells has."""
    return [sum(isinstance(one, Step) and cell in one.cells for one in steps) for cell in cells]


def claim(name, cells, launches, to_decide):
    return OpenClaim(name, frozenset(cell.key for cell in cells), launches, to_decide)


def none_open(_experiment):
    return []


class Undecided:
    """Claims that are decided after a given number of launches of their cells."""

    telling = KEYS

    def __init__(self, **needs):
        self.needs = needs
        self.agenda = None

    def __call__(self, experiment):
        had = {key: len(took) for key, took in self.agenda._took_s.items()}
        found = []
        for name, (cells, need) in self.needs.items():
            launches = min(had.get(cell.key, 0) for cell in cells)
            if cells[0].experiment == experiment and launches < need:
                found.append(claim(name, cells, launches, need))
        return found

    def walk(self, budget_s, **more):
        self.agenda = Agenda(plan(budget_s, **more), self, self.telling)
        return walked(self.agenda)


def test_without_a_budget_every_cell_has_its_launches_and_nobody_is_asked():
    """The order is the plan's, an experiment finishes after its last launch, and no claim is examined."""

    def asked(_experiment):
        raise AssertionError("asked")

    steps = walked(Agenda(plan(), asked, ()))

    assert [(one.block, *one.cells) for one in steps if isinstance(one, Step)] == plan().order()
    assert [one for one in steps if isinstance(one, Finished)] == [Finished("first"), Finished("second")]
    assert steps[9] == Finished("first")


def test_what_is_decided_gets_no_more():
    """A budget for a hundred launches is spent only on the first looks if no claim is open."""
    steps = walked(Agenda(plan(budget_s=100.0), none_open, KEYS))

    assert launched(steps, *CELLS) == [3] * 5


def test_an_open_claim_gets_launches_of_its_cells_until_it_is_decided():
    """The cells of an open claim get launches until it is decided, and no other cell gets any."""
    steps = Undecided(open=((A, B), 8)).walk(100.0)

    assert launched(steps, *CELLS) == [8, 8, 3, 3, 3]


def test_the_budget_ends_what_is_open():
    """A budget of 20 launches allows the 15 first looks and five more, which is two blocks of two cells."""
    steps = Undecided(open=((A, B), 8)).walk(20.0)

    assert sum(launched(steps, *CELLS)) <= 20
    assert launched(steps, C, D, E) == [3, 3, 3]


def test_first_looks_come_before_more_of_the_first_experiment():
    """A claim of the first experiment takes no time that the second one's first look needs."""
    steps = Undecided(open=((A, B), 28)).walk(16.0)

    assert launched(steps, D, E) == [3, 3]


def test_no_claim_gets_more_than_the_error_is_stated_for():
    """No cell gets more than MOST_LAUNCHES, for which the error is stated, however much time is left."""
    steps = Undecided(open=((A, B), 1000)).walk(10_000.0)

    assert max(launched(steps, *CELLS)) <= MOST_LAUNCHES


def test_a_claim_that_cannot_be_decided_in_time_leaves_the_time_to_others():
    """The remaining time goes to the claim that needs least."""
    steps = Undecided(much=((A, B), 28), little=((D, E), 12)).walk(50.0)

    assert launched(steps, D, E) == [12, 12]
    assert launched(steps, A) < [28]


def test_a_claim_that_further_launches_decide_is_told():
    """A claim that further launches decide finishes its experiment again, after the first looks of all."""
    needs = Undecided(late=((A, B), 11), never=((D, E), 1000))
    steps = needs.walk(60.0)

    told = [one for one in steps if isinstance(one, Finished)]
    assert told[:2] == [Finished("first"), Finished("second")]
    assert steps[-1] == told[-1]
    assert Finished("first") in told[2:]
    assert launched(steps, A) == [11]


def test_launches_that_always_fail_come_to_an_end():
    """A claim whose launches never count is given up."""
    agenda = Agenda(plan(budget_s=10_000.0), lambda name: [claim("x", (A, B), 3, 5)] if name == "first" else [], KEYS)

    assert max(launched(walked(agenda), *CELLS)) <= MOST_LAUNCHES


def test_without_time_for_the_first_look_an_experiment_is_left_out():
    """Half a budget runs half of the experiments, and the others are not reported as finished."""
    steps = walked(Agenda(plan(budget_s=9.0), none_open, KEYS))

    assert launched(steps, *CELLS) == [3, 3, 3, 0, 0]
    assert steps[-1] == Finished("first")


def test_a_cell_that_no_claim_is_about_gets_one_launch_and_what_is_left():
    """The time for cells without a claim goes to open claims first."""
    needs = Undecided(open=((A, B), 8))
    needs.telling = [A.key, B.key, D.key]

    assert launched(needs.walk(100.0), *CELLS) == [8, 8, 3, 3, 3]
    # Eleven launches are the first looks, and ten more decide the claim. One is left, and the others of the first
    # experiment need one each.
    steps = needs.walk(22.5)
    assert launched(steps, *CELLS) == [8, 8, 2, 3, 1]
    assert [one.cells for one in steps if isinstance(one, Step)][-1] == (C,)


def test_the_same_launches_give_the_same_agenda_again():
    """The same launches give the same agenda, so that an interrupted run goes on where it was."""
    once, again = (Undecided(one=((A, B), 9), other=((D, E), 12)).walk(80.0) for _ in range(2))

    assert once == again


def test_blocks_of_an_experiment_are_numbered_on():
    """Two launches of a cell never have the same block, and the launches of a block are consecutive."""
    steps = [one for one in Undecided(one=((A, B), 9), other=((B, C), 7)).walk(90.0) if isinstance(one, Step)]

    pairs = [(cell.key, one.block) for one in steps for cell in one.cells]
    assert len(pairs) == len(set(pairs))
    of_first = [one.block for one in steps if one.cells[0].experiment == "first"]
    assert [block for block, _ in itertools.groupby(of_first)] == sorted(set(of_first))


@pytest.mark.parametrize(
    ("launches", "to_decide", "need"),
    [(3, 5, 2), (3, None, 97), (3, 900, 97), (6, 900, 0), (6, None, 94), (100, 130, 0), (100, None, 0), (5, 5, 1)],
)
def test_what_a_claim_needs(launches, to_decide, need):
    """A claim's need is estimated cautiously from few launches, and taken as it is from many."""
    assert claim("x", (A,), launches, to_decide).need == need
