"""Calibration: costs derived from made-up measurements, the file, and the command."""

import dataclasses
import datetime as dt
import json
import re
import runpy
from pathlib import Path

import pytest

from headway import native
from headway.cli.main import main
from headway.errors import UsageError
from headway.host.machine import this_machine
from headway.sim import calibration, costs, measuring, preset
from headway.sim.calibration import PRESET, Calibration

ROOT = Path(__file__).resolve().parents[2]

RAW_NS = {
    "clock": 20,
    "futex_check": 300,
    "futex_wake_none": 200,
    "yield": 500,
    "lock": 30,
    "timer_set_near": 5000,
    "timer_set_far": 1000,
    "timer_cancel_near": 3000,
    "timer_cancel_far": 1000,
    "send": 5020,
    "receive": 1020,
    "receive_none": 420,
    "pair_yield": 3020,
    "pair_futex": 4020,
    "pair_futex_timed": 4220,
    "pair_futex_cold": 12020,
    "pair_cache_line": 240,
    "futex_idle": 9000,
    "futex_idle_call": 2000,
    "futex_busy": 10000,
    "futex_busy_call": 1500,
    "futex_busy_long_call": 4500,
    "socket_idle": 20000,
    "socket_idle_call": 7020,
    "socket_idle_middle": 50000,
    "socket_idle_long": 60000,
    "socket_busy_call": 6000,
    "socket_busy_middle_call": 9000,
    "socket_busy_long_call": 16000,
    "interrupt": 5020,
    "timer_busy": 60000,
    "timer_idle": 70000,
    "tick": 3020,
    "python_loop": 40,
    "python_hot_pending": 500,
    "python_hot_direct": 300,
    "python_cold_pending": 3000,
    "python_cold_direct": 1000,
    "python_hot_send": 6000,
    "python_cold_send": 34000,
    "python_hot_receive": 2000,
    "python_cold_receive": 7000,
    "python_hot_work": 500,
    "python_cold_work": 10500,
    "python_cold_work_next": 2500,
}
"""Measurements that have no spread."""

COSTS_NS = {
    # Half of 3020 without the clock, less a yield of its own.
    "switch": 1000,
    # The rest of half a round trip, 2000 - 1000 - 300 - 200, is divided evenly between wait and wake: 550 and 450.
    "preempt_other": 10000 - (180 + 1000 + 220 + 20),
    "wake_idle": 20000 - (3000 + 1000 + 750 + 20),
    "wake_idle_middle": 50000 - (3000 + 1000 + 750 + 20) - 1800,
    "wake_idle_long": 60000 - (3000 + 1000 + 750 + 20) - 6000,
    "timer_interrupt": 5000,
    "timer_late": 60000 - (50000 + 5020 + 1000 + 300),
    "timer_late_idle": 70000 - (50000 + 1000 + 300),
    "timer_arm": 3000,
    "timer_slack": 50000,
    "tick_interrupt": 3000,
    "futex_check": 300,
    "futex_sleep": 330,
    "futex_sleep_timed": 450,
    "futex_woken": 220,
    "futex_woken_timed": 300,
    "futex_wake": 180,
    "futex_wake_end": 270,
    "futex_wake_idle": 2000 - 450 - 20,
    "futex_wake_none": 200,
    "send": 3000,
    "send_end": 2000,
    "send_idle": 2000,
    "receive_ready": 1000,
    "receive_sleep": 400,
    "receive_woken": 750,
    "lock": 15,
    "cache_line": 60,
    "check": 20,
    "pending": 100,
    "cold_send": 28000,
    "cold_receive": 5000,
    "cold_futex_wake": 3000,
    "cold_futex_sleep": 12020 - 4020 - 3000,
    "cold_pending": 900,
    "cold_python": 10000,
    "cold_python_next": 2000,
}


def flat(raw):
    return {name: (float(value),) * costs.POINTS for name, value in raw.items()}


def middle(values):
    return sorted(values)[len(values) // 2] if len(values) != 2 else sum(values) / 2


def test_costs_are_those_of_the_header():
    """The names and their order are those of enum hw_sim_cost, and the preset has all of them."""
    header = (ROOT / "native/include/headway/simulate.h").read_text()
    names = [name.lower() for name in re.findall(r"^    HW_SIM_COST_(\w+),", header, re.MULTILINE)]

    assert names == list(costs.ABOUT) == list(preset.COSTS)
    assert Calibration.from_json(PRESET.to_json()) == PRESET


def test_measurements_are_those_of_the_header():
    """The names of calls, pairs and ways are those of calibrate.h, in its order."""
    header = (ROOT / "native/include/headway/calibrate.h").read_text()

    calls = re.search(r"enum hw_calibrate_call \{(.*?)\}", header, re.DOTALL)[1]
    assert tuple(name.lower() for name in re.findall(r"HW_CALIBRATE_(\w+),", calls)) == native.CALIBRATION_CALLS
    pairs = re.search(r"enum hw_calibrate_pair \{(.*?)\}", header, re.DOTALL)[1]
    assert tuple(name.lower() for name in re.findall(r"HW_CALIBRATE_PAIR_(\w+),", pairs)) == native.CALIBRATION_PAIRS
    ways = re.search(r"enum hw_calibrate_way \{(.*?)\}", header, re.DOTALL)[1]
    assert tuple(name.lower() for name in re.findall(r"HW_CALIBRATE_BY_(\w+),", ways)) == native.CALIBRATION_WAYS


def test_every_cost_follows_from_the_measurements():
    """Each cost of made-up measurements is what its formula says."""
    found = costs.model_costs(flat(RAW_NS), timer_slack_ns=50000.0)

    assert list(found) == list(COSTS_NS)
    assert {name: middle(values) for name, values in found.items()} == pytest.approx(COSTS_NS)


def test_what_is_beyond_other_programs_interference_is_cut():
    """The quantiles from 5 % to 90 % are kept, except those of four times the median or more."""
    raw = flat(RAW_NS)
    raw["receive_none"] = (20.0, *(100.0 + step for step in range(15)), 300.0, 440.0, 9e3, 9e4, 9e5)

    found = costs.model_costs(raw, timer_slack_ns=50000.0)["receive_sleep"]

    assert found == (*(80.0 + step for step in range(15)), 280.0)


def test_no_cost_is_below_nothing():
    """A cost whose part was measured as longer than the whole is 0, or the least possible."""
    raw = flat({**RAW_NS, "pair_yield": 30, "socket_idle": 100, "timer_busy": 100, "pair_futex_timed": 10})

    found = costs.model_costs(raw, timer_slack_ns=50000.0)

    assert found["switch"] == (300.0,)
    assert set(found["wake_idle"]) == {500.0}
    assert set(found["timer_late"]) == {0.0}
    assert found["futex_sleep_timed"] == found["futex_sleep"]


def test_what_was_not_measured_is_missing():
    """Without a second core and an interpreter, the costs that need them are left out, and no others."""
    alone = {
        name: value
        for name, value in RAW_NS.items()
        if not name.startswith(("futex_idle", "futex_busy", "socket", "python")) and name != "pair_cache_line"
    }

    found = costs.model_costs(flat(alone), timer_slack_ns=50000.0)

    missing = {
        "preempt_other",
        "wake_idle",
        "wake_idle_middle",
        "wake_idle_long",
        "futex_wake_idle",
        "send_idle",
        "cache_line",
        "check",
        "pending",
    }
    assert set(costs.ABOUT) - set(found) == missing | {name for name in costs.ABOUT if name.startswith("cold")}


def test_digests_and_their_combination():
    """A digest has 21 quantiles, and rounds are combined by the median of each; a round may lack one."""
    assert costs.digest([float(value) for value in range(101)]) == pytest.approx(range(0, 101, 5))
    assert costs.digest([7.0]) == (7.0,) * 21
    assert costs.combined([{"a": (1.0, 5.0), "b": (1.0,)}, {"a": (2.0, 9.0)}, {"a": (8.0, 6.0)}]) == {
        "a": (2.0, 6.0),
        "b": (1.0,),
    }


def test_a_tick_is_the_longest_interruption_at_it():
    """Interruptions that are at no tick do not count, and several at one tick count once."""
    gaps = [(0, 500.0, True), (20_000, 8000.0, True), (1_000_000, 9e4, False), (4_000_000, 7000.0, True)]

    assert costs.tick_lengths([*gaps, (4_020_000, 450.0, True)]) == [8000.0, 7000.0]
    assert costs.tick_lengths([]) == []


def here(**changes):
    """Return a new calibration of this machine."""
    machine = this_machine()
    facts = {"cpu": machine.cpu, "cores": len(machine.cores), "kernel": machine.kernel}
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    return dataclasses.replace(PRESET, **{"machine": facts, "taken_at": now, **changes})


@pytest.fixture
def measured(monkeypatch):
    """Replace `measure` by a fake that returns at once; return the list of its calls."""
    calls = []

    def measure(progress, *, seconds):
        calls.append(seconds)
        progress("measuring")
        return here(slice_ns=3_000_000)

    monkeypatch.setattr(calibration, "measure", measure)
    return calls


def test_a_calibration_is_kept_and_read_again(tmp_path, monkeypatch):
    """A calibration that is loaded is the saved one, in the cache folder by default, and no other file is left there."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert calibration.load() is None

    path = calibration.save(here())

    assert path == tmp_path / "headway" / "calibration.json"
    assert calibration.load() == here(taken_at=calibration.load().taken_at)
    assert os_names(path.parent) == ["calibration.json"]


def os_names(folder):
    return sorted(entry.name for entry in folder.iterdir())


def test_a_kept_calibration_is_used_where_it_fits(tmp_path, measured):
    """A kept calibration of this machine is used without measuring, and without a message."""
    said = []
    calibration.save(here(), tmp_path / "c.json")

    assert calibration.load_or_measure(said.append, path=tmp_path / "c.json").slice_ns == PRESET.slice_ns
    assert (said, measured) == ([], [])


OLD = (dt.datetime.now(dt.UTC) - dt.timedelta(days=31)).isoformat(timespec="seconds")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"machine": {**here().machine, "kernel": "2.4.0"}}, "another machine"),
        ({"machine": {**here().machine, "cores": 4096}}, "another machine"),
        ({"taken_at": OLD}, "31 days old"),
    ],
)
def test_one_of_another_machine_or_day_is_measured_anew(tmp_path, measured, changes, why):
    """A calibration of another kernel or number of cores, or an old one, is replaced, with a message that says why."""
    said = []
    calibration.save(here(**changes), tmp_path / "c.json")

    made = calibration.load_or_measure(said.append, path=tmp_path / "c.json", seconds=2)

    assert made.slice_ns == 3_000_000
    assert calibration.load(tmp_path / "c.json") == made
    assert why in said[0]
    assert measured == [2]


def damaged(**changes):
    return json.dumps({**here().to_json(), **changes})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        damaged(format=0),
        damaged(costs={}),
        damaged(costs={**here().to_json()["costs"], "switch": []}),
        damaged(costs={**here().to_json()["costs"], "switch": [2, 1]}),
        damaged(costs={**here().to_json()["costs"], "switch": ["x"]}),
        damaged(tick_ns=0),
        damaged(taken_at="yesterday"),
        damaged(machine=3),
        damaged(spread={"switch": 1}),
        damaged(interpreters={"3.13": {}}),
    ],
)
def test_a_damaged_file_is_measured_anew(tmp_path, measured, text):
    """A file that is no calibration counts as none, and one line says so."""
    said = []
    path = tmp_path / "c.json"
    path.write_text(text)
    assert calibration.load(path) is None

    made = calibration.load_or_measure(said.append, path=path)

    assert "damaged" in said[0]
    assert calibration.load(path) == made


def test_a_calibration_that_cannot_be_kept_is_used_all_the_same(tmp_path, measured):
    """A calibration that cannot be saved costs a line of message, and the simulation goes on."""
    said = []

    made = calibration.load_or_measure(said.append, path=tmp_path / "missing" / "c.json")

    assert made.slice_ns == 3_000_000
    assert "could not be written" in said[-1]


def test_rounds_give_medians_and_their_spread():
    """Costs are medians over rounds, the spread is that of the rounds, and missing costs are the preset's."""
    rounds = []
    for switch, loop in ((3020, 40.0), (4020, 50.0), (5020, 90.0)):
        raw = flat({**RAW_NS, "pair_yield": switch, "pair_futex": 9020})
        del raw["tick"]
        rounds.append(measuring.Round(raw=raw, loop_ns={"3.13": loop, "3.13t": loop}, slow_down={"3.13t": loop / 100}))
    facts = native.CalibrationFacts(50_000, 2_800_000, 4_000_000, slice_is_told=True, cores=4)

    made = calibration._calibration(rounds, this_machine(), facts)

    assert made.costs["switch"] == (1500.0,)
    assert made.spread["switch"] == pytest.approx((1000 / 1500, 2000 / 1500))
    assert made.costs["tick_interrupt"] == preset.COSTS["tick_interrupt"]
    assert "tick_interrupt" not in made.spread
    assert (made.tick_ns, made.slice_ns) == (4_000_000, 2_800_000)
    assert made.interpreters == {
        "3.13": {"loop_ns": 50.0, "slow_down": None},
        "3.13t": {"loop_ns": 50.0, "slow_down": 0.5},
    }
    assert Calibration.from_json(json.loads(json.dumps(made.to_json()))) == made


@pytest.mark.parametrize(("round_s", "rounds"), [(0.0, 5), (15.0, 3), (9.0, 4)])
def test_slow_rounds_are_fewer(monkeypatch, round_s, rounds):
    """There are fewer rounds if they take longer than planned, but at least three."""
    clock, made = [0.0], []

    def measure_round(cores, interpreters, *, scale):
        clock[0] += round_s
        made.append(scale)
        return measuring.Round(raw=flat(RAW_NS))

    monkeypatch.setattr(calibration, "measure_round", measure_round)
    monkeypatch.setattr(calibration.time, "monotonic", lambda: clock[0])

    calibration.measure(seconds=30, interpreters=[])

    assert made == [1.0] * rounds


def test_too_little_time_is_refused():
    """A calibration of less than a second is refused."""
    with pytest.raises(UsageError, match="too short for a calibration"):
        calibration.measure(seconds=0.5)


def test_the_command_shows_and_keeps_what_was_measured(tmp_path, monkeypatch, measured, capsys):
    """`headway calibrate` prints each cost with its range and spread, and the file; its progress goes to stderr."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    assert main(["calibrate"]) == 0

    out, err = capsys.readouterr()
    assert all(name in out for name in costs.ABOUT)
    assert "14.4 us" in out
    assert "assumed" in out
    assert f"kept in {tmp_path / 'headway' / 'calibration.json'}" in err
    assert "measuring" in err
    assert calibration.load() is not None


def test_the_command_as_json_in_a_file(tmp_path, measured, capsys):
    """`--json -o FILE` prints what it saves in FILE; a second time needs `--force`."""
    path = tmp_path / "c.json"
    words = ["calibrate", "--json", "--seconds", "3", "-o", str(path)]
    assert main(words) == 0
    assert Calibration.from_json(json.loads(capsys.readouterr().out)) == calibration.load(path)
    assert measured == [3]

    assert main(words) == 2
    assert "hint: use `--force`" in capsys.readouterr().err
    assert main([*words, "--force"]) == 0


@pytest.mark.parametrize("seconds", ["0", "-3", "x", "1e9", "nan"])
def test_no_such_time(seconds, measured, capsys):
    """A time that is no number, or out of range, is refused before anything is measured."""
    with pytest.raises(SystemExit):
        main(["calibrate", "--seconds", seconds])
    assert "hint:" in capsys.readouterr().err
    assert measured == []


def test_one_core_is_measured_without_another(monkeypatch):
    """A measurement with one core leaves out what needs two, and does not fail."""
    monkeypatch.setattr(measuring, "_LONG_GAP_S", 1e-3)

    found = measuring.measure_round([this_machine().cores[0]], [], scale=0.001)

    assert "pair_cache_line" not in found.raw
    assert not [name for name in found.raw if name.startswith("socket")]
    assert {"switch", "timer_late", "send"} <= set(costs.model_costs(found.raw, timer_slack_ns=50000.0))


def test_an_interpreter_that_fails_is_left_out(tmp_path):
    """An interpreter whose program fails has a reason and no figures."""
    broken = dataclasses.replace(interpreter(), executable="/bin/false")

    found = measuring.Round()
    measuring._python(found, broken, [0], repeats=1)

    assert found.failed == {"3.13": "exit code 1"}
    assert (found.raw, found.loop_ns) == ({}, {})


def interpreter():
    from headway.host.interpreters import Interpreter

    return Interpreter.from_json(
        {
            "id": "3.13.0",
            "executable": "python3",
            "origin": "path",
            "version": "3.13.0",
            "minor": "3.13",
            "free_threaded": False,
            "gil_enabled": True,
            "jit_available": False,
            "jit_enabled": False,
            "debug": False,
            "shared_libpython": True,
            "switch_interval_s": 0.005,
            "optimised": [],
            "compiler": "",
            "ctypes": True,
            "cross_interpreter_queue": False,
            "models": [],
            "missing_models": {},
        }
    )


def test_the_interpreters_program_names_what_costs_are_derived_from():
    """Each measurement that a cost takes from Python is given by the program."""
    program = runpy.run_path(str(measuring._PROGRAM))
    found = {"loop", *program["pending"](1), *program["messages"](1)}

    assert {name.removeprefix("python_") for name in RAW_NS if name.startswith("python_")} <= found
