"""The published figures, with their sources: `published.toml` beside this file.

They are ratios' material only: an author's absolute figure, on the author's machine, is never something to match.
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
    """Return what the letters of sources stand for: title, kind, date, machine."""
    return dict(_document()["source"])


def published_ratio(wanted: Published) -> float:
    """Return the published ratio. Raises LookupError where published.toml has no such figure."""
    for result in results():
        values = result.get("values", {})
        if result["source"] == wanted.source and wanted.setting in result["setting"] and wanted.top in values:
            return float(values[wanted.top]) / float(values[wanted.bottom] if wanted.bottom else 1)
    raise LookupError(f"published.toml has no {wanted.top} of {wanted.source} ({wanted.setting or 'any setting'})")
