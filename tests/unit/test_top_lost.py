"""A program that `headway top` has started runs on when it starts another one in its place, counted or not."""

import argparse
import asyncio
import time

import pytest
from test_top import Still, sample
from textual.widgets import DataTable

from headway.cli import top_command
from headway.cli.top_app import TopApp
from headway.cli.top_lost import Lost

PATIENCE_S = 3
WHY = "process 7 has started another program"
LINE = f"app.py is not counted any more: {WHY}"


class Program:
    """A monitor with one look a second: `counted` says at which of them the program is counted; then it has ended."""

    def __init__(self, counted):
        self.now_s = 100.0
        self.left = list(counted)
        self.watched = ()
        self.ended = WHY

    @property
    def alive(self):
        return bool(self.left)

    def sample(self):
        self.watched = (7,) if self.left.pop(0) else ()
        return [sample("MainThread")] if self.watched else []


@pytest.fixture
def show(monkeypatch, capsys):
    """Return a function that shows a program with these looks, and returns how many tables there were, and what was said."""

    def shown(counted, lost, count=None):
        program, tables = Program(counted), []
        monkeypatch.setattr(time, "monotonic", lambda: program.now_s)

        def sleep(_):
            program.now_s += 1

        monkeypatch.setattr(time, "sleep", sleep)
        arguments = argparse.Namespace(count=count, interval=1.0, children=False)
        top_command._loop(program, arguments, tables.append, lost)
        return len(tables), capsys.readouterr().err.splitlines(), len(program.left)

    return shown


def test_a_started_program_is_shown_again_after_a_time_without_counters(show):
    """It may be a shell script's that runs for seconds; what is not counted for longer is told, once each time."""
    counted = [1, 1, 0, 0, 1, *[0] * 9, 1, *[0] * 9]

    assert show(counted, Lost("app.py", PATIENCE_S)) == (3, [LINE] * 2, 0)


def test_a_program_of_somebody_else_is_left_when_it_counts_no_more(show):
    """Its recording may have been ended, and nothing says that another one begins."""
    assert show([1, 1, 0, 1, 1], None) == (1, [], 2)


def test_a_count_is_of_tables(show):
    """A time without counters is none of the intervals."""
    assert show([1, 1, 0, 0, 1, 1, 1], Lost("app.py", PATIENCE_S), count=2) == (2, [], 2)


def test_the_app_does_not_quit_while_a_started_program_is_not_counted(monkeypatch):
    """The last figures stay for a while; then a line has their place."""
    now = [100.0]
    monkeypatch.setattr("headway.cli.top_lost.time", argparse.Namespace(monotonic=lambda: now[0]))

    async def go():
        monitor = Still(sample("MainThread"))
        monitor.ended = WHY
        app = TopApp(monitor, 1000, lost=Lost("app.py", PATIENCE_S))
        async with app.run_test() as pilot:
            app.look()
            monitor.samples, monitor.watched = [], ()
            app.look()
            before = app.query_one("#threads", DataTable).row_count
            now[0] += PATIENCE_S
            app.look()
            await pilot.pause()
            after = app.query_one("#threads", DataTable).row_count
            return app.return_code, before, after, str(app.query_one("#head").render())

    assert asyncio.run(go()) == (None, 1, 0, LINE)
