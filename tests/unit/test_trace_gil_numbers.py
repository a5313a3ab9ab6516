"""Several GILs may have one number in a trace, one after the other."""

import pytest
from made_traces import START_NS

from headway.traces import format as hwt
from headway.traces.model import Gil
from headway.traces.records import Records
from headway.traces.writer import record

BEGINS, ENDS = hwt.META_GIL, hwt.META_GIL_END


@pytest.mark.parametrize(
    ("told", "end_ns"),
    [
        ([(BEGINS, 1)], None),
        ([(BEGINS, 1), (ENDS, 5)], START_NS + 5),
        ([(BEGINS, 1), (ENDS, 5), (BEGINS, 7)], None),
        ([(BEGINS, 1), (ENDS, 5), (BEGINS, 4)], None),  # each GIL has its own tie to the clock
        ([(BEGINS, 1), (ENDS, 5), (BEGINS, 7), (ENDS, 9)], START_NS + 9),
    ],
)
def test_a_number_ends_with_its_last_gil(told, end_ns):
    """A number that has become another GIL's exists as long as that one, and begins with the first one."""
    records = Records()
    for kind, at in told:
        data = record(kind, hwt.META_GIL_DTYPE, index=1, main=0, address=64 + at, time_ns=START_NS + at)
        records.add(1, data)

    assert records.damaged_bytes == 0
    assert records.gils(2, START_NS)[1] == Gil(1, False, 65, START_NS + 1, end_ns)
