"""The duties of a collector to the processes that record for it, with collections that only count."""

import pytest
from waiting import wait_for

from headway.live import upkeep
from headway.live.upkeep import LEAST_CHUNKS, Upkeep
from headway.native import CHUNK_BYTES

LEFT = {"one": 8 * 2000 * CHUNK_BYTES, "other": 8 * 600 * CHUNK_BYTES, "full": 0}


class Counted:
    """A collection that keeps what it is told."""

    def __init__(self):
        self.beats, self.chunks, self.is_closed = 0, None, False

    def beat(self):
        """Count a sign of life."""
        assert not self.is_closed
        self.beats += 1

    def share(self, chunks):
        """Keep the share."""
        assert not self.is_closed
        self.chunks = chunks


@pytest.fixture
def kept(monkeypatch):
    """Return an upkeep whose processes, by their ids, are in groups that leave LEFT to them."""
    monkeypatch.setattr(upkeep, "groups_of", {1: "one", 2: "one", 3: "other", 4: "full"}.get)
    monkeypatch.setattr(upkeep, "memory_left_bytes", dict(LEFT).__getitem__)
    made = Upkeep()
    yield made
    made.close()


def begun(kept, pid):
    collection = Counted()
    kept.add(collection, pid)
    return collection


def test_processes_of_a_group_divide_a_part_of_what_it_leaves(kept):
    """An eighth of the memory is for events, and each gets no more than it was meant to have."""
    first, second, other = (begun(kept, pid) for pid in (1, 2, 3))
    for one, chunks in ((first, 8192), (second, 500), (other, 8192)):
        kept.share(one, chunks)

    assert (first.chunks, second.chunks, other.chunks) == (1000, 500, 600)
    kept.remove(second)
    kept.share(first, 8192)
    assert first.chunks == 2000


def test_where_nothing_is_left_a_process_has_the_least(kept):
    """It may have asked for more than the usual least."""
    full = begun(kept, 4)
    kept.share(full, 8192)
    assert full.chunks == LEAST_CHUNKS
    kept.share(full, 8192, least=LEAST_CHUNKS + 9)
    assert full.chunks == LEAST_CHUNKS + 9


def test_signs_of_life_and_shares_go_on_by_themselves(kept, monkeypatch):
    """Until a process is taken care of no longer: its collection may be closed then."""
    one, other = begun(kept, 1), begun(kept, 3)
    assert one.beats == 1
    kept.share(one, 8192)
    wait_for(lambda: one.beats > 2 and other.beats > 2)
    monkeypatch.setattr(upkeep, "memory_left_bytes", lambda groups: LEFT[groups] // 2)
    wait_for(lambda: one.chunks == 1000)
    kept.remove(one)
    one.is_closed = True
    beats = other.beats
    wait_for(lambda: other.beats > beats + 1)
