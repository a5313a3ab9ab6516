"""The shares of a function's lines and calls of C: from samples of the instruction that runs."""

import dis
import time
from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

import pytest
from headway_agent import proc
from headway_agent.strangers import calls, samples
from headway_agent.strangers import holds as agent
from real_programs import LIMIT_S

from headway.advice import holds
from headway.cli import advise_view


def adding(count):
    """Compute in a line without calls, and do little in the line where the loop ends."""
    total = 0
    for number in range(count):
        power = (number | 3) ** 2500
        total += power & 1
    return total


def test_a_line_without_calls_has_its_time_and_not_the_end_of_the_loop():
    """The samples name the line that computes, though the interpreter itself looks for requests at the loop's end only."""
    code = adding.__code__
    counts: Counter[tuple[int, int]] = Counter()
    until_s = time.monotonic() + LIMIT_S
    while (found := samples.by_place(counts, {id(code): code}, {}, None))[1] < 100:
        assert time.monotonic() < until_s, found
        sampler = samples.Sampler()
        for _ in range(400):
            adding(50)
        counts.update(sampler.end())
    shares, _ = found
    assert shares[code.co_filename, code.co_firstlineno + 4, ""] > 0.7
    assert shares.get((code.co_filename, code.co_firstlineno + 5, ""), 0.0) < 0.1


def test_a_sample_at_the_instruction_of_a_call_of_c_is_that_calls_own():
    """Samples at a call's instruction are the call's, others the line's; those of unknown code are left in the sum."""
    code = adding.__code__
    lines = {line: offset for offset, line in reversed(list(dis.findlinestarts(code)))}
    power, total = (code.co_firstlineno + ahead for ahead in (4, 5))
    a_call = (code.co_filename, power, "pow")
    counts = {
        (id(code), lines[power]): 100,
        (id(code), lines[power] + 6): 60,
        (id(code), lines[total]): 20,
        (id(code), 1 << 20): 10,
        (1, 0): 10,
        (id(calls.with_keywords.__code__), 0): 300,
    }
    at = {(id(code), lines[power] + 6): a_call}
    found = samples.by_place(counts, {id(code): code}, at, None)
    line = (code.co_filename, power, "")
    assert found == ({line: 0.5, a_call: 0.3, (code.co_filename, total, ""): 0.1}, 200)
    # A function in C runs within the agent's own frames.
    own = ("", 0, "sorted")
    assert samples.by_place(counts, {id(code): code}, at, own)[0][own] == 0.6
    assert samples.by_place({(id(code), 0): 99}, {id(code): code}, {}, None) == ({}, 0)


def test_an_interpreter_whose_memory_is_not_known_has_no_samples(monkeypatch):
    """Without the layout of frames nothing is sampled, and the measurement goes on."""
    monkeypatch.setattr(samples, "_is_right", lambda *_: False)
    assert samples.Sampler().end() == {}
    monkeypatch.undo()
    monkeypatch.setattr(samples, "_thread", lambda: 1 << 20)
    assert samples.Sampler().end() == {}


def _place(line, call, wall_s, held_s, share):
    return {
        "file": "/app.py", "line": line, "call": call, "calls": 10, "wall_s": wall_s, "held_s": held_s, "longest_s": 0.0,
        "trail": [], "share": share, "reached": wall_s > 0,
    }  # fmt: skip


def test_the_samples_and_not_the_profile_give_the_shares():
    """A short line that the profile makes long does not come first, whether or not all of the function was profiled."""
    places = [_place(3, "", 0.7, 0.7, 0.15), _place(7, "", 0.2, 0.2, 0.75), _place(9, "zlib.crc32", 0.1, 0.1, 0.05)]
    sums = {"took": 0.95, "released": 0.0}
    assert [one.share for one in holds._spots(places, sums, "/app.py", None)] == [0.75, 0.15, 0.05]
    assert [one.at for one in holds._spots(places, sums, "/app.py", 1.0)] == ["app.py:7", "app.py:3", "app.py:9"]


@pytest.mark.parametrize(
    ("count", "whole", "said"),
    [
        (1234, True, "the share of the time is from 1,234 samples, all else from a profiler"),
        (0, False, "slower than they are; only the start of the function was profiled"),
    ],
)
def test_the_table_says_what_its_shares_come_from(count, whole, said):
    """Shares of a profiler are told from those of samples."""
    assert said in advise_view._from_where(cast(Any, SimpleNamespace(samples=count, whole=whole, spots=())))


def test_a_line_that_the_profile_did_not_reach_has_its_share_and_nothing_else():
    """The hottest line of a long function is not left out because only the start was profiled; the rest is told."""
    looker = agent._Looker(SimpleNamespace(), 0.0)
    looker._booked["/app.py", 3, ""] = agent._Booked()
    looker._booked["/app.py", 3, ""].own_ns = 10**9
    looker._booked["/app.py", 3, ""].add(10**9, 10**9, calm=True)
    shares = {("/app.py", 7, ""): 0.6, ("/app.py", 3, ""): 0.25}
    places, sums = looker.places(shares, whole=False)
    hot, begin = holds._spots(places, sums, "/app.py", None)
    assert (hot.at, hot.share, hot.released, hot.releases) == ("app.py:7", 0.6, None, None)
    assert (begin.at, begin.share, begin.releases) == ("app.py:3", 0.25, "no")
    seen: Any = SimpleNamespace(samples=1234, whole=False, spots=(hot, begin))
    assert advise_view._from_where(seen).endswith(
        'only the start of the function was profiled, not the lines with "-" for "releases"; 15% of the time is in no row'
    )
    seen.spots = (begin,) * 9
    assert advise_view._from_where(seen).endswith("; the table has 8 of 9 places")
    # A place of a whole call is a line of Python that holds the GIL.
    assert all(one["reached"] for one in looker.places(shares, whole=True)[0])


def test_a_function_that_the_profile_did_not_reach_is_found_by_its_address():
    """A sampled function has its lines, and so has one within it; the agent's own code is left out."""

    def outer():
        return [lambda: 1]

    (inner,) = (one for one in outer.__code__.co_consts if hasattr(one, "co_code"))
    counts = {(id(outer.__code__), 0): 1, (id(inner), 2): 1, (1, 0): 1}
    counts |= {(id(one.__code__), 0): 1 for one in (calls.with_keywords, proc.read)}
    found = samples.codes_at(counts)
    assert found == {id(outer.__code__): outer.__code__, id(inner): inner}


def test_a_wait_for_a_core_is_no_time_of_the_profile(monkeypatch):
    """On a busy machine the profile takes longer, to reach as much of a call as on a calm one; but not for ever."""
    clock = SimpleNamespace(perf_counter_ns=lambda: 0, monotonic=lambda: 10.0)
    monkeypatch.setattr(agent, "time", clock)
    queued_ns = iter((5 * 10**9, 8 * 10**9, 100 * 10**9))
    monkeypatch.setattr(agent.proc, "queued_ns", lambda: next(queued_ns))
    looker = agent._Looker(SimpleNamespace(), 12.0)
    assert (looker._queued(), looker._until_s) == (3 * 10**9, 15.0)
    assert (looker._queued(), looker._until_s) == (92 * 10**9, 16.0)
