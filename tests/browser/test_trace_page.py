"""The timeline in a real browser: it zooms, moves, selects and searches, and shows names only as text."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from browser_pages import AXIS_PX, LANE_PX, html_of, lane_of, place, settle, until, window
from made_traces import made_trace
from told_traces import Script, convoy

from headway.report.html import render_page, trace_page
from headway.traces.analysis import analyse
from headway.traces.analysis.intervals import recorded

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_tells_what_the_report_tells(open_page):
    """The page has the report's findings with their advice, the thread's row, and the blame."""
    page = open_page(html_of(("", convoy())))

    text = page.inner_text("main")
    for words in ("reader waited 20 times (199/s) for the GIL behind cruncher", "Waiters and holders", "reader [102]"):
        assert words in text
    assert page.title() == "app.py (pid 4242) - Headway"


def test_wheel_drag_and_keys_zoom_and_move(open_page):
    """The wheel keeps the time under the pointer, a drag moves the window by its length, and Home shows everything."""
    page = open_page(html_of(("", convoy())))
    whole = window(page)
    x, y = place(page, 0, 0.25)
    page.mouse.move(x, y)
    under = whole[0] + 0.25 * (whole[1] - whole[0])
    for _ in range(6):
        page.mouse.wheel(0, -120)
    until(page, "headwayTimelines[0].window.to - headwayTimelines[0].window.from < 2e7")
    near = window(page)

    assert near[0] + 0.25 * (near[1] - near[0]) == pytest.approx(under, rel=0.02)

    start, end = place(page, 0, 0.5), place(page, 0, 0.75)
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move(*end, steps=5)
    page.mouse.up()
    moved = window(page)
    assert moved[0] == pytest.approx(near[0] - 0.25 * (near[1] - near[0]), abs=0.05 * (near[1] - near[0]))

    page.locator("canvas").focus()
    page.keyboard.press("ArrowRight")
    assert window(page)[0] > moved[0]
    page.keyboard.press("+")
    assert window(page)[1] - window(page)[0] < 0.7 * (moved[1] - moved[0])
    page.keyboard.press("Home")
    assert window(page) == whole


def test_the_keyboard_alone_goes_through_waits_and_holds(open_page):
    """Arrow keys select a thread, n and p its next and previous wait or hold, and the selection is spoken."""
    page = open_page(html_of(("", convoy())))
    page.locator("canvas").focus()
    page.keyboard.press("ArrowDown")
    first = page.locator(".spoken").inner_text()
    page.keyboard.press("n")
    second = page.locator(".spoken").inner_text()
    page.keyboard.press("p")

    assert first != second
    assert page.locator(".spoken").inner_text() == first
    page.keyboard.press("Escape")
    assert page.locator(".selection").count() == 0


def test_the_focus_stays_where_the_keyboard_is(open_page):
    """A bar or a holder that is chosen with Enter is drawn anew, and the focus is on it or on what it led to."""
    page = open_page(html_of(("", convoy())))
    focused = "document.activeElement.getAttribute('aria-label') ?? document.activeElement.innerText"
    bar = page.locator(".flame").nth(1).get_by_role("button", name="serve").first
    bar.focus()
    for _ in range(2):  # into the frame, and back
        page.keyboard.press("Enter")
        assert page.evaluate(focused).startswith("serve")

    lane = lane_of(page, "reader")
    row = page.evaluate(f"headwayTimelines[0].model.rows({lane}, 'wait')[0]")
    page.evaluate(f"headwayTimelines[0].select({{lane: {lane}, kind: 'wait', row: {row}}})")
    page.locator(".selection").get_by_role("button", name="cruncher").focus()
    page.keyboard.press("Enter")
    assert page.evaluate(focused).startswith("cruncher held the GIL")


def test_the_keyboard_goes_through_all_lanes_from_the_first(open_page):
    """The first arrow key chooses the first lane, and a lane without an interval of its own is spoken by its times."""
    page = open_page(html_of(("", convoy())))
    labels = page.evaluate("headwayTimelines[0].model.view.lanes.map(lane => lane.label)")
    page.evaluate("(() => { const one = headwayTimelines[0].model.view.lanes[1]; one.holds = one.waits = 0; })()")
    page.locator("canvas").focus()
    page.keyboard.press("ArrowDown")
    assert page.locator(".spoken").inner_text().startswith(f"{labels[0]} ")
    page.keyboard.press("ArrowDown")
    assert page.locator(".spoken").inner_text().startswith(f"{labels[1]}: held ")


def test_the_wheel_scrolls_lanes_over_their_names(open_page):
    """Over the names the wheel scrolls down and up, and leaves the window as it is."""
    script = Script()
    for thread in range(40):
        script.hold(thread, thread, thread + 0.5)
    page = open_page(html_of(("", script.trace(50, *(f"thread-{one}" for one in range(40))))))
    whole = window(page)
    x, y = place(page, 3, 0)
    page.mouse.move(x - 50, y)
    page.mouse.wheel(0, 200)
    until(page, "headwayTimelines[0].canvas.closest('.scroller').scrollTop === 200")
    page.mouse.wheel(0, -200)
    until(page, "headwayTimelines[0].canvas.closest('.scroller').scrollTop === 0")
    assert window(page) == whole


def test_a_search_finds_threads_and_functions(open_page):
    """A search reports how many matches there are and for how long, and goes from one to the next."""
    page = open_page(html_of(("", convoy())))
    search = page.get_by_role("searchbox")
    search.fill("readinto")
    assert "1 line of code" in page.locator("output").inner_text()
    assert "waited 100 ms" in page.locator("output").inner_text()
    search.press("Enter")
    assert page.locator(".selection h3").inner_text().startswith("reader waited")
    search.fill("cruncher")
    assert page.locator("output").inner_text() == "1 thread: held 100 ms, waited 400 us"
    search.press("Enter")
    assert page.locator(".selection h3").inner_text().startswith("cruncher")
    search.fill("nowhere")
    assert page.locator("output").inner_text() == "not found"


def test_a_bar_of_a_flame_graph_opens(open_page):
    """A frame that is clicked becomes the whole width, and a click goes back."""
    page = open_page(html_of(("", convoy())))
    flame = page.locator(".flame").nth(1)
    bar = flame.get_by_role("button", name="serve")
    whole = flame.bounding_box()["width"]
    bar.first.click()
    top = flame.locator("button").first
    assert "serve" in top.get_attribute("aria-label")
    assert top.bounding_box()["width"] == pytest.approx(whole, rel=0.01)
    top.click()
    assert "waited" in flame.locator("button").first.get_attribute("aria-label")


def test_two_traces_move_together(open_page):
    """Two timelines on one page zoom together."""
    page = open_page(html_of(("before", convoy()), ("after", convoy(rounds=5))))
    assert [one.inner_text() for one in page.locator(".launch h2").all()] == ["before", "after"]
    assert window(page, 0) == window(page, 1)
    page.mouse.move(*place(page, 0, 0.5))
    page.mouse.wheel(0, -300)
    until(page, "headwayTimelines[0].window.from > 0")

    assert window(page, 0) == window(page, 1)


def test_the_picture_of_the_readme_is_made_by_the_guides_commands(open_page, tmp_path):
    """Real traces of the guide's example show that `fair` answers the server's requests more often than no policy."""
    example = ROOT / "docs" / "guides" / "examples" / "convoy.py"
    guide = (ROOT / "docs" / "guides" / "look-at-it.md").read_text(encoding="utf-8")
    commands = [line.split()[1:] for line in guide.splitlines() if line.startswith("headway ") and ".hwt" in line]
    assert len(commands) == 3
    for command in commands:
        arguments = [one for one in command if one != "--open"]
        if "convoy.py" in arguments:
            arguments[arguments.index("convoy.py") :] = [str(example), "0.5"]
        done = subprocess.run(
            [sys.executable, "-m", "headway", *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    page = open_page((tmp_path / "convoy.html").read_text(encoding="utf-8"))

    assert [one.inner_text() for one in page.locator(".launch h2").all()] == ["before", "after"]
    before, after = page.evaluate(
        "headwayTimelines.map(one => one.model.view.lanes.find(lane => lane.label === 'server').holds)"
    )
    assert after > before > 0


def family():
    """Return a page's processes: a parent and its child."""
    return [(one, analyse(one)) for one in (convoy(), convoy(rounds=5, pid=4243, parent_pid=4242))]


def test_a_process_is_chosen_and_the_window_stays(open_page):
    """A process can be selected beside another launch, and both windows stay as they were."""
    launches = [("before", family()), ("after", [(convoy(), analyse(convoy()))])]
    page = open_page(render_page(*trace_page(launches, "0")), width=390)
    assert page.title() == "app.py (2 processes) beside app.py (pid 4242) - Headway"
    assert page.evaluate("document.documentElement.scrollWidth") <= 390

    page.evaluate("headwayTimelines[1].show({from: 2e7, to: 6e7})")
    assert window(page, 0) == (20, 60)
    page.get_by_label("process").select_option("1")
    until(page, "headwayTimelines[0].model.view.title === 'app.py (pid 4243)'")
    assert window(page, 0) == (20, 60)
    page.get_by_label("process").select_option("0")
    until(page, "headwayTimelines[0].model.view.title === 'app.py (pid 4242)'")


def test_what_a_launch_lacked_stands_above_each_of_its_processes(open_page):
    """The line about all processes of a launch is the first one, whichever process is chosen."""
    traces = []
    for number in range(3):
        script = Script()
        for now in range(0, 1000, 100):
            script.hold(0, now, now + 100, ran=0.2)
        traces.append(script.trace(1000, "MainThread", pid=4242 + number, core_count=1))
    page = open_page(render_page(*trace_page([("", [(one, analyse(one)) for one in traces])], "0")))

    for process in range(3):
        page.get_by_label("process").select_option(str(process))
        until(page, f"headwayTimelines[0].model.view.title === 'app.py (pid {4242 + process})'")
        words = page.locator("main p:not(:has(select))").first.inner_text()
        assert words.startswith("3 of 3 processes needed cores that they did not get (1 core): together they held")


def test_a_process_without_events_is_not_said_to_have_no_gil(open_page):
    """The choice of processes has the use of a GIL if there was one; the heading tells whether a process has a GIL."""
    idle = Script().trace(5, pid=4243)
    page = open_page(render_page(*trace_page([("", [(one, analyse(one)) for one in (convoy(), idle)])], "0")))

    first, second = page.get_by_label("process").locator("option").all_inner_texts()
    assert first.startswith("app.py (pid 4242): held 100 % of the time")
    assert second == "app.py (pid 4243)"


def test_a_page_without_anything_says_so(open_page):
    """A page on which no thread held or waited says so, promises no lane, and ignores keys."""
    page = open_page(html_of(("", Script().trace(5))))
    page.locator("canvas").focus()
    for key in ("ArrowDown", "n", "p", "+", "Home"):
        page.keyboard.press(key)

    assert "no thread held or waited" in page.inner_text("main")


def test_what_is_painted_is_what_was_held(open_page):
    """The lane has as much blue as the GIL was held in the window, to a few per cent, at every zoom."""
    trace = made_trace(events=40_000, threads=2, seed=4, cpu_share=0)
    page = open_page(html_of(("", trace)))
    script = """length => {
      const one = headwayTimelines[0], m = one.model; one.show({from: one.span * 0.3, to: one.span * 0.3 + length});
      return new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => {
        const into = new Float32Array(1); m.shares(0, 'hold', one.window.from, one.window.to, into);
        const scale = devicePixelRatio, labels = Math.min(170, Math.max(80, one.canvas.clientWidth * 0.2));
        const wide = Math.floor(one.canvas.clientWidth - labels - 8);
        const hex = getComputedStyle(document.documentElement).getPropertyValue('--hold').trim();
        const blue = [1, 3, 5].map(at => parseInt(hex.slice(at, at + 2), 16));
        const copy = new OffscreenCanvas(one.canvas.width, one.canvas.height).getContext('2d', {willReadFrequently: true});
        copy.drawImage(one.canvas, 0, 0);
        const pixels = copy.getImageData(Math.ceil(labels * scale), 26 * scale, wide * scale, 18 * scale).data;
        let painted = 0;
        for (let at = 0; at < pixels.length; at += 4) if (blue.every((c, i) => Math.abs(c - pixels[at + i]) < 60)) painted += 1;
        done([into[0], painted / (pixels.length / 4)]);
      }))); }"""
    span = trace.end_ns - trace.start_ns
    for part in (1, 0.3, 0.1, 0.05, 0.03, 0.02, 0.01, 0.003):
        true, painted = page.evaluate(script, span * part)
        assert painted == pytest.approx(true, abs=0.12), part


def test_paper_is_light_and_has_everything(open_page):
    """A page printed from a dark screen turns light with its timeline, and has the names of threads and functions."""
    page = open_page(html_of(("", convoy())), scheme="dark")
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")

    assert page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--card').trim()") == "#ffffff"
    # A redraw takes place in a frame; a second read would cause a warning of Chromium's.
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))")
    corner = page.evaluate(
        "[...document.querySelector('.printed canvas').getContext('2d').getImageData(2, 40, 1, 1).data]"
    )
    assert corner == [255, 255, 255, 255]
    assert page.get_by_role("button", name="which waits in convoys").first.is_visible()
    assert page.locator(".flame .bar").first.is_visible()
    assert not page.get_by_role("searchbox").is_visible()
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--card').trim()") != "#ffffff"


def test_paper_has_all_threads(open_page):
    """A printed timeline has the lanes that would have to be scrolled to, no blank space, and afterwards looks as before."""
    script = Script()
    for thread in range(250):
        script.hold(thread, thread, thread + 0.5)
    trace = script.trace(300, *(f"thread-{one}" for one in range(250)))
    few = replace(trace, events=trace.events[:80])
    heights = """(() => { const one = headwayTimelines[0], scroller = one.canvas.closest('.scroller');
      return [scroller.scrollHeight, scroller.clientHeight, one.canvas.clientHeight, scroller.scrollTop]; })()"""
    pieces = """[...document.querySelectorAll('.printed canvas')].map(one => [one.clientWidth, one.clientHeight])"""
    for one, lanes in ((few, 40), (trace, 200)):
        page = open_page(html_of(("", one)))
        page.evaluate("headwayTimelines[0].canvas.closest('.scroller').scrollTop = 50")
        before = page.evaluate(heights)
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        page.emulate_media(media="print")
        settle(page)
        assert page.evaluate(heights)[1] == 0
        sizes = page.evaluate(pieces)
        scale = sizes[0][0] / page.evaluate("headwayTimelines[0].width")
        seen = sum((height / scale - AXIS_PX) / LANE_PX for _, height in sizes)
        assert seen == pytest.approx(lanes, rel=0.02)
        assert ("200 of 250 lanes; the table of threads has all threads" in page.inner_text(".timeline")) == (
            lanes == 200
        )
        page.emulate_media(media="screen")
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        settle(page)
        assert page.evaluate(heights) == before
        assert page.evaluate(pieces) == []
        assert "of 250 lanes" not in page.inner_text(".timeline")


@pytest.mark.parametrize("width", [390, 1280])
def test_no_page_break_cuts_through_a_lane(open_page, width):
    """On paper a tall timeline is in pieces that fit on a page, each with the axis and whole lanes."""
    script = Script()
    for thread in range(60):
        script.hold(thread, thread, thread + 0.5)
    page = open_page(html_of(("", script.trace(100, *(f"thread-{one}" for one in range(60))))), width=width)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    settle(page)

    pieces = page.evaluate(
        """[...document.querySelectorAll('.printed canvas')].map(one => [
          one.clientWidth, one.clientHeight, getComputedStyle(one).breakInside])"""
    )
    assert len(pieces) > 1
    lanes = 0.0
    for wide, high, breaks in pieces:
        assert breaks == "avoid"
        assert high <= 0.62 * wide
        of_piece = (high * page.evaluate("headwayTimelines[0].width") / wide - AXIS_PX) / LANE_PX
        assert of_piece == pytest.approx(round(of_piece), abs=0.1)
        lanes += round(of_piece)
    assert lanes == 60


def test_a_hostile_name_is_only_text(open_page):
    """A hostile name is shown as it is, and runs nothing: no dialog, no request, no error."""
    hostile = "</script><img src=x onerror=alert(1)>"
    trace = convoy()
    trace = replace(trace, threads=(replace(trace.threads[0], name=hostile), *trace.threads[1:]))
    page = open_page(html_of(("", trace)))

    assert hostile in page.inner_text("main")
    assert page.locator("img").count() == 0


def test_what_is_saved_for_perfetto_is_what_is_shown(open_page, tmp_path):
    """The saved file has the window's holds and waits."""
    page = open_page(html_of(("", convoy())))
    with page.expect_download() as download:
        page.get_by_role("button", name="Save the window for Perfetto").click()
    download.value.save_as(tmp_path / "window.json")
    events = json.loads((tmp_path / "window.json").read_text())["traceEvents"]

    found = recorded(convoy())
    names = [event["name"] for event in events]
    assert (names.count("waits"), names.count("holds the GIL")) == (len(found.waits), len(found.holds))


@pytest.mark.matrix("scheme")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_wider_than_the_page(open_page, width, scheme):
    """The page fits on a phone and on a desktop, in light and dark, and its lanes have colours."""
    page = open_page(html_of(("", convoy())), width=width, scheme=scheme)

    assert page.evaluate("document.documentElement.scrollWidth") <= width
    settle(page)
    colours = page.evaluate(
        "(() => { const c = headwayTimelines[0].canvas; const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
        " const s = new Set(); for (let i = 0; i < d.length; i += 4) s.add(d[i] + ',' + d[i+1] + ',' + d[i+2]); return s.size; })()"
    )
    assert colours > 3


def test_a_million_events_are_shown_and_zoomed(open_page, request):
    """A page with a million events, a quarter of them in a sample, has every hold, and one can be selected after zooming in."""
    events = 1_000_000 if request.config.getoption("--matrix") == "full" else 250_000
    trace = made_trace(events=events, threads=6, seed=1)
    page = open_page(html_of(("", trace)))

    holds = page.evaluate("headwayTimelines[0].model.hold.start.length")
    assert holds == len(recorded(trace).holds) > events / 4
    page.mouse.move(*place(page, 0, 0.4))
    for _ in range(30):
        page.mouse.wheel(0, -200)
    until(page, "headwayTimelines[0].window.to - headwayTimelines[0].window.from < 1e6")
    page.locator("canvas").focus()
    page.keyboard.press("n")
    assert page.locator(".selection h3").is_visible()
