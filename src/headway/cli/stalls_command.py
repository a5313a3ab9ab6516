"""Sum up stalls and their causes: by cause, by line, over time and by process.

FILE is a log (NAME.stalls.jsonl), a folder of `headway watch`, or a trace
(FILE.hwt). Headway searches a trace again for stalls, with the limits of --over
and --requests-over. If a program has just ended, Headway first waits until its
last stalls are in the log, or its trace is complete. Of several files, those
that cannot be read are left out, with a line for each.

Examples:
  headway stalls stalls/
  headway stalls app.hwt --over 50ms
  headway stalls /var/lib/*/stalls --json
  zcat app.stalls.jsonl.2.gz | headway stalls -
"""

import argparse
import contextlib
import errno
import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from headway.cli import console
from headway.cli.options import add_json
from headway.cli.options import path as path_of
from headway.cli.watch_command import add_lengths
from headway.errors import HeadwayError, TraceError
from headway.live.files import wait_until_finished
from headway.live.marks import killed_watchers
from headway.live.stall_log import gap_in
from headway.live.untold import wait_until_told
from headway.printable import printable

if TYPE_CHECKING:
    from headway.traces.model import Trace

__all__ = ["prepare", "run"]

_SILENT_S = 1.0
"""A wait that goes on for longer is announced."""
_LOG_NAME = re.compile(r".+\.stalls\.jsonl([.-]\d+)*")
"""A log's name; logrotate adds a number or a date, or both, and a date may have parts."""
_STDIN = Path("/dev/stdin")
"""Stands for `-`. It is not opened by that name: a socket, as under ssh, cannot be."""
_NO_GIL = "the process ran without a GIL, so Headway cannot tell its stalls"


def prepare(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "files", nargs="+", type=_path, metavar="FILE", help="logs, folders with logs, or traces; - is a log at stdin"
    )
    add_lengths(parser, preset=False)
    parser.add_argument("--all", action="store_true", help="print all rows of each table")
    parser.add_argument("--each", action="store_true", help="print one line for each stall instead of tables")
    add_json(parser)


def _path(text: str) -> Path:
    return _STDIN if text == "-" else path_of(text)


def _logs_in(folder: Path) -> list[Path]:
    return sorted(one for one in folder.glob("*.stalls.jsonl*") if _LOG_NAME.fullmatch(one.name))


def _why_wrong(path: Path) -> TraceError | None:
    """Return the error if there is nothing to read at a path."""
    if path.is_dir():
        if _logs_in(path) or any(path.glob("*.hwt")):
            return None
        return TraceError(
            f"the folder {path} has no log of stalls",
            hint="name a folder that `headway watch -o` wrote to; a process without a GIL has no log, nor has a program whose"
            " Python does not load Headway, as where PYTHONPATH was replaced or leads to another `sitecustomize` first",
        )
    if path == _STDIN or path.is_file() or path.is_fifo():
        return None
    what = f"{path} is no log of stalls: it is no regular file" if path.exists() else f"there is no file {path}"
    return TraceError(what, hint="name a log, a folder of `headway watch`, or a trace")


@contextlib.contextmanager
def _kept(bad: dict[Path, HeadwayError], path: Path) -> Iterator[None]:
    """Keep the error of one path: others may have stalls, as of `/var/lib/*/stalls`."""
    try:
        yield
    except HeadwayError as error:
        bad[path] = error
    except OSError as error:
        bad[path] = TraceError(f"{error.filename or path} cannot be read: {error.strerror}", hint="name another file")


def _check(path: Path) -> None:
    """Check, before anything is read, that there is something to read. Raises TraceError."""
    if _why_wrong(path) is not None:
        _wait(path)  # a watcher may still write the first log
        if (error := _why_wrong(path)) is not None:
            raise error


def _logs(path: Path) -> list[Path]:
    """Return the files to read.

    Of a folder, they are its logs, also those that logrotate has renamed, and the recordings that do not show all stalls;
    without a log, all its recordings and traces. Of a trace, they are the traces of its launch's processes.
    """
    if path.is_dir():
        found = _logs_in(path)
        for packed in sorted(path.glob("*.stalls.jsonl[.-]*.gz")):
            console.say(f"{packed} is not read; `zcat {packed} | headway stalls -` reads it")
        recordings = sorted(path.glob("*.hwt"))
        return [*found, *_blind(recordings)] if found else recordings
    if path.suffix != ".hwt":
        return [path]
    from headway.traces.family import files_beside

    return [path, *files_beside(path)]


def _wait(path: Path) -> None:
    """Wait for what the watcher or the collector of a program that has just ended still writes."""
    if path.suffix == ".hwt":
        wait_until_finished(path)
        return
    if path == _STDIN or path.is_fifo():
        return
    folder = path if path.is_dir() else path.parent
    if wait_until_told(folder, _SILENT_S):
        return
    console.say(f"waiting until the last stalls in {folder} are analysed")
    if not wait_until_told(folder):
        console.say(
            f"{folder}: the last stalls of a process that has ended are still being analysed, and are missing here"
        )


def _blind(recordings: list[Path]) -> Iterator[Path]:
    from headway.traces.reader import read

    for path in recordings:
        with contextlib.suppress(TraceError):  # it is being written, or is damaged
            if _blindness(read(path)):
                yield path


def _blindness(trace: "Trace") -> str:
    """Return why a trace does not show all stalls; "" if it does."""
    from headway.traces.analysis.intervals import recorded

    off = trace.process.free_threaded and not trace.process.gil_enabled
    if off and not len(recorded(trace).holds):
        return _NO_GIL
    if not trace.process.has_stacks:
        return f"a recording of Python {trace.process.python} has no stacks, so Headway tells only its long waits for the GIL"
    return ""


def _gap(log: Path) -> str:
    """Return why a log does not have all stalls; "" if it does."""
    killed = list(killed_watchers(log))
    for one in killed:
        if one.is_needed:
            return (
                f"process {one.pid} is watched no more: its watcher, begun at {one.began}, was killed; "
                "stalls after that are missing here until the process is restarted"
            )
    if killed:
        return f"a watcher, begun at {killed[-1].began}, was killed, or ended with its container; stalls after that may be missing here"
    if found := gap_in(log):
        return f"{found[1]} ({found[0].name} says so)"
    return ""


def _of_trace(path: Path, trace: "Trace", arguments: argparse.Namespace) -> list[dict[str, Any]]:
    from headway.traces.analysis.overwritten import with_late_threads
    from headway.traces.analysis.stall_model import Thresholds
    from headway.traces.analysis.stall_words import stall_json
    from headway.traces.analysis.stalls import find_stalls

    if trace.loss.damaged_bytes:
        console.say(f"{path}: {trace.loss.damaged_bytes:,} bytes are damaged; stalls in them are missing")
    preset = Thresholds()
    over_ns = arguments.over or preset.loop_ns
    thresholds = Thresholds(over_ns, over_ns, arguments.requests_over or preset.request_ns)
    trace = with_late_threads(trace)
    stalls = find_stalls(trace, thresholds)
    if stalls and trace.process.has_stacks and not trace.evidence.watched:
        console.say(
            f"{path}: a trace has no garbage collections, and their time counts as own code here, or as a call of C; "
            "`headway watch` tells them apart"
        )
    return [stall_json(trace, one) | {"recording": path.name} for one in stalls]


def _opened(path: Path) -> IO[str]:
    """Open a log. Raises OSError."""
    if path == _STDIN and sys.stdin is None:  # it was closed, and descriptor 0 may be any file by now
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    file = 0 if path == _STDIN else path
    return open(file, encoding="utf-8", errors="replace", closefd=file != 0)


def _of_log(path: Path, arguments: argparse.Namespace) -> tuple[list[dict[str, Any]], bool]:
    """Return a log's stalls, and whether it has some valid entry or is empty: else it does not show whether there were any."""
    from headway.traces.analysis.stall_sums import told_rows

    with _opened(path) as file:
        found, bad = told_rows(file)
    is_whole = bool(found) or not bad
    if not is_whole and not _LOG_NAME.fullmatch(path.name):
        raise TraceError(
            f"{path} is neither a log of stalls nor a trace", hint="name NAME.stalls.jsonl, its folder, or FILE.hwt"
        )
    least_s = {"request": (arguments.requests_over or 0) / 1e9}
    found = [row for row in found if row["length_s"] >= least_s.get(str(row.get("kind")), (arguments.over or 0) / 1e9)]
    if bad:
        console.say(f"{path}: left out, since not a valid entry: {bad} line{'s' * (bad != 1)}")
    return found, is_whole


def _read(path: Path, *, is_named: bool) -> "Trace | None":
    """Return a trace; None for an unreadable or empty one that was not named: its process may have died early."""
    from headway.traces.reader import read

    try:
        trace = read(path)
    except TraceError:
        if is_named:
            raise
        return None
    return trace if is_named or len(trace.events) else None


def _of_path(path: Path, arguments: argparse.Namespace, blind: dict[Path, str]) -> tuple[list[dict[str, Any]], int]:
    """Return the stalls of a file or a folder, and the number of its files that show whether there were any.

    Args:
        path: The file or the folder.
        arguments: The arguments of the command.
        blind: Gets the files that do not show it, each with the reason.

    Raises:
        TraceError: The file is of another kind, or cannot be read.
        OSError: The file cannot be opened.
    """
    rows: list[dict[str, Any]] = []
    told = 0
    _wait(path)
    logs = _logs(path)
    in_log = any(log.suffix != ".hwt" for log in logs)
    for log in logs:
        if log.suffix != ".hwt":
            found, is_whole = _of_log(log, arguments)
            why = _gap(log)
            if why or not is_whole:
                blind[log] = why
            told += bool(found) or log not in blind
            rows += found
            continue
        if (trace := _read(log, is_named=path.is_dir() or log == path)) is None:
            continue
        if why := _blindness(trace):
            blind[log] = why
        if why != _NO_GIL and not in_log:
            rows += _of_trace(log, trace, arguments)
            told += 1
    return rows, told


def _tell_bad(bad: dict[Path, HeadwayError], paths: Sequence[Path]) -> None:
    """Say which paths are left out, or raise the last error if there is no other path."""
    errors = list(bad.values())
    left = errors.pop() if bad and len(bad) == len(set(paths)) else None
    for error in errors:
        console.say(f"left out: {error.message}")
    if left is not None:
        raise left


def run(arguments: argparse.Namespace) -> int:
    """Read the stalls of all files, and print them or their sums."""
    from headway.traces.analysis.stall_sums import sum_up

    rows: list[dict[str, Any]] = []
    blind: dict[Path, str] = {}
    told = 0
    bad: dict[Path, HeadwayError] = {}
    for path in arguments.files:
        with _kept(bad, path):
            _check(path)
    for path in arguments.files:
        if path not in bad:
            with _kept(bad, path):
                found, number = _of_path(path, arguments, blind)
                rows += found
                told += number
    _tell_bad(bad, arguments.files)
    blind |= dict.fromkeys(bad, "")
    for path, why in blind.items():
        if why:  # else it is told already
            console.say(f"{path}: {why}")
    sums = sum_up(rows)
    if arguments.json:
        console.print_json(sums.to_json() | {"cannot_tell": list(map(str, blind))})
    elif blind and not told:
        console.print_plain("no file shows whether there were stalls")
    elif arguments.each:
        for row in sums.rows:
            console.print_plain(printable(f"{row['began']} {row.get('line', '')}"))
    else:
        from headway.report.stalls import render_stalls

        console.print_rendered(render_stalls(sums, every=arguments.all))
    return 0
