"""Valid traces that no process recorded: `made_trace` for any number of events, `traces` for small odd ones.

Both keep the invariants of a real recording: one holder at a time per GIL, alternating acquires and releases, a wait
that ends in an acquire, in the thread's end or in the trace's end, and the order that `Trace.events` promises.
"""

import numpy as np
from hypothesis import strategies as st

from headway.traces import mending
from headway.traces.model import EVENT_DTYPE, Flag, Frame, Gil, Kind, Loss, Park, Process, Thread, Trace

START_NS = 1_000_000_000_000
MS = 1_000_000
US = 1_000

UNKNOWN_FRAME = Frame("", 0, "?")


def in_order(trace: Trace) -> np.ndarray:
    """Return a trace's events in that one of their valid orders that the reader gives."""
    by_thread = trace.events[np.argsort(trace.events["thread"], kind="stable")]
    return by_thread[mending.by_time(by_thread)]


def made_process(**changes) -> Process:
    """Return a process that was traced to its end, with the given changes."""
    values = {
        "pid": 4242,
        "parent_pid": 4000,
        "family": 0x1234_5678_9ABC_DEF0,
        "python": "3.13.0",
        "executable": "/usr/bin/python3.13",
        "command": ("python3.13", "app.py", "--fast"),
        "program": "app.py",
        "free_threaded": False,
        "gil_enabled": True,
        "has_stacks": True,
        "start_realtime_ns": 1_700_000_000 * 10**9,
        "interval_us": 5000,
        "ended": True,
    }
    return Process(**(values | changes))


def made_stacks() -> tuple[np.ndarray, np.ndarray, tuple[Frame, ...]]:
    """Return `stack_parent`, `stack_frame` and `frames` of a small program: a main loop, handlers, leaves."""
    frames = [UNKNOWN_FRAME, Frame("app.py", 40, "main", 36), Frame("threading.py", 1012, "Thread._bootstrap", 1002)]
    frames += [Frame("app.py", 10 + i, f"Worker.handle_{i}", 9 + i) for i in range(4)]
    frames += [Frame("lib/net.py", 100 + 7 * i, f"read_{i}", 98 + 7 * i) for i in range(3)]
    frames += [Frame("lib/maths.py", 12, "squares", 10), Frame("lib/maths.py", 14, "squares", 10)]
    parents = [0, 0, 0]
    innermost = [0, 1, 2]
    for outer in (1, 2):
        for handler in range(3, 7):
            parents.append(outer)
            innermost.append(handler)
            middle = len(parents) - 1
            parents += [middle] * 5
            innermost += range(7, 12)
    return np.array(parents, dtype=np.int64), np.array(innermost, dtype=np.int64), tuple(frames)


def _holds(generator, count, of_gil, start_ns, cpu_bound, windows):
    """Return (thread, acquire, release, forced, contended) of `count` holds of one GIL, one after the other."""
    thread = of_gil[generator.integers(0, len(of_gil), count)]
    position = np.arange(count) / count
    low, high = windows[thread, 0], windows[thread, 1]
    thread = np.where((position >= low) & (position < high), thread, of_gil[0])
    thread[0] = of_gil[0]

    cpu = cpu_bound[thread]
    hold = np.where(cpu, 5 * MS + generator.exponential(60 * US, count), 1 * US + generator.exponential(40 * US, count))
    contended = generator.random(count) < 0.7
    contended[0] = False
    gap = np.where(
        contended, 2 * US + generator.exponential(6 * US, count), generator.exponential(300 * US, count) + 10
    )
    hold, gap = hold.astype(np.int64) + 1, gap.astype(np.int64) + 1
    gap[0] = 0
    acquire = start_ns + np.cumsum(gap) + np.concatenate([[0], np.cumsum(hold)[:-1]])
    release = acquire + hold
    # After a forced release, another thread that waited acquires the GIL.
    other = np.append((thread[1:] != thread[:-1]) & contended[1:], False)
    return thread, acquire, release, cpu & other, contended


def _columns(time, kind, thread, gil, value=0, flags=0):
    events = np.zeros(len(time), dtype=EVENT_DTYPE)
    events["time_ns"], events["kind"], events["thread"], events["gil"] = time, kind, thread, gil
    events["value"], events["flags"] = value, flags
    return events


def made_trace(
    *,
    threads: int = 4,
    events: int = 1000,
    seed: int = 0,
    gils: int = 1,
    cpu_share: float = 0.5,
    stacks: bool = True,
    process: Process | None = None,
) -> Trace:
    """Return a trace of exactly `events` events; the same arguments give the same trace.

    Threads take the GILs in turn, so that thread i uses GIL i % gils, as workers in sub-interpreters do. The first
    `cpu_share` of each GIL's threads hold it for some 5 ms until they are forced, after a REQUEST. The others hold it
    for microseconds and release it by themselves. Seven of ten holds follow a wait. The last third of the threads start
    late and exit early. The trace ends at its last event, with a hold, and often waits, that are open.
    """
    assert threads >= gils >= 1
    generator = np.random.default_rng(seed)
    windows = np.tile([0.0, 2.0], (threads, 1))
    for late in range(max(gils, threads - threads // 3), threads):
        windows[late] = sorted(generator.random(2) * 0.8)
    cpu_bound = np.arange(threads) // gils < np.ceil(threads / gils * cpu_share)
    stack_parent, stack_frame, frames = made_stacks()
    if not stacks:
        stack_parent, stack_frame, frames = stack_parent[:1], stack_frame[:1], frames[:1]

    parts = []
    for gil in range(gils):
        of_gil = np.arange(gil, threads, gils)
        # A hold has two events at least. Each GIL makes enough holds for all events, so that none ends before the
        # others.
        start_ns = START_NS + gil * 37 * US
        thread, acquire, release, forced, contended = _holds(
            generator, events // (2 * gils) + 2, of_gil, start_ns, cpu_bound, windows
        )
        count = len(thread)
        before = np.full(count, start_ns)  # the thread's previous release
        for one in of_gil:
            mine = np.flatnonzero(thread == one)
            before[mine[1:]] = release[mine[:-1]]
        room = acquire - before
        waited = contended & (room > 2)
        wait = acquire - 1 - (generator.random(count) * np.minimum(room - 2, 40 * MS)).astype(np.int64)
        wait = np.where(waited, np.maximum(np.minimum(wait, acquire - 1), before + 1), acquire)
        forced[:-1] &= waited[1:] & (wait[1:] < release[:-1])  # forced by a thread that was already waiting
        asked = np.flatnonzero(forced)
        request = np.maximum(np.maximum(release[asked] - 20 * US, wait[asked + 1]), acquire[asked])
        where = generator.integers(0, len(stack_parent), 2 * count)
        flags = np.where(forced, Flag.FORCED, 0)
        assumed = np.zeros(count, dtype=np.int64)
        assumed[0] = Flag.ASSUMED if gil == 0 else 0
        parts += [
            _columns(release, Kind.RELEASE, thread, gil, where[:count], flags),
            _columns(wait[waited], Kind.WAIT, thread[waited], gil, where[count:][waited]),
            _columns(request, Kind.REQUEST, thread[asked + 1], gil),
            _columns(acquire, Kind.ACQUIRE, thread, gil, 0, assumed),
        ]
    whole = np.concatenate(parts)
    del parts
    whole = whole[np.argsort(whole["time_ns"], kind="stable")]

    # Threads whose window is over exit after their last event; each such EXIT takes the place of an event at the end.
    whole = whole[:events]
    leaving = [one for one in range(gils, threads) if windows[one, 1] < 1.0]
    exits = []
    for one in leaving:
        mine = np.flatnonzero(whole["thread"] == one)
        if len(mine) and mine[-1] < len(whole) - len(leaving) and whole["kind"][mine[-1]] in {Kind.RELEASE, Kind.WAIT}:
            exits.append((int(whole["time_ns"][mine[-1]]) + 1, one, one % gils))
    whole = whole[: len(whole) - len(exits)]
    if exits:
        extra = _columns(*(np.array(column) for column in ([e[0] for e in exits], Kind.EXIT)), 0, 0)  # type: ignore[call-arg]
        extra["thread"], extra["gil"] = [e[1] for e in exits], [e[2] for e in exits]
        whole = np.concatenate([whole, extra])
        whole = whole[np.argsort(whole["time_ns"], kind="stable")]

    end_ns = int(whole["time_ns"][-1]) if len(whole) else START_NS
    seen, positions = np.unique(whole["thread"], return_index=True)
    first = dict(zip(seen.tolist(), whole["time_ns"][positions].tolist(), strict=True))
    ends = {one: int(at) for at, one, _ in exits}
    return Trace(
        process=process or made_process(has_stacks=stacks),
        start_ns=START_NS,
        end_ns=end_ns,
        events=whole,
        threads=tuple(
            Thread(
                serial=i + 1,
                tid=5000 + i,
                name="MainThread" if i == 0 else f"{'cpu' if cpu_bound[i] else 'io'}-{i}",
                start_ns=first.get(i, end_ns),
                end_ns=ends.get(i),  # type: ignore[call-overload]
            )
            for i in range(threads)
        ),
        gils=tuple(Gil(i, i == 0, 0x7F00_0000_1000 + 0x100 * i, START_NS, None) for i in range(gils)),
        stack_parent=stack_parent,
        stack_frame=stack_frame,
        frames=frames,
    )


def small(rows, *, threads=2, gils=1, ended=True, end=100, **changes):
    """Return a trace of rows (time_ns from START_NS, kind, thread[, gil[, value[, flags]]]); valid if the rows are."""
    events = np.zeros(len(rows), dtype=EVENT_DTYPE)
    for event, row in zip(events, rows, strict=True):
        time, kind, thread, gil, value, flags = (*row, 0, 0, 0)[:6]
        event["time_ns"], event["kind"], event["thread"] = START_NS + time, kind, thread
        event["gil"], event["value"], event["flags"] = gil, value, flags
    ends = {row[2]: START_NS + row[0] for row in rows if row[1] == Kind.EXIT}
    values = {
        "process": made_process(ended=ended, has_stacks=False),
        "start_ns": START_NS,
        "end_ns": START_NS + end,
        "events": events,
        "threads": tuple(Thread(i + 1, 70 + i, f"worker-{i}", START_NS, ends.get(i)) for i in range(threads)),
        "gils": tuple(Gil(i, i == 0, 0x1000 * (i + 1), START_NS, None) for i in range(gils)),
        "stack_parent": np.zeros(1, dtype=np.int64),
        "stack_frame": np.zeros(1, dtype=np.int64),
        "frames": (UNKNOWN_FRAME,),
    }
    return Trace(**(values | changes))


_NAMES = st.text("abcXYZ_019-é名😀", min_size=1, max_size=8)
_STEPS_NS = st.sampled_from([0, 0, 0, 1, 1, 2, 50 * US, 5 * MS, 6 * MS])


@st.composite
def _stacks(draw):
    """Draw stacks of any shape, of distinct frames; the lines of some frames are unknown."""
    frames = [UNKNOWN_FRAME]
    for number in range(draw(st.integers(0, 4))):
        first_line = draw(st.integers(1, 3000))
        line = draw(st.one_of(st.just(0), st.integers(first_line, first_line + 300)))
        frames.append(Frame(f"{draw(_NAMES)}{number}.py", line, draw(_NAMES), first_line))
    parents, innermost = [0], [0]
    if len(frames) > 1:
        for index in range(1, draw(st.integers(1, 6))):
            parents.append(draw(st.integers(0, index - 1)))
            innermost.append(draw(st.integers(1, len(frames) - 1)))
    return np.array(parents, dtype=np.int64), np.array(innermost, dtype=np.int64), tuple(frames)


@st.composite
def traces(draw, *, max_events: int = 40, parks: bool = True) -> Trace:
    """Draw a small valid trace, with events in any possible order, equal times, open ends, or no events at all."""
    gils = draw(st.integers(1, 3))
    threads = draw(st.integers(1, 5))
    stack_parent, stack_frame, frames = draw(_stacks())
    types = ("", *draw(st.lists(_NAMES, max_size=2, unique=True)))
    some_stack = st.integers(0, len(stack_parent) - 1)

    now = START_NS + draw(_STEPS_NS)
    holder = dict.fromkeys(range(gils))
    state = ["idle"] * threads  # idle, waiting, holding, parked, over
    gil_of = [0] * threads
    touched = [False] * threads
    starts, ends = [None] * threads, [None] * threads
    rows = []

    def record(kind, thread, gil, value=0, flags=0):
        rows.append((now, value, thread, kind, gil, flags))
        starts[thread] = now if starts[thread] is None else starts[thread]
        touched[thread] = True

    for _ in range(draw(st.integers(0, max_events))):
        alive = [thread for thread in range(threads) if state[thread] != "over"]
        if not alive:
            break
        now += draw(_STEPS_NS)
        thread = draw(st.sampled_from(alive))
        if state[thread] == "idle":
            gil = draw(st.integers(0, gils - 1))
            can = ["wait", "exit", "interval"] + (["acquire"] * 3 if holder[gil] is None else []) + ["park"] * parks
            did = draw(st.sampled_from(can))
            gil_of[thread] = gil
            if did == "wait":
                record(Kind.WAIT, thread, gil, draw(some_stack))
                state[thread] = "waiting"
            elif did == "acquire":
                assumed = not touched[thread] and draw(st.booleans())
                record(Kind.ACQUIRE, thread, gil, 0, Flag.ASSUMED if assumed else 0)
                state[thread], holder[gil] = "holding", thread
            elif did == "park":
                record(Kind.PARK, thread, gil, draw(some_stack), draw(st.sampled_from(Park)) << 8)
                state[thread] = "parked"
            elif did == "exit":
                record(Kind.EXIT, thread, gil)
                state[thread], ends[thread] = "over", now
            else:
                record(Kind.INTERVAL, thread, gil, draw(st.integers(1, 10_000)))
        elif state[thread] == "waiting":
            gil = gil_of[thread]
            did = draw(st.sampled_from(["acquire"] * 4 + ["request", "exit"]))
            if did == "acquire" and holder[gil] is None:
                record(Kind.ACQUIRE, thread, gil)
                state[thread], holder[gil] = "holding", thread
            elif did == "request" and holder[gil] is not None:
                record(Kind.REQUEST, thread, gil)
            elif did == "exit":
                record(Kind.EXIT, thread, gil)
                state[thread], ends[thread] = "over", now
        elif state[thread] == "holding":
            gil = gil_of[thread]
            record(Kind.RELEASE, thread, gil, draw(some_stack), draw(st.sampled_from([0, Flag.FORCED])))
            state[thread], holder[gil] = "idle", None
        else:
            park = draw(st.sampled_from(Park)) << 8
            record(Kind.UNPARK, thread, gil_of[thread], draw(st.integers(0, len(types) - 1)), park)
            state[thread] = "idle"

    ended = draw(st.booleans())
    last_ns = rows[-1][0] if rows else START_NS
    end_ns = last_ns + draw(_STEPS_NS) if ended else last_ns
    return Trace(
        process=made_process(
            ended=ended,
            program=draw(_NAMES),
            has_stacks=len(stack_parent) > 1,
            pid=draw(st.integers(1, 2**22)),
            python=draw(st.sampled_from(["3.11.7", "3.13.0", "3.15.0a2"])),
        ),
        start_ns=START_NS,
        end_ns=end_ns,
        events=np.array(rows, dtype=EVENT_DTYPE),
        threads=tuple(
            Thread(serial, 900 + serial, draw(_NAMES), START_NS if start is None else start, end)
            for serial, (start, end) in enumerate(zip(starts, ends, strict=True), 1)
        ),
        gils=tuple(Gil(i, i == 0, 4096 + i, START_NS, None) for i in range(gils)),
        stack_parent=stack_parent,
        stack_frame=stack_frame,
        frames=frames,
        types=types,
        loss=draw(st.builds(Loss, lost_stacks=st.integers(0, 3))),
    )
