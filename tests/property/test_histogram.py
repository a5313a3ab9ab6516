"""The C histogram and the pure Python percentiles, compared with another implementation: HdrHistogram's Python port."""

import ctypes
import statistics

import pytest
from hdrh.histogram import HdrHistogram
from headway_agent.load import HISTOGRAM_LENGTH, Histogram, highest_ns, percentiles, standard_deviation_s
from hypothesis import given
from hypothesis import strategies as st
from sample import examples

from headway.library import library_path

MAX_NS = 3600 * 10**9
POINTS = (50.0, 90.0, 99.0, 99.9, 100.0)

library = ctypes.CDLL(str(library_path()))
library.hw_histogram_record.argtypes = [ctypes.POINTER(Histogram), ctypes.c_int64]
library.hw_histogram_percentile_ns.argtypes = [ctypes.POINTER(Histogram), ctypes.c_double]
for name in ("percentile", "min", "max", "lowest", "highest"):
    getattr(library, f"hw_histogram_{name}_ns").restype = ctypes.c_int64
library.hw_histogram_mean_ns.restype = ctypes.c_double

# Evenly over the magnitudes, because the buckets are spread in this way.
values_ns = st.integers(0, 41).flatmap(lambda bits: st.integers(0, min(MAX_NS, 2 ** (bits + 1))))
many_ns = st.lists(values_ns, min_size=1, max_size=200)


def ours(values):
    histogram = Histogram()
    for value_ns in values:
        library.hw_histogram_record(ctypes.byref(histogram), value_ns)
    return histogram


def theirs(values):
    histogram = HdrHistogram(1, MAX_NS, 3)
    for value_ns in values:
        assert histogram.record_value(value_ns)
    return histogram


def assert_same(one, other, values):
    counts = one.pairs()
    assert counts == [[index, count] for index, count in enumerate(other.counts) if count]
    assert one.total == other.get_total_count() == len(values)
    by_point = other.get_percentile_to_value_dict(list(POINTS))
    expected_ns = [by_point[point] for point in POINTS]
    assert [library.hw_histogram_percentile_ns(ctypes.byref(one), point) for point in POINTS] == expected_ns
    assert percentiles(counts, POINTS) == [value_ns / 1e9 for value_ns in expected_ns]
    assert library.hw_histogram_min_ns(ctypes.byref(one)) == other.get_min_value()
    assert library.hw_histogram_max_ns(ctypes.byref(one)) == other.get_max_value()
    assert library.hw_histogram_mean_ns(ctypes.byref(one)) == pytest.approx(other.get_mean_value())


@examples(40)  # The pure Python one reads all of its counts again and again.
@given(many_ns)
def test_the_same_samples_give_the_same_histogram(values):
    """Counts, percentiles, minimum, maximum and mean agree."""
    assert_same(ours(values), theirs(values), values)


@examples(20)
@given(many_ns, many_ns)
def test_merging_agrees(some, others):
    """Adding, joining the pairs, and recording all values in one histogram give the same as HdrHistogram's adding."""
    one, other = ours(some), theirs(some)
    pairs = one.pairs() + ours(others).pairs()
    library.hw_histogram_add(ctypes.byref(one), ctypes.byref(ours(others)))
    other.add(theirs(others))

    assert_same(one, other, some + others)
    assert bytes(one) == bytes(ours(some + others))
    assert percentiles(pairs, POINTS) == percentiles(one.pairs(), POINTS)


@given(st.lists(st.tuples(st.integers(0, HISTOGRAM_LENGTH - 1), st.integers(1, 10**9)), max_size=50))
def test_percentiles_of_any_pairs_rise(counts):
    """Percentiles of any pairs, in any order, rise with the point, and only an empty list gives None."""
    found = percentiles(counts, POINTS)

    assert found == percentiles(counts[::-1], POINTS)
    assert (None in found) == (not counts)
    if counts:
        assert found == sorted(found)


@given(many_ns)
def test_the_standard_deviation_is_that_of_the_values(values):
    """The deviation is that of the values, within a histogram's three digits; without a count, there is none."""
    deviation_s = standard_deviation_s(ours(values).pairs())

    assert deviation_s == pytest.approx(statistics.pstdev(values) / 1e9, abs=1e-3 * max(values) / 1e9 + 1e-9)
    assert standard_deviation_s([]) is None


@given(st.integers(0, HISTOGRAM_LENGTH - 1))
def test_an_index_means_the_same_everywhere(index):
    """The values counted at an index are the same in C, in Python, and in HdrHistogram."""
    reference = HdrHistogram(1, MAX_NS, 3)
    lowest_ns = library.hw_histogram_lowest_ns(index)

    assert lowest_ns == reference.get_value_from_index(index)
    assert library.hw_histogram_highest_ns(index) == reference.get_highest_equivalent_value(lowest_ns)
    assert highest_ns(index) == library.hw_histogram_highest_ns(index)
    assert reference.counts_len == HISTOGRAM_LENGTH


@given(st.integers(MAX_NS + 1, 2**63 - 1))
def test_too_long_counts_as_the_longest(value_ns):
    """A value that HdrHistogram would refuse is counted at the maximum, and as clamped."""
    histogram = ours([value_ns])

    assert histogram.clamped == 1
    assert histogram.pairs() == ours([MAX_NS]).pairs()
