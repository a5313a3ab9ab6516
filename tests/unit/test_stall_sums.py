"""Logs of stalls that may come from anywhere, their sums, and the tables of these."""

import io
import json
import math

import pytest
from rich.console import Console

from headway.report.stalls import render_stalls
from headway.traces.analysis.stall_sums import sum_up, told_rows


def text_of(rendered):
    """Return the text, with control characters as they are."""
    out = io.StringIO()
    Console(file=out, width=100).print(rendered)
    return out.getvalue()


@pytest.mark.parametrize(
    "change",
    [
        {"length_s": "1.5"},
        {"length_s": math.nan},
        {"length_s": 10**400},
        {"began": "2026-01-01T00:00:00"},
        {"pid": [1]},
        {"parts": [{"time_s": math.inf, "cause": "a"}]},
        {"parts": 1},
    ],
)
def test_a_line_that_no_watcher_wrote_is_counted_and_left_out(change):
    """Values that are no stall's would fail only in the sums, or in JSON."""
    row = {"began": "2026-01-01T00:00:00+00:00", "length_s": 1, "parts": []}

    assert told_rows([json.dumps(row | change), json.dumps(row), "[" * 100_000]) == ([row], 2)


def test_the_newest_intervals_are_shown():
    """Intervals beyond the newest ones are left out of the table, and are there on request."""
    rows = [
        {"began": f"20{year}-01-01T00:00:00+00:00", "length_s": 1.0, "parts": [], "since_ns": year}
        for year in range(10, 30)
    ]
    few, every = (text_of(render_stalls(sum_up(rows), every=one)) for one in (False, True))

    assert "2028-12-28" in few
    assert "2009-12-31" not in few
    assert "7 earlier ones left out" in few
    assert "2009-12-31" in every


def test_what_a_log_says_reaches_the_terminal_without_control_characters():
    """A log in another user's folder may hold anything."""
    part = {"time_s": 1.0, "cause": "a\x1b]0;b"}
    row = {
        "began": "2026-01-01T00:00:00+00:00",
        "length_s": 1,
        "parts": [part],
        "cause": part["cause"],
        "advice": "\x1b[2J",
    }

    assert "\x1b" not in text_of(render_stalls(sum_up([row])))
