"""The numpy side of the trace format, checked against the C header with the C compiler."""

import re
from pathlib import Path

import pytest
from c_layout import c_layout

from headway.traces import format as hwt
from headway.traces.model import Flag, Kind, Park

ROOT = Path(__file__).resolve().parents[2]
HEADER = (ROOT / "native" / "trace" / "format.h").read_text()
CODE = re.sub(r"/\*.*?\*/|//[^\n]*", "", HEADER, flags=re.DOTALL)
DEFINES = dict(re.findall(r"^#define HW__(\w+) (\S.*?)\s*$", CODE, re.MULTILINE))


def fields_in_c(struct: str) -> list[str]:
    """Return the names of a struct's fields as the header declares them."""
    body = re.search(rf"struct hw__{struct} \{{(.*?)\}};", CODE, re.DOTALL).group(1)
    return [re.search(r"(\w+)(?:\[\w+\])?$", line.strip()).group(1) for line in body.split(";") if line.strip()]


@pytest.fixture(scope="module")
def layout(tmp_path_factory):
    """Return the compiler's values: {"chunk": bytes, "chunk.used": offset, ..., "WAIT": number, ...}."""
    return c_layout(
        tmp_path_factory.mktemp("format"),
        ["trace/format.h"],
        {struct: (f"hw__{struct}", fields_in_c(struct)) for struct in hwt.STRUCTS},
        {name: f"HW__{name}" for name in DEFINES if name != "MAGIC"},
    )


@pytest.mark.parametrize("struct", hwt.STRUCTS)
def test_structs_are_laid_out_as_the_compiler_does(layout, struct):
    """The size, names and offsets of all fields are those of the C struct."""
    dtype = hwt.STRUCTS[struct]

    assert dtype.itemsize == layout[struct]
    assert list(dtype.names) == fields_in_c(struct)
    assert {name: dtype.fields[name][1] for name in dtype.names} == {
        name: layout[f"{struct}.{name}"] for name in dtype.names
    }


def test_every_struct_is_known():
    """No struct of the header is missing."""
    assert set(hwt.STRUCTS) == set(re.findall(r"^struct hw__(\w+) \{", CODE, re.MULTILINE))


def test_numbers_are_the_headers(layout):
    """Every constant of the header has the same value here."""
    numbers = {name: value for name, value in layout.items() if name in DEFINES}

    assert len(numbers) == len(DEFINES) - 1 > 30
    assert numbers == {name: getattr(hwt, name) for name in numbers}
    assert DEFINES["MAGIC"].strip('"').encode().decode("unicode_escape").encode("latin-1") == hwt.MAGIC


def test_the_model_speaks_of_the_same_kinds():
    """`Kind`, `Flag` and `Park` have the numbers of the file."""
    assert {kind.name: int(kind) for kind in Kind} == {kind.name: getattr(hwt, kind.name) for kind in Kind}
    assert {flag.name: int(flag) for flag in Flag} == {flag.name: getattr(hwt, flag.name) for flag in Flag}
    assert {park.name: int(park) << 8 for park in Park if park} == {
        park.name: getattr(hwt, f"PARK_{park.name}") for park in Park if park
    }


def test_numbers_are_little_endian():
    """The dtypes fix the byte order, so that a file reads the same everywhere."""
    for dtype in hwt.STRUCTS.values():
        for name in dtype.names:
            assert dtype.fields[name][0].base.newbyteorder("<") == dtype.fields[name][0].base
