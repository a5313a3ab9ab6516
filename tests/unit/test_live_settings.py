"""Settings of watching and recording in Python that are refused, as the commands refuse theirs."""

import pytest

import headway
from headway.errors import UsageError


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"over_s": 0}, "over_s is 0, expected 0.01 to 600 seconds"),
        ({"over_s": float("nan")}, "over_s is nan, expected 0.01 to 600 seconds"),
        ({"requests_over_s": -1}, "requests_over_s is -1, expected 0.01 to 600 seconds"),
        ({"ring_bytes": 1}, "ring_bytes is 1, expected 1048576 to 1073741824"),
        ({"keep": 0}, "keep is 0, expected 1 or more"),
        ({"name": "a/b"}, "name is 'a/b', expected a name without a slash"),
    ],
)
def test_a_watch_with_a_setting_out_of_its_range_is_refused(settings, told, tmp_path):
    """No watcher is started, and the error has the setting's name, its value and its range."""
    with pytest.raises(UsageError) as caught:
        headway.watch(tmp_path, **settings)

    assert caught.value.message == told
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("max_bytes", [-5, 0, 64, 65535])
def test_a_recording_without_room_for_events_is_refused(max_bytes):
    """A recording of a few bytes would have no event, and say that nothing waited."""
    with pytest.raises(UsageError, match=f"max_bytes is {max_bytes}, expected at least 65536"):
        headway.trace(max_bytes=max_bytes)
