"""Published figures beside measured ones: ratios next to this run's, and tables with this run's figures in them.

Ratios can be compared between machines. The absolute figures of tables cannot, and their captions say so.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from headway.lab.design import ONE_WORKER, Cell, Claim, Comparison, Experiment, Level, Published, both_kinds
from headway.lab.judging.evidence import Evidence, comparisons, levels
from headway.lab.kept.results import CellResult, Run
from headway.lab.published import published_ratio, results
from headway.report.figures import EMPTY, Table, number, ratio, seconds, shown_level, unit_of, unit_of_experiment
from headway.report.lab.matching import answers, column_key, file_metric, in_row, published_amount

__all__ = ["published_tables"]


def published_tables(run: Run, experiment: Experiment) -> list[Table]:
    """Return the published figures about an experiment beside this run's."""
    table = _ratios(run, experiment)
    return [*([table] if table is not None else []), *_grids(run, experiment)]


def _compared(run: Run, experiment: Experiment) -> list[str]:
    """Return the newest interpreter with a GIL and the newest without that the experiment was measured on."""
    there = {result.cell.interpreter for result in run.of(experiment.name)}
    newest = both_kinds([one for key, one in run.interpreters.items() if key in there])
    return [one.id for one in sorted(newest, key=lambda one: one.free_threaded)]


def _setting(published: Published) -> str:
    """Return the author's setting, in the author's words."""
    column = published.top.rpartition("/")[2]
    for result in results():
        has = any(column in values for values in result.get("rows", [result.get("values", {})]))
        if result["source"] == published.source and published.setting in result["setting"] and has:
            return str(result["setting"])
    return ""


def _ratios(run: Run, experiment: Experiment) -> Table | None:
    """Return a row for each published ratio and comparison that answers it; None if nothing is answered.

    A ratio is left out if its inverse has a row already. Claims about a pair of interpreters are left out, because
    their ratio belongs to no column.
    """
    columns = [*_compared(run, experiment), ONE_WORKER]
    cells = {result.cell.label: result.cell for result in run.of(experiment.name)}
    places = list(dict.fromkeys(result.cell.placement for result in run.of(experiment.name)))
    # (source, setting) -> {ratio's name: (published, measured by column)}
    found: dict[tuple[str, str], dict[str, tuple[str, list[str]]]] = {}
    for claim, published, piece in _pairs(run, experiment, cells):
        there = [ONE_WORKER] if claim.scope == "native" else columns[:-1]
        for place in places:
            placed = replace(piece, placement=place) if piece.placement in {"", place} else None
            evidence = {key: _evidence(run, experiment, placed, key) for key in there} if placed is not None else {}
            measured = [ratio(one.interval) if one and one.interval else EMPTY for one in map(evidence.get, columns)]
            what, inverse = (_what(one, cells) + f", {place}" * (len(places) > 1) for one in (piece, _inverse(piece)))
            of_source = found.setdefault((published.source, _setting(published)), {})
            if set(measured) != {EMPTY} and (what == inverse or inverse not in of_source):
                of_source.setdefault(what, (number(published_ratio(published)), measured))
    found = {key: rows for key, rows in found.items() if rows}
    if not found:
        return None
    marks = _marks(list(found))
    rows = [
        (marks[key], what, figure, *measured)
        for key in sorted(found, key=lambda key: marks[key])
        for what, (figure, measured) in found[key].items()
    ]
    used = [place for place in range(len(columns)) if any(row[3 + place] != EMPTY for row in rows)]
    caption = "published ratios and the ratios of this run [interval]\n" + "\n".join(
        f"{marks[source, setting]}: {setting}" for source, setting in sorted(found, key=lambda key: marks[key])
    )
    return Table(
        caption,
        ("", "", "published", *(run.names[columns[place]] for place in used)),
        tuple((*row[:3], *(row[3 + place] for place in used)) for row in rows),
        names=2,
    )


def _pairs(
    run: Run, experiment: Experiment, cells: Mapping[str, Cell]
) -> Iterator[tuple[Claim, Published, Comparison | Level]]:
    """Yield every published ratio of the claims with each piece of evidence that answers it."""
    for claim in experiment.claims:
        if claim.scope == "pair" or not claim.published:
            continue
        pieces = [piece for piece in claim.evidence(run.machine) if isinstance(piece, Comparison | Level)]
        for published in claim.published:
            for piece in answers(published, _setting(published), pieces, cells):
                yield claim, published, piece


def _evidence(run: Run, experiment: Experiment, piece: Comparison | Level, interpreter: str) -> Evidence | None:
    found = (
        levels(run, experiment, piece, interpreter)
        if isinstance(piece, Level)
        else comparisons(run, experiment, piece, interpreter)
    )
    return next(found, None)


def _inverse(piece: Comparison | Level) -> Comparison | Level:
    return replace(piece, top=piece.bottom, bottom=piece.top) if isinstance(piece, Comparison) else piece


def _what(piece: Comparison | Level, cells: Mapping[str, Cell]) -> str:
    """Return a ratio's name, as `threads / serial, 1 MiB`, with the setting once if both sides have it."""
    if isinstance(piece, Level):
        return f"{piece.metric.replace('_', ' ')} of {piece.label}"
    top, bottom = cells.get(piece.top), cells.get(piece.bottom)
    if top is None or bottom is None or not top.setting or top.setting != bottom.setting:
        return f"{piece.top} / {piece.bottom}"
    return f"{top.series} / {bottom.series}, {top.setting}"


def _marks(keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Return a short name for every (source, setting): `A1`, or `A3 a` and `A3 b` where a source has several."""
    marks = {}
    for source, setting in keys:
        settings = [other for of, other in keys if of == source]
        letter = f" {chr(ord('a') + settings.index(setting))}" if len(settings) > 1 else ""
        marks[source, setting] = source + letter
    return marks


def _grids(run: Run, experiment: Experiment) -> Iterator[Table]:
    """Yield every published table of the experiment, with this run's figures in its rows and columns."""
    wanted = {*_compared(run, experiment), ONE_WORKER}
    measured = [result for result in run.of(experiment.name) if result.cell.interpreter in wanted and result.ok]
    for published in results():
        if published["experiment"] == experiment.name and "rows" in published:
            table = _grid(run, experiment, measured, published)
            if table is not None:
                yield table


def _grid(
    run: Run, experiment: Experiment, measured: Sequence[CellResult], published: Mapping[str, Any]
) -> Table | None:
    first, *columns = published["rows"][0]
    matching = [one for one in measured if column_key(one.cell.series) in columns or _of_files(one, columns)]
    rows = []
    for row in published["rows"]:
        for names, together in _lines(run, row, matching, columns).items():
            cells = []
            for column in columns:
                beside = published_amount(row[column], published["unit"])
                cells.append(f"{_measured(experiment, together, column)} ({beside})")
            name = seconds(row[first]) if first == "interval" else str(row[first])
            rows.append((name, names, *cells))
    if not rows:
        return None
    headings = [_heading(measured, column) for column in columns]
    caption = f"measured (published): the machines differ, so compare shapes and not values\n{published['source']}: {published['setting']}"
    return Table(caption, (first, "", *headings), tuple(rows), names=2)


def _of_files(result: CellResult, columns: Sequence[str]) -> bool:
    return any(file_metric(column, result) for column in columns)


def _lines(
    run: Run, row: Mapping[str, Any], matching: Sequence[CellResult], columns: Sequence[str]
) -> dict[str, list[CellResult]]:
    """Return the cells of a published row by line: by interpreter, and by placement and series if there are several."""
    placements = {result.cell.placement for result in matching}
    series = {result.cell.series for result in matching if _of_files(result, columns)}
    lines: dict[str, list[CellResult]] = {}
    for result in matching:
        cell = result.cell
        if in_row(row, cell):
            words = [
                run.names[cell.interpreter],
                *[cell.placement] * (len(placements) > 1),
                *[cell.series] * (len(series) > 1),
            ]
            lines.setdefault(", ".join(words), []).append(result)
    return lines


def _measured(experiment: Experiment, together: Sequence[CellResult], column: str) -> str:
    """Return this run's figure for a published column: a cell of that series, or that file's metric of a cell."""
    for result in together:
        metric = file_metric(column, result)
        if metric:
            return shown_level(result, metric, unit_of(metric), plain=True)
        if column_key(result.cell.series) == column:
            return shown_level(result, experiment.metric, unit_of_experiment(experiment), plain=True)
    return EMPTY


def _heading(measured: Sequence[CellResult], column: str) -> str:
    """Return the heading of a column: the cells' own name for it, else the author's."""
    ours = (result.cell.series for result in measured if column_key(result.cell.series) == column)
    return next(ours, column.replace("_", " "))
