"""Calls a user's function again after its first call: what further calls take, change and give.

A call with each input comes first. Each input is then compared with its pickle, and the state of the process with that of
before: the first input alone may be one of which a call makes nothing, as an empty list.
"""

import os
import time

from .. import proc
from . import calls, pools
from .failed import FailedError, said, where_of
from .supply import dumped
from .timed import Clock, by_others, computing, cores

__all__ = ["again", "next_of", "pickle_of", "timed_call"]

_CALLS_S, _EACH_S = 0.4, 2.0
"""The time for timed calls, and the most time for a first call with each input."""
_MOST_CALLS = 20
_NEAR = 0.25
"""An input whose calls take the mean time of all inputs, but for this share, stands for them."""
_LOCKS_S, _LONG_S = 0.1, 2.0
"""The time for calls with watched locks, and the mean time from which on no further call is made for them."""


def pickle_of(value):
    """Return (bytes, seconds there and back, error): the cost of sending a value to another process."""
    try:
        return calls.sent(value) + ("",)
    except BaseException as error:
        return 0, 0.0, said(error)


def timed_call(task, args, talk, about="", which=0):
    """Call the function; return its result and its times. `which` is the number of the input, from 1."""
    pid = os.getpid()
    clock = Clock()
    try:
        result = task(*args)
    except BaseException as error:
        talk.give("call", error=said(error), where=where_of(error), about=about, which=which)
        raise FailedError from error
    finally:
        if os.getpid() != pid:
            # A child that the call has forked has returned from the call, too, and must not go on like its parent.
            talk.give("call", error="it forks, and its child comes back from the call, too")
            os._exit(0)
    return result, clock.took()


def again(talk, effects, task, supply, first_result, watch):
    """Repeat the call: with the same arguments, to compare results; with all inputs, to time the calls; for its locks.

    `supply` has the arguments of each call. `watch` begins to watch the locks.
    """
    talk.begin("again")
    size, pickle_s, pickle_error = pickle_of(first_result)
    first_dumped = dumped(first_result)
    _check(supply.used_up(), talk)
    args = next_of(supply, 0, talk)
    effects.unseen(proc.forget_peak)  # it writes to a file
    before_bytes = proc.resident("self")[0]
    result, second = timed_call(task, args, talk)
    # The comparisons of `effects` need memory of their own.
    peak_bytes = max(0, proc.max_rss_bytes() - before_bytes)
    if effects.leave_processes():
        talk.give("again", error="it leaves a process behind with each call", about="leaves")
        raise FailedError
    differs = _differ(result, first_result, first_dumped)
    if differs:
        _check(effects.apart(lambda: supply.used_up(second)), talk)
    if differs and effects.apart(supply.may_have_been):
        # With new arguments the result is that of the first call: the arguments have made the difference.
        result, renewed = timed_call(task, supply.renewed(), talk)
        if not _differ(result, first_result, first_dumped):
            supply.begin_new()
            differs, second = False, renewed
    returns_nothing = result is None and first_result is None
    del result, first_result
    times, begun_s = [second], time.monotonic()
    # The first input may be an empty one, of which a call makes nothing.
    nothing = _call_each(talk, task, supply, times, effects.unseen)
    effects.called_once()
    seen = effects.end()
    if supply.has_changed(len(times)):
        supply.begin_new()
        times, begun_s = [], time.monotonic()
        _call_each(talk, task, supply, times)
    nothing &= _call_more(talk, task, supply, times, begun_s + _CALLS_S)
    returns_nothing = returns_nothing and nothing
    if supply.changes:
        seen.append(["arguments", "changes its arguments: each sample has new ones"])
    mean_s = sum(one.wall_s for one in times) / len(times)
    talk.give(
        "again",
        mean_s=mean_s,
        second_s=second.own_s,
        own_s=sum(one.own_s for one in times) / len(times),
        cpu_share=computing(times),
        cores=cores(times),
        by_others=by_others(times),
        pools=pools.loaded(),
        result_bytes=size,
        peak_bytes=peak_bytes,
        result_pickle_s=pickle_s,
        result_pickle_error=pickle_error,
        differs=differs,
        returns_nothing=returns_nothing,
        effects=seen,
        changes_arguments=supply.changes,
        anew_s=supply.anew_s,
        typical=supply.which(_typical([one.own_s for one in times], supply.count)),
        locks=_taken(task, supply.next, watch) if mean_s < _LONG_S else [],
    )


def _typical(times_s, count):
    """Return the place of a call whose input takes about the mean of all inputs; that of the first if it is near enough."""
    each_s = [times_s[place::count] for place in range(min(count, len(times_s)))]
    each_s = [sum(one) / len(one) for one in each_s]
    mean_s = sum(each_s) / len(each_s)
    off_s = [abs(one - mean_s) for one in each_s]
    return 0 if off_s[0] <= _NEAR * mean_s else off_s.index(min(off_s))


def _call_each(talk, task, supply, times, unseen=lambda make: make()):
    """Call the function with each input that has not been timed, within a time; return whether all results are None.

    If the time is not enough for all, the inputs that had a call are spread over all. `unseen` calls what makes the
    arguments.
    """
    nothing, until_s = True, time.monotonic() + _EACH_S
    while len(times) < supply.count and time.monotonic() <= until_s:
        args = unseen(lambda: next_of(supply, len(times), talk))
        which = supply.which(len(times)) + 1 if supply.count > 1 else 0
        if which > 1:
            talk.begin("again", which)
        result, took = timed_call(task, args, talk, which=which)
        nothing = nothing and result is None
        times.append(took)
    return nothing


def _call_more(talk, task, supply, times, until_s):
    """Call the function again and again until a time; return whether all results are None."""
    nothing = True
    while time.monotonic() <= until_s and len(times) < 1000 * _MOST_CALLS:
        args = next_of(supply, len(times), talk)
        which = supply.which(len(times)) + 1 if supply.count > 1 else 0
        result, took = timed_call(task, args, talk, which=which)
        nothing = nothing and result is None
        del result
        times.append(took)
    return nothing


def next_of(supply, place, talk):
    """Return the arguments of a call by its place in a row of calls."""
    try:
        return supply.next(place)
    except (Exception, SystemExit) as error:  # of the user's function of inputs
        talk.give("again", error="its arguments cannot be made anew: %s" % said(error), about="used up")
        raise FailedError from error


def _check(used_up, talk):
    if used_up:
        talk.give("again", error=used_up, about="used up")
        raise FailedError


def _differ(result, first_result, first_dumped):
    """Tell whether a result differs from the first one, which has this pickle."""
    try:
        # The pickles must differ, too: NaN, and objects without a value of their own, are not equal to themselves.
        return not bool(result == first_result) and first_dumped not in (None, dumped(result))
    except Exception:
        return False  # the comparison of arrays and the like gives no single bool


def _taken(task, next_arguments, watch):
    """Return the locks that calls take (`Locks.over`); none if the function does not bear that they are watched."""
    try:
        locks = watch()
        wall_ns, until_s = 0, time.monotonic() + _LOCKS_S
        for place in range(_MOST_CALLS if locks.watched else 0):
            args = next_arguments(place)
            begun_ns = time.perf_counter_ns()
            task(*args)
            wall_ns += time.perf_counter_ns() - begun_ns
            if time.monotonic() > until_s:
                break
        return locks.over(wall_ns)
    except BaseException:
        return []
