"""Helpers that tests of pages share."""

import json
import time

from playwright.sync_api import Page

from headway.report.html import render_page, trace_page
from headway.traces.analysis import analyse

PATIENCE_S = 30
LABELS_PX = 170
AXIS_PX = 22
LANE_PX = 26


def until(page: Page, condition: str) -> None:
    """Wait until a condition of the page is true.

    Playwright's own wait uses `eval`, which the page's content security policy forbids.
    """
    end_s = time.monotonic() + PATIENCE_S
    while not page.evaluate(condition):
        assert time.monotonic() < end_s, f"never: {condition}"
        page.evaluate("new Promise(done => requestAnimationFrame(done))")


def html_of(*launches):
    """Return the page of `launches`, each of which is a label and a trace."""
    return render_page(*trace_page([(label, [(trace, analyse(trace))]) for label, trace in launches], "0"))


def window(page, launch=0):
    """Return the window that a timeline shows, in ms."""
    one = page.evaluate(f"headwayTimelines[{launch}].window")
    return one["from"] / 1e6, one["to"] / 1e6


def settle(page):
    """Wait for the next frame."""
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def place(page, lane, share, launch=0):
    """Return the position of a lane at a share of the timeline's width."""
    canvas = page.locator("canvas").nth(launch)
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    labels = min(LABELS_PX, max(80, box["width"] * 0.2))
    wide = box["width"] - labels - 8
    return box["x"] + labels + wide * share, box["y"] + AXIS_PX + LANE_PX * lane + LANE_PX / 2


def lane_of(page, label):
    return page.evaluate(f"headwayTimelines[0].model.view.lanes.findIndex(lane => lane.label === {json.dumps(label)})")
