"""The simulator's binding, checked against its header with the C compiler, and against a stand-in in C."""

import ctypes
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from c_layout import c_layout

from headway import native_sim
from headway.errors import ScenarioError
from headway.native import ABI_VERSION
from headway.native_sim import COSTS, EVENT_DTYPE, OF_DIST, Client, Gil, Op, OpKind, Role, Simulation, Spec, simulation
from headway.sim import check, program
from headway.traces.model import RAN_ALL, RAN_SHIFT, Flag

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = ROOT / "native" / "include"
HEADER = (INCLUDE / "headway" / "simulate.h").read_text()
CODE = re.sub(r"/\*.*?\*/|//[^\n]*", "", HEADER, flags=re.DOTALL)


def test_costs_and_operations_are_those_of_the_header():
    """The names, their order and their numbers are those of the enumerations."""
    costs = re.findall(r"HW_SIM_COST_(\w+)", CODE)
    kinds = re.findall(r"HW_SIM_(\w+)", re.search(r"enum hw_sim_op_kind \{(.*?)\}", CODE, re.DOTALL).group(1))

    assert tuple(name.lower() for name in costs) == COSTS
    assert kinds == [*(kind.name for kind in OpKind), "OPS"]
    assert [kind.value for kind in OpKind] == list(range(len(OpKind)))


def test_flags_are_those_of_the_header():
    """The flags of operations and the number of a thread's clocks have the header's values."""
    values = {name: int(value) for name, value in re.findall(r"#define HW_SIM_(\w+) (\d+)u?\n", CODE)}

    # A simulated trace has the flags of a recording.
    events = (values.pop("EVENT_FORCED"), values.pop("EVENT_RAN_SHIFT"), values.pop("EVENT_RAN_ALL"))
    assert events == (Flag.FORCED, RAN_SHIFT, RAN_ALL)
    assert {name: getattr(native_sim, name) for name in values} == values


def test_limits_are_those_of_the_simulator():
    """A scenario beyond a limit is refused by the scenario's own check, which names the role."""
    source = (ROOT / "native" / "sim" / "simulate.c").read_text()
    limits = dict(re.findall(r"#define MOST_(\w+) (\d+)", source))

    assert int(limits["THREADS"]) == check.MOST_THREADS
    assert int(limits["GILS"]) == check.MOST_GILS
    assert int(limits["LOOPS"]) == program.MOST_DEPTH


def fields_in_c(struct):
    body = re.search(rf"struct hw_sim_{struct} \{{(.*?)\}};", CODE, re.DOTALL).group(1)
    return [
        re.search(r"(\w+)(?:\[\w+\])?$", one.strip()).group(1)
        for line in body.split(";")
        if line.strip()
        for one in line.split(",")
    ]


def test_structs_are_laid_out_as_the_compiler_does(tmp_path):
    """The sizes, names and offsets of all fields are those of the C structs, also for the event's numpy type."""
    structs = native_sim.c_structs()
    names = [*structs, "event"]
    in_c = c_layout(tmp_path, ["headway/simulate.h"], {name: (f"hw_sim_{name}", fields_in_c(name)) for name in names})

    in_python = {name: ctypes.sizeof(struct) for name, struct in structs.items()}
    for name, struct in structs.items():
        in_python |= {f"{name}.{field}": getattr(struct, field).offset for field, *_ in struct._fields_}
    in_python["event"] = EVENT_DTYPE.itemsize
    in_python |= {f"event.{field}": EVENT_DTYPE.fields[field][1] for field in EVENT_DTYPE.names}
    assert in_python == in_c


STAND_IN = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "headway/simulate.h"

struct hw_sim { int64_t now_ns; int fails; float latencies[3]; struct hw_sim_event event; };

#define SAY(...) at += snprintf(text + at, sizeof text - (size_t)at, __VA_ARGS__)

/* Says all that it was told into a file beside it. */
struct hw_sim *hw_sim_new(const struct hw_sim_spec *s, char *problem, int room) {
    static char text[65536];
    int at = 0;
    SAY("%llu %lld %lld %lld %lld %lld %d %d %lld\n", (unsigned long long)s->seed, (long long)s->end_ns,
        (long long)s->warm_ns, (long long)s->tick_ns, (long long)s->slice_ns, (long long)s->migration_ns,
        s->core_count, s->port_count, (long long)s->max_events);
    for (int i = 0; i < HW_SIM_COSTS; i++)
        SAY("cost %d %g %g\n", s->costs[i].count, s->costs[i].quantiles[0],
            s->costs[i].quantiles[s->costs[i].count - 1]);
    for (int i = 0; i < s->dist_count; i++)
        SAY("dist %d %g\n", s->dists[i].count, s->dists[i].quantiles[s->dists[i].count - 1]);
    for (int i = 0; i < s->semaphore_count; i++) SAY("semaphore %d\n", s->semaphores[i]);
    for (int i = 0; i < s->gil_count; i++)
        SAY("gil %d %lld %lld %lld %d %d %lld %g\n", s->gils[i].policy != NULL, (long long)s->gils[i].options[0],
            (long long)s->gils[i].options[7], (long long)s->gils[i].spin_ns, s->gils[i].yields, s->gils[i].enabled,
            (long long)s->gils[i].interval_ns, s->gils[i].slow_down);
    for (int i = 0; i < s->role_count; i++) {
        const struct hw_sim_role *r = &s->roles[i];
        SAY("role %d %d %d %llu %d %d %d %d %lld %lld %d %d\n", r->repeats, r->threads, r->gil, (unsigned long long)r->cores,
            r->priority, r->urgent, r->port_step, r->start_at, (long long)r->begin_ns, (long long)r->stagger_ns,
            r->turns, r->answers);
        for (int j = 0; j < r->op_count; j++)
            SAY("op %d %d %u %u %lld\n", r->ops[j].kind, r->ops[j].flags, r->ops[j].index, r->ops[j].where,
                (long long)r->ops[j].value);
    }
    for (int i = 0; i < s->client_count; i++)
        SAY("client %d %d %d %d %g %llu %lld\n", s->clients[i].connections, s->clients[i].port,
            s->clients[i].port_step, s->clients[i].think, s->clients[i].rate_per_s,
            (unsigned long long)s->clients[i].cores, (long long)s->clients[i].work_ns);
    FILE *file = fopen(getenv("STAND_IN_SAYS"), "w");
    fputs(text, file);
    fclose(file);
    if (s->seed == 666) {
        snprintf(problem, (size_t)room, "the seed is %d", 666);
        return NULL;
    }
    struct hw_sim *sim = calloc(1, sizeof *sim);
    sim->fails = (int)(s->seed > 1000 ? s->seed - 1000 : 0);
    return sim;
}
int hw_sim_run(struct hw_sim *sim, int64_t until_ns) { sim->now_ns = until_ns; return -sim->fails; }
void hw_sim_role_result(const struct hw_sim *sim, int role, struct hw_sim_role_result *r) {
    *r = (struct hw_sim_role_result){role, 1, 2, 3, 4, 5, 6, sim->now_ns, 7, 8};
}
void hw_sim_gil_result(const struct hw_sim *sim, int gil, struct hw_sim_gil_result *r) {
    *r = (struct hw_sim_gil_result){sim->now_ns, gil, 1, 2};
}
const float *hw_sim_latencies(const struct hw_sim *sim, int role, int64_t *count) {
    struct hw_sim *mine = (struct hw_sim *)sim;
    for (int i = 0; i < 3; i++) mine->latencies[i] = (float)(role + i);
    *count = role ? 3 : 0;
    return role ? sim->latencies : NULL;
}
const struct hw_sim_event *hw_sim_events(const struct hw_sim *sim, int64_t *count, int64_t *dropped) {
    ((struct hw_sim *)sim)->event = (struct hw_sim_event){sim->now_ns, 4, 5, 2, 1, 3, 0};
    *count = 1;
    *dropped = 8;
    return &sim->event;
}
int64_t hw_sim_ended_ns(const struct hw_sim *sim) { return sim->now_ns > 70 ? 70 : -1; }
int64_t hw_sim_stood_ns(const struct hw_sim *sim) { return sim->now_ns > 80 ? 80 : -1; }
int64_t hw_sim_steps(const struct hw_sim *sim) { return sim->now_ns / 10; }
double hw_sim_coldness(int64_t since_ns) { return (double)since_ns / 10; }
void hw_sim_free(struct hw_sim *sim) { free(sim); }
unsigned hw_abi_version(void) { return ABI; }
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Return the stand-in's library."""
    folder = tmp_path_factory.mktemp("stand_in")
    (folder / "sim.c").write_text(STAND_IN)
    command = ["cc", "-shared", "-fPIC", f"-DABI={ABI_VERSION}", "-I", str(INCLUDE), "sim.c", "-o", "libheadway.so"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "libheadway.so"


@pytest.fixture
def stand_in(built, monkeypatch, tmp_path):
    """Make the stand-in simulate; yield the file in which it writes the specification that it got."""
    said = tmp_path / "said.txt"
    monkeypatch.setenv("HEADWAY_NATIVE", str(built))
    # C reads the process's own environment.
    monkeypatch.setenv("STAND_IN_SAYS", str(said))
    simulation._library.cache_clear()
    yield said
    simulation._library.cache_clear()


SPEC = Spec(
    seed=5,
    end_ns=100,
    warm_ns=10,
    costs=tuple((float(place), float(place + 1)) for place in range(len(COSTS))),
    tick_ns=4,
    slice_ns=3,
    migration_ns=2,
    core_count=7,
    gils=(Gil(policy=0x10, options=(3,), spin_ns=20, yields=True), Gil(enabled=False, interval_ns=9, slow_down=0.5)),
    roles=(
        Role((Op(OpKind.HOLD, 1, 8, 7, OF_DIST), Op(OpKind.EXIT)), 1, 2, repeats=False, cores=1 << 63, priority=-4),
        Role(
            (Op(OpKind.SLEEP, 2**40),),
            -1,
            urgent=True,
            port_step=1,
            start_at=2,
            begin_ns=3,
            stagger_ns=4,
            turns=True,
            answers=2,
        ),
    ),
    clients=(Client(3, 4, 5, 6, 0.5, 7, 8),),
    port_count=6,
    semaphores=(1, 0),
    dists=((1.0, 2.0, 3.0), (4.0,)),
    max_events=11,
)


def test_the_library_is_told_all(stand_in):
    """Every field of the specification arrives."""
    with Simulation(SPEC):
        pass

    said = stand_in.read_text().splitlines()
    assert said[0] == "5 100 10 4 3 2 7 6 11"
    assert said[1 : 1 + len(COSTS)] == [f"cost 2 {place} {place + 1}" for place in range(len(COSTS))]
    assert said[1 + len(COSTS) :] == [
        "dist 3 3",
        "dist 1 4",
        "semaphore 1",
        "semaphore 0",
        "gil 1 3 0 20 1 1 5000000 0",
        "gil 0 0 0 0 0 0 9 0.5",
        f"role 0 2 1 {1 << 63} -4 0 0 0 0 0 0 0",
        "op 0 1 8 7 1",
        f"op {OpKind.EXIT} 0 0 0 0",
        "role 1 1 -1 0 0 1 1 2 3 4 1 2",
        f"op 4 0 0 0 {2**40}",
        "client 3 4 5 6 0.5 7 8",
    ]


def test_results_come_back(stand_in):
    """Counts, latencies and events are copies that outlive the machine."""
    with Simulation(SPEC) as run:
        run.run(70)
        role, gil = run.role_result(2), run.gil_result(1)
        none, some = run.latencies_ns(0), run.latencies_ns(2)
        events, dropped = run.events()
        steps = run.steps()
        assert run.ended_ns() is None
        run.run(80)
        assert run.ended_ns() == 70

    assert role == native_sim.RoleResult(2, 1, 2, 3, 4, 5, 6, 70, 7, 8)
    assert gil == native_sim.GilResult(70, 1, 1, 2)
    assert (none.tolist(), some.tolist(), some.dtype) == ([], [2.0, 3.0, 4.0], np.float32)
    assert events.tolist() == [(70, 4, 5, 2, 1, 3, 0)]
    assert (dropped, steps) == (8, 7)


@pytest.mark.parametrize(
    ("seed", "message"),
    [
        (666, "this cannot be simulated: the seed is 666"),
        (1035, "the simulation stopped before 1e-07 s: every thread that has not ended waits for another thread"),
        (1012, "memory ran out"),
        (1071, "a program has an error"),
        (1999, "error 999"),
    ],
)
def test_what_the_library_refuses(stand_in, seed, message):
    """A refusal has the library's own words, or the meaning of its error number."""
    with pytest.raises(ScenarioError, match=re.escape(message)), Simulation(replace(SPEC, seed=seed)) as run:
        run.run(100)
