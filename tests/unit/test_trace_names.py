"""The name of a trace for which no file is named."""

import pytest

from headway.cli import trace_command
from headway.cli.main import parser


@pytest.fixture
def name_of(tmp_path, monkeypatch):
    """Return a function of options that returns the name of the next trace of app.py, and the words on it."""
    monkeypatch.chdir(tmp_path)

    def name(*options):
        arguments = parser("trace").parse_args(["trace", *options, "app.py"])
        path = trace_command.new_path(arguments, "app.py")
        return path.name, trace_command._note_of(arguments, path, "app.py")

    return name


def test_a_name_that_is_taken_gets_a_number(name_of, tmp_path):
    """The line that names a numbered trace tells of the earlier one, whose name a user would type."""
    assert name_of() == ("app.hwt", "")
    (tmp_path / "app.hwt").touch()
    assert name_of() == ("app-2.hwt", " (app.hwt is there already: --force overwrites it)")
    (tmp_path / "app-2.hwt").touch()
    assert name_of()[0] == "app-3.hwt"
    assert name_of("-o", "b.hwt") == ("b.hwt", "")


def test_force_overwrites_the_first_name(name_of, tmp_path):
    """Without --output, --force takes the name of the program, and the earlier trace stays until the program records."""
    (tmp_path / "app.hwt").touch()
    (tmp_path / "app-2.hwt").touch()

    assert name_of("--force") == ("app.hwt", "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["app-2.hwt", "app.hwt"]
