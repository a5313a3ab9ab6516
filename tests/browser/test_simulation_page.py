"""The pages of simulations in a real browser: curves with their tables, and two timelines that move together."""

import pytest
from browser_pages import until
from made_runs import SLEEPERS, traced

from headway.cli.main import main
from headway.traces.writer import write

pytestmark = pytest.mark.slow

PRESET = ("--calibration", "preset")
SWEEP = ("--sweep", "threads=0..3", "--sweep", "policy=none,fair", "--seeds", "2", "--duration", "0.3")


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """Return the page of a sweep."""
    path = tmp_path_factory.mktemp("swept") / "sweep.html"
    assert main(["simulate", "convoy", *SWEEP, *PRESET, "--jobs", "1", "--html", str(path)]) == 0
    return path.read_text()


@pytest.fixture(scope="module")
def predicted(tmp_path_factory):
    """Return the page of a what-if."""
    folder = tmp_path_factory.mktemp("predicted")
    trace, path = folder / "app.hwt", folder / "fair.html"
    write(traced(SLEEPERS), trace, short_holds=True)
    assert main(["whatif", str(trace), "--policy", "fair", *PRESET, "--html", str(path)]) == 0
    return path.read_text()


def test_curves_are_drawn_with_their_bands(open_page, swept):
    """Each policy has a line, a band and four points; the lines differ by more than their colour."""
    page = open_page(swept)
    until(page, "document.querySelectorAll('.curve .plot > svg').length >= 4")

    for title, points in (("cpu work", 8), ("load done, logarithmic", 8)):
        figure = page.locator("figure.curve", has=page.locator("figcaption", has_text=title))
        plot = figure.locator(".plot > svg")
        assert plot.locator("path.line").count() == 2
        assert plot.locator("path.band").count() == 2
        assert plot.locator("g.row").count() == points
        assert [one.inner_text() for one in figure.locator(".legend li").all()] == ["policy=none", "policy=fair"]
        # Circles and squares.
        assert (plot.locator("g.row circle").count(), plot.locator("g.row rect").count()) == (4, 4)
        title_of_point = plot.locator("g.row title").first.text_content()
        assert title_of_point is not None
        assert title_of_point.startswith("policy=none, threads=0: ")


def test_a_curve_has_a_table_view(open_page, swept):
    """The button, also by keyboard, replaces the curve with its table, and the table with the curve."""
    page = open_page(swept)
    figure = page.locator("figure.curve").nth(1)
    button = figure.get_by_role("button", name="Table")
    button.focus()
    page.keyboard.press("Enter")

    assert figure.locator("table").is_visible()
    assert not figure.locator(".plot").is_visible()
    assert figure.locator("thead th").all_inner_texts() == ["threads", "policy=none", "policy=fair"]
    assert figure.locator("tbody tr").count() == 4
    figure.get_by_role("button", name="Curve").click()
    assert figure.locator(".plot > svg").is_visible()
    assert not figure.locator("table").is_visible()


def test_the_trace_and_what_is_predicted_zoom_together(open_page, predicted):
    """The timelines are equally long, with the trace's above; the wheel over one, and a drag in one, move both."""
    page = open_page(predicted)
    assert page.locator("canvas").count() == 2
    assert page.locator(".launch h2").all_inner_texts() == ["in the trace", "predicted"]
    assert page.evaluate("headwayTimelines[0].span === headwayTimelines[1].span")

    page.locator("canvas").nth(1).scroll_into_view_if_needed()
    box = page.locator("canvas").nth(1).bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 40)
    for _ in range(4):
        page.mouse.wheel(0, -200)
    until(page, "headwayTimelines[1].window.to - headwayTimelines[1].window.from < 0.2 * headwayTimelines[1].span")
    windows = page.evaluate("headwayTimelines.map(one => [one.window.from, one.window.to])")
    assert windows[0] == windows[1]

    page.locator("canvas").first.focus()
    page.keyboard.press("ArrowRight")
    moved = page.evaluate("headwayTimelines.map(one => [one.window.from, one.window.to])")
    assert moved[0] == moved[1]
    assert moved[0][0] > windows[0][0]


def test_a_what_if_says_what_it_gives_and_rests_on(open_page, predicted):
    """The table of roles with intervals is above the timelines, and the findings of both are below."""
    page = open_page(predicted)

    table = page.locator("table").first
    assert table.locator("thead th").all_inner_texts() == ["role", "", "in the trace", "predicted", "80 % interval"]
    assert "sleeper *" in table.inner_text()
    text = page.inner_text("main")
    assert text.index("What this rests on") < text.index("in the trace\n") < text.index("Threads")
    assert "the predicted timeline is one simulated run" in text


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_wider_than_the_page(open_page, swept, predicted, width):
    """The pages fit on a phone and on a desktop."""
    for html in (swept, predicted):
        page = open_page(html, width=width, scheme="dark")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
