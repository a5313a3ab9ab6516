"""Tables of predicted figures of cells beside measured ones."""

from collections.abc import Sequence

from headway.lab.design import Errors, Experiment
from headway.lab.judging.foretold import off
from headway.lab.kept.predictions import Span
from headway.lab.kept.results import CellResult, Run
from headway.report.figures import EMPTY, Table, amount, metric_words, ratio, unit_of

__all__ = ["predicted_tables"]


def predicted_tables(run: Run, experiment: Experiment, results: Sequence[CellResult]) -> list[Table]:
    """Return a table for each predicted metric: each cell's prediction, measured level, and the factor between them.

    An experiment that predicts nothing has no table. A cell without a prediction is included if it should have had one.
    """
    to_predict = [one for one in results if experiment.anchors and one.cell.label not in experiment.anchors]
    metrics = dict.fromkeys(metric for one in to_predict if one.prediction for metric in one.prediction.figures)
    least = _least(run, experiment)
    return [_table(run, to_predict, metric, least.get(metric, 0)) for metric in metrics]


def _least(run: Run, experiment: Experiment) -> dict[str, int]:
    """Return, by metric, the number of requests that a launch needs to be judged, from the claims."""
    pieces = [piece for claim in experiment.claims for piece in claim.evidence(run.machine)]
    return {piece.metric: piece.least for piece in pieces if isinstance(piece, Errors)}


def _table(run: Run, results: Sequence[CellResult], metric: str, least: int) -> Table:
    unit = unit_of(metric)
    rows = []
    for one in results:
        span = one.prediction.figures.get(metric) if one.prediction is not None else None
        found = off(one, metric, least=least)
        level = one.level(metric)
        measured = EMPTY if level is None else amount(level.value, unit)
        said = "not predicted" if one.prediction is None else EMPTY if span is None else _span(span, unit)
        rows.append(
            (
                f"{one.cell.setting}, {one.cell.placement}",
                f"{one.cell.series}, {run.names[one.cell.interpreter]}",
                said,
                measured,
                EMPTY if found is None else ratio(found.factor),
            )
        )
    caption = f"{metric_words(metric)}: predicted before the first launch [least - greatest of seeds], and measured"
    if least:
        caption += f"; launches of fewer than {least} requests a sample do not count"
    return Table(caption, ("", "", "predicted", "measured", "off by a factor [interval]"), tuple(rows), names=2)


def _span(span: Span, unit: str) -> str:
    return f"{amount(span.median, unit)} [{amount(span.low, unit)} - {amount(span.high, unit)}]"
