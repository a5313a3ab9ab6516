"""The finding about a switch interval that is so long that no waiter ever requests the GIL."""

from collections.abc import Iterator

from headway.traces.analysis.intervals import DEFAULT_NS
from headway.traces.analysis.result import Analysis, Finding
from headway.traces.analysis.sharing import WORTH
from headway.traces.analysis.words import duration, switch_interval

__all__ = ["long_intervals"]

_S_NS = 1_000_000_000


def long_intervals(analysis: Analysis) -> Iterator[Finding]:
    """Yield a finding for each GIL whose waits were all shorter than its interval, and longer than the default one.

    Under a policy of Headway, requests do not wait for the interval.
    """
    if analysis.process.policy:
        return
    for gil in analysis.gils:
        beyond_ns = gil.waits.total_ns - gil.waits.count * DEFAULT_NS
        if gil.interval_ns <= max(DEFAULT_NS, gil.waits.max_ns) or gil.forced:
            continue
        if beyond_ns >= WORTH * analysis.wall_ns > 0:
            yield Finding(
                kind="long-interval",
                weight="problem",
                fact=(
                    f"the switch interval of {gil.name} is {switch_interval(gil.interval_ns)}, so no thread could request it:"
                    f" threads waited {duration(gil.waits.total_ns)} in total, {duration(gil.waits.max_ns)} at most, until the"
                    " holder released it by itself"
                ),
                cause="a waiter requests the GIL after one switch interval, and the program has set a long one",
                advice=f"leave out the call, or set the default: `sys.setswitchinterval({DEFAULT_NS / _S_NS:g})`",
                cost_ns=beyond_ns,
                gil=gil.index,
            )
