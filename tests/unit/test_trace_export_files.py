"""The common behaviour of all exports, and folded stacks and Parquet."""

import json
import sys
from dataclasses import replace

import pyarrow.parquet as pq
import pytest
from export_checks import HANDED_OVER, ODD, TWO_FRAMES, small_trace
from made_traces import made_process, made_trace

from headway.errors import HeadwayError, UsageError
from headway.traces.export import FORMATS
from headway.traces.frames import OURS
from headway.traces.model import Frame, Kind, Thread


@pytest.mark.parametrize("name", FORMATS)
def test_no_trace_is_an_error(tmp_path, name):
    """An export without a trace is refused, and writes nothing."""
    with pytest.raises(UsageError, match="no trace"):
        FORMATS[name]([], tmp_path / "out")

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", FORMATS)
def test_a_folder_that_is_not_there_is_named(tmp_path, name):
    """A file that cannot be written is an error that names it."""
    with pytest.raises(HeadwayError, match="nowhere"):
        FORMATS[name]([made_trace(events=10)], tmp_path / "nowhere" / "out")


@pytest.mark.parametrize("name", FORMATS)
def test_a_device_is_not_replaced(tmp_path, name):
    """A path that exists and is no regular file is left alone."""
    with pytest.raises(HeadwayError, match="not a regular file"):
        FORMATS[name]([made_trace(events=10)], tmp_path)

    assert tmp_path.is_dir()


@pytest.mark.parametrize("name", FORMATS)
def test_an_error_leaves_nothing_half_written(tmp_path, name, monkeypatch):
    """An export that fails midway leaves the earlier file as it was, and no other file."""
    path = tmp_path / "out"
    path.write_text("before")
    broken = replace(made_trace(events=2000), frames=())

    with pytest.raises(IndexError):
        FORMATS[name]([made_trace(events=2000), broken], path)

    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", FORMATS)
def test_a_link_stays_a_link(tmp_path, name):
    """Writing to a symbolic link writes the file that it names."""
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_text("before")
    link.symlink_to(real)

    FORMATS[name]([made_trace(events=10)], link)

    assert link.is_symlink()
    assert real.read_bytes() not in {b"before", b""}


def test_folded_holds_and_waits(tmp_path):
    """A hold counts at the stack of its release, and a wait at its beginning, outermost frame first, in nanoseconds."""
    trace = small_trace(HANDED_OVER, frames=TWO_FRAMES)
    path = tmp_path / "out"

    FORMATS["collapsed-hold"]([trace], path)
    assert path.read_text() == (
        "app.py 4242;MainThread;main (app.py:40);handle (app.py:12) 5600\napp.py 4242;w-1;? 200\n"
    )
    FORMATS["collapsed-wait"]([trace], path)
    assert path.read_text() == "app.py 4242;w-1;main (app.py:40) 5200\n"


def test_folded_names_are_escaped(tmp_path):
    """A separator, a line end or an undecodable byte in a name stays within its frame."""
    trace = small_trace(
        [(1000, 0, Kind.ACQUIRE, 0, 0), (3000, 0, Kind.RELEASE, 1, 0)],
        frames=(Frame(ODD, 7, "a;b"),),
        process=made_process(program="a;b"),
    )

    FORMATS["collapsed-hold"]([trace], tmp_path / "out")

    frame = 'a\\x3bb (é😀 \\udcff"\\\\x3b\\x0a\\u2028:7)'
    assert (tmp_path / "out").read_text(encoding="utf-8") == f"a\\x3bb 4242;MainThread;{frame} 2000\n"


def test_folded_stacks_have_headways_own_work_under_its_name(tmp_path):
    """The work of `headway attach` is one frame, and no frame of the program."""
    trace = small_trace(
        [(1000, 0, Kind.ACQUIRE, 0, 0), (3000, 0, Kind.RELEASE, 1, 0)],
        frames=(OURS,),
    )

    FORMATS["collapsed-hold"]([trace], tmp_path / "out")

    assert (tmp_path / "out").read_text() == "app.py 4242;MainThread;attach (<headway>) 2000\n"


@pytest.mark.parametrize("name", FORMATS)
def test_odd_names_are_written(tmp_path, name):
    """Names that are not Unicode, or that would end a string, neither stop an export nor break its file."""
    threads = (Thread(1, 4242, ODD, 1000, None), Thread(2, 4243, "", 1000, None))
    trace = small_trace(
        HANDED_OVER,
        frames=(Frame(ODD, 1, ODD), Frame("", 0, ODD)),
        process=made_process(program=ODD, command=(ODD,), executable=ODD),
        threads=threads,
        types=("", ODD),
    )

    FORMATS[name]([trace], tmp_path / "out")

    if name == "parquet":
        assert pq.read_table(tmp_path / "out").column("thread_name").to_pylist()[0] == ODD.replace("\udcff", "\\udcff")
    elif name != "perfetto":
        (tmp_path / "out").read_text(encoding="utf-8")


def test_parquet_without_pyarrow_says_how_to_get_it(tmp_path, monkeypatch):
    """The error without pyarrow says what to install."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    with pytest.raises(HeadwayError) as caught:
        FORMATS["parquet"]([made_trace(events=10)], tmp_path / "out")

    assert caught.value.hint == "install pyarrow beside headway: pip install pyarrow"
    assert list(tmp_path.iterdir()) == []


def test_parquet_is_encoded_compactly(tmp_path):
    """Times are stored as differences, everything is compressed, and names are stored once."""
    trace = made_trace(events=20_000)
    FORMATS["parquet"]([trace, made_trace(events=100, seed=1)], tmp_path / "out")

    metadata = pq.read_metadata(tmp_path / "out")
    columns = {metadata.schema.column(i).name: metadata.row_group(0).column(i) for i in range(metadata.num_columns)}
    assert "DELTA_BINARY_PACKED" in columns["time_ns"].encodings
    assert {one.compression for one in columns.values()} == {"ZSTD"}
    assert columns["location"].has_dictionary_page
    assert metadata.num_rows == 20_100
    described = json.loads(metadata.metadata[b"headway"])
    assert [one["program"] for one in described] == ["app.py", "app.py"]
    assert described[0]["start_realtime_ns"] == trace.process.start_realtime_ns
    assert (tmp_path / "out").stat().st_size < 20_100 * 8


def test_formats_are_imported_when_used():
    """Naming the formats imports none of their modules."""
    import subprocess

    code = "import sys; from headway.traces.export import FORMATS; print([m for m in sys.modules if m.startswith('headway.traces.export.') or m == 'pyarrow'])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert found.stdout.strip() == "[]"
