"""Arguments that several commands share."""

import argparse

import pytest

from headway.cli.options import seconds


@pytest.mark.parametrize(
    ("text", "time_s"),
    [
        ("90", 90),
        ("0.5", 0.5),
        ("90s", 90),
        ("1.5 s", 1.5),
        ("250ms", 0.25),
        ("20us", 2e-5),
        ("10m", 600),
        ("1h", 3600),
    ],
)
def test_a_time_is_a_number_of_seconds_or_has_a_unit(text, time_s):
    """Each command takes the same forms."""
    assert seconds()(text) == pytest.approx(time_s)


@pytest.mark.parametrize("text", ["", "s", "soon", "10x", "nan", "nans", "inf", "-1s", "4s", "ten m", "200m"])
def test_a_text_that_is_no_such_time_is_refused(text):
    """The message has the text, the bounds and the forms."""
    with pytest.raises(argparse.ArgumentTypeError) as error:
        seconds(5, below=10_000)(text)

    assert str(error.value) == (
        f"{text!r} is not a number of seconds of at least 5 and below 10,000, nor such a time in a form such as 90s or 10m"
    )
