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
        ({"keep": 2.5}, "keep is 2.5, expected a whole number: 1 or more"),
        ({"keep": "3"}, "keep is '3', expected a whole number: 1 or more"),
        ({"over_s": "1"}, "over_s is '1', expected a number: 0.01 to 600 seconds"),
        ({"requests_over_s": None}, "requests_over_s is None, expected a number: 0.01 to 600 seconds"),
        ({"ring_bytes": 4e6}, "ring_bytes is 4000000.0, expected a whole number: 1048576 to 1073741824"),
        ({"name": 3}, "name is 3, expected a text"),
        ({"quiet": "no"}, "quiet is 'no', expected True or False"),
        ({"sparing": 0}, "sparing is 0, expected True or False"),
        ({"listen": 9464}, "listen is 9464, expected a text"),
        ({"name": "a/b"}, "name is 'a/b', expected a name without a slash"),
    ],
)
def test_a_watch_with_a_setting_out_of_its_range_is_refused(settings, told, tmp_path):
    """No watcher is started, and the error has the setting's name, its value and its range."""
    with pytest.raises(UsageError) as caught:
        headway.watch(tmp_path, **settings)

    assert caught.value.message == told
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_no_path_is_refused():
    """A number is no name of a folder."""
    with pytest.raises(UsageError, match="folder is 3, expected a path"):
        headway.watch(3)


@pytest.mark.parametrize("max_bytes", [-5, 0, 64, 65535])
def test_a_recording_without_room_for_events_is_refused(max_bytes):
    """A recording of a few bytes would have no event, and say that nothing waited."""
    with pytest.raises(UsageError, match=f"max_bytes is {max_bytes}, expected at least 65536"):
        headway.trace(max_bytes=max_bytes)
