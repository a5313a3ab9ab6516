"""`headway top` with little room, without colour, or with a hostile name; and what it is not for."""

import asyncio
import itertools
import os
import threading
from dataclasses import replace

import pytest
from live_image import make_snapshot

from headway.cli import top_view
from headway.cli.main import main
from headway.cli.top_app import TopApp
from headway.live.counters import difference
from headway.live.watch import Sample
from headway.traces import format as hwt

S = 1_000_000_000
NO_GIL = "no GIL; waits are for locks of objects and the interpreter and for ends of threads, not for `threading.Lock`"
HOSTILE = "[@click=app.quit]x[/]"


def sample(*names, pid=1):
    """Return a sample of threads at their busiest: every figure is as long as it gets."""
    rows = [{"serial": serial, "name": name, "state": "holding"} for serial, name in enumerate(names, 1)]
    most = {"hold_ns": S, "wait_ns": S, "holds": 99_999, "waits": 99_999, "forced": 99_999, "worst_wait_ns": 12_300_000}
    busy = [{**row, **most, "since_ns": 1, "waits_of": {24: 99_999}} for row in rows]
    rates = difference(make_snapshot(S, *rows), make_snapshot(2 * S, *busy))
    return Sample(pid, "app.py", True, rates, rates)


def free_sample(flags=hwt.FREE_THREADED, **fields):
    """Return a sample of a free-threaded process: one thread waits for a lock, the other one does not."""
    rows = [{"serial": 1, "name": "blocked", "state": "waiting", "since_ns": S}, {"serial": 2, "name": "other"}]
    rates = difference(make_snapshot(S, flags=flags), make_snapshot(2 * S, *rows, flags=flags))
    return Sample(1, "app.py", False, rates, rates, **fields)


def test_without_a_gil_a_table_is_about_locks():
    """The header says what waits are for; only waiting is told of a thread, and nothing of holds."""
    head, worst, _, _, *rows = top_view.block([free_sample()])

    assert head.endswith(f"app.py (pid 1): {NO_GIL}")
    assert worst == "  worst wait 1 s: blocked (in the last 1 s)"
    assert [row.split()[:3] for row in rows] == [["blocked", "waiting", "1"], ["other", "-", "-"]]
    assert all(row.endswith(" -") for row in rows)


def test_a_gil_that_came_on_is_told():
    """The header and the JSON say that the GIL of a free-threaded build was switched on."""
    seen = replace(sample("MainThread"), gil_came_on=True)

    assert "GIL 100.0 % held" in top_view.head(seen)[0]
    assert "an extension module switched the GIL on" in "".join(top_view.head(seen))
    (found,) = top_view.to_json([seen])["processes"]
    assert (found["has_gil"], found["gil_came_on"]) == (True, True)


def test_threads_that_are_not_counted_are_named():
    """A thread that computes alone in a sub-interpreter has no row; of many, few are named."""
    seen = replace(sample("MainThread"), unreleased=(81,))
    many = replace(sample("MainThread"), unreleased=tuple(range(81, 90)))

    assert "not counted" not in "".join(top_view.head(sample("MainThread")))
    assert "  not counted: thread 81, which has not released a sub-interpreter's own GIL since before the counting" in (
        top_view.head(seen)
    )
    assert "not counted: threads 81, 82, 83, 84, ..., which have not" in "".join(top_view.head(many))
    assert top_view.to_json([seen])["processes"][0]["unreleased"] == [81]


class Still:
    """A monitor that always has the same sample."""

    alive = True
    watched: tuple[int, ...] = (1,)
    ended = ""

    def __init__(self, *samples):
        self.samples = list(samples)

    def sample(self):
        return self.samples


@pytest.mark.parametrize("columns", [80, 90, 100, 111, 112, 200, None])
def test_no_figure_is_cut_off(columns):
    """Each column's name and each figure is complete, also at 80 columns; threads' names and states' times are cut."""
    seen = sample("MainThread", "ThreadPoolExecutor-17_executor-3")
    heading, *rows = top_view.block([seen], columns)[-3:]

    assert heading.split() == " ".join(top_view.COLUMNS).split()
    assert all(len(line) < (columns or 1000) for line in (heading, *rows))
    assert all(row.split()[-8:] == ["99,999", "12.3", "ms", "12.3", "ms", "12.3", "ms", "99,999"] for row in rows)
    assert ("holding 2 s" in rows[0]) == (columns is None or columns >= 112)
    assert "MainThread" in heading + rows[0] + rows[1]


def run_app(size, samples, use):
    async def go():
        app = TopApp(Still(*samples), 1000)
        async with app.run_test(size=size) as pilot:
            app.look()
            await pilot.pause()
            return await use(app, pilot)

    return asyncio.run(go())


def test_the_app_fits_80_columns():
    """The table is no wider than the screen, and the names grow with the terminal."""

    async def use(app, pilot):
        table = app.query_one("#threads")
        widths = [table.virtual_size.width]
        await pilot.resize_terminal(140, 24)
        app.look()
        await pilot.pause()
        widths.append(table.virtual_size.width)
        return widths, table.get_row_at(0)[1].plain

    (narrow, wide), state = run_app((80, 24), [sample("MainThread", "ThreadPoolExecutor-17_executor-3")], use)
    assert narrow <= 80 < wide <= 140
    assert state.startswith("holding 2 s")


@pytest.mark.parametrize(
    ("watched", "children", "paused", "quits"),
    [((), False, False, True), ((), True, False, False), ((), False, True, False), ((1,), False, False, False)],
)
def test_the_app_quits_when_the_counting_ends(watched, children, paused, quits):
    """Another command may end the counting: the last figures do not stay, unless the user has paused to read them."""

    async def go():
        monitor = Still(sample("MainThread"))
        app = TopApp(monitor, 1000, children=children)
        async with app.run_test() as pilot:
            app.look()
            if paused:
                app.action_pause()
            monitor.samples, monitor.watched = [], watched
            app.look()
            await pilot.pause()
            return app.return_code is not None

    assert asyncio.run(go()) == quits


def test_threads_that_ended_have_a_row():
    """Threads that ended have a row, also those that lived for less than the interval.

    The row has their number, and what they held and waited, as far as it is known.
    """
    main = {"serial": 1, "name": "main"}
    old = make_snapshot(S, main, {"serial": 2, "name": "short", "hold_ns": 0})
    short = [
        {
            "serial": serial,
            "name": "short",
            "state": "exited",
            "hold_ns": S // 10,
            "wait_ns": S // 20,
            "worst_wait_ns": 7,
        }
        for serial in (2, 3, 4)
    ]
    new = replace(make_snapshot(2 * S, main, *short), thread_count=6)
    rates = difference(old, new)
    one = Sample(1, "app.py", True, rates, rates)
    ended = top_view.rows([one])[-1]

    assert (rates.ended.count, rates.ended.known) == (5, 3)
    assert ended.cells[:4] == ("5 threads", "ended", "30.0", "15.0")
    assert top_view.to_json([one])["processes"][0]["ended"]["threads"] == 5
    assert len(ended.order) == len(top_view.COLUMNS) == len(ended.cells)
    assert top_view.rows([sample("main")])[-1].cells[0] == "main"


def test_threads_that_ended_earlier_are_in_no_later_interval():
    """Each interval tells of its own ended threads, although the counters of earlier ones still stand."""
    main = {"serial": 1, "name": "main"}
    readings = [
        make_snapshot(at * S, main, *({"serial": 2 + one, "state": "exited"} for one in range(3 * at)), slot_count=16)
        for at in range(1, 5)
    ]
    found = [difference(old, new) for old, new in itertools.pairwise(readings)]
    last = Sample(1, "app.py", True, found[-1], found[-1])

    assert [(one.ended.count, one.ended.known) for one in found] == [(3, 3)] * 3
    assert top_view.rows([last])[-1].cells[0] == "3 threads"
    assert top_view.head(last)[-1] == "  3 threads started, 3 threads ended"


def test_a_wait_of_a_thread_that_ended_is_the_worst_of_the_window():
    """The heading does not say that no thread waited, and the row has the worst wait of the window, not of the interval."""
    main = {"serial": 1, "name": "main", "since_ns": S}
    early = {"serial": 2, "name": "early", "state": "exited", "waits": 1, "worst_wait_ns": 20_000_000}
    late = {"serial": 3, "name": "late", "state": "exited", "waits": 1, "worst_wait_ns": 3_000_000}
    first, second, third = (
        replace(make_snapshot(at * S, main, *threads), thread_count=1 + len(threads))
        for at, threads in ((1, ()), (2, (early,)), (3, (early, late)))
    )
    one = Sample(1, "app.py", True, difference(second, third), difference(first, third))

    assert "worst wait 20 ms: a thread that ended (in the last 2 s)" in "\n".join(top_view.head(one))
    assert top_view.rows([one])[-1].cells[top_view.COLUMNS.index("worst")] == "20 ms"
    quiet = replace(one, window=one.interval)
    assert "worst wait 3 ms: a thread that ended (in the last 1 s)" in "\n".join(top_view.head(quiet))


def test_a_name_is_no_markup():
    """A thread's name can neither bind an action to a click, nor change a colour."""

    async def use(app, _pilot):
        return app.query_one("#threads").get_row_at(0)[0]

    name = run_app((120, 24), [sample(HOSTILE)], use)
    assert name.plain.strip() == HOSTILE
    assert not name.spans


@pytest.mark.parametrize("no_color", ["", "1"])
def test_no_color_means_none(monkeypatch, no_color):
    """The full-screen view has no colour either with NO_COLOR, not even greys."""
    monkeypatch.setenv("NO_COLOR", no_color)
    if not no_color:
        monkeypatch.delenv("NO_COLOR")

    async def use(app, pilot):
        colours = set()
        for line in app.screen._compositor.render_strips():
            shown = line
            for one in app._filters:
                if one.enabled:
                    shown = shown.apply_filter(one, app.screen.background_colors[1])
            colours |= {part.style.color for part in shown if part.style} | {
                part.style.bgcolor for part in shown if part.style
            }
        return {one for one in colours if one is not None and not one.is_default}

    colours = run_app((80, 24), [sample("MainThread")], use)
    assert bool(colours) != bool(no_color)


def test_a_thread_is_no_process(capsys):
    """The id of a thread is an error that names its process, and nothing is attached to."""
    done = threading.Event()
    told = []
    thread = threading.Thread(target=lambda: (told.append(threading.get_native_id()), done.wait()))  # type: ignore[func-returns-value]
    thread.start()
    try:
        while not told:
            os.sched_yield()
        code = main(["top", str(told[0])])
    finally:
        done.set()
        thread.join()

    assert code == 2
    said = capsys.readouterr().err
    assert f"{told[0]} is a thread of process {os.getpid()}" in said
    assert f"`headway top {os.getpid()}`" in said


def test_heads_are_lines():
    """A program's name of two lines is shown on one."""
    seen = replace(sample("a\nb"), program="x\ny\x1b[2J")
    assert all(line.isprintable() for line in top_view.block([seen]))
