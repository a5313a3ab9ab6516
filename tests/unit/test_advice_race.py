"""The race of `headway advise`: which models get a further launch, and when it ends; launches are made up."""

from headway.advice.racing import METRIC, Race
from headway.lab.design import Cell, Variant
from headway.lab.kept.launched import Launch


class _Kept:
    """A store that keeps nothing."""

    def add_launch(self, *_row):
        pass


class _InOrder:
    """A plan whose blocks are in the order of the cells."""

    def block(self, cells, _block):
        return [(cell,) for cell in cells]


def cell(model):
    return Cell("advise", Variant(series=model, workload="x", model=model), "free", "3.13", "advise")


def raced(times_s, *, budget_s=100.0, wall_s=1.0):
    """Return the number of launches by model; the time of block N is the Nth of a model's times, or its last."""
    spent_s, cells = [], [cell(model) for model in times_s]

    def launch(one, block):
        taken_s = times_s[one.series]
        spent_s.append(wall_s)
        return Launch(status="ok", samples={METRIC: [taken_s[min(block, len(taken_s) - 1)]]}, wall_s=wall_s)

    race = Race(
        cells, _InOrder(), launch, _Kept(), "run", "3.13", lambda _looked: budget_s - sum(spent_s), lambda *_said: None
    )
    return {result.cell.series: len(result.ok) for result in race.run().values()}


def test_a_model_far_behind_is_dropped_only_by_an_interval():
    """One launch drops no model; two do that agree, and a model whose first launch was unlucky stays."""
    found = raced({"serial": [1.0, 1.01], "threads": [50.0, 50.1], "processes-forkserver": [8.0, 0.5, 0.51, 0.5]})
    assert found["threads"] == 2
    assert found["processes-forkserver"] >= 3


def test_a_model_far_behind_gets_no_launch_that_others_need():
    """With little time left, a model that is far behind after its first launch is left out, and the others go on."""
    found = raced({"serial": [1.0, 1.01], "threads": [0.8, 0.82], "processes-forkserver": [50.0]}, budget_s=5.5)
    assert found == {"serial": 2, "threads": 2, "processes-forkserver": 1}
