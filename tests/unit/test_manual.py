"""The manual page, the completions and the site's reference cover the whole command line and all interfaces."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import manual
import pytest
import site_pages
from synthetic import make_cell, make_settings

import headway
from headway import errors, lab
from headway.cli.completion_command import SHELLS, script
from headway.cli.main import _COMMANDS, EXIT_CODES, main
from headway.live.exposition import Totals, exposition
from headway.native import policies
from headway.traces import format as hwt

ROOT = Path(__file__).resolve().parents[2]


def page(name: str) -> str:
    return "\n".join(site_pages.PAGES[name]())


def test_every_command_has_its_section():
    """The page of the command line has a section for every command, and rows for options."""
    text = page("reference/command-line.md")

    assert [name for name in _COMMANDS if f"\n## headway {name}\n" not in text] == []
    assert all(option in text for option in ("`--why`", "`--switch-interval`", "`--with-tests`"))
    assert all(len(row.replace("\\|", "").split("|")) == 4 for row in text.splitlines() if row.startswith("|"))


def test_every_exit_code_is_told(capsys):
    """The help and the page have the code of each error, and those of signals and of programs that are not found."""
    codes = {str(one.exit_code) for name in errors.__all__ if (one := getattr(errors, name))}
    told = {code for key in EXIT_CODES for code in key.split(", ")}
    with pytest.raises(SystemExit):
        main(["--help"])
    text, out = page("reference/command-line.md"), capsys.readouterr().out

    assert codes | {"0", "130", "143", "129"} == told
    assert all(f"| {code} | {meaning} |" in text and meaning in out for code, meaning in EXIT_CODES.items())


def test_every_public_name_has_its_entry():
    """The page of the Python interface has all names of `headway`, and only names that a user may import."""
    text = page("reference/python.md")

    members = {line.rpartition(".")[2] for line in text.splitlines() if line.startswith("::: ")}
    assert {name for name in headway.__all__ if name not in ("__version__", "lab")} <= members
    assert {"Request", "Run", "run", "judge", "Store", "Verdict"} <= members
    parts = {name for _, names in site_pages._PARTS.values() for name in names}
    assert members <= {*headway.__all__, *lab.__all__, *parts}


def test_what_the_guides_import_has_its_entry():
    """The page of the Python interface has each name that a guide or the README imports from a module of Headway."""
    text = page("reference/python.md")
    documents = [ROOT / "README.md", *(ROOT / "docs").glob("guides/*.md"), *(ROOT / "docs").glob("tutorials/*.md")]
    imports = [
        (module, name)
        for document in documents
        for module, names in re.findall(r"from (headway\.[\w.]+) import ([\w, ]+)", document.read_text())
        for name in names.split(", ")
    ]

    assert len(imports) > 5
    assert [each for each in imports if f"\n## {each[0]}\n" not in text or f".{each[1]}\n" not in text] == []


def test_every_metric_has_its_row():
    """The page of metrics has a row for each metric that a watcher serves."""
    names = re.findall(r"^# HELP (\S+)", "\n".join(exposition(Totals())), re.MULTILINE)

    text = page("reference/metrics.md")

    assert len(names) > 5
    assert all(f"| `{name}` |" in text for name in names)


def rows(text: str, section: str) -> dict[str, str]:
    """Return the meanings of a section's rows, by name and without the length of an array."""
    table = text.split(f"\n## {section}\n")[1].split("\n## ", maxsplit=1)[0]
    found = re.findall(r"^\| `(\w+)(?:\[\w+\])*` \| `[^`]+` \| (.*?) ?\|$", table, re.MULTILINE)
    assert len(found) == len(dict(found))
    return dict(found)


@pytest.mark.parametrize("struct", hwt.STRUCTS)
def test_the_trace_files_page_has_every_field(struct):
    """The page has a table for each struct of the trace's format, with a row for each field that the reader knows."""
    found = rows(page("reference/trace-file.md"), struct)

    names = set(hwt.STRUCTS[struct].names or ())
    assert names <= set(found) | {"reserved"}


def test_the_trace_files_page_has_each_meaning_at_its_own_name():
    """A comment of the format's header is that of the field or number before it on its line, or else of the next one."""
    text = page("reference/trace-file.md")
    numbers, slot, event, chunk = (rows(text, section) for section in ("Numbers", "slot", "event", "chunk"))

    assert slot["serial"] == "the thread's serial; changes when the slot gets another owner"
    assert slot["wait_buckets"].startswith("[i] counts the waits whose length in ns has i bits")
    assert slot["hold_buckets"].startswith("[i] counts the holds whose length in ns has i bits")
    assert (event["value"], event["gil"]) == ("", "the GIL's index")
    assert chunk["lost_interval_ns"].startswith("In a memory that nobody collects")
    assert (numbers["HOLD"][:37], numbers["CHUNK_EVENTS"]) == ("An ACQUIRE together with the RELEASE ", "")
    assert "/*" not in text
    assert " * " not in text


def test_the_policy_page_is_the_header():
    """The page shows the header, and the library has at least the four built-in policies."""
    assert "struct hw_policy {" in page("reference/policy-header.md")
    assert len(policies()[0]) >= 4


def test_the_manual_page_has_a_purpose_and_keeps_its_lists(tmp_path):
    """whatis(1) shows the words behind the name, and lists of exit codes and examples are not filled."""
    manual.write(tmp_path)
    text = (tmp_path / "man/man1/headway.1").read_text()

    assert re.search(r"^\.SH NAME\nheadway \\- \w+", text, re.MULTILINE)
    listings = re.findall(r"^\.nf\n(.*?)^\.fi$", text, re.MULTILINE | re.DOTALL)
    assert any("neither the process nor one below it could be recorded; one\n" in one for one in listings)
    rest = re.sub(r"(?ms)^\.nf\n.*?^\.fi$", "", text)
    assert not re.search(r"^  ", rest, re.MULTILINE)


def test_manual_and_completions_are_written(tmp_path):
    """The manual page names every command, and bash completes a command's name with the written completion."""
    written = manual.write(tmp_path)

    assert len(written) == 4
    text = (tmp_path / "man/man1/headway.1").read_text()
    assert [name for name in _COMMANDS if f"headway {name}" not in text.replace("\\", "")] == []
    completions = tmp_path / "bash-completion/completions/headway"
    assert _completed(completions, tmp_path, "tra") == ["trace"]


def _completed(completions: Path, folder: Path, *words: str) -> list[str]:
    """Return the completions that bash finds for the last one of these words after `headway`, in a folder."""
    script = f"""
        source {completions}
        COMP_WORDS=(headway {" ".join(words)}); COMP_CWORD={len(words)}; _shtab_headway
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    bash = shutil.which("bash")
    done = subprocess.run([bash, "-c", script], cwd=folder, capture_output=True, text=True, check=True)
    return [word.rstrip("/ ") for word in done.stdout.split()]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["report", "my"], ["my.hwt"]),
        (["trace", "app"], ["app.py"]),
        (["whatif", "my"], ["my.hwt"]),
        (["report", "--html", "pa"], ["page.html"]),
        (["watch", "-o", "fol"], ["folder"]),
        (["lab", "conv"], ["convoy", "convoy-affinity", "convoy-cases", "convoy-switch-interval"]),
        (["lab", "race", "slee"], ["sleep"]),
        (["run", "--policy", ""], ["fair", "priority", "bfs", "stock", "none"]),
        (["attach", "--policy", ""], ["fair", "priority", "bfs", "stock"]),
        (["run", "--policy", "./fol"], ["./folder"]),
        (["simulate", "convoy"], ["convoy"]),
        (["simulate", "page.h"], ["page.html"]),
        (["simulate", "--show", "conv"], ["convoy"]),
    ],
    ids=" ".join,
)
def test_bash_completes_files_and_names(words, found, tmp_path):
    """Arguments that are files, folders, experiments, scenarios or policies are completed with those."""
    for name in ("app.py", "my.hwt", "page.html"):
        (tmp_path / name).touch()
    (tmp_path / "folder").mkdir()
    completions = tmp_path / "completions"
    completions.write_text(script("bash"))

    assert _completed(completions, tmp_path, *words) == found
    # The script leaves what it does not know to bash, which completes names of files.
    assert "complete -o bashdefault -o default -F _shtab_headway headway" in completions.read_text()


def test_the_command_alone_shows_five_ways_in_80_columns(capsys):
    """`headway` without arguments prints five existing commands to stdout, and succeeds."""
    assert main([]) == 0

    said = capsys.readouterr()
    lines = said.out.splitlines()
    ways = [line.split()[1] for line in lines if line.startswith("  headway ")]
    assert len(ways) == 5
    assert set(ways) <= set(_COMMANDS)
    assert max(map(len, lines)) <= 80
    assert said.err == ""


@pytest.mark.parametrize("command", [None, *_COMMANDS])
def test_help_fits_80_columns(command, capsys, monkeypatch):
    """No line of a command's help is broken by a terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")

    with pytest.raises(SystemExit) as end:
        main(["--help"] if command is None else [command, "--help"])

    assert end.value.code == 0
    assert [line for line in capsys.readouterr().out.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("words", [["runs", "--delete"], ["lab", "--resume"], ["compare", "last"]], ids=" ".join)
def test_bash_completes_the_runs_that_there_are_now(words, tmp_path, monkeypatch):
    """The shell asks the command for the runs' ids, and finds no name of a file in their place."""
    (tmp_path / "abc.txt").touch()
    (tmp_path / "completions").write_text(script("bash"))
    monkeypatch.setenv("HEADWAY_STORE", str(tmp_path / "results.sqlite"))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")

    assert _completed(tmp_path / "completions", tmp_path, *words, "") == ["last"]
    with lab.Store(tmp_path / "results.sqlite", create=True) as store:
        made = [store.new_run(make_settings(launches=1), [make_cell("sleep", "serial", "3.13.0")]) for _ in range(2)]
    assert sorted(_completed(tmp_path / "completions", tmp_path, *words, "")) == sorted(["last", *made])
    assert _completed(tmp_path / "completions", tmp_path, *words, made[0]) == [made[0]]


def test_bash_completes_the_rest_without_the_native_library(tmp_path, monkeypatch):
    """Only the names of policies are missing, and files stand in their place."""
    monkeypatch.setenv("HEADWAY_NATIVE", str(tmp_path / "none.so"))
    (tmp_path / "app.py").touch()
    (tmp_path / "completions").write_text(script("bash"))

    assert _completed(tmp_path / "completions", tmp_path, "attach", "--policy", "ap") == ["app.py"]
    assert _completed(tmp_path / "completions", tmp_path, "simulate", "convoy") == ["convoy"]


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_is_printed(shell, capsys):
    """The completion script of each shell names the commands."""
    assert main(["completion", shell]) == 0

    assert "whatif" in capsys.readouterr().out
