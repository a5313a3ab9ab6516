"""The benchmarks of several tests in one session: their labels, the groups of comparisons, and the tables of these."""

import gc
import weakref
from pathlib import Path

import pytest

from headway.measure.against import Revision
from headway.measure.bench import Bench
from headway.measure.children import Launched
from headway.measure.journal import Entry, Journal, Options, entered
from headway.measure.result import Result
from headway.report.benchmarks import benchmark_tables, results_to_json, session_to_json


def noted(seen, test):
    """Return the entries of a test that compares two functions under the name `parse`; calls are noted in `seen`."""
    journal = Journal(test=test, group="file")
    headway = Bench(journal, Options(name="parse", rounds=5, calls=1))
    headway.compare({"json": lambda: seen.append(test), "other": lambda: sum(range(1000))})
    return journal.keyed()


def shown(session):
    groups = {}
    for entry in session:
        groups.setdefault(entry.group, []).append(entry)
    return benchmark_tables(groups)


def test_comparisons_of_two_tests_under_one_name_have_a_table_each():
    """Ratios are of alternatives that took turns, so each table has the alternatives of one test, with their base."""
    session = []
    for test in ("test[a]", "test[b]"):
        entered(session, noted([], test))

    assert [(one.group, one.label, one.baseline) for one in session] == [
        (group, label, "json") for group in ("file: parse", "file: parse (2)") for label in ("json", "other")
    ]
    for table in shown(session):
        place = table.columns.index("ratio to json")
        ratios = {row[0]: row[place] for row in table.rows}
        assert ratios["json"] == "1"
        assert float(ratios["other"].split()[0].replace(",", "")) > 1


def test_a_table_measures_nothing():
    """The tests are over when a table is made, and their fixtures are gone: what took no turns has no ratio."""
    seen = []
    mixed = [entry for test in ("test[a]", "test[b]") for entry in noted(seen, test)]
    calls = len(seen)
    # One group for both, as no session has it.
    (table,) = shown(mixed)

    assert len(seen) == calls
    assert len(table.rows) == 4


@pytest.mark.parametrize("why_not", ["", "`--headway-disable`"])
def test_a_session_keeps_no_objects_of_its_tests(why_not):
    """Arguments and values may be large, and a session has many tests: they end with their test, measured or not."""

    class Large:
        """A value that can be watched."""

    def test():
        journal = Journal(test="test", group="file", why_not=why_not)
        headway = Bench(journal, Options(rounds=5, calls=1))
        result = headway(lambda one: one, Large())
        headway.compare({"one": lambda one: one, "other": lambda one: one}, result.returned)
        entered(session, journal.keyed())
        revision.take(journal, Launched())
        journal.close()
        return weakref.ref(result.returned)

    session, revision = [], Revision("main")
    # A collection may be far away: few objects can be large.
    gc.disable()
    try:
        large = test()
    finally:
        gc.enable()

    assert large() is None
    assert len(session) == len(revision.results) == 3


@pytest.mark.parametrize("baseline", ["", "one"])
def test_a_test_that_runs_again_keeps_its_place(baseline):
    """The last result of a key counts, under the group and the label that the first one had."""

    def of(test, value):
        result = Result(name=f"{test} {value}", model="serial")
        return [Entry(result, "group", "one", baseline, key=f"{test}: one")]

    session = []
    for test, value in (("first", 1), ("second", 1), ("second", 2), ("first", 2)):
        entered(session, of(test, value))

    numbered = [("group", "one"), ("group (2)", "one") if baseline else ("group", "one (2)")]
    assert [(one.group, one.label) for one in session] == numbered
    assert [one.result.name for one in session] == ["first 2", "second 2"]


def test_a_number_of_a_test_is_not_taken_for_one_of_the_session():
    """A test that compares twice under one name has two groups beside that of an earlier test."""

    def of(test, *groups):
        return [Entry(Result(name="a", model="serial"), group, "a", "a", key=f"{test}: {group}: a") for group in groups]

    session = []
    entered(session, of("first", "group"))
    entered(session, of("second", "group", "group (2)"))

    assert len({one.group for one in session}) == 3


def test_json_has_the_tables_figures():
    """JSON names the baseline, and has the ratio to it and the percentiles of loads; stored sessions need neither."""
    journal = Journal(test="test", group="file")
    headway = Bench(journal, Options(rounds=5, calls=20))
    headway.compare_concurrent({"one": int, "other": lambda: sum(range(1000))}, tasks=2)
    headway(int)
    groups = {}
    for entry in journal.keyed():
        groups.setdefault(entry.group, []).append(entry)

    (one, other), (alone,) = results_to_json(groups, Path())["groups"].values()
    assert [each["baseline"] for each in (one, other, alone)] == ["one", "one", ""]
    assert one["ratio_to_baseline"] is alone["ratio_to_baseline"] is None
    ratio = other["ratio_to_baseline"]
    assert 1 < ratio["value"] == groups["file: test"][1].result.ratio_measured(groups["file: test"][0].result).value
    assert ratio["low"] < ratio["value"]
    assert alone["percentiles_s"] == {}
    for each in (one, other):
        assert list(each["percentiles_s"]) == ["0.5", "0.99"]
        assert 0 < each["percentiles_s"]["0.5"]["value"] <= each["percentiles_s"]["0.99"]["value"]
    assert "percentiles_s" not in session_to_json(groups, Path())["groups"]["file"][0]
