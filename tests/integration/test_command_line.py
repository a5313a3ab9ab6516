"""The command line as a user meets it: real processes, real files."""

import contextlib
import json
import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pyperf
import pytest
from synthetic import make_settings

from headway import lab
from headway.errors import StoreError

pytestmark = pytest.mark.slow


def headway(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "headway", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, **environment},
    )


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Return a store with one small run, made by the command line."""
    path = tmp_path_factory.mktemp("store") / "results.sqlite"
    done = headway(
        "lab", "sleep", "race", "--interpreter", "3.13t,3.14", "--launches", 2, "--json", HEADWAY_STORE=str(path)
    )
    assert done.returncode == 0, done.stderr
    return path, json.loads(done.stdout)


def test_json_holds_samples_intervals_and_verdicts(stored):
    """The stdout of `lab --json` is only JSON: raw samples, levels with intervals, verdicts with published ratios."""
    _, run = stored

    cell = next(one for one in run["cells"] if one["label"] == "asyncio" and one["interpreter"] == "3.14.10")
    assert len(cell["launches"]) == 2
    assert len(cell["launches"][0]["samples"]["work_s"]) == 2
    level = cell["metrics"]["work_s"]["level"]
    assert level["low"] <= level["value"] <= level["high"]
    gather = [one for one in run["verdicts"] if one["claim"] == "sleep/gather-is-longest"]
    assert {one["interpreter"] for one in gather} == {"all", "3.13.5t", "3.14.10"}
    assert gather[0]["published"] == [{"source": "D1", "ratio": pytest.approx(202.3728 / 608.6299)}]
    lost = next(one for one in run["verdicts"] if one["claim"] == "race/always-without-gil")
    assert lost["verdict"] == "supported"
    assert lost["evidence"][0]["count"] > 0
    assert run["complete"]
    assert run["settings"]["doctor"]


def test_the_report_shows_a_stored_run_again(stored):
    """`report` prints tables and every claim's verdict, and `--verdicts` leaves the tables out."""
    path, run = stored
    whole = headway("report", run["run"], "--store", path)
    short = headway("report", "--verdicts", "--store", path)

    for text in ("Do waits overlap?", "In the figure:", "list.append", "published ratio 0.33 (D1)", "Start-up"):
        assert text in whole.stdout
    assert "Do waits overlap?" not in short.stdout
    assert "a gather takes as long as the longest sleep" in short.stdout
    assert "\x1b" not in whole.stdout


def test_the_report_fits_eighty_columns(stored):
    """No line is wider than the terminal."""
    path, _ = stored
    done = headway("report", "--store", path, COLUMNS="80")

    assert max(map(len, done.stdout.splitlines())) <= 80


def test_a_narrow_terminal_cuts_no_figure(stored):
    """A terminal that is too narrow for tables still shows every figure, and wraps the lines itself."""
    path, _ = stored
    figure = re.compile(r"\d[\d.,]* ?(?:ms|us|s)\b")
    wide = headway("report", "--store", path, COLUMNS="120").stdout
    narrow = headway("report", "--store", path, COLUMNS="40").stdout

    assert set(figure.findall(wide)) - set(figure.findall(narrow)) == set()


def test_pyperf_reads_the_export(stored, tmp_path):
    """`report --pyperf` writes a suite that pyperf loads, with one run per launch, and does not overwrite a file."""
    path, _ = stored
    target = tmp_path / "suite.json"
    first = headway("report", "--store", path, "--pyperf", target)
    second = headway("report", "--store", path, "--pyperf", target)
    forced = headway("report", "--store", path, "--pyperf", target, "--force")

    assert first.returncode == 0, first.stderr
    suite = pyperf.BenchmarkSuite.load(str(target))
    assert len(suite.get_benchmarks()) == 8
    assert suite.get_benchmark("sleep, serial, free, 3.14").get_nrun() == 2
    assert (second.returncode, forced.returncode) == (2, 0)
    assert "is there already" in second.stderr


def test_the_page_is_one_file_with_the_reports_figures(stored, tmp_path):
    """`lab` writes a page beside the store and names it; `report --html` writes the same, but overwrites only by force."""
    path, run = stored
    target = tmp_path / "run.html"
    first = headway("report", run["run"], "--store", path, "--html", target)
    second = headway("report", run["run"], "--store", path, "--html", target)
    whole = headway("report", run["run"], "--store", path, COLUMNS="400").stdout

    assert (first.returncode, first.stdout, first.stderr) == (0, "", f"wrote {target}\n")
    assert (second.returncode, "is there already" in second.stderr) == (2, True)
    beside = path.parent / "reports" / f"{run['run']}.html"
    assert beside.read_text() == target.read_text()
    data = re.search(r'id="data">(.*?)</script>', target.read_text(), re.DOTALL)[1]
    words = " ".join(texts(json.loads(data)))
    figures = set(re.findall(r"\d[\d.,]* ?(?:ms|us|s)\b|\d[\d.]* \[[\d.]+-[\d.]+\]", whole))
    assert len(figures) > 10
    assert {one for one in figures if one not in words} == set()


def texts(value):
    """Yield every text in a JSON value."""
    if isinstance(value, dict):
        value = list(value.values())
    for one in value if isinstance(value, list) else []:
        yield from texts(one)
    if isinstance(value, str):
        yield value


def test_runs_are_listed(stored):
    """`runs` lists the store in a table and as JSON."""
    path, run = stored

    assert run["run"] in headway("runs", "--store", path).stdout
    assert json.loads(headway("runs", "--store", path, "--json").stdout)[0]["complete"]
    assert json.loads(headway("runs", "--json").stdout) == []


def test_runs_are_deleted(tmp_path):
    """`runs` deletes named runs, or all but the newest, with their pages, and lists those that are left; a wrong name deletes nothing."""
    path = tmp_path / "results.sqlite"
    with lab.Store(path, create=True) as store:
        first, second, third, fourth = (store.new_run(make_settings(), []) for _ in range(4))

    def refused(*options):
        done = headway("runs", "--store", path, *options)
        assert done.returncode != 0
        assert done.stdout == ""
        return done.stderr

    reports = tmp_path / "reports"
    reports.mkdir()
    for run in (first, third):
        (reports / f"{run}.html").touch()

    assert "no run is called `nothing`" in refused("--delete", first, "nothing")
    assert "the name of the run is empty" in refused("--delete", first, "")
    assert len(list(reports.iterdir())) == 2
    some = headway("runs", "--store", path, "--delete", first, "last", "--json")
    assert [run["id"] for run in json.loads(some.stdout)] == [second, third]
    assert some.stderr.startswith(f"deleted 2 runs and 1 page in {reports}; the store is ")
    assert [page.stem for page in reports.iterdir()] == [third]
    one = headway("runs", "--store", path, "--keep", "1")
    assert third in one.stdout
    assert second not in one.stdout
    assert "deleted 1 run;" in one.stderr
    assert fourth not in one.stdout
    assert "not a whole number" in refused("--keep", "0")
    with lab.only_lab():
        assert "is measuring" in refused("--keep", "1")


def test_runs_are_listed_beside_one_that_cannot_be_read(tmp_path):
    """One bad row costs one line; a report of that run names it, and it can be deleted."""
    path = tmp_path / "results.sqlite"
    with lab.Store(path, create=True) as store:
        good, bad = (store.new_run(make_settings(), []) for _ in range(2))
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE runs SET settings = json_set(settings, '$.seed', '1') WHERE id = ?", (bad,))

    listed = headway("runs", "--store", path, "--json")
    assert [run["id"] for run in json.loads(listed.stdout)] == [good]
    assert f"run {bad} is left out" in listed.stderr
    assert f"`headway runs --delete {bad} --store {path}` deletes it" in listed.stderr
    refused = headway("report", "--store", path)
    assert refused.returncode == StoreError.exit_code
    assert f"run {bad} in {path} cannot be read: " in refused.stderr

    deleted = headway("runs", "--store", path, "--delete", bad, "--json")
    assert [run["id"] for run in json.loads(deleted.stdout)] == [good]
    assert "left out" not in deleted.stderr


def test_a_run_compared_with_itself_has_no_difference(stored):
    """`compare` says that a run is compared with itself, and finds no cell slower or faster, in words and as JSON."""
    path, run = stored
    done = headway("compare", run["run"], "last", "--store", path)
    cells = json.loads(headway("compare", "last", "last", "--store", path, "--json").stdout)["cells"]

    assert "both sides are the same run" in done.stdout
    assert {one["verdict"] for one in cells if one["metric"] == "work_s"} <= {"no difference", "inconclusive"}
    assert all(one["ratio"]["value"] == pytest.approx(1) for one in cells if one["ratio"])


def test_interpreters_are_listed():
    """`interpreters` lists the interpreters that were found, in a table and as JSON."""
    found = json.loads(headway("interpreters", "--json").stdout)["interpreters"]
    table = headway("interpreters").stdout

    names = {one["name"] for one in found}
    assert {"3.13t", "3.14", "3.15"} <= names
    free_threaded = next(one for one in found if one["name"] == "3.13t")
    assert (free_threaded["free_threaded"], free_threaded["gil_enabled"]) == (True, False)
    assert "interpreters" in free_threaded["models"]
    assert all(name in table for name in names)
    assert len({os.path.realpath(one["executable"]) for one in found}) == len(found)


def test_doctor_lists_every_check():
    """`doctor` prints each check in words and as JSON and ends with 0."""
    done = headway("doctor")
    checks = json.loads(headway("doctor", "--json").stdout)

    assert done.returncode == 0
    assert all(check["name"] in done.stdout for check in checks)


def test_list_and_explain_need_no_run():
    """`lab --list` names every experiment; `--explain` has question, method, claims, thresholds and published figures."""
    listed = headway("lab", "--list").stdout
    explained = headway("lab", "--explain", "cpu-bound").stdout

    first_lines = [line for line in listed.splitlines() if not line.startswith(" ")]
    assert [line.split()[0] for line in first_lines] == [one.name for one in lab.experiments()]
    for text in ("Method:", "processes-forkserver", "threads are not faster", "above 0.95", "serial 2.1103", "A5"):
        assert text in explained
    assert len(json.loads(headway("lab", "--list", "--json").stdout)) == len(lab.experiments())


@pytest.mark.parametrize("words", [["lab", "--list"], ["simulate", "--list"], ["policies"]], ids=" ".join)
def test_lists_fit_the_terminal(words):
    """Lists are laid out for the terminal's width, and cut nothing off."""
    out = headway(*words, COLUMNS="80").stdout

    assert out
    assert max(map(len, out.splitlines())) <= 80
    assert "\N{HORIZONTAL ELLIPSIS}" not in out


BAD = [
    (["lab", "cpu-bond"], 2, "no experiment is called `cpu-bond`", "did you mean `cpu-bound`?"),
    (["lab", "--interpreter", "2.7"], 3, "no interpreter is called `2.7`", "headway interpreters"),
    (["lab", "--interpreter", "/nowhere/python3"], 3, "no interpreter '/nowhere/python3'", "headway interpreters"),
    (["lab", "--interpreter", "/bin/true"], 3, "/bin/true failed the probe", "CPython 3.8"),
    (["lab", "--quick", "--published"], 2, "not allowed with argument", "--help"),
    (["lab", "--placement", "attic"], 2, "invalid choice: 'attic'", "--help"),
    (["lab", "--launches", "0"], 2, "the number of launches is 0", "leave it out"),
    (["lab", "--limit", "nan"], 2, "the time limit in seconds is nan", "leave it out"),
    (["lab", "--memory-limit", "inf"], 2, "'inf' is not a whole number from 1", "--help"),
    (["lab", "--interpreter", "~nobodyhere/python3"], 3, "no interpreter '~nobodyhere/python3'", "interpreters"),
    (["lab", "--interpreter", ""], 2, "an empty name", "leave the option out"),
    (["lab", "--list", "--explain", "race"], 2, "exclude each other", "one at a time"),
    (["lab", "--resume", "last", "--launches", "0"], 2, "would change them", "leave them out"),
    (["lab", "--launches", "many"], 2, "invalid int value: 'many'", "--help"),
    (["lab", "sleep", "--placement", "split"], 2, "does not run with placement `split`", "--explain"),
    (["lab", "sleep", "--model", "fibres"], 2, "does not run with the model `fibres`", "--explain"),
    (["lab", "--resume", "last", "--quick"], 2, "would change them", "leave them out"),
    (["lab", "--resume", "last"], 4, "no results store", "headway lab"),
    (["lab", "--store", "/proc/x/y"], 4, "the folder /proc/x of the results store is not there", "--store"),
    (["lab", "--explain", "nothing"], 2, "no experiment is called `nothing`", "--list"),
    (["report"], 4, "no results store", "headway lab"),
    (["report", "--store", "/dev/null/x"], 4, "no results store at /dev/null/x", "headway lab"),
    (["report", "--pyperf", "/nowhere/x.json"], 2, "/nowhere is not there", "make it first"),
    (["report", "--html", "/nowhere/x.html"], 2, "/nowhere is not there", "make it first"),
    (["report", "--open"], 2, "opens the page that `--html` writes", "add `--html FILE`"),
    (["report", "--beside", "b.hwt"], 2, "`--beside` is for traces", "FILE.hwt"),
    (["report", "a.hwt", "--beside", "b.hwt"], 2, "two traces on one page", "add `--html FILE`"),
    (["report", "a.hwt", "--html", "x.html", "--thread", "io"], 2, "`--html` always shows all threads", "leave out"),
    (["lab", "sleep", "--html", "/nowhere/x.html"], 2, "/nowhere is not there", "make it first"),
    (["report", "/etc"], 6, "/etc is a folder, and no trace", "`headway stalls /etc` sums up"),
    (["compare", "a.hwt", "b.hwt"], 2, "`a.hwt` is a trace, and `headway compare` compares runs", "--beside"),
    (["interpreters", "--add", "2.7"], 2, "2.7 is older than CPython 3.8", "a later one"),
    (["run", "--python", "3.7", "x.py"], 3, "no interpreter is called `3.7`", "a command on your PATH"),
    (["lab", "--memory-limit", "-1"], 2, "'-1' is not a whole number from 1", "--help"),
    (["simulate", "mill.py"], 2, "there is no built-in scenario 'mill.py'", "ends in .toml, or has a slash"),
    (["simulate", "convoy", "--set", "gil=maybe"], 2, "expected on or off", "gil=on or gil=off"),
    (["simulate", "convoy", "--set", "duration=5x"], 2, "duration_s is '5x'", "duration=2s"),
    (["whatif", "a.hwt", "--cores", "0"], 2, "--cores is 0, expected 1 to 64", "leave it out"),
    (["compare", "a"], 2, "required: AFTER", "--help"),
    (["trace", "--wrong", "x"], 2, "unrecognized arguments: --wrong", "`headway trace --help`"),
    (["top", "--wrong", "1"], 2, "unrecognized arguments: --wrong", "`headway top --help`"),
    (["report", "a.hwt", "b.hwt"], 2, "`headway report` takes one RUN, and there is one more: b.hwt", "--beside"),
    (["whatif", "a.hwt", "b.hwt", "c"], 2, "takes one TRACE, and there are 2 more: b.hwt c", "once for each"),
    (["attach", "1", "2"], 2, "takes one PID, and there is one more: 2", "once for each"),
    (["report", "a.hwt", "b.hwt", "--wrong"], 2, "unrecognized arguments: b.hwt --wrong", "`headway report --help`"),
    (["compare", "a", "b", "c"], 2, "unrecognized arguments: c", "`headway compare --help`"),
    (["dance"], 2, "invalid choice: 'dance'", "--help"),
    (["rnu"], 2, "invalid choice: 'rnu'", "did you mean `run`?"),
    (["run", "--polciy", "fair", "app.py"], 2, "unrecognized arguments: --polciy", "did you mean `--policy`?"),
]


@pytest.mark.parametrize(
    ("arguments", "code", "message", "hint"), BAD, ids=[" ".join(case[0]) or "none" for case in BAD]
)
def test_bad_input_gets_one_message_and_a_hint(arguments, code, message, hint):
    """Bad input gives one message with the value, a hint, the exit code, nothing on stdout and no traceback."""
    done = headway(*arguments)

    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert done.stderr.count("error: ") == 1
    assert message in done.stderr
    assert hint in done.stderr.partition("hint: ")[2]
    assert "Traceback" not in done.stderr


def test_a_full_disk_is_one_message(stored):
    """Output that cannot be written is an error, not a traceback."""
    path, _ = stored
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "headway", "report", "--store", str(path)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )

    assert done.returncode == 1
    assert "No space left" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_damaged_store_is_one_message(tmp_path):
    """A corrupted store is refused before anything runs and is left as it was."""
    path = tmp_path / "broken.sqlite"
    path.write_bytes(b"not a database at all, rather a letter" * 100)
    before = path.read_bytes()
    for command in (["lab", "sleep"], ["report"], ["runs"]):
        done = headway(*command, "--store", path)
        assert done.returncode == 4
        assert "cannot be used" in done.stderr
        assert "Traceback" not in done.stderr
    assert path.read_bytes() == before


def test_progress_goes_to_stderr_and_results_to_stdout(stored):
    """Only data is written to stdout, for scripts to read."""
    done = headway("lab", "sleep", "--interpreter", "3.14", "--launches", 1)

    assert "launches" in done.stderr
    assert "Verdicts on this machine: " in done.stdout
    assert "about" not in done.stdout.splitlines()[0]


@pytest.mark.parametrize("command", [["doctor"], ["doctor", "--json"], ["interpreters", "--json"], ["policies"]])
def test_a_closed_stdout_is_no_error(command):
    """A command whose stdout is closed, as by cron and daemons, prints nothing and no traceback."""
    shell = 'exec "$@" >&-'
    done = subprocess.run(
        ["sh", "-c", shell, "sh", sys.executable, "-m", "headway", *command],
        stderr=subprocess.PIPE, text=True, check=False, timeout=120,
    )  # fmt: skip

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/etc/passwd", "it does not begin like one"),
        ("./nothing", "there is no such file"),
        ("/dev/null", "it is no regular file"),
    ],
)
def test_a_path_that_is_no_trace_is_told(path, why):
    """A path that is no trace is not looked for among the runs of a store."""
    done = headway("report", path)

    assert done.returncode == 6
    assert f"{path} is not a trace: {why}" in done.stderr


def test_a_closed_pipe_is_no_error(stored):
    """`headway report | head` ends quietly."""
    path, _ = stored
    done = subprocess.run(
        f"{sys.executable} -m headway report --store {path} | head -n 1",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout.startswith("Run ")
    assert done.stderr == ""


def test_the_command_line_starts_quickly_because_it_imports_little():
    """Neither numpy, scipy, rich nor asyncio is imported before a table is printed."""
    code = "import sys; from headway.cli import main; main(['lab', '--list']); print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert not {"numpy", "scipy", "rich", "asyncio"} & set(done.stdout.splitlines()[-1].split())
    assert Path(done.stdout.splitlines()[0]).name.startswith("convoy")


def test_a_wrong_name_is_told_before_the_simulator_is_imported():
    """`headway advise` imports it, and numpy, only where the measurements are done."""
    code = "import sys; from headway.cli import main; main(['advise', 'no_such_module:f']); print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "no_such_module" in done.stderr
    assert "headway.advice.course" in done.stdout.split()
    assert not {"numpy", "headway.sim.machine"} & set(done.stdout.split())


@pytest.mark.parametrize("words", [[], ["policies"], ["lab", "--list"], ["--help"], ["trace", "--help"]])
def test_output_that_could_not_be_written_is_a_failure(words):
    """A script that goes on after `headway ... > file` learns that the file is not whole."""
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run(
            [sys.executable, "-m", "headway", *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )

    assert done.returncode == 1
    assert done.stderr.startswith("error: No space left on device")
