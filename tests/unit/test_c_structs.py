"""Each ctypes struct of the Python code has the layout that the C compiler gives the struct of the header."""

import ctypes
import functools
import importlib
import pkgutil
import re
from pathlib import Path

import numpy as np
import pytest
from c_layout import c_layout

import headway
from headway import native_sim
from headway.live import slots, stacks
from headway.traces import codes, records
from headway.traces import format as hwt

ROOT = Path(__file__).resolve().parents[2]

# Python class -> (header, C struct). native_sim's are compared in test_sim_native.py, the trace file's in
# test_trace_format.py.
OURS = {
    "headway.native._Option": ("headway/policy.h", "hw_policy_option"),
    "headway.native._Policy": ("headway/policy.h", "hw_policy"),
    "headway.native._State": ("headway/collect.h", "hw_collect_state"),
    "headway.native._Kept": ("headway/trace.h", "hw_trace_kept"),
    "headway.native._Lap": ("headway/collect.h", "hw_lap"),
    "headway.native._Laps": ("headway/collect.h", "hw_laps"),
    "headway.native._Look": ("headway/collect.h", "hw_look"),
    "headway.native._Plan": ("headway/calibrate.h", "hw_calibrate_plan"),
    "headway.native._Facts": ("headway/calibrate.h", "hw_calibrate_facts"),
    "headway.live.lease._Page": ("base/lease.h", "hw__lease_page"),
    "headway_agent.limits.RefcountConfig": ("headway/refcount.h", "hw_refcount_config"),
    "headway_agent.limits.RefcountResult": ("headway/refcount.h", "hw_refcount_result"),
    "headway_agent.limits.PingPongResult": ("headway/pingpong.h", "hw_pingpong_result"),
    "headway_agent.load.LoadConfig": ("headway/load.h", "hw_load_config"),
    "headway_agent.load.LoadResult": ("headway/load.h", "hw_load_result"),
    "headway_agent.load.Histogram": ("headway/histogram.h", "hw_histogram"),
}
# Structs of the system, not of Headway; the code uses those of `inject` only on x86-64.
SYSTEMS = {
    "headway.measure.alarm._Time": ("time.h", "timespec"),
    "headway.measure.alarm._Setting": ("time.h", "itimerspec"),
    "headway.live.inject._Registers": ("sys/user.h", "user_regs_struct"),
    "headway.live.inject._IoVec": ("sys/uio.h", "iovec"),
    "headway.live.inject._Rseq": None,  # ptrace's struct, which older C libraries' headers lack
}
# Structs of which Python declares only the first fields; the library alone uses the others.
BEGINNINGS = {"headway.native._Policy"}


@functools.cache
def known() -> dict[str, type[ctypes.Structure]]:
    """Return every ctypes struct of the package and the agent by its name, except those of the simulator."""
    found = {}
    names = [
        info.name for info in pkgutil.walk_packages(headway.__path__, "headway.") if "headway_agent" not in info.name
    ]
    names = [name for name in names if name != "headway.__main__"]
    for name in [*names, "headway_agent.limits", "headway_agent.load"]:
        for member in vars(importlib.import_module(name)).values():
            is_struct = isinstance(member, type) and issubclass(member, ctypes.Structure)
            if is_struct and member.__module__ == name and not name.startswith("headway.native_sim"):
                found[f"{name}.{member.__name__}"] = member
    return found


def test_every_struct_is_in_a_table():
    """No ctypes struct of the code escapes the comparison."""
    assert set(known()) == {*OURS, *SYSTEMS}
    assert len(native_sim.c_structs()) == 8


@pytest.fixture(scope="module")
def layout(tmp_path_factory):
    """Return sizes and offsets from the compiler: {"hw_look": bytes, "hw_look.wait_ns": offset, ...}."""
    places = {name: place for name, place in {**OURS, **SYSTEMS}.items() if place is not None}
    structs = {
        struct: (struct, [field for field, *_ in known()[name]._fields_]) for name, (_, struct) in places.items()
    }
    headers = sorted({header for header, _ in places.values()})
    return c_layout(
        tmp_path_factory.mktemp("structs"),
        [*headers, "trace/format.h"],
        {**structs, "hw__slot": ("hw__slot", [])},
    )


@pytest.mark.parametrize("name", [name for name, place in {**OURS, **SYSTEMS}.items() if place is not None])
def test_a_struct_is_laid_out_as_the_compiler_does(layout, name):
    """The C struct has fields of the same names and offsets, and the same size."""
    struct = {**OURS, **SYSTEMS}[name][1]
    in_python = {f"{struct}.{field}": getattr(known()[name], field).offset for field, *_ in known()[name]._fields_}

    assert in_python == {field: layout[field] for field in in_python}
    if name in BEGINNINGS:
        assert ctypes.sizeof(known()[name]) <= layout[struct]
    else:
        assert ctypes.sizeof(known()[name]) == layout[struct]


@pytest.mark.parametrize(
    "place", [place for place in OURS.values() if place[1] != "hw_policy"], ids=lambda place: place[1]
)
def test_no_field_is_missing(place):
    """A struct has as many fields in Python as its header declares."""
    header, struct = place
    path = next(path for path in (ROOT / "native" / header, ROOT / "native/include" / header) if path.exists())
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", path.read_text(), flags=re.DOTALL)
    body = re.search(rf"struct {struct} \{{(.*?)\n\}};", text, re.DOTALL).group(1)
    declared = [len(line.split(",")) for line in body.split(";") if line.strip()]
    name = next(name for name, at in OURS.items() if at == place)

    assert len(known()[name]._fields_) == sum(declared)


def test_records_are_as_long_as_the_formats_structs(layout):
    """A record that a reader unpacks with `struct` has the size of the format's struct, apart from final padding."""
    pairs = [
        (records._META, hwt.META_DTYPE),
        (records._GIL, hwt.STRUCTS["meta_gil"]),
        (records._NODE, hwt.STRUCTS["meta_node"]),
        (records._TYPE, hwt.STRUCTS["meta_type"]),
        (records._NOTE, hwt.STRUCTS["meta_note"]),
        (codes.CODE, hwt.STRUCTS["meta_code"]),
        (stacks._META, hwt.META_DTYPE),
        (stacks._NODE, hwt.STRUCTS["meta_node"]),
    ]
    for packed, dtype in pairs:
        assert isinstance(dtype, np.dtype)
        assert packed.size <= dtype.itemsize
        assert packed.size > dtype.itemsize - 8
    assert slots.SLOT.size == layout["hw__slot"]
