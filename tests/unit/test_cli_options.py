"""Arguments that several commands share."""

import argparse

import pytest

from headway.cli.main import _parse
from headway.cli.options import seconds
from headway.errors import UsageError


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


@pytest.mark.parametrize(
    ("words", "name", "values"),
    [
        ("lab countdown --seed 1 race", "experiments", ["countdown", "race"]),
        ("lab --json race --seed 1 sleep --full http", "experiments", ["race", "sleep", "http"]),
        ("lab --seed 1", "experiments", []),
        ("stalls a.log --json b.log", "files", ["a.log", "b.log"]),
    ],
)
def test_options_may_stand_between_names(words, name, values):
    """A command that takes several names takes all of them, wherever its options are."""
    parsed = _parse(words.split())

    assert parsed.command == words.split()[0]
    assert [str(one) for one in getattr(parsed, name)] == values


@pytest.mark.parametrize("words", ["lab race --wrong sleep", "stalls --json"])
def test_a_command_that_takes_several_names_still_refuses(words):
    """An unknown option, and no name where one is required, are errors of the command line."""
    with pytest.raises(SystemExit):
        _parse(words.split())


def test_one_name_too_many_is_told():
    """A command that takes one name says so."""
    with pytest.raises(UsageError, match="takes one RUN, and there is one more: b"):
        _parse(["report", "a", "b"])
