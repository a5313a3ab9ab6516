"""Times in the JSON of a report: they count from the begin of each process, and tell when that was in the launch."""

from made_traces import MS
from told_traces import convoy

from headway.traces.analysis import analyse, as_json


def test_a_later_process_tells_its_begin_in_the_launch():
    """The report in words counts from the launch's begin, so `offset_ns` leads from one to the other."""
    trace = convoy()
    later = as_json(analyse(trace, origin_ns=trace.start_ns - 30 * MS))

    assert later["process"]["offset_ns"] == 30 * MS
    assert later["window"]["start_ns"] == 0
    assert as_json(analyse(trace))["process"]["offset_ns"] == 0
