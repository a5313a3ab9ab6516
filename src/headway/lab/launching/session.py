"""A session launches, stores, judges and reports until the agenda is done.

The launcher and the predictor are arguments.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

from headway.lab.design import Cell
from headway.lab.judging.open_claims import open_claims, telling_cells
from headway.lab.judging.verdicts import Verdict, by_claim, judge, speaking
from headway.lab.kept.headers import StoredLaunch
from headway.lab.kept.launched import Launch
from headway.lab.kept.predictions import Prediction
from headway.lab.kept.results import Run, run_of
from headway.lab.kept.store import Store
from headway.lab.launching.agenda import Agenda, Finished, Step
from headway.lab.plan import Plan

__all__ = ["Launcher", "Predict", "Progress", "Report", "Session"]

Launcher = Callable[[Sequence[Cell], int], Sequence[Launch]]
"""Launches one cell for a block, or several that take turns, and returns a launch for each; a failed launch is
returned, too."""

Predict = Callable[[Sequence[Cell], Sequence[tuple[Cell, Sequence[Launch]]]], Sequence[Prediction]]
"""Predicts the figures of cells of one experiment from its anchors' launches; leaves out the cells that it cannot
predict."""


def _nothing(_cells: Sequence[Cell], _anchors: Sequence[tuple[Cell, Sequence[Launch]]]) -> Sequence[Prediction]:
    return ()


@final
@dataclass(frozen=True)
class Progress:
    """A progress report of a run: before each launch, when an experiment has had its launches, and at the end.

    Attributes:
        run: The run's id.
        done: Launches stored so far, including those of earlier sessions of the run.
        planned: Launches in all; with a budget, the launches that the cells get regardless of results, if the time is
            not up before their experiment begins.
        budget_s: The time for all launches; None where their number is fixed.
        cell: The cell whose launch starts now; None otherwise.
        block: The number of that launch's block.
        failed: Failed launches so far.
        left_s: The time that is left of the budget, or without a budget an estimate of what the launches to come
            take; None at first.
        finished: The experiment that has had its launches; "" otherwise.
        news: Claims whose outcome differs from the last report of `finished`; None for its first report.
        results: The run so far, given with `finished`.
        due: Launches that the cells of the experiment under way still get regardless of results: also when the time
            is up.
    """

    run: str
    done: int
    planned: int
    budget_s: float | None
    cell: Cell | None
    block: int
    failed: int
    left_s: float | None
    finished: str = ""
    news: frozenset[str] | None = None
    results: Run | None = None
    due: int = 0


Report = Callable[[Progress], None]


@final
class _Attempt:
    """Carries out the steps of one plan's agenda, and knows what the store has and what the agenda has come to.

    `_stored` is all that the store has, `_so_far` what the agenda has come to. Verdicts use `_so_far` alone, so that a
    resumed run takes the same decisions as the first time.
    """

    def __init__(
        self, store: Store, run_id: str, report: Report, plan: Plan, launcher: Launcher, predict: Predict
    ) -> None:
        self._store, self._run_id, self._report = store, run_id, report
        self._plan, self._launcher, self._predict = plan, launcher, predict
        self._header = store.find_run(run_id)
        self._stored = {(one.key, one.block): one for one in store.launches(run_id)}
        self._so_far: dict[str, list[StoredLaunch]] = {}
        self._predictions = store.predictions(run_id)
        # Experiment -> the run and its verdicts from the launches so far; removed when there is a new launch.
        self._judged: dict[str, tuple[Run, list[Verdict]]] = {}
        self._foretold: set[str] = set()
        self.agenda = Agenda(
            plan, lambda experiment: open_claims(self.verdicts(experiment)[1]), telling_cells(self._results())
        )
        self._planned = sum(map(self.agenda.first_launches, plan.cells))

    def _results(self) -> Run:
        return run_of(self._header, self._plan.cells, self._so_far, self._predictions)

    def verdicts(self, experiment: str) -> tuple[Run, list[Verdict]]:
        """Return the run so far, and the verdicts on the claims of an experiment."""
        if experiment not in self._judged:
            run = self._results()
            self._judged[experiment] = run, judge(run, [run.experiment(experiment)])
        return self._judged[experiment]

    def say(
        self, cell: Cell | None = None, block: int = 0, finished: str = "", news: frozenset[str] | None = None
    ) -> None:
        """Report the progress."""
        plan, agenda = self._plan, self.agenda
        had = {key: len(launches) for key, launches in self._so_far.items()}
        to_come = [cell for cell in plan.cells for _ in range(agenda.first_launches(cell) - had.get(cell.key, 0))]
        left_s = agenda.expected_s(to_come) if self._so_far else None
        # An anchor is stored before the agenda comes to it, so the launches that are due are those that are not stored.
        stored = Counter(key for key, _ in self._stored)
        under_way = plan.of(cell.experiment) if cell is not None else ()
        due = sum(max(0, agenda.first_launches(one) - stored[one.key]) for one in under_way)
        if plan.budget_s is not None:
            left_s = max(0.0, plan.budget_s - agenda.spent_s)
        self._report(
            Progress(
                self._run_id,
                len(self._stored),
                self._planned,
                plan.budget_s,
                cell,
                block,
                sum(one.launch.status == "failed" for one in self._stored.values()),
                left_s,
                finished,
                news,
                self.verdicts(finished)[0] if finished else None,
                due,
            )
        )

    def take(self, step: Step) -> None:
        """Launch what the store lacks of a step, and tell the agenda of the step's launches."""
        experiment = step.cells[0].experiment
        if experiment not in self._foretold:
            self._foretold.add(experiment)
            self._foretell(experiment)
        missing = [cell for cell in step.cells if (cell.key, step.block) not in self._stored]
        if missing:
            self._launch(missing, step.block)
        for cell in step.cells:
            launch = self._stored[cell.key, step.block]
            self._so_far.setdefault(cell.key, []).append(launch)
            self._judged.pop(cell.experiment, None)
            self.agenda.tell(cell, launch.launch.wall_s)

    def _launch(self, cells: Sequence[Cell], block: int) -> None:
        self.say(cells[0], block)
        for cell, one in zip(cells, self._launcher(cells, block), strict=True):
            self._store.add_launch(self._run_id, cell.key, block, one)
            self._stored[cell.key, block] = StoredLaunch(cell.key, block, one)

    def _foretell(self, experiment: str) -> None:
        """Launch an experiment's anchors, and store predictions for the cells that were not launched yet."""
        labels = self._results().experiment(experiment).anchors
        cells = self._plan.of(experiment)
        known = {key for key, _ in self._stored} | self._predictions.keys()
        open_cells = [cell for cell in cells if cell.label not in labels and cell.key not in known]
        if not labels or not open_cells:
            return
        anchors = [cell for cell in cells if cell.label in labels]
        for block in range(self._plan.launches):
            for cell in anchors:
                if block < self.agenda.first_launches(cell) and (cell.key, block) not in self._stored:
                    self._launch([cell], block)
        gave = [(cell, [one.launch for one in self._stored.values() if one.key == cell.key]) for cell in anchors]
        for prediction in self._predict(open_cells, gave):
            self._store.add_prediction(self._run_id, prediction)
        self._predictions.update(self._store.predictions(self._run_id))
        self._judged.pop(experiment, None)


@final
class Session:
    """One attempt at a run: launches the agenda's steps that the store lacks, each stored before the next one begins.

    Args:
        store: The results store, open for writing.
        run_id: The run's id.
        report: Called before each launch and after each experiment.
    """

    def __init__(self, store: Store, run_id: str, report: Report) -> None:
        self._store, self.run_id, self._report = store, run_id, report
        # Experiment -> claim -> outcome, as last reported.
        self._told: dict[str, dict[str, str]] = {}

    def carry_out(
        self, plan: Plan, launcher: Launcher, *, predict: Predict = _nothing, first_look_of: str = ""
    ) -> None:
        """Launch what the plan's agenda asks for.

        Args:
            plan: The plan; it may have more cells than the plan before.
            launcher: Launches the cells.
            predict: Called once for the cells of an experiment with anchors, before the first of them is launched.
            first_look_of: Carry out only this experiment, and only the launches that its cells get regardless of
                results.

        Raises:
            StoreError: The store cannot be written.
        """
        attempt = _Attempt(self._store, self.run_id, self._report, plan, launcher, predict)
        agenda = attempt.agenda
        for step in agenda.first_look(first_look_of) if first_look_of else agenda.steps():
            if isinstance(step, Finished):
                news = self._news(step.experiment, attempt.verdicts(step.experiment)[1])
                if news is None or news:
                    attempt.say(finished=step.experiment, news=news)
            else:
                attempt.take(step)
        if not first_look_of:
            attempt.say()

    def _news(self, experiment: str, verdicts: Sequence[Verdict]) -> frozenset[str] | None:
        """Return the claims of an experiment whose outcome has changed since the last report; None the first time."""
        outcomes: dict[str, str] = {name: speaking(group).outcome for name, group in by_claim(verdicts).items()}
        before = self._told.get(experiment)
        self._told[experiment] = outcomes
        if before is None:
            return None
        return frozenset(name for name, outcome in outcomes.items() if outcome != before.get(name))

    def end(self) -> None:
        """Mark the run as complete in the store."""
        self._store.end_run(self.run_id)
