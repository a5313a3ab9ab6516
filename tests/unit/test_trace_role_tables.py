"""Tables of a trace with many threads: pools are rows and columns, on the terminal and on the page."""

import io
import json
import re
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console
from told_traces import AT_COMPUTE, Script

from headway.report.html import trace_page
from headway.report.trace.summary import summary_lines
from headway.report.trace.tables import blame_table, held_table, threads_table
from headway.report.trace.terminal import render_traces
from headway.traces.analysis import analyse, as_json
from headway.traces.analysis.words import roles
from headway.traces.model import Thread

CONNECTIONS = 300


@pytest.fixture(scope="module")
def server():
    """Return the analysis of 300 connections that wait for one thread and for each other; number 17 waits longest."""
    script = Script()
    for at in range(CONNECTIONS):
        begin = 10 * at
        script.hold(CONNECTIONS, begin, begin + 8, stack=AT_COMPUTE)
        script.wait(at, begin + (1 if at == 17 else 4)).hold(at, begin + 8, begin + 10)
        script.wait((at + 1) % CONNECTIONS, begin + 9) if at != 16 else None
    return analyse(script.trace(10 * CONNECTIONS, *(f"conn-{at}" for at in range(CONNECTIONS)), "cruncher"))


def shown(analysis, width, **options):
    printed = io.StringIO()
    Console(file=printed, width=width).print(render_traces([analysis], **options))
    return printed.getvalue()


def test_who_waited_for_whom_is_told_by_role():
    """A pool is one row and one column, with its number of threads, its longest single wait and the thread that had it."""
    script = Script().hold(9, 0, 10).wait(9, 10)
    for at in range(9):
        script.wait(at, 2 if at == 5 else 8).hold(at, 10 + at, 11 + at)
    script.hold(9, 19, 20)
    found = analyse(script.trace(20, *(f"conn-{at}" for at in range(9)), "cruncher"))
    table = blame_table(found, found.gils[0])

    assert table is not None
    assert table.columns == ("", "behind conn-* x 9", "behind cruncher", "no holder", "total", "longest", "in thread")
    assert table.rows == (
        # From 8 to 10 ms eight of them wait for cruncher, one from 2 ms on; from 10 ms on the last waits 8 ms for others.
        ("conn-* x 9", "36 ms", "24 ms", "-", "60 ms", "13 ms", "conn-5"),
        ("cruncher", "9 ms", "-", "-", "9 ms", "9 ms", "-"),
    )
    assert "`--all` shows each thread" in table.caption


def test_all_shows_each_thread(server):
    """`--all` has a row for each thread and none for the pool, and so has a report on named threads."""
    (gil,) = server.gils
    each = blame_table(server, gil, every=True)
    named = blame_table(server, gil, threads={3, 4})

    assert {row[0] for row in each.rows} == {f"conn-{at}" for at in range(CONNECTIONS)}
    assert "in thread" not in each.columns
    assert "--all" not in each.caption
    assert sorted(row[0] for row in named.rows) == ["conn-3", "conn-4"]
    assert len(threads_table(server, every=True).rows) == CONNECTIONS + 1


def test_threads_of_a_pool_have_the_worst_wait_and_its_thread(server):
    """The table of threads names the thread of a pool's longest wait beside its length."""
    table = threads_table(server)
    (pool,) = [dict(zip(table.columns[-6:], row[-6:], strict=True)) for row in table.rows if row[0] == "conn-* x 300"]

    assert (pool["wait max"], pool["in thread"]) == ("7 ms", "conn-17")
    assert "in thread" not in threads_table(server, every=True).columns


@pytest.mark.parametrize("width", [80, 120, 200])
def test_pools_fit_the_terminal(server, width):
    """At 80 columns nothing is cut off: each pool, its longest wait and the thread that had it are there."""
    text = shown(server, width)
    told = re.sub(r"\s+", " ", text)

    assert max(map(cell_len, text.splitlines())) <= width
    assert "…" not in text
    for words in ("conn-* x 300", "conn-17", "7 ms"):
        assert words in told
    assert "the threads of a pool are summed up, with their longest single wait and the thread that had it;" in told


def test_the_summary_tells_the_pool_that_waited_most(server):
    """After `headway trace`, the line about waiting is about the pool, and names the thread that waited longest at once."""
    (line,) = [one for one in summary_lines([server]) if "waited most" in one]

    assert line == (
        "  waited most: conn-* (300 threads), 1.2 s, 1.2 s of it behind cruncher; longest wait 7 ms, of conn-17"
    )


def test_the_json_has_roles_beside_threads(server):
    """`roles` and `blame_by_role` are beside `threads` and `blame`, which have each thread."""
    told = json.loads(json.dumps(as_json(server)))
    (row,) = told["gils"][0]["blame_by_role"]

    assert [one["label"] for one in told["roles"]] == ["cruncher", "conn-*"]
    assert (row["waiter"], row["threads"], row["max_ns"], row["longest_waiter"]) == (
        "conn-*",
        300,
        7_000_000,
        "conn-17",
    )
    assert [(one["holder"], one["threads"]) for one in row["by"]] == [("cruncher", 1), ("conn-*", 300)]
    assert (len(told["threads"]), len(told["gils"][0]["blame"])) == (301, 300)


def test_the_page_has_pools_first_and_each_thread_on_request(server):
    """A section of the page has the table of pools, without words about `--all`, and the table of each thread apart."""
    trace = server_trace()
    found = analyse(trace)
    page, _ = trace_page([("", [(trace, found)])], "1")
    sections = {one.title: one for one in page.views[0].sections}

    for title in ("Threads", "Waiters and holders: the GIL"):
        assert "conn-* x 9" in [row[0] for row in sections[title].tables[0].rows]
        assert len([row for row in sections[title].each.rows if row[0].startswith("conn-")]) == 9
        assert "--all" not in sections[title].tables[0].caption
    assert sections["Where threads waited"].each is None


def server_trace():
    """Return a trace of nine threads that wait for a tenth."""
    script = Script().hold(9, 0, 10)
    for at in range(9):
        script.wait(at, 2).hold(at, 10 + at, 11 + at)
    return script.trace(20, *(f"conn-{at}" for at in range(9)), "cruncher")


def test_small_pools_are_grouped_only_if_the_rows_do_not_fit():
    """Three pools of four threads are three rows, since twelve do not fit; beside one pool of ten, two threads keep names."""

    def grouped(*names):
        return roles([Thread(at, at, name, 0, None) for at, name in enumerate(names, 1)], names, range(len(names)))

    def pool(name, threads):
        return [f"{name}-{at}" for at in range(threads)]

    assert set(grouped(*pool("a", 4), *pool("b", 4), *pool("c", 4))) == {"a-*", "b-*", "c-*"}
    assert len(set(grouped(*pool("a", 4), *pool("b", 4), *pool("c", 3)))) == 11
    assert set(grouped(*pool("a", 10), *pool("b", 2))) == {"a-*", "b-0", "b-1"}
    assert set(grouped("x", *["handler"] * 12)) == {"x", "handler"}


def test_the_bars_of_the_gils_use_have_pools(server):
    """The bars have the share of all threads of a pool together; with `--all`, that of each thread."""
    few, each = (
        [line for line in shown(server, 100, every=every).splitlines() if " mean " in line] for every in (False, True)
    )

    assert [line.split()[0] for line in few[1:]] == ["waiting", "cruncher", "conn-*"]
    assert few[-1].startswith("  conn-* x 300 ")
    assert few[-1].rstrip().endswith("mean 20 %")
    assert not [line for line in each if line.startswith("  conn-* ")]
    assert len([line for line in each if line.startswith("  conn-")]) > 50


@pytest.mark.parametrize(("stack", "is_told"), [(0, True), (AT_COMPUTE, False)])
def test_a_hold_without_a_line_is_explained(stack, is_told):
    """The table of lines says what `?` is if it has one, and nothing otherwise."""
    table = held_table(analyse(Script().hold(0, 0, 5, stack=stack).hold(0, 6, 7).trace(8)))

    assert ("?" in [row[0] for row in table.rows]) == is_told
    assert ("?: no line, as at the end of a thread" in table.caption) == is_told


def test_a_hold_without_a_line_is_explained_where_it_is_shown():
    """A table that leaves out the row `?` says nothing of it, and `--all` has both."""
    analysis = analyse(Script().hold(0, 0, 5).trace(8))
    (line,) = analysis.held
    analysis = replace(analysis, held=(*[line] * 12, replace(line, frame=None, stack=())))
    few, every = held_table(analysis), held_table(analysis, every=True)

    assert (len(few.rows), "?:" in few.caption) == (10, False)
    assert (len(every.rows), "?:" in every.caption) == (13, True)
