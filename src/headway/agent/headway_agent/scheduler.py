"""Schedules the GIL of this process by a policy.

`headway run`, `headway.schedule()` and the lab use this module; native/engine is the scheduler itself. Any unexpected
condition raises `UnfitError`, and the program goes on under CPython's own behaviour.
"""

import os
import sys

from .library import LEASE_SCHEDULE, UnfitError, errno_name, gil_enabled, leased, load, say

__all__ = ["COUNTS", "Scheduler", "attach", "detach", "options_text", "start_from_environment"]

COUNTS = (
    "acquires",
    "asked",
    "granted",
    "barged",
    "graced",
    "idle_ns",
    "wait_ns",
    "worst_wait_ns",
    "threads",
    "without",
    "rests",
    "early",
    "early_wait_ns",
    "early_elsewhere",
)
"""The fields of struct hw_schedule_counts (native/include/headway/schedule.h)."""

_PROBLEMS = {
    "EALREADY": "a policy is already active",
    "ENOENT": "the interpreter's _PyRuntime cannot be found",
    "ENXIO": "the interpreter is linked statically: its calls of pthread_cond_* cannot be hooked",
    "EPROTO": "the GIL is not at the place where this CPython should have it",
    "ETIMEDOUT": "this thread does not hold the main interpreter's GIL: start from the main interpreter",
}


def options_text(options):
    """Return options in the library's format: {"slice_us": 500} is "slice_us=500"."""
    return " ".join("%s=%s" % pair for pair in options.items())


class Scheduler:
    """The scheduler of this process. All objects share one policy."""

    def __init__(self, library):
        """Load the shared library. Raises UnfitError."""
        self._library = load(library)

    def start(self, policy, options=""):
        """Start a policy: a name, or the path of a library; return its number. Raises UnfitError."""
        return self._with(self._library.schedule, policy, options)

    def check(self, policy, options=""):
        """Raise UnfitError if the policy or an option does not exist, or there is no GIL; change nothing."""
        self._with(self._library.check_policy, policy, options)

    def _with(self, function, policy, options):
        if not gil_enabled():
            raise UnfitError(
                "this interpreter runs without a GIL, and one that an extension module switches on later stays without a policy"
            )
        try:
            error, problem, number = function(os.fsencode(policy), os.fsencode(options))
        except ValueError as unfit:  # a NUL
            raise UnfitError("%r: %s" % (policy, unfit))
        if error:
            name = errno_name(-error)
            text = os.fsdecode(problem) or _PROBLEMS.get(name) or os.strerror(-error)
            raise UnfitError(text)
        return number

    def stop(self, number=0):
        """Restore CPython's own behaviour; return whether a policy was active. A number spares every other policy."""
        return self._library.unschedule(number) == 0

    @property
    def active(self):
        """The name of the active policy; "" if there is none, or the watchdog has removed it."""
        return os.fsdecode(self._library.scheduled()[0])

    @property
    def number(self):
        """The number of the active policy, as start() returned it; 0 if there is none."""
        return self._library.scheduled()[1]

    def hint(self, priority, urgent):
        """Set the calling thread's priority. Raises UnfitError, and ValueError for a priority that is out of range."""
        if not -20 <= priority <= 19:
            raise ValueError("priority is %r, expected -20 to 19" % (priority,))
        error = self._library.hint(priority, int(urgent))
        if error:
            raise UnfitError(os.strerror(-error))

    def counts(self, number=0):
        """Return the counts at the main GIL under the last policy, as a dict; {} if there was none.

        With a number, return {} also if the last policy has another one.
        """
        packed = self._library.counts(number)
        return dict(zip(COUNTS, memoryview(packed).cast("q").tolist())) if packed else {}

    def gainer(self):
        """Return the id of the living thread with the most early requests for its sake (0: none), and their number."""
        return self._library.gainer()


def _named(thread):
    """Return the name of a living thread, by its native id."""
    import threading

    if thread == os.getpid():  # a forked child of older CPythons gives its parent's id
        return threading.main_thread().name
    for one in threading.enumerate():
        if getattr(one, "native_id", None) == thread:
            return one.name
    return "thread %d" % thread


def told(policy, counts, interval_s, gainer="", most=0, *, is_on=True):
    """Describe in a sentence what a policy did. `gainer` is the living thread with the most early requests, `most`."""
    policy = policy if is_on else "%s, which is no longer active," % policy
    elsewhere = counts.get("early_elsewhere", 0)
    if not elsewhere:
        return _told_of_main(policy, counts, interval_s, gainer, most, is_on=is_on)
    if not counts.get("early", 0) and not counts.get("asked", 0):
        return (
            "%s requested the GILs of other interpreters early %s times, and the GIL of the main interpreter never"
            % (
                policy,
                format(elsewhere, ","),
            )
        )
    return "%s; the GILs of other interpreters were requested early %s times" % (
        _told_of_main(policy, counts, interval_s, gainer, most, is_on=is_on),
        format(elsewhere, ","),
    )


def _told_of_main(policy, counts, interval_s, gainer, most, *, is_on):
    """Describe in a sentence what a policy did at the GIL of the main interpreter, of which the other counts are."""
    early, asked = counts.get("early", 0), counts.get("asked", 0)
    if not early and asked:
        return "%s requested the GIL %s times, never earlier than CPython would have" % (policy, format(asked, ","))
    if not early and not is_on:
        return "%s never requested the GIL" % policy
    worst_s = counts.get("worst_wait_ns", 0) / 1e9
    # `stock`, too, would have requested the GIL: it is a policy of the user's own.
    if not early and worst_s > interval_s:
        return "%s never requested the GIL; the longest wait for the GIL of the main interpreter that ended was %s" % (
            policy,
            _duration(worst_s),
        )
    if not early:
        return "%s had nothing to do: it saw no long wait for the GIL of the main interpreter" % policy
    # Only threads that live are known: the one with the most requests may have ended, and then no name is right.
    mostly = ", most often for %s (%s)" % (gainer, format(most, ",")) if 2 * most > early else ""
    wait_s = counts["early_wait_ns"] / early / 1e9
    return (
        "%s requested the GIL early %s times%s: these waits took %s on average; CPython would have requested the "
        "GIL only when one thread had held it for a switch interval of the wait (%s now); no wait that ended was longer than %s"
        % (policy, format(early, ","), mostly, _duration(wait_s), _duration(interval_s), _duration(worst_s))
    )


def _duration(value_s):
    return "%.3g s" % value_s if value_s >= 1 else "%.3g ms" % (value_s * 1e3)


def _is_resource_tracker():
    """Tell whether this process is Python's own, which removes what other processes leave behind."""
    main = getattr(sys.modules.get("__main__"), "main", None)
    return getattr(main, "__module__", "") == "multiprocessing.resource_tracker"


def _tell_at_end(scheduler, policy, number):
    """Call `_tell()` at the end of this process, and of each process that it forks.

    A child of `multiprocessing` ends by `os._exit()` after its finalizers, which it forgets at its begin
    (BaseProcess._bootstrap() in Lib/multiprocessing/process.py), and calls what is to run after a fork.
    """
    import atexit

    def finalize(_):
        sys.modules["multiprocessing.util"].Finalize(None, _tell, (scheduler, policy, number), exitpriority=-100)

    registered = []  # its copy in a forked process is of the registry's copy there

    def forked():
        util = sys.modules.get("multiprocessing.util")
        if util is not None and not registered:
            registered.append(True)
            util.register_after_fork(finalize, finalize)

    atexit.register(_tell, scheduler, policy, number)
    os.register_at_fork(after_in_child=forked)


def _tell(scheduler, policy, number):
    if _is_resource_tracker():
        return
    thread, most = scheduler.gainer()
    is_on = scheduler.number == number
    counts = scheduler.counts(number)
    if counts:
        name = _named(thread) if thread else ""
        say("process %d: %s" % (os.getpid(), told(policy, counts, sys.getswitchinterval(), name, most, is_on=is_on)))
    elif not is_on:
        say("process %d: %s is no longer active: another policy has replaced it" % (os.getpid(), policy))


def start_from_environment():
    """Schedule this process as the environment says; if that fails, print the reason in one line on stderr.

    Environment: HEADWAY_POLICY and HEADWAY_POLICY_OPTIONS ("slice_us=500 ..."); HEADWAY_SWITCH_INTERVAL in seconds;
    HEADWAY_NATIVE, the shared library; HEADWAY_WHY: the process prints at its end what the policy did.
    """
    try:
        interval = os.environ.get("HEADWAY_SWITCH_INTERVAL")
        if interval:
            sys.setswitchinterval(float(interval))
        policy = os.environ.get("HEADWAY_POLICY")
        if policy:
            scheduler = Scheduler(os.environ["HEADWAY_NATIVE"])
            number = scheduler.start(policy, os.environ.get("HEADWAY_POLICY_OPTIONS", ""))
            if os.environ.get("HEADWAY_WHY"):
                _tell_at_end(scheduler, scheduler.active or policy, number)
    except (UnfitError, KeyError, ValueError, OSError) as error:
        say("process %d is not scheduled: %s" % (os.getpid(), error))


def attach(library, policy, options):
    """Start a policy in this process, as long as a lease is renewed.

    Returns the name of the policy that was active before, and the lease's descriptor. Raises UnfitError.
    """
    scheduler = Scheduler(library)
    scheduler.check(policy, options)  # if it fails, the present policy stays
    before = scheduler.active
    # To stop also ends a policy that an ended client has left behind.
    lease = leased(scheduler._library, LEASE_SCHEDULE, scheduler.stop, lambda: scheduler.start(policy, options))
    return before, (lease,)


def detach(library):
    """Stop the policy, whoever started it; return a description of the policy, or "" for none."""
    scheduler = Scheduler(library)
    before = scheduler.active
    scheduler.stop()
    return "the policy %s" % before if before else ""
