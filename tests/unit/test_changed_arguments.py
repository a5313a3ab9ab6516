"""An argument that a call has changed, and one that is only read, whatever its pickle has then."""

import pickle

import pytest
from headway_agent.strangers.calls import are_equal


class Table:
    """A table that notes its sum when that is read, as columns of libraries do."""

    def __init__(self, values):
        self.values = values
        self.cache = {}

    def equals(self, other):
        """Return whether the values are the same."""
        return self.values == other.values

    def total(self):
        """Return the sum, which is kept."""
        return self.cache.setdefault("total", sum(self.values))


class Record:
    """An object that is equal to another one with the same key."""

    def __init__(self, key, value):
        self.key, self.value = key, value

    def __eq__(self, other):
        return self.key == other.key

    __hash__ = None


def given():
    return ((Table([1, 2]), [{"rows": [Table([3])]}]), {"record": Record(1, "a"), "names": ["a", "b"]})


def test_a_cache_in_a_table_is_no_change():
    """A table that only its own cache tells from its copy is equal to it, also within other values."""
    used = given()
    pickled = pickle.dumps(used)
    used[0][0].total()
    used[0][1][0]["rows"][0].total()

    assert pickle.dumps(used) != pickled
    assert are_equal(used, pickle.loads(pickled))


@pytest.mark.parametrize(
    "change",
    [
        lambda args, kwargs: args[0].values.append(3),
        lambda args, kwargs: args[1].append(1),
        lambda args, kwargs: args[1][0]["rows"][0].values.clear(),
        lambda args, kwargs: setattr(kwargs["record"], "value", "b"),
        lambda args, kwargs: kwargs["names"].reverse(),
        lambda args, kwargs: kwargs.pop("names"),
    ],
)
def test_a_change_is_seen(change):
    """A change of a table's values, of a container, or of what `==` of an object does not compare is one."""
    used = given()
    pickled = pickle.dumps(used)
    change(*used)

    assert not are_equal(used, pickle.loads(pickled))
