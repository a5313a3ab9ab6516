"""Formats figures as findings and reports show them, and names threads, one by one and by role."""

import re
from collections import Counter
from collections.abc import Collection, Sequence

from headway.printable import printable
from headway.traces.frames import OURS
from headway.traces.model import Frame, Thread

__all__ = [
    "FITS",
    "POOL",
    "duration",
    "file_line",
    "is_own",
    "labels",
    "listed",
    "names_or_roles",
    "number",
    "place",
    "role",
    "roles",
    "share",
    "share_of_life",
    "short_path",
    "switch_interval",
]

_OWN = "<headway>/"
"""The beginning of the names that the files of the agent have in a program (agent/startup/bring.py)."""
_OWN_STARTS = ("/headway/agent/startup.zip/", "<headway>/startup/")
"""Parts of the paths of the files with which Headway starts in an interpreter (agent/startup)."""
POOL = 8
"""More threads than this whose names differ only in numbers are one role: a pool."""
FITS = 11
"""More rows than this do not fit a table. Then fewer threads, two or more, are a pool, too."""

_STEPS = ((1_000, 1, "ns"), (1_000_000, 1_000, "us"), (1_000_000_000, 1_000_000, "ms"))
_PATH_PARTS = 3
_LONGEST_INTERVAL_NS = ((1 << 32) - 1) * 1_000
"""A recorded switch interval has 32 bits of microseconds; longer ones are recorded as this one."""
_ALL = 0.99
"""A share of a trace: a GIL ends with the program, which may be a moment before the end of the trace."""


def duration(time_ns: float) -> str:
    """Return a time in a fitting unit, with three digits: `12.3 ms`, `1,230 s`."""
    for limit, unit_ns, unit in _STEPS:
        # A value that rounds to 1,000 us is shown as 1 ms.
        if float(f"{abs(time_ns) / unit_ns:.3g}") * unit_ns < limit:
            return f"{time_ns / unit_ns:.3g} {unit}"
    seconds = time_ns / 1_000_000_000
    return f"{seconds:.3g} s" if abs(seconds) < 999.5 else f"{seconds:,.0f} s"


def switch_interval(interval_ns: int) -> str:
    """Return a switch interval as a time; of one that is longer than a recording can tell, that it is."""
    return duration(interval_ns) if interval_ns < _LONGEST_INTERVAL_NS else "more than 4,294 s"


def share(part: float, whole: float) -> str:
    """Return a part of a whole in per cent, as `23 %` or `0.4 %`; `-` if the whole is 0."""
    if not whole:
        return "-"
    percent = 100 * part / whole
    return "0 %" if percent == 0 else "< 0.1 %" if percent < 0.1 else f"{percent:.{1 if percent < 9.95 else 0}f} %"


def share_of_life(part_ns: float, lived_ns: float, whole_ns: float) -> str:
    """Return a part of a GIL's life: `50 % of the time`, or `50 % of the 40 ms for which it existed`.

    Shares of threads are of the whole time, so a GIL that existed for a part of it is told with its life.
    """
    told = share(part_ns, lived_ns)
    is_same = lived_ns >= _ALL * whole_ns or told == share(part_ns, whole_ns)
    return f"{told} of the time" if is_same else f"{told} of the {duration(lived_ns)} for which it existed"


def number(count: int, one: str, many: str = "") -> str:
    """Return a count with its noun: `1 wait`, `1,204 waits`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def listed(names: Sequence[str], most: int = 3) -> str:
    """Return names as a list in a sentence: `a, b, c and 4 more`."""
    if len(names) > most + 1:
        return f"{', '.join(names[:most])} and {len(names) - most:,} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def labels(threads: Sequence[Thread]) -> tuple[str, ...]:
    """Return a label for each thread: its name, with the native id, then the serial, if others have the same name.

    The labels may be printed. Names are compared in the form in which they are printed.
    """
    shown = [printable(one.name) for one in threads]
    names = Counter(shown)
    ids = Counter((name, one.tid) for name, one in zip(shown, threads, strict=True))

    def label(name: str, one: Thread) -> str:
        if names[name] == 1 and name:
            return name
        told = f"{name} [{one.tid}]" if name else f"thread {one.tid}"
        return told if ids[name, one.tid] == 1 else f"{told} #{one.serial}"

    return tuple(map(label, shown, threads))


def names_or_roles(labels: list[str]) -> list[str]:
    """Return the labels of threads, or, of more than `POOL` threads, those of their roles."""
    return labels if len(labels) <= POOL else list(dict.fromkeys(map(role, labels)))


def role(name: str) -> str:
    """Return a name with each number in it replaced by `*`."""
    return re.sub(r"\d+", "*", name)


def roles(threads: Sequence[Thread], labels: Sequence[str], shown: Collection[int]) -> tuple[str, ...]:
    """Return the name by which to group each thread: its label, or for a pool the name with `*` for numbers.

    Only the threads at the indices `shown` have rows, and so decide which threads are a pool.
    """
    names = [role(printable(one.name)) for one in threads]
    members = Counter(names[one] for one in shown)

    def grouped(most: int) -> tuple[str, ...]:
        return tuple(name if members[name] > most else label for name, label in zip(names, labels, strict=True))

    found = grouped(POOL)
    return found if len({found[one] for one in shown}) <= FITS else grouped(1)


def place(frame: Frame | None) -> str:
    """Return a code location with the last folders of its path: `app/views.py:12 show`; `?` if it is unknown.

    The text may be printed. The frame that stands for frames that are not recorded has no file, and is described in
    words, and so is the one that stands for Headway's own work.
    """
    if frame == OURS:
        return "Headway's own work in the process"
    if frame is None or not frame.filename:
        return "?" if frame is None else printable(frame.function) or "?"
    return f"{file_line(frame)} {printable(frame.function)}"


def file_line(frame: Frame) -> str:
    """Return a location without its function: `app/views.py:12`; `?` if its file is unknown. The text may be printed."""
    return printable(f"{short_path(frame.filename)}:{frame.line or '?'}") if frame.filename else "?"


def is_own(path: str) -> bool:
    """Tell whether a file is Headway's own, which brings Headway into the program; the program's lines are elsewhere."""
    return path.startswith(_OWN) or any(part in path for part in _OWN_STARTS)


def short_path(path: str) -> str:
    """Return the last folders and the name of a path, after `.../` if there are more; the path may have a line behind.

    A line of Headway's own start-up, as in each new sub-interpreter, is no line of the program, and is named so.
    """
    if any(part in path for part in _OWN_STARTS):
        return f"Headway's start-up, {path.rpartition('/')[2]}"
    parts = path.rsplit("/", _PATH_PARTS)
    return "/".join(["...", *parts[1:]]) if len(parts) > _PATH_PARTS else path
