"""From experiments to launches."""

import itertools

import pytest
from synthetic import make_interpreter, make_machine

from headway.errors import UsageError
from headway.lab.experiments import experiment, experiments
from headway.lab.plan import cell_from_json, cell_to_json, make_plan, refuse_nothing


def plan(names=("cpu-bound",), interpreters=None, machine=None, **choices):
    chosen = [experiment(name) for name in names]
    values = {"size": "quick", "seed": 1, **choices}
    return make_plan(chosen, interpreters or [make_interpreter()], machine or make_machine(), **values)


def test_every_cell_is_launched_once_a_block():
    """The order has each cell exactly once in each block."""
    made = plan(("cpu-bound", "sleep"), [make_interpreter("3.8.1"), make_interpreter("3.13.0")], launches=3)

    order = made.order()

    assert len(order) == 3 * len(made.cells) == len({(block, cell.key) for block, cell in order})


def test_the_seed_alone_decides_the_order():
    """The same seed gives the same order, and another seed another order."""
    keys = [[(block, cell.key) for block, cell in plan(seed=seed).order()] for seed in (1, 1, 2)]

    assert keys[0] == keys[1] != keys[2]


def test_compared_cells_stand_next_to_each_other():
    """The cells of a group are neighbours within a block, and their order changes from block to block."""
    made = plan(("cpu-bound", "sleep"), [make_interpreter("3.8.1"), make_interpreter("3.13.0")], launches=6)

    for _, block in itertools.groupby(made.order(), key=lambda item: (item[1].experiment, item[0])):
        groups = [group for group, _ in itertools.groupby(cell.group for _, cell in block)]
        assert len(groups) == len(set(groups)) == 2
    inner = {
        tuple(cell.label for b, cell in made.order() if b == block and cell.group == "sleep|free|3.8.1")
        for block in range(6)
    }
    assert len(inner) > 1


def test_experiments_come_one_after_another():
    """All blocks of an experiment are consecutive, in the order that was asked for, so that each is done early."""
    made = plan(("sleep", "cpu-bound"), launches=3)

    assert [name for name, _ in itertools.groupby(cell.experiment for _, cell in made.order())] == [
        "sleep",
        "cpu-bound",
    ]
    assert [block for block, _ in itertools.groupby(block for block, _ in made.order())] == [0, 1, 2] * 2


def test_the_telling_experiments_come_first():
    """Experiments with the most to tell come first, and each is there once."""
    names = [one.name for one in experiments()]

    assert names[:8] == ["convoy", "policies", "cpu-bound", "sha256", "countdown", "race", "sleep", "http-sleep"]
    assert len(names) == len(set(names))


def test_interpreters_are_neighbours_where_they_are_compared():
    """The interpreters of single-thread are one group, because it compares them."""
    made = plan(("single-thread",), [make_interpreter("3.8.1"), make_interpreter("3.13.0")])

    assert {cell.group for cell in made.cells} == {"single-thread|free|kernels"}


def test_a_model_choice_keeps_the_baseline():
    """`--model processes` means every start method, and includes the baseline for the ratios."""
    assert {cell.label for cell in plan(models=["processes"]).cells} == {
        "serial",
        "processes-spawn",
        "processes-forkserver",
    }


def test_a_model_choice_brings_no_baseline_where_nothing_else_fits():
    """`--model interpreters` leaves out experiments without such a variant, with their baseline."""
    fit = make_interpreter("3.13.0", models=("serial", "threads", "interpreters"))
    made = plan(("cpu-bound", "sleep", "race"), [fit], models=["interpreters"])

    assert {cell.key.rpartition("|")[0] for cell in made.cells} == {
        "cpu-bound|serial|free",
        "cpu-bound|interpreters|free",
    }


def test_a_placement_choice_leaves_other_experiments_out_silently():
    """Cells that were not asked for are not reported as impossible."""
    fit = make_interpreter("3.14.0", models=("threads", "processes-spawn"), cross_interpreter_queue=True)
    made = plan(("sleep", "context-switch-one-way"), [fit], placement="same")

    assert {cell.experiment for cell in made.cells} == {"context-switch-one-way"}
    assert made.skipped == ()


def test_what_an_interpreter_cannot_run_is_skipped_with_its_reason():
    """Sub-interpreters before 3.12 are skipped with a reason, and do not fail."""
    skipped = plan().skipped

    assert [(one.label, one.reason) for one in skipped] == [("interpreters", "none before 3.12")]


def test_split_needs_two_cores():
    """The split cells are skipped on one core, and the others run."""
    made = plan(("context-switch-one-way",), machine=make_machine(1))

    assert {cell.placement for cell in made.cells} == {"same"}


def test_native_cells_run_once_or_say_why_not():
    """C cells are planned once per run, not per interpreter, and skipped without a library."""
    interpreters = [make_interpreter("3.8.1"), make_interpreter("3.13.0")]
    made = plan(("context-switch-one-way",), interpreters)
    without = plan(("context-switch-one-way",), interpreters, native_missing="no compiler")

    assert sum(cell.interpreter == "native" for cell in made.cells) == 4
    assert {one.reason for one in without.skipped} == {"no compiler"}


def test_cells_that_load_the_library_are_left_out_where_it_cannot_be_loaded():
    """Without the library or ctypes, neither the load client nor a policy can run; units of plain Python still can."""
    names = ("convoy", "ccbench-throughput")
    without = plan(names, native_missing="no compiler")
    blind = plan(names, [make_interpreter(ctypes=False)])

    for made, reason in ((without, "no compiler"), (blind, "cannot import ctypes")):
        assert all(reason in one.reason for one in made.skipped)
        assert {cell.experiment for cell in made.cells} == {"ccbench-throughput"}
        assert not any(cell.variant.params["policy"] for cell in made.cells)


def test_cells_of_bz2_are_left_out_where_there_is_none():
    """An interpreter without bz2 runs the other units of CPU-bound work."""
    made = plan(("convoy-cases",), [make_interpreter(missing_modules={"bz2": "No module named '_bz2'"})])

    assert {one.reason for one in made.skipped} == {"No module named '_bz2'"}
    assert {cell.series for cell in made.cells} == {"alone", "beside 1 CPU thread"}


@pytest.mark.parametrize(
    ("choices", "what"),
    [
        ({"models": ["interpreters"]}, "none before 3.12"),
        ({"models": ["fibres"]}, "cpu-bound does not run with the model `fibres`"),
        ({"models": ["threads", "fibres"]}, r"\) has the model `fibres`"),
        ({"placement": "split"}, "cpu-bound does not run with placement `split`"),
    ],
)
def test_contradictory_choices_are_refused_before_anything_runs(choices, what):
    """A choice that leaves nothing, or names nothing, is a UsageError that says so."""
    made = plan(**choices)
    chosen = [experiment(name) for name in choices.get("names", ("cpu-bound",))]
    with pytest.raises(UsageError, match=what) as caught:
        refuse_nothing(made, chosen, choices.get("models", ()), choices.get("placement"))

    assert caught.value.hint


@pytest.mark.parametrize(
    ("choices", "hint"),
    [
        ({}, "use two cores, or name other experiments"),
        ({"models": ["threads"]}, "leave out `--model`, use two cores, or name other experiments"),
        ({"placement": "same"}, "leave out `--placement`, or name other experiments"),
    ],
)
def test_the_hint_names_what_was_given(choices, hint):
    """Where nothing is left to run, no option is to be left out that was not there."""
    made = plan(("convoy",), machine=make_machine(1), **choices)
    with pytest.raises(UsageError) as caught:
        refuse_nothing(made, [experiment("convoy")], choices.get("models", ()), choices.get("placement"))

    assert caught.value.hint.partition(";")[0] == hint


def test_cells_survive_the_store():
    """Every cell of every experiment at every size is the same after a round trip through JSON."""
    for size in ("quick", "standard", "published"):
        made = make_plan(experiments(), [make_interpreter()], make_machine(), size=size, seed=1)
        for cell in made.cells:
            assert cell_from_json(cell_to_json(cell)) == cell


def test_cell_keys_are_unique():
    """No two cells of a run share a key."""
    made = make_plan(experiments(), [make_interpreter()], make_machine(), size="standard", seed=1)

    assert len({cell.key for cell in made.cells}) == len(made.cells)


def test_cells_that_take_turns_share_a_launch_but_for_those_without_a_gil():
    """cpu-bound on 3.13 is one process a block, and on 3.13t one for each variant.

    A cell still has one launch a block.
    """
    made = plan(
        ("cpu-bound",), [make_interpreter("3.13.0"), make_interpreter("3.13.5", free_threaded=True)], launches=2
    )

    for number in range(2):
        launches = made.block(made.cells, number)
        together = [cells for cells in launches if len(cells) > 1]
        assert [{cell.interpreter for cell in cells} for cells in together] == [{"3.13.0"}]
        assert all(cells[0].interpreter == "3.13.5t" for cells in launches if len(cells) == 1)
        assert sorted(cell.key for cells in launches for cell in cells) == sorted(cell.key for cell in made.cells)


def test_what_needs_a_server_or_files_takes_no_turns():
    """A cell with a server or files takes no turns, because its launch needs these for itself."""
    for one in plan(("http-sleep", "file-io", "convoy", "redis-set")).cells:
        assert not one.turns
