"""The changes by --set and --sweep, and the values of a sweep."""

import pytest

from headway.errors import ScenarioError
from headway.sim import library
from headway.sim.parameters import change, split_setting
from headway.sim.parse import parse
from headway.sim.sweep import parse_axis, points


@pytest.mark.parametrize(
    ("text", "name", "values"),
    [
        ("threads=1..4", "threads", "1 2 3 4"),
        ("threads=0..15", "threads", "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15"),
        ("threads=1..64", "threads", "1 2 4 8 16 32 64"),
        ("threads=0..20", "threads", "0 1 2 4 8 16 20"),
        ("threads=3..3", "threads", "3"),
        ("threads=0,1..3,8", "threads", "0 1 2 3 8"),
        ("policy=none,fair", "policy", "none fair"),
        ("switch-interval=0.005,0.0005", "switch_interval_s", "0.005 0.0005"),
        ("server.threads=1,2", "server.threads", "1 2"),
        ("option.latency_us=1000,2000", "option.latency_us", "1000 2000"),
    ],
)
def test_axes(text, name, values):
    """A range of up to 16 values has all of them, a longer one powers of two and its ends; commas separate values."""
    axis = parse_axis(text)

    assert (axis.name, axis.values) == (name, tuple(values.split()))


def test_an_axis_of_numbers():
    """Policies are not numbers."""
    assert parse_axis("threads=1,2").numbers == (1.0, 2.0)
    assert parse_axis("policy=none,fair").numbers is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("threads", "'threads' is not a setting, expected NAME=VALUE"),
        ("threads=", "'threads=' is not a setting, expected NAME=VALUE"),
        ("threads=4..1", "the range 4..1 of 'threads=4..1' is descending"),
        ("threads=1,1", "'threads=1,1' has a duplicate or an empty value"),
        ("threads=1,,2", "'threads=1,,2' has a duplicate or an empty value"),
    ],
)
def test_axes_that_are_none(text, message):
    """The error quotes what was typed."""
    with pytest.raises(ScenarioError) as caught:
        parse_axis(text)

    assert message in caught.value.message


def test_sweeps_multiply():
    """Each combination is a point, the last axis changes first, and parameters that belong together change together."""
    axes = [parse_axis("threads=1,2"), parse_axis("policy=none,fair"), parse_axis("connections=3")]

    found = points(library.load("convoy"), axes)

    assert [point.values for point in found] == [(n, p, "3") for n in ("1", "2") for p in ("none", "fair")]
    last = found[-1].scenario
    assert [role.threads for role in last.roles] == [1, 2]
    assert (last.processes[0].policy, last.clients[0].connections) == ("fair", 3)


def test_sweeps_that_are_none():
    """A parameter that is swept twice, and more than 10,000 points, are errors."""
    convoy = library.load("convoy")

    with pytest.raises(ScenarioError, match="--sweep names threads twice"):
        points(convoy, [parse_axis("threads=1"), parse_axis("threads=2")])
    with pytest.raises(ScenarioError, match=r"--sweep names one parameter twice, as threads and as cpu\.threads"):
        points(convoy, [parse_axis("threads=1"), parse_axis("cpu.threads=2")])
    with pytest.raises(ScenarioError, match="--sweep names switch_interval_s twice"):
        points(convoy, [parse_axis("switch-interval=1"), parse_axis("switch_interval=2")])
    many = ",".join(map(str, range(1, 200)))
    with pytest.raises(ScenarioError, match="the sweep has 39,601 points, expected 10,000 at most"):
        points(convoy, [parse_axis(f"threads={many}"), parse_axis(f"connections={many}")])


@pytest.mark.parametrize(
    ("setting", "look", "expected"),
    [
        ("threads=4", lambda one: one.roles[1].threads, 4),
        ("server.threads=1", lambda one: one.roles[0].threads, 1),
        ("processes=on", lambda one: one.roles[1].processes, True),
        ("policy=bfs", lambda one: one.processes[0].policy, "bfs"),
        ("switch_interval_s=0.0005", lambda one: one.processes[0].switch_interval_ns, 500_000),
        ("switch-interval=1e-5", lambda one: one.processes[0].switch_interval_ns, 10_000),
        ("gil=off", lambda one: one.processes[0].gil, False),
        ("cores=8", lambda one: one.cores, 8),
        ("placement=same", lambda one: one.placement, "same"),
        ("connections=9", lambda one: one.clients[0].connections, 9),
        ("load.connections=9", lambda one: one.clients[0].connections, 9),
        ("rate=50", lambda one: one.clients[0].rate_per_s, 50.0),
        ("duration=0.5", lambda one: one.duration_ns, 500_000_000),
    ],
)
def test_parameters(setting, look, expected):
    """Each parameter is set where it belongs."""
    assert look(change(library.load("convoy"), *split_setting(setting))) == expected


@pytest.mark.parametrize(
    ("scenario", "setting", "message", "hint"),
    [
        ("convoy", "thread=1", "there is no parameter 'thread'", "did you mean `threads`?"),
        ("convoy", "threads=x", "threads is 'x', expected a whole number from 0 to 20000", ""),
        ("convoy", "connections=0", "connections is '0', expected a whole number from 1", ""),
        ("convoy", "gil=maybe", "gil is 'maybe', expected on or off", ""),
        ("convoy", "switch-interval=0", "switch_interval_s is '0', expected a number above 0", ""),
        ("convoy", "placement=here", "placement is 'here', expected free or split or same", ""),
        ("convoy", "sever.threads=1", "sever.threads: there is no role 'sever'", "did you mean `server`?"),
        ("convoy", "lod.connections=1", "lod.connections: there is no client 'lod'", "did you mean `load`?"),
        ("convoy", "cores=1", "placement is 'split' and cores is 1", ""),
        ("convoy", "option.latency_us=3", "the option latency_us needs a policy, and none is given", "--policy fair"),
        (
            "convoy",
            "server.threads=3",
            "load.thread_per_connection is true, and role.server.threads is 3",
            "leave out `thr",
        ),
        ("t1", "connections=3", "connections: there is no client", ""),
        ("t8", "processes=maybe", "processes is 'maybe'", ""),
    ],
)
def test_parameters_that_do_not_fit(scenario, setting, message, hint):
    """The error names the parameter and what it could be."""
    with pytest.raises(ScenarioError) as caught:
        change(library.load(scenario), *split_setting(setting))

    assert message in caught.value.message
    assert hint in caught.value.hint


def test_the_role_that_computes_must_be_clear():
    """The parameter `threads` asks which role is meant if two roles compute, or none does."""
    two = parse("[role.a]\nprogram=[{compute=true}]\n[role.b]\nprogram=[{compute=true}]\n", name="app")
    none = parse("[role.a]\nprogram=[{sleep_ms=1}]\n", name="app")

    with pytest.raises(ScenarioError, match=r"several roles are CPU-bound \(a, b\)") as caught:
        change(two, "threads", "3")
    assert "`a.threads=4`" in caught.value.hint
    with pytest.raises(ScenarioError, match="no role is CPU-bound"):
        change(none, "threads", "3")
    assert change(none, "a.threads", "3").roles[0].threads == 3
