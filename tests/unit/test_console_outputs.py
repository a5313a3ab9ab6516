"""Files that commands write: each option has a file of its own, and no file that the command reads is replaced."""

import pytest

from headway.cli.console import check_outputs
from headway.cli.main import main
from headway.errors import UsageError


@pytest.fixture
def app(tmp_path):
    """Return the path of a scenario, beside which `link.toml` is a link to it."""
    path = tmp_path / "app.toml"
    path.write_text('title = "one"\n[role.one]\nprogram = [{compute = true}]\n')
    (tmp_path / "link.toml").symlink_to(path)
    return path


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["simulate", "{}/app.toml", "--csv", "{}/app.toml", "--force"], "{}/app.toml is the scenario itself"),
        (["simulate", "{}/app.toml", "--html", "{}/link.toml", "--force"], "{}/link.toml is the scenario itself"),
        (["simulate", "convoy", "--csv", "{}/x", "--html", "{}/x"], "`--html` and `--csv` name the same file {}/x"),
        (
            ["simulate", "convoy", "--csv", "{}/x.hwt", "--trace", "{}/x.hwt"],
            "`--csv` and `--trace` name the same file",
        ),
        (
            ["simulate", "convoy", "--calibration", "{}/app.toml", "--csv", "{}/app.toml", "--force"],
            "is the calibration",
        ),
        (["report", "last", "--pyperf", "{}/x", "--html", "{}/x"], "`--html` and `--pyperf` name the same file {}/x"),
        (
            ["report", "last", "--store", "{}/app.toml", "--pyperf", "{}/app.toml", "--force"],
            "is the results store itself",
        ),
        (
            ["whatif", "{}/app.hwt", "--policy", "fair", "--html", "{}/x.hwt", "--trace", "{}/x.hwt"],
            "`--html` and `--trace` name the same file {}/x.hwt",
        ),
    ],
)
def test_a_file_of_two_options_or_an_input_is_told_before_the_work(app, tmp_path, capsys, words, message):
    """The second output would replace the first, and an output the input, without a word."""
    before = app.read_bytes()

    assert main([word.format(tmp_path) for word in words]) == 2
    assert message.format(tmp_path) in capsys.readouterr().err
    assert app.read_bytes() == before


def test_two_names_of_one_file_are_one_file(app, tmp_path):
    """A link leads to the file that another option names."""
    outputs = {"--a": tmp_path / "app.toml", "--b": None, "--c": tmp_path / "link.toml"}
    with pytest.raises(UsageError, match="`--a` and `--c` name the same file"):
        check_outputs(outputs, force=True)


def test_inputs_that_are_no_files_are_no_outputs(tmp_path):
    """A name of a built-in scenario, or no calibration, is no file."""
    check_outputs({"--a": tmp_path / "x"}, force=False, inputs={"the scenario": "convoy", "the calibration": ""})


@pytest.mark.parametrize("words", [["--csv", "{}/x.csv"], ["--trace", "{}/x.hwt"]])
def test_an_output_that_cannot_be_written_leaves_the_older_one(tmp_path, monkeypatch, capsys, words):
    """A file exists complete or not at all."""
    path = tmp_path / words[1].removeprefix("{}/")
    path.write_text("old")

    def fails(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace", fails)
    simulate = ["simulate", "convoy", "--duration", "0.1", "--seeds", "1", "--calibration", "preset"]

    assert main([*simulate, *(word.format(tmp_path) for word in words), "--force"]) == 1
    assert path.read_text() == "old"
    assert f"cannot write `{path}`: No space left on device" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("option", ["--html", "--csv"])
def test_a_dash_is_no_file_name(app, tmp_path, monkeypatch, capsys, option):
    """`-` is stdout to other programs; no file of that name is written."""
    monkeypatch.chdir(tmp_path)

    assert main(["simulate", str(app), "--calibration", "preset", option, "-"]) != 0
    assert "`-` is no file name" in capsys.readouterr().err
    assert not (tmp_path / "-").exists()
