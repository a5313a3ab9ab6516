"""The words of `headway advise`: they fit the figures, and lead a reader of the code or the JSON alone no other way."""

import io
import json
import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from test_advice import FUNCTION, HOLDS, SPOT, advice, contender, once, verdict

from headway.advice import cores, pays_from
from headway.advice.code import undecided
from headway.advice.holds import released_of
from headway.advice.models import sizes_of
from headway.advice.values import BreakEven, Contender, Lag, to_json
from headway.cli.advise_view import render_advice
from headway.lab.stats import Interval


@pytest.mark.parametrize(
    ("speed_up", "words"),
    [
        (Interval(1.32, 0.02, 80.0, "paired t"), "2 threads take turns, so their figure (about 1.32) is no gain: "),
        (Interval(1.73, 0.0, math.inf, "one launch"), "2 threads take turns, so their figure (1.73 in one launch only"),
        (Interval(0.99, 0.97, 1.01, "paired t"), "2 threads bring no gain (0.99 [0.97-1.01]): "),
        (Interval(0.80, 0.79, 0.81, "paired t"), "2 threads are slower (0.80 [0.79-0.81]): "),
    ],
)
def test_threads_that_take_turns_are_told_in_words_that_fit_their_figure(speed_up: Interval, words: str) -> None:
    """A figure above 1 is not called "no gain" without the reason, which is that calls take turns."""
    threads: Contender = replace(contender("threads", 1), speed_up=speed_up)
    (line,) = verdict(contender("serial", 1), threads).lines
    assert line.startswith(words)
    assert "the function holds the GIL for 97% of its time" in line


@pytest.mark.parametrize(
    "speed_up", [Interval(1.2, 0.02, 80.0, "paired t"), Interval(1.05, 0.0, math.inf, "one launch")]
)
def test_coroutines_that_only_compute_take_turns(speed_up: Interval) -> None:
    """A loop runs one coroutine at a time, so more time would decide nothing for a function that never waits."""
    asyncio = replace(contender("asyncio", 1), words="asyncio", speed_up=speed_up)
    found = verdict(contender("serial", 1), asyncio, function=replace(FUNCTION, kind="async"))
    assert (found.outcome, found.perhaps) == ("no difference", "")
    assert found.sentence == "serial calls: no model is faster here"
    assert found.lines[0].startswith("asyncio takes turns, so its figure (")
    assert "holds the GIL for 97% of its time" in found.lines[0]


@pytest.mark.parametrize("pools", [0, 1])
def test_the_quickest_model_that_may_be_faster_is_named_beside_a_certain_one(pools: int) -> None:
    """Of asyncio and threads, which are both undecided, the quicker one is named, and asyncio also without threads."""
    waits = replace(FUNCTION, kind="async", cpu_share=0.02)
    serial, asyncio = contender("serial", 1), replace(contender("asyncio", 58.8, spread=1.0), words="asyncio")
    threads = [contender("threads", 27.9, workers=32, spread=1.0)] * pools
    pool = contender("interpreters", 7.67, workers=8)
    found = verdict(serial, asyncio, *threads, pool, function=waits, holds=None)
    assert (found.outcome, found.model, found.perhaps, found.runner_up) == (
        "unsure", "serial", "asyncio", "8 interpreters"
    )  # fmt: skip
    assert found.sentence.startswith("perhaps asyncio (about 58.8), else 8 interpreters: 7.67 [")
    slow = contender("asyncio", 2, spread=1.0)
    found = verdict(serial, slow, *threads, pool, function=waits, holds=None)
    assert (found.outcome, found.perhaps) == (("unsure", "threads") if pools else ("faster", ""))


def test_a_model_that_may_be_faster_is_named_in_sentence_code_and_json() -> None:
    """Two launches with asyncio 40 times as fast decide nothing, and "serial calls" is not what was measured."""
    wide = Interval(40.0, 0.5, 3200.0, "paired t")
    for one in (once("asyncio", 40.0), replace(contender("asyncio", 40), speed_up=wide)):
        found = verdict(contender("serial", 1), one, holds=None)
        assert (found.outcome, found.model, found.perhaps) == ("unsure", "serial", "asyncio")
        assert found.sentence.startswith(f"not decided: {one.words} may be faster than serial calls (")
        assert to_json(found)["perhaps"] == "asyncio"
        assert undecided(found.perhaps, one.speed_up) == "# not decided: asyncio may be faster than this\n\n"
    assert verdict(contender("serial", 1), contender("threads", 1.8), holds=None).perhaps == undecided("", None) == ""


@pytest.mark.parametrize(
    "spread",
    [
        once("processes-forkserver", 0.4),
        replace(contender("processes-forkserver", 1), speed_up=Interval(0.4, 0.001, 60, "")),
    ],
)
def test_a_figure_below_1_is_not_called_faster(spread: Contender) -> None:
    """Measurements with processes at 0.4 rule nothing out, and are no sign of a gain; two at 0.03 leave no hope."""
    found = verdict(contender("serial", 1), spread, holds=None)
    assert (found.outcome, found.perhaps) == ("unsure", "processes-forkserver")
    assert undecided(found.perhaps, spread.speed_up) == (
        "# not decided: the figure of processes (0.40) does not rule out a gain\n\n"
    )
    assert spread.speed_up is not None
    hopeless = replace(spread, speed_up=replace(spread.speed_up, value=0.03))
    outcome = "no difference" if math.isfinite(spread.speed_up.high) else "unsure"
    assert verdict(contender("serial", 1), hopeless, holds=None).outcome == outcome


@pytest.mark.parametrize(
    ("effect", "words"),
    [
        (("cache", "results are kept"), ", where a cache answers: the first call took 400,000 times as long"),
        (
            ("helper's cache", "results of app.kept are kept"),
            ", where a cache answers: the first call took 400,000 times as long",
        ),
        (("globals", "app.KEPT changes"), ""),
    ],
)
def test_calls_that_a_cache_answers_are_told_with_the_verdict(effect: tuple[str, str], words: str) -> None:
    """A verdict about calls of 25 ns is one about look-ups in a dictionary, and not about the function."""
    kept = replace(FUNCTION, first_s=0.01, call_s=2.5e-8, effects=(effect,))
    found = verdict(contender("serial", 1), contender("threads", 0.5), function=kept, holds=None)
    assert found.sentence == f"serial calls: no model is faster here{words}"
    assert "hits of" in found.lines[0]
    assert ("(`__wrapped__`)" in found.lines[0]) == (effect[0] == "cache")
    slow = replace(kept, call_s=0.005)
    assert "hits of" not in " ".join(verdict(contender("serial", 1), function=slow, holds=None).lines)


@pytest.mark.parametrize(
    ("speed_up", "words"),
    [
        (Interval(6.36, 1.046, 38.6, "paired t"), "2 interpreters show a gain, perhaps a small one (6.36 [1.05-38.6])"),
        (Interval(6.36, 0.99, 38.6, "paired t"), "2 interpreters: perhaps a gain of 6.36 [0.99-38.6]; more time"),
        (Interval(8.0, 0.1, 640, "paired t"), "2 interpreters: perhaps a gain of about 8.00; more time (--budget)"),
        (Interval(1.2, 0.9, 1.6, "paired t"), "2 interpreters show no clear gain (1.20 [0.90-1.60]): more time"),
    ],
)
def test_an_interval_above_1_is_a_gain(speed_up: Interval, words: str) -> None:
    """A gain that may be small is not called unclear beside such an interval, nor a figure far above 1 no clear gain."""
    one = replace(contender("interpreters", 1), speed_up=speed_up)
    lines = verdict(contender("serial", 1), contender("threads", 34), one, holds=None).lines
    assert [line for line in lines if line.startswith(words)]


@pytest.mark.parametrize(("gain", "words"), [(0.5, "asyncio is slower"), (1.0, "asyncio brings no gain")])
def test_asyncio_is_one(gain: float, words: str) -> None:
    """The other models are several workers."""
    one = replace(contender("asyncio", gain), words="asyncio")
    (line,) = verdict(contender("serial", 1), one, holds=None).lines
    assert line.startswith(words)


def test_a_sure_gain_with_a_wide_interval_has_its_lower_end() -> None:
    """A reader sees that the gain is certain."""
    sure = replace(contender("threads", 20), speed_up=Interval(20.2, 1.55, 260, "paired t"))
    found = verdict(contender("serial", 1), sure, function=replace(FUNCTION, cpu_share=0.02), holds=None)
    assert "about 20.2 (at least 1.55) times as fast as serial calls" in found.sentence


def test_the_head_tells_the_cores_of_a_quota() -> None:
    """The number of cores is what the quota allows."""
    found = advice(verdict(contender("serial", 1)), contender("serial", 1))
    heads = []
    for one in (found, replace(found, quota_cores=1.5), replace(found, cores=1)):
        console = Console(file=io.StringIO(), width=80)
        console.print(render_advice(one))
        heads.append(console.file.getvalue().splitlines()[0])  # type: ignore[attr-defined]
    assert heads == [
        "app:resize on CPython 3.13, 2 cores",
        "app:resize on CPython 3.13, 2 cores by a CPU quota of 1.50",
        "app:resize on CPython 3.13, 1 core",
    ]


@pytest.mark.parametrize(("own_bytes", "times"), [(40, 0), (3_139_919, 1)])
def test_the_object_that_goes_with_each_call_is_told(own_bytes: int, times: int) -> None:
    """A bound method of a large object is expensive to send, whatever its arguments are."""
    found = advice(verdict(contender("serial", 1)), contender("serial", 1))
    found = replace(found, function=replace(FUNCTION, own_bytes=own_bytes))
    console = Console(file=io.StringIO(), width=200)
    console.print(render_advice(found))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert text.count("the object of the method, 2.99 MiB, goes with each call") == times


@pytest.mark.parametrize(
    ("store", "command"), [("", "headway report 1"), (" --store 'my runs'", "headway report 1 --store 'my runs'")]
)
def test_the_command_for_the_launches_names_the_store(store: str, command: str) -> None:
    """A run in another store than the user's own is found by the command that is told."""
    found = replace(advice(verdict(contender("serial", 1)), contender("serial", 1)), run="1")
    console = Console(file=io.StringIO(), width=200)
    console.print(render_advice(found, store))
    assert f"`{command}` shows the launches" in console.file.getvalue()  # type: ignore[attr-defined]


def test_releases_in_words() -> None:
    """Whether a function releases the GIL depends on its share of time without the GIL."""
    assert [released_of(one) for one in (0.99, 0.5, 0.01)] == ["yes", "in part", "no"]
    assert HOLDS.releases == "no"
    assert HOLDS.longest is SPOT


def test_advice_as_json() -> None:
    """Infinity is null in JSON."""
    only_once = once("threads", 1.8)
    found = advice(verdict(contender("serial", 1), contender("threads", 1.8)), only_once).to_json()
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["contenders"][0]["speed_up"]["high"] is None
    assert found["holds"]["releases"] == "no"
    assert found["holds"]["longest"]["longest_s"] == 0.24


@pytest.mark.parametrize(
    ("unpicklable", "words"),
    [
        ((), "the pickled arguments have 4 B, the result (int) 4 B; pickling and unpickling take 10 us"),
        (("its arguments",), "the arguments cannot be pickled, the result (int) 4 B"),
        (("its result",), "the pickled arguments have 4 B, the result (int) cannot be pickled"),
    ],
)
def test_a_value_without_a_pickle_has_no_size(unpicklable: tuple[str, ...], words: str) -> None:
    """It is not said to have 0 B, nor to take some time."""
    found = advice(verdict(contender("serial", 1)), contender("serial", 1))
    console = Console(file=io.StringIO(), width=200)
    console.print(render_advice(replace(found, function=replace(FUNCTION, unpicklable=unpicklable))))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert f"of it computing; {words}\n" in text


def test_break_even_and_the_loops_lag_have_their_intervals() -> None:
    """A size, a number of tasks and a lag are shown with their ends; a figure whose ends would tell nothing says so."""
    found = advice(verdict(contender("serial", 1)), contender("serial", 1))
    pays = (
        BreakEven("threads", Interval(0.001, 0.0008, 0.0012, "t"), Interval(3.2, 2.1, 8.9, "t")),
        BreakEven("processes-forkserver", None, None, "the time was up"),
        BreakEven("interpreters", Interval(0.001, 1e-7, 9.0, "t"), Interval(4.0, 2.0, 900.0, "t")),
    )
    lags = (
        Lag("asyncio.to_thread", Interval(0.004, 0.003, 0.006, "t")),
        Lag("a process pool", Interval(0.001, 0.0, math.inf, "one launch")),
        Lag("its own coroutines", Interval(0.00735, 6.24e-9, 8657.0, "t")),
    )
    console = Console(file=io.StringIO(), width=200)
    console.print(render_advice(replace(found, break_even=pays, lags=lags)))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "  break-even of threads: 1 ms [800 us to 1.2 ms] per task and 4 [3 to 9] tasks\n" in text
    assert "  break-even of processes: the time was up\n" in text
    assert "with asyncio.to_thread, is late by 4 ms [3 ms to 6 ms] (p99)\n" in text
    assert "with a process pool, is late by 1 ms (one launch) (p99)\n" in text
    far = "(launches far apart: no interval)"
    assert f"with its own coroutines, is late by 7.35 ms {far} (p99)\n" in text
    assert f"  break-even of interpreters: 1 ms {far} per task and 4 {far} tasks\n" in text


def test_a_lag_that_was_left_out_is_told() -> None:
    """If the time is up, each way that has no lag is named; one that cannot run the function is no matter of time."""
    session: Any = SimpleNamespace(spent_s=96.0, name="advise f")
    home: Any = SimpleNamespace(why_not=lambda kind: "no pickle" if kind == "processes-forkserver" else "")
    found, (said,) = pays_from.lags(session, home, FUNCTION, sizes_of(FUNCTION, 2, None), 100.0)
    assert found == []
    assert said.endswith("with asyncio.to_thread, was not measured: the time was up")


def test_the_range_of_simulations_is_not_told_as_an_interval() -> None:
    """The figures beside a server say what their brackets are."""
    (said,) = cores.beside_a_server(HOLDS, 2, 2)
    assert said.endswith("in brackets: the range of 5 simulations; a measured p99 often differs by a factor of 2")


def test_short_calls_beside_a_server_are_simulated_as_one_long_call() -> None:
    """A hold of the GIL may be interrupted anywhere, so that a simulation of each microsecond would tell the same."""
    long, *short = (
        replace(HOLDS, held=1.0, computes_without=0.0, waits=0.0, call_s=call_s, spots=())
        for call_s in (1e-4, 1e-6, 2.5e-6)
    )
    assert [cores.beside_a_server(one, 2, 2) for one in short] == [cores.beside_a_server(long, 2, 2)] * 2
