"""`headway simulate`, with a stand-in for the simulator."""

import csv
import json

import pytest
from fake_simulation import FakeSimulation

from headway.cli.main import main
from headway.sim import library
from headway.sim import run as running
from headway.traces.invariants import violations
from headway.traces.reader import read

APP = """
title = "an app"
duration_s = 1
[role.worker]
threads = 2
program = [{hold_us = 8}]
[role.server]
program = [{receive = "r"}, {reply = true}, {done = true}]
[client.load]
port = "r"
"""


@pytest.fixture(autouse=True)
def fake(monkeypatch):
    """Replace the simulator by one whose results follow from the specification."""
    monkeypatch.setattr(running, "Simulation", FakeSimulation)


@pytest.fixture
def app(tmp_path):
    """Return the path of a scenario."""
    path = tmp_path / "app.toml"
    path.write_text(APP)
    return str(path)


def simulate(*words):
    preset = [] if "--calibration" in words else ["--calibration", "preset"]
    return main(["simulate", *words, *preset, "--jobs", "1"])


def test_the_table_has_medians_and_ranges(app, capsys):
    """Stdout has roles, clients and GILs, and stderr the speed of the simulation."""
    assert simulate(app) == 0

    out, err = capsys.readouterr()
    assert "app: an app\n2 cores, free; switch interval 5 ms\n" in out
    assert "load (client)" in out
    assert "the median of 5 seeds [their range]; costs: preset" in " ".join(out.split())
    assert "main" in out
    assert "5 runs, 5 s of virtual time in" in err
    assert simulate(app, "--seeds", "1") == 0
    assert "\n1 run, 1 s of virtual time in" in "\n" + capsys.readouterr().err
    assert "steps a second" not in out


def test_a_p99_of_few_pieces_is_not_told(app, capsys):
    """A p99 of few pieces is shown as `-`, and a note says why."""
    assert simulate(app, "--duration", "0.1", "--seeds", "1") == 0

    out = capsys.readouterr().out
    assert "p99 -: fewer than 300 pieces of work in a seed; use a longer --duration" in " ".join(out.split())
    assert "one seed" in out


def test_json_is_the_same_each_time(app, capsys):
    """The same scenario and seeds give the same bytes, and other seeds give others."""

    def printed(*more):
        assert simulate(app, "--json", *more) == 0
        return capsys.readouterr().out

    first = printed()
    assert printed() == first
    assert printed("--seed", "2") != first
    told = json.loads(first)
    assert (told["scenario"], told["calibration"], told["sweep"]) == ("app", "preset", {})
    (point,) = told["points"]
    assert point["seeds"] == [1, 2, 3, 4, 5]
    assert point["parts"]["load"]["done_per_s"] == {"median": 1000.0, "low": 1000.0, "high": 1000.0}
    assert len(point["outcomes"]) == 5


def test_a_sweep_has_each_combination(capsys, tmp_path):
    """Each combination is in the table, in curves along the axis of numbers, and in the CSV file with its ranges."""
    path = tmp_path / "sweep.csv"

    assert simulate("convoy", "--sweep", "threads=1..64", "--sweep", "policy=none,fair", "--csv", str(path)) == 0

    out = capsys.readouterr().out
    assert "cpu work" in out
    assert "\npolicy=fair\n  threads=1 " in out
    assert "  threads=64 ████████████████████████████████████████ 98.5 %\n" in out
    rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    assert len(rows) == 7 * 2 * 3
    assert [row["threads"] for row in rows if row["name"] == "load"][::2] == ["1", "2", "4", "8", "16", "32", "64"]
    load = next(row for row in rows if row["name"] == "load")
    assert float(load["p99_ms_low"]) <= float(load["p99_ms"]) <= float(load["p99_ms_high"])


def test_a_sweeps_json(capsys):
    """Each point has its values."""
    assert simulate("convoy", "--sweep", "threads=1,2", "--seeds", "1", "--json") == 0

    told = json.loads(capsys.readouterr().out)
    assert told["sweep"] == {"threads": ["1", "2"]}
    assert [point["values"] for point in told["points"]] == [{"threads": "1"}, {"threads": "2"}]


def test_settings_are_applied(app, capsys):
    """The options --set, --policy, --option and --duration override the file."""
    changes = [
        "--set",
        "threads=3",
        "--set",
        "switch-interval=0.001",
        "--policy",
        "fair",
        "--option",
        "latency_us=20000",
        "--duration",
        "3",
    ]

    assert simulate(app, *changes, "--seeds", "1") == 0

    out = capsys.readouterr().out
    assert "switch interval 1 ms, policy fair, latency_us=20000" in out
    assert "3 s of virtual time" in out


def test_options_are_for_the_points_that_have_a_policy(capsys):
    """A sweep over `none` and a policy may have an option of the policy."""
    assert simulate("convoy", "--sweep", "policy=none,fair", "--option", "latency_us=20000", "--seeds", "1") == 0

    assert "policy=fair" in capsys.readouterr().out


def test_a_program_without_threads_is_refused(tmp_path, capsys):
    """A program none of whose roles has a thread does nothing, and the error says so."""
    path = tmp_path / "none.toml"
    path.write_text("".join(f"[role.{name}]\nprogram = [{{hold_us = 1}}]\n" for name in "ab"))

    assert simulate(str(path), "--set", "a.threads=0") == 0
    assert simulate(str(path), "--set", "a.threads=0", "--set", "b.threads=0") == 2
    assert "no role has a thread" in capsys.readouterr().err


@pytest.mark.parametrize(
    "changes",
    [
        ("--policy", "fair", "--set", "option.latency_us=20000"),
        ("--set", "option.latency_us=20000", "--set", "policy=fair"),
        ("--sweep", "policy=none,fair", "--set", "option.latency_us=20000"),
        ("--policy", "fair", "--set", "option.latency_us=3", "--sweep", "option.latency_us=19999,20000"),
    ],
)
def test_an_option_that_is_set_waits_for_its_policy(changes, monkeypatch):
    """`--set option.X` does what `--option X` does, in any order, and a sweep over the option has its own values."""
    given = set()

    class Recording(FakeSimulation):
        def __init__(self, spec):
            given.update(option for gil in spec.gils for option in gil.options)
            super().__init__(spec)

    monkeypatch.setattr(running, "Simulation", Recording)
    assert simulate("convoy", *changes, "--seeds", "1") == 0

    assert 20000 in given
    assert 3 not in given


def test_the_trace_is_one_of_the_first_seed(app, capsys, tmp_path):
    """The trace opens as any other, names threads and lines, has no time of day, and is the same each time."""
    path = tmp_path / "app.hwt"

    assert simulate(app, "--trace", str(path), "--seed", "7", "--seeds", "2") == 0
    first = path.read_bytes()
    assert simulate(app, "--trace", str(path), "--seed", "7", "--seeds", "2", "--force") == 0

    assert path.read_bytes() == first
    trace = read(path)
    assert violations(trace) == []
    assert trace.process.program == "app (simulated)"
    assert sorted(thread.name for thread in trace.threads) == ["server", "worker 0", "worker 1"]
    assert {(frame.filename, frame.line, frame.function) for frame in trace.frames} >= {
        ("app.toml", 6, "worker: hold"),
        ("app.toml", 8, "server: done"),
    }
    capsys.readouterr()
    assert main(["report", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)


def test_a_trace_that_is_cut_says_so(app, capsys, monkeypatch, tmp_path):
    """Events without room are counted, and the trace ends with its last event."""
    monkeypatch.setattr("headway.cli.simulate_command._MOST_EVENTS", 30)
    path = tmp_path / "app.hwt"

    assert simulate(app, "--trace", str(path), "--seeds", "1") == 0

    assert "the trace ends early" in capsys.readouterr().err
    assert len(read(path).events) == 30


def test_built_in_scenarios_are_listed_and_shown(capsys):
    """The option --list shows names and titles, and --show the file to start from."""
    assert simulate("--list") == 0
    out = capsys.readouterr().out
    assert "convoy " in out
    assert [line.split()[0] for line in out.splitlines() if not line.startswith(" ")] == list(library.names())
    assert simulate("--list", "--json") == 0
    assert json.loads(capsys.readouterr().out) == library.titles()
    assert simulate("--show", "convoy") == 0
    assert capsys.readouterr().out == library.text("convoy")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no scenario is given"),
        (["nothing"], "there is no built-in scenario 'nothing'"),
        (["./nothing.toml"], "the scenario nothing.toml cannot be read: No such file or directory"),
        (["--show", "convoi"], "there is no built-in scenario 'convoi'"),
        (["--show", "convoy", "--json"], "--show prints a file in TOML, and no JSON"),
        (["convoy", "--set", "threads"], "'threads' is not a setting, expected NAME=VALUE"),
        (["convoy", "--policy", "fiar"], "there is no policy 'fiar'"),
        (["convoy", "--option", "latency_us=3"], "the option latency_us needs a policy, and none is given"),
        (
            ["convoy", "--policy", "fair", "--option", "latency_us=x"],
            "option.latency_us is 'x', expected a whole number",
        ),
        (["convoy", "--trace", "x.txt"], "x.txt is not the name of a trace"),
        (
            ["convoy", "--trace", "x.hwt", "--sweep", "threads=1,2"],
            "--trace writes one run, and --sweep simulates many",
        ),
        (["convoy", "--csv", "/none/x.csv"], "the folder /none is not there"),
        (["convoy", "--calibration", "/none/x.json"], "the calibration /none/x.json cannot be read"),
    ],
)
def test_bad_usage(words, said, capsys):
    """Bad usage is an error before anything runs, with exit code 2."""
    assert simulate(*words) == 2

    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "value"), [("--seeds", "0"), ("--seed", "-1"), ("--duration", "0"), ("--jobs", "x")]
)
def test_bad_numbers(option, value, capsys):
    """Bad arguments have the same exit code."""
    with pytest.raises(SystemExit) as caught:
        main(["simulate", "convoy", option, value])

    assert caught.value.code == 2
    assert value in capsys.readouterr().err


def test_a_duration_that_is_too_long_is_told(capsys):
    """The message has the limit."""
    with pytest.raises(SystemExit) as caught:
        main(["simulate", "convoy", "--duration", "1e9"])

    assert caught.value.code == 2
    assert "'1e9' is not a number of seconds above 0 and below 1,000,000" in capsys.readouterr().err


def test_files_are_not_overwritten(app, capsys, tmp_path):
    """A file is overwritten only with --force."""
    path = tmp_path / "there.hwt"
    path.write_bytes(b"mine")

    assert simulate(app, "--trace", str(path)) == 2

    assert "is there already" in capsys.readouterr().err
    assert path.read_bytes() == b"mine"


@pytest.mark.parametrize("name", library.names())
def test_every_built_in_scenario_is_shown(name, capsys):
    """Every built-in scenario runs under no policy and under `fair`."""
    assert simulate(name, "--seeds", "2", "--sweep", "policy=none,fair") == 0

    assert "policy=fair" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "one", "other"),
    [
        (["--policy", "fair", "--set", "policy=none"], "--policy fair", "--set policy=none"),
        (["--duration", "1", "--set", "duration=3"], "--duration 1", "--set duration=3"),
        (["--set", "threads=7", "--sweep", "threads=1,2"], "--sweep threads=1,2", "--set threads=7"),
        (["--set", "cpu.threads=7", "--sweep", "threads=1,2"], "--sweep threads=1,2", "--set cpu.threads=7"),
        (["--policy", "fair", "--sweep", "policy=none,fair"], "--sweep policy=none,fair", "--policy fair"),
        (["--set", "cores=2", "--set", "cores=3"], "--set cores=3", "--set cores=2"),
        (
            ["--policy", "fair", "--option", "latency_us=5000", "--set", "option.latency_us=90000"],
            "--option latency_us=5000",
            "--set option.latency_us=90000",
        ),
    ],
)
def test_a_parameter_that_is_given_twice_is_refused(words, one, other, capsys):
    """One of the two values would be dropped without a word, so the error names both options."""
    assert simulate("convoy", *words) == 2
    assert f"error: {one} contradicts {other}\n" in capsys.readouterr().err


def test_a_time_may_have_a_unit(app, capsys):
    """`--set` and `--sweep` take the forms of `--duration`."""
    assert simulate(app, "--set", "duration=500ms", "--set", "switch-interval=2ms", "--seeds", "1", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert simulate(app, "--set", "duration=0.5", "--set", "switch_interval_s=0.002", "--seeds", "1", "--json") == 0
    assert json.loads(capsys.readouterr().out) == found
    assert simulate(app, "--sweep", "switch-interval=1ms,500us", "--seeds", "1") == 0
    assert "0.0005" in capsys.readouterr().out
