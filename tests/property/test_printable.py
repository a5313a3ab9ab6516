"""Names that another program gives its threads, files and functions never control a terminal or a page."""

import contextlib
import io
import json
import tempfile
import unicodedata
from dataclasses import astuple, replace
from pathlib import Path

from export_checks import read_perfetto
from hypothesis import given
from hypothesis import strategies as st
from live_image import make_snapshot
from made_traces import made_process, made_trace
from sample import examples

from headway.cli import console, top_view
from headway.live.counters import difference
from headway.live.watch import Sample
from headway.printable import printable
from headway.report.html.trace_page import trace_page
from headway.report.trace.summary import short_summary
from headway.report.trace.terminal import render_trace
from headway.traces.analysis import analyse
from headway.traces.analysis.json_form import as_json
from headway.traces.export import FORMATS
from headway.traces.model import Frame, Trace

NASTY = "\x00\x07\x08\t\n\v\f\r\x1b\x7f\x85\x9b\x9d\xad\u061c\u200b\u200f\u2028\u2029\u202a\u202e\u2066\u2069\ufeff\ud800\udcff"
names = st.text(st.one_of(st.sampled_from(NASTY + "ab;/[]\\ é😀"), st.characters()), max_size=12)
S = 1_000_000_000


def commands(text: str, allowed: str = "\n") -> set[str]:
    """Return the characters of a text that a reader cannot see."""
    return {one for one in text if unicodedata.category(one) in {"Cc", "Cf", "Cs", "Zl", "Zp"}} - set(allowed)


def strings(value):
    """Yield every string in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, one in value.items():
            yield key
            yield from strings(one)
    elif isinstance(value, list):
        for one in value:
            yield from strings(one)


BASE = made_trace(threads=4, events=300, gils=2)


@st.composite
def named(draw) -> Trace:
    """Draw a trace in which every name that the traced program chooses is any text."""
    threads = tuple(replace(one, name=draw(names)) for one in BASE.threads)
    frames = (
        BASE.frames[0],
        *(Frame(draw(names), one.line, draw(names), one.first_line) for one in BASE.frames[1:]),
    )
    process = made_process(
        program=draw(names), executable=draw(names), command=tuple(draw(st.lists(names, max_size=3)))
    )
    return replace(BASE, threads=threads, frames=frames, process=process, types=tuple(draw(names) for _ in BASE.types))


@given(st.one_of(names, st.text()))
def test_only_what_is_seen_is_left(text):
    """Every invisible character is escaped, and a text without any is unchanged."""
    shown = printable(text)

    assert not commands(shown, "")
    assert shown.isprintable()
    assert printable(shown) == shown
    if text.isprintable():
        assert shown == text


def test_escapes_are_those_of_python():
    """Escapes give the character's number, as Python's do."""
    assert printable("a\x1b[2J\n\u202eb\ufeff\udcff\U000e0001") == r"a\x1b[2J\x0a\u202eb\ufeff\udcff\U000e0001"
    assert printable("größe 😀 \\x") == "größe 😀 \\x"


@given(named())
@examples(25)
def test_no_name_reaches_the_terminal(trace):
    """The report, the summary and the findings contain only printable characters and line ends, for any names."""
    analysis = analyse(trace)
    with contextlib.redirect_stdout(io.StringIO()) as out:
        console.print_rendered(render_trace(analysis, every=True))
    with contextlib.redirect_stderr(io.StringIO()) as told:
        console.say_rendered(short_summary([analysis]))

    assert "held" in out.getvalue()
    assert not commands(out.getvalue())
    assert not commands(told.getvalue())
    assert not commands("".join(f"{one.fact}{one.cause}{one.advice}" for one in analysis.findings), "")


@given(named())
@examples(25)
def test_json_is_exact_and_ascii(trace):
    """Values in the JSON output are the exact names, in JSON's escapes."""
    analysis = analyse(trace)
    with contextlib.redirect_stdout(io.StringIO()) as out:
        console.print_json(as_json(analysis))

    assert not commands(out.getvalue())
    value = json.loads(out.getvalue())
    assert [one["name"] for one in value["threads"]] == [one.name for one in analysis.threads]
    assert value["process"]["command"] == list(trace.process.command)


@given(named())
@examples(15)
def test_no_name_reaches_a_viewer(trace):
    """The page, folded stacks, and Perfetto's and Firefox' views show names, and never obey them."""
    page, _ = trace_page([("", [(trace, analyse(trace))])], "0")
    with tempfile.TemporaryDirectory() as folder:
        for name in FORMATS:
            FORMATS[name]([trace], Path(folder) / name)
        folded = (Path(folder) / "collapsed-hold").read_text() + (Path(folder) / "collapsed-wait").read_text()
        profile = json.loads((Path(folder) / "gecko").read_text())
        sequence = read_perfetto(Path(folder) / "perfetto")[0][1]

    assert not commands(folded)
    assert len(folded.splitlines()) == folded.count("\n")
    assert not any(commands(one, "") for one in strings(profile))
    shown = [
        part for of in sequence.slices.values() for *_, stack, _ in of for frame in stack or () for part in frame[:2]
    ]
    assert shown
    assert not any(map(commands, shown))
    for view in page.views:
        assert not commands("".join([view.title, *view.lines, *(lane.label for lane in view.lanes)]), "")
        assert not any(commands(part, "") for one in view.frames for part in astuple(one) if isinstance(part, str))
        assert not commands(
            "".join(cell for part in view.sections for table in part.tables for row in table.rows for cell in row)
        )


@given(st.lists(names, min_size=1, max_size=4), names)
@examples(50)
def test_no_name_reaches_top(called, program):
    """The heads, the rows and the messages of `headway top` contain no control characters of a name."""
    rows = [
        {"serial": serial, "name": name.encode("utf-8", "replace").decode()[:8], "state": "holding", "holds": 1}
        for serial, name in enumerate(called, 1)
    ]
    busy = [{**one, "hold_ns": S, "waits": 2, "wait_ns": S, "worst_wait_ns": S} for one in rows]
    rates = difference(make_snapshot(1 * S, *rows), make_snapshot(2 * S, *busy))
    lines = top_view.block([Sample(1, program, True, rates, rates)])

    assert not commands("".join(lines), "")
    value = json.loads(json.dumps(top_view.to_json([Sample(1, program, True, rates, rates)])))
    assert value["processes"][0]["program"] == program
    cells = [cell for row in top_view.rows([Sample(1, program, True, rates, rates)]) for cell in row.cells]
    assert not commands("".join(cells), "")


@given(st.lists(names))
def test_no_message_commands_the_terminal(parts):
    """A message may quote any text, and still consists of lines without control characters."""
    with contextlib.redirect_stderr(io.StringIO()) as told:
        console.complain("".join(parts), "a hint")

    assert not commands(told.getvalue())
