"""`headway report --thread NAME --json` is about the threads that the same report on the terminal is about."""

import json

import pytest
from told_traces import AT_COMPUTE, AT_RECV, Script, convoy

from headway.cli import main
from headway.traces import writer
from headway.traces.analysis import analyse, as_json
from headway.traces.model import Kind


@pytest.fixture(scope="module")
def crowd():
    """Return a trace of twelve readers in turn, a pool, that wait for a thread which computes."""
    script, now = Script(), 0.0
    for number in range(60):
        reader = 1 + number % 12
        script.wait(reader, now, asks_ms=now + 5).hold(0, now, now + 5, forced=True, ran=1.0)
        script.wait(0, now + 5, stack=AT_COMPUTE).hold(reader, now + 5, now + 5.02, stack=AT_RECV)
        now += 5.02
    return script.add(now, 0, Kind.ACQUIRE).trace(now, "cruncher", *(f"reader-{one}" for one in range(12)))


def test_json_of_one_thread_has_the_rows_that_the_terminal_has(crowd, tmp_path, capsys):
    """Its row, its waits by holder, its line of the timeline, its lines of code; pools are no rows of such a report."""
    path = writer.write(crowd, tmp_path / "app.hwt")
    assert main(["report", str(path), "--json", "--thread", "reader-3"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["processes"]
    (gil,) = one["gils"]

    assert [thread["label"] for thread in one["threads"]] == ["reader-3"]
    assert [row["waiter"] for row in gil["blame"]] == [4]
    assert [line["thread"] for line in gil["timeline"]["by_thread"]] == [4]
    assert one["roles"] == gil["blame_by_role"] == []
    assert [place["threads"] for place in one["held"] + one["waited"]] == [["reader-3"]] * 2
    assert [convoy["waiter"] for convoy in gil["convoys"]] == ["reader-*"]


def test_json_of_some_threads_names_those_that_they_waited_for(crowd):
    """The holder has no row in `threads`, but a label."""
    value = as_json(analyse(crowd, threads={4}), {4})
    (holder,) = value["gils"][0]["blame"][0]["by"]

    assert value["labels"][holder["holder"]] == "cruncher"


def test_json_of_some_threads_has_the_findings_and_the_sums_of_all(crowd):
    """The findings and sums on the terminal are of all threads, too."""
    some, every = as_json(analyse(crowd, threads={4}), {4}), as_json(analyse(crowd))

    for name in ("findings", "wait_ns", "labels", "missing"):
        assert some[name] == every[name]
    for name in ("holds", "waits", "threads", "held_share"):
        assert some["gils"][0][name] == every["gils"][0][name]
    assert len(every["roles"]) == 2
    assert len(every["gils"][0]["blame_by_role"]) == 2


def test_json_of_a_thread_without_a_convoy_has_none():
    """The convoys are those in which one of the threads waits, or is waited for."""
    trace = convoy(waiters=("reader",))
    (gil,) = as_json(analyse(trace), {99})["gils"]

    assert gil["convoys"] == gil["blame"] == []
