"""Matches published figures with measured cells: authors name things in one way, cells in another.

Only this module knows both. Names are compared as keys: "2 CPU threads" is `cpu_2`, "1 thread" is `threads_1`,
"asyncio" is the beginning of `asyncio_gather`, and "processes-spawn" begins with `processes`. A name may also be a part
of a cell's setting.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from headway.lab.design import Cell, Comparison, Level, Published
from headway.lab.kept.results import CellResult
from headway.report.figures import amount

__all__ = ["answers", "column_key", "file_metric", "in_row", "published_amount", "same_thing"]

_COUNTED = re.compile(r"(\d+) (?:(CPU) (?:thread|task)s?|threads?)\b")


def column_key(series: str) -> str:
    """Return a series, or a part of a setting, as a key of published.toml: `cpu_2`, `threads_8`, else its words."""
    counted = _COUNTED.match(series)
    if counted:
        return f"{'cpu' if counted[2] else 'threads'}_{counted[1]}"
    return re.sub(r"\W+", "_", series.lower()).strip("_")


def same_thing(key: str, series: str) -> bool:
    """Whether a published key and a series name the same thing; one may be more specific than the other."""
    own = column_key(series)
    return key == own or own.startswith(f"{key}_") or key.startswith(f"{own}_")


def in_row(row: Mapping[str, Any], cell: Cell) -> bool:
    """Whether a cell belongs to a row of a published table: by its switch interval, or by its setting's name."""
    if "interval" in row:
        interval_s = cell.variant.params.get("switch_interval_s")
        return interval_s is not None and math.isclose(interval_s, row["interval"])
    return "run" in row and cell.setting == row["run"]


def file_metric(key: str, result: CellResult) -> str:
    """Return the metric of a published column for one file of several (`file_2`), or "" if the cell has none."""
    metric = f"{key}_bytes_per_s"
    return metric if key.startswith("file_") and result.samples(metric) else ""


def published_amount(value: float, unit: str) -> str:
    """Return a published figure in the form of this run's figures, from the unit in published.toml."""
    for name, ours, factor in (
        ("s", "s", 1.0),
        ("ms", "s", 1e-3),
        ("us", "s", 1e-6),
        ("requests/s", "per_s", 1.0),
        ("switches/s", "per_s", 1.0),
        ("MB/s per file", "bytes_per_s", 1e6),
    ):
        if unit == name:
            return amount(value * factor, ours)
    return f"{value:g} {unit}"


def answers(
    published: Published, setting: str, pieces: Sequence[Comparison | Level], cells: Mapping[str, Cell]
) -> list[Comparison | Level]:
    """Return the pieces of a claim's evidence that measure the subject of a published ratio.

    These are the pieces whose names agree, and among them those whose setting is nearest to the author's. If no name
    agrees and there is only one piece, that piece is returned: a claim's figures are about its evidence.

    Args:
        published: The published ratio.
        setting: The author's setting, from published.toml.
        pieces: The claim's comparisons and levels.
        cells: A cell by label, for facts that its name does not have.
    """
    named = [piece for piece in pieces if _names_agree(published, piece, cells)]
    if not named:
        return list(pieces) if len(pieces) == 1 else []
    near = [_nearness(setting, cells[_top(piece)]) for piece in named]
    return [piece for piece, one in zip(named, near, strict=True) if one == max(near)]


def _top(piece: Comparison | Level) -> str:
    return piece.label if isinstance(piece, Level) else piece.top


def _names_agree(published: Published, piece: Comparison | Level, cells: Mapping[str, Cell]) -> bool:
    if isinstance(piece, Level):
        return _names(published.top, piece.label, cells)
    bottom = not published.bottom or _names(published.bottom, piece.bottom, cells)
    return bottom and _names(published.top, piece.top, cells)


def _names(key: str, label: str, cells: Mapping[str, Cell]) -> bool:
    """Whether a published key, with its row if it is of a table, names the cell called `label`."""
    row, _, column = key.rpartition("/")
    cell = cells.get(label)
    if cell is None or not any(same_thing(column, part) for part in (cell.series, *_parts(cell))):
        return False
    if not row:
        return True
    try:
        return in_row({"interval": float(row)}, cell)
    except ValueError:
        return in_row({"run": row}, cell)


def _parts(cell: Cell) -> list[str]:
    """Return the parts of a cell's setting: "10 MiB, disk" has two."""
    return list(cell.variant.setting)


def _nearness(setting: str, cell: Cell) -> tuple[int, int]:
    """Return how many parts the cell's setting shares with the author's, and minus the number that it does not."""
    parts = _parts(cell)
    shared = sum(re.search(rf"\b{re.escape(part)}\b", setting) is not None for part in parts)
    return shared, shared - len(parts)
