"""The page of a run in a real browser: verdicts first, plots with filters, and the same figures as on the terminal."""

import csv
import itertools
import json
from dataclasses import replace

import pytest
from browser_pages import until
from synthetic import make_cell, make_interpreter

from headway.lab.experiments import experiment
from headway.lab.kept.settings import SESSION
from headway.report import experiment_tables
from headway.report.html import lab_page, render_page

pytestmark = pytest.mark.slow

OLD, NEW = make_interpreter("3.12.1"), make_interpreter("3.13.0")


def made(series, interpreter, values, *, model="serial", **params):
    one = make_cell("countdown", series, interpreter.id, params=params, model=model)
    return one, {"work_s": [[value] for value in values]}


@pytest.fixture
def run(make_run):
    cells = [
        made(
            "1 thread" if threads == 1 else f"{threads} threads",
            one,
            [1.0 + threads / 10 + i / 50 for i in range(5)],
            model="threads",
            n=1,
            threads=threads,
        )
        for one in (OLD, NEW)
        for threads in (1, 2, 4, 8)
    ]
    return make_run(cells, [OLD, NEW])


@pytest.fixture
def heated(make_run):
    """Return a run with a heat map from light to dark."""
    cells = []
    for threads in (1, 2, 4):
        for setting, interval_s in (("5 ms", 0.005), ("1 ms", 0.001), ("100 us", 1e-4), ("10 us", 1e-5)):
            params = {"threads": threads, "switch_interval_s": interval_s}
            series = f"{threads} thread{'s' * (threads > 1)}"
            one = make_cell("countdown-switch-interval", series, NEW.id, setting=setting, params=params)
            cells.append((one, {"work_s": [[threads * (1 + 1e4 * interval_s)]]}))
    return make_run(cells, [NEW])


def test_the_first_screen_has_the_machine_and_the_verdicts(open_page, run):
    """The first screen shows the machine, the interpreters, and each claim with its verdict and figure."""
    page = open_page(render_page(lab_page(run)))
    heading = page.inner_text("header")
    rows = page.locator("#verdicts tbody tr")

    assert "CPython 3.12 (3.12.1), 3.13 (3.13.0)" in heading
    assert rows.count() == len(experiment("countdown").claims)
    assert "more threads do not reduce the time under a GIL" in rows.first.inner_text()
    assert page.locator("#verdicts").bounding_box()["y"] < 800
    page.get_by_label("verdicts shown").select_option("not measured")
    assert sum(row.is_visible() for row in rows.all()) < rows.count()


def test_every_figure_of_the_terminal_is_in_the_page(open_page, run):
    """The page's figures include each cell of each of the terminal's tables."""
    page = open_page(render_page(lab_page(run)))
    page.locator("#countdown .data summary").click()
    text = page.inner_text("#countdown .data")

    (table,) = experiment_tables(run, experiment("countdown"))
    for row in table.rows:
        for one in row:
            assert one in text


def test_interpreters_switch_off_in_every_plot(open_page, run):
    """An interpreter that is switched off disappears from the plot, and comes back when it is switched on."""
    page = open_page(render_page(lab_page(run)))
    section = page.locator("#countdown")
    section.get_by_text("More plots").click()
    rows = section.locator("figure.dots g.row")
    rows.first.wait_for()
    assert rows.count() == 8
    page.get_by_label("3.12", exact=True).uncheck()
    assert rows.count() == 4
    page.get_by_label("threads", exact=True).uncheck()
    assert rows.count() == 0
    assert "nothing of this is switched on" in section.locator("figure.dots").inner_text()
    page.get_by_label("3.12", exact=True).check()
    page.get_by_label("threads", exact=True).check()
    assert rows.count() == 8


def test_a_closed_plot_is_drawn_at_its_width_when_it_opens(open_page, run):
    """A choice after a page was printed leaves plots without a width alone, as closed ones are in some browsers."""
    page = open_page(render_page(lab_page(run)), width=390)
    dots = page.locator("#countdown figure.dots")
    dots.evaluate("one => { one.style.display = 'none'; }")
    page.evaluate("['beforeprint', 'afterprint'].forEach(name => dispatchEvent(new Event(name)))")
    page.get_by_label("3.12", exact=True).uncheck()
    page.locator("#countdown").get_by_text("More plots").click()
    dots.evaluate("one => { one.style.display = ''; }")
    dots.locator("g.row").first.wait_for()

    width = dots.locator("svg").get_attribute("viewBox").split()[2]
    assert float(width) == dots.locator(".plot").evaluate("one => one.clientWidth")


def test_a_test_session_shows_how_its_rounds_are_spread(open_page, make_run):
    """A session's page has a histogram for each benchmark, with all of its rounds; those of a group share a scale."""
    rounds = [1 + place / 100 for place in range(99)]
    cells = [
        (make_cell("countdown", series, NEW.id, setting="both"), {"work_s": [[factor * one for one in rounds]]})
        for series, factor in (("old", 1.0), ("new", 0.5))
    ]
    page = open_page(render_page(lab_page(make_run(cells, [NEW], size=SESSION))))
    rows = page.locator("#countdown figure.histogram g.row")
    rows.first.wait_for()

    assert rows.count() == 2
    counts = [
        sum(int(one.text_content().split()[0]) for one in row.locator("rect.bin title").all()) for row in rows.all()
    ]
    assert counts == [99, 99]
    left = [row.locator("rect.bin").first.bounding_box()["x"] for row in rows.all()]
    assert left[1] < left[0]


def test_a_plot_has_each_launch_and_the_ideal(open_page, run):
    """A plot shows four cells of five launches, and the line of the work if it were divided evenly."""
    page = open_page(render_page(lab_page(run)))
    chart = page.locator("#countdown figure.lines").first
    chart.scroll_into_view_if_needed()

    assert chart.locator(".launch").count() == 20
    assert chart.locator(".ideal").count() == 1
    assert chart.locator("svg").get_attribute("role") == "img"
    chart.locator("select").select_option(label="3.12")
    assert chart.locator(".launch").count() == 20


def test_busy_cores_are_drawn_over_time(open_page, run):
    """Each cell has a drawing of its busy cores, with each phase in words; a cell that was never counted has none."""
    stretches = [("set-up", 0.5, 0.25), ("warm-up", 1.0, 0.5), ("timed", 3.0, 4.0)]
    facts = {
        "timed_s": 2.0,
        "utilisation": {"0": 1.0, "1": 1.0},
        "course": [dict(zip(("phase", "until_s", "busy_s"), one, strict=True)) for one in stretches],
    }
    uncounted = next(iter(run.results))
    for key, result in run.results.items():
        told = {one: facts[one] for one in ("timed_s", "utilisation")} if key == uncounted else facts
        told = {**told, "voluntary_switches": 0, "involuntary_switches": 0}
        launches = tuple(replace(one, launch=replace(one.launch, facts=told)) for one in result.launches)
        run.results[key] = replace(result, launches=launches)
    page = open_page(render_page(lab_page(run)))
    section = page.locator("#countdown")
    section.get_by_text("More plots").click()
    drawings = section.locator("figure.cores svg.course")
    drawings.first.wait_for()

    assert drawings.count() == len(run.results) - 1
    assert drawings.first.get_attribute("aria-label") == (
        "set-up, 0 s to 500 ms: 0.5 of 2 cores busy; warm-up, 500 ms to 1 s: 1 of 2 cores busy; timed, 1 s to 3 s: 2 of 2 cores busy"
    )
    whole = drawings.first.bounding_box()
    timed = drawings.first.locator(".timed").bounding_box()
    assert timed["width"] == pytest.approx(whole["width"] * 2 / 3, abs=1)
    assert timed["height"] == pytest.approx(whole["height"], abs=1)


def test_launches_are_saved_as_csv_and_json(open_page, run, tmp_path):
    """The saved files have every launch's value, as it was measured."""
    page = open_page(render_page(lab_page(run)))
    page.locator("#countdown .data summary").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Launches as CSV").click()
    download.value.save_as(tmp_path / "launches.csv")
    with (tmp_path / "launches.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert sorted(float(row["value"]) for row in rows) == sorted(
        value for one in run.results.values() for value in one.values("work_s")
    )
    with page.expect_download() as download:
        page.get_by_role("button", name="JSON").click()
    download.value.save_as(tmp_path / "cells.json")
    assert len(json.loads((tmp_path / "cells.json").read_text())["cells"]) == 8


@pytest.mark.matrix("scheme")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_wider_than_the_page(open_page, run, width, scheme):
    """The page fits on a phone and on a desktop with everything open."""
    page = open_page(render_page(lab_page(run)), width=width, scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    until(page, "[...document.querySelectorAll('.plot')].every(one => one.children.length)")

    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_all_text_can_be_read_against_its_ground(open_page, run, heated):
    """All text meets WCAG AA: a contrast of 4.5 for every colour, in light and dark."""
    script = """() => {
      const light = c => { const v = c.map(x => x / 255).map(x => x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
                           return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2]; };
      const canvas = new OffscreenCanvas(1, 1).getContext('2d', {willReadFrequently: true});
      const rgb = text => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = text; canvas.fillRect(0, 0, 1, 1);
                            return [...canvas.getImageData(0, 0, 1, 1).data]; };
      const ground = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c[3] === 255) return c; }
                            return rgb(getComputedStyle(document.body).backgroundColor); };
      const bad = [];
      for (const e of document.querySelectorAll('main *')) {
        if (![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()) || !e.getClientRects().length) continue;
        const style = getComputedStyle(e);
        const ink = light(rgb(e instanceof SVGElement ? style.fill : style.color).slice(0, 3)), paper = light(ground(e).slice(0, 3));
        const ratio = (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
        if (ratio < 4.5) bad.push(`${e.tagName}.${e.getAttribute('class')} ${ratio.toFixed(2)} ${e.textContent.slice(0, 30)}`);
      }
      return bad; }"""
    for shown, scheme in itertools.product((run, heated), ("light", "dark")):
        page = open_page(render_page(lab_page(shown)), scheme=scheme)
        page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        until(page, "[...document.querySelectorAll('.plot')].every(one => one.children.length)")
        assert page.evaluate(script) == []
