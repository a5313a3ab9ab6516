"""Laws of tables by role, for all traces: nothing is lost when the threads of a pool are one row."""

import json
from collections import defaultdict
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from made_traces import made_trace

from headway.traces.analysis import analyse, as_json
from headway.traces.analysis.words import FITS, POOL, role, roles

NAMES = ("MainThread", "pool-{}", "Thread-{} (serve)", "handler", "db {}_{}")


@st.composite
def pools(draw):
    """Return a trace of some pools, and of threads that are in none; few events leave threads without any."""
    threads = draw(st.integers(3, 45))
    trace = made_trace(
        threads=threads, events=draw(st.integers(0, 300)), seed=draw(st.integers(0, 99)), gils=draw(st.integers(1, 3))
    )
    names = draw(st.lists(st.sampled_from(NAMES), min_size=threads, max_size=threads))
    named = [
        replace(one, name=name.format(number, number % 3))
        for number, (one, name) in enumerate(zip(trace.threads, names, strict=True))
    ]
    return replace(trace, threads=tuple(named))


@st.composite
def analyses(draw):
    """Return a trace, and its analysis within a window."""
    trace = draw(pools())
    begin, end = sorted(draw(st.tuples(st.integers(0, 8), st.integers(0, 8))))
    since_ns, until_ns = (trace.start_ns + at * (trace.end_ns - trace.start_ns) // 8 for at in (begin, end))
    return trace, analyse(trace, since_ns=since_ns, until_ns=until_ns)


def names_of(trace, found):
    """Return the name by which each thread is grouped; the threads with a row decide."""
    return roles(trace.threads, found.labels, [one.index for one in found.threads])


def lived(trace, found):
    """Return the indices of the threads that lived in the window, or held or waited in it."""
    return {one.index for one in found.threads} | {
        index
        for index, one in enumerate(trace.threads)
        if max(one.start_ns, found.start_ns) < min(found.end_ns if one.end_ns is None else one.end_ns, found.end_ns)
    }


def cells(blame, name_of):
    """Return the matrix as a dictionary by the names of waiter and holder; `others` and `nobody` are holders, too."""
    found = defaultdict(int)
    for row, waiter in enumerate(blame.waiters):
        for column, holder in enumerate(blame.holders):
            found[name_of[waiter], name_of[holder]] += int(blame.held_ns[row, column])
        found[name_of[waiter], "(others)"] += int(blame.others_ns[row])
        found[name_of[waiter], "(nobody)"] += int(blame.nobody_ns[row])
        found[name_of[waiter], "(all)"] += int(blame.wait_ns[row])
    return {pair: ns for pair, ns in found.items() if ns}


@settings(deadline=None)
@given(analyses())
def test_the_matrix_by_role_is_the_sum_of_its_threads(made):
    """Each cell by role is the sum of the cells of the role's threads, at each GIL, and so is each total."""
    trace, found = made
    name_of = names_of(trace, found)

    for gil in found.gils:
        assert (gil.blame_by_role is None) == (name_of == found.labels)
        if gil.blame_by_role is not None:
            of = {one.index: one.label for one in gil.by_role}
            assert cells(gil.blame_by_role, of) == cells(gil.blame, name_of)


@settings(deadline=None)
@given(analyses())
def test_a_row_by_role_is_the_sum_of_its_threads(made):
    """Holds, waits and lives of a role add up to those of its threads; its longest wait is the longest of any of them."""
    trace, found = made
    name_of = names_of(trace, found)
    members = defaultdict(list)
    for one in found.threads:
        members[name_of[one.index]].append(one)

    for pool in found.roles:
        mine = members.pop(pool.label)
        there = [trace.threads[one] for one in lived(trace, found) if name_of[one] == pool.label]
        assert pool.threads == len(there)
        assert pool.since_ns == min(max(one.start_ns, found.start_ns) for one in there)
        assert pool.until_ns == max(
            found.end_ns if one.end_ns is None else min(one.end_ns, found.end_ns) for one in there
        )
        for which in ("holds", "waits"):
            sums = [getattr(one, which) for one in mine]
            assert getattr(pool, which).total_ns == sum(one.total_ns for one in sums)
            assert getattr(pool, which).count == sum(one.count for one in sums)
        worst = [one.index for one in mine if one.waits.count and one.waits.max_ns == pool.waits.max_ns]
        assert pool.longest_waiter in (worst or [-1])
    assert not found.roles or not members


@settings(deadline=None)
@given(analyses())
def test_json_has_each_thread_and_each_role(made):
    """The rows by role have the total, the number and the worst wait of the threads in `threads` and `blame`."""
    found = json.loads(json.dumps(as_json(made[1]), allow_nan=False))
    label_of = {one["index"]: one["label"] for one in found["threads"]}

    for gil in found["gils"]:
        by_role = gil["blame_by_role"]
        assert bool(by_role) == bool(found["roles"] and gil["blame"])
        if by_role:
            assert sum(row["wait_ns"] for row in by_role) == sum(row["wait_ns"] for row in gil["blame"])
            assert all(
                row["wait_ns"] == sum(one["wait_ns"] for one in row["by"]) + row["others_ns"] + row["nobody_ns"]
                for row in by_role
            )
            assert max(row["max_ns"] for row in by_role) == gil["waits"]["max_ns"]
            assert {row["longest_waiter"] for row in by_role} <= set(label_of.values())
            known = {one["label"]: one["threads"] for one in found["roles"]}
            told = [(row["waiter"], row["threads"]) for row in by_role]
            told += [(one["holder"], one["threads"]) for row in by_role for one in row["by"]]
            assert all(known[label] == threads for label, threads in told)


@settings(deadline=None)
@given(analyses())
def test_threads_are_grouped_if_they_would_not_fit(made):
    """A pool of more than `POOL` rows is one row; if the rows then do not fit, so is a smaller one; no thread is lost.

    Threads without a row, as those that neither held nor waited in the window, take no room in any table.
    """
    trace, found = made
    of_role = defaultdict(list)
    for one in found.threads:
        of_role[role(trace.threads[one.index].name)].append(one.label)
    rows = sum(1 if len(mine) > POOL else len(mine) for mine in of_role.values())

    shown = []
    for pool, mine in of_role.items():
        shown += [pool] if len(mine) > POOL or (rows > FITS and len(mine) > 1) else mine
    is_grouped = len(shown) < len(found.threads)
    assert sorted(one.label for one in found.roles) == (sorted(shown) if is_grouped else [])
    assert {one.waiter for gil in found.gils for one in gil.convoys} <= set(shown)
