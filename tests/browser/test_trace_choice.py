"""The choice of a hold, of a wait and of a time off the GIL in the timeline, and what the page tells of each."""

import os
from dataclasses import replace

import pytest
from browser_pages import html_of, lane_of, place, settle, until, window
from made_traces import MS
from told_traces import AT_RECV, AT_SERVE, SERVE, Script, convoy

from headway.report.html import render_page, trace_page
from headway.traces.analysis import analyse
from headway.traces.model import Kind

pytestmark = pytest.mark.slow


def test_a_wait_says_who_held_meanwhile(open_page):
    """A wait that is selected with the mouse shows its length, its stack, and its holder, whose name leads to the hold."""
    page = open_page(html_of(("", convoy())))
    lane = lane_of(page, "reader")
    wait = page.evaluate(
        f"(() => {{ const m = headwayTimelines[0].model; const [f] = m.rows({lane}, 'wait'); return [m.wait.start[f + 3], m.wait.end[f + 3]]; }})()"
    )
    page.evaluate(f"headwayTimelines[0].show({{from: {wait[0]} - 1e6, to: {wait[1]} + 1e6}})")
    settle(page)
    page.mouse.click(*place(page, lane, 0.5))

    chosen = page.locator(".selection")
    assert chosen.locator("h3").inner_text() == "reader waited 5 ms for the GIL"
    assert [one.inner_text() for one in chosen.locator(".stack code").all()] == ["SocketIO.readinto", "serve"]
    row = chosen.locator("tbody tr")
    assert row.count() == 1
    assert row.inner_text().split("\t")[:3] == ["cruncher", "5 ms", "100 %"]

    row.get_by_role("button", name="cruncher").click()
    assert chosen.locator("h3").inner_text().startswith("cruncher held the GIL")
    assert "at the request of another thread" in chosen.inner_text()


def test_a_time_off_the_gil_says_where_the_thread_was(open_page):
    """A thread that waits 80 ms for a lock of the program is a thin line: a click on it shows the line and the time."""
    script = Script().hold(0, 0, 10, stack=AT_RECV).hold(0, 90, 91).hold(1, 20, 30)
    page = open_page(html_of(("", script.trace(100, "one", "two"))))
    page.mouse.click(*place(page, lane_of(page, "one"), 0.5))

    chosen = page.locator(".selection")
    assert chosen.locator("h3").inner_text() == "one was off the GIL for 80 ms"
    assert "it was in the call where it had released it" in chosen.inner_text()
    assert [one.inner_text() for one in chosen.locator(".stack code").all()] == ["SocketIO.readinto", "serve"]
    page.mouse.move(*place(page, lane_of(page, "one"), 0.6))
    assert page.locator("canvas").get_attribute("title").startswith("off the GIL for 80 ms, SocketIO.readinto (")

    page.mouse.click(*place(page, lane_of(page, "two"), 0.1))
    assert "the line is not known" in chosen.inner_text()
    page.mouse.click(*place(page, lane_of(page, "two"), 0.25))
    assert chosen.locator("h3").inner_text() == "two held the GIL for 10 ms"


def test_an_end_that_was_not_seen_is_told_as_such(open_page):
    """A hold without a recorded release is not told as released, and one that the window cuts goes on."""
    trace = Script().hold(0, 0, 30).add(40, 0, Kind.ACQUIRE).trace(60, "one")
    page = open_page(html_of(("", trace)))
    page.evaluate("headwayTimelines[0].select({lane: 0, kind: 'hold', row: 0})")
    assert "released by the thread itself" in page.inner_text(".selection")
    page.evaluate("headwayTimelines[0].select({lane: 0, kind: 'hold', row: 1})")
    told = page.inner_text(".selection")
    assert "its end was not recorded" in told
    assert "released" not in told

    part = analyse(trace, since_ns=trace.start_ns + 10 * MS, until_ns=trace.start_ns + 20 * MS)
    page = open_page(render_page(*trace_page([("", [(trace, part)])], "0")))
    page.evaluate("headwayTimelines[0].select({lane: 0, kind: 'hold', row: 0})")
    told = page.inner_text(".selection")
    assert "it began before this window; it goes on beyond this window" in told
    assert "released" not in told


def test_marks_lead_to_the_convoys_and_the_longest_holds(open_page):
    """A mark shows and selects its wait."""
    page = open_page(html_of(("", convoy())))
    page.get_by_role("button", name="which waits in convoys").first.click()
    settle(page)

    shown = window(page)
    assert shown[1] - shown[0] == pytest.approx(15, rel=0.01)
    assert page.locator(".selection h3").inner_text() == "reader waited 5 ms for the GIL"


def test_marks_lead_to_the_longest_waits_for_a_lock(open_page, tmp_path):
    """Threads that are blocked on a lock of the program have no bar in the timeline; a mark chooses the time off the GIL."""
    source = tmp_path / "app.py"
    source.write_text("\n" * 29 + "    with guard_lock:\n")
    os.utime(source, (0, 0))
    script = Script().hold(1, 0, 1)
    for turn in range(5):
        script.hold(0, 100 * turn, 100 * turn + 10, stack=AT_SERVE)
    trace = script.hold(0, 480, 481).trace(500, "one", "two")
    trace = replace(
        trace, frames=tuple(replace(one, filename=str(source)) if one == SERVE else one for one in trace.frames)
    )
    page = open_page(html_of(("", trace)))
    marks = page.get_by_role("button", name="one was blocked on a lock of the program for 90 ms at")
    assert marks.count() == 3
    marks.first.click()

    assert page.locator(".selection h3").inner_text() == "one was off the GIL for 90 ms"
    assert page.locator(".selection .stack code").all_inner_texts() == ["serve"]


def test_each_thread_of_a_pool_is_shown_on_request(open_page):
    """Tables have a pool as one row; the row of each thread is made when a reader opens it, and only once."""
    page = open_page(html_of(("", convoy(rounds=40, waiters=[f"conn-{number}" for number in range(20)]))))
    matrix = page.locator("section:has(> h3)").filter(has_text="time that a thread waited behind").last

    assert "conn-* x 20" in matrix.inner_text()
    assert "conn-7" not in [cell.inner_text() for cell in matrix.locator("tbody th").all()]
    assert matrix.locator("details table").count() == 0

    matrix.get_by_text("Each thread (21)").click()
    until(page, "document.querySelector('details[open] table') !== null")
    assert matrix.locator("details th[scope=row]").all_inner_texts().count("conn-7") == 1
    matrix.get_by_text("Each thread (21)").click()
    until(page, "document.querySelector('details[open]') === null")
    matrix.get_by_text("Each thread (21)").click()
    until(page, "document.querySelector('details[open]') !== null")
    assert matrix.locator("details table").count() == 1
