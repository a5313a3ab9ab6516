"""Analyses recordings of `headway watch`: `python -m headway.live.stalled FILE.partial [FILE.partial OUTPUT]...`.

The watcher starts it. Its observations come by stdin as JSON, a line for each recording, and are added to it. The recording
then gets the name FILE. A recording without stalls keeps its name, and the watcher removes it. A recording in memory, for
which the disk had no room, gets no name, and is gone after the analysis. Each stall gives a line on stderr and in the log.
Stalls that were reported already, because an earlier recording of the same ring showed them, are left out.
The results go to stdout as JSON, and those on further recordings to the descriptors that are named behind them.
"""

import contextlib
import fcntl
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from headway.agent.headway_agent.proc import queued_ns
from headway.errors import HeadwayError
from headway.live.said import print_line
from headway.live.stall_log import append, here, note_gap
from headway.live.told import Told
from headway.traces.analysis.overwritten import with_late_threads
from headway.traces.analysis.stall_model import Stall, StallKind, Thresholds
from headway.traces.analysis.stall_words import stall_json
from headway.traces.analysis.stalls import find_stalls
from headway.traces.analysis.told_parts import ToldParts, told_json
from headway.traces.model import Trace
from headway.traces.notes import append_notes, evidence_of
from headway.traces.reader import read

__all__ = ["main", "stalls_to_tell", "with_its_end", "with_its_program"]

_FEW = 3
_PATIENCE_S = 1.0
"""The time for which a line waits for the reader of stderr: the watcher waits for the end of this process."""
_LOG = ".stalls.jsonl"
_MOST_LOG_BYTES = 32 << 20


def main(words: Sequence[str]) -> int:
    """Analyse recordings; return the exit code.

    Args:
        words: The arguments of the process.
    """
    code, outputs = 0, [1, *map(int, words[2::2])]
    for partial, output, told in zip((words[0], *words[1::2]), outputs, sys.stdin, strict=True):
        try:
            # stdout is flushed and not closed; a test may have put another file in its place.
            with contextlib.nullcontext(sys.stdout) if output == 1 else open(output, "w") as file:
                _analyse(Path(partial), json.loads(told), file)
        except (HeadwayError, OSError) as error:  # the other recordings are none the worse for it
            print_line(f"{partial}: {error}", patience_s=_PATIENCE_S)
            code = 1
    return code


def _analyse(partial: Path, told: dict[str, Any], output: IO[str]) -> None:
    """Analyse a recording, and write what was found to a file."""
    path = partial.with_suffix("")
    in_memory = told["in_memory"] >= 0
    if in_memory:
        partial = Path(f"/proc/self/fd/{told['in_memory']}")
    file = os.open(partial, os.O_RDWR | os.O_CLOEXEC | (0 if in_memory else os.O_NOFOLLOW))
    try:
        append_notes(file, evidence_of([json.dumps(told["evidence"] | {"watched": True}).encode()])[0])
    finally:
        os.close(file)
    _turn_over(Path(told["log"]))
    trace = with_its_program(with_its_end(read(partial), told["gone_ns"]), Path(told["log"]))
    trace, known = with_late_threads(trace), Told(told["told"], told["parts"])
    found = []
    rows = []
    place = here()
    for stall in stalls_to_tell(trace, told, known):
        rows.append(stall_json(trace, stall) | {"recording": "" if in_memory else path.name} | place)
        if not stall.goes_on:
            parts = [(part.cause.value, part.time_ns / 1e9) for part in stall.parts]
            found.append((stall.kind.value, stall.cause.value, parts))
    if (rows or told["asked"]) and not in_memory:
        partial.rename(path)
    unnoted = _log(Path(told["log"]), rows, quiet=told["quiet"]) if rows else ""
    parts_told = {key: known.parts[key] for key in known.news if key in known.parts}
    # Its own cost, which counts towards the service's quota.
    taken = {"cpu_ns": time.process_time_ns(), "waited_ns": queued_ns()}
    json.dump({"stalls": found, "told": known.news, "parts": parts_told, "unnoted": unnoted, **taken}, output)
    output.flush()
    if not told["quiet"]:
        for line in _lines(rows):
            if not print_line(f"{line} [{'no recording' if in_memory else path.name}]", patience_s=_PATIENCE_S):
                break  # nobody reads; the log has all stalls
    if told["asked"] and not told["quiet"] and not in_memory:
        print_line(f"the last {(trace.end_ns - trace.start_ns) / 1e9:.1f} s are in {path.name}", patience_s=_PATIENCE_S)


def with_its_end(trace: Trace, gone_ns: int) -> Trace:
    """Return the trace up to the end of its process, which was seen at `gone_ns`, as one of a process that goes on.

    A stall may have lasted until that end. A process that was killed has recorded none.
    """
    if not gone_ns:
        return trace
    end_ns = trace.end_ns if trace.process.ended else max(trace.end_ns, gone_ns)
    return replace(trace, end_ns=end_ns, process=replace(trace.process, ended=False))


def with_its_program(trace: Trace, log: Path) -> Trace:
    """Return the trace with the name of what is watched, such as `uvicorn`, where multiprocessing has started its process.

    The command line of such a process names multiprocessing only. The log, as each recording, has the name at its begin.
    """
    if not trace.process.program.startswith("multiprocessing."):
        return trace
    return replace(trace, process=replace(trace.process, program=log.name.removesuffix(_LOG)))


def stalls_to_tell(trace: Trace, told: dict[str, Any], known: Told) -> Iterator[Stall]:
    """Yield the stalls that are to be reported, and add them to those that are known.

    Args:
        trace: The recording, up to the end of its process if that has ended.
        told: What the watcher has said of the recording.
        known: The stalls that were reported before.
    """
    limits = told["limits"]
    thresholds = Thresholds(limits["loop_ns"], limits["wait_ns"], limits["request_ns"])
    parts = {key: ToldParts.of(trace, one) for key, one in known.unended_parts.items()}
    for each in find_stalls(trace, thresholds, since_ns=told["since_ns"], begun=known.unended, told=parts):
        serial = trace.threads[each.thread].serial
        cut_off = told["gone_ns"] > 0 and each.goes_on
        if cut_off and told["finished"] and not known.is_known(serial, each.since_ns):
            continue  # it is none: the last lap of a process that ends in order has no end
        stall = replace(each, goes_on=False, cut_off=True) if cut_off else each
        if known.add(serial, stall.since_ns, stall.length_ns, goes_on=stall.goes_on):
            if stall.goes_on and stall.kind is not StallKind.WAIT:
                known.keep(serial, stall.since_ns, told_json(trace, stall))
            yield stall  # else the stall was reported, and nothing new is known of it


def _lines(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield the lines for stderr: one for each stall; of many waits for the GIL, only the longest one."""
    waits = [row for row in rows if row["kind"] == StallKind.WAIT.value]
    longest = max(waits, key=lambda row: float(row["length_s"]), default=None)
    for row in rows:
        if row["kind"] != StallKind.WAIT.value or len(waits) <= _FEW:
            yield str(row["line"])
        elif row is longest:
            yield f"{row['line']}; {len(waits) - 1} further waits for the GIL were too long (see the log)"


def _log(log: Path, rows: Sequence[dict[str, Any]], *, quiet: bool) -> str:
    """Write a line for each stall to the log; if that is not possible, note that they are missing there.

    Returns:
        Why they are missing, if that cannot be noted now either; else "".
    """
    try:
        append(log, rows)
    except OSError as error:
        why = f"the log could not be written: {error.strerror or error}"
        is_noted = note_gap(log)
        if not quiet:
            print_line(f"stalls are missing from {log}: {error.strerror or error}", patience_s=_PATIENCE_S)
        return "" if is_noted else why
    return ""


def _turn_over(log: Path) -> None:
    """Rename a log that has become long, so that a new one begins; the renamed log replaces the one before it."""
    with contextlib.suppress(OSError):
        file = os.open(log, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            # Several watchers may have one log, and a second renaming would replace the long log by the one just begun.
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            found = os.fstat(file)
            if found.st_size >= _MOST_LOG_BYTES and os.path.samestat(found, log.stat()):
                log.replace(log.with_name(f"{log.name.removesuffix(_LOG)}.old.stalls.jsonl"))
        finally:
            os.close(file)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
