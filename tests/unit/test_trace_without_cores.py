"""Findings about programs whose threads hold the GIL without a core: what they lack is no GIL."""

import io
from dataclasses import replace

import pytest
from made_traces import MS
from rich.console import Console
from told_traces import AT_COMPUTE, AT_RECV, Script, convoy, told

from headway.report.html.trace_page import views_of
from headway.report.trace.summary import summary_lines
from headway.report.trace.terminal import render_traces
from headway.traces.analysis import analyse
from headway.traces.model import Kind


def alone(ran, *, until_ms=3000, **process):
    """Return a trace of one thread that computes all the time, with the given share of a core."""
    script = Script()
    for now in range(0, until_ms, 100):
        script.hold(0, now, now + 100, ran=ran)
    return script.trace(until_ms, "MainThread", **process)


def behind(*, ran, wait_ms, asks_ms=5.0, rounds=40, **process):
    """Return a trace of a thread that waits `wait_ms` for one that computes with the given share of a core."""
    script, now = Script(), 0.0
    for _ in range(rounds):
        end = now + wait_ms
        script.wait(1, now, asks_ms=now + asks_ms).hold(0, now, end, forced=True, ran=ran)
        script.wait(0, end, stack=AT_COMPUTE).hold(1, end, end + 0.02, stack=AT_RECV)
        now = end + 0.02
    return script.add(now, 0, Kind.ACQUIRE).trace(now, "cpu", "io", **process)


@pytest.mark.parametrize("ran", [0.23, 0.7])
def test_a_program_that_gets_a_part_of_a_core_is_not_told_that_all_is_well(ran):
    """One thread waits for no GIL, and yet a problem limits it: it holds the GIL without a core."""
    found = told(alone(ran))

    assert "no-contention" not in found
    assert found["off-core"].weight == "problem"
    assert found["off-core"].fact.startswith("threads held the GIL without running on a core for at least ")
    assert found["off-core"].cost_ns == pytest.approx((1 - ran) * 3000 * MS, rel=0.01)


@pytest.mark.parametrize(("ran", "advised"), [(1.0, True), (0.9, False)])
def test_a_program_computes_on_one_core_all_the_time_only_if_it_has_it(ran, advised):
    """The GIL is held all the time in both cases; the second thread is without a core for a tenth of it."""
    found = told(alone(ran))

    assert "off-core" not in found
    assert ("computes on one core all the time" in found["no-contention"].advice) is advised


def test_a_moment_at_the_start_is_no_lack_of_cores():
    """A process that lives for 50 ms, and reads modules from a disk for most of it, has nothing to improve."""
    assert "off-core" not in told(alone(0.2, until_ms=100))


def test_waits_for_a_holder_without_a_core_are_no_convoy():
    """A process that gets an eighth of a core makes its I/O-bound thread wait for the core, and not for an interval."""
    found = analyse(behind(ran=0.12, wait_ms=20)).findings

    assert found[0].kind == "off-core"
    assert not any(one.kind == "convoy" for one in found)
    guilty = next(one for one in found if one.kind == "behind-a-function")
    assert guilty.fact.endswith("for 88 % of that waiting, the function's thread had no core")
    assert guilty.cost_ns == pytest.approx(0.12 * 40 * 20 * MS, rel=0.05)


@pytest.mark.parametrize(
    ("changes", "is_told"), [({}, True), ({"policy": "fair"}, False), ({"interval_us": 500}, False)]
)
def test_short_holds_may_help_where_threads_wait_for_a_holder_without_a_core(changes, is_told):
    """The finding names the shorter interval without a factor; not if it is set, if a policy decides, or if nobody waits."""
    short = "`sys.setswitchinterval(0.0005)` may help, too"

    assert (short in told(behind(ran=0.12, wait_ms=20, **changes))["off-core"].advice) is is_told
    assert short not in told(alone(0.23, **changes))["off-core"].advice


def test_a_stop_of_the_process_is_no_part_of_a_convoy():
    """A convoy's waits go on; one of 3 s, in which the process was stopped, is neither in its time nor in its cost."""
    script, now = Script(), 0.0
    for number in range(20):
        end = now + (3005 if number == 10 else 5)
        script.wait(1, now, asks_ms=end).hold(0, now, end, forced=True, ran=5 / 3005 if number == 10 else 1.0)
        script.wait(0, end, stack=AT_COMPUTE).hold(1, end, end + 0.02, stack=AT_RECV)
        now = end + 0.02
    found = analyse(script.add(now, 0, Kind.ACQUIRE).trace(now, "cpu", "io")).findings
    one = next(one for one in found if one.kind == "convoy")

    assert found[0].kind == "off-core"
    assert "the process was stopped" in found[0].cause
    assert one.fact.startswith("io waited 19 times")
    assert one.cost_ns == pytest.approx(19 * 5 * MS, rel=0.01)


def test_a_convoy_costs_its_waiters_no_time_without_a_core():
    """A holder without a core for a quarter of the time still makes a convoy, whose cost is the rest."""
    one = told(behind(ran=0.75, wait_ms=6))["convoy"]

    assert one.cost_ns == pytest.approx(40 * 4.5 * MS, rel=0.01)
    assert "240 ms in total" in one.fact
    assert one.fact.endswith("; for 60.5 ms of that, the holder had no core")


def test_no_gain_is_promised_where_cores_are_missing():
    """How much a shorter interval or a policy gives depends on the cores then."""
    advice = told(behind(ran=0.75, wait_ms=6))["convoy"].advice

    assert "hand-offs" not in advice
    assert "measured servers" not in advice
    assert "would make these waits shorter; by how much depends on what else runs on the cores" in advice
    assert "`headway run`, so that io requests the GIL as soon as it has a core" in advice


def printed(analyses):
    """Return the report of some processes as lines."""
    console = Console(file=io.StringIO(), width=200)
    console.print(render_traces(analyses))
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


def test_processes_without_cores_are_told_in_one_line_at_the_head():
    """Eight workers and their parent on two cores: report, summary and page begin with what they did not get."""
    traces = [alone(0.1, pid=100 + number, core_count=2) for number in range(8)]
    traces.append(alone(1.0, until_ms=100, pid=99, core_count=2))
    analyses = [analyse(one) for one in traces]
    told_first = printed(analyses)[0]
    views, _ = views_of([("", list(zip(traces, analyses, strict=True)))])

    assert told_first == summary_lines(analyses)[0]
    assert {view.launch for view in views} == {told_first}
    assert told_first == (
        "8 of 9 processes needed cores that they did not get (2 cores): together they held their GILs for 24.1 s, and for"
        " 21.6 s of that, 90 %, without a core"
    )


def test_processes_with_cores_are_told_nothing_about_them():
    """One process of many that lost its core for a while is no matter of the launch, and one process has its finding."""
    calm = [analyse(alone(1.0, pid=100 + number)) for number in range(8)]
    trace = alone(0.1, pid=99)
    lacking = analyse(trace)
    (view,), _ = views_of([("", [(trace, lacking)])])

    assert view.launch == ""

    for some in ([*calm, lacking], [lacking]):
        assert not any("needed cores" in line for line in (*printed(some), *summary_lines(some)))


def test_a_calm_convoy_has_its_whole_cost():
    """Where nothing is known of the cores, nothing is left out."""
    found = analyse(convoy())
    one = found.gils[0].convoys[0]

    assert (one.off_core_ns, one.cost_ns) == (0, one.waits.total_ns)
    assert replace(one, off_core_ns=MS).cost_ns == one.waits.total_ns - MS
