"""Published figures with their sources, read from `published.toml` beside this module.

The lab uses the figures only for ratios. An author's absolute figure, from the author's machine, is never a target.
"""

import functools
import tomllib
from importlib import resources
from typing import Any

from headway.lab.design import Published

__all__ = ["published_ratio", "results", "sources"]


@functools.cache
def _document() -> dict[str, Any]:
    text = resources.files("headway.lab").joinpath("published.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def results() -> tuple[dict[str, Any], ...]:
    """Return every published result: `source`, `experiment`, `setting`, `unit`, and `values` or `rows`."""
    return tuple(_document()["result"])


def sources() -> dict[str, str]:
    """Return the sources by their letters: title, kind, date and machine of each."""
    return dict(_document()["source"])


def published_ratio(wanted: Published) -> float:
    """Return the published ratio.

    Raises:
        LookupError: published.toml has no such figure.
    """
    top = _value(wanted.source, wanted.setting, wanted.top)
    bottom = 1.0
    if wanted.bottom:
        setting = wanted.bottom_setting or (wanted.setting if not wanted.bottom_source else "")
        bottom = _value(wanted.bottom_source or wanted.source, setting, wanted.bottom)
    return top / bottom * wanted.scale


def _value(source: str, setting: str, key: str) -> float:
    row_name, _, column = key.rpartition("/")
    for result in results():
        if result["source"] != source or setting not in result["setting"]:
            continue
        for row in result.get("rows", [result.get("values", {})]):
            begins = str(next(iter(row.values()), ""))
            if column in row and (not row_name or begins == row_name):
                return float(row[column])
    raise LookupError(f"published.toml has no {key} of {source} ({setting or 'any setting'})")
