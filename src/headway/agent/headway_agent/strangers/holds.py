"""Measures how a function holds the GIL: exactly over whole calls; by line and by C call in calls under observation.

If calls change their arguments, each call gets new ones, which are made while nothing is measured.

The recorder (native/trace) counts how long this thread holds the GIL. Over calls without observation, that count gives
the exact share of their time. Then the function runs under `sys.setprofile` and `sys.settrace`. At each event, the time
and the hold since the event before are booked to the place that ran: a C call (`sys.setprofile` reports those that are
made by name), or a line of Python, which includes what the line does by operators. Observing a line or a short C call
costs more than it takes, so the places' shares come from samples of the calls without observation (see `samples`). The
observed times tell how a place holds the GIL; only where there are no samples they tell the shares, too.

A C call that calls Python back, as `sum` of a generator, is at work again when that Python returns. Another thread may
run between two parts of such a call, so its longest hold is that of one part. A thread that waits for a core holds the
GIL, too, but neither its function nor its line is the cause: the system's account of that wait is subtracted.
"""

import functools
import itertools
import os
import sys
import time
import types

from .. import proc
from ..library import UnfitError, load
from ..recorder import Recorder
from . import calls
from .renewing import Anew, source
from .samples import Sampler, by_place, codes_at
from .spread import order
from .target import find, inputs_of

__all__ = ["look"]

_EXACT_S = 0.8
_MOST_EXACT = 2
"""The whole measurement may take this many times as long, because new arguments may take longer to make than calls."""
_LOOKED_AT_S = 2.0
_ENOUGH_S, _ENOUGH_CALLS = 0.5, 50
"""From this time on the profile has seen enough after so many calls, two with each input."""
_MOST_LOOKED_AT = 3
"""The profile may take this many times as long if its thread waits for a core: it would reach little of a long call."""
_MOST_PLACES = 40
_ALL = 0.9
"""A line that holds the GIL for this share of its time lets go of it only because of the profile."""
_MOST_BATCH = 256
"""The most calls for which new arguments exist at a time."""
_BATCH_BYTES = 16 << 20
"""The same in bytes of their pickles, beyond the first call."""
_NOTED_NS = 200_000
"""From this length on, a part of a place's time may have had a wait for a core in it: a shorter one is no reason to ask."""
_CALM = 0.05
"""Up to this share of it, a wait for a core changes little in a part of a place's time."""
_RARE = 50
_FEW = 3
"""A hold that fewer than one call in `_RARE` has, or that is one of `_FEW`, is the machine's, as is a hypervisor's pause.

An input that holds longer than the others does so each time, so fewer holds are left out than each input has calls.
"""
_STALE_NS = 1_000_000
"""The thread's waits for a core are asked for this often, beyond long holds; asking takes some microseconds."""
_OURS = os.path.dirname(os.path.abspath(__file__))


def look(job, talk):
    """Answer the question "holds" of `examine`."""
    talk.begin("holds")
    try:
        library, recorder = load(job["library"]), Recorder(job["library"])
        recorder.start("", None, 0)
    except UnfitError as error:
        talk.give("holds", error=str(error))
        return
    function = find(job["target"])
    given = inputs_of(job["target"], function)
    task, arguments = calls.task_of(function, job["kind"], given)
    arguments = _Arguments(
        arguments, source(job["target"], function, given) if job.get("fresh") else None, task, function
    )
    task(*arguments.at(0))
    task(*arguments.at(0))
    # Threads that only the imports, the inputs or the first calls needed are none of the function.
    sampler = Sampler()
    started, others = _thread_starts(), library.others()
    exact = _exactly(recorder, task, arguments)
    counts = sampler.end()
    if arguments.are_made:
        # The samples have the user's function of inputs in them, too.
        counts = {}
    # Python hears of no thread that a library starts.
    if started or others != library.others():
        talk.give("holds", error="it runs threads of its own, whose holds are not told apart from its waiting")
        return
    looker = _Looker(recorder, time.monotonic() + job.get("looked_at_s", _LOOKED_AT_S), _place_of(function))
    whole = looker.run(task, arguments)
    # The profile may have ended before some functions were called.
    if not whole:
        looker.codes.update(codes_at(counts))
    shares, count = by_place(counts, looker.codes, looker.calls_at, looker.own)
    places, sums = looker.places(shares if count else None, whole=whole)
    talk.give("holds", places=places, sums=sums, whole=whole, looked_at=looker.calls, samples=count, **exact)


def _thread_starts():
    """Return a list that gets an element for each Python thread that is started from now on."""
    started = []

    def heard(event, _args):
        if event in ("_thread.start_new_thread", "_thread.start_joinable_thread"):
            started.append(event)

    if hasattr(sys, "addaudithook"):
        sys.addaudithook(heard)
    return started


class _Arguments:
    """The arguments of each call: those of the inputs, or new ones from a source (see `renewing`).

    Any calls from the first one on have inputs that are spread over all: there may be no time for each of them.
    """

    def __init__(self, arguments, source, task, function):
        self._source, self._task, self._function = source, task, function
        self.count = len(arguments) if source is None else source.count
        self._order = order(self.count)
        self._arguments = [arguments[place] for place in self._order] if source is None else []
        self.are_made = isinstance(source, Anew)

    def at(self, place):
        """Return the arguments of a call by its place in a row of calls."""
        if self._source is None:
            return self._arguments[place % self.count]
        return self._source.arguments(self._task, self._function, self._order[place % self.count])

    def batches(self):
        """Yield lists of arguments, endlessly; lists of new ones are short, because all of a list exist at a time."""
        if self._source is None:
            while True:
                yield self._arguments
        most = max(1, min(_MOST_BATCH, _BATCH_BYTES // self._source.most_bytes))
        for place in itertools.count(step=most):
            yield [self.at(place + one) for one in range(most)]


def _exactly(recorder, task, arguments):
    recorder.times()
    recorder.longest()
    wall_ns = busy_ns = held_ns = queued_ns = count = 0
    slept, preempted = proc.switches()
    until_ns = time.perf_counter_ns() + _MOST_EXACT * _EXACT_S * 1e9
    for batch in arguments.batches():
        held_before, queued_before_ns = recorder.times()[0], proc.queued_ns()
        begun_ns, cpu_ns, before = time.perf_counter_ns(), time.process_time_ns(), count
        for args in batch:
            if count > before and wall_ns + time.perf_counter_ns() - begun_ns >= _EXACT_S * 1e9:
                break
            task(*args)
            count += 1
        wall_ns += time.perf_counter_ns() - begun_ns
        busy_ns += time.process_time_ns() - cpu_ns
        held_ns += recorder.times()[0] - held_before
        queued_ns += proc.queued_ns() - queued_before_ns
        if wall_ns >= _EXACT_S * 1e9 or time.perf_counter_ns() > until_ns:
            break
    slept, preempted = (after - before for after, before in zip(proc.switches(), (slept, preempted)))
    return {
        "calls": count,
        "wall_s": wall_ns / 1e9 / count,
        "held_s": min(held_ns, wall_ns) / 1e9 / count,
        "cpu_s": busy_ns / 1e9 / count,
        "queued_s": min(queued_ns, wall_ns) / 1e9 / count,
        "preempted": preempted / max(1, preempted + slept),
    }


class _Booked:
    """The account of one place: its calls, its time, and how it held the GIL."""

    def __init__(self):
        self.calls = 0
        self.own_ns = 0  # without waits for a core
        self.short_ns, self.long_ns = 0, []  # the longest of the short holds, and all long ones
        # [with, without waits for a core] of the parts of its time
        self._took_ns, self._kept_ns = [0, 0], [0, 0]

    def add(self, took_ns, kept_ns, calm):
        """Add a part of its time, and for how long the GIL was held in it."""
        self._took_ns[calm] += took_ns
        self._kept_ns[calm] += kept_ns

    def held(self):
        """Return the share of its time with the GIL held.

        The thread may lose its core while it holds the GIL or while it does not, so parts without that tell more. They
        are believed if they are most of the place's time: a call may hold the GIL when it is short, and not when it is
        long, and a short one seldom loses its core.
        """
        calm_ns = self._took_ns[True]
        if 2 * calm_ns >= self.own_ns > 0:
            return min(1.0, self._kept_ns[True] / calm_ns)
        return min(1.0, sum(self._kept_ns) / max(1, sum(self._took_ns)))


class _Looker:
    """The profile of one thread: books wall time and holds to places."""

    def __init__(self, recorder, until_s, own=None):
        """`own` is the place of the function itself, if that is in C: its time begins and ends in our frames."""
        self._recorder, self._until_s, self.own = recorder, until_s, own
        self._enough_s = min(until_s, time.monotonic() + _ENOUGH_S)
        self._latest_s = until_s + (_MOST_LOOKED_AT - 1) * max(0.0, until_s - time.monotonic())
        self._booked = {}  # by place
        # (the place before, the C call's place, the frame that made the call), the innermost call last
        self._stack, self._origins = [], {}
        self._at = None
        self._is_over = False
        self._last = (0, 0)
        self._queued_ns, self._queued_at_ns = proc.queued_ns(), 0
        self._rare = 0
        self.calls = 0
        self.codes, self.calls_at = {}, {}  # the arguments of `by_place`

    def run(self, task, arguments):
        """Observe calls until the time is up; return whether one whole call was observed."""
        enough = max(_ENOUGH_CALLS, 2 * arguments.count)
        for place in range(1000):
            args = arguments.at(place)
            self._stack, self._at = [], self.own
            if self.own is not None:
                self._booked.setdefault(self.own, _Booked()).calls += 1
            self._resume()
            sys.settrace(self._trace)
            sys.setprofile(self._profile)
            try:
                task(*args)
            finally:
                sys.setprofile(None)
                sys.settrace(None)
            if self._is_over:
                break
            self.calls += 1
            if time.monotonic() > (self._until_s if self.calls < enough else self._enough_s):
                break
        self._rare = max(0, min(max(_FEW, self.calls // _RARE), self.calls // arguments.count - 1))
        return self.calls > 0

    def _time_is_up(self):
        """Tell whether the time is up. From then on nothing is observed, and the user's call goes on normally."""
        if time.monotonic() > self._until_s:
            self._is_over = True
            self._book()
            sys.setprofile(None)
            sys.settrace(None)
        return self._is_over

    def _now(self):
        return time.perf_counter_ns(), self._recorder.times()[0]

    def _book(self):
        wall_ns, held_ns = self._now()
        if self._at is not None:
            booked = self._booked.get(self._at)
            if booked is None:
                booked = self._booked[self._at] = _Booked()
            took_ns = wall_ns - self._last[0]
            # The thread may lose its core between the two readings of _now().
            kept_ns = min(took_ns, held_ns - self._last[1])
            queued_ns = min(took_ns, self._queued()) if took_ns >= _NOTED_NS else 0
            booked.own_ns += took_ns - queued_ns
            booked.add(took_ns, kept_ns, calm=queued_ns <= took_ns * _CALM)
            if self._at[2]:
                # A C call may have let go of the GIL between two holds.
                hold_ns = min(self._recorder.longest()[0], took_ns)
            else:
                # One visit of a line, or a part of one visit.
                booked.calls += 1
                hold_ns = kept_ns
            if hold_ns >= _NOTED_NS:
                booked.long_ns.append(hold_ns - queued_ns)
            elif hold_ns > booked.short_ns:
                booked.short_ns = hold_ns
        self._last = wall_ns, held_ns

    def _queued(self):
        """Return for how long the thread has waited for a core since it was asked last; the profile may take longer by that."""
        before_ns, self._queued_ns, self._queued_at_ns = self._queued_ns, proc.queued_ns(), time.perf_counter_ns()
        waited_ns = self._queued_ns - before_ns
        self._until_s = min(self._latest_s, self._until_s + waited_ns / 1e9)
        return waited_ns

    def _resume(self):
        """Restart the clocks, so that the cost of observing is booked to no place."""
        if time.perf_counter_ns() - self._queued_at_ns > _STALE_NS:
            self._queued()
        if self._at is not None and self._at[2]:
            self._recorder.longest()
        self._last = self._now()

    def _profile(self, frame, event, arg):
        # Our frames call the function, and then sys.setprofile(): at that call, the time of a function in C is booked.
        ours = frame.f_code.co_filename.startswith(_OURS)
        if self._is_over or (not ours and self._time_is_up()):
            return
        if event == "c_call":
            self._book()
            place = self.own if ours else (frame.f_code.co_filename, frame.f_lineno, _name(arg))
            if not ours:
                self._booked.setdefault(place, _Booked()).calls += 1
                self._origin(place, frame)
                self.codes[id(frame.f_code)] = frame.f_code
                self.calls_at[id(frame.f_code), frame.f_lasti] = place
            self._stack.append((self._at, place, frame))
            self._at = place
            self._resume()
        elif event in ("c_return", "c_exception"):
            self._book()
            if self._stack:
                self._at = self._stack.pop()[0]
            self._resume()

    def _origin(self, place, frame):
        """Note the lines that led to a place, from the innermost frame outwards."""
        if place in self._origins:
            return
        trail = []
        while frame is not None and len(trail) < 60:
            name = frame.f_code.co_filename
            if name.startswith(_OURS):
                break
            trail.append("%s:%d" % (name, frame.f_lineno))
            frame = frame.f_back
        self._origins[place] = trail

    def _trace(self, frame, event, arg):
        if frame.f_code.co_filename.startswith(_OURS):
            return None
        if self._is_over or self._time_is_up():
            return None
        self._book()
        if event in ("line", "call"):
            self._at = (frame.f_code.co_filename, frame.f_lineno, "")
            self.codes[id(frame.f_code)] = frame.f_code
            if self._at not in self._origins:
                self._origin(self._at, frame)
        elif event == "return":
            back = frame.f_back
            if self._stack and self._stack[-1][2] is back:
                self._at = self._stack[-1][1]
            else:
                ours = back is None or back.f_code.co_filename.startswith(_OURS)
                self._at = self.own if ours else (back.f_code.co_filename, back.f_lineno, "")
        self._resume()
        return self._trace

    def places(self, shares=None, *, whole=True):
        """Return the places that took most, as dicts, and sums over all places; times are in seconds over all observed calls.

        The sums are `took`, of the shares or else of the times, and `released`, the part of it without the GIL.

        `shares` has the shares of the samples by place, if there are any. If whole calls were observed, a place that only
        the samples have is a line of Python that holds the GIL; else it may not have been reached, and its share is all
        that is known.
        """
        found = []
        for place in shares or ():
            self._booked.setdefault(place, _Booked())
        took = {place: booked.own_ns / 1e9 for place, booked in self._booked.items()}
        if shares is not None:
            took = {place: shares.get(place, 0.0) for place in took}
        released = {place: _released(place, booked) for place, booked in self._booked.items()}
        sums = {"took": sum(took.values()), "released": sum(took[place] * released[place] for place in took)}
        for place in sorted(took, key=lambda one: -took[one])[:_MOST_PLACES]:
            booked = self._booked[place]
            file, line, name = place
            longest_ns = max([booked.short_ns, *sorted(booked.long_ns, reverse=True)[self._rare : self._rare + 1]])
            found.append(
                {
                    "file": file,
                    "line": line,
                    "call": name,
                    "calls": booked.calls,
                    "wall_s": booked.own_ns / 1e9,
                    "held_s": booked.own_ns / 1e9 * (1 - released[place]),
                    "longest_s": longest_ns / 1e9,
                    "trail": self._origins.get(place, []),
                    "share": None if shares is None else took[place],
                    "reached": whole or booked.own_ns > 0,
                }
            )
        return found, sums


def _released(place, booked):
    """Return the share of a place's time without the GIL."""
    held = booked.held() if booked.own_ns else 1.0
    return 0.0 if held >= _ALL and not place[2] else 1 - held


def _place_of(function):
    """Return the place of a function in C, which has no line; None if the function is in Python.

    Not every such call is told to a profiler: none is of a function of Cython, nor what `functools.partial` calls.
    """
    while isinstance(function, (functools.partial, types.MethodType)):
        function = function.func if isinstance(function, functools.partial) else function.__func__
    if isinstance(function, types.FunctionType) or isinstance(type(function).__call__, types.FunctionType):
        return None
    return "", 0, _name(function)


def _name(function):
    """Return a C function's name for users: "re.Pattern.sub", "zlib.compress"."""
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", type(function).__name__)
    module = getattr(function, "__module__", None)
    owner = getattr(function, "__self__", None)
    if not module:
        kind = owner if isinstance(owner, type) else type(owner)
        if owner is not None:
            module = getattr(kind, "__module__", "")
            if "." not in name:
                name = "%s.%s" % (getattr(kind, "__name__", "?"), name)
    elif owner is not None and not isinstance(owner, (type, types.ModuleType)):
        # A method has no module of its own: pybind11 binds an internal object to each function of a module.
        name = getattr(function, "__name__", name)
    return name if module in (None, "", "builtins") else "%s.%s" % (module, name)
