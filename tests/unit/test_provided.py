"""The interpreters of a run: those that it is provided with after its first look, and those that are passed over."""

from contextlib import nullcontext

import pytest
from synthetic import make_interpreter, make_machine

from headway import lab
from headway.errors import InterpreterError, NativeError, UsageError
from headway.host.interpreters import PassedOver
from headway.lab.kept.launched import Launch
from headway.lab.launching import chosen, runner
from headway.report.lab.claimed import warnings

HERE, BUILT = make_interpreter("3.13.0"), make_interpreter("3.14.0")


class Machine:
    """A machine on paper: its cores, its interpreters, and what has happened on it in order."""

    def __init__(self):
        self.cores = 1
        self.interpreters, self.built = [HERE], BUILT
        self.passed_over = []
        self.lacking = ""
        self.done = []

    def missing(self, variant, _interpreter):
        return "it lacks a server" if self.lacking and self.lacking in variant.label else ""

    def about_redis(self):
        return {}

    @property
    def volumes(self):
        return self

    def to_json(self):
        return {}

    def launcher(self, *_):
        def launch(cells, _block):
            self.done += [(cell.experiment, cell.interpreter) for cell in cells]
            return [Launch("ok", samples={"work_s": [1.0]}) for _ in cells]

        return nullcontext(launch)

    def provide(self):
        self.done.append("provided")
        self.interpreters = [HERE, self.built]


@pytest.fixture
def machine(monkeypatch):
    """Return a machine with one core and one interpreter, on which launches take no time."""
    made = Machine()
    monkeypatch.setattr(runner, "this_machine", lambda *_: make_machine(made.cores))
    monkeypatch.setattr(runner.doctor, "examine", list)
    monkeypatch.setattr(runner, "prepare", lambda *_, **__: made)
    monkeypatch.setattr(runner, "Processes", made.launcher)
    monkeypatch.setattr(chosen, "survey", lambda: (made.interpreters, made.passed_over))
    return made


def measured(machine, store, **choices):
    """Return what happened in a run, each thing once."""
    lab.run(lab.Request(launches=1, seed=1, store=store, **choices), provide=machine.provide)
    return list(dict.fromkeys(machine.done))


@pytest.mark.parametrize(
    ("names", "models"), [(("convoy", "sleep"), ()), (("race", "sleep"), ("asyncio",))], ids=["one core", "model"]
)
def test_the_first_look_is_at_the_first_experiment_that_has_cells(machine, tmp_path, names, models):
    """An experiment that cannot run here, as one that needs two cores, does not end a run that has others."""
    assert measured(machine, tmp_path / "r.sqlite", experiments=names, models=models) == [
        ("sleep", "3.13.0"),
        "provided",
        ("sleep", "3.14.0"),
    ]


def test_a_first_experiment_that_lacks_something_is_left_out(machine, tmp_path):
    """Its needs are checked when it is made ready, and the others run."""
    machine.lacking = "thread"

    first, *others = measured(machine, tmp_path / "r.sqlite", experiments=("countdown", "race"))
    assert (first, set(others)) == ("provided", {("race", "3.13.0"), ("race", "3.14.0")})
    run = lab.load_run(store=tmp_path / "r.sqlite")
    assert {one.reason for one in run.settings.skipped} == {"it lacks a server"}


def test_an_interpreter_that_is_provided_is_waited_for(machine, tmp_path):
    """A name that no interpreter has yet is no error before the command that brings it."""
    done = measured(machine, tmp_path / "r.sqlite", experiments=("sleep",), interpreters=("3.14",))

    assert done == ["provided", ("sleep", "3.14.0")]


def test_an_interpreter_that_is_not_provided_either_is_an_error(machine, tmp_path):
    """The error is that of a run without anything provided, after the command."""
    with pytest.raises(InterpreterError, match=r"`3\.15`"):
        measured(machine, tmp_path / "r.sqlite", experiments=("sleep",), interpreters=("3.15",))
    assert machine.done == ["provided"]


WITH_MODEL = make_interpreter("3.14.0", models=(*HERE.models, "interpreters"), missing_models={})


@pytest.mark.parametrize("names", [(), ("all",)])
def test_an_interpreter_that_can_run_a_chosen_model_is_waited_for(machine, tmp_path, monkeypatch, names):
    """Those that are there run the baseline only, and the command brings one that runs the model."""
    monkeypatch.setattr(machine, "built", WITH_MODEL)
    done = measured(
        machine, tmp_path / "r.sqlite", experiments=("cpu-bound",), models=("interpreters",), interpreters=names
    )

    assert done[0] == "provided"
    assert ("cpu-bound", "3.14.0") in done


@pytest.mark.parametrize(
    ("experiments", "interpreters", "models", "error", "is_provided"),
    [
        (("cpu-bound",), (), ("interpreters",), "none before 3.12", True),
        (("cpu-bound",), ("3.13",), ("interpreters",), "none before 3.12", False),
        (("countdown",), (), ("interpreters",), "interpreters", False),
    ],
    ids=["not-provided", "named", "of-no-experiment"],
)
def test_a_model_that_cannot_be_run_is_refused(
    machine, tmp_path, experiments, interpreters, models, error, is_provided
):
    """Before the command if it cannot help: the interpreters are named, or the experiments have no such model."""
    with pytest.raises(UsageError, match=error):
        measured(machine, tmp_path / "r.sqlite", experiments=experiments, interpreters=interpreters, models=models)
    assert machine.done == ["provided"] * is_provided


def test_choices_that_leave_nothing_are_refused_before_anything_is_provided(machine, tmp_path):
    """The command may take minutes, and would change nothing."""
    with pytest.raises(UsageError, match="needs two cores"):
        measured(machine, tmp_path / "r.sqlite", experiments=("convoy",))
    assert machine.done == []


SLOW = PassedOver("/opt/python3.14", "/opt/python3.14 took too long", failed=True)
OLD = PassedOver("/opt/python3.6", "/opt/python3.6 is too old", failed=False)


@pytest.mark.parametrize(("names", "told"), [((), True), (("all",), True), (("3.13",), False)])
def test_an_interpreter_that_does_not_answer_is_told_and_kept(machine, tmp_path, names, told):
    """A run of all interpreters lacks one without a trace otherwise. One that is too old was never meant."""
    machine.passed_over = [SLOW, OLD]
    said = []
    request = lab.Request(experiments=["sleep"], interpreters=names, launches=1, store=tmp_path / "r.sqlite")
    run = lab.run(request, say=said.append)

    assert said == [f"! passed over: {SLOW.why}"] * told
    assert run.settings.passed_over == (SLOW.why,) * told
    assert warnings(run) == (f"passed over: {SLOW.why}",) * told
    assert lab.load_run(store=tmp_path / "r.sqlite").settings == run.settings


@pytest.mark.parametrize(
    ("found", "names", "error"),
    [
        ([HERE], ("3.14",), "no interpreter is called `3.14`; found: 3.13; /opt/python3.14 took too long"),
        ([HERE], ("3.12",), "no interpreter is called `3.12`; found: 3.13"),
        ([], (), "no CPython 3.8 or later was found; /opt/python3.14 took too long"),
    ],
)
def test_the_error_about_a_missing_interpreter_tells_of_the_one_that_fits(machine, found, names, error):
    """A user who knows that 3.14 is there learns why it is not found."""
    machine.interpreters, machine.passed_over = found, [SLOW, OLD]
    with pytest.raises((InterpreterError, UsageError)) as caught:
        lab.run(lab.Request(experiments=["sleep"], interpreters=names))

    assert caught.value.message == error


def test_a_lab_of_the_native_library_alone_says_that_it_is_missing(machine, tmp_path, monkeypatch):
    """All cells of `convoy` load the library, and need a GIL: the library's own error has the remedy."""
    missing = NativeError("the native library was not found", hint="install a C compiler")

    def no_library():
        raise missing

    machine.cores = 2
    machine.interpreters = [HERE, make_interpreter("3.13.0", free_threaded=True)]
    monkeypatch.setattr(runner, "library_path", no_library)
    with pytest.raises(NativeError) as caught:
        measured(machine, tmp_path / "r.sqlite", experiments=("convoy",))
    assert caught.value is missing
    done = measured(machine, tmp_path / "r.sqlite", experiments=("convoy", "sleep"))
    assert done[0][0] == "sleep"  # an experiment that needs no library runs
