"""Other interpreters than the user's own, without asking one."""

from types import SimpleNamespace
from typing import Any

from headway.advice.elsewhere import places
from headway.advice.target import parse_target


def test_another_interpreter_is_left_out_if_the_time_is_up():
    """A short budget may be over when the user's own interpreter has been asked: a note says what was left out."""
    home: Any = SimpleNamespace(folder="", direct=(), distributions={})
    keeper: Any = None
    others: list[Any] = [SimpleNamespace(name=name) for name in ("3.12", "3.13t")]

    found, refusals, notes = places(
        parse_target("app:f"),
        home,
        [0],
        lost=0,
        interpreters=others,
        install=False,
        keeper=keeper,
        say=lambda _: None,
        time_left=lambda: False,
    )

    assert (found, refusals) == ([], [])
    assert notes == [
        f"{name} was not tried: the time was up (`--interpreter {name}` tries it)" for name in ("3.12", "3.13t")
    ]
